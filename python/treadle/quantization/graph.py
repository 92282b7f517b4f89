# SPDX-License-Identifier: Apache-2.0
"""An ONNX model that is being rewritten: who makes and reads each value, constants, new nodes."""
import fnmatch
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _outputs, model as model_module
from .._ffi import get_global_func
from ..error import Error, ModelFormatError

LEAST_OPSET = 13  # scales per channel
_PROTO_LIMIT = 1 << 31


def onnx_package() -> Any:
    """The package onnx; an Error that says how to install it where it is missing."""
    try:
        import onnx
        return onnx
    except ImportError:
        raise Error("quantize needs the package onnx\nhelp: pip install onnx") from None


def _load(onnx: Any, path: str) -> Any:
    get_global_func("frontend.onnx.CheckModelFile")(path)  # says more of a file that is no model than protobuf does
    try:
        return onnx.load(path)
    except Exception as error:  # of the file system, or of protobuf
        raise ModelFormatError(f"can't read {path}: {error}") from None


class Graph:
    """Constants (initialisers and nodes Constant) by name, nodes, and what they read."""

    def __init__(self, model: Any) -> None:
        onnx = onnx_package()
        self.onnx = onnx
        if isinstance(model, (str, os.PathLike)):
            model = _load(onnx, os.fspath(model))
        elif isinstance(model, (bytes, bytearray, memoryview)):
            model = onnx.load_from_string(bytes(model))
        else:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            model = copy
        self.model = self._at_least(model, LEAST_OPSET)
        self.constants, kept = {}, []
        for tensor in self.graph.initializer:
            self.constants[tensor.name] = tensor
        for node in self.graph.node:
            value = next((a.t for a in node.attribute if a.name == "value"), None)
            if node.op_type == "Constant" and value is not None:
                self.constants[node.output[0]] = value
            else:
                kept.append(node)
        self.nodes = kept
        self._taken = {name for node in kept for name in (*node.input, *node.output)} | set(self.constants)
        self._types: Any = None
        self._name_nodes()
        self.index()

    @property
    def graph(self) -> Any:
        return self.model.graph

    def _at_least(self, model, opset):
        now = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
        if now >= opset:
            return model
        try:
            return self.onnx.version_converter.convert_version(model, opset)
        except Exception as error:  # of many kinds, from C++
            reason = str(error).strip().splitlines() or ["unknown"]
            raise Error(f"the model has opset {now}, quantisation needs {opset}, and it can't be converted: {reason[0]}"
                        ) from None

    def _name_nodes(self):
        """Reports and keep_float speak of nodes by name."""
        names = set()
        for node in self.nodes:
            if not node.name or node.name in names:
                node.name = self.fresh(f"{node.op_type}_{node.output[0]}" if not node.name else node.name)
            names.add(node.name)

    def index(self) -> None:
        self.producer = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[Any, Any] = {}
        for node in self.nodes:
            for name in self._reads(node):
                self.readers.setdefault(name, []).append(node)
        self.outputs = {value.name for value in self.graph.output}

    def _reads(self, node):
        yield from (name for name in node.input if name)
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                for inner in graph.node:
                    yield from self._reads(inner)

    def is_constant(self, name: str) -> bool:
        return name in self.constants

    def value(self, name: str) -> np.ndarray:
        return self.onnx.numpy_helper.to_array(self.constants[name])

    def fresh(self, name: str) -> str:
        unique, count = name, 0
        while unique in self._taken:
            count += 1
            unique = f"{name}_{count}"
        self._taken.add(unique)
        return unique

    def add_constant(self, name: str, array: np.ndarray) -> str:
        name = self.fresh(name)
        self.constants[name] = self.onnx.numpy_helper.from_array(np.array(array, order="C"), name)
        return name

    def add(self, op: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any) -> Any:
        """A node with one result; its name."""
        node = self.onnx.helper.make_node(op, inputs, [output], name=self.fresh(f"{output}_{op}"), domain=domain,
                                          **attributes)
        self.nodes.append(node)
        return output

    def rank(self, name: str) -> int | None:
        """Dimensions of a value; None where that isn't known."""
        if self._types is None:
            try:
                graph = self.onnx.shape_inference.infer_shapes(self.model).graph
            except Exception:  # larger than a protobuf may be
                graph = self.graph
            self._types = {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.input, *graph.output)}
        kind = self._types.get(name)
        return len(kind.shape.dim) if kind is not None and kind.HasField("shape") else None

    def shape(self, name: str) -> list[int | None] | None:
        """Sizes as numbers, None where they are open; None when nothing is known."""
        if self.rank(name) is None:
            return None
        return [d.dim_value if d.HasField("dim_value") else None for d in self._types[name].shape.dim]

    def sorted_nodes(self) -> list[Any]:
        """Producers before readers."""
        made = {name for name in self.constants} | {value.name for value in self.graph.input} | {""}
        waiting, result = list(self.nodes), []
        inner = {name for node in waiting for name in node.output}
        while waiting:
            ready = [n for n in waiting if all(name in made or name not in inner for name in self._reads(n))]
            if not ready:
                raise Error("the graph has a circle")
            done = set(map(id, ready))
            for node in ready:
                result.append(node)
                made.update(node.output)
            waiting = [n for n in waiting if id(n) not in done]
        return result

    def finish(self, extra_domain: Any = None) -> Any:
        """The ModelProto of what it is now; constants that nothing reads are left out."""
        self.nodes = self.sorted_nodes()
        self.index()
        used = set(self.readers) | self.outputs
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        tensors = []
        for name, tensor in self.constants.items():
            if name in used:
                copy = self.onnx.TensorProto()
                copy.CopyFrom(tensor)
                copy.name = name
                tensors.append(copy)
        del self.graph.initializer[:]
        self.graph.initializer.extend(tensors)
        del self.graph.value_info[:]
        # What was an initialiser with an input of its name stays only as a constant.
        inputs = [value for value in self.graph.input if value.name not in self.constants]
        del self.graph.input[:]
        self.graph.input.extend(inputs)
        if extra_domain and all(o.domain != extra_domain for o in self.model.opset_import):
            self.model.opset_import.append(self.onnx.helper.make_opsetid(extra_domain, 1))
        return self.model

    def with_outputs(self, names: Sequence[str]) -> Any:
        """A copy of the model whose outputs are the values of these names."""
        model = self.onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.node[:]
        model.graph.node.extend(self.nodes)
        del model.graph.initializer[:]
        for name, tensor in self.constants.items():
            copy = model.graph.initializer.add()
            copy.CopyFrom(tensor)
            copy.name = name
        inputs = [value for value in model.graph.input if value.name not in self.constants]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        del model.graph.output[:]
        for name in names:
            model.graph.output.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, None))
        return model


def matches(node: Any, patterns: Sequence[str]) -> bool:
    """Whether a node's name or kind is one of the patterns ("head/*", "Gemm")."""
    return any(fnmatch.fnmatchcase(node.name, p) or node.op_type == p for p in patterns)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Writes a model; weights into a file beside it where it would be too large for one (2 GB)."""
    onnx = onnx_package()
    apart = {"save_as_external_data": True, "location": pathlib.Path(path).name + ".data"} if is_large(model) else {}
    _outputs.write(path, lambda file: onnx.save(model, file, **apart))


def is_large(model: Any) -> bool:
    """Whether its weights are too many for one protobuf."""
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer) > _PROTO_LIMIT * 3 // 4


def compile_model(model: Any, **arguments: Any) -> Any:
    """A ModelProto of any size, compiled."""
    if not is_large(model):
        return model_module.compile(model, **arguments)
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = pathlib.Path(folder) / "model.onnx"
        save(model, path)
        return model_module.compile(path, **arguments)
