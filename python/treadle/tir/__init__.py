# SPDX-License-Identifier: Apache-2.0
"""Loop-level code: scalar expressions, functions, schedules."""
from .expr import (Add, And, Call, Cast, CommReducer, EQ, GE, GT, IterVar, LE, LT, Max, Min, Mul, NE, Not, Or, Reduce,
                   Select, StringImm, Sub, Var, abs, all, any, const, div, floordiv, floormod, if_then_else, infinity,
                   isnan, likely, max_value, min_value, power, truncdiv, truncmod)
from .expr import (acos, asin, atan, ceil, cos, cosh, erf, exp, exp2, exp10, floor, log, log1p, log2, log10, nearbyint,
                   round, rsqrt, sigmoid, sin, sinh, sqrt, tan, tanh, trunc)
from .function import Block, Buffer, For, PrimFunc, Stmt
from .schedule import BlockRV, LoopRV, Schedule, ScheduleError
