# SPDX-License-Identifier: Apache-2.0
"""Self-contained HTML report pages. `Model.report` writes a page about a model; this module writes custom ones.

>>> import os, tempfile, treadle.report
>>> times = treadle.report.table("Times", ["engine", "ms"], [["treadle", 1.5], ["other", 2.5]])
>>> bars = treadle.report.chart("Bars", {
...     "data": {"values": [{"engine": "treadle", "ms": 1.5}, {"engine": "other", "ms": 2.5}]}, "mark": "bar",
...     "encoding": {"x": {"field": "ms", "type": "quantitative"}, "y": {"field": "engine"}}})
>>> with tempfile.TemporaryDirectory() as folder:
...     treadle.report.write(folder + "/page.html", "Engines", [times, bars])
...     os.listdir(folder)
['page.html']
"""
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._ffi import Api
from .error import DTypeError, Error

__all__ = ["advice", "chart", "facts", "graph", "table", "write"]

_api = Api("report")

Section = Mapping[str, Any]


def facts(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> dict[str, Any]:
    """Names with values."""
    return {"kind": "facts", "title": title, "note": note, "rows": [[str(name), str(value)] for name, value in rows]}


def advice(title: str, items: Iterable[str], note: str = "") -> dict[str, Any]:
    """A numbered list of sentences; `code` between backquotes."""
    return {"kind": "advice", "title": title, "note": note, "items": list(items)}


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> dict[str, Any]:
    """Rows of numbers and texts, which can be sorted and filtered. Error if rows differ in length."""
    cells = [list(row) for row in rows]
    for i, row in enumerate(cells):
        if len(row) != len(columns):
            raise Error(f"table '{title}': row {i} has {len(row)} cells, there are {len(columns)} columns")
    return {"kind": "table", "title": title, "note": note, "columns": list(columns), "rows": cells}


def chart(title: str, spec: Mapping[str, Any], note: str = "") -> dict[str, Any]:
    """A chart as a Vega-Lite specification (https://vega.github.io/vega-lite) with data; as wide as the page."""
    if not isinstance(spec, Mapping):
        raise DTypeError(f"chart '{title}': expected a dict (a specification of Vega-Lite), got {type(spec).__name__}")
    return {"kind": "chart", "title": title, "note": note, "spec": dict(spec)}


def graph(title: str, nodes: Iterable[Mapping[str, Any]], edges: Iterable[Sequence[str]], note: str = "") -> dict[str, Any]:
    """A directed graph in layers. A node: id, title, and where known subtitle, weight (0 to 1: its colour), members
    (texts that it shows when opened), details (pairs of name and text). An edge: two ids."""
    return {"kind": "graph", "title": title, "note": note, "nodes": [dict(node) for node in nodes],
            "edges": [list(edge) for edge in edges]}


def write(path: "str | os.PathLike[str]", title: str, sections: Iterable[Section], subtitle: str = "") -> None:
    """Writes the page, completely or not at all. Errors: treadle.Error for invalid sections and for paths that cannot
    be written."""
    page = {"title": title, "subtitle": subtitle, "sections": list(sections)}
    _api.WritePage(os.fspath(path), json.dumps(_finite(page), allow_nan=False))


def _finite(value):
    """JSON has no NaN and no infinities: they become null, which charts leave out."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's
        return _finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
