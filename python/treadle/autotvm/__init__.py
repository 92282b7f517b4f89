# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's names: templates of tensor expressions with knobs, tuners that measure them, logs. Of networks, tasks are the
kernels with their plans; `treadle.tune` tunes all of one, with its algorithms and layouts (docs/tuning.md)."""
from . import callback, graph_tuner, record, tuner
from .env import ApplyHistoryBest, DispatchContext, FallbackContext, apply_history_best
from .graph_tuner import ApplyGraphBest as apply_graph_best
from .measure import LocalBuilder, LocalRunner, MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner, measure_option
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from .task import Task, get_config, template
from .tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner
from . import task
