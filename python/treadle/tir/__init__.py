# SPDX-License-Identifier: Apache-2.0
"""Loop-level code: scalar expressions, functions, schedules."""
from ..ir import FloatImm, IntImm, PrimExpr
from .expr import (Add, And, Broadcast, BufferLoad, Call, CallEffectKind, Cast, CommReducer, Div, EQ, FloorDiv, FloorMod, GE, GT, IterVar,
                   LE, LT, Let, Max, Min, Mod, Mul, NE, Not, Or, ProducerLoad, Ramp, Reduce, Select, Shuffle, SizeVar, StringImm, Sub,
                   Var, abs, all, any, atan2, call_extern, call_intrin, call_packed, call_pure_extern, const, div,
                   floordiv, floormod, fmod, if_then_else, indexdiv, indexmod, infinity, isfinite, isinf, isnan, likely,
                   max_value, min_value, power, truncdiv, truncmod)
from .expr import (acos, acosh, asin, asinh, atan, atanh, ceil, cos, cosh, erf, exp, exp2, exp10, floor, log, log1p, log2, log10, nearbyint,
                   round, rsqrt, sigmoid, sin, sinh, sqrt, tan, tanh, trunc)
from .expr import (call_llvm_intrin, call_llvm_pure_intrin, ceildiv, clz, copysign, hypot, ldexp, nextafter, popcount, q_multiply_shift,
                   reinterpret, ret, trace)
from .expr import power as pow  # noqa: A004 - the familiar name
from .function import Buffer, PrimFunc, decl_buffer, from_text
from .schedule import BlockRV, LoopRV, Schedule, ScheduleError, Trace
from .stmt import (Allocate, AssertStmt, AttrStmt, Block, BlockRealize, BufferRegion, BufferStore, MatchBufferRegion, Evaluate, For, ForKind, IfThenElse,
                   LetStmt, SeqStmt, Stmt, While, stmt_list, stmt_seq)
from .data_layout import BijectiveLayout, Layout, bijective_layout, layout
from . import analysis, datatype, ir_builder, stmt_functor, transform
from .reduction import comm_reducer, max, min, prod, sum  # noqa: A004
from .tensor_intrin import TensorIntrin
