# SPDX-License-Identifier: Apache-2.0
"""Networks: tuned by `treadle.tune`, whose records lie in the work folder."""
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _networks, relay, transform
from ..error import Error
from ..target import Target

FILE = "records.jsonl"


class RelayDatabase(_networks.Records):
    """The records in a folder; builds inside of it take them."""

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        path = os.path.join(os.fspath(work_dir), FILE)
        if not os.path.exists(path):
            os.makedirs(os.fspath(work_dir), exist_ok=True)
            with open(path, "a", encoding="utf-8"):
                pass
        super().__init__(path)


def is_meta_schedule_enabled() -> Any:
    """Whether the current pass context asks for recorded schedules."""
    return transform.PassContext.current().config.get("relay.backend.use_meta_schedule", False)


def extract_tasks(mod: Any, target: Any, params: Mapping[str, Any], *, opt_level: int = 3,
                  pass_config: Mapping[str, Any] | None = None, executor: Any = None,
                  module_equality: str = "structural") -> Any:
    """The kernels of a network that have plans to choose from, with the number of their calls (`weight`)."""
    return _networks.tasks(mod, params, target, opt_level, _config(pass_config))


def tune_relay(mod: Any, params: Mapping[str, Any], target: Any, work_dir: str | os.PathLike[str], max_trials_global: int, *,
               max_trials_per_task: int | None = None, num_trials_per_iter: int = 64, builder: Any = "local",
               runner: Any = "local", database: Any = "json", cost_model: Any = "xgb", measure_callbacks: Any = "default",
               task_scheduler: Any = "gradient", space: Any = "post-order-apply", strategy: Any = "evolutionary",
               seed: int | None = None, module_equality: str = "structural", num_tuning_cores: Any = "physical",
               opt_level: int = 3, pass_config: Mapping[str, Any] | None = None) -> Any:
    """Measures `max_trials_global` plans, algorithms and layouts of a network, and gives the database of the folder."""
    given = {"builder": (builder, "local"), "runner": (runner, "local"), "database": (database, "json")}
    for name, (value, usual) in given.items():
        if value != usual:
            raise Error(f"tune_relay: {name} has no counterpart but {usual!r}: candidates run in processes of their own, "
                        "their records lie in work_dir")
    result = RelayDatabase(work_dir)
    network = _networks.Network(_networks.as_module(mod), dict(params or {}), Target(target), opt_level, _config(pass_config))
    _networks.tune(network, result.path, max_trials_global, seed=seed)
    return result


def extracted_tasks_to_tune_contexts(extracted_tasks: Any, work_dir: str | os.PathLike[str], space: Any = "post-order-apply",
                                     strategy: Any = "evolutionary", num_tuning_cores: Any = "physical",
                                     seed: int | None = None) -> tuple[Any, Any]:
    """(tasks, how often each is called), for tune_tasks."""
    return list(extracted_tasks), [task.weight for task in extracted_tasks]


def tune_tasks(*, tasks: Sequence[Any], task_weights: Sequence[Any], work_dir: str | os.PathLike[str], max_trials_global: int,
               max_trials_per_task: int | None = None, num_trials_per_iter: int = 64, builder: Any = "local",
               runner: Any = "local", database: Any = "json", cost_model: Any = "xgb", measure_callbacks: Any = "default",
               task_scheduler: Any = "gradient", module_equality: str = "structural") -> Any:
    """As tune_relay, of the network that the tasks are of."""
    networks = {id(task.network): task.network for task in tasks if isinstance(task, _networks.KernelTask)}
    if len(networks) != 1:
        raise Error(f"tune_tasks: expected tasks of one network (extract_tasks), not of {len(networks)}; functions: tune_tir")
    (network,) = networks.values()
    return tune_relay(network.module, network.params, network.target, work_dir, max_trials_global,
                      builder=builder, runner=runner, database=database, opt_level=network.opt_level,
                      pass_config=network.pass_config)


def compile_relay(database: Any, mod: Any, target: Any, params: Mapping[str, Any], *, backend: str = "graph",
                  opt_level: int = 3, pass_config: Mapping[str, Any] | None = None, executor: Any = None) -> Any:
    """The network with the records of a database: relay.build, or with backend="vm" relay.vm.compile."""
    if backend not in ("graph", "vm"):
        raise Error(f"compile_relay: expected backend 'graph' or 'vm', not {backend!r}")
    config = {"relay.backend.use_meta_schedule": True, **(pass_config or {})}
    with database, transform.PassContext(opt_level=opt_level, config=config):
        if backend == "vm":
            return relay.vm.compile(mod, target=Target(target), params=params)
        return relay.build(mod, target=Target(target), params=params)


def _config(pass_config):
    return {k: v for k, v in (pass_config or {}).items() if k != "relay.backend.use_meta_schedule"}
