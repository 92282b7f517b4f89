# SPDX-License-Identifier: Apache-2.0
"""Names that have no counterpart, each with what to use instead."""
from .._refused import refused

_INSTEAD = {
    "candidates are measured, no model is trained": "CostModel PyCostModel XGBModel RandomModel MLPModel",
    "candidates are measured, no features are computed": "FeatureExtractor PerStoreFeature RandomFeatureExtractor",
    "a search draws decisions and changes the best ones (docs/tuning.md); a space of one's own: space_generator.ScheduleFn":
        "SearchStrategy EvolutionarySearch ReplayFunc ReplayTrace MeasureCandidate EvolutionarySearchConfig "
        "ReplayTraceConfig ReplayFuncConfig",
    "measurements always go to the database of work_dir":
        "MeasureCallback PyMeasureCallback AddToDatabase RemoveBuildArtifact UpdateCostModel",
    "the tasks that promise most come first (docs/tuning.md)": "TaskScheduler GradientBased RoundRobin",
    "tune_tir and tune_relay take the number of trials, the rest is theirs": "TuneConfig TuneContext",
    "builds inside of `with database:` take its records": "ApplyHistoryBest",
    "logging and treadle.tune's report describe what a search does": "Profiler",
    "there is no builder of one's own; candidates are built and run in processes of their own (LocalBuilder, LocalRunner)":
        "Builder PyBuilder BuilderInput BuilderResult Runner PyRunner RunnerInput RunnerResult RunnerFuture",
    "a rule of one's own derives from PyScheduleRule (space_generator.PostOrderApply)": "ScheduleRule",
    "a space of one's own: space_generator.ScheduleFn(f), where f schedules and samples": "SpaceGenerator PySpaceGenerator SpaceGeneratorUnion",
    "lowering vectorises, unrolls and packs; what else is to be done belongs to the function of a ScheduleFn": "Postproc PyPostproc",
    "a search changes one part of a decision by itself": "Mutator PyMutator",
    "extract_tasks gives the tasks of a network": "ExtractedTask",
    "shapes and types are those of the function": "ArgInfo TensorInfo",
    "treadle.auto_scheduler tunes tensor expressions; te.create_prim_func(tensors) gives what tune_tir takes": "tune_te",
    "tune_relay(mod, params, target, work_dir, trials) tunes all tasks of a network": "tune_extracted_tasks",
    "tune_tir and tune_relay have their defaults in their signatures": "default_config",
    "records are of functions with equal text": "schedule_using_anchor_trace",
    "there is no tracker; measure on other machines with treadle.fleet (docs/tuning.md)": "RPCConfig RPCRunner",
}
for _instead, _names in _INSTEAD.items():
    for _name in _names.split():
        globals()[_name] = refused(f"meta_schedule.{_name}", _instead)
