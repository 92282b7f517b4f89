# SPDX-License-Identifier: Apache-2.0
"""Benchmark results as one page (treadle.report): times, costs, the slowest kernels, bars and rooflines."""
import treadle.report

COLOURS = {"treadle": "#2a8f5f", "onnxruntime": "#3b6fb6", "openvino": "#c77a1e"}


def threads_text(count):
    return "1 thread" if count == 1 else f"{count} threads"


def speed_text(name, entry):
    """A line on an entry of run.speeds."""
    return (f"{name}, {entry['rows']} {entry['kind']} on {threads_text(entry['threads'])}: {entry['mean']:.2f}x in the "
            f"geometric mean, least {entry['least']:.2f}x ({entry['worst']})")


def _engine(row, name):
    return row["engines"].get(name, {})


def _ratio(row, name):
    """How many times as long as Treadle the peer takes; None where either has no time."""
    ours, theirs = _engine(row, "treadle"), _engine(row, name)
    if "median_ms" not in ours or "median_ms" not in theirs:
        return None
    return theirs["median_ms"] / ours["median_ms"]


def _colours(names):
    return {"domain": names, "range": [COLOURS.get(name, "#888") for name in names]}


def _facts(result):
    machine, bandwidth = result["machine"], result.get("bandwidth_gb_s", {})
    rows = [("processor", f"{machine['cpu']}, {machine['cores']} cores; {machine['system']}; load {machine['load']:.1f}")]
    rows += [(f"limits on {threads_text(count)}",
              f"{value:.0f} GFLOP/s of float32, {bandwidth.get(count, 0):.1f} GB/s read")
             for count, value in result["fma_peak_gflops"].items()]
    rows += [(name, version) for name, version in result["versions"].items()]
    rows += [("speed of Treadle over", speed_text(name, entry))
             for name, entries in result["speeds"].items() for entry in entries]
    for name, ratio in result.get("cost_ratios", {}).items():
        rows.append((f"loading, memory over {name}",
                     f"loads {ratio['load']:.1f} times as fast (least {ratio['load_least']:.1f}), "
                     f"with {ratio['memory']:.2f} of its peak memory (most {ratio['memory_most']:.2f})"))
    return treadle.report.facts("What was measured", rows, note=(
        "All engines in one process, taking turns; float32 throughout; outputs compared first (rtol 1e-3, atol 1e-5 of the "
        "output's range). Times are medians. Load: from a file to the first possible run."))


def _speed_chart(result, peers, threads):
    values = [{"model": row["model"], "peer": name, "speed": ratio} for row in result["rows"] if row["threads"] == threads
              for name in peers if (ratio := _ratio(row, name)) is not None]
    if not values:
        return []
    return [treadle.report.chart(f"Speed over the peers', {threads_text(threads)}", {
        "data": {"values": values}, "height": {"step": 12},
        "encoding": {"y": {"field": "model", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 320}}},
        "layer": [
            {"mark": {"type": "bar", "tooltip": True}, "encoding": {
                "x": {"field": "speed", "type": "quantitative", "title": "times as fast as the peer"},
                "yOffset": {"field": "peer"},
                "color": {"field": "peer", "scale": _colours(peers), "legend": {"orient": "top", "title": None}}}},
            {"mark": {"type": "rule", "color": "#888"}, "encoding": {"x": {"datum": 1}, "y": None}}]},
        note="Right of the line Treadle is faster.")]


def _roofline_chart(result, names, threads):
    peak, bandwidth = result["fma_peak_gflops"].get(threads), result.get("bandwidth_gb_s", {}).get(threads)
    points = [{"model": row["model"], "engine": name, "intensity": row["flops"] / row["bytes"],
               "rate": _engine(row, name)["gflops"]} for row in result["rows"] for name in names
              if row["threads"] == threads and row.get("bytes") and row["flops"] > 0.1 * row["bytes"]
              and _engine(row, name).get("gflops")]  # others do what isn't counted: recurrent layers
    if not points or not peak or not bandwidth:
        return []
    ends = [min(point["intensity"] for point in points) / 2, max(point["intensity"] for point in points) * 2]
    knee = min(max(peak / bandwidth, ends[0]), ends[1])
    roof = [{"intensity": x, "rate": min(peak, bandwidth * x)} for x in sorted({*ends, knee})]
    axes = {"x": {"field": "intensity", "type": "quantitative", "scale": {"type": "log"},
                  "title": "operations per byte that must be moved"},
            "y": {"field": "rate", "type": "quantitative", "scale": {"type": "log"}, "title": "GFLOP/s"}}
    ours = [point for point in points if point["engine"] == "treadle"]
    return [treadle.report.chart(f"Roofline, {threads_text(threads)}", {
        "height": 420, "layer": [
            {"data": {"values": roof}, "mark": {"type": "line", "color": "#888"}, "encoding": axes},
            {"data": {"values": points},
             "mark": {"type": "point", "filled": True, "size": 60, "tooltip": {"content": "data"}},
             "params": [{"name": "zoom", "select": "interval", "bind": "scales"}],
             "encoding": {**axes, "color": {"field": "engine", "scale": _colours(names),
                                            "legend": {"orient": "top", "title": None}}}},
            {"data": {"values": ours}, "mark": {"type": "text", "align": "left", "dx": 6, "angle": -35, "fontSize": 9},
             "encoding": {**axes, "text": {"field": "model"}}}]},
        note="Points are models, named where Treadle's are on wide screens, and when touched (the wheel zooms); the line is what the machine allows.")]


def _times(result, names, peers):
    def cells(row, name):
        entry = _engine(row, name)
        if "median_ms" not in entry:
            return entry.get("error", "failed") if entry else ""
        return entry["median_ms"]

    columns = ["model", "threads", "GFLOP", *(f"{name}, ms" for name in names), *(f"times {name}" for name in peers),
               "of peak", "of bandwidth"]
    rows = [[row["model"], row["threads"], row["flops"] / 1e9, *(cells(row, name) for name in names),
             *(_ratio(row, name) for name in peers), _engine(row, "treadle").get("of_peak"),
             _engine(row, "treadle").get("of_bandwidth")] for row in result["rows"]]
    return treadle.report.table("Times", columns, rows, note="Peers' times over Treadle's: above 1 Treadle is faster.")


def _costs(result, names):
    fields = {"compile_s": "compile s", "compile_memory_mb": "compile MB", "artefact_mb": "artefact MB",
              "load_s": "load s", "memory_mb": "peak MB"}
    rows = [[row["model"], row["threads"], name, *(costs.get(key) for key in fields)] for row in result["rows"]
            for name in names if (costs := _engine(row, name).get("costs"))]
    note = "Each in a process of its own. Peak memory: above that before loading, over three runs."
    columns = ["model", "threads", "engine", *fields.values()]
    return [treadle.report.table("Compiling, loading, memory", columns, rows, note)] if rows else []


def _operators(result):
    rows = [[row["model"], row["threads"], name, ms, share, of_peak] for row in result["rows"]
            for name, ms, share, of_peak in row.get("operators") or []]
    note = ("The least of five profiled runs. Share of the peak: multiply-adds of the operators as they are defined; "
            "Winograd's method takes fewer, and can be above it.")
    return [treadle.report.table("Slowest kernels of Treadle", ["model", "threads", "kernel", "ms", "share", "of FMA peak"],
                                 rows, note)] if rows else []


def _precision(result):
    names = [name for name in ("treadle", "onnxruntime", "openvino")
             if any(name in row["ms"] for row in result.get("precision") or [])]
    rows = [[row["name"], row["threads"], *(row["ms"].get(name) for name in names), row["decibels"]]
            for row in result.get("precision") or []]
    note = ("Milliseconds, every engine at the same precision; OpenVINO's default where it is bfloat16. dB: signal to noise of "
            "Treadle's results against ONNX Runtime's.")
    return [treadle.report.table("Precisions", ["model", "threads", *names, "dB"], rows, note)] if rows else []


def _product(result):
    gemm = result.get("gemm")
    if not gemm:
        return []
    rows = [[step["name"], step["gflops"], step["of_peak"] * 100] for step in gemm["steps"]]
    return [treadle.report.table(f"Matrix product {gemm['n']} x {gemm['n']} x {gemm['n']} as a tensor expression",
                                 ["schedule", "GFLOP/s", "% of peak"], rows,
                                 f"One core; peak {gemm['peak']:.1f} GFLOP/s. Each step adds to the one before.")]


def sections(result):
    """Of run.py's results, or of the JSON that it wrote."""
    result = {**result, **{key: {int(count): value for count, value in result.get(key, {}).items()}
                           for key in ("fma_peak_gflops", "bandwidth_gb_s")}}
    names = list(result["versions"])
    peers = [name for name in names if name != "treadle"]
    charts = [section for count in sorted({row["threads"] for row in result["rows"]})
              for section in _speed_chart(result, peers, count) + _roofline_chart(result, names, count)]
    return [_facts(result), *charts, _times(result, names, peers), *_costs(result, names), *_operators(result),
            *_precision(result), *_product(result)]


def write(path, result):
    """Errors: treadle.Error where this build of Treadle has no libraries to draw pages with."""
    treadle.report.write(path, "Treadle benchmarks", sections(result), result["machine"]["cpu"])
