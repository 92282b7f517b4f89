# SPDX-License-Identifier: Apache-2.0
"""What running a compiled model takes: tensors, devices, functions and modules."""
import enum
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _core
from ._arguments import mapping, path as checked_path, repetitions, suggest
from ._benchmark import BenchmarkResult
from ._core import Device, Object
from ._dtype import DataType
from ._ffi import Array, Map, PackedFunc, convert, register_object
from .error import DTypeError, Error
from ._nd import (NDArray, array, cl, cpu, cuda, device, empty, ext_dev, from_dlpack, hexagon, metal, mtl, opencl, rocm,
                  vpi, vulkan, webgpu)

Path = str | os.PathLike[str]
gpu = cuda
String = str
convert_to_object = convert


class DataTypeCode(enum.IntEnum):
    """Numbers of kinds of element types: DataType.type_code."""

    INT, UINT, FLOAT, HANDLE, BFLOAT = range(5)


def const(value: Any, dtype: Any = None) -> Any:
    """A number as an expression."""
    from .tir import const as make

    return make(value, dtype)


def ShapeTuple(shape: Sequence[int]) -> tuple[int, ...]:  # pylint: disable=invalid-name
    """A shape."""
    return tuple(int(dim) for dim in shape)

__all__ = ["Array", "DataType", "Device", "Map", "Module", "NDArray", "Object", "PackedFunc", "convert", "cpu", "cuda",
           "device", "enabled", "load_module", "load_param_dict", "save_param_dict", "system_lib"]


@register_object("runtime.Module")
class Module(Object):
    """Functions of one kind: compiled code, source text, a graph; modules import each other."""

    @property
    def type_key(self) -> str:
        return _core.module_type(self)

    @property
    def imported_modules(self) -> "list[Module]":
        return _core.module_imports(self)

    def import_module(self, module: "Module") -> None:
        """Adds an import."""
        if not isinstance(module, Module):
            raise DTypeError(f"import_module: expected a module, got {type(module).__name__}")
        _core.module_import(self, module)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """The function called `name`; an AttributeError when there is none."""
        function = _core.module_function(self, name, query_imports)
        if function is None:
            raise AttributeError(f"a module of type {self.type_key} has no function '{name}'{self._others(name)}")
        function.writes_arrays = True
        return function

    def _others(self, name: str) -> str:
        known = ("main", "default", "default_function", "set_input", "get_input", "get_output", "get_num_outputs", "run")
        return suggest(name, [each for each in known if self.implements_function(each)])

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        return _core.module_function(self, name, query_imports) is not None

    __getitem__ = get_function

    entry_name = "__tvm_main__"

    @property
    def entry_func(self) -> PackedFunc:
        function = _core.module_function(self, self.entry_name, False)
        if function is None:
            raise Error(f"a module of type {self.type_key} has no entry function; call one by name: module[\"name\"](..)")
        function.writes_arrays = True
        return function

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    def get_source(self, fmt: str = "") -> str:
        """The text of the module: source code, LLVM IR ("ll"), assembly ("s"), graph JSON."""
        return _core.module_source(self, fmt)

    def save(self, file_name: Path, fmt: str = "") -> None:
        _core.module_save(self, checked_path("save", file_name), fmt)

    def export_library(self, file_name: Path, fcompile: Callable[..., object] | None = None,
                       addons: Sequence[Path] | None = None, workspace_dir: Path | None = None, **options: Any) -> None:
        """Writes the module and its imports as one shared library; a ".tar" gets the objects. See `link_library`."""
        from ._ffi import get_global_func

        link_library(lambda path: get_global_func("runtime.ModuleExportLibrary")(self, path), file_name, fcompile,
                     addons, workspace_dir, **options)

    def time_evaluator(self, func_name: str, dev: Device | None = None, number: int = 10, repeat: int = 1,
                       min_repeat_ms: float = 0) -> Callable[..., Any]:
        """A function that runs `func_name` and returns its times, in seconds."""
        import time

        function = self.get_function(func_name)
        repetitions("time_evaluator", 1, number, repeat, min_repeat_ms)
        if isinstance(dev, str):
            device(dev)

        def evaluate(*args: Any) -> BenchmarkResult:
            function(*args)
            results = []
            for _ in range(repeat):
                count = number
                while True:
                    start = time.perf_counter()
                    for _ in range(count):
                        function(*args)
                    spent = time.perf_counter() - start
                    if spent * 1e3 >= min_repeat_ms:
                        break
                    count *= 2
                results.append(spent / count)
            return BenchmarkResult(results)

        return evaluate


def load_module(path: Path, fmt: str = "") -> Module:
    """Loads a compiled module (.so, or what `fmt` says). Errors: Error for what can't be read."""
    return _core.module_load(checked_path("load_module", path), fmt)


def system_lib(symbol_prefix: str = "") -> Module:
    """The functions that are linked into the program, or loaded into it otherwise than by `load_module`: those of objects
    that were compiled with -system-lib."""
    from ._ffi import get_global_func

    return get_global_func("runtime.SystemLib")(symbol_prefix)


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Bytes that hold the tensors of a dict, in the form that TVM reads and writes.

    >>> data = treadle.runtime.save_param_dict({"w": [1.0, 2.0]})
    >>> treadle.runtime.load_param_dict(data)["w"].numpy()
    array([1., 2.])
    """
    from ._ffi import get_global_func

    tensors = {name: value if isinstance(value, NDArray) else array(value)
               for name, value in mapping("params", params, "{'weight': array}").items()}
    return get_global_func("runtime.SaveParams")(tensors)


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """The tensors that save_param_dict wrote, by name. ModelFormatError for other bytes."""
    from ._ffi import get_global_func

    return dict(get_global_func("runtime.LoadParams")(bytes(param_bytes)).items())


def enabled(name: str) -> bool:
    """Whether this build has a target or device, or "rpc"."""
    from ._ffi import get_global_func

    return str(name).split()[0] in {"cpu", "rpc", *get_global_func("target.ListKinds")()}


from . import _vm as vm  # noqa: E402

sys.modules[__name__ + ".vm"] = vm


def link_library(export: Callable[[str], object], file_name: Path, fcompile: Callable[..., object] | None = None,
                 addons: Sequence[Path] | None = None, workspace_dir: Path | None = None, **options: Any) -> None:
    """Writes a library with `export` (of a path), by Treadle's own linker unless more is asked for:

    fcompile: links instead, called as fcompile(file_name, objects, **options); contrib.cc.create_shared where only
    options such as cc="clang" or options=["-s"] are given. addons: object files that go into the library too.
    workspace_dir: where the objects are put (default: a temporary folder).
    """
    file_name = checked_path("export_library", file_name)
    if fcompile is None and not addons and workspace_dir is None and not options:
        export(file_name)
        return
    import pathlib
    import tempfile

    from . import _toolchain

    with tempfile.TemporaryDirectory(prefix="treadle-") as temporary:
        folder = pathlib.Path(workspace_dir or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        export(str(folder / "objects.tar"))
        before = set(folder.iterdir())
        _toolchain.untar(folder / "objects.tar", folder)
        objects = sorted(str(path) for path in set(folder.iterdir()) - before)
        (fcompile or _toolchain.create_shared)(str(file_name), objects + [str(path) for path in addons or []], **options)
