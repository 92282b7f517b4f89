# SPDX-License-Identifier: Apache-2.0
"""Writes the JavaScript that report pages hold, charts.js and layout.js, into a folder: Vega, Vega-Lite and Vega-Embed
from the package vl-convert-python, dagre from netron. A file is empty where its package isn't installed."""
import importlib.util
import pathlib
import re
import sys


def charts():
    """Defines window.vegaEmbed."""
    try:
        import vl_convert
    except ImportError:
        return ""
    bundle = vl_convert.javascript_bundle()
    title = f"/* Vega {vl_convert.get_vega_version()}, Vega-Embed {vl_convert.get_vega_embed_version()}: BSD-3-Clause */\n"
    return title + "(() => {" + bundle + "})();\n"


def layout():
    """Defines window.dagre."""
    spec = importlib.util.find_spec("netron")
    if spec is None:
        return ""
    text = (pathlib.Path(spec.origin).parent / "dagre.js").read_text(encoding="utf-8")
    text, found = re.subn(r"^export const .*$", "window.dagre = dagre;", text, flags=re.MULTILINE)
    if found != 1:
        raise SystemExit("page_libraries: netron's dagre.js isn't the module that was expected")
    return "/* dagre (netron): MIT */\n(() => {" + text + "})();\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("charts.js", charts()), ("layout.js", layout())):
        if "</script" in text.lower() or "<!--" in text:
            text = re.sub(r"</(script)", r"<\\/\1", text, flags=re.IGNORECASE).replace("<!--", r"<\!--")
        (folder / name).write_text(text, encoding="utf-8")


main()
