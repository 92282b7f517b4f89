# SPDX-License-Identifier: Apache-2.0
"""Names that have no counterpart, each with what to use instead."""
from .._refused import refused

_STRATEGY = "what an operator is computed by is its strategy (relay.op.strategy, docs/add-a-kernel.md)"

register_topi_compute = refused("autotvm.register_topi_compute", _STRATEGY)
register_topi_schedule = refused("autotvm.register_topi_schedule", _STRATEGY)
ApplyFixedConfig = refused("autotvm.ApplyFixedConfig", "ApplyConfig(config) gives one configuration to all templates")
create_measure_batch = refused("autotvm.create_measure_batch", "tuner.tune(.., measure_option=) builds and measures")

_MEASURE = "builders and runners are called by tuners: tuner.tune(.., measure_option=)"
NAMES = {"LocalBuilder.build LocalRunner.set_task RPCRunner.ref_input RPCRunner.set_task RPCRunner.get_build_kwargs "
         "RPCRunner.run": _MEASURE,
         "GLOBAL_SCOPE": "ApplyHistoryBest and ApplyConfig are contexts; there is no global one",
         "ConfigEntity.get_other_option": "config[name].val is the value of an option",
         "ConfigEntity.get_flatten_feature": "plans are ranked by the kernels' own cost models"}

# Of names that are only found in a module of autotvm.
_SEARCH = "tuners walk along the knobs, no model is trained; the ones of your own derive from autotvm.tuner.Tuner"
NAMES_OF_MODULES = {
    "env": {"AutotvmGlobalScope GLOBAL_SCOPE": NAMES["GLOBAL_SCOPE"]},
    "measure": {"Builder Runner default_module_loader local_executor": _MEASURE,
                "create_measure_batch": "tuner.tune(.., measure_option=) builds and measures",
                "request_remote check_remote": "rpc.connect(host, port) gives a remote device; there is no tracker"},
    "record": {"clean_json_to_file": "pick_best(log, file) writes the fastest of each workload"},
    "space": {"InstantiationError": "configurations that can't be built are results with an error_no",
              "VirtualAxis": "define_split takes axes and extents",
              "ConfigSpace.multi_filter": "define_split(filter=) filters the values of a knob"},
    "task": {"ApplyFixedConfig": "ApplyConfig(config) gives one configuration to all templates",
             "TaskExtractEnv": "extract_from_program gives the tasks of a network",
             "args_to_workload serialize_args deserialize_args": _STRATEGY},
    "tuner": {"ModelBasedTuner ModelOptimizer SimulatedAnnealingOptimizer XGBoostCostModel FeatureCache": _SEARCH},
}
