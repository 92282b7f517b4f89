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
    "there is no tracker; measure on other machines with treadle.fleet (docs/tuning.md)": "RPCConfig RPCRunner",
}
for _instead, _names in _INSTEAD.items():
    for _name in _names.split():
        globals()[_name] = refused(f"meta_schedule.{_name}", _instead)
