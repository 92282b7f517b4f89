# SPDX-License-Identifier: Apache-2.0
"""Compiling, loading and running models."""
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from . import (_arguments, _binding, _bounded, _context, _core, _evaluate, _feeds, _nd, _notebook, _precision, _progress,
               _quick, _specialise, _weights)
from ._arguments import SupportsSerialize
from ._benchmark import OperatorTime
from ._core import CancelToken
from ._execution import Context, TensorInfo, _infos
from ._ffi import Api, get_global_func
from ._nd import as_tensor
from .error import DTypeError, Error, ModelFormatError, ShapeError, VerifyError, cannot_open
from .target import Target, _text as _target_text

__all__ = ["Context", "Model", "OperatorTime", "TensorInfo", "compile", "limited", "load", "load_plugin"]

_api = Api("driver")
_Result = TypeVar("_Result")


class Model:
    """A compiled model. Call it with inputs by name, or use `run` as with ONNX Runtime sessions. Any number of threads
    may use it concurrently. treadle.compile and treadle.load create it.

    inputs, outputs: a TensorInfo for each; threads: number of threads of a run, 0 for all. Arrays (NumPy, DLPack) must
    have exactly the type of the input; lists and numbers are converted if that preserves their values.

    >>> import numpy as np, onnx.parser, treadle
    >>> relu = onnx.parser.parse_model(
    ...     '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    >>> model = treadle.compile(relu)
    >>> model(x=np.array([-1, 2], np.float32))
    {'y': array([0., 2.], dtype=float32)}

    The examples below are of this model.
    """

    threads: int
    precision: Any  # what precision="auto" measured

    def __init__(self, model: Any, threads: int = 0, compiled: Any = None, path: str | None = None) -> None:
        self._model, self._compiled, self._path, self.threads = model, compiled, path, threads
        self._source: _Source | None = None
        self._forms: _specialise.Forms[_specialise.Shapes] | None = None
        self._folder: Any = None  # of a library that goes with the model
        self._background: _quick.Background | None = None
        self._binding: _binding.Binding | None = None
        manifest = json.loads(model.manifest())
        self._ins, self._outs = _infos(model.inputs(), manifest["inputs"]), _infos(model.outputs(), manifest["outputs"])
        self._inputs = {info.name: info for info in self._ins}
        self._lock = threading.Lock()
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None

    @property
    def inputs(self) -> list[TensorInfo]:
        """The inputs."""
        return list(self._ins)

    @property
    def outputs(self) -> list[TensorInfo]:
        """The outputs."""
        return list(self._outs)

    def run(self, output_names: Sequence[str] | None, inputs: Mapping[str, Any], *, timeout: float | None = None,
            cancel: CancelToken | None = None) -> list[Any]:
        """Runs the model. Returns the outputs named in `output_names` (None: all) as a list of arrays. inputs: a dict
        by name.

        timeout: time limit in seconds; exceeding it raises treadle.error.RunTimeout. cancel: a CancelToken with which
        another thread can cancel the run (treadle.error.RunCancelled). Both are checked between kernels and between the
        parallel tasks of a kernel.

        Errors: Error for unknown names, ShapeError and DTypeError for inputs that do not match,
        treadle.error.RuntimeError for failures during the run.

        >>> model.run(["y"], {"x": [-1, 2]})
        [array([0., 2.], dtype=float32)]
        """
        if self._binding:
            bound = self._binding.run(inputs, timeout, cancel)
            wanted = list(bound) if output_names is None else _arguments.strings("output_names", output_names)
            return [bound[self._output(name)] for name in wanted]
        tensors = _feeds.to_tensors(inputs, self._inputs)
        form = None if self._forms is None else self._forms.find(_specialise.shapes_of(
            (name, tensor) for name, tensor in tensors.items() if not self._inputs[name].value_type))
        results = (form or self)._model.run(tensors, self.threads, _arguments.seconds(timeout), _arguments.cancel_token(cancel))
        if output_names is None:
            return [_feeds.to_python(result, info) for result, info in zip(results, self._outs)]
        names = [info.name for info in self._outs]
        chosen = [names.index(self._output(name)) for name in _arguments.strings("output_names", output_names)]
        return [_feeds.to_python(results[i], self._outs[i]) for i in chosen]

    def _output(self, name):
        names = [info.name for info in self._outs]
        if name not in names:
            raise Error(f"the model has no output '{name}'; it has: {', '.join(names)}" + _arguments.suggest(name, names))
        return name

    def bind_output(self, name: str, array: "np.ndarray | None") -> None:
        """Later runs of the model write the output to `array` and return it, like Context.bind_output; None: allocate a
        new array again. While outputs are bound, concurrent runs wait for each other; use one context per thread to
        avoid that."""
        with self._lock:
            self._binding = self._binding or _binding.Binding(self.create_context(), self._inputs)
        self._binding.bind(name, array)

    def __call__(self, *args: Any, **inputs: Any) -> dict[str, Any]:
        """Runs the model and returns the outputs by name. Inputs are keyword arguments, positional arguments or a dict.
        Errors: see `run`."""
        return dict(zip((info.name for info in self._outs), self.run(None, self._named(args, inputs))))

    def _named(self, args, inputs):
        if len(args) == 1 and isinstance(args[0], dict):
            return {**args[0], **inputs}
        if len(args) > len(self._ins):
            raise Error(f"the model has {len(self._ins)} input{'s' * (len(self._ins) != 1)}, got {len(args)}")
        by_position = {info.name: value for info, value in zip(self._ins, args)}
        for name in by_position:
            if name in inputs:
                raise Error(f'input "{name}" is given by position and by name')
        return {**by_position, **inputs}

    def settle(self) -> None:
        """Waits for the optimised code of a model compiled with `quick`. Later runs, contexts and `save` use it."""
        if self._background is not None:
            self._background.settle()

    def _adopt(self, optimised):
        self._model, self._compiled = optimised._model, optimised._compiled

    def run_async(self, *args: Any, **inputs: Any) -> "concurrent.futures.Future[dict[str, Any]]":
        """Runs the model in another thread. Returns a Future; its result() waits for the outputs or raises the error.

        The inputs must not be modified until then. At most one run per processor is active.

        >>> future = model.run_async(x=[-1, 2])
        >>> future.result()
        {'y': array([0., 2.], dtype=float32)}
        """
        with self._lock:
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, "treadle-run")
        return self._pool.submit(self, *args, **inputs)

    def create_context(self, threads: int | None = None,
                       state: "Mapping[str, str] | Context | None" = None) -> Context:
        """Creates the state of one thread that runs the model repeatedly. threads: number of threads of a run, 0 for
        all.

        state: inputs that receive an output of the previous run, {"past": "present"}. These outputs are not returned,
        and the inputs are zeros in the first run unless they are given. Caches that TensorScatter writes to are updated
        in place: a run touches only the rows it writes. If `state` is a context, its state is shared, for example
        between the prefill and the following steps. Errors: Error for unknown names, ShapeError if shapes differ."""
        return Context(self, self.threads if threads is None else _arguments.threads(threads), state)

    def _sample(self, inputs):
        """The inputs of a measurement: those given, random ones otherwise, which need all sizes."""
        if inputs is not None:
            if not isinstance(inputs, Mapping):
                _feeds.to_tensors(inputs, self._inputs)  # says what was expected
            return dict(inputs)
        for info in self._ins:
            if info.value_type or any(not isinstance(dim, int) or dim < 0 for dim in info.shape):
                raise ShapeError(f"there are no random values for input '{info.name}' ({info.value_type or info.dtype}"
                                 f"{list(info.shape)}): give inputs={{'{info.name}': array, ..}}")
        return _precision.random_inputs(self._ins)

    @_arguments.refuses_unknown
    def benchmark(self, inputs: Mapping[str, Any] | None = None, *, repeat: int = 20, warm_up: int = 3,
                  seconds: float | None = None, threads: int | None = None) -> _evaluate.Times:
        """Measures `repeat` runs, or as many as fit into `seconds`, after `warm_up` unmeasured ones.

        inputs: a dict of arrays; default: random ones, if all shapes are static. The time includes setting the inputs.
        Returns `seconds` of each run, and median, mean, min and percentile(95) in seconds. Errors: as `run`; ShapeError
        for dynamic shapes without inputs.

        >>> times = model.benchmark(repeat=5)
        >>> len(times.seconds), times.min <= times.median <= times.percentile(95)
        (5, True)
        """
        repeat, warm_up = _arguments.whole("repeat", repeat, 1), _arguments.whole("warm_up", warm_up)
        if seconds is not None:
            seconds = _arguments.number("seconds", seconds, "a number above 0")
        context, feed = self.create_context(threads), _feeds.to_tensors(self._sample(inputs), self._inputs)
        threads = self.threads if threads is None else threads
        return _evaluate.measure(lambda: context(**feed), repeat, warm_up, seconds, threads)

    @_arguments.refuses_unknown
    def profile(self, inputs: Mapping[str, Any] | None = None, *, threads: int | None = None) -> list[OperatorTime]:
        """Profiles the second of two runs. Returns for each kernel call: node, kernel, seconds, shapes, multiply-adds.

        inputs: see `benchmark`. Errors: those of `benchmark`.

        >>> [(time.name, time.seconds > 0) for time in model.profile()]
        [('treadle_default_fused_nn_relu', True)]
        """
        context, feed = self.create_context(threads), _feeds.to_tensors(self._sample(inputs), self._inputs)
        context(**feed)
        return context.profile()

    def report(self, path: "str | os.PathLike[str]", inputs: Mapping[str, Any] | None = None, *, repeat: int = 10,
               threads: int | None = None) -> None:
        """Writes a self-contained HTML page about the model: graph, time compared with the roofline, memory, kernels,
        advice. docs/report.md.

        inputs, errors: see `benchmark`; Error for paths that cannot be written.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report(folder + "/relu.html", repeat=2)
        ...     os.listdir(folder)
        ['relu.html']
        """
        if not (path := _arguments.path("path", path)).endswith((".html", ".htm", ".so", ".onnx")):
            raise Error(f"can't write '{path}': a page is HTML, such as page.html")
        times = self.benchmark(inputs, repeat=repeat, threads=threads)
        profile = self.profile(inputs, threads=threads)
        path_of = self._path or (self._source.model if self._source else None)
        name = os.path.basename(path_of) if isinstance(path_of, str) else "model"
        self._model.write_page(path, name, self.explain() if self._source else "", times.median,
                               self.threads if threads is None else threads, profile)

    def explain(self) -> str:
        """Returns the compiler's decisions and their reasons: fusion, layouts, data types, devices, external code
        generators, and for each operator the candidate kernels with their costs, like `treadle explain`.

        Compiles again, with kernels from the cache on disk. Error for loaded models.

        >>> print(model.explain().splitlines()[0])
        # Run by the graph executor; code for llvm -keys=cpu -mcpu=native.
        """
        if self._source is None:
            raise Error("a loaded model has no record of the compiler's decisions; use treadle.compile(..).explain()")
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            self._source.compile({"dump": ["explain"], "dump_dir": folder})
            return pathlib.Path(folder, "explain.txt").read_text(encoding="utf-8")

    @_arguments.refuses_unknown
    def verify(self, inputs: Mapping[str, Any] | None = None, reference: Any = None, *, rtol: float = 1e-3,
               atol: float | None = None) -> list[_evaluate.OutputError]:
        """Compares the outputs with a reference. Returns the differences; VerifyError if an output is out of tolerance.

        inputs: see `benchmark`.
        reference: a dict of expected outputs, or an ONNX model (path, bytes, onnx.ModelProto) that the package
        onnxruntime runs; None: the model that was compiled.
        rtol: relative tolerance; atol: absolute tolerance (None: 1e-5 of the largest magnitude of each output). NaN
        equals NaN.

        >>> print(model.verify({"x": [-1, 2]})[0])
        y: agrees, largest difference 0
        >>> model.verify({"x": [-1, 2]}, reference={"y": np.float32([1, 2])})
        Traceback (most recent call last):
        ...
        treadle.error.VerifyError: outputs differ from the reference: y: differs in 1 of 2 elements, largest difference 1
        """
        rtol = _arguments.number("rtol", rtol, "a number of 0 or more", low=-1e-300)
        if atol is not None:
            atol = _arguments.number("atol", atol, "a number of 0 or more, or None", low=-1e-300)
        if isinstance(reference, (str, os.PathLike)) and not os.path.exists(reference):
            raise Error(f"reference: there is no file {os.fspath(reference)!r}; expected an ONNX model, or a dict of outputs")
        feed = self._sample(inputs)
        feed = {name: value if _arguments.is_array(value) or name not in self._inputs or self._inputs[name].value_type
                else _arguments.converted(name, value, self._inputs[name].dtype) for name, value in feed.items()}
        outputs = self(feed)
        expected = self._expected(feed, reference)
        missing = [name for name in outputs if name not in expected]
        if missing:
            raise Error(f"the reference has no output '{missing[0]}'; it has: {', '.join(expected)}")
        rows = [_evaluate.compare(name, value, expected[name], rtol, atol) for name, value in outputs.items()]
        wrong = "; ".join(str(row) for row in rows if not row.agrees)
        if wrong:
            raise VerifyError(f"outputs differ from the reference: {wrong}")
        return rows

    def _expected(self, feed, reference):
        if isinstance(reference, Mapping):
            return reference
        constants = {}
        if reference is None:
            if self._source is None:
                raise Error("a loaded model doesn't know its ONNX model: give reference='model.onnx', or a dict of outputs")
            reference, constants = self._source.model, self._source.constants
        if hasattr(reference, "SerializeToString"):
            reference = reference.SerializeToString()
        if not isinstance(reference, (str, os.PathLike, bytes)):
            raise DTypeError("reference: expected a dict of outputs, or an ONNX model (path, bytes, onnx.ModelProto), got "
                             f"{type(reference).__name__}")
        feed = {name: value if isinstance(value, (np.ndarray, list)) else np.asarray(value) for name, value in
                {**feed, **constants}.items()}
        names = [info.name for info in self._outs]
        return dict(zip(names, _evaluate.onnxruntime_outputs(reference, feed, names)))

    def export_library(self, path: "str | os.PathLike[str]") -> None:
        """Writes the model as a shared library for `load`. With the extension .tar, writes an archive of object files
        instead."""
        path = _arguments.path("path", path)
        if self._compiled is not None:
            _api.CompiledModel_Export(self._compiled, path)
            return
        target, data = pathlib.Path(path), pathlib.Path(str(self._path)).read_bytes()
        # Written beside it and then renamed: readers never see half a file, and libraries loaded from that path stay intact.
        part = target.with_name(f"{target.name}.part{os.getpid()}")
        try:
            part.write_bytes(data)
            part.chmod(0o755)
            part.replace(target)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise Error(f"can't write {target}: {error.strerror}") from None

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the model with its weights as a shared library, for treadle.load and for C++ and C programs.

        The file is written completely or not at all. Error if it cannot be written, and for unknown extensions.

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "relu.so"))
        ...     treadle.load(pathlib.Path(folder, "relu.so"))(x=[-1, 2])
        {'y': array([0., 2.], dtype=float32)}
        """
        name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        suffix = pathlib.Path(name).suffix
        if not name.endswith(os.sep) and suffix not in ("", ".so", ".tar") and ".so." not in pathlib.Path(name).name:
            raise Error(f"can't write '{name}': a library isn't called {suffix}; such as model.so")
        self.export_library(path)

    @property
    def manifest(self) -> dict[str, Any]:
        """The model's metadata: target, CPU features, versions, inputs, outputs."""
        return json.loads(self._model.manifest())

    @property
    def graph_json(self) -> str:
        """The kernel calls, as JSON."""
        return self._model.graph_json()

    @property
    def memory(self) -> dict[str, int]:
        """Number of bytes of the weights (shared), and of inputs and activations (per context)."""
        return self._model.memory()

    def get_source(self, fmt: str = "ll") -> str:
        """The kernels as text: "tir", "ll" or "asm". Only for models that were compiled in this process."""
        if self._compiled is None:
            raise Error("a loaded model has no source; compile it in this process")
        return _api.CompiledModel_Source(self._compiled, fmt)

    def __repr__(self) -> str:
        def dim(size):
            return "?" if size == -1 else repr(size)  # without a name in the model

        def text(infos):
            return ", ".join(f"{info.name}: {info.dtype}[{', '.join(map(dim, info.shape))}]" for info in infos)

        return f"<treadle.Model ({text(self._ins)}) -> ({text(self._outs)})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Model can't be pickled or copied; Model.save writes a file that treadle.load reads in another process")

    def _repr_html_(self) -> str:
        return _notebook.table_of(self._ins, self._outs)


@dataclasses.dataclass(frozen=True)
class _Source:
    """What a model was compiled from: path or bytes, constants, and how to do it again with more options."""

    model: "str | bytes"
    constants: dict[str, Any]
    compile: Callable[[dict[str, Any]], Any]


def serialised(model: Any) -> tuple[bytes, str]:
    """(bytes, directory of external data) of a path, bytes or onnx.ModelProto; DTypeError for what is none of them."""
    if hasattr(model, "SerializeToString") and hasattr(model, "opset_import"):
        return model.SerializeToString(), ""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), ""
    if not isinstance(model, (str, os.PathLike)):
        kind = type(model).__name__
        help_text = ""
        if hasattr(model, "read"):
            help_text = "; an open file is given as its bytes: file.read()"
        elif hasattr(model, "state_dict"):
            help_text = "; treadle.from_torch takes modules of PyTorch"
        raise DTypeError(f"a model is given as a path, bytes or an onnx.ModelProto, not as {kind}{help_text}")
    path = pathlib.Path(_arguments.path("model", model))
    try:
        return path.read_bytes(), str(path.parent)
    except OSError as error:
        raise cannot_open(path, error) from None


def located(model: Any) -> "tuple[bytes | pathlib.Path, str]":
    """As serialised, but of a path the path: the compiler maps the file rather than having it in memory several times."""
    if not isinstance(model, (str, os.PathLike)):
        return serialised(model)
    path = pathlib.Path(_arguments.path("model", model)).absolute()
    try:
        with path.open("rb"):
            return path, str(path.parent)
    except OSError as error:
        raise cannot_open(model, error) from None


DEFAULT_TARGET = "llvm -mcpu=native"
_PRECISIONS = ("f32", "bf16", "f16", "mixed", "auto")
_ACCURACIES = ("strict", "default", "fast")


@_arguments.refuses_unknown
def compile(model: "str | os.PathLike[str] | bytes | bytearray | memoryview | SupportsSerialize",  # noqa: A001
            shapes: Mapping[str, Iterable[int]] | None = None, dims: Mapping[str, int | str] | None = None,
            target: str | Mapping[str, Any] | Target = "llvm -mcpu=native", opt_level: int | None = None, threads: int = 0,
            disabled_pass: Iterable[str] = (), required_pass: Iterable[str] = (),
            pass_config: Mapping[str, Any] | None = None, constants: Mapping[str, Any] | None = None,
            external: str | Iterable[str] = (), plugins: "Iterable[str | os.PathLike[str]]" = (),
            max_model_memory: int = 0, precision: str = "f32", max_error: float = _precision.MAX_ERROR, accuracy: str = "default",
            samples: Sequence[Mapping[str, Any]] | None = None, specialise: int = 0, quick: bool = False,
            progress: bool | Callable[[_progress.Progress], object] | None = None,
            max_seconds: float | None = None, max_memory: int = 0,
            weights: "Mapping[str, Any] | str | os.PathLike[str] | None" = None,
            overridable: str | Iterable[str] = ()) -> Model:
    """Compiles an ONNX model (path, bytes or onnx.ModelProto) to native code.

    shapes: shapes of inputs by name.
    dims: sizes of symbolic dimensions by name, or ranges that are checked at run time ("1..8", "32k" for multiples of
    32, "64..640:32k").
    target: a string, a dict such as {"kind": "llvm", "mcpu": "native"}, or a treadle.target.Target.
    opt_level: 0 to 4 (default: 3); disabled_pass, required_pass: names of passes; pass_config: pass options by name.
    Defaults come from the enclosing transform.PassContext, whose passes and options are added.
    threads: number of threads of a run, 0 for all.
    constants: inputs that are fixed to a value at compile time (axes, sizes, ...), by name.
    overridable: names of initializers that become inputs, which each run has to give. ONNX permits this for initializers
    that the graph also lists as inputs. All others stay constants, which makes faster code.
    external: names of external code generators that may take parts of the model, in order of preference; plugins: paths
    of libraries that contain them.
    max_model_memory: maximum number of bytes of the parsed model; 0: about ten times the file size.
    precision: number format of float32 products: "f32", "bf16" or "f16" (accumulated in float32), "mixed" (bfloat16
    where it is faster), or "auto" ("mixed", where as many layers keep float32 as necessary to keep the error of each
    output, relative to its norm, below max_error).
    samples: for precision="auto": dicts of inputs on which the error is measured (default: one random sample).
    accuracy: "strict", "default" or "fast" (errors of up to 1e-3 of the range of a layer): selects where Winograd
    convolutions are allowed and how inputs of 4-bit weights are rounded.
    specialise: maximum number of additional versions for frequent combinations of input shapes. They are compiled in
    the background once a combination was seen twice; the least recently used one is dropped.
    quick: compile with few LLVM passes and without Winograd convolutions first, in a third to two thirds less time, and
    optimise in the background. `Model.settle` waits for the optimised code. Existing contexts keep the code they were
    created with.
    progress: a function that is called with a treadle.Progress after each kernel, in the compiling thread; True: a tqdm
    or rich progress bar if one is installed, else a line on standard error. Ctrl-C cancels the compilation.
    max_seconds, max_memory (bytes of data; 0: no limit): limits for the compilation, which then runs in a child
    process; exceeding one is an error. They cannot be combined with `progress`, `specialise`, `quick` and
    precision="auto".
    weights: arrays by name, or a .safetensors file (package safetensors), that replace the initializers of the same
    name, type and shape. The package onnx inserts them, which limits the model to 2 GB.

    Errors: ModelFormatError (not an ONNX model, or an invalid one), UnsupportedOpError (operators that are not
    implemented), ShapeError, TargetError, Error (other mistakes, such as unknown names), TypeError (unknown arguments).
    An exception in `progress` cancels the compilation.

    >>> import onnx.parser, treadle
    >>> relu = onnx.parser.parse_model(
    ...     '<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }')
    >>> treadle.compile(relu)
    <treadle.Model (x: float32['n', 2]) -> (y: float32['n', 2])>
    >>> treadle.compile(relu, dims={"n": 3})
    <treadle.Model (x: float32[3, 2]) -> (y: float32[3, 2])>
    >>> treadle.compile(relu, dims={"m": 3})
    Traceback (most recent call last):
    ...
    treadle.error.Error: no input has a dimension called 'm'; there are: 'n'
    """
    if precision not in _PRECISIONS:
        meant = "; treadle.quantize makes models 8-bit" if "int" in str(precision) else _arguments.suggest(precision, _PRECISIONS)
        raise Error(f"precision is {precision!r}; expected one of {', '.join(_PRECISIONS)}{meant}")
    if precision != "auto":
        _precision.check_unused(samples, max_error)
    if accuracy not in _ACCURACIES:
        raise Error(f"accuracy is {accuracy!r}; expected one of {', '.join(_ACCURACIES)}")
    config = _arguments.mapping("pass_config", pass_config, "{'relay.FuseOps.max_depth': 10}")
    if accuracy != "default":
        config["relay.accuracy"] = accuracy
    if precision not in ("f32", "auto"):
        config["relay.precision"] = precision
    level, disabled, required, config = _context.merged(
        None if opt_level is None else _arguments.whole("opt_level", opt_level, 0, 4),
        _arguments.strings("disabled_pass", disabled_pass), _arguments.strings("required_pass", required_pass), config)
    options = {"shapes": _arguments.shapes(shapes), "dims": _arguments.dims(dims), "target": _target_text(target),
               "opt_level": level, "threads": _arguments.threads(threads),
               "disabled_pass": disabled, "required_pass": required,
               "constants": _arguments.mapping("constants", constants, "{'axes': [0, 1]}"),
               "external": _arguments.strings("external", external),
               "overridable": _arguments.strings("overridable", overridable),
               "max_model_memory": _arguments.whole("max_model_memory", max_model_memory)}
    if not isinstance(quick, bool):
        raise DTypeError(f"quick: expected True or False, got {quick!r}")
    if quick and (max_seconds is not None or max_memory or precision == "auto"):
        raise Error("quick compiles again in the background: without max_seconds, max_memory and precision='auto'")
    most = _arguments.whole("specialise", specialise, 0, 1024)
    libraries = _arguments.paths("plugins", plugins)
    if weights is not None:
        model = _weights.replaced(model, weights)
    # What is compiled again in the background is what the file held in the beginning.
    data, directory = serialised(model) if quick else located(model)
    if max_seconds is not None or max_memory:
        if precision == "auto" or progress not in (None, False) or most:
            raise Error("max_seconds and max_memory compile in a child process: without progress, specialise and "
                        "precision='auto'")
        limits = _arguments.seconds(max_seconds, "max_seconds"), _arguments.whole("max_memory", max_memory)
        task = {"data": data, "directory": directory, "pass_config": config, **options, "plugins": libraries}
        folder, library = _bounded.compile_in_child(task, *limits)
        bounded = Model(_core.Model.load(library), threads, path=library)
        bounded._folder = folder
        return bounded
    for plugin in libraries:
        load_plugin(plugin)
    path = os.path.abspath(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else None

    with _progress.watcher(progress) as watch:
        def build(config):
            settings = {**options, "pass_config": config}
            first = {**settings, "target": _quick.target_of(settings["target"])} if quick else settings
            built = _progress.interruptible(
                lambda callback: _compile_serialised(data, directory, progress=callback, **first), watch)
            built._source = _source(path, data, directory, settings)
            built._forms = _specialise.forms_of(built.inputs, most, lambda **sizes: _compile_serialised(
                data, directory, **{**settings, **sizes}))
            if quick:
                built._background = _quick.Background(
                    lambda callback: _compile_serialised(data, directory, progress=callback, **settings), built._adopt)
            return built

        return _precision.compile_auto(build, config, max_error, samples) if precision == "auto" else build(config)


def _source(path, data, directory, options):
    """How a model was compiled; of a file its path is kept only."""
    constants, kept = options["constants"], None if path else data

    def again(more):
        return _compile_serialised(located(path)[0] if path else kept, directory, **options, more=more)

    return _Source(path or data, constants, again)


def _export_serialised(path, threads, **options):
    """As _compile_serialised, to a library."""
    _api.CompiledModel_Export(_build_serialised(**options), path)


def _compile_serialised(data, directory, threads=0, **options):
    """As `compile`, of a serialised ModelProto whose external data is in `directory`, or of the path of one; the arguments
    have been checked."""
    compiled = _build_serialised(data, directory, **options)
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = os.path.join(folder, "model.so")
        _api.CompiledModel_Export(compiled, path)
        return Model(_core.Model.load(path), threads, compiled)  # stays mapped after the file is gone


def _keep_of(data, options):
    """Under what name a model compiled with these options (JSON's types) is kept, for this machine."""
    return get_global_func("driver.ModelCacheKey")(data, str(options.get("target", DEFAULT_TARGET)),
                                                   json.dumps(options, sort_keys=True))


def _is_kept(data, threads=0, **options):
    """Whether _compile_kept would find it."""
    return bool(get_global_func("driver.ModelCacheFind")(_keep_of(data, options)))


def _compile_kept(data, threads=0, progress=None, **options):
    """As _compile_serialised, of a model without external data; from the cache where it was compiled for that machine
    and with these options (JSON's types) before."""
    keep = _keep_of(data, options)
    kept = get_global_func("driver.ModelCacheFind")(keep)
    if kept:
        with contextlib.suppress(Error):  # another process has just removed it, or nothing may be executed there
            return Model(_core.Model.load(kept), threads)
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = os.path.join(folder, "model.so")
        if kept:
            with contextlib.suppress(Error, OSError):
                shutil.copyfile(kept, path)
                return Model(_core.Model.load(path), threads)
        _export_serialised(path, threads, data=data, directory="", progress=progress, **options)
        get_global_func("driver.ModelCacheKeep")(keep, path)
        return Model(_core.Model.load(path), threads)  # stays mapped after the file is gone


def _build_serialised(data, directory, shapes=None, dims=None, target="llvm -mcpu=native", opt_level=3, disabled_pass=(),
                      required_pass=(), pass_config=None, constants=None, external=(), max_model_memory=0, progress=None,
                      overridable=(), more=None):
    """The driver's model. `more`: further options of the driver."""
    options = {
        "target": str(target), "opt_level": opt_level, "max_model_memory": max_model_memory, "dims": dict(dims or {}),
        "shapes": dict(shapes or {}), "constants": {name: as_tensor(value) for name, value in (constants or {}).items()},
        "disabled_pass": list(disabled_pass), "required_pass": list(required_pass), "external": list(external),
        "overridable": list(overridable), "config": _arguments.texts(pass_config), **(more or {})}
    if progress is not None:
        options["progress"] = progress
    if isinstance(data, pathlib.Path):
        return _api.CompileOnnxFile(str(data), options)
    return _api.CompileOnnx(data, directory, options)


def limited(function: Callable[..., _Result], *arguments: Any, timeout: float | None = None,
            cancel: CancelToken | None = None) -> _Result:
    """Calls a function of a module, or any function that calls some, as Model.run(timeout=, cancel=) runs a model.

    >>> import treadle
    >>> treadle.limited(max, 1, 2, timeout=0.5)
    2
    """
    return _core.call_limited(function, arguments, _arguments.seconds(timeout), _arguments.cancel_token(cancel))


def load_plugin(path: "str | os.PathLike[str]") -> str:
    """Loads a library with an external code generator, or with the functions that its compiled models need; returns its
    name."""
    return get_global_func("runtime.LoadPlugin")(_arguments.path("path", path))


@_arguments.refuses_unknown
def load(path: "str | os.PathLike[str]", threads: int = 0) -> Model:
    """Loads a compiled model: a shared library that Model.save or `treadle compile` wrote. threads: number of threads
    of a run, 0 for all.

    Errors: ModelFormatError for invalid files and for models that were compiled for another machine."""
    if not isinstance(path, (str, os.PathLike)):
        raise DTypeError(f"a compiled model is loaded from a path, not from {type(path).__name__}; treadle.compile takes "
                         "ONNX models")
    if os.fspath(path).endswith((".onnx", ".relay")):
        raise ModelFormatError(f"{os.fspath(path)} isn't compiled: treadle.compile takes such files, treadle.load what Model.save "
                               "and `treadle compile` write")
    return Model(_core.Model.load(os.fspath(path)), _arguments.threads(threads), path=os.fspath(path))
