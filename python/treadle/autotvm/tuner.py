# SPDX-License-Identifier: Apache-2.0
"""Tuners: orders in which configurations are measured. The learned ones (XGBTuner, GATuner) walk along the knobs from
the best configuration: no model is trained, as the spaces of templates are small."""
from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Sequence
from typing import Any

from .._arguments import chosen, function, listed, number, whole
from ..error import Error
from .measure import MeasureInput, measure
from .network import NetworkTask

logger = logging.getLogger("autotvm")


class Tuner:
    """Base: `_next` gives numbers of configurations, `update` hears of results."""

    def __init__(self, task: Any, **_options: Any) -> None:
        if not hasattr(task, "config_space"):
            raise Error(f"{type(self).__name__}: expected a task (autotvm.task.create), not {task!r}")
        self.task, self.space = task, task.config_space
        self.best_config: Any = None
        self.best_cost, self.best_flops = float("inf"), 0.0
        self.seen: set[int] = set()
        self.first_errors: dict[int, str] = {}
        self.error_threshold = 150

    def _next(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} doesn't say which configuration is next")

    def has_next(self) -> bool:
        return len(self.seen) < len(self.space)

    def next_batch(self, batch_size: int) -> list:
        batch: list[Any] = []
        while len(batch) < batch_size and self.has_next():
            index = self._next()
            if index not in self.seen:
                self.seen.add(index)
                batch.append(self.space.get(index))
        return batch

    def update(self, inputs: Any, results: Any) -> None:
        pass

    def reset(self) -> None:
        """Forgets what was measured."""
        self.best_config, self.best_cost, self.best_flops = None, float("inf"), 0.0
        self.seen, self.first_errors = set(), {}

    def set_error_threshold(self, threshold: int) -> None:
        """After so many errors one after another, a warning."""
        self.error_threshold = whole("set_error_threshold: threshold", threshold, 1)

    def load_history(self, data_set: Any, min_seed_records: int = 500) -> None:
        """Measurements of earlier sessions: not made again, and the best one is where walks begin."""
        for measure_input, result in data_set:
            if measure_input.task.workload == self.task.workload and measure_input.config.index < len(self.space):
                self.seen.add(measure_input.config.index)
                self._note(measure_input, result)

    def _note(self, measure_input, result):
        if result.error_no != 0:
            return False
        cost = sum(result.costs) / len(result.costs)
        if cost >= self.best_cost:
            return False
        self.best_cost, self.best_config = cost, measure_input.config
        self.best_flops = self.task.flop / cost
        return True

    def tune(self, n_trial: int, measure_option: Any, early_stopping: int | None = None, callbacks: Sequence[Any] = (),
             si_prefix: str = "G") -> Any:
        """Measures up to `n_trial` configurations; stops after `early_stopping` without a better one. Kernels of networks
        have a search of their own, whatever the tuner."""
        whole(f"{type(self).__name__}.tune: n_trial", n_trial, 0)
        for callback in listed(f"{type(self).__name__}.tune: callbacks", callbacks, "a list of functions"):
            function(f"{type(self).__name__}.tune: a callback", callback)
        if not isinstance(self.task, NetworkTask) and not hasattr(measure_option, "runner"):
            raise Error(f"{type(self).__name__}.tune: expected measure_option(builder, runner), not {measure_option!r}")
        if isinstance(self.task, NetworkTask):
            self.best_config = self.task.tune(self, n_trial, early_stopping, callbacks)
            return self.best_config
        trials, since_best, errors = 0, 0, 0
        while trials < n_trial and self.has_next():
            configs = self.next_batch(min(8, n_trial - trials))
            if not configs:
                break
            inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
            results = [measure(self.task, config, measure_option) for config in configs]
            for measure_input, result in zip(inputs, results):
                trials, since_best = trials + 1, since_best + 1
                if self._note(measure_input, result):
                    since_best = 0
                if result.error_no and result.error_no not in self.first_errors:
                    self.first_errors[result.error_no] = result.error
                    logger.warning("%s: configuration %d: %s", self.task.name, measure_input.config.index, result.error)
                errors = errors + 1 if result.error_no else 0
                if errors == self.error_threshold:
                    logger.warning("%s: %d configurations one after another had errors", self.task.name, errors)
            self.update(inputs, results)
            for callback in callbacks:
                callback(self, inputs, results)
            if early_stopping and since_best >= early_stopping:
                break
        return self.best_config


class GridSearchTuner(Tuner):
    """All configurations in their order."""

    _at = -1

    def _next(self):
        self._at += 1
        return self._at % len(self.space)


class RandomTuner(Tuner):
    """Configurations at random, each once."""

    def __init__(self, task: Any, range_idx: Any = None, **options: Any) -> None:
        super().__init__(task, **options)
        self._random = random.Random(options.get("seed", 0))

    def _next(self):
        return self._random.randrange(len(self.space))


class WalkTuner(RandomTuner):
    """Neighbours of the best configuration, one knob moved by one value; others at random where all are known."""

    def _next(self):
        if self.best_config is not None:
            choice = self.space.choice_of(self.best_config.index)
            near = []
            for knob, size in enumerate(self.space.dims):
                for step in (-1, 1):
                    moved = list(choice)
                    moved[knob] += step
                    if 0 <= moved[knob] < size and (index := self.space.index_of(moved)) not in self.seen:
                        near.append(index)
            if near:
                return self._random.choice(near)
        return self._random.randrange(len(self.space))


class XGBTuner(WalkTuner):
    def __init__(self, task: Any, plan_size: int = 64, feature_type: str = "itervar", loss_type: str = "rank",
                 num_threads: Any = None, optimizer: str = "sa", diversity_filter_ratio: Any = None, log_interval: int = 50,
                 **options: Any) -> None:
        super().__init__(task, **options)
        chosen("XGBTuner: feature_type", feature_type, ("itervar", "knob", "curve"))
        chosen("XGBTuner: loss_type", loss_type, ("rank", "reg", "rank-binary"))
        whole("XGBTuner: plan_size", plan_size, 1)


class GATuner(WalkTuner):
    def __init__(self, task: Any, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1, **options: Any) -> None:
        super().__init__(task, **options)
        whole("GATuner: pop_size", pop_size, 1)
        whole("GATuner: elite_num", elite_num, 0)
        number("GATuner: mutation_prob", mutation_prob, "a number from 0 to 1", -1e-300, 1)


class DropletTuner(WalkTuner):
    def __init__(self, task: Any, start_position: Any = None, pvalue: float = 0.05, **options: Any) -> None:
        super().__init__(task, **options)
