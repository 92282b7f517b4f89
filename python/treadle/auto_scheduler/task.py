# SPDX-License-Identifier: Apache-2.0
"""Tasks: a computation, its arguments, a target."""
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from .. import build_module, te, transform, tuning
from .._arguments import listed, repetitions, seconds, whole
from .._ffi import Api
from .._measure import Failed, Runner
from ..error import Error
from ..meta_schedule.runner import LocalRunner as PairRunner
from ..meta_schedule.sketch import Sketch
from ..meta_schedule.tir_integration import Search as SketchSearch
from ..target import Target
from ..topi.sparse import inputs_of_sparse_products
from .compute_dag import ComputeDAG
from .custom_sketch import candidates
from .inputs import Inputs
from .loop_state import StateObject
from .policy import SketchPolicy
from .records import NOT_EQUAL, NOT_FASTER, MeasureInput, MeasureResult, load_best_record
from .workloads import make_workload_key, tensors_of_workload

logger = logging.getLogger("auto_scheduler")
_te = Api("te")
SKETCH = "sketch"  # key of a line that is a decision, not a kernel's plan
STATE = "state"  # key of a line that has the steps of a state
INPUT_CHECKS: list = [inputs_of_sparse_products]


def register_task_input_check_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Decorator: a function of a task's tensors that gives those of them whose values matter a name, by which
    `SearchTask(task_inputs=)` has the values: a mapping from tensors to names."""
    def register(function):
        INPUT_CHECKS.append(function)
        return function

    return register(func_name) if callable(func_name) else register(f) if f is not None else register


class LocalBuilder:
    """Compiles in this process, while nothing is measured."""

    def __init__(self, timeout: float = 15, n_parallel: Any = None, build_func: Any = "default") -> None:
        if build_func != "default":
            raise Error(f"LocalBuilder: build_func={build_func!r} isn't there; only 'default' is")
        seconds(timeout, "LocalBuilder: timeout")
        if n_parallel is not None:
            whole("LocalBuilder: n_parallel", n_parallel, 1)


class LocalRunner:
    """Runs in a process without compiler. enable_cpu_cache_flush: each run has copies of its inputs that no cache holds."""

    def __init__(self, timeout: float = 10, number: int = 3, repeat: int = 1, min_repeat_ms: int = 100,
                 cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False) -> None:
        repetitions("LocalRunner", timeout, number, repeat, min_repeat_ms)
        self.enable_cpu_cache_flush = enable_cpu_cache_flush
        self.number, self.repeat, self.min_repeat_ms, self.cooldown_interval = number, repeat, min_repeat_ms, cooldown_interval
        self.timeout, self._runner = timeout, Runner(timeout=timeout)

    def run(self, path: str | os.PathLike[str], shapes: Any, num_outputs: int) -> Any:
        time.sleep(self.cooldown_interval)
        return self._runner.costs(path, "main", shapes, num_outputs, self.number, self.repeat, self.min_repeat_ms,
                                  cold=self.enable_cpu_cache_flush)


class LocalRPCMeasureContext:
    """Has a runner: candidates run in processes of their own anyway."""

    def __init__(self, priority: int = 1, n_parallel: int = 1, timeout: float = 10, number: int = 3, repeat: int = 1,
                 min_repeat_ms: int = 0, cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False) -> None:
        self.runner = LocalRunner(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)


class TuningOptions:
    """How long to search, what to measure with: the number of trials, how many in a round, callbacks after each."""

    def __init__(self, num_measure_trials: int = 0, early_stopping: int | None = None, num_measures_per_round: int = 64,
                 verbose: int = 1, builder: Any = "local", runner: Any = "local", measure_callbacks: Any = None) -> None:
        whole("TuningOptions: num_measure_trials", num_measure_trials, 0)
        whole("TuningOptions: num_measures_per_round", num_measures_per_round, 1)
        for what, value, kind in (("builder", builder, "LocalBuilder"), ("runner", runner, "LocalRunner")):
            if value != "local" and isinstance(value, (str, int, float)) or value is None:
                raise Error(f"TuningOptions: the {what} is {value!r}; expected \"local\" or a {kind}")
        self.num_measure_trials, self.early_stopping, self.verbose = num_measure_trials, early_stopping, verbose
        self.num_measures_per_round = num_measures_per_round
        self.runner = LocalRunner() if runner == "local" else runner
        self.measure_callbacks = listed("TuningOptions: measure_callbacks", measure_callbacks or [], "a list of functions")


def _kernels(tensors):
    """(kernel, problem) of the computations that a kernel stands for."""
    found, work, met = [], list(tensors), []
    while work:
        op = work.pop(0).op
        if any(op.same_as(other) for other in met):
            continue
        met.append(op)
        if "problem" in op.attrs:
            found.append((str(op.attrs["kernel"]), str(op.attrs["problem"])))
        work += list(op.input_tensors)
    return found


def _plans_of(problem, kernel, known):
    """Plans of a kernel among those that are known, as `tuning.Search` states them; the fastest first."""
    found = []
    for plans in known:
        for line in map(json.loads, plans):
            if line.get("kernel") == kernel and line.get("problem") == json.loads(problem):
                found.append(json.dumps(line["plan"], separators=(",", ":")))
    return found


def _as_steps(steps):
    return [tuple(tuple(part) if isinstance(part, list) else part for part in step) for step in steps]


class SearchTask:
    """A workload with arguments and a target, to be tuned."""

    def __init__(self, func: Any = None, args: Sequence[Any] | None = None, compute_dag: Any = None,
                 workload_key: str | None = None, target: Any = None, target_host: Any = None, hardware_params: Any = None,
                 layout_rewrite_option: Any = None, task_inputs: Any = None, task_inputs_overwrite: bool = False,
                 task_inputs_save_to_file: bool = False, desc: str = "") -> None:
        given = {"compute_dag": compute_dag, "hardware_params": hardware_params,
                 "layout_rewrite_option": layout_rewrite_option}
        for name, value in given.items():
            if value is not None:
                raise Error(f"SearchTask: {name} has no counterpart: the target says what the machine is, and packing of "
                            "operands is part of the kernels")
        args = listed("SearchTask: args", args or (), "a tuple of the workload's arguments")
        self.workload_key = workload_key or make_workload_key(func, args)
        self.target, self.desc = Target(target or Target.current() or "llvm", host=target_host), desc
        self.tensors = tensors_of_workload(self.workload_key)
        self.task_inputs = dict(task_inputs or {})
        self._costs: dict[Any, float] = {}  # of choices of plans, in seconds
        self.inputs = Inputs(self.tensors, self.task_inputs, INPUT_CHECKS)
        if task_inputs_save_to_file:
            self.inputs.save(task_inputs_overwrite)

    @property
    def compute_dag(self) -> Any:
        """The computation, for states and sketch rules; its text is that of its loops."""
        return ComputeDAG(self.tensors)

    def _function(self):
        return te.create_prim_func(self.tensors)

    def build(self, plans: Any = ()) -> Any:
        """The function with these plans, scheduled; or by the decision of a sketch."""
        for plan in map(json.loads, plans):
            if STATE in plan:
                return self.compute_dag.apply_steps_from_state(StateObject(_as_steps(plan[STATE])))[0]
        decisions = [json.loads(plan)[SKETCH] for plan in plans if SKETCH in json.loads(plan)]
        if decisions:
            return Sketch(self._function()).apply(decisions[0]).func
        with transform.PassContext(config={"schedule.plans": "\n".join(plans)}):
            return te.auto_schedule(self.tensors, self.target)

    def measure(self, plans: Any, runner: Any) -> Any:
        """Builds and times a choice of plans."""
        start = time.time()

        def result(costs, error_no=0, error=""):
            return MeasureResult(tuple(costs), error_no, time.time() - start, time.time(), error)

        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            path = os.path.join(folder, "candidate.so")
            try:
                made = self.build(plans)
                if isinstance(made, te.Schedule):
                    library = build_module.build(made, self.tensors, target=self.target)
                else:
                    library = build_module.build(made, target=self.target)
                library.export_library(path)
            except Error as error:
                return result([1e9], 2, str(error))
            shapes = [([int(d) for d in t.shape], str(t.dtype)) for t in self.tensors]
            outputs = sum(1 for t in self.tensors if not isinstance(t.op, te.PlaceholderOp))
            try:
                return result(self.inputs.costs(path, runner) if self.inputs.values else runner.run(path, shapes, outputs))
            except Failed as error:
                return result([1e9], 7 if error.kind == "timeout" else 4, str(error))

    def ratios(self, plans: Any, runner: Any) -> list[float]:
        """Times of a choice of plans over those of the default one, measured in turns; none where results differ."""
        return list(PairRunner(timeout_sec=runner.timeout).ratios(self.build(()), self.build(plans), self.target))

    def tune(self, tuning_options: Any, search_policy: Any = None) -> Any:
        """Measures plans and tells the callbacks; the first one is what `te.auto_schedule` takes by itself. What the search
        policy has read from logs isn't measured again."""
        if not isinstance(tuning_options, TuningOptions):
            raise Error(f"SearchTask.tune: expected TuningOptions, not {tuning_options!r}")
        options, done, best_at = tuning_options, 0, 0
        policy = search_policy or SketchPolicy(self)
        if not isinstance(policy, SketchPolicy):
            raise Error(f"SearchTask.tune: expected a SketchPolicy, not {type(policy).__name__}")
        if policy.rules:
            return self._tune_states(options, policy)
        known = dict(policy.known(self))
        self._costs = {plans: cost for plans, cost in known.items() if cost < 1e9}
        best = known[()] if known.get((), float("inf")) < float("inf") else self._round([()], options)[0]
        fixed: list[Any] = []
        found = _kernels(list(_te.WithKernels(self.tensors, self.target)))
        for kernel, problem in found:
            task = json.dumps({"problem": problem, "kernel": kernel, "plan": "", "symbol": "main", "source": "",
                               "target": str(self.target), "uses": 1, "outputs": 1, "seconds": 0, "arguments": []})
            tried = _plans_of(problem, kernel, known)
            search, base = tuning.Search(task, policy.seed, options.num_measures_per_round, tried[:1], tried[1:]), best
            while done < options.num_measure_trials:
                lines = [json.dumps({"problem": json.loads(problem), "kernel": kernel, "plan": json.loads(plan)})
                         for plan in search.propose()][:options.num_measure_trials - done]
                if not lines or (options.early_stopping and done - best_at >= options.early_stopping):
                    break
                costs = self._round([(*fixed, line) for line in lines], options)
                search.tell([(cost < 1e9, cost < base * search.ratio, cost / base) for cost in costs])
                done += len(lines)
                if min(costs) < best:
                    best, best_at = min(costs), done
            if search.ratio < 1:
                fixed.append(json.dumps({"problem": json.loads(problem), "kernel": kernel, "plan": json.loads(search.incumbent)}))
        if not found:
            done, best = self._tune_sketch(options, best, policy, known)
        best = self._settle(options, best)
        if options.verbose:
            logger.info("%s: %d plans, the best takes %.3f ms", self.workload_key, done, best * 1e3)

    def _tune_sketch(self, options, best, policy, known):
        """Of a computation that no kernel is for: (candidates that were measured, seconds of the best)."""
        search, done, best_at = SketchSearch(Sketch(self._function()), policy.seed, policy.params["eps_greedy"]), 0, 0
        for plans, cost in known.items():
            for decision in (json.loads(plan).get(SKETCH) for plan in plans):
                if decision is not None:
                    search.tell(decision, cost)
        while search.sketch.parts and done < options.num_measure_trials:
            decisions = search.propose(min(options.num_measures_per_round, 16, options.num_measure_trials - done))
            if not decisions or (options.early_stopping and done - best_at >= options.early_stopping):
                break
            costs = self._round([(json.dumps({SKETCH: decision}),) for decision in decisions], options)
            done += len(decisions)
            for decision, cost in zip(decisions, costs):
                search.tell(decision, cost)
                if cost < best:
                    best, best_at = cost, done
        return done, best

    def _tune_states(self, options, policy):
        """By sketches of the policy's own rules."""
        best, best_at, done = float("inf"), 0, 0
        states = candidates(policy, policy.rules, policy.seed)
        while done < options.num_measure_trials:
            count = min(options.num_measures_per_round, options.num_measure_trials - done)
            choices = [(json.dumps({STATE: state.steps}),) for _, state in zip(range(count), states)]
            if not choices or (options.early_stopping and done - best_at >= options.early_stopping):
                break
            costs = self._round(choices, options)
            done += len(costs)
            if min(costs) < best:
                best, best_at = min(costs), done
        if not done and options.num_measure_trials:
            raise Error(f"{self.workload_key}: the sketch rules {', '.join(rule.name for rule in policy.rules)} make no sketch")
        if options.verbose:
            logger.info("%s: %d states, the best takes %.3f ms", self.workload_key, done, best * 1e3)
        return None

    def _settle(self, options, best):
        """Times of different moments aren't compared: the fastest choice is measured in turns with the default one. What
        doesn't win is noted as an error. Gives the seconds of what is left."""
        if not isinstance(options.runner, LocalRunner) or self.inputs.values:
            return best
        while self._costs and (plans := min(self._costs, key=lambda choice: self._costs[choice])) != ():
            ratios = self.ratios(plans, options.runner)
            if ratios and sum(ratio < 1 for ratio in ratios) >= 0.75 * len(ratios):
                return self._costs[plans]
            del self._costs[plans]
            error_no, message = (8, NOT_FASTER) if ratios else (5, NOT_EQUAL)  # TVM's UNKNOWN_ERROR and WRONG_ANSWER
            result = MeasureResult((1e9,), error_no, 0, time.time(), message)
            for callback in options.measure_callbacks:
                callback([MeasureInput(self.workload_key, str(self.target), plans)], [result])
        return self._costs.get((), best)

    def _round(self, choices, options):
        inputs = [MeasureInput(self.workload_key, str(self.target), tuple(plans)) for plans in choices]
        results = [self.measure(plans, options.runner) for plans in choices]
        for result in results:
            if result.error_no:
                logger.warning("%s: %s", self.workload_key, result.error_msg)
        for callback in options.measure_callbacks:
            callback(inputs, results)
        costs = [sum(r.costs) / len(r.costs) for r in results]
        for plans, cost in zip(choices, costs):
            if cost < 1e9:
                self._costs[tuple(plans)] = min(cost, self._costs.get(tuple(plans), cost))
        return costs

    def _best(self, log_file):
        found, _ = load_best_record(log_file, self.workload_key, self.target)
        if found is None:
            raise Error(f"{log_file} has no measurement of {self.workload_key} for {self.target}")
        return found.plans

    def apply_best(self, log_file: str, include_compatible: bool = False, layout_rewrite_option: Any = None) -> tuple[Any, Any]:
        """(scheduled function, its tensors), as treadle.build takes them."""
        return self.build(self._best(log_file)), self.tensors

    def print_best(self, log_file: str, print_mode: str = "schedule") -> str:
        """The loops of the best plans, as text."""
        return str(self.build(self._best(log_file)))


def create_task(func: Any, args: Sequence[Any], target: Any, target_host: Any = None, hardware_params: Any = None) -> "SearchTask":
    """A SearchTask, by its old name."""
    return SearchTask(func=func, args=args, target=target, target_host=target_host, hardware_params=hardware_params)
