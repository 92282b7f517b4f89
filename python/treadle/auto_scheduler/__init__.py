# SPDX-License-Identifier: Apache-2.0
"""The auto-scheduler's names, for tensor expressions: `SearchTask.tune` measures plans of the kernels that the
computation has (`te.auto_schedule`) and schedules within sketches, `apply_best` gives the fastest that a log knows.
Networks are tuned by `treadle.tune` (docs/tuning.md)."""
from .network import ApplyHistoryBest, TaskScheduler, extract_tasks, is_auto_scheduler_enabled
from .policy import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .records import (MeasureInput, MeasureResult, RecordReader, RecordToFile, load_best_record, load_records,
                      save_records)
from .refused import (ApplyHistoryBestOrSample, ComputeDAG, EmptyPolicy, HardwareParams, LayoutRewriteOption,
                      PreloadCustomSketchRule, PythonBasedModel, RPCRunner)
from .task import (LocalBuilder, LocalRPCMeasureContext, LocalRunner, SearchTask, TuningOptions, create_task,
                   make_workload_key, register_workload)
