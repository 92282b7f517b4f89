# SPDX-License-Identifier: Apache-2.0
"""What quantisation did to each layer, and to the model's results."""
import math
from typing import Any


def _number(value, form):
    if value is None:
        return "-"
    return "inf" if math.isinf(value) else form % value


def as_text(report: Any) -> str:
    """A table, the layers that lost most first; a sentence if there are no layers."""
    if not report["layers"] and not report["kept_float"]:
        kinds = "convolution or product" if report["mode"] == "static" else "product"
        return f"nothing was quantised: the model has no {kinds} with constant weights"
    rows = sorted(report["layers"], key=lambda r: min(r.get("input_sqnr", math.inf), r["weight_sqnr"]))
    total = sum(r["macs"] for r in report["layers"]) + sum(k["macs"] for k in report["kept_float"])
    lines = [f"{'layer':40} {'op':8} {'bits':>4} {'weight dB':>9} {'input dB':>9} {'clipped':>8} {'work':>6}"]
    for r in rows:
        clipped = "-" if r.get("clipped") is None else "%.2f%%" % (100 * r["clipped"])
        work = "%.1f%%" % (100 * r["macs"] / total) if total else "-"
        lines.append(f"{r['name'][:40]:40} {r['op']:8} {r['bits']:4} {_number(r['weight_sqnr'], '%.1f'):>9} "
                     f"{_number(r.get('input_sqnr'), '%.1f'):>9} {clipped:>8} {work:>6}")
    for kept in report["kept_float"]:
        lines.append(f"{kept['name'][:40]:40} {kept['op']:8} float: {kept['why']}")
    for name, value in report["outputs"].items():
        lines.append(f"output {name}: {_number(value, '%.1f')} dB beside the float model")
    return "\n".join(lines)


def as_json(report: Any) -> Any:
    """The report with infinite ratios as null, which JSON has no number for."""
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value
    return plain(report)
