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
    "ProgramBuilder ProgramMeasurer ProgramRunner local_builder_build local_run prepare_input_map recover_measure_input":
        "SearchTask.tune builds and measures; SearchTask.measure(plans, LocalRunner()) does it for plans of a log",
    "MeasureCallback PythonBasedMeasureCallback":
        "measure_callbacks are functions that get the inputs and the results of a round",
    "SearchCallback SearchPolicy": "SketchPolicy is the policy that there is; PreloadMeasuredStates and "
                                   "PreloadCustomSketchRule are its callbacks",
    "TracingEnvironment TracingMode auto_schedule_topi":
        "extract_tasks gives the tasks of a network",
    "serialize_workload_registry_entry deserialize_workload_registry_entry workload_func_name register_workload_tensors":
        "workloads are functions of sizes that every program registers (register_workload)",
    "make_search_policies derive_similarity_tag": "TaskScheduler(tasks, weights).tune(options) searches by itself",
    "get_task_input_buffer register_task_input_buffer":
        "SearchTask(task_inputs={name: values}, task_inputs_save_to_file=True) gives and keeps them",
    "get_per_store_features_from_file get_per_store_features_from_measure_pairs get_per_store_features_from_states":
        "plans are ranked by the kernels' own cost models, no features are computed",
    "ComputeDAG.@workload_key": "make_workload_key(function, arguments)",
    "RecordReader.check_workload_key": "load_best_record leaves out records of other workloads"}
