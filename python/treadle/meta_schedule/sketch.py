# SPDX-License-Identifier: Apache-2.0
"""Sketches of any loop-level function: how its blocks are tiled, fused and vectorised, with factors left open.
A decision fills them; it is plain data, so that it can be stored and applied again."""
import random
from typing import Any

from ..ir import IntImm
from ..tir import Schedule
from ..tir.checks import ScheduleError

MOST_INNERMOST = 64  # results of a register tile along an axis
UNROLL = (0, 16, 64, 512)


def _extent(sch, loop):
    extent = sch.get(loop).extent
    return int(extent) if isinstance(extent, IntImm) else None


def _divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


def _factors(rng, extent, parts):
    """`parts` factors, outermost first, whose product is the extent; the last one is at most MOST_INNERMOST."""
    rest, factors = extent, []
    for i in range(parts - 1):
        factors.append(rng.choice([d for d in _divisors(rest) if i > 0 or d <= MOST_INNERMOST]))
        rest //= factors[-1]
    return [rest, *factors[::-1]]


class _Sum:
    """A block that reduces: its axes, of constant extents, and what follows it element by element."""

    def __init__(self, name, spatial, reduce, consumer):
        self.name, self.spatial, self.reduce, self.consumer = name, spatial, reduce, consumer

    def sample(self, rng):
        return {"spatial": [_factors(rng, extent, 4) for extent in self.spatial],
                "reduce": [_factors(rng, extent, 2) for extent in self.reduce], "unroll": rng.choice(UNROLL)}

    def apply(self, sch, decision):
        """Outer tiles in threads; for each inner tile a sum of its own in registers; then what follows."""
        block = sch.get_block(self.name)
        out = sch.get_block(self.consumer) if self.consumer else sch.cache_write(block, 0, "local")
        tiles = [sch.split(loop, factors) for loop, factors in zip(sch.get_loops(out), decision["spatial"])]
        order = [tile[level] for level in range(4) for tile in tiles]
        sch.reorder(*order)
        axes = len(tiles)
        at = order[2 * axes - 1]
        if self.consumer:
            sch.set_scope(block, 0, "local")
        sch.compute_at(block, at, preserve_unit_loops=True)
        loops = sch.get_loops(block)[2 * axes:]
        inner, sums = loops[:axes], loops[axes:]
        inner = [sch.split(loop, [None, factors[3]]) for loop, factors in zip(inner, decision["spatial"])]
        sums = [sch.split(loop, factors) for loop, factors in zip(sums, decision["reduce"])]
        sch.reorder(*[s[0] for s in sums], *[i[0] for i in inner], *[s[1] for s in sums], *[i[1] for i in inner])
        sch.decompose_reduction(block, sums[0][0])
        sch.vectorize(inner[-1][1])
        if decision["unroll"]:
            work = 1
            for loop in [i[1] for i in inner[:-1]][::-1] + [s[1] for s in sums][::-1]:
                work *= _extent(sch, loop) or 1
                if work > decision["unroll"]:
                    break
                sch.unroll(loop)
        sch.vectorize(order[-1])
        sch.parallel(sch.fuse(*order[:axes]))


class _Moves:
    """A block without sums that isn't part of another's tile: vectors and threads."""

    def __init__(self, name, extents):
        self.name, self.extents = name, extents

    def sample(self, rng):
        return {"vector": rng.choice([d for d in _divisors(self.extents[-1]) if d <= MOST_INNERMOST]),
                "outer": rng.randint(1, len(self.extents))}

    def apply(self, sch, decision):
        loops = sch.get_loops(sch.get_block(self.name))
        outer, vector = sch.split(loops[-1], [None, decision["vector"]])
        loops = [*loops[:-1], outer]
        sch.vectorize(vector)
        sch.parallel(sch.fuse(*loops[:decision["outer"]]))


class Sketch:
    """What can be decided about a function; `sample` draws a decision, `apply` schedules by one."""

    def __init__(self, mod: Any) -> None:
        self.mod = mod
        sch, self.inlined, self.parts = Schedule(mod), [], []
        taken = set()
        for block in sch.get_blocks():
            node = sch.get(block)
            if self._is_elementwise(sch, block) and self._inline(sch, node.name_hint):
                self.inlined.append(node.name_hint)
        for block in sch.get_blocks():
            name = sch.get(block).name_hint
            part = None if name in taken else self._part(sch, block)
            if part is not None:
                self.parts.append(part)
                taken.update({name, getattr(part, "consumer", None)})

    @staticmethod
    def _kinds(sch, block):
        """(extents of results, extents of sums) of the loops around a block, one loop for each axis; None: others."""
        axes = sch.get(block).iter_vars
        loops = sch.get_loops(block)
        extents = [_extent(sch, loop) for loop in loops]
        if len(axes) != len(loops) or None in extents or not loops:
            return None
        reduces = [int(axis.iter_type) == 2 for axis in axes]
        if reduces != sorted(reduces):
            return None
        count = reduces.count(False)
        return extents[:count], extents[count:]

    def _is_elementwise(self, sch, block):
        kinds = self._kinds(sch, block)
        return kinds is not None and not kinds[1] and bool(list(sch.get_consumers(block)))

    @staticmethod
    def _inline(sch, name):
        # Windows that are read again and again would be computed again each time.
        consumers = sch.get_consumers(sch.get_block(name))
        if any(Sketch._kinds(sch, c) is None or Sketch._kinds(sch, c)[1] for c in consumers):
            return False
        try:
            sch.compute_inline(sch.get_block(name))
        except ScheduleError:
            return False
        return True

    def _part(self, sch, block):
        kinds, name = self._kinds(sch, block), sch.get(block).name_hint
        if kinds is None or not kinds[0]:
            return None
        if not kinds[1]:
            return _Moves(name, kinds[0])
        consumers = sch.get_consumers(block)
        consumer = None
        if len(consumers) == 1 and self._kinds(sch, consumers[0]) == (kinds[0], []):
            consumer = sch.get(consumers[0]).name_hint
        part = _Sum(name, *kinds, consumer)
        for candidate in (part, _Sum(name, *kinds, None)):
            try:
                candidate.apply(self._start(), candidate.sample(random.Random(0)))
            except ScheduleError:
                continue
            return candidate
        return None

    def _start(self):
        sch = Schedule(self.mod)
        for name in self.inlined:
            sch.compute_inline(sch.get_block(name))
        return sch

    def sample(self, rng: Any) -> list[Any]:
        return [part.sample(rng) for part in self.parts]

    def mutate(self, decision: Any, rng: Any) -> Any:
        """The decision with one part drawn again, or one axis of it."""
        changed = [dict(d) for d in decision]
        i = rng.randrange(len(changed))
        drawn = self.parts[i].sample(rng)
        key = rng.choice(sorted(drawn))
        if isinstance(drawn[key], list) and drawn[key]:
            axis = rng.randrange(len(drawn[key]))
            drawn[key] = [drawn[key][axis] if j == axis else old for j, old in enumerate(changed[i][key])]
        changed[i][key] = drawn[key]
        return changed

    def apply(self, decision: Any) -> Any:
        """The schedule; ScheduleError where the decision isn't one of this function."""
        sch = self._start()
        if len(decision) != len(self.parts):
            raise ScheduleError(f"a decision about {len(decision)} blocks, of {len(self.parts)}")
        for part, chosen in zip(self.parts, decision):
            part.apply(sch, chosen)
        return sch
