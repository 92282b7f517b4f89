# SPDX-License-Identifier: Apache-2.0
"""Names that have no counterpart, each with what to use instead."""
from .._refused import refused


def _refused(name, instead):
    return refused(f"auto_scheduler.{name}", instead)


_NETWORKS = ("networks are tuned by treadle.tune(model, 'records.jsonl'), and builds take its records by "
             "PassContext(config={'schedule.records': 'records.jsonl'}) (docs/tuning.md)")

ApplyHistoryBestOrSample = _refused("ApplyHistoryBestOrSample", _NETWORKS)
RPCRunner = _refused("RPCRunner", "measure on other machines with treadle.fleet (docs/tuning.md) or autotvm.RPCRunner")
EmptyPolicy = _refused("EmptyPolicy", "SketchPolicy is the policy that there is")
PythonBasedModel = _refused("PythonBasedModel", "plans are ranked by the kernels' own cost models; treadle.tuning.Search has the "
                            "steps for those who rank otherwise")
HardwareParams = _refused("HardwareParams", "the target says what the machine is: llvm -mcpu=.. -num-cores=..")
LayoutRewriteOption = _refused("LayoutRewriteOption", "packing of operands is part of the kernels")
_ROUNDS = "SearchTask.tune (logging) and treadle.tune's report describe what a search does (docs/tuning.md)"
PrintTableInfo = _refused("PrintTableInfo", _ROUNDS)
LogEstimatedLatency = _refused("LogEstimatedLatency", _ROUNDS)
TaskSchedulerCallback = _refused("TaskSchedulerCallback", _ROUNDS)
CostModel = _refused("CostModel", "plans are ranked by the kernels' own cost models")
auto_schedule = _refused("auto_schedule", "task.tune(options), then task.apply_best(log)")

NAMES = {
    "get_shape_from_rewritten_layout remove_index_check rewrite_compute_body ComputeDAG.rewrite_layout_from_state":
        "packing of operands is part of the kernels",
    "DispatchContext": "ApplyHistoryBest is the one context",
    "ComputeDAG.print_python_code_from_state": "SearchTask.print_best shows the schedule of the best plan",
    "RandomModel.predict XGBModel.predict XGBModel.predict_stages": "plans are ranked by the kernels' own cost models",
    "SketchPolicy.generate_sketches SketchPolicy.sample_initial_population SketchPolicy.evolutionary_search":
        "a policy searches plans of kernels; SearchTask.tune runs the whole search",
    "RecordReader.check_workload_key": "load_best_record leaves out records of other workloads"}
