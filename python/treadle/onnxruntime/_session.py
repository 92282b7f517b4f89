# SPDX-License-Identifier: Apache-2.0
"""InferenceSession: compiles a model once for all shapes, and in the background for shapes that are seen often."""
import contextlib
import json
import os
import pathlib
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _arguments, _progress, _quick, _specialise, error, model as _model
from .._dtype import to_numpy
from .._ffi import get_global_func
from . import _errors
from ._devices import OrtMemoryInfo
from ._options import CPU, GraphOptimizationLevel, RunOptions, SessionOptions, check_providers, global_threads
from ._values import IOBinding, OrtValue, to_array, type_string

# Compiled for one combination of shapes each, besides the model for all shapes; the least recently used goes.
MAX_SPECIALISED = 8
# After a session is made, before anything is compiled in the background.
QUIET_SECONDS = 1.0

_LEVELS = {GraphOptimizationLevel.ORT_DISABLE_ALL: 0, GraphOptimizationLevel.ORT_ENABLE_BASIC: 2}


_DTYPES = {"float": "float32", "double": "float64"}


class NodeArg:
    """An input or output: name, type ("tensor(float)"), shape (sizes, names, or None for unknown dimensions)."""

    name: str
    type: str
    shape: list[int | str | None]

    def __init__(self, info: Mapping[str, Any]) -> None:
        self.name, self.type, self.shape = info["name"], info["type"], info["shape"] or []
        self._rank_known = info["shape"] is not None

    def _dtype(self) -> np.dtype | None:
        """The NumPy dtype of a tensor; None for what isn't a tensor of numbers."""
        kind, _, inside = self.type.partition("(")
        name = inside.rstrip(")")
        return None if kind != "tensor" or name == "string" else to_numpy(_DTYPES.get(name, name))

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"

    __str__ = __repr__


class ModelMetadata:
    """Metadata in the model file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]

    def __init__(self, info: Mapping[str, Any]) -> None:
        self.producer_name, self.graph_name, self.domain = info["producer_name"], info["graph_name"], info["domain"]
        self.description, self.graph_description = info["description"], info["graph_description"]
        self.version, self.custom_metadata_map = info["version"], info["metadata"]


def _read(path_or_bytes):
    """(bytes, folder of external data) of what a session is made of."""
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes), ""
    if hasattr(path_or_bytes, "SerializeToString"):
        return path_or_bytes.SerializeToString(), ""
    if not isinstance(path_or_bytes, (str, os.PathLike)):
        raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
    path = pathlib.Path(path_or_bytes)
    if path.is_dir():
        raise _errors.NoSuchFile(f"Load model from '{os.fspath(path_or_bytes)}' failed: it isn't a file")
    if not path.is_file():
        raise _errors.NoSuchFile(f"Load model from {path} failed: the file doesn't exist")
    return path.read_bytes(), str(path.parent)


def _takes_shape(value):
    """Whether a model can be compiled for shapes of that input: a tensor of numbers."""
    return value["type"].startswith("tensor(") and value["type"] != "tensor(string)"


class _Models:
    """The compiled forms of one model: for all shapes where that is possible, and for single ones."""

    def __init__(self, data, directory, inputs, options, static, quick, name):
        """directory: of external data; None: there is none, and what is compiled before a run can go on is kept. quick:
        whether the first form is compiled with few of LLVM's passes, and replaced when that with all of them is there.
        name: what terminals call it while it is compiled; None: nothing is said there."""
        self._name = name
        self._data, self._directory, self._inputs, self._options = data, directory, inputs, options
        self._forms = _specialise.Forms(self._compile, MAX_SPECIALISED, QUIET_SECONDS)
        self._general = None
        self._static = static
        self._awaited = True  # what is compiled now; in the background later, unless each shape has to be waited for
        self._background = None
        try:
            # What is kept from an earlier session is there at once.
            quick = quick and not (directory is None and _model._is_kept(data, **self._all_options(())))
            self._general = self._compile((), target=_quick.target_of(_model.DEFAULT_TARGET)) if quick else self._compile(())
            self._awaited = False
            if quick:
                self._background = _quick.Background(self._compile_optimised, self._adopt)
        except (error.UnsupportedOpError, error.ShapeError, error.Error) as refusal:
            # What can't be compiled for all shapes may be for each: sizes are known then.
            hopeless = static or not any(_takes_shape(value) for value in inputs)
            if hopeless or isinstance(refusal, (error.ModelFormatError, error.InternalError)):
                raise

    def _compile_optimised(self, callback):
        if self._directory is None:
            return _model._compile_kept(self._data, progress=callback, **self._all_options(()))
        return _model._compile_serialised(self._data, self._directory, progress=callback, **self._all_options(()))

    def _all_options(self, shapes, **more):
        return {"shapes": {name: list(shape) for name, shape in shapes}, **self._options, **more}

    def _adopt(self, model):
        self._general = model

    def _compile(self, shapes, **more):
        options = self._all_options(shapes, **more)

        def build(callback):
            if self._directory is None and self._awaited:
                return _model._compile_kept(self._data, progress=callback, **options)
            return _model._compile_serialised(self._data, self._directory or "", progress=callback, **options)

        if self._name is None or not self._awaited:
            return _progress.interruptible(build, None)
        with _progress.on_terminals(self._name) as watch:
            return _progress.interruptible(build, watch)

    def find(self, feed):
        """The model to run on `feed`."""
        if self._static:
            return self._general
        shaped = {value["name"] for value in self._inputs if _takes_shape(value)}
        shapes = _specialise.shapes_of((name, value) for name, value in feed.items() if name in shaped)
        if self._general is None:
            return self._forms.find_or_compile(shapes)
        return self._forms.find(shapes) or self._general

    def settle(self):
        """Waits for what is compiled in the background; for measurements and tests."""
        self._forms.settle()
        if self._background is not None:
            self._background.settle()


class InferenceSession:
    """Same interface as onnxruntime.InferenceSession: get_inputs, get_outputs, run, ...

    path_or_bytes: an ONNX model (path, bytes, onnx.ModelProto), or a compiled library (.so). Models with dynamic shapes
    are compiled once for all shapes, and in the background for frequent ones.
    Errors: those of this module (InvalidArgument, NoSuchFile, InvalidProtobuf, ...), all subclasses of treadle.Error.

    >>> import onnx.parser, treadle.onnxruntime as ort
    >>> relu = onnx.parser.parse_model(
    ...     '<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }')
    >>> session = ort.InferenceSession(relu.SerializeToString(), providers=["CPUExecutionProvider"])
    >>> session.get_inputs()
    [NodeArg(name='x', type='tensor(float)', shape=['n', 2])]
    >>> session.run(None, {"x": [[-1, 2]]})
    [array([[0., 2.]], dtype=float32)]
    """

    def __init__(self, path_or_bytes: Any, sess_options: SessionOptions | None = None,
                 providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None = None,
                 provider_options: Sequence[Mapping[Any, Any]] | None = None, **kwargs: Any) -> None:
        unknown = sorted(set(kwargs) - {"disabled_optimizers", "enable_fallback", "session_options"})
        if unknown:
            known = ("sess_options", "providers", "provider_options", "disabled_optimizers", "enable_fallback")
            raise TypeError(f"InferenceSession has no argument '{unknown[0]}'" +
                            (_arguments.suggest(unknown[0], known) or f"; it has: path_or_bytes, {', '.join(known)}"))
        check_providers(providers)
        if not isinstance(sess_options, (SessionOptions, type(None))):
            raise TypeError(f"sess_options: expected SessionOptions, got {type(sess_options).__name__}")
        self._options = sess_options if sess_options is not None else SessionOptions()
        # Where the model was, as packages ask for it.
        self._model_path = os.fspath(path_or_bytes) if isinstance(path_or_bytes, (str, os.PathLike)) else None
        self._profile: list[dict[str, Any]] = []
        self._started = time.time_ns()
        self._models: _Models | None = None
        self._model: _model.Model | None = None
        self._overridable: dict[str, NodeArg] = {}
        threads = int(getattr(self._options, "intra_op_num_threads", 0) or 0) or global_threads()
        if isinstance(path_or_bytes, (str, os.PathLike)) and os.fspath(path_or_bytes).endswith(".so"):
            self._model = _model.load(path_or_bytes, threads)
            info = _info_of_library(self._model)
        else:
            data, directory = _read(path_or_bytes)
            info, external = self._model_info(data, directory, self._model_path)
            self._override(info)
            self._overridable = {value["name"]: NodeArg(value) for value in info["overridable"]}
            self._models = self._compile(data, external, info, threads)
            self._overridden: _specialise.Forms[tuple[str, ...]] = _specialise.Forms(
                lambda given: self._compile(data, external, info, threads, given), MAX_SPECIALISED)
        self._inputs = [NodeArg(value) for value in info["inputs"]]
        self._outputs = [NodeArg(value) for value in info["outputs"]]
        self._meta = ModelMetadata(info)
        self._by_name = {value.name: value for value in self._inputs}

    @staticmethod
    def _model_info(data: bytes, directory: str, path: str | None) -> "tuple[dict[str, Any], str | None]":
        """What the model says of itself, and the folder of its external data (None: it has none)."""
        read = get_global_func("frontend.onnx.ModelInfo")
        try:
            return json.loads(read(data, "")), None
        except error.ModelFormatError as problem:
            refusal = problem
        try:
            if directory:
                return json.loads(read(data, directory)), directory
        except error.ModelFormatError as problem:
            refusal = problem
        text = str(refusal).removeprefix("model: ")
        raise _errors.InvalidProtobuf(f"Load model{f' from {path}' if path else ''} failed: {text}") from None

    def _override(self, info: Mapping[str, Any]) -> None:
        """Puts the sizes of free dimension overrides into the shapes of inputs and outputs."""
        named = {dim for value in info["inputs"] for dim in value["shape"] or [] if isinstance(dim, str)}
        self._dims = {name: size for name, size in getattr(self._options, "_dims", {}).items() if name in named}
        unknown = [name for name in getattr(self._options, "_dims", {}) if name not in named]
        if unknown:
            warnings.warn(f"free dimension override '{unknown[0]}' has no effect: no input has a dimension of that name"
                          f"{_arguments.suggest(unknown[0], named)}", stacklevel=3)
        for value in [*info["inputs"], *info["overridable"], *info["outputs"]]:
            value["shape"] = value["shape"] and [self._dims.get(dim, dim) for dim in value["shape"]]

    def _compile(self, data: bytes, directory: str | None, info: Mapping[str, Any], threads: int,
                 given: tuple[str, ...] = ()) -> "_Models":
        """given: the initializers that are inputs."""
        dims = dict(self._dims)
        level = getattr(self._options, "graph_optimization_level", GraphOptimizationLevel.ORT_ENABLE_ALL)
        options = {"threads": threads, "dims": dims, "opt_level": _LEVELS.get(level, 3)}
        inputs = info["inputs"]
        if given:
            options["overridable"] = list(given)
            inputs = inputs + [value for value in info["overridable"] if value["name"] in given]
        static = all(isinstance(dim, int) or dim in dims for value in inputs for dim in value["shape"] or [None])
        try:
            quick = getattr(self._options, "_entries", {}).get("treadle.quick") == "1"
            return _Models(data, directory, inputs, options, static, quick and not given, self._shown_name())
        except error.UnsupportedOpError as problem:
            raise _errors.NotImplemented(self._named(problem)) from problem
        except error.ModelFormatError as problem:
            raise _errors.InvalidGraph(self._named(problem)) from problem
        except (error.ShapeError, error.DTypeError) as problem:
            raise _errors.Fail(f"Load model from {self._model_path or 'bytes'} failed: {problem}") from problem

    def _shown_name(self) -> str | None:
        """What terminals call the model while it is compiled; None where that isn't wanted."""
        if os.environ.get("TREADLE_PROGRESS") == "0" or getattr(self._options, "_entries", {}).get("treadle.progress") == "0":
            return None
        return os.path.basename(self._model_path) if self._model_path else "the model"

    def _named(self, problem: Exception) -> str:
        """The message; "model", as one that was given as bytes is called, becomes the file's name."""
        text = str(problem)
        return text.replace("model: ", f"{self._model_path}: ", 1) if self._model_path and text.startswith("model: ") else text

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initializers that are inputs of the graph as well: a run may give others. The first run that gives some waits
        until the model is compiled with these as inputs."""
        return list(self._overridable.values())

    def get_modelmeta(self) -> ModelMetadata:
        return self._meta

    def get_providers(self) -> list[str]:
        return [CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {CPU: {}}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        check_providers(providers)

    def get_session_options(self) -> SessionOptions:
        return self._options

    def enable_fallback(self) -> None:
        """There is one provider: nothing to fall back to."""

    def disable_fallback(self) -> None:
        """There is one provider: nothing to fall back to."""

    def get_profiling_start_time_ns(self) -> int:
        return self._started

    def end_profiling(self) -> str:
        """Writes the times of all runs of the session as a Chrome trace; returns the file name."""
        if not self._options.enable_profiling:
            return ""
        path = f"{self._options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        pathlib.Path(path).write_text(json.dumps(self._profile), encoding="utf-8")
        return path

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """The outputs called `output_names` (all for None or []), as a list of arrays."""
        feed = self._checked(input_feed)
        names = _arguments.strings("output_names", output_names) or None
        known = [value.name for value in self._outputs]
        for name in names or []:
            if name not in known:
                raise _errors.InvalidArgument(f"Invalid output name:{name}; the model has: {', '.join(known)}")
        with _in_their_words():
            model = self._find(feed)
            return model.run(names, feed, cancel=_cancel_of(run_options))

    def _find(self, feed):
        """The compiled form to run on these inputs."""
        given = tuple(name for name in self._overridable if name in feed)
        models = self._overridden.find_or_compile(given) if given else self._models
        model: Any = self._model if models is None else models.find(feed)
        if self._options.enable_profiling:
            self._record(model.create_context().profile(**feed))
        return model

    def _run_bound(self, binding: IOBinding, run_options: RunOptions | None) -> list[Any]:
        feed = self._checked(binding._inputs)
        with _in_their_words():
            return binding._run_in_context(self._find(feed), feed, _cancel_of(run_options))

    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
                  callback: Callable[[list[Any], Any, str], object], user_data: Any,
                  run_options: RunOptions | None = None) -> None:
        """Runs in another thread, then calls callback(results, user_data, error message)."""
        if not callable(callback):
            raise TypeError(f"callback: expected a function, got {type(callback).__name__}")

        def work() -> None:
            try:
                results, message = self.run(output_names, input_feed, run_options), ""
            except Exception as problem:  # noqa: BLE001 - the callback gets it
                results, message = list[Any](), str(problem)
            callback(results, user_data, message)

        threading.Thread(target=work, name="treadle-run-async").start()

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        feed = {name: to_array(value) for name, value in input_dict_ort_values.items()}
        return [OrtValue(result) for result in self.run(output_names, feed, run_options)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        if not isinstance(iobinding, IOBinding):
            raise TypeError(f"iobinding: expected an IOBinding, got {type(iobinding).__name__}")
        iobinding.run(run_options)

    def run_with_ortvaluevector(self, run_options: RunOptions | None, feed_names: Sequence[str], feeds: Sequence[OrtValue],
                                fetch_names: Sequence[str], fetches: list[OrtValue], fetch_devices: Any = None) -> None:
        fetches[:] = self.run_with_ort_values(list(fetch_names), dict(zip(feed_names, feeds)), run_options)

    def create_ortvalue_from_shape_and_type(self, shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                            device_id: int = 0, vendor_id: int = -1) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        return [OrtMemoryInfo("Cpu") for _ in self._inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        return [OrtMemoryInfo("Cpu") for _ in self._outputs]

    def get_input_epdevices(self) -> list[Any]:
        """Inputs are on the CPU, which no execution provider library brings."""
        return [None for _ in self._inputs]

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """There is one provider: nothing is assigned. `treadle explain` says how each operator is computed."""
        return []

    def get_tuning_results(self) -> list[Any]:
        """Empty: no provider tunes at run time. `treadle tune` writes its own records."""
        return []

    def set_tuning_results(self, results: Any, error_on_invalid: bool = False) -> None:
        """Without effect: no provider tunes at run time."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        if options:
            raise _errors.InvalidArgument(f"{CPU} has no option '{next(iter(options))}' that changes while it runs")

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """No graph is captured."""

    def _record(self, times: list[_model.OperatorTime]) -> None:
        now = (time.time_ns() - self._started) // 1000
        for call in times:
            self._profile.append({"cat": "Node", "name": f"{call.name}_kernel_time", "ph": "X", "pid": os.getpid(),
                                  "tid": 0, "ts": now + int(call.start * 1e6), "dur": int(call.seconds * 1e6),
                                  "args": {"op_name": call.kernel, "provider": CPU}})

    def _checked(self, input_feed: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs as arrays of the declared types; refuses what doesn't fit, in ONNX Runtime's words."""
        if not isinstance(input_feed, Mapping):
            raise TypeError(f"inputs are given as a dict by name, not as {type(input_feed).__name__}; the inputs are: "
                            f"{', '.join(self._by_name)}")
        missing = [name for name in self._by_name if name not in input_feed]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).")
        feed = {}
        for name, value in input_feed.items():
            declared = self._by_name.get(name) or self._overridable.get(name)
            if declared is None:
                raise _errors.InvalidArgument(f"Invalid input name: {name}; the model has: {', '.join(self._by_name)}")
            feed[name] = _as_declared(declared, to_array(value))
        return feed


@contextlib.contextmanager
def _in_their_words():
    """Errors of runs as those of ONNX Runtime's classes."""
    try:
        yield
    except (error.ShapeError, error.DTypeError) as problem:
        raise _errors.InvalidArgument(str(problem)) from problem
    except error.RuntimeError as problem:
        raise _errors.RuntimeException(str(problem)) from problem


def _cancel_of(run_options):
    if not isinstance(run_options, (RunOptions, type(None))):
        raise _errors.InvalidArgument(f"run_options: expected RunOptions, got {type(run_options).__name__}")
    return run_options._cancel if run_options is not None else None


def _as_declared(declared, value):
    dtype = declared._dtype()
    if dtype is None:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise _errors.InvalidArgument(f"input '{declared.name}' is a masked array; fill its mask first")
    if not hasattr(value, "dtype") and not hasattr(value, "__dlpack__"):
        try:
            value = _arguments.converted(declared.name, value, dtype)  # lists take the declared type
        except (error.DTypeError, error.ShapeError) as problem:
            raise _errors.InvalidArgument(str(problem)) from None
    actual = getattr(value, "dtype", None)
    if isinstance(actual, np.dtype) and actual.newbyteorder("=") != dtype:
        raise _errors.InvalidArgument(f"Unexpected input data type. Actual: ({type_string(actual)}) , expected: "
                                      f"({declared.type}) for input '{declared.name}'")
    shape = tuple(value.shape)
    if declared._rank_known and len(shape) != len(declared.shape):
        raise _errors.InvalidArgument(f"Invalid rank for input: {declared.name} Got: {len(shape)} Expected: "
                                      f"{len(declared.shape)} Please fix either the inputs/outputs or the model.")
    wrong = [f" index: {i} Got: {got} Expected: {expected}" for i, (got, expected) in
             enumerate(zip(shape, declared.shape)) if isinstance(expected, int) and got != expected]
    if wrong:
        raise _errors.InvalidArgument("Got invalid dimensions for input: " + declared.name +
                                      " for the following indices\n" + "\n".join(wrong) +
                                      "\n Please fix either the inputs/outputs or the model.")
    return value


def _info_of_library(model):
    def describe(info):
        return {"name": info.name, "type": info.type,
                "shape": [None if dim == -1 else dim for dim in info.shape]}

    manifest = model.manifest
    return {"inputs": [describe(info) for info in model.inputs], "outputs": [describe(info) for info in model.outputs],
            "producer_name": "treadle", "graph_name": manifest.get("name", ""), "domain": "", "description": "",
            "graph_description": "", "version": 0, "metadata": {}}


__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "RunOptions"]
