# SPDX-License-Identifier: Apache-2.0
"""Benchmark results as one HTML page that needs nothing else: tables, and plots as SVG inside it."""
import html as escape_module
import io

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; color: #222; background: #fff }
table { border-collapse: collapse; width: 100%; margin: 1em 0 } th, td { padding: .3em .6em; text-align: right }
th { border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff } td { border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left } svg { max-width: 100%; height: auto }
.slower { color: #b30 } .faster { color: #070 } .error { color: #b30; font-size: 85% } .small { color: #666; font-size: 85% }
"""
COLOURS = {"treadle": "#2a8f5f", "onnxruntime": "#3b6fb6", "openvino": "#c77a1e"}


def escape(text):
    return escape_module.escape(str(text))


def _table(head, rows):
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead><tbody>{body}</tbody></table>"


def _time_cell(entry):
    if "median_ms" not in entry:
        return f'<td class="error">{escape(entry.get("error", "failed"))}</td>'
    limits = "".join(f", {entry[key]:.0%} of {what}" for key, what in (("of_peak", "peak"), ("of_bandwidth", "bandwidth"))
                     if key in entry)
    return (f'<td>{entry["median_ms"]:.3g}<br><span class="small">{entry["p25_ms"]:.3g} to {entry["p75_ms"]:.3g}, '
            f'{entry["runs"]} runs{limits}</span></td>')


def _ratio_cell(ours, theirs):
    if "median_ms" not in ours or "median_ms" not in theirs:
        return "<td></td>"
    ratio = theirs["median_ms"] / ours["median_ms"]
    return f'<td class="{"faster" if ratio > 1 else "slower"}">{ratio:.2f}</td>'


def speed_text(name, entry):
    """A line on an entry of run.speeds."""
    return (f"{name}, {entry['rows']} {entry['kind']} on {entry['threads']} thread(s): {entry['mean']:.2f}x in the "
            f"geometric mean, least {entry['least']:.2f}x ({entry['worst']})")


def _times(result, names, peers):
    head = ["model", "threads", *(f"{escape(name)} {escape(result['versions'][name])}<br>ms" for name in names),
            *(f"speed / {escape(name)}" for name in peers)]
    rows = []
    for row in result["rows"]:
        cells = [f"<td>{escape(row['model'])}<br><span class='small'>{row['flops'] / 1e9:.2f} GFLOP, at least "
                 f"{row.get('bytes', 0) / 1e6:.1f} MB</span></td>", f"<td>{row['threads']}</td>"]
        cells += [_time_cell(row["engines"].get(name, {})) for name in names]
        cells += [_ratio_cell(row["engines"].get("treadle", {}), row["engines"].get(name, {})) for name in peers]
        rows.append(cells)
    return _table(head, rows)


def _costs(result, names):
    fields = [("compile_s", "compile s"), ("compile_memory_mb", "compile MB"), ("artefact_mb", "artefact MB"),
              ("load_s", "load s"), ("memory_mb", "peak MB")]
    rows = [[f"<td>{escape(row['model'])}</td>", f"<td>{row['threads']}</td>", f"<td>{escape(name)}</td>",
             *(f"<td>{costs[key]:.4g}</td>" if key in costs else "<td></td>" for key, _ in fields)]
            for row in result["rows"] for name in names
            if (costs := row["engines"].get(name, {}).get("costs"))]
    if not rows:
        return ""
    ratios = "".join(f"<li>loads {r['load']:.1f} times as fast as {escape(name)} (least {r['load_least']:.1f}), with "
                     f"{r['memory']:.2f} of its peak memory (most {r['memory_most']:.2f})</li>"
                     for name, r in result.get("cost_ratios", {}).items())
    return (f"<h2>Compiling, loading, memory</h2><ul>{ratios}</ul><p>Each in a process of its own. Load: from a file to the first possible "
            "run (a session of the peers, the compiled library of Treadle). Peak memory: above that before loading, "
            "over three runs.</p>" + _table(["model", "threads", "engine", *(text for _, text in fields)], rows))


def _operators(result):
    parts = []
    for row in result["rows"]:
        if row.get("operators"):
            rows = [[f"<td>{escape(name)}</td>", f"<td>{ms:.3f}</td>", f"<td>{share:.1%}</td>",
                     f"<td>{'' if of_peak is None else f'{of_peak:.0%}'}</td>"]
                    for name, ms, share, of_peak in row["operators"]]
            parts.append(f"<details><summary>{escape(row['model'])}, {row['threads']} threads</summary>"
                         f"{_table(['kernel', 'ms', 'share', 'of FMA peak'], rows)}</details>")
    return ("<h2>Slowest kernels of Treadle</h2><p>The least of five profiled runs. Share of the peak: multiply-adds of "
            "the operators as they are defined; Winograd's method takes fewer, and can be above it.</p>"
            + "".join(parts) if parts else "")


def _svg(figure):
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight")
    text = out.getvalue()
    return text[text.index("<svg"):]


def _speed_plot(plt, result, peers, threads):
    rows = [row for row in result["rows"] if row["threads"] == threads and "median_ms" in row["engines"].get("treadle", {})]
    if not rows or not peers:
        return ""
    figure, axes = plt.subplots(figsize=(10, 0.32 * len(rows) + 1))
    height = 0.8 / len(peers)
    for k, name in enumerate(peers):
        ratios = [row["engines"][name]["median_ms"] / row["engines"]["treadle"]["median_ms"]
                  if "median_ms" in row["engines"].get(name, {}) else 0 for row in rows]
        axes.barh([i + k * height for i in range(len(rows))], ratios, height=height, label=f"against {name}",
                  color=COLOURS.get(name))
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(rows))], [row["model"] for row in rows])
    axes.invert_yaxis()
    axes.axvline(1, color="#222", linewidth=1)
    axes.set_xlabel(f"speed of Treadle over the peer's, {threads} thread(s); right of the line Treadle is faster")
    axes.legend()
    return _svg(figure)


def _roofline(plt, result, names, threads):
    peak, bandwidth = result["fma_peak_gflops"].get(threads), result.get("bandwidth_gb_s", {}).get(threads)
    points = [(row["flops"] / row["bytes"], row["engines"][name]["gflops"], name) for row in result["rows"]
              for name in names if row["threads"] == threads and row.get("bytes") and
              "gflops" in row["engines"].get(name, {})]
    if not points or not peak or not bandwidth:
        return ""
    figure, axes = plt.subplots(figsize=(10, 5))
    low, high = min(p[0] for p in points) / 2, max(p[0] for p in points) * 2
    xs = [low * (high / low) ** (i / 200) for i in range(201)]
    axes.loglog(xs, [min(peak, bandwidth * x) for x in xs], color="#222")
    for name in names:
        axes.loglog([p[0] for p in points if p[2] == name], [p[1] for p in points if p[2] == name], "o", label=name,
                    color=COLOURS.get(name), alpha=0.8)
    axes.set_xlabel(f"operations per byte that must be moved, {threads} thread(s)")
    axes.set_ylabel("GFLOP/s")
    axes.legend()
    return _svg(figure)


def _plots(result, names, peers):
    try:
        import matplotlib
    except ImportError:
        return "<p>(matplotlib isn't installed: no plots)</p>"
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    threads = sorted({row["threads"] for row in result["rows"]})
    return "".join(_speed_plot(plt, result, peers, count) + _roofline(plt, result, names, count) for count in threads)


def _precision(result):
    """Milliseconds and ratios at other precisions than float32."""
    rows = result.get("precision")
    if not rows:
        return ""
    engines = [name for name in ("treadle", "onnxruntime", "openvino") if any(name in row["ms"] for row in rows)]

    def cell(row, name):
        if name not in row["ms"]:
            return "<td></td>"
        ratio = f" ({row['ms'][name] / row['ms']['treadle']:.2f})" if name != "treadle" else ""
        return f"<td>{row['ms'][name]:.2f}{ratio}</td>"

    body = "".join(f"<tr><td>{escape(row['name'])}</td><td>{row['threads']}</td>"
                   + "".join(cell(row, name) for name in engines)
                   + f"<td>{'' if row['decibels'] is None else row['decibels']}</td></tr>" for row in rows)
    heads = "".join(f"<th>{escape(name)}</th>" for name in engines)
    return f"""<h2>Precisions</h2><p>Milliseconds (over those of Treadle), every engine at the same precision; OpenVINO's
default where it is bfloat16. Signal to noise of Treadle's results against ONNX Runtime's, in decibels.</p>
<table><thead><tr><th>model</th><th>threads</th>{heads}<th>dB</th></tr></thead><tbody>{body}</tbody></table>
"""


def html(result):
    names = list(result["versions"])
    peers = [name for name in names if name != "treadle"]
    means = "".join(f"<li>{escape(speed_text(name, entry))}</li>"
                    for name, entries in result["speeds"].items() for entry in entries)
    machine = result["machine"]
    limits = ", ".join(f"{value:.0f} GFLOP/s and {result.get('bandwidth_gb_s', {}).get(count, 0):.1f} GB/s on {count}"
                       for count, value in result["fma_peak_gflops"].items())
    gemm = result.get("gemm")
    steps = "".join(f"<tr><td>{escape(step['name'])}</td><td>{step['gflops']}</td>"
                    f"<td>{step['of_peak'] * 100:.1f}</td></tr>" for step in gemm["steps"]) if gemm else ""
    product = f"""<h2>Matrix product {gemm['n']}³ as a tensor expression</h2>
<p>One core; peak {gemm['peak']:.1f} GFLOP/s, measured in turn with the schedules. Each step adds to the one before.</p>
<table><thead><tr><th>schedule</th><th>GFLOP/s</th><th>% of peak</th></tr></thead><tbody>{steps}</tbody></table>
""" if gemm else ""
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Treadle benchmarks</title>
<style>{STYLE}</style></head><body><h1>Treadle benchmarks</h1>
<p>{escape(machine['cpu'])}, {machine['cores']} cores, {escape(machine['system'])}; load at the start
{machine['load']:.1f}. Limits measured in this run (float32 multiply-adds, reading of memory):
{limits or 'none'} threads.</p>
<p>All engines in one process, taking turns; float32 throughout; outputs compared first (rtol 1e-3, atol 1e-5 of the
output's range). Times are medians with quartiles. Speed of Treadle over that of</p><ul>{means}</ul>
{_plots(result, names, peers)}
{_times(result, names, peers)}
{_costs(result, names)}
{_operators(result)}
{_precision(result)}{product}</body></html>
"""
