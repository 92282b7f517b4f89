# SPDX-License-Identifier: Apache-2.0
"""Names that have no counterpart."""
from ..error import Error

_INSTEAD = ("algorithms and layouts of a whole graph are searched by treadle.tune(model, 'records.jsonl'), which measures "
            "them in the model; builds take its records by autotvm.apply_history_best (docs/tuning.md)")


class DPTuner:
    def __init__(self, *_args, **_kwargs):
        raise Error(f"autotvm.graph_tuner.{type(self).__name__}: {_INSTEAD}")


class PBQPTuner(DPTuner):
    pass


class ApplyGraphBest(DPTuner):
    pass
