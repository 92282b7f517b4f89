# SPDX-License-Identifier: Apache-2.0
"""Benchmark results as one HTML page that needs nothing else."""
import html as escape_module

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; color: #222; background: #fff }
table { border-collapse: collapse; width: 100% } th, td { padding: .3em .6em; text-align: right }
th { border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff } td { border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left } .bar { display: inline-block; height: .7em; background: #4a7; margin-left: .4em }
.slower { color: #b30 } .faster { color: #070 } .error { color: #b30; font-size: 85% } .small { color: #666; font-size: 85% }
"""


def _cell(entry, longest):
    if "median_ms" not in entry:
        return f'<td class="error">{escape_module.escape(entry.get("error", "failed"))}</td>'
    peak = f', {entry["of_peak"]:.0%} of peak' if "of_peak" in entry else ""
    bar = f'<span class="bar" style="width:{60 * entry["median_ms"] / longest:.0f}px"></span>'
    return (f'<td>{entry["median_ms"]:.2f}{bar}<br><span class="small">{entry["p25_ms"]:.2f} to {entry["p75_ms"]:.2f}, '
            f'{entry["runs"]} runs{peak}</span></td>')


def _ratio(ours, theirs):
    if "median_ms" not in ours or "median_ms" not in theirs:
        return "<td></td>"
    ratio = ours["median_ms"] / theirs["median_ms"]
    return f'<td class="{"slower" if ratio > 1 else "faster"}">{ratio:.2f}</td>'


def html(result):
    names = list(result["versions"])
    peers = [name for name in names if name != "treadle"]
    head = "".join(f"<th>{name} {escape_module.escape(result['versions'][name])}<br>ms</th>" for name in names)
    head += "".join(f"<th>treadle / {name}</th>" for name in peers)
    rows = []
    for row in result["rows"]:
        longest = max([entry["median_ms"] for entry in row["engines"].values() if "median_ms" in entry], default=1)
        cells = "".join(_cell(row["engines"].get(name, {}), longest) for name in names)
        cells += "".join(_ratio(row["engines"].get("treadle", {}), row["engines"].get(name, {})) for name in peers)
        rows.append(f"<tr><td>{escape_module.escape(row['model'])}<br><span class='small'>{row['flops'] / 1e9:.2f} GFLOP"
                    f"</span></td><td>{row['threads']}</td>{cells}</tr>")
    means = "; ".join(f"treadle / {name}: {mean['ratio']:.2f} in the geometric mean, worst {mean['worst']:.2f}"
                      for name, mean in result["geomean"].items())
    machine = result["machine"]
    peak = ", ".join(f"{value:.0f} GFLOP/s on {count}" for count, value in result["fma_peak_gflops"].items())
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Treadle benchmarks</title>
<style>{STYLE}</style></head><body><h1>Treadle benchmarks</h1>
<p>{escape_module.escape(machine['cpu'])}, {machine['cores']} cores, {escape_module.escape(machine['system'])}; load at the
start {machine['load']:.1f}. Peak of float32 multiply-adds measured in this run: {peak or 'not measured'} threads.</p>
<p>All engines in one process, taking turns; float32 throughout; outputs compared first (rtol 1e-3, atol 1e-5 of the
output's range). Times are medians with quartiles. Ratios below 1: Treadle is faster. {escape_module.escape(means)}.</p>
<table><thead><tr><th>model</th><th>threads</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>
</body></html>
"""
