# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's names (TVM 0.11): `tune_tir` and `compile_tir` measure sketches of loop-level functions, `tune_relay` and
`compile_relay` tune networks with `treadle.tune`. docs/tuning.md."""
from . import database, relay_integration, tir_integration
from .database import Database
from .relay_integration import compile_relay, extract_tasks, is_meta_schedule_enabled, tune_relay
from .runner import LocalBuilder, LocalRunner
from .sketch import Sketch
from .tir_integration import compile_tir, tune_tir
