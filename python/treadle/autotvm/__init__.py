# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's names: templates of tensor expressions with knobs, tuners that measure them, logs. Networks are tuned by
`treadle.tune`, which needs no templates (docs/tuning.md)."""
from . import callback, record, tuner
from .env import ApplyHistoryBest, FallbackContext, apply_history_best
from .measure import LocalBuilder, LocalRunner, MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner, measure_option
from .space import ConfigEntity, ConfigSpace
from .task import Task, get_config, template
from . import task
