# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's names (TVM 0.11): `tune_tir` and `compile_tir` measure sketches of loop-level functions, `tune_relay` and
`compile_relay` tune networks with `treadle.tune`. docs/tuning.md."""
from typing import Any

from .. import _other_paths
from . import builder, database, mutator, postproc, refused, relay_integration, runner, schedule_rule, space_generator, tir_integration
from .database import Database
from .relay_integration import (compile_relay, extract_tasks, extracted_tasks_to_tune_contexts, is_meta_schedule_enabled,
                                tune_relay, tune_tasks)
from .runner import EvaluatorConfig, LocalBuilder, LocalRunner
from .schedule_rule import PyScheduleRule
from .sketch import Sketch
from .space_generator import PostOrderApply, ScheduleFn
from .tir_integration import compile_tir, tune_tir


def derived_object(cls: Any) -> Any:
    """Decorator of rules that are written in Python: they need none."""
    return cls


def __getattr__(name):
    try:
        return getattr(refused, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


_other_paths.add({f"meta_schedule.{path}": (f"{__name__}.refused", "") for path in (
    "arg_info", "cost_model", "extracted_task", "feature_extractor", "measure_callback", "profiler", "search_strategy",
    "task_scheduler", "trace_apply", "tune_context")})
_other_paths.add({f"meta_schedule.{path}": (__name__, "") for path in ("tune", "utils")})
