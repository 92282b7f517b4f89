# SPDX-License-Identifier: Apache-2.0
"""Kernels of networks as tasks of tuners. Their configurations are the kernels' plans, their logs records of
treadle.tune, which builds take inside ApplyHistoryBest."""
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _networks, tuning
from .._ffi import get_global_func
from ..error import Error
from .measure import MeasureErrorNo, MeasureInput, MeasureResult


# What the names of an operator's kernels begin with.
_FAMILIES = {"nn.conv2d": "conv2d", "nn.conv1d": "conv2d", "nn.conv3d": "conv2d", "nn.conv2d_transpose": "conv2d_transpose",
             "nn.dense": "matmul", "nn.matmul": "matmul", "nn.batch_matmul": "matmul", "nn.attention": "attention"}


class PlanConfig:
    """A plan, and what became of it."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields

    def __repr__(self):
        return self.fields["plan"]


def _flop(problem):
    """Operations of a convolution or a product, two for each multiply-add; 0.0 for others, and for dynamic shapes."""
    sizes = json.loads(problem)
    if sizes.get("type") == "schedule.ConvProblem":
        factors = [sizes[name] for name in ("batch", "oc", "oh", "ow", "ic", "kh", "kw")]
        return 2.0 * math.prod(factors) / sizes["groups"] if min(factors) > 0 else 0.0
    if sizes.get("type") == "schedule.MatmulProblem":
        factors = [sizes[name] for name in ("batch", "m", "n", "k")]
        return 2.0 * math.prod(factors) if min(factors) > 0 else 0.0
    return 0.0


class NetworkTask:
    """A kernel of a network. `config_space` has its plans."""

    def __init__(self, kernel_task: Any) -> None:
        self.data = kernel_task.data
        data = kernel_task.json
        self.name, self.args, self.flop = data["kernel"], (data["problem"],), _flop(data["problem"])
        self.kwargs: dict[Any, Any] = {}
        self.workload, self.target = (self.name, *self.args), kernel_task.target
        self.config_space = list(get_global_func("schedule.Plans")(data["kernel"], data["problem"], data["target"]))

    def __repr__(self):
        return f"Task(func_name={self.name}, args={self.args}, kwargs={{}}, workload={self.workload})"

    def record_line(self, config: Any) -> Any:
        """The line of a log."""
        return tuning.record_line(self.data, t=int(time.time()), **config.fields).rstrip("\n")

    def tune(self, tuner: Any, n_trial: int, early_stopping: int | None, callbacks: Sequence[Any], threads: int = 0) -> "PlanConfig":
        """Races plans against the best one so far, then confirms that one in fresh processes."""
        search, done, since_best = tuning.Search(self.data, batch=min(32, n_trial)), 0, 0
        default_us = 0.0
        while done < n_trial and (plans := search.propose()[:n_trial - done]):
            before = search.ratio
            results = tuning.measure_batch(self.data, search.incumbent, plans, threads)
            search.tell([(r["state"] == "raced" or r["pairs"] > 0, r["state"] == "raced", before * r["ratio"]) for r in results])
            for result in results:
                default_us = result.get("us", default_us)
                result.update({key: result[key] * before for key in ("ratio", "lo", "hi")})
            done += len(plans)
            since_best = 0 if search.ratio < before else since_best + len(plans)
            self._tell(tuner, results, callbacks)
            if early_stopping and since_best >= early_stopping:
                break
        if search.ratio < 1:
            found = tuning.confirm(self.data, search.incumbent, threads)
            state = "confirmed" if found.pop("accepted") else "rejected"
            self._tell(tuner, [{"plan": search.incumbent, "state": state, "procs": 3, "us": default_us, **found}], callbacks)
        return PlanConfig({"plan": search.incumbent})

    def _tell(self, tuner, fields, callbacks):
        inputs = [MeasureInput(self.target, self, PlanConfig(each)) for each in fields]
        results = []
        for each in fields:
            failed = each["state"] == "error"
            cost = 1e9 if failed else each.get("us", 0.0) * 1e-6 * each["ratio"]
            error_no = MeasureErrorNo.UNKNOWN_ERROR if failed else MeasureErrorNo.NO_ERROR
            results.append(MeasureResult((cost,), int(error_no), 0.0, time.time(), each.get("err", "")))
        for callback in callbacks:
            callback(tuner, inputs, results)


def extract_from_program(mod: Any, params: Mapping[str, Any], target: Any, target_host: Any = None, ops: Any = None) -> Any:
    """The kernels of a network that have plans to choose from; `ops`: of these operators alone."""
    tasks = [NetworkTask(task) for task in _networks.tasks(mod, params, target)]
    if ops is None:
        return tasks
    families = {_FAMILIES.get(str(op), str(op)) for op in ops}
    unknown = families - set(_FAMILIES.values())
    if unknown:
        raise Error(f"autotvm.task.extract_from_program: no kernels are for {', '.join(sorted(unknown))}; there are kernels for "
                    f"{', '.join(sorted(_FAMILIES))}")
    return [task for task in tasks if task.name.split(".")[0] in families]


def extract_from_multiple_program(mods: Sequence[Any], params: Sequence[Mapping[str, Any]], target: Any, target_host: Any = None,
                                  ops: Any = None) -> list[Any]:
    """The same of several networks, equal kernels once."""
    found: dict[Any, Any] = {}
    for mod, given in zip(mods, params):
        for task in extract_from_program(mod, given, target, target_host, ops):
            found.setdefault(json.dumps(task.workload), task)
    return list(found.values())
