# SPDX-License-Identifier: Apache-2.0
"""What a template leaves open."""
from __future__ import annotations

import itertools
import math
import numbers
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._arguments import listed, whole
from ..error import Error

class SplitEntity:
    """Sizes of the parts of an axis, outermost first."""

    def __init__(self, size: Sequence[int]) -> None:
        self.size = list(size)

    def apply(self, sch: Any, op: Any, axis: Any) -> list:
        """Splits the axis of a stage; its parts, outermost first."""
        parts: list[Any] = []
        for factor in reversed(self.size[1:]):
            axis, inner = sch[op].split(axis, factor=int(factor))
            parts.insert(0, inner)
        return [axis, *parts]

    def __repr__(self):
        return str(self.size)


class ReorderEntity:
    """An order of axes."""

    def __init__(self, perm: Sequence[int]) -> None:
        self.perm = list(perm)

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list:
        ordered = [axes[i] for i in self.perm]
        sch[op].reorder(*ordered)
        return ordered

    def __repr__(self):
        return str(self.perm)


class AnnotateEntity:
    """What is done with each of some axes: "unroll", "vec" or "none"."""

    def __init__(self, anns: Sequence[str]) -> None:
        self.anns = list(anns)

    def apply(self, sch: Any, op: Any, axes: Sequence[Any], axis_lens: Any = None, max_unroll: Any = None,
              vec_size: Any = None, cfg: Any = None, source: Any = None) -> list:
        for i, (axis, ann) in enumerate(zip(axes, self.anns)):
            length = None if axis_lens is None else axis_lens[i]
            if ann == "unroll" and (max_unroll is None or length is None or length <= max_unroll):
                sch[op].unroll(axis)
            if ann == "vec" and (vec_size is None or length is None or length in vec_size):
                sch[op].vectorize(axis)
        return list(axes)

    def __repr__(self):
        return str(self.anns)


class OtherOptionEntity:
    """A value of a knob."""

    def __init__(self, val: Any) -> None:
        self.val = val

    def __repr__(self):
        return str(self.val)


_KINDS = {"sp": SplitEntity, "re": ReorderEntity, "an": AnnotateEntity, "ot": OtherOptionEntity}


def _value(entity):
    if isinstance(entity, SplitEntity):
        return ["sp", entity.size]
    if isinstance(entity, ReorderEntity):
        return ["re", entity.perm]
    if isinstance(entity, AnnotateEntity):
        return ["an", entity.anns]
    return ["ot", entity.val]


def _extent(axis):
    if isinstance(axis, int):
        return axis
    if not hasattr(axis, "dom"):
        raise Error(f"define_split: expected an axis, or its length, not {axis!r}")
    return int(axis.dom.extent)


def get_factors(n: int) -> list[int]:
    """The divisors of n, ascending."""
    return sorted({d for i in range(1, math.isqrt(n) + 1) if n % i == 0 for d in (i, n // i)})


def get_pow2s(n: int) -> list[int]:
    """The powers of two up to n."""
    return [1 << i for i in range(n.bit_length())]


def _splits(extent, outputs, policy):
    if policy not in ("factors", "power2", "verbose", "candidate", "all"):
        raise ValueError(f"define_split: policy {policy!r}; there are: factors, power2, verbose, candidate")
    if policy == "power2":
        sizes = [1 << i for i in range(extent.bit_length())]
    else:
        sizes = get_factors(extent)
    for inner in itertools.product(sizes, repeat=outputs - 1):
        product = math.prod(inner)
        if product <= extent and (policy == "power2" or extent % product == 0):
            yield SplitEntity([-1, *inner])


class _Axis:
    """Stands for an axis, or a part of one, while a space is made."""


class ConfigSpace:
    """The knobs of a template, while it is run for the first time; `len` is the number of configurations."""

    is_fallback = False

    def __init__(self) -> None:
        self.space_map: dict[str, list] = {}
        self._chosen: dict[str, Any] = {}
        self._extents: dict[str, int] = {}  # of axes that are split
        self.flop: float = 0
        self.errors: list[str] = []

    @staticmethod
    def axis(value: Any) -> Any:
        return value

    reduce_axis = axis

    def _define(self, name, entities):
        if name in self.space_map:
            return
        if not entities:
            raise ValueError(f"knob {name!r} has no value that its filter lets through")
        self.space_map[name] = entities
        self._chosen[name] = entities[0]

    def define_split(self, name: str, axis: Any, policy: str = "factors", num_outputs: int = 2, filter: Any = None, max_factor: Any = None,  # noqa: A002
                     candidate: Any = None, no_tail: bool = True) -> list[Any]:
        extent = _extent(axis)
        whole(f"define_split {name!r}: num_outputs", num_outputs, 1)
        if policy == "candidate" or candidate is not None:
            entities = [SplitEntity(sizes) for sizes in candidate or []]
        else:
            entities = list(_splits(extent, num_outputs, policy))
        if max_factor is not None:
            entities = [e for e in entities if max(e.size[1:]) <= max_factor]
        if filter is not None:
            entities = [e for e in entities if filter(SplitEntity([extent // math.prod(e.size[1:]), *e.size[1:]]))]
        self._extents.setdefault(name, extent)
        self._define(name, entities)
        return [_Axis() for _ in range(num_outputs)]

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, candidate: Any = None) -> list:
        count = len(listed(f"define_reorder {name!r}", axes, "a list of axes"))
        if policy == "candidate":
            orders = [[axes.index(axis) for axis in order] for order in candidate]
        elif policy == "identity":
            orders = [list(range(count))]
        elif policy == "all":
            orders = [list(order) for order in itertools.permutations(range(count))]
        else:
            raise ValueError(f"define_reorder: policy {policy!r}; there are: all, identity, candidate")
        self._define(name, [ReorderEntity(order) for order in orders])
        return list(axes)

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, candidate: Any = None) -> list:
        count = len(listed(f"define_annotate {name!r}", axes, "a list of axes"))
        if policy == "try_unroll":
            choices = [["none"] * (count - i) + ["unroll"] * i for i in range(count + 1)]
        elif policy == "try_vec":
            choices = [["none"] * count] + [["none"] * i + ["vec"] + ["none"] * (count - i - 1) for i in range(count)]
        elif policy == "try_unroll_vec":
            choices = [list(c) for c in itertools.product(("none", "unroll"), repeat=count - 1)]
            choices = [[*c, last] for c in choices for last in ("none", "unroll", "vec")]
        elif policy == "candidate":
            choices = candidate
        else:
            raise ValueError(f"define_annotate: policy {policy!r}; there are: try_unroll, try_vec, try_unroll_vec, candidate")
        self._define(name, [AnnotateEntity(anns) for anns in choices])
        return list(axes)

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        self._define(name, [OtherOptionEntity(value) for value in
                            listed(f"define_knob {name!r}", candidate, "a list of values")])

    def add_flop(self, flop: float) -> None:
        self.flop += float(flop)

    def raise_error(self, message: str) -> None:
        self.errors.append(message)

    def valid(self) -> bool:
        return not self.errors

    def __getitem__(self, name):
        if name not in self._chosen:
            raise KeyError(f"there is no knob {name!r}; there are: {', '.join(self.space_map) or 'none'}")
        return self._chosen[name]

    @property
    def dims(self) -> list[int]:
        return [len(entities) for entities in self.space_map.values()]

    def __len__(self):
        return math.prod(self.dims)

    def get(self, index: int) -> ConfigEntity:
        """Configuration number `index`."""
        if not isinstance(index, numbers.Integral) or not 0 <= index < len(self):
            raise IndexError(f"there is no configuration {index!r}; expected a number from 0 to {len(self) - 1}")
        entity_map, rest = {}, index
        for name, entities in self.space_map.items():
            entity_map[name] = entities[rest % len(entities)]
            rest //= len(entities)
        return ConfigEntity(index, entity_map)

    def index_of(self, choice: Any) -> int:
        """The number of the configuration that takes value number choice[i] of knob i."""
        index, scale = 0, 1
        for knob, size in zip(choice, self.dims):
            index += knob * scale
            scale *= size
        return index

    def choice_of(self, index: int) -> Any:
        choice = []
        for size in self.dims:
            choice.append(index % size)
            index //= size
        return choice

    # What tuners of one's own ask.

    @property
    def range_length(self) -> int:
        return len(self)

    def is_index_valid(self, index: int) -> bool:
        return 0 <= index < len(self)

    knob2point, point2knob = index_of, choice_of

    def get_rand_index(self, start: int | None = None, end: int | None = None, to_exclude: Any = ()) -> int:
        """The number of a configuration at random, of start to end - 1."""
        left = sorted(set(range(start or 0, len(self) if end is None else end)) - set(to_exclude))
        if not left:
            raise IndexError("there is no configuration left")
        return random.choice(left)

    def sample_ints(self, m: int) -> list[int]:
        """The numbers of m configurations at random; of all where there are fewer."""
        return random.sample(range(len(self)), min(m, len(self)))

    def get_next_index(self, index: int, start: int | None = None, end: int | None = None) -> int | None:
        """The number after `index`, of start to end - 1; None after the last."""
        following = max(index + 1, start or 0)
        return following if following < (len(self) if end is None else end) else None

    def subrange_length(self, start: int, end: int) -> int:
        """How many configurations have the numbers start to end - 1."""
        return max(0, min(end, len(self)) - max(start, 0))

    def random_walk(self, point: int) -> int:
        """The number of a configuration with another value of one knob, at random."""
        choice = self.choice_of(point)
        open_knobs = [i for i, size in enumerate(self.dims) if size > 1]
        if not open_knobs:
            return point
        knob = random.choice(open_knobs)
        choice[knob] = random.choice([value for value in range(self.dims[knob]) if value != choice[knob]])
        return self.index_of(choice)

    def __repr__(self):
        lines = [f" {i:2} {name}: {len(entities)} values" for i, (name, entities) in enumerate(self.space_map.items())]
        return f"ConfigSpace (len={len(self)}, space_map=\n" + "\n".join(lines) + "\n)"


class ConfigEntity(ConfigSpace):
    """One configuration: a template that gets it runs with its values."""

    def __init__(self, index: int, entity_map: Mapping[str, Any]) -> None:
        super().__init__()
        self.index = index
        self._chosen = dict(entity_map)

    def _define(self, name, entities):
        if name not in self._chosen:
            raise KeyError(f"the configuration has no knob {name!r}: it is from another template")

    def to_json_dict(self) -> dict[str, Any]:
        return {"index": self.index, "code_hash": None,
                "entity": [[name, *_value(entity)] for name, entity in self._chosen.items()]}

    @staticmethod
    def from_json_dict(data: Mapping[str, Any]) -> ConfigEntity:
        return ConfigEntity(data["index"], {name: _KINDS[kind](value) for name, kind, value in data["entity"]})

    def __len__(self):
        return 1

    def __repr__(self):
        return f"{list(self._chosen.items())},None,{self.index}"


class FallbackConfigEntity(ConfigSpace):
    """Where no record is known: the first value of each knob, as the template defines them."""

    is_fallback = True
    index = 0

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Sizes for a split: for each part with a constraint the largest factor up to it, and the rest for the part with
        -1."""
        splits = [entity for entity in self.space_map.get(name, []) if isinstance(entity, SplitEntity)]
        if not splits:
            raise Error(f"fallback_split: there is no split {name!r}; knobs: {', '.join(self.space_map) or 'none'}")
        if len(constraints) != len(splits[0].size):
            raise Error(f"fallback_split: {name!r} has {len(splits[0].size)} parts, not {len(constraints)}")
        if list(constraints).count(-1) != 1:
            raise Error(f"fallback_split: expected one -1 among the constraints of {name!r}, not {list(constraints)}")
        left, sizes = self._extents[name], [0] * len(constraints)
        for i in reversed([i for i, most in enumerate(constraints) if most > 0]):
            sizes[i] = max(factor for factor in get_factors(left) if factor <= constraints[i])
            left //= sizes[i]
        sizes[list(constraints).index(-1)] = left
        self._chosen[name] = SplitEntity(sizes)

    def fallback_with_reference_log(self, ref_log: Any) -> None:
        raise Error("fallback_with_reference_log: there are no logs of reference; ApplyHistoryBest(log) gives the fastest "
                    "configurations of a log")
