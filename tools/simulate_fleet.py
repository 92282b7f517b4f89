#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulates a fleet that tunes many models, with made-up devices and times, and the real coordinator's bookkeeping
(treadle.fleet.Coordinator): candidates per second, how busy devices are, what drivers do, how fast records grow, what
stragglers and lost nodes cost.

    python tools/simulate_fleet.py [--devices 1000] [--models 200] [--minutes 5] [--loss 0.05]
"""
import argparse
import heapq
import itertools
import json
import random
import time

from treadle import fleet, tuning

KINDS = {  # share of the devices, seconds to build a candidate on all cores, seconds of a race
    "server": (0.30, 0.012, 0.035), "desktop": (0.25, 0.018, 0.04), "laptop": (0.20, 0.03, 0.05),
    "old server": (0.15, 0.04, 0.06), "board": (0.07, 0.25, 0.15), "phone": (0.03, 0.4, 0.2)}


class MadeUpSearch:
    """Rounds as the real search makes them: about eight, of up to 32 plans."""

    def __init__(self, task, seed=0, batch=32, seeds=(), tried=()):
        self._random = random.Random(f"{task} {seed}")
        self._left, self._batch, self.ratio, self.incumbent = self._random.randint(4, 10), batch, 1.0, "p0"

    def propose(self):
        self._left -= 1
        count = 0 if self._left < 0 else self._random.randint(self._batch // 3, self._batch)
        return [f"p{self._left}.{i}" for i in range(count)]

    def tell(self, outcomes):
        self.ratio *= self._random.uniform(0.97, 1.0)


def make_line(_task, **fields):
    return json.dumps(fields) + " " * 700  # with its problem a line has about 900 bytes


def results_of(batch, rng):
    return [{"plan": plan, "state": "rejected", "err": "", "ratio": rng.uniform(0.95, 1.5), "lo": 0.9, "hi": 1.5, "pairs": 8,
             "us": 100.0} for plan in batch.plans]


def simulate(options):
    rng = random.Random(options.seed)
    kinds = list(KINDS)
    devices = rng.choices(kinds, [KINDS[k][0] for k in kinds], k=options.devices)
    by_kind = {kind: devices.count(kind) for kind in kinds}
    driver_seconds = 0.0
    sessions = {kind: [] for kind in kinds}
    start = time.process_time()
    for kind in kinds:
        if not by_kind[kind]:
            continue
        for model in range(options.models):
            tasks = [f"{model} {t}" for t in range(rng.randint(8, 40))]
            sessions[kind].append(fleet.Coordinator(tasks, seed=model, batch=32, make_search=MadeUpSearch))
    driver_seconds += time.process_time() - start
    total = sum(len(s) for s in sessions.values())
    queue = [(rng.uniform(0, 1), device, kind, None, None) for device, kind in enumerate(devices)]
    heapq.heapify(queue)
    turn = {kind: itertools.cycle(range(len(sessions[kind]) or 1)) for kind in kinds}
    busy, measured, batches, lost, written, longest = 0.0, 0, 0, 0, 0, 0.0
    end = options.minutes * 60
    clock = 0.0
    while queue:
        clock, device, kind, session, batch = heapq.heappop(queue)
        if clock > end:
            break
        began = time.process_time()
        died = False
        if batch is not None:
            died = rng.random() < options.loss * batch.seconds / 3600
            if died:
                lost += 1
                session.lost(batch.id)
            else:
                session.done(batch.id, results_of(batch, rng))
                measured += len(batch.plans)
                batches += 1
                written += sum(map(len, session.take_lines()))
        found = None
        for _ in range(len(sessions[kind])):
            session = sessions[kind][next(turn[kind])]
            found = session.next_batch()
            if found is not None:
                break
        driver_seconds += time.process_time() - began
        if found is None:
            heapq.heappush(queue, (clock + 1, device, kind, None, None))  # nothing to do for this kind now
            continue
        _, build, race = KINDS[kind]
        seconds = 0.15 + len(found.plans) * (build + race) * rng.lognormvariate(0, 0.3) * (5 if rng.random() < 0.01 else 1)
        found.seconds = seconds
        longest = max(longest, seconds)
        busy += min(seconds, end - clock)
        heapq.heappush(queue, (clock + seconds + (60 if died else 0), device, kind, session, found))
    clock = min(clock, end)
    done = sum(s.finished for of in sessions.values() for s in of)
    again = sum(s.measured_again for of in sessions.values() for s in of)
    print(f"{options.devices} devices of {len(kinds)} kinds, {options.models} models: {total} sessions, {clock / 60:.1f} minutes")
    print(f"  candidates            {measured}, {measured / clock:.0f} a second; sessions done {done} of {total}")
    print(f"  devices busy          {100 * busy / (clock * options.devices):.1f} %")
    print(f"  driver                {driver_seconds:.1f} s of one core, {100 * driver_seconds / clock:.1f} % of it; "
          f"{batches / clock:.0f} batches a second, {1e6 * driver_seconds / max(1, batches):.0f} us each")
    print(f"  records               {written / clock / 1e6:.2f} MB/s, {written * 3600 / clock / 1e9:.1f} GB an hour")
    print(f"  lost                  {lost} batches ({100 * options.loss:.0f} % of nodes an hour), {again} measured again, "
          f"{100 * again / max(1, batches):.3f} %")
    print(f"  longest batch         {longest:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--loss", type=float, default=0.05, help="part of the nodes lost in an hour")
    parser.add_argument("--seed", type=int, default=0)
    tuning.record_line = make_line
    simulate(parser.parse_args())


if __name__ == "__main__":
    main()
