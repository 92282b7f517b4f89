# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's names (TVM 0.11): `tune_tir` and `compile_tir` measure sketches of loop-level functions, `tune_relay` and
`compile_relay` tune networks with `treadle.tune`. docs/tuning.md."""
from . import builder, database, mutator, postproc, relay_integration, runner, schedule_rule, space_generator, tir_integration
from .database import Database
from .relay_integration import compile_relay, extract_tasks, is_meta_schedule_enabled, tune_relay
from .runner import EvaluatorConfig, LocalBuilder, LocalRunner
from .schedule_rule import PyScheduleRule
from .sketch import Sketch
from .space_generator import PostOrderApply, ScheduleFn
from .tir_integration import compile_tir, tune_tir
