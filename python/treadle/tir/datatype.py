# SPDX-License-Identifier: Apache-2.0
"""Element types that users define. `register("posit", 131)` makes "custom[posit]16" a type of tensors; `register_op`
says what stands for an operation on it when code is made for a target, as a rule a call of a function in C:

    ctypes.CDLL("libposit.so", ctypes.RTLD_GLOBAL)
    register_op(create_lower_func({16: "posit16_add"}), "Add", "llvm", "posit")
    register_op(create_lower_func({(32, 16): "posit16_from_float"}), "Cast", "llvm", "float", "posit")

Values are stored as unsigned integers of the same width, which is what the functions take and give. The functions of
the example type myfloat (examples/myfloat) come along and are loaded when they are named."""
import ctypes
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from .._dtype import DataType
from .._ffi import Api, register_func
from ..error import DTypeError
from .expr import Call, Cast, FloatImm, call_intrin, call_pure_extern

_api = Api("runtime")
_registered: list[str] = []
_CUSTOM = re.compile(r"custom\[(\w+)\]")


def register(type_name: str, type_code: int) -> None:
    """Makes "custom[type_name]bits" an element type. Its code is of the user's choice, from 129 to 255."""
    _api._datatype_register(type_name, type_code)
    _registered.append(type_name)


def occurs_in(program: Any) -> bool:
    """Whether types that were registered from Python occur in a function or module."""
    return bool(_registered) and "custom[" in program.astext(False)


def get_type_name(type_code: int) -> str:
    """The name of a registered type."""
    return _api._datatype_get_type_name(type_code)


def get_type_code(type_name: str) -> int:
    """The code of a registered type."""
    return _api._datatype_get_type_code(type_name)


def get_type_registered(type_code: int) -> bool:
    """Whether a type with this code is registered."""
    return bool(_api._datatype_get_type_registered(type_code))


def register_op(lower_func: Callable[[Any], Any], op_name: str, target: str, src_type_name: str,
                dest_type_name: str | None = None, intrinsic_name: str | None = None) -> None:
    """lower_func(node) stands for a kind of node on a type when code is made for `target` (a kind, such as "llvm").

    op_name: "Add", "Max", "LT", "FloatImm", ...; "Cast" (from src_type_name to dest_type_name, one of which may be
    "float", "int" or "uint"); or "Call", of the intrinsic named, such as "tir.exp". The operands of the node are
    lowered already; what is returned must compute an unsigned integer of the type's width (or what the node computes,
    where that isn't of a user's type)."""
    if op_name == "Cast":
        if dest_type_name is None:
            raise ValueError("register_op: Cast needs dest_type_name, the type that is cast to")
        what = f"Cast.{dest_type_name}"
    elif op_name == "Call" and intrinsic_name is not None:
        what = f"Call.intrin.{intrinsic_name}"
    else:
        what = op_name
    register_func(f"tvm.datatype.lower.{target}.{what}.{src_type_name}", lower_func, override=True)


def register_min_func(func: Callable[[int], Any], type_name: str) -> None:
    """func(bits) gives an expression of the type: its least finite value, which maxima and pooling begin with."""
    register_func(f"tvm.datatype.min.{type_name}", func, override=True)


def create_min_lower_func(extern_func_map: Mapping[int, str], type_name: str) -> Callable[[int], Any]:
    """For register_min_func: calls the function in C that the map names for a width."""

    def lower(num_bits):
        dtype = f"custom[{type_name}]{num_bits}"
        return call_pure_extern(dtype, _function(extern_func_map, num_bits, f"the least value of {dtype}"))

    return lower


def _stored(dtype):
    """The unsigned integer that a value of a user's type is stored as; other types as they are."""
    return _CUSTOM.sub("uint", str(dtype))


def _function(names, key, what):
    if key not in names:
        raise DTypeError(f"no function is given for {what}: the key {key!r} isn't among {sorted(names)}")
    _load_example(names[key])
    return names[key]


def _load_example(function):
    """Loads the example type's library where `function` is of it, and not of a library that is loaded."""
    path = pathlib.Path(__file__).parents[1] / "lib" / "libtreadle_myfloat.so"
    if not hasattr(ctypes.CDLL(None), function) and path.exists() and hasattr(ctypes.CDLL(str(path)), function):
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


def create_lower_func(extern_func_map: Mapping[Any, str]) -> Callable[[Any], Any]:
    """For register_op: calls a function in C with the operands. The map gives its name by width in bits; of casts by
    (width of the source, width of the result)."""

    def lower(op):
        key = DataType(str(op.dtype)).bits
        if isinstance(op, Cast):
            key = (DataType(str(op.value.dtype)).bits, key)
            operands = [op.value]
        elif isinstance(op, FloatImm):
            operands = [float(op.value)]
        elif isinstance(op, Call):
            operands = list(op.args)
        else:
            operands = [op.a, op.b]
            key = DataType(str(op.a.dtype)).bits
        return call_pure_extern(_stored(op.dtype), _function(extern_func_map, key, type(op).__name__), *operands)

    return lower


def lower_ite(ite_op: Any) -> Any:
    """For register_op: a choice between two values stays one, of integers."""
    return call_intrin(_stored(ite_op.dtype), "tir.if_then_else", *ite_op.args)


def lower_call_pure_extern(op: Any) -> Any:
    """For register_op: a call of a function in C stays one, of integers."""
    return call_intrin(_stored(op.dtype), "tir.call_pure_extern", *op.args)
