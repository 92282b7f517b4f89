# SPDX-License-Identifier: Apache-2.0
"""Search policies and cost models, as scripts name them. Plans are ranked by the kernels' own models of costs, sketches
are drawn; a policy says the seed, and what is known already."""
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .._arguments import mapping
from ..error import Error
from ..meta_schedule.tir_integration import EPSILON
from .custom_sketch import PreloadCustomSketchRule
from .records import RecordReader


class XGBModel:
    """Ranks by the kernels' models of costs: they know what logs could teach, so there is nothing to train, save or load."""

    def __init__(self, verbose_eval: int = 25, num_warmup_sample: int = 100, seed: int | None = None, model_file: Any = None,
                 adaptive_training: bool = False) -> None:
        self.seed = seed

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        pass

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        if not os.path.exists(file_name):
            raise Error(f"{file_name}: there is no such log")

    def save(self, file_name: str) -> None:
        pass

    def load(self, file_name: str) -> None:
        pass


class RandomModel(XGBModel):
    """The same: an order at random is no better."""

    def __init__(self):
        super().__init__()


class PreloadMeasuredStates:
    """What a log has of the task isn't measured again, and the search begins at its best."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        if not os.path.exists(filename):
            raise Error(f"{os.fspath(filename)}: there is no such log")
        self.filename = filename

    def plans(self, task: Any) -> list[Any]:
        """Pairs of plans and seconds, the fastest first; errors take infinitely long."""
        found: dict[Any, Any] = {}
        for measure_input, result in RecordReader(self.filename):
            if (measure_input.workload_key, measure_input.target) == (task.workload_key, str(task.target)):
                cost = float("inf") if result.error_no else sum(result.costs) / len(result.costs)
                found[measure_input.plans] = min(cost, found.get(measure_input.plans, float("inf")))
        return sorted(found.items(), key=lambda pair: pair[1])


class SketchPolicy:
    """How `SearchTask.tune` searches: from what logs have, by a seed. params: {"eps_greedy": the part of the schedules of a
    round that is drawn anew, where others change one of the best}, for computations that no kernel is for."""

    DEFAULT_PARAMS: dict = {"eps_greedy": EPSILON}

    def __init__(self, task: Any, program_cost_model: Any = None, params: Mapping[str, Any] | None = None,
                 seed: int | None = None, verbose: int = 1, init_search_callbacks: Any = None) -> None:
        params = mapping("SketchPolicy: params", params, "{'eps_greedy': 0.05}")
        if program_cost_model is not None and not hasattr(program_cost_model, "update"):
            raise Error(f"SketchPolicy: the cost model is {program_cost_model!r}; expected an XGBModel or a RandomModel")
        unknown = sorted(set(params) - set(self.DEFAULT_PARAMS))
        if unknown:
            raise Error(f"SketchPolicy: {', '.join(unknown)} are parameters of an evolutionary search; plans are ranked by "
                        f"the cost model and walked along. Its parameters are: {', '.join(self.DEFAULT_PARAMS)}")
        if not hasattr(task, "compute_dag"):
            raise Error(f"SketchPolicy: expected a SearchTask, not {task!r}")
        self.task = self.search_task = task
        self.params = {**self.DEFAULT_PARAMS, **params}
        eps = self.params["eps_greedy"]
        if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not 0 <= eps <= 1:
            raise Error(f"SketchPolicy: eps_greedy is {eps!r}; expected a number from 0 to 1")
        self.seed, self.verbose = int(seed or 0), verbose
        given = list(init_search_callbacks or [])
        self.callbacks = [callback for callback in given if isinstance(callback, PreloadMeasuredStates)]
        self.rules = [callback for callback in given if isinstance(callback, PreloadCustomSketchRule)]
        for callback in given:
            if not isinstance(callback, (PreloadMeasuredStates, PreloadCustomSketchRule)):
                raise Error(f"SketchPolicy: {type(callback).__name__} has no counterpart; there are PreloadMeasuredStates and "
                            "PreloadCustomSketchRule")

    def known(self, task: Any) -> list[Any]:
        """Plans that are measured already, with their seconds."""
        return [pair for callback in self.callbacks for pair in callback.plans(task)]

    def search(self, num_measure_trials: int, early_stopping: int, num_measures_per_round: int, measurer: Any = None) -> Any:
        raise Error("SketchPolicy.search: SearchTask.tune(options, search_policy) runs it")
