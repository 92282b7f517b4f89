# SPDX-License-Identifier: Apache-2.0
"""Schedules: rewriting a function into an equivalent one that runs faster."""
from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._arguments import whole
from .._core import Object
from .._ffi import Api, register_object
from ..error import Error
from ..ir import GlobalVar, IntImm, IRModule, Node
from .checks import ScheduleError, check_factor, check_scope, check_thread
from .expr import IterVar, Var, as_expr
from .function import PrimFunc
from .tensor_intrin import TensorIntrin as _TensorIntrin

if TYPE_CHECKING:
    from .._typing import Scalar
    from .function import Buffer

_api = Api("tir.schedule")


@register_object("tir.BlockRV")
class BlockRV(Object):
    """Handle of a block."""


@register_object("tir.LoopRV")
class LoopRV(Object):
    """Handle of a loop."""


class Trace(str):
    """The steps of a schedule, as text and as JSON."""

    def __new__(cls, text: str, steps: str) -> Trace:
        self = super().__new__(cls, text)
        self._steps = steps
        return self

    def as_json(self, remove_postproc: bool = False) -> str:
        """The steps as JSON text."""
        return self._steps

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """The steps as calls, one in a line."""
        return [line for line in self.splitlines() if line]

    def show(self, *_: Any, **__: Any) -> None:
        """Prints the steps."""
        print(self)

    def apply_to_schedule(self, sch: Schedule, remove_postproc: bool = False, decision_provider: Any = None) -> None:
        """Takes the steps in another schedule."""
        if decision_provider is not None:
            raise ScheduleError("apply_to_schedule: steps are replayed as they were taken; expected no decision_provider")
        sch.replay(self._steps)

    @staticmethod
    def apply_json_to_schedule(json_obj: str, sch: Schedule) -> None:
        """Takes the steps of a trace's as_json."""
        sch.replay(json_obj)


class Schedule:
    """Primitives that check what they do; an illegal one raises an error and changes nothing."""

    def __init__(self, mod: IRModule | PrimFunc, *, seed: int | None = None, debug_mask: Any = None,
                 debug_mode: Any = None, error_render_level: Any = None) -> None:
        if not isinstance(mod, (IRModule, PrimFunc)):
            raise ScheduleError(f"Schedule takes a module or a loop-level function, not {mod!r}")
        if isinstance(mod, PrimFunc):  # as in the original, whatever the function is called
            mod = IRModule({GlobalVar("main"): mod})
        self._handle = _api.Schedule(mod)
        self._random = random.Random(seed)

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return _api.mod(self._handle)

    @property
    def func(self) -> PrimFunc:
        """The function as it is now."""
        return _api.func(self._handle)

    @property
    def trace(self) -> Trace:
        """The steps so far: text that can be replayed."""
        return Trace(_api.trace(self._handle), self.trace_json())

    def trace_json(self) -> str:
        """The steps so far, for replay."""
        return _api.trace_json(self._handle)

    def replay(self, trace_json: str) -> None:
        """Applies stored steps."""
        _api.replay(self._handle, trace_json)

    def seed(self, seed: int) -> None:
        """Begins the draws of sample_categorical and sample_perfect_tile anew."""
        self._random = random.Random(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from this one's."""
        return self._random.randrange(1, 2 ** 31)

    def copy(self) -> Schedule:
        """An independent schedule."""
        other = Schedule.__new__(Schedule)
        other._handle = _api.Copy(self._handle)
        other._random = random.Random(self._random.random())
        return other

    def get(self, handle: BlockRV | LoopRV) -> Any:
        """The block or loop behind a handle."""
        return (_api.get_of_block if isinstance(handle, BlockRV) else _api.get_of_loop)(self._handle, handle)

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Prints the module and the steps so far."""
        print(self.mod, self.trace, sep="\n")

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of that name; copies of buffers go by `A.shared` and by `A_shared`. `func_name`: there is one
        function, so it needn't be said which."""
        if not isinstance(name, str):
            raise ScheduleError(f"get_block: expected the name of a block, not {name!r}")
        if func_name is not None and func_name not in (names := [str(var.name_hint) for var in self.mod.functions]):
            raise ScheduleError(f"get_block: the module has no function {func_name!r}; it has: {', '.join(names)}")
        try:
            return _api.get_block(self._handle, name)
        except Error:
            other = _dotted(name)
            if other == name or all(self.get(b).name_hint != other for b in self.get_blocks()):
                raise
            return _api.get_block(self._handle, other)

    def get_blocks(self) -> list[BlockRV]:
        return list(_api.get_blocks(self._handle))

    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        return list(_api.get_loops(self._handle, self._block(block)))

    def get_child_blocks(self, block: BlockRV | str) -> list[BlockRV]:
        return list(_api.get_child_blocks(self._handle, self._block(block)))

    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        return list(_api.get_producers(self._handle, self._block(block)))

    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        return list(_api.get_consumers(self._handle, self._block(block)))

    def get_output_blocks(self) -> list[BlockRV]:
        return list(_api.get_output_blocks(self._handle))

    def split(self, loop: LoopRV, factors: Sequence[Scalar | None], preserve_unit_iters: bool = True) -> list[LoopRV]:
        """Loops of the given extents, outermost first; None is chosen so that all is covered."""
        if not isinstance(factors, (list, tuple)):
            raise ScheduleError(f"split: expected a list of factors, not {factors!r}")
        return list(_api.split(self._handle, _loop("split", loop), [
            None if f is None else check_factor("split", f"factor {i}", f) for i, f in enumerate(factors)]))

    def fuse(self, *loops: LoopRV | Sequence[LoopRV], preserve_unit_iters: bool = True) -> LoopRV:
        return _api.fuse(self._handle, [_loop("fuse", each) for each in _listed(loops)])

    def reorder(self, *loops: LoopRV | Sequence[LoopRV]) -> None:
        _api.reorder(self._handle, [_loop("reorder", each) for each in _listed(loops)])

    def parallel(self, loop: LoopRV) -> None:
        _api.parallel(self._handle, _loop("parallel", loop))

    def vectorize(self, loop: LoopRV) -> None:
        _api.vectorize(self._handle, _loop("vectorize", loop))

    def unroll(self, loop: LoopRV) -> None:
        _api.unroll(self._handle, _loop("unroll", loop))

    def bind(self, loop: LoopRV, thread_axis: str | IterVar) -> None:
        thread = thread_axis.thread_tag if isinstance(thread_axis, IterVar) else thread_axis
        _api.bind(self._handle, _loop("bind", loop), check_thread("bind", thread))

    def add_unit_loop(self, block: BlockRV | str) -> LoopRV:
        return _api.add_unit_loop(self._handle, self._block(block))

    def compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False,
                   index: int = -1) -> None:
        _only_default("compute_at", "index", index, (-1, -2))
        _api.compute_at(self._handle, self._block(block), _loop("compute_at", loop), preserve_unit_loops)

    def reverse_compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False,
                           index: int = -1) -> None:
        _only_default("reverse_compute_at", "index", index, (-1, -2))
        _api.reverse_compute_at(self._handle, self._block(block), _loop("reverse_compute_at", loop),
                                preserve_unit_loops)

    def compute_inline(self, block: BlockRV | str) -> None:
        _api.compute_inline(self._handle, self._block(block))

    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        _api.reverse_compute_inline(self._handle, self._block(block))

    def cache_read(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str,
                   consumer_blocks: Sequence[BlockRV | str] | None = None) -> BlockRV:
        """The block that copies a buffer (its number, or its name), which the block reads, to that scope. It, or
        `consumer_blocks`, read the copy instead."""
        block = self._block(block)
        return _api.cache_read(self._handle, block, self._buffer("cache_read", block, read_buffer_index, "reads"),
                               check_scope("cache_read", storage_scope),
                               [self._block(b) for b in consumer_blocks or []])

    def cache_write(self, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str) -> BlockRV:
        """The block of the copy out of that scope of a buffer (its number, or its name) that the block writes."""
        block = self._block(block)
        return _api.cache_write(self._handle, block, self._buffer("cache_write", block, write_buffer_index, "writes"),
                                check_scope("cache_write", storage_scope))

    def set_scope(self, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str) -> None:
        block = self._block(block)
        _api.set_scope(self._handle, block, self._buffer("set_scope", block, buffer_index, "writes"),
                       check_scope("set_scope", storage_scope))

    def storage_align(self, block: BlockRV | str, buffer_index: int | str | Buffer, axis: int, factor: int,
                      offset: int) -> None:
        block = self._block(block)
        _api.storage_align(self._handle, block, self._buffer("storage_align", block, buffer_index, "writes"), axis,
                           factor, offset)

    def double_buffer(self, block: BlockRV | str) -> None:
        _api.double_buffer(self._handle, self._block(block))

    def prefetch(self, block: BlockRV | str, read_buffer_index: int, loop: LoopRV, offset: Scalar = 1) -> None:
        _api.prefetch(self._handle, self._block(block), read_buffer_index, _loop("prefetch", loop), as_expr(offset))

    def prefetch_next(self, block: BlockRV | str, read_buffer_index: int, around: LoopRV,
                      at: LoopRV | None = None, within: int = 0) -> None:
        """While loop `around` runs, prefetches what it reads of the buffer when next it reads something else, spread
        over the iterations of loop `at`, which is `around` or inside of it; `within` > 0: over as many of the first
        iterations of `around`, for loops that may end early or whose extents are dynamic."""
        _api.prefetch_next(self._handle, self._block(block), read_buffer_index, around, at or around, within)

    def transform_layout(self, block: BlockRV | str, buffer: str | tuple[str, int], index_map: Callable[..., Any],
                         pad_value: Any = None, axis_separators: Any = None) -> None:
        """Stores element (i, j, ..) of a buffer at `index_map(i, j, ..)`. The buffer: ("write", 0), ("read", 1), or its
        name. It must not be a parameter of the function."""
        _only_default("transform_layout", "pad_value", pad_value, (None,))
        _only_default("transform_layout", "axis_separators", axis_separators, (None,))
        block = self._block(block)
        node = self.get(block)
        pair = isinstance(buffer, (tuple, list)) and len(buffer) == 2
        if not isinstance(buffer, str) and not pair:
            raise ScheduleError(f"transform_layout: the buffer is {buffer!r}; expected its name, (\"write\", 0) or (\"read\", 1)")
        if not callable(index_map):
            raise ScheduleError(f"transform_layout: expected a function of the indices, not {index_map!r}")
        if isinstance(buffer, str):
            names = {r.buffer.name: (kind, i) for kind, regions in (("read", node.reads), ("write", node.writes))
                     for i, r in enumerate(regions)}
            buffer = _dotted(buffer) if buffer not in names else buffer
            if buffer not in names:
                raise ScheduleError(f"transform_layout: block '{block.name}' uses no buffer '{buffer}'; it uses "
                                    f"{', '.join(names)}")
            buffer = names[buffer]
        kind, index = buffer
        if kind not in ("read", "write"):
            raise ScheduleError(f"transform_layout: expected 'read' or 'write', not '{kind}'")
        regions = node.writes if kind == "write" else node.reads
        if not 0 <= index < len(regions):
            raise ScheduleError(f"transform_layout: block '{block.name}' has no {kind} buffer number {index}")
        rank = len(regions[index].buffer.shape)
        variables = [Var(f"i{i}", str(d.dtype)) for i, d in enumerate(regions[index].buffer.shape)]
        try:
            result = index_map(*variables)
        except TypeError as error:
            raise ScheduleError(f"transform_layout: the map must take {rank} indices: {error}") from error
        result = result if isinstance(result, (list, tuple)) else [result]
        _api.transform_layout(self._handle, block, kind == "write", index, variables, [as_expr(e) for e in result])

    def tensorize(self, loop: LoopRV | BlockRV, intrin: _TensorIntrin | str) -> None:
        """The nest that begins with the loop is replaced by an intrinsic that computes the same: a te.TensorIntrin, or
        the name of one that TensorIntrin.register knows. Of a block (such as blockize makes), the nest in it."""
        if isinstance(intrin, str):
            intrin = _TensorIntrin.get(intrin)
        if not isinstance(intrin, Node) or intrin._type_key() != "tir.TensorIntrin":
            raise ScheduleError(f"tensorize: expected an intrinsic (te.TensorIntrin), not {intrin!r}")
        if isinstance(loop, BlockRV):
            inner = self.get_child_blocks(loop)
            if len(inner) != 1:
                raise ScheduleError(f"tensorize: block '{self.get(loop).name_hint}' has {len(inner)} blocks in it; expected "
                                    "one, as blockize makes it, or the loop that the nest begins with")
            loop = self.get_loops(inner[0])[0]
        _api.tensorize(self._handle, _loop("tensorize", loop), intrin)

    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """A sum of products runs over axes rounded up to multiples of `padding`, on operands padded with zeros."""
        _api.pad_einsum(self._handle, self._block(block), [as_expr(p) for p in padding])

    def blockize(self, loop: LoopRV) -> BlockRV:
        """The nest that begins with the loop as a block of its own."""
        return _api.blockize(self._handle, _loop("blockize", loop))

    def tile(self, y: LoopRV, x: LoopRV, y_factor: Scalar, x_factor: Scalar) -> list[LoopRV]:
        """(y outer, x outer, y inner, x inner)"""
        yo, yi = self.split(y, [None, y_factor])
        xo, xi = self.split(x, [None, x_factor])
        self.reorder(yo, xo, yi, xi)
        return [yo, xo, yi, xi]

    def vthread(self, loop: LoopRV) -> None:
        """A virtual thread: copies of the body."""
        self.bind(loop, "vthread")

    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        return _api.decompose_reduction(self._handle, self._block(block), _loop("decompose_reduction", loop))

    def rfactor(self, loop: LoopRV, factor_axis: int = 0) -> BlockRV:
        return _api.rfactor(self._handle, _loop("rfactor", loop), factor_axis)

    def annotate(self, block_or_loop: BlockRV | LoopRV, key: str, value: Scalar | str) -> None:
        if not isinstance(block_or_loop, BlockRV):
            _loop("annotate", block_or_loop)
        _api.annotate(self._handle, block_or_loop, key, value if isinstance(value, str) else as_expr(value))

    def unannotate(self, block_or_loop: BlockRV | LoopRV, key: str) -> None:
        if not isinstance(block_or_loop, BlockRV):
            _loop("unannotate", block_or_loop)
        known = [str(name) for name in self.get(block_or_loop).annotations]
        if key not in known:
            raise ScheduleError(f"unannotate: there is no annotation {key!r}; there are: {', '.join(known) or 'none'}")
        _api.unannotate(self._handle, block_or_loop, key)

    def pragma(self, loop: LoopRV, key: str, value: Scalar | str) -> None:
        self.annotate(loop, f"pragma_{key}", value)

    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None) -> int:
        """One of the candidates, drawn with those probabilities; or the one whose number is `decision`."""
        if len(candidates) == 0 or len(candidates) != len(probs):
            raise ScheduleError(f"sample_categorical: {len(candidates)} candidates and {len(probs)} probabilities; "
                                "expected as many of each")
        if decision is not None:
            return int(candidates[int(decision)])
        return int(self._random.choices(list(candidates), [float(p) for p in probs])[0])

    def sample_perfect_tile(self, loop: LoopRV, n: int, max_innermost_factor: int = 16,
                            decision: Sequence[int] | None = None) -> list[int]:
        """`n` factors, outermost first, whose product is the loop's extent; the last is at most max_innermost_factor."""
        extent = self.get(_loop("sample_perfect_tile", loop)).extent
        if not isinstance(extent, IntImm) or n < 1:
            raise ScheduleError(f"sample_perfect_tile: {n} factors of a loop of extent {extent}; expected a constant "
                                "extent, and at least one factor")
        whole("sample_perfect_tile: max_innermost_factor", max_innermost_factor, 1)
        if decision is not None:
            return [int(d) for d in decision]
        rest, factors = int(extent), []
        for i in range(n - 1):
            divisors = [d for d in range(1, rest + 1) if rest % d == 0 and (i > 0 or d <= max_innermost_factor)]
            factors.append(self._random.choice(divisors))
            rest //= factors[-1]
        return [rest] + factors[::-1]

    def _buffer(self, primitive, block, buffer, kind):
        """The number of a buffer among those that the block reads or writes."""
        if isinstance(buffer, int):
            return buffer
        names = [region.buffer.name for region in getattr(self.get(block), kind)]
        name = getattr(buffer, "name", buffer)
        for candidate in (name, _dotted(name) if isinstance(name, str) else name):
            if candidate in names:
                return names.index(candidate)
        raise ScheduleError(f"{primitive}: block '{block.name}' {kind} no buffer {name!r}; it {kind} "
                            f"{', '.join(names) or 'none'}")

    def _block(self, block):
        if isinstance(block, str):
            return self.get_block(block)
        if not isinstance(block, BlockRV):
            raise ScheduleError(f"expected a block (get_block) or its name, not {block!r}")
        return block


def _dotted(name):
    """`A_shared` as `A.shared`."""
    base, _, scope = name.rpartition("_")
    return f"{base}.{scope}" if base else name


def _only_default(primitive, argument, value, allowed):
    if value not in allowed:
        raise ScheduleError(f"{primitive}: {argument}={value!r} isn't supported; expected {allowed[0]!r}")


def _listed(values):
    """Values that may have been given as one list."""
    return values[0] if len(values) == 1 and isinstance(values[0], (list, tuple)) else values


def _loop(primitive, value):
    if not isinstance(value, LoopRV):
        raise ScheduleError(f"{primitive}: expected a loop (get_loops), not "
                            f"{'a block' if isinstance(value, BlockRV) else repr(value)}")
    return value


def verify_trace_roundtrip(sch: Schedule, mod: PrimFunc | IRModule, *, debug_mask: str | int = "all") -> Schedule:
    """A schedule of `mod` that takes the steps of the trace of `sch`, as JSON; an Error where it comes to another module.
    debug_mask: the original's, without an effect: what is always checked needs no mask."""
    from ..ir import structural_equal

    again = Schedule(mod)
    again.replay(sch.trace.as_json())
    if not structural_equal(again.mod, sch.mod):
        raise Error(f"the trace comes to another module:\n{again.mod}\nexpected:\n{sch.mod}")
    return again
