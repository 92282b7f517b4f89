#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/benchmarks.md, docs/benchmarks.svg and the table of README.md from results of `make bench`:
tools/docs/benchmarks.py build/bench/results.json. The picture needs the package vl-convert-python."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
PEERS = ("onnxruntime", "openvino")
# What README.md shows: images, text in pictures, language, voice.
IN_README = ("light_resnet50", "efficientnet_b0", "ppocrv4_det_1x3x320x480", "bert_base_128", "silero_vad_frame")
MARKED = re.compile(r"(<!-- benchmarks: [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)


def cell(engine, ours=None):
    if "median_ms" not in engine:
        return "fails" if engine else "-"
    time = f"{engine['median_ms']:.3g} ms"
    return time if ours is None else f"{time} ({engine['median_ms'] / ours['median_ms']:.2f} x)"


def rows(result, models=None):
    for row in result["rows"]:
        engines = row["engines"]
        if models is None or row["model"] in models:
            yield [row["model"], str(row["threads"]), cell(engines["treadle"]),
                   *(cell(engines.get(name, {}), engines["treadle"]) for name in PEERS)]


def table(result, models=None):
    versions = result["versions"]
    head = ["model", "threads", "Treadle", f"ONNX Runtime {versions['onnxruntime']}",
            f"OpenVINO {versions['openvino'].split('-')[0]}"]
    return "".join("| " + " | ".join(line) + " |\n" for line in [head, ["---"] * len(head), *rows(result, models)])


def means(result):
    return "".join(f"- over {name}: {entry['mean']:.2f} x in the geometric mean of {entry['rows']} {entry['kind']} on "
                   f"{entry['threads']} thread{'s'[:entry['threads'] != 1]}, least {entry['least']:.2f} x ({entry['worst']})\n"
                   for name, entries in result["speeds"].items() for entry in entries)


def page(result):
    machine = result["machine"]
    return f"""# Benchmark numbers

Written by `tools/docs/benchmarks.py` from results of `make bench`: {machine['cpu']}, {machine['cores']} cores, float32. All engines
in one process, taking turns, after their outputs were compared; medians, and in parentheses how many times as long as
Treadle a peer takes. Your machine: `make bench`, or `treadle bench model.onnx --compare onnxruntime` for one model.

![speed over the peers](benchmarks.svg)

{means(result)}
{table(result)}
"fails": the peer's outputs differ from the reference, or it refuses the model.
"""


def picture(result):
    import report  # of bench
    import vl_convert

    names = [name for name in PEERS if name in result["versions"]]
    threads = min(row["threads"] for row in result["rows"])
    (section,) = report._speed_chart(result, names, threads)
    spec = {"width": 560, "background": "white", "config": {"font": "sans-serif"}, **section["spec"]}
    return vl_convert.vegalite_to_svg(spec)


def main():
    result = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs/benchmarks.md").write_text(page(result), encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    readme = MARKED.sub(lambda found: found[1] + table(result, IN_README) + found[2], readme)
    (folder / "README.md").write_text(readme, encoding="utf-8")
    try:
        (folder / "docs/benchmarks.svg").write_text(picture(result), encoding="utf-8")
    except ImportError:
        print("no picture: the package vl-convert-python isn't installed", file=sys.stderr)


if __name__ == "__main__":
    main()
