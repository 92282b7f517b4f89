# SPDX-License-Identifier: Apache-2.0
"""Networks: tuned by `treadle.tune`, whose records lie in the work folder."""
import os

from .. import _networks, relay, transform
from ..error import Error
from ..target import Target

FILE = "records.jsonl"


class RelayDatabase(_networks.Records):
    """The records in a folder; builds inside of it take them."""

    def __init__(self, work_dir):
        path = os.path.join(os.fspath(work_dir), FILE)
        if not os.path.exists(path):
            os.makedirs(os.fspath(work_dir), exist_ok=True)
            with open(path, "a", encoding="utf-8"):
                pass
        super().__init__(path)


def is_meta_schedule_enabled():
    """Whether the current pass context asks for recorded schedules."""
    return transform.PassContext.current().config.get("relay.backend.use_meta_schedule", False)


def extract_tasks(mod, target, params, *, opt_level=3, pass_config=None, executor=None, module_equality="structural"):
    """The kernels of a network that have plans to choose from, with the number of their calls (`weight`)."""
    return _networks.tasks(mod, params, target, opt_level, _config(pass_config))


def tune_relay(mod, params, target, work_dir, max_trials_global, *, max_trials_per_task=None, num_trials_per_iter=64,
               builder="local", runner="local", database="json", cost_model="xgb", measure_callbacks="default",
               task_scheduler="gradient", space="post-order-apply", strategy="evolutionary", seed=None,
               module_equality="structural", num_tuning_cores="physical", opt_level=3, pass_config=None):
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


def extracted_tasks_to_tune_contexts(extracted_tasks, work_dir, space="post-order-apply", strategy="evolutionary",
                                     num_tuning_cores="physical", seed=None):
    """(tasks, how often each is called), for tune_tasks."""
    return list(extracted_tasks), [task.weight for task in extracted_tasks]


def tune_tasks(*, tasks, task_weights, work_dir, max_trials_global, max_trials_per_task=None, num_trials_per_iter=64,
               builder="local", runner="local", database="json", cost_model="xgb", measure_callbacks="default",
               task_scheduler="gradient", module_equality="structural"):
    """As tune_relay, of the network that the tasks are of."""
    networks = {id(task.network): task.network for task in tasks if isinstance(task, _networks.KernelTask)}
    if len(networks) != 1:
        raise Error(f"tune_tasks: expected tasks of one network (extract_tasks), not of {len(networks)}; functions: tune_tir")
    (network,) = networks.values()
    return tune_relay(network.module, network.params, network.target, work_dir, max_trials_global,
                      builder=builder, runner=runner, database=database, opt_level=network.opt_level,
                      pass_config=network.pass_config)


def compile_relay(database, mod, target, params, *, backend="graph", opt_level=3, pass_config=None, executor=None):
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
