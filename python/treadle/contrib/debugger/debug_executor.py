# SPDX-License-Identifier: Apache-2.0
"""The graph executor with times of operators, values of intermediate tensors, and a search for NaNs."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from ... import nd
from ..._ffi import get_global_func
from ...relay.param_dict import save_param_dict
from ..graph_executor import GraphModule, _devices


def create(graph_json_str: str, libmod: Any, device: Any, dump_root: str | None = None) -> GraphModuleDebug:
    """A debug executor for a graph with the kernels of a module."""
    module = get_global_func("tvm.graph_executor_debug.create")(graph_json_str, libmod, *_devices(device))
    return GraphModuleDebug(module, device, graph_json_str, dump_root)


class Report:
    """Times of functions: `rows` has a dict per function, with the columns as keys."""

    def __init__(self, text: str) -> None:
        self._text = text
        lines = [line.split("\t") for line in text.splitlines()]
        self.columns = lines[0]
        self.rows = [dict(zip(self.columns, line)) for line in lines[1:]]

    @property
    def calls(self) -> list[dict[str, str]]:
        return [row for row in self.rows if row["Name"] != "Total"]

    def csv(self) -> str:
        return "\n".join(",".join(f'"{row[c]}"' for c in self.columns) for row in [dict(zip(self.columns, self.columns))]
                         + self.rows) + "\n"

    def json(self) -> str:
        return json.dumps({"calls": self.calls, "total": self.rows[-1]})

    def table(self) -> str:
        widths = [max(len(c), *(len(_short(row.get(c, ""))) for row in self.rows)) for c in self.columns]
        lines = ["  ".join(c.ljust(w) for c, w in zip(self.columns, widths))]
        for row in self.rows:
            lines.append("  ".join(_short(row.get(c, "")).ljust(w) for c, w in zip(self.columns, widths)))
        return "\n".join(line.rstrip() for line in lines)

    __str__ = table


def _short(text, limit=60):
    return text if len(text) <= limit else text[: limit - 3] + "..."


class GraphModuleDebug(GraphModule):
    """An executor with further methods: profile, run_individual, debug_get_output, get_node_output, check_nan; `run`
    writes the tensors of each run below `dump_root`, where that is given."""

    def __init__(self, module: Any, device: Any, graph_json_str: Any, dump_root: Any = None) -> None:
        super().__init__(module)
        self._graph = json.loads(graph_json_str)
        self._dump_root = dump_root
        self._device = _devices(device)[0]

    @property
    def node_names(self) -> list[str]:
        return [node["name"] for node in self._graph["nodes"]]

    def run(self, **inputs: Any) -> Any:
        """Runs; with a dump directory, writes output_tensors.params and the execution trace there."""
        if self._dump_root is None:
            return super().run(**inputs)
        if inputs:
            self.set_input(**inputs)
        folder = pathlib.Path(self._dump_root)
        os.makedirs(folder, exist_ok=True)
        (folder / "_treadle_graph_dump.json").write_text(json.dumps(self._graph))
        (folder / "_treadle_execution_trace.json").write_text(self.module["profile_trace"]())
        (folder / "output_tensors.params").write_bytes(save_param_dict(self.get_all_outputs()))
        return None

    def get_all_outputs(self) -> dict[str, Any]:
        """The outputs of all nodes in one run: {"<node>____<output>": tensor}, inputs and parameters included."""
        tensors = {}
        for index, node in enumerate(self._graph["nodes"]):
            if node["op"] == "null":
                tensors[f"{node['name']}____0"] = nd.array(self._call("get_input", node["name"]))
                continue
            self.module["execute_node"](index)
            for output in range(int(node["attrs"]["num_outputs"])):
                tensors[f"{node['name']}____{output}"] = self.module["get_node_output"](index, output)
        return tensors

    def profile(self, collectors: Any = None, **inputs: Any) -> Report:
        """A report on the time of each function, after warming up."""
        if inputs:
            self.set_input(**inputs)
        return Report(self.module["profile"]())

    def profile_trace(self) -> str:
        """One run as a trace that chrome://tracing and ui.perfetto.dev read."""
        return self.module["profile_trace"]()

    def run_individual(self, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0) -> list[float]:
        """Seconds of each node, in node order; 0 for inputs."""
        text = self.module["run_individual"](number, repeat, min_repeat_ms)
        return [float(value) for value in text.split(",")]

    def execute_node(self, node: Any) -> None:
        """Runs one node, by name or number, on what its inputs are now."""
        self.module["execute_node"](node)

    def get_node_output(self, node: Any, output: int = 0) -> Any:
        """A copy of what a node's output is now."""
        return self.module["get_node_output"](node, output)

    def debug_get_output(self, node: Any, out: Any) -> Any:
        """Runs and copies the first output of a node into `out`."""
        self.module["debug_get_output"](node, out)
        return out

    def check_nan(self) -> None:
        """Runs; a VerifyError names the first node whose output has a NaN."""
        self.module["check_nan"]()
