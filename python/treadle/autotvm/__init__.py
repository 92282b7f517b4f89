# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's names: templates of tensor expressions with knobs, tuners that measure them, logs. Of networks, tasks are the
kernels with their plans; `treadle.tune` tunes all of one, with its algorithms and layouts (docs/tuning.md)."""
import sys as _sys

from . import callback, database, graph_tuner, record, tophub, tuner, utils
from .env import ApplyConfig, ApplyHistoryBest, DispatchContext, FallbackContext, apply_history_best
from .graph_tuner import ApplyGraphBest
from .graph_tuner import ApplyGraphBest as apply_graph_best
from .measure import LocalBuilder, LocalRunner, MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner, measure_option
from .refused import NAMES as _NAMES, NAMES_OF_MODULES as _NAMES_OF_MODULES, ApplyFixedConfig, create_measure_batch, register_topi_compute, register_topi_schedule
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from .task import Task, get_config, template
from .tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner
from . import task
from .task import create
from .. import _other_paths
from .._refused import refuse_names as _refuse_names

_other_paths.add({f"autotvm.{path}": (f"{__name__}.{source}", "") for path, source in {
    "task.dispatcher": "env", "task.relay_integration": "task", "task.space": "space", "task.task": "task",
    "task.topi_integration": "task", "tuner.callback": "callback", "tuner.index_based_tuner": "tuner",
    "measure.measure": "measure", "measure.measure_methods": "measure", "tuner.ga_tuner": "tuner",
    "tuner.model_based_tuner": "tuner", "tuner.sa_model_optimizer": "tuner", "tuner.xgboost_cost_model": "tuner",
    "tuner.xgboost_tuner": "tuner"}.items()})
_refuse_names(_sys.modules[__name__], "autotvm", _NAMES)
for _path, _names in _NAMES_OF_MODULES.items():
    _refuse_names(_sys.modules[f"{__name__}.{_path}"], f"autotvm.{_path}", _names)
