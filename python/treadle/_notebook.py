# SPDX-License-Identifier: Apache-2.0
"""What notebooks show of models."""
import html
from collections.abc import Iterable
from typing import Any


def table_of(inputs: Iterable[Any], outputs: Iterable[Any]) -> str:
    """A table of TensorInfo, as HTML."""
    rows = [(kind, info.name, info.value_type or info.dtype, ", ".join(map(str, info.shape)))
            for kind, infos in (("input", inputs), ("output", outputs)) for info in infos]
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return ("<table><caption>treadle.Model</caption><tr><th></th><th>name</th><th>type</th><th>shape</th></tr>"
            f"{cells}</table>")
