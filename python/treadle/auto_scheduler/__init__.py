# SPDX-License-Identifier: Apache-2.0
"""The auto-scheduler's names, for tensor expressions: `SearchTask.tune` measures plans of the kernels that the
computation has (`te.auto_schedule`) and schedules within sketches, `apply_best` gives the fastest that a log knows.
Networks are tuned by `treadle.tune` (docs/tuning.md)."""
import sys as _sys

from . import _ffi_api, loop_state
from .compute_dag import ComputeDAG
from .custom_sketch import PreloadCustomSketchRule
from .network import ApplyHistoryBest, TaskScheduler, extract_tasks, is_auto_scheduler_enabled
from .policy import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .records import (MeasureErrorNo, MeasureInput, MeasureResult, RecordReader, RecordToFile, distill_record_file,
                      load_best_record, load_records, save_records)
from .refused import (NAMES as _NAMES, ApplyHistoryBestOrSample, CostModel, EmptyPolicy, HardwareParams, LayoutRewriteOption,
                      LogEstimatedLatency, PrintTableInfo, PythonBasedModel, RPCRunner,
                      TaskSchedulerCallback, auto_schedule)
from .task import (LocalBuilder, LocalRPCMeasureContext, LocalRunner, SearchTask, TuningOptions, create_task,
                   register_task_input_check_func)
from .workloads import make_workload_key, register_workload, workload_key_to_tensors
from .. import _other_paths
from .._refused import refuse_names as _refuse_names

_other_paths.add({f"auto_scheduler.{path}": (__name__, "") for path in (
    "cost_model", "dispatcher", "feature", "measure", "measure_record", "relay_integration",
    "search_policy", "search_task", "task_scheduler", "workload_registry")})
_refuse_names(_sys.modules[__name__], "auto_scheduler", _NAMES)
