# SPDX-License-Identifier: Apache-2.0
"""tvmc for Python: a model is loaded, tuned, compiled to a package and run, each in one call.

    model = tvmc.load("model.onnx")
    package = tvmc.compile(model, target="llvm", package_path="model.so")
    print(tvmc.run(package, device="cpu"))
"""
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import nd, relay, rpc
from ..contrib import graph_executor
from ..error import Error
from ..ir import IRModule
from ..model import load as load_model
from ..runtime import load_module
from ..transform import PassContext
from ..tuning import tune as _tune


class TVMCException(Error):
    """A model, package or option that can't be used."""


class TVMCModel:
    """A program of the graph IR with its parameters; `source`: the file of the ONNX model, which tuning reads."""

    def __init__(self, mod: Any = None, params: Mapping[str, Any] | None = None, model_path: str | os.PathLike[str] | None = None,
                 source: Any = None) -> None:
        if (mod is None or params is None) and model_path is None:
            raise TVMCException("a model needs mod and params, or the path of a saved one")
        self.source, self.mod, self.params = source, mod, params or {}
        self.shapes: Mapping[str, Sequence[int]] | None = None
        if mod is None and model_path is not None:
            text, weights = (pathlib.Path(model_path, name) for name in ("relay.txt", "params.bin"))
            self.mod = relay.parse(text.read_text(encoding="utf-8"))
            self.params = relay.load_param_dict(weights.read_bytes())

    def save(self, model_path: str | os.PathLike[str]) -> str:
        """Writes the program's text and its parameters to a directory, which TVMCModel(model_path=..) reads."""
        folder = pathlib.Path(model_path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "relay.txt").write_text(self.mod.astext(), encoding="utf-8")
        (folder / "params.bin").write_bytes(relay.save_param_dict(self.params))
        return str(folder)

    def summary(self, file: Any = None) -> None:
        """Prints the program."""
        print(self.mod, file=file)


class TVMCPackage:
    """A compiled model: a library that has graph, kernels and weights."""

    def __init__(self, package_path: str | os.PathLike[str]) -> None:
        self.package_path = os.fspath(package_path)
        if not os.path.exists(self.package_path):
            raise TVMCException(f"there is no package {self.package_path}")


class TVMCResult:
    """Outputs by name (output_0, ..) and times of runs in seconds."""

    def __init__(self, outputs: dict[str, np.ndarray], times: Any) -> None:
        self.outputs, self.times = outputs, times

    def get_output(self, name: str) -> np.ndarray:
        return self.outputs[name]

    def save(self, output_path: str | os.PathLike[str]) -> None:
        """Writes the outputs as .npz."""
        arrays: dict[str, Any] = self.outputs
        np.savez(output_path, **arrays)

    def format_times(self) -> str:
        return str(self.times)

    __str__ = format_times


def load(path: str | os.PathLike[str], model_format: str | None = None, shape_dict: Mapping[str, Sequence[int]] | None = None,
         **kwargs: Any) -> TVMCModel:
    """Reads an ONNX file; shape_dict: shapes of inputs. What else is given goes to relay.frontend.from_onnx."""
    import onnx

    if model_format not in (None, "onnx"):
        raise TVMCException(f"models of format {model_format} can't be read; only those of onnx can")
    if not os.path.exists(path):
        raise TVMCException(f"there is no file {path}")
    mod, params = relay.frontend.from_onnx(onnx.load(path), shape=shape_dict, **kwargs)
    model = TVMCModel(mod, params, source=os.fspath(path))
    model.shapes = shape_dict
    return model


def tune(tvmc_model: TVMCModel, target: Any, tuning_records: str = "tuning.jsonl", prior_records: str | None = None,
         trials: int = 0, time: str = "10m", **options: Any) -> str:
    """Measures plans of the model's kernels for at most `time` and `trials` plans; the path of the file of records that
    compile takes. What else is given goes to treadle.tune."""
    if not isinstance(tvmc_model, TVMCModel):
        raise TVMCException(f"tune: expected a model (tvmc.load), not {type(tvmc_model).__name__}")
    if tvmc_model.source is None:
        raise TVMCException("tuning reads the ONNX file: load the model with tvmc.load")
    if prior_records is not None and os.path.exists(prior_records) and not os.path.exists(tuning_records):
        pathlib.Path(tuning_records).write_bytes(pathlib.Path(prior_records).read_bytes())
    _tune(tvmc_model.source, tuning_records, target=target, shapes=tvmc_model.shapes, trials=trials, time=time, **options)
    return tuning_records


def compile(tvmc_model: TVMCModel, target: Any, tuning_records: str | None = None,  # noqa: A001
            package_path: str | os.PathLike[str] | None = None, cross: Any = None, cross_options: Any = None,
            output_format: str = "so", desired_layout: str | None = None, disabled_pass: Sequence[str] | None = None,
            pass_context_configs: Any = None, opt_level: int = 3) -> TVMCPackage:
    """Compiles a model; the package is a library at package_path, or in a directory of its own. cross: the linker, such
    as aarch64-linux-gnu-gcc; desired_layout: "NCHW" or "NHWC"."""
    if output_format != "so":
        raise TVMCException(f"packages are libraries (so), not {output_format}; export_library writes archives")
    mod = getattr(tvmc_model, "mod", tvmc_model)
    if not isinstance(mod, IRModule):
        raise TVMCException(f"expected a model with an IRModule, not {type(mod).__name__}")
    if desired_layout:
        mod = relay.transform.ConvertLayout({"nn.conv2d": [desired_layout, "default"]})(mod)
    config = dict(pass_context_configs or {})
    if tuning_records:
        config["schedule.records"] = os.fspath(tuning_records)
    with PassContext(opt_level=opt_level, config=config, disabled_pass=list(disabled_pass or [])):
        library = relay.build(mod, target=target, params=tvmc_model.params)
    if package_path is None:
        import tempfile

        package_path = os.path.join(tempfile.mkdtemp(prefix="tvmc-"), "module.so")
    options = {"cc": cross} if cross else {}
    if cross_options:
        options["options"] = cross_options if isinstance(cross_options, list) else cross_options.split()
    library.export_library(package_path, **options)
    return TVMCPackage(package_path)


def _filled(shape, dtype, mode):
    if mode == "random":
        values = np.random.default_rng(0).uniform(0, 1 if "float" in dtype else 255, shape)
        return (values > 0.5 if dtype == "bool" else values).astype(dtype)
    if mode not in ("zeros", "ones"):
        raise TVMCException(f"fill_mode is {mode!r}; expected random, zeros or ones")
    return (np.zeros if mode == "zeros" else np.ones)(shape, dtype)


def run(tvmc_package: TVMCPackage, device: str = "cpu", hostname: str | None = None, port: int = 9090,
        key: str | None = None, inputs: Any = None, fill_mode: str = "random", repeat: int = 10, number: int = 10,
        profile: bool = False) -> TVMCResult:
    """Runs a package on this machine, or on a server (hostname, port); with a key, on one that a tracker there lends.
    Inputs that aren't given are filled. Returns outputs and times."""
    if not isinstance(tvmc_package, TVMCPackage):
        raise TVMCException(f"run: expected a package (tvmc.compile), not {type(tvmc_package).__name__}")
    path = tvmc_package.package_path
    library: Any
    place: Any
    if profile and hostname is not None:
        raise TVMCException("profiles are taken on this machine: leave hostname out")
    if hostname is None:
        library, place = load_module(path), nd.device(device)
    else:
        session = rpc.connect_tracker(hostname, port).request(key) if key else rpc.connect(hostname, port)
        session.upload(path)
        library, place = session.load_module(os.path.basename(path)), session.device(device)
    module = graph_executor.GraphModule(library["default"](place))
    there: dict[str, tuple[Any, str]]
    if path.endswith(".tar"):  # of objects: only the executor knows the model
        if profile:
            raise TVMCException("profiles are taken of packages that are libraries: package_path=\"model.so\"")
        shapes, dtypes = module.get_input_info()
        weights = load_module(path)["get_params"]()
        there = {name: (shape, dtypes[name]) for name, shape in shapes.items() if name not in weights}
    else:
        model = load_model(path)
        there = {info.name: (info.shape, str(info.dtype)) for info in model.inputs}
    unknown = sorted(set(inputs or {}) - set(there))
    if unknown:
        raise TVMCException(f"the model has no inputs {', '.join(unknown)}; its inputs are: {', '.join(sorted(there))}")
    values = {name: inputs[name] if inputs and name in inputs else _filled(*there[name], fill_mode)
              for name in there}
    for name, value in values.items():
        module.set_input(name, value)
    module.run()
    outputs = {f"output_{i}": module.get_output(i).numpy() for i in range(module.get_num_outputs())}
    if profile:
        for row in model.profile(values):
            print(f"{row.seconds * 1e6:12.1f} us  {row.name}")
    return TVMCResult(outputs, module.benchmark(place, number=number, repeat=repeat))
