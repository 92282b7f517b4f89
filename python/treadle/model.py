# SPDX-License-Identifier: Apache-2.0
"""Compiling, loading and running models."""
import dataclasses
import json
import os
import pathlib
from typing import NamedTuple

from . import _core, _encoded, _precision
from ._dtype import DataType
from ._ffi import Api, get_global_func
from ._nd import _view, as_tensor
from .error import Error

_api = Api("driver")


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """An input or output: `shape` has ints, and names for dimensions that are known only when the model runs."""

    name: str
    shape: tuple
    dtype: DataType
    value_type: str = ""  # of what isn't a tensor of numbers

    @property
    def type(self):
        """The type as ONNX Runtime writes it: tensor(float)."""
        if self.value_type:
            return self.value_type
        names = {"float32": "float", "float64": "double"}
        return f"tensor({names.get(self.dtype, self.dtype)})"


class OperatorTime(NamedTuple):
    """What one call took in a profiled run: the node, its kernel, seconds from the run's start and of its own, types
    of its arguments, and the multiply-adds of its convolutions and matrix products (0: none, or not known)."""

    name: str
    kernel: str
    start: float
    seconds: float
    shapes: str
    macs: float


def _infos(rows, described):
    types = [info.get("value_type", "") for info in described]
    return [TensorInfo(name, shape, DataType(dtype), value_type) for (name, shape, dtype), value_type in zip(rows, types)]


def _to_tensor(value, info):
    """What the executor takes for an input (`info` is None where the model has no such input)."""
    return _encoded.to_bytes(value, info.value_type) if info is not None and info.value_type else as_tensor(value)


def _to_python(tensor, info):
    """An array over a tensor that nobody else writes; a list, a dict or strings where the model gives such."""
    array = _view(tensor)
    return _encoded.from_bytes(array) if info.value_type else array


class Context:
    """One thread's state of a model, for many runs without setting up."""

    def __init__(self, model, threads):
        self._context = model._model.create_context()
        self._inputs = {info.name: info for info in model.inputs}
        self._outputs = model.outputs
        self._context.set_threads(threads)

    def __call__(self, **inputs):
        for name, value in inputs.items():
            self._context.set_input(name, _to_tensor(value, self._inputs.get(name)))
        self._context.run()
        return {info.name: _to_python(self._context.get_output(i), info) for i, info in enumerate(self._outputs)}

    def profile(self, **inputs):
        """Runs once; a list of OperatorTime."""
        for name, value in inputs.items():
            self._context.set_input(name, _to_tensor(value, self._inputs.get(name)))
        return [OperatorTime(*times) for times in self._context.profile()]


class Model:
    """A compiled model. Call it with inputs by name, or run it as ONNX Runtime's sessions are run. Any number of
    threads may use it at once."""

    def __init__(self, model, threads=0, compiled=None, path=None):
        self._model, self._compiled, self._path, self.threads = model, compiled, path, threads
        manifest = json.loads(model.manifest())
        self.inputs = _infos(model.inputs(), manifest["inputs"])
        self.outputs = _infos(model.outputs(), manifest["outputs"])
        self._inputs = {info.name: info for info in self.inputs}

    def run(self, output_names, inputs):
        """The outputs called `output_names` (all of them for None), as a list of arrays. `inputs`: dict."""
        tensors = {name: _to_tensor(value, self._inputs.get(name)) for name, value in inputs.items()}
        results = self._model.run(tensors, self.threads)
        if output_names is None:
            return [_to_python(result, info) for result, info in zip(results, self.outputs)]
        names = [info.name for info in self.outputs]
        unknown = [name for name in output_names if name not in names]
        if unknown:
            raise Error(f"the model has no output '{unknown[0]}'; it has: {', '.join(names)}")
        chosen = [names.index(name) for name in output_names]
        return [_to_python(results[i], self.outputs[i]) for i in chosen]

    def __call__(self, *args, **inputs):
        """The outputs by name. Inputs are given by name, or by position, or as one dict."""
        if len(args) == 1 and isinstance(args[0], dict):
            inputs = {**args[0], **inputs}
        elif args:
            if len(args) > len(self.inputs):
                raise Error(f"the model has {len(self.inputs)} inputs, got {len(args)}")
            inputs = {**{info.name: value for info, value in zip(self.inputs, args)}, **inputs}
        return dict(zip((info.name for info in self.outputs), self.run(None, inputs)))

    def create_context(self, threads=None):
        """State for one thread that runs the model often."""
        return Context(self, self.threads if threads is None else threads)

    def export_library(self, path):
        """Writes the model as one shared library, for `load`."""
        if self._compiled is not None:
            _api.CompiledModel_Export(self._compiled, os.fspath(path))
        else:
            pathlib.Path(path).write_bytes(pathlib.Path(self._path).read_bytes())

    @property
    def manifest(self):
        """What the model says about itself: target, CPU features, versions, inputs, outputs."""
        return json.loads(self._model.manifest())

    @property
    def graph_json(self):
        return self._model.graph_json()

    @property
    def memory(self):
        """Bytes of weights (shared), and of inputs and activations (for each context)."""
        return self._model.memory()

    def get_source(self, fmt="ll"):
        """The kernels as text: "tir", "ll" or "asm"; only of models that were compiled in this process."""
        if self._compiled is None:
            raise Error("a loaded model has no source; compile it in this process")
        return _api.CompiledModel_Source(self._compiled, fmt)

    def __repr__(self):
        def text(infos):
            return ", ".join(f"{info.name}: {info.dtype}{list(info.shape)}" for info in infos)

        return f"<treadle.Model ({text(self.inputs)}) -> ({text(self.outputs)})>"


def _serialised(model):
    """(bytes, directory of external data) of a path, bytes or onnx.ModelProto."""
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString(), ""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), ""
    path = pathlib.Path(model)
    try:
        return path.read_bytes(), str(path.parent)
    except OSError as error:
        raise Error(f"can't open {path}: {error.strerror}") from None


_PRECISIONS = ("f32", "bf16", "f16", "mixed", "auto")


def _narrowed_layers(model):
    """Names of the layers of a compiled model that --precision narrowed."""
    attributes = _api.CompiledModel_Optimized(model._compiled)["main"].attrs
    return [str(name) for name in attributes["narrowed_layers"]] if "narrowed_layers" in attributes else []


def _compile_auto(build, pass_config, max_error, samples):
    """The model with the layers in bfloat16 that stay within an error; what was measured is its attribute `precision`."""
    def keeping(keep):
        if keep is None:
            return build(pass_config), []
        model = build({**(pass_config or {}), "relay.precision": "mixed", "relay.precision.keep": "".join(f"{k}\n" for k in keep)})
        return model, _narrowed_layers(model)

    choice = _precision.choose(keeping, samples, max_error)
    model, _ = keeping(choice.keep)
    model.precision = choice
    return model


def compile(model, shapes=None, dims=None, target="llvm -mcpu=native", opt_level=3, threads=0, disabled_pass=(),  # noqa: A001
            required_pass=(), pass_config=None, constants=None, external=(), plugins=(), max_model_memory=0,
            precision="f32", max_error=0.01, samples=None):
    """Compiles an ONNX model (path, bytes or onnx.ModelProto) to native code.

    shapes: shapes of inputs by name; dims: sizes of symbolic dimensions by name. threads: for running, 0 for all.
    external: names of external code generators that may take parts of it, the preferred ones first; plugins: libraries
    that bring them.
    constants: inputs that are fixed to a value when compiling (axes, sizes, ...), by name.
    max_model_memory: bytes that the parts of the file may take in memory; 0: about ten times its size.
    precision: of products that the model states in float32: "f32", "bf16" or "f16" (accumulated in float32), "mixed"
    (bfloat16 where that is faster), "auto": "mixed", but for layers that float32 is needed for so that no output is
    off by more than max_error, relative to its norm, on `samples` (dicts of inputs; one of random numbers otherwise).
    """
    if precision not in _PRECISIONS:
        raise Error(f"precision is {precision!r}; expected one of {', '.join(_PRECISIONS)}")
    if precision not in ("f32", "auto"):
        pass_config = {**(pass_config or {}), "relay.precision": precision}
    for plugin in plugins:
        load_plugin(plugin)
    data, directory = _serialised(model)

    def build(pass_config):
        return _compile_serialised(data, directory, shapes, dims, target, opt_level, threads, disabled_pass,
                                   required_pass, pass_config, constants, external, max_model_memory)

    return _compile_auto(build, pass_config, max_error, samples) if precision == "auto" else build(pass_config)


def _compile_serialised(data, directory, shapes=None, dims=None, target="llvm -mcpu=native", opt_level=3, threads=0,
                        disabled_pass=(), required_pass=(), pass_config=None, constants=None, external=(),
                        max_model_memory=0):
    """As `compile`, of a serialised ModelProto whose external data is in `directory`."""
    import tempfile

    if opt_level not in range(5):
        raise Error(f"opt_level is {opt_level}; expected 0 to 4")
    compiled = _api.CompileOnnx(data, directory, {
        "target": str(target), "opt_level": opt_level, "max_model_memory": max_model_memory, "dims": dict(dims or {}),
        "shapes": {name: [int(dim) for dim in shape] for name, shape in (shapes or {}).items()},
        "constants": {name: as_tensor(value) for name, value in (constants or {}).items()},
        "disabled_pass": list(disabled_pass), "required_pass": list(required_pass),
        "external": [external] if isinstance(external, str) else list(external),
        "config": {key: str(value) for key, value in (pass_config or {}).items()}})
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = os.path.join(folder, "model.so")
        _api.CompiledModel_Export(compiled, path)
        return Model(_core.Model.load(path), threads, compiled)  # stays mapped after the file is gone


def load_plugin(path):
    """Loads a library that brings an external code generator, or what its compiled models need; returns its name."""
    return get_global_func("runtime.LoadPlugin")(os.fspath(path))


def load(path, threads=0):
    """Loads a compiled model."""
    return Model(_core.Model.load(os.fspath(path)), threads, path=os.fspath(path))
