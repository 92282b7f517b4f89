# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions: what to compute, and schedules for how."""
from ..tir import (abs, acos, all, any, asin, atan, ceil, const, cos, cosh, div, erf, exp, floor, floordiv, floormod,
                   if_then_else, infinity, isnan, log, log1p, log2, log10, max_value, min_value, power, round, rsqrt,
                   sigmoid, sin, sinh, sqrt, tan, tanh, trunc, truncdiv, truncmod)
from ..tir.expr import select
from .operation import (comm_reducer, compute, create_prim_func, max, min, placeholder, prod, reduce_axis, sum,
                        thread_axis, var)
from .schedule import Schedule, Stage, create_schedule
from .tensor import Operation, Tensor
