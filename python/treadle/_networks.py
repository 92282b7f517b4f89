# SPDX-License-Identifier: Apache-2.0
"""Networks as the tuners of TVM see them, a task per kernel, on top of treadle.tune and its files of records."""
import json
import os
from typing import NamedTuple

from . import _arguments, tuning
from .error import Error
from .ir import IRModule
from .target import Target
from .target import _text as _target_text

VARIABLE = "TREADLE_RECORDS"


def as_module(program):
    """A module of a function of the graph IR, or of what has one as main."""
    if isinstance(program, IRModule):
        return program
    try:
        return IRModule.from_expr(program)
    except (TypeError, AttributeError, Error):
        raise Error(f"expected a module or a function of the graph IR, not {type(program).__name__}") from None


class Network(NamedTuple):
    """What is tuned as a whole."""

    module: IRModule
    params: dict
    target: Target
    opt_level: int = 3
    pass_config: dict = {}


class KernelTask(NamedTuple):
    """A kernel of a network: `data` is a task of treadle.tuning, JSON."""

    data: str
    network: Network

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def workload_key(self):
        return self.json["problem"]

    @property
    def weight(self):
        """Calls in the network."""
        return int(self.json["uses"])

    @property
    def target(self):
        return Target(self.json["target"])

    @property
    def task_name(self):
        return self.desc

    @property
    def compute_dag(self):
        """The fused function, as text."""
        return self.json["source"]

    @property
    def desc(self):
        """The kernel and the sizes of its problem."""
        problem = json.loads(self.json["problem"])
        sizes = [f"{key}={value}" for key, value in problem.items() if isinstance(value, int) and not isinstance(value, bool)]
        return f"{self.json['kernel']} {' '.join(sizes)}"


def options(target, opt_level=3, pass_config=None, **more):
    config = _arguments.texts(pass_config)
    return json.dumps({"target": _target_text(target), "opt_level": int(opt_level), "shapes": {}, "dims": {},
                       "config": config, **more})


def tasks(program, params, target, opt_level=3, pass_config=None):
    """The kernels of a network that have plans to choose from."""
    network = Network(as_module(program), _arguments.mapping("params", params, "{'weight': array}"), Target(target), opt_level,
                      dict(pass_config or {}))
    found = tuning._api.ModuleTasks(network.module, network.params, options(target, opt_level, pass_config))
    return [KernelTask(str(data), network) for data in found]


def tune(network, output, trials, time="24h", threads=0, seed=0, progress=None):
    """As treadle.tune, of `trials` candidates at most."""
    given = options(network.target, network.opt_level, network.pass_config, output=os.fspath(output),
                    seconds=tuning.seconds_of(time), trials=_arguments.whole("trials", trials, least=1), threads=threads,
                    jobs=os.cpu_count() or 1, seed=int(seed or 0))
    return tuning.Report(json.loads(tuning._api.TuneModule(network.module, network.params, given, progress)))


class Records:
    """Builds inside take records of a file, whatever the pass context says."""

    def __init__(self, path):
        if not os.path.exists(path):
            raise Error(f"{os.fspath(path)}: there is no such file of records")
        self.path, self._before = os.fspath(path), []

    def __enter__(self):
        self._before.append(os.environ.get(VARIABLE))
        os.environ[VARIABLE] = self.path
        return self

    def __exit__(self, *_):
        before = self._before.pop()
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
