# SPDX-License-Identifier: Apache-2.0
"""Layouts of whole graphs. Every build chooses blocks of channels and algorithms of a graph together, from costs
(docs/architecture.md, decision 9), and `treadle.tune` measures others; so there is nothing left to run here: the tuners
hand the log of the kernels on, under the names that scripts for AutoTVM use."""
import os
from collections.abc import Mapping
from typing import Any

from .. import _networks
from ..error import Error
from .record import lines_of_networks


class BaseGraphTuner:
    """Takes the log of the kernels of a network."""

    def __init__(self, graph: Any, input_shapes: Mapping[str, Any], records: Any, target_ops: Any, target: Any,
                 max_sch_num: int = 20, dtype: str = "float32", verbose: bool = True, log_file: str = "graph_tuner.log",
                 log_level: Any = None, name: str = "graph_tuner") -> None:
        if not isinstance(records, (str, os.PathLike)):
            raise Error(f"autotvm.graph_tuner.{type(self).__name__}: records: expected the path of a log")
        self.graph, self.target, self._lines = _networks.as_module(graph), target, lines_of_networks(records)

    def benchmark_layout_transform(self, min_exec_num: int = 100, timeout: float = 10, use_rpc: bool = False,
                                   device_key: Any = None, host: str = "127.0.0.1", port: int = 9190, n_parallel: int = 1,
                                   build_func: Any = "default", layout_records: Any = None, target_host: Any = None,
                                   infer_layout: bool = False, runner: Any = None) -> None:
        """Nothing: changes of layouts cost what the machine model says (`treadle doctor --calibrate` measures it)."""

    def run(self, **kwargs: Any) -> None:
        """Nothing: builds choose."""

    def get_optimal_records(self) -> list[Any]:
        """The lines of the log that builds may take."""
        return list(self._lines)

    def write_opt_sch2record_file(self, record_file: str = "graph_opt_schedule.log") -> None:
        """Writes them to a file for `apply_graph_best`."""
        with open(record_file, "w", encoding="utf-8") as file:
            file.writelines(self._lines)


class DPTuner(BaseGraphTuner):
    pass


class PBQPTuner(BaseGraphTuner):
    pass


class ApplyGraphBest(_networks.Records):
    """Builds inside take the kernels' plans of a file, and choose layouts together."""
