# SPDX-License-Identifier: Apache-2.0
"""Names that have no counterpart, each with what to use instead."""
from ..error import Error


def _refused(name, instead):
    class Refused:
        def __init__(self, *_args, **_kwargs):
            raise Error(f"auto_scheduler.{name}: {instead}")

    Refused.__name__ = Refused.__qualname__ = name
    return Refused


_NETWORKS = ("networks are tuned by treadle.tune(model, 'records.jsonl'), and builds take its records by "
             "PassContext(config={'schedule.records': 'records.jsonl'}) (docs/tuning.md)")

ApplyHistoryBestOrSample = _refused("ApplyHistoryBestOrSample", _NETWORKS)
RPCRunner = _refused("RPCRunner", "there is no tracker; measure on other machines with treadle.fleet (docs/tuning.md)")
SketchPolicy = _refused("SketchPolicy", "plans are ranked by the cost model and walked along; SearchTask.tune takes no policy")
XGBModel = _refused("XGBModel", "plans are ranked by the kernels' own cost models; no other is trained")
