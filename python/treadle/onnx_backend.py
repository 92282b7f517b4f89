# SPDX-License-Identifier: Apache-2.0
"""The interface that the official ONNX test suite drives: treadle.onnx_backend.TreadleBackend."""
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from . import nd
from .error import UnsupportedOpError
from .model import compile as compile_model

INTEGRAL = {onnx.TensorProto.BOOL, onnx.TensorProto.INT8, onnx.TensorProto.INT16, onnx.TensorProto.INT32,
            onnx.TensorProto.INT64, onnx.TensorProto.UINT8, onnx.TensorProto.UINT16, onnx.TensorProto.UINT32,
            onnx.TensorProto.UINT64}


MAX_CONSTANT = 1024  # elements of an input that may be taken for a constant


class TreadleRep(BackendRep):
    """A model ready to run.

    It is compiled before any input is seen. With `specialise`, what can't be compiled so is compiled for the values of
    small inputs (axes, sizes, ...) when they are first seen.
    """

    def __init__(self, model: Any, options: Any, specialise: bool = False) -> None:
        self._source = model
        self._options = options
        initialised = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in initialised]
        self._compiled = {}
        try:
            self._compiled[()] = compile_model(model, **options)
        except UnsupportedOpError as error:
            self._refusal = error
            integral = [value for value in model.graph.input if value.type.tensor_type.elem_type in INTEGRAL]
            if not specialise or (not integral and len(self._names) < 2):
                raise

    def _candidates(self, inputs):
        """Choices of inputs to take for constants."""
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        small = {name: array for name, array in arrays.items() if array.size <= MAX_CONSTANT}
        integral = {name: array for name, array in small.items() if array.dtype.kind in "biu"}
        # The fewer the better, and the first input is most often the data.
        for candidates in (integral, small):
            yield {name: array for name, array in candidates.items() if name != self._names[0]}
            yield candidates

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        if not isinstance(inputs, dict):
            inputs = dict(zip(self._names, inputs))
        if () in self._compiled:
            return tuple(self._compiled[()].run(None, inputs))
        for constants in self._candidates(inputs):
            try:
                model = self._specialised(constants)
            except UnsupportedOpError as error:
                self._refusal = error
                continue
            rest = {info.name for info in model.inputs}
            return tuple(model.run(None, {name: value for name, value in inputs.items() if name in rest}))
        raise self._refusal

    def _specialised(self, constants):
        key = tuple((name, array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(constants.items()))
        if key not in self._compiled:
            self._compiled[key] = compile_model(self._source, constants=constants, **self._options)
        return self._compiled[key]


class TreadleBackend(Backend):
    """Compiles models and runs them on the CPU."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> "TreadleRep":
        super().prepare(model, device, **kwargs)
        specialise = kwargs.pop("specialise", False)
        return TreadleRep(model, kwargs, specialise)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any) -> Any:
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        arrays = [value if isinstance(value, nd.NDArray) else np.asarray(value) for value in inputs]
        values = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                  for name, array in zip(node.input, arrays)]
        if outputs_info is None:
            outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        else:
            outputs = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), shape)
                       for name, (dtype, shape) in zip(node.output, outputs_info)]
        graph = onnx.helper.make_graph([node], "node", values, outputs)
        model = onnx.helper.make_model(graph, **({"opset_imports": kwargs["opset_imports"]} if "opset_imports" in kwargs
                                                 else {}))
        return cls.run_model(model, dict(zip(node.input, arrays)), device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


is_compatible = TreadleBackend.is_compatible
prepare = TreadleBackend.prepare
run = TreadleBackend.run_model
run_model = TreadleBackend.run_model
run_node = TreadleBackend.run_node
supports_device = TreadleBackend.supports_device
