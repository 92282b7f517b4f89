# SPDX-License-Identifier: Apache-2.0
"""PyTorch's models: `from_torch`, and the backend "treadle" of torch.compile. Needs the extra treadle[torch].

    model = treadle.from_torch(module, (image,))           # a treadle.Model: call it, save it, profile it
    fast = torch.compile(module, backend="treadle")        # computes as the module does, from its tensors to its tensors
"""
import importlib
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _arguments, error
from .model import Model, compile as _compile

__all__ = ["backend", "from_torch"]

# Beyond this many combinations of shapes a compiled function calls PyTorch.
MAX_SHAPES = 16
# Larger models are written with their weights beside them: what protobuf can hold in one file.
_ONE_FILE_BYTES = 1 << 30


def _torch():
    """The package; torch.onnx.export asks for onnxscript, too."""
    try:
        importlib.import_module("onnxscript")
        return importlib.import_module("torch")
    except ImportError as missing:
        raise error.Error(f"models of PyTorch need the package {missing.name}: pip install 'treadle[torch]'") from None


def _exported(torch, program, args, kwargs, dynamic_shapes):
    """An ExportedProgram."""
    if isinstance(program, torch.export.ExportedProgram):
        if args is not None or kwargs or dynamic_shapes is not None:
            raise error.Error("args, kwargs and dynamic_shapes say how to export a module; an ExportedProgram has its own")
        return program
    if not isinstance(program, torch.nn.Module):
        raise error.DTypeError(f"expected a torch.nn.Module or torch.export.ExportedProgram, got {type(program).__name__}")
    if args is None:
        raise error.Error("a torch.nn.Module is exported with example inputs: from_torch(module, (x,))")
    if isinstance(args, torch.Tensor):
        args = (args,)
    if program.training:
        raise error.Error("the module is in training mode: call module.eval() first")
    try:
        with torch.no_grad():
            return torch.export.export(program, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    except Exception as failure:  # noqa: BLE001 - the exporter raises errors of many kinds
        raise error.Error(f"PyTorch can't export {type(program).__name__}: {str(failure).splitlines()[0]}") from failure


def _to_model(torch, exported, options):
    """Compiles an ExportedProgram by way of ONNX, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = os.path.join(folder, "model.onnx")
        try:
            program = torch.onnx.export(exported, dynamo=True, verbose=False)
            weights = sum(value.numel() * value.element_size() for value in exported.state_dict.values())
            program.save(path, external_data=weights > _ONE_FILE_BYTES)
        except Exception as failure:  # noqa: BLE001
            raise error.UnsupportedOpError(f"PyTorch can't write the program as ONNX: {str(failure).splitlines()[0]}") from failure
        if weights > _ONE_FILE_BYTES:  # its weights are read again where it is compiled again
            return _compile(path, **options)
        with open(path, "rb") as file:
            return _compile(file.read(), **options)


def from_torch(program: Any, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, *,
               dynamic_shapes: Any = None, **options: Any) -> Model:
    """Compiles a module of PyTorch, in inference mode, or an exported program.

    program: torch.nn.Module with example inputs `args` and `kwargs`, whose shapes become the model's unless
    `dynamic_shapes` (as of torch.export.export) leaves them open; or torch.export.ExportedProgram. options: as of
    treadle.compile. The result's inputs and outputs have the names that PyTorch's exporter gives them; it takes tensors
    of PyTorch and gives NumPy arrays, whose memory torch.from_numpy uses as it is.

    Errors: treadle.Error for what PyTorch can't export and for missing packages, UnsupportedOpError for operators that
    can't be compiled; others as of treadle.compile.
    """
    torch = _torch()
    return _to_model(torch, _exported(torch, program, args, kwargs, dynamic_shapes), options)


class _Frozen:
    """A traced function with what never changes in it: parameters are constants of the compiled model."""

    def __init__(self, torch, graph_module, examples, options):
        self._torch, self._graph, self._options = torch, graph_module, options
        self._static = {i for i, value in enumerate(examples) if self._is_static(value)}
        self._models: dict[Any, Any] = {}
        self._warned = False

    def _is_static(self, value):
        torch = self._torch
        return isinstance(value, torch.Tensor) and (
            isinstance(value, torch.nn.Parameter) or getattr(value, "_dynamo_static_input_type", None) is not None)

    def __call__(self, *args):
        torch = self._torch
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return self._eager(args, "it computes no gradients: call the function within torch.no_grad()")
        key = tuple((id(a), a._version) if i in self._static else
                    (tuple(a.shape), a.dtype) if isinstance(a, torch.Tensor) else a for i, a in enumerate(args))
        if key not in self._models:
            if len(self._models) >= MAX_SHAPES:
                return self._eager(args, f"it has been compiled for {MAX_SHAPES} combinations of shapes")
            self._models[key] = self._compile(args)
        model, reason = self._models[key]
        if model is None:
            return self._eager(args, reason)
        context, names, dtypes = model
        inputs = [a.detach().contiguous() for i, a in enumerate(args)
                  if i not in self._static and isinstance(a, torch.Tensor)]
        results = context(**dict(zip(names, inputs)))
        return tuple(torch.from_numpy(np.ascontiguousarray(value)).to(dtype) for value, dtype in zip(results.values(), dtypes))

    def _compile(self, args):
        """((context, names of inputs, types of results), "") or (None, why not)."""
        torch, graph, static = self._torch, self._graph, self._static

        class Bound(torch.nn.Module):
            """The function of its tensors alone."""

            def __init__(self):
                super().__init__()
                for i in static:
                    self.register_buffer(f"constant{i}", args[i].detach())

            def forward(self, *tensors):
                rest = iter(tensors)
                return graph(*[getattr(self, f"constant{i}") if i in static else
                               next(rest) if isinstance(a, torch.Tensor) else a for i, a in enumerate(args)])

        tensors = tuple(a.detach() for i, a in enumerate(args) if i not in static and isinstance(a, torch.Tensor))
        if any(tensor.device.type != "cpu" for tensor in tensors):
            return None, "it runs on the CPU only"
        try:
            exported = _exported(torch, Bound().eval(), tensors, None, None)
            with torch.no_grad():
                expected = graph(*args)
            if any(not isinstance(value, torch.Tensor) for value in expected):
                return None, "it returns what isn't a tensor"
            model = _to_model(torch, exported, self._options)
            names = [info.name for info in model.inputs]
            if len(names) != len(tensors) or len(model.outputs) != len(expected):
                return None, "inputs that it doesn't read, or results that are inputs"
            return (model.create_context(), names, [value.dtype for value in expected]), ""
        except error.Error as failure:
            return None, str(failure).splitlines()[0]

    def _eager(self, args, reason):
        if not self._warned:
            warnings.warn(f"a part of this function runs in PyTorch rather than in Treadle: {reason}", stacklevel=3)
            self._warned = True
        return self._graph(*args)


def backend(graph_module: Any, example_inputs: Sequence[Any], **keywords: Any) -> Any:
    """The backend "treadle" of torch.compile, which finds it by its entry point.

    Parts of a function are compiled when they are first called, once for each combination of shapes; parameters are
    constants, and compiled again when they changed. What needs gradients, isn't on the CPU or can't be compiled runs in
    PyTorch, with a warning that says why. options: of treadle.compile, as torch.compile(options={..}).
    """
    options = dict(keywords.pop("options", None) or {})
    if keywords.get("mode") not in (None, "default"):
        raise error.Error(f"mode={keywords['mode']!r}: the backend treadle has no modes; give options={{'opt_level': 3}}")
    return _Frozen(_torch(), graph_module, example_inputs, options)
