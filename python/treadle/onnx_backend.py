# SPDX-License-Identifier: Apache-2.0
"""The interface that the official ONNX test suite drives: treadle.onnx_backend.TreadleBackend."""
import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from . import nd
from .model import compile as compile_model


class TreadleRep(BackendRep):
    """A model ready to run."""

    def __init__(self, model):
        self._model = model

    def run(self, inputs, **kwargs):
        if not isinstance(inputs, dict):
            inputs = dict(zip((info.name for info in self._model.inputs), inputs))
        return tuple(self._model.run(None, inputs))


class TreadleBackend(Backend):
    """Compiles models and runs them on the CPU."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        super().prepare(model, device, **kwargs)
        return TreadleRep(compile_model(model, **kwargs))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
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
    def supports_device(cls, device):
        return device.split(":")[0] == "CPU"


is_compatible = TreadleBackend.is_compatible
prepare = TreadleBackend.prepare
run = TreadleBackend.run_model
run_model = TreadleBackend.run_model
run_node = TreadleBackend.run_node
supports_device = TreadleBackend.supports_device
