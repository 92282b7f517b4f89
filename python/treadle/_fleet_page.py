# SPDX-License-Identifier: Apache-2.0
"""A page about a fleet at work: devices, candidates per second, gain over time. It is written anew every few seconds,
needs nothing beside itself, and reloads itself while the session goes on."""
import html
import math
import os
import time

INTERVAL = 2.0  # seconds between writings
STYLE = """:root{color-scheme:light dark;--ink:#1a1d21;--dim:#5c6570;--line:#d5dae0;--ground:#fff;--accent:#0a7d4f}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--dim:#9aa4af;--line:#343b44;--ground:#15181c;--accent:#3ecf8e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid var(--line);
font-variant-numeric:tabular-nums}th:first-child,td:first-child{text-align:left}th,.dim{color:var(--dim);font-weight:600}
svg{width:100%;height:auto}polyline{fill:none;stroke:var(--accent);stroke-width:2}text{font-size:11px;fill:var(--dim)}"""


class Page:
    """Call `done` after each batch and `lost` for each lost slot. `path` None: nothing is written."""

    def __init__(self, path, slots, now=time.monotonic):
        self.path, self._now, self._start, self._written = path, now, now(), -INTERVAL
        self.slots = [{"candidates": 0, "batches": 0, "lost": 0, "last": None} for _ in range(slots)]
        self.history = []  # (seconds, candidates, geometric mean of the tasks' ratios)

    def done(self, slot, candidates, ratios):
        elapsed = self._now() - self._start
        self.slots[slot]["candidates"] += candidates
        self.slots[slot]["batches"] += 1
        self.slots[slot]["last"] = elapsed
        mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios)) if ratios else 1.0
        self.history.append((elapsed, sum(s["candidates"] for s in self.slots), mean))
        self.write()

    def lost(self, slot):
        self.slots[slot]["lost"] += 1
        self.write()

    def write(self, last=False):
        """At most every INTERVAL seconds, but for the last time."""
        if self.path is None or not (last or self._now() - self._written >= INTERVAL):
            return
        self._written = self._now()
        part = f"{os.fspath(self.path)}.part"
        with open(part, "w", encoding="utf-8") as file:
            file.write(self.text(last))
        os.replace(part, self.path)

    def text(self, last=False):
        elapsed = max(1e-9, self._now() - self._start)
        count = sum(slot["candidates"] for slot in self.slots)
        gain = self.history[-1][2] if self.history else 1.0
        rows = "".join(self._row(i, slot, elapsed) for i, slot in enumerate(self.slots))
        reload = "" if last else f'<meta http-equiv="refresh" content="{int(2 * INTERVAL)}">'
        state = "ended" if last else "at work"
        return (f'<!doctype html><html lang="en"><head><meta charset="utf-8">{reload}<title>Fleet</title><style>{STYLE}</style>'
                f"</head><body><h1>Fleet, {state}</h1><p><b>{count}</b> candidates in {elapsed:.0f} s, <b>{count / elapsed:.2f}</b> "
                f"a second; kernels take <b>{gain:.3f}</b> of their defaults' time in the geometric mean.</p><h2>Devices</h2>"
                "<table><tr><th>slot</th><th>candidates</th><th>a second</th><th>batches</th><th>last answer</th><th>lost</th>"
                f"</tr>{rows}</table><h2>Kernels' time over time, as a part of their defaults'</h2>{self._curve(2, 0.5, 1.0)}"
                f"<h2>Candidates over time</h2>{self._curve(1, 0, max(1, count))}</body></html>\n")

    @staticmethod
    def _row(index, slot, elapsed):
        last = "never" if slot["last"] is None else f"{elapsed - slot['last']:.0f} s ago"
        cells = (f"slot {index}", slot["candidates"], f"{slot['candidates'] / elapsed:.2f}", slot["batches"], last, slot["lost"])
        return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

    def _curve(self, column, low, high):
        """The history as a line, from the beginning of the session to now."""
        width, height = 640, 140
        span = max(1e-9, self.history[-1][0]) if self.history else 1.0
        points = " ".join(f"{40 + (width - 40) * row[0] / span:.1f},"
                          f"{height * (1 - (min(max(row[column], low), high) - low) / (high - low)):.1f}" for row in self.history)
        return (f'<svg viewBox="0 -8 {width} {height + 16}" role="img" aria-label="over time"><text x="0" y="4">{high:g}</text>'
                f'<text x="0" y="{height}">{low:g}</text><polyline points="{html.escape(points)}"/></svg>')
