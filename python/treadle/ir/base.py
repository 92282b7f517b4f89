# SPDX-License-Identifier: Apache-2.0
"""What all IRs share: modules, types, constants, operators, structural equality."""
from .._core import Object
from .._dtype import DataType
from .._ffi import Api, Array, Map, convert, get_global_func, register_object
from ..error import Error

_api = Api("ir")

class Node(Object):
    """Base of the IR's nodes."""

    def __str__(self):
        return as_text(self, header=False)

    __repr__ = __str__

    def astext(self, show_meta_data=True, annotate=None):
        """The node as text; with `show_meta_data` also the constants that the text refers to."""
        return as_text(self, show_meta_data)

    def script(self, *args, **kwargs):
        """The node as `print` shows it."""
        return str(self)

    def show(self, *args, **kwargs):
        """Prints the node."""
        print(self)


def as_text(node, show_meta_data=False, header=True):
    """A node's text form, or its fields when it has none."""
    text = _api.AsText(node, show_meta_data) if header else _api.PrettyPrint(node)
    if text:
        return text
    fields = ", ".join(f"{name}={getattr(node, name)!r}" for name in node._field_names() if name != "span")
    return f"{node._type_key()}({fields})"


def save_json(node):
    """The node and all that it refers to as JSON."""
    return get_global_func("node.SaveJSON")(node)


def load_json(text):
    """The inverse of save_json."""
    return get_global_func("node.LoadJSON")(text)


def structural_equal(lhs, rhs, map_free_vars=False):
    """Whether two terms are equal up to the names of what they bind."""
    return bool(_api.StructuralEqual(lhs, rhs, map_free_vars))


def structural_difference(lhs, rhs, map_free_vars=False):
    """The path to the first difference of two terms; "" when they are equal."""
    return _api.StructuralDifference(lhs, rhs, map_free_vars)


def assert_structural_equal(lhs, rhs, map_free_vars=False):
    """Raises ValueError with the place of the first difference unless the terms are equal."""
    difference = structural_difference(lhs, rhs, map_free_vars)
    if difference:
        raise ValueError(f"the terms differ at {difference}\n\n{lhs}\n\n{rhs}")


def structural_hash(node, map_free_vars=False):
    """Equal for equal terms, the same in each process."""
    return _api.StructuralHash(node, map_free_vars) & 0xFFFFFFFFFFFFFFFF


@register_object("Span")
class Span(Node):
    """Where a node comes from."""


@register_object("Range")
class Range(Node):
    """From `begin` up to but not including `end`; Range(n) from 0 up to n."""

    def __init__(self, begin, end=None):
        begin, end = (0, begin) if end is None else (begin, end)
        super().__init__(_api.Range(begin, end))

    @staticmethod
    def from_min_extent(min_value, extent, span=None):
        """That many from `min_value`."""
        return _api.Range_from_min_extent(min_value, extent)


@register_object("BaseExpr")
class BaseExpr(Node):
    """Base of all expressions."""


@register_object("PrimExpr")
class PrimExpr(BaseExpr):
    """A scalar expression."""


class _Immediate(PrimExpr):
    def _number(self, other):
        return other.value if isinstance(other, (IntImm, FloatImm)) else other

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __eq__(self, other):
        return self.value == self._number(other)

    def __ne__(self, other):
        return not self == other

    def __lt__(self, other):
        return self.value < self._number(other)

    def __le__(self, other):
        return self.value <= self._number(other)

    def __gt__(self, other):
        return self.value > self._number(other)

    def __ge__(self, other):
        return self.value >= self._number(other)

    def __hash__(self):
        return hash(self.value)

    def __str__(self):
        return str(self.value)

    __repr__ = __str__


@register_object("IntImm")
class IntImm(_Immediate):
    """An integer constant; converts to and compares with Python's int."""

    def __init__(self, dtype, value):
        super().__init__(_api.IntImm(str(dtype), int(value)))

    def __index__(self):
        return self.value


@register_object("FloatImm")
class FloatImm(_Immediate):
    """A floating-point constant."""

    def __init__(self, dtype, value):
        super().__init__(_api.FloatImm(str(dtype), float(value)))


@register_object("RelayExpr")
class RelayExpr(BaseExpr):
    """An expression of the graph IR; arithmetic makes calls of the operators."""

    def _call(self, name, *args):
        from .. import relay

        return getattr(relay, name)(*(relay.expr.as_expr(arg) for arg in args))

    def __add__(self, other):
        return self._call("add", self, other)

    def __radd__(self, other):
        return self._call("add", other, self)

    def __sub__(self, other):
        return self._call("subtract", self, other)

    def __rsub__(self, other):
        return self._call("subtract", other, self)

    def __mul__(self, other):
        return self._call("multiply", self, other)

    def __rmul__(self, other):
        return self._call("multiply", other, self)

    def __truediv__(self, other):
        return self._call("divide", self, other)

    def __rtruediv__(self, other):
        return self._call("divide", other, self)

    def __neg__(self):
        return self._call("negative", self)

    def __lt__(self, other):
        return self._call("less", self, other)

    def __gt__(self, other):
        return self._call("greater", self, other)

    def __le__(self, other):
        return self._call("less_equal", self, other)

    def __ge__(self, other):
        return self._call("greater_equal", self, other)

    def astype(self, dtype):
        from .. import relay

        return relay.cast(self, str(dtype))

    def __call__(self, *args):
        from .. import relay

        return relay.Call(self, args)

    @property
    def checked_type(self):
        """The type that inference found; an error before it ran."""
        found = self._checked_type_
        if found is None:
            raise ValueError("the type of the expression isn't known yet: run relay.transform.InferType() first")
        return found

    @property
    def type_annotation_or_checked(self):
        return self._checked_type_


@register_object("GlobalVar")
class GlobalVar(RelayExpr):
    """The name of a function of a module."""

    def __init__(self, name_hint):
        super().__init__(_api.GlobalVar(name_hint))


@register_object("Op")
class Op(RelayExpr):
    """An operator."""

    @staticmethod
    def get(name):
        """The operator called `name`."""
        return _api.GetOp(name)

    @staticmethod
    def list_op_names():
        return list(_api.ListOpNames())

    @property
    def description(self):
        return _api.OpDescription(self)

    @property
    def num_inputs(self):
        """How many operands it takes; -1: any number."""
        return _api.OpNumInputs(self)

    @property
    def support_level(self):
        return _api.OpSupportLevel(self)

    def has_attr(self, attr_name):
        return bool(_api.OpHasAttr(self, attr_name))

    def get_attr(self, attr_name):
        """A property that is a number (TOpPattern, ...), or a rule that Python set; None where there is none."""
        rule = _op_rules.get((self.name, attr_name))
        if rule is not None:
            return rule
        value = _api.OpGetNumber(self, attr_name)
        return None if value is None else int(value)

    def set_attr(self, attr_name, value, plevel=10):
        """Sets a property or rule: see register_op_attr."""
        if callable(value):
            _api.RegisterOpRule(self.name, attr_name, value, plevel)
            _op_rules[self.name, attr_name] = value
        else:
            _api.RegisterOpNumber(self.name, attr_name, int(value), plevel)
            _op_rules.pop((self.name, attr_name), None)

    def reset_attr(self, attr_name):
        """Takes a property away."""
        _op_rules.pop((self.name, attr_name), None)
        _api.OpResetAttr(self, attr_name)


_op_rules = {}


def register_op_attr(op_name, attr_key, value=None, level=10):
    """Sets a property of an operator; without a value a decorator.

    FTVMLegalize, FTVMAlterOpLayout: functions (attrs, args, types) -> expression or None, which rewrite its calls.
    target.<compiler>: whether an external code generator takes a call: a bool, or a function of the call (or of its
    attributes and operands) that returns a bool, or a text: the reason why not.
    TOpPattern, TOpIsStateful, TNonComputational, FTVMMixedPrecisionConversionType: numbers.
    TCallEffectKind of an intrinsic such as "tir.mylog": makes it known; 0 and 1 say that it is a function of its
    operands. What it computes a rule says (register_intrin_lowering).
    """

    def register(value):
        if str(op_name).startswith("tir."):
            _api.RegisterIntrinsic(op_name, attr_key == "TCallEffectKind" and value in (0, 1))
        elif attr_key.startswith("target."):
            _api.RegisterOpAttr(str(op_name), attr_key, _predicate(value))
        else:
            Op.get(op_name).set_attr(attr_key, value, level)
        return value

    return register if value is None else register(value)


def _predicate(value):
    """The predicate of an external code generator as a function of the call: 0, 1 or the reason of a refusal."""
    import inspect

    if not callable(value):
        return lambda call: int(bool(value))
    takes = value
    if len(inspect.signature(value).parameters) == 2:
        takes = lambda call: value(call.attrs, call.args)  # noqa: E731

    def answer(call):
        result = takes(call)
        return result if isinstance(result, str) else int(bool(result))

    return answer


@register_object("BaseFunc")
class BaseFunc(RelayExpr):
    """A function."""

    def with_attr(self, key, value):
        """A copy with one attribute set."""
        return get_global_func("relay.ir.FunctionWithAttr")(self, key, convert(value))


@register_object("relay.Constructor")
class Constructor(RelayExpr):
    """A constructor of an algebraic data type."""

    def __init__(self, name_hint, inputs, belong_to):
        super().__init__(_api.Constructor(name_hint, list(inputs), belong_to))


@register_object("Attrs")
class Attrs(Node):
    """Attributes of an operator's call."""

    def keys(self):
        return self._field_names()

    def get_int(self, key):
        return int(getattr(self, key))

    def get_str(self, key):
        return str(getattr(self, key))

    def get_int_tuple(self, key):
        return tuple(int(item) for item in getattr(self, key))

    def __getitem__(self, key):
        return getattr(self, key)

    def __contains__(self, key):
        return key in self.keys()


@register_object("DictAttrs")
class DictAttrs(Attrs):
    """Attributes of functions and modules."""

    def __init__(self, items=()):
        super().__init__(_api.DictAttrs(dict(items)))

    def keys(self):
        return self.dict.keys()

    def __getitem__(self, key):
        return self.dict[key]

    def get(self, key, default=None):
        return self.dict.get(key, default)


@register_object("Type")
class Type(Node):
    """Base of types."""

    def __eq__(self, other):
        return isinstance(other, Type) and structural_equal(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return structural_hash(self)


@register_object("PrimType")
class PrimType(Type):
    """The type of a scalar."""

    def __init__(self, dtype):
        super().__init__(_api.PrimType(str(dtype)))


@register_object("PointerType")
class PointerType(Type):
    """A pointer."""

    def __init__(self, element_type, storage_scope=""):
        super().__init__(_api.PointerType(element_type, storage_scope))


@register_object("relay.TensorType")
class TensorType(Type):
    """The type of a tensor. Dimensions are integers or symbolic expressions."""

    def __init__(self, shape, dtype="float32"):
        super().__init__(_api.TensorType(list(shape), str(DataType(dtype))))

    @property
    def concrete_shape(self):
        """The dimensions as ints; a ValueError when one is symbolic."""
        if not all(isinstance(dim, IntImm) for dim in self.shape):
            raise ValueError(f"{self} has symbolic dimensions")
        return tuple(int(dim) for dim in self.shape)


@register_object("TupleType")
class TupleType(Type):
    """The type of a tuple."""

    def __init__(self, fields):
        super().__init__(_api.TupleType(list(fields)))


@register_object("FuncType")
class FuncType(Type):
    """The type of a function."""

    def __init__(self, arg_types, ret_type, type_params=(), type_constraints=()):
        super().__init__(_api.FuncType(list(arg_types), ret_type, list(type_params), list(type_constraints)))


class TypeKind:
    """Kinds of types."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


@register_object("relay.TypeVar")
class TypeVar(Type):
    """A parameter of a polymorphic function."""

    def __init__(self, name_hint, kind=TypeKind.Type):
        super().__init__(_api.TypeVar(name_hint, kind))


@register_object("IncompleteType")
class IncompleteType(Type):
    """A type to be found."""

    def __init__(self, kind=TypeKind.Type):
        super().__init__(_api.IncompleteType(kind))


@register_object("relay.GlobalTypeVar")
class GlobalTypeVar(Type):
    """The name of an algebraic data type."""

    def __init__(self, name_hint, kind=TypeKind.AdtHandle):
        super().__init__(_api.GlobalTypeVar(name_hint, kind))


@register_object("relay.TypeCall")
class TypeCall(Type):
    """A type constructor applied to types."""

    def __init__(self, func, args):
        super().__init__(_api.TypeCall(func, list(args)))


@register_object("relay.TypeData")
class TypeData(Type):
    """The definition of an algebraic data type."""

    def __init__(self, header, type_vars, constructors):
        super().__init__(_api.TypeData(header, list(type_vars), list(constructors)))


@register_object("relay.RefType")
class RelayRefType(Type):
    """The type of a mutable cell."""

    def __init__(self, value):
        super().__init__(_api.RelayRefType(value))


@register_object("IRModule")
class IRModule(Node):
    """Functions by name, and definitions of types."""

    def __init__(self, functions=None, type_definitions=None):
        functions = {GlobalVar(key) if isinstance(key, str) else key: value for key, value in (functions or {}).items()}
        super().__init__(_api.IRModule(functions, dict(type_definitions or {})))

    @staticmethod
    def from_expr(expr, functions=None, type_defs=None):
        """A module whose `main` is the expression."""
        module = _api.Module_FromExpr(expr)
        if functions:
            module.update(IRModule(functions, type_defs))
        return module

    def get_global_var(self, name):
        return _api.Module_GetGlobalVar(self, name)

    def get_global_vars(self):
        return self.functions.keys()

    def get_global_type_var(self, name):
        """The name of a data type."""
        for var in self.type_definitions.keys():
            if var.name_hint == name:
                return var
        raise Error(f"the module has no type {name}; it has: "
                    f"{', '.join(sorted(v.name_hint for v in self.type_definitions.keys())) or 'none'}")

    def get_global_type_vars(self):
        """The names of all data types."""
        return list(self.type_definitions.keys())

    def get_type(self, name):
        """A data type's name and its constructors, in a tuple."""
        var = self.get_global_type_var(name)
        return (var, *self.type_definitions[var].constructors)

    def get_constructor(self, name, constructor):
        """The constructor of that name of the data type `name`."""
        known = self.get_type(name)[1:]
        for each in known:
            if each.name_hint == constructor:
                return each
        raise Error(f"type {name} has no constructor {constructor}; it has: {', '.join(c.name_hint for c in known)}")

    def functions_items(self):
        """Pairs of name and function, sorted by name."""
        return sorted(self.functions.items(), key=lambda item: str(item[0].name_hint))

    def __getitem__(self, key):
        if isinstance(key, GlobalTypeVar):
            return self.type_definitions[key]
        return _api.Module_Lookup_str(self, key) if isinstance(key, str) else _api.Module_Lookup(self, key)

    def __setitem__(self, key, function):
        if isinstance(key, str):
            key = self.get_global_var(key) if _api.Module_ContainGlobalVar(self, key) else GlobalVar(key)
        self._reference(_api.Module_WithFunction(self, key, function))

    def __contains__(self, key):
        return bool(_api.Module_ContainGlobalVar(self, key if isinstance(key, str) else key.name_hint))

    def update(self, other):
        """Takes over the functions of another module (or dict of functions)."""
        other = other if isinstance(other, IRModule) else IRModule(other)
        self._reference(_api.Module_Update(self, other))


def make_attrs(type_key, values, what):
    """A call's attributes from names and values."""
    if not type_key:
        if values:
            raise Error(f"{what} takes no attributes, got {', '.join(values)}")
        return None
    return _api.MakeAttrs(type_key, values, what)
