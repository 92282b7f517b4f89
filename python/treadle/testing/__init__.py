# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of compiled functions."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raises AssertionError unless shapes are equal and values close."""
    import numpy as np

    actual, desired = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (actual, desired))
    np.testing.assert_equal(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def enabled_targets() -> list[tuple[str, Any]]:
    """Pairs of target and device that this machine can build for and run."""
    from .. import nd
    from ..runtime import enabled

    candidates = (("llvm", nd.cpu()), ("c", nd.cpu()), ("opencl", nd.opencl()))
    return [(name, device) for name, device in candidates if enabled(name) and device.exist]


def device_enabled(target: str) -> bool:
    """Whether this machine runs what is built for a target."""
    return str(target).split()[0] in [name for name, _ in enabled_targets()]


def _over_targets(function, marks_of):
    """The test for each enabled target, with those of its parameters target and dev that it takes. marks_of(name): the
    marks of a target; None: not that one."""
    import inspect

    import pytest

    taken = inspect.signature(function).parameters
    names = [name for name in ("target", "dev") if name in taken] or ["target", "dev"]
    cases = []
    for kind, dev in enabled_targets():
        marks = marks_of(kind)
        if marks is not None:
            values = {"target": kind, "dev": dev}
            cases.append(pytest.param(*(values[name] for name in names), id=kind, marks=marks))
    return pytest.mark.parametrize(", ".join(names), cases)(function)


def parametrize_targets(*args: Any) -> Any:
    """Decorator: the test runs for each target of `args` (default: all) that is enabled, with parameters target, dev."""
    def decorate(function, names=()):
        kinds = {str(name).split()[0] for name in names}
        return _over_targets(function, lambda kind: [] if not kinds or kind in kinds else None)

    if len(args) == 1 and callable(args[0]):
        return decorate(args[0])
    return lambda function: decorate(function, args)


def requires_llvm(function: Any) -> Any:
    """Decorator: the test needs target llvm."""
    import pytest

    from ..runtime import enabled

    return pytest.mark.skipif(not enabled("llvm"), reason="this build has no target llvm")(function)


def _marked(functions, condition, reason):
    """As a decorator, with or without a call: @requires_gpu, @requires_gpu()."""
    import pytest

    mark = pytest.mark.skipif(not condition, reason=reason)
    return mark(functions[0]) if functions else mark


def _requires_target(kind):
    def requires(*functions):
        return _marked(functions, device_enabled(kind), f"needs a device for target {kind}")

    requires.__name__ = f"requires_{kind}"
    requires.__doc__ = f"Decorator: the test needs target {kind} and a device for it."
    return requires


requires_opencl = _requires_target("opencl")
requires_cuda = _requires_target("cuda")
requires_metal = _requires_target("metal")
requires_rocm = _requires_target("rocm")
requires_vulkan = _requires_target("vulkan")


requires_hexagon = _requires_target("hexagon")
requires_tensorcore = _requires_target("cuda")
requires_cudagraph = _requires_target("cuda")
requires_cudnn = _requires_target("cuda")
requires_cublas = _requires_target("cuda")
requires_nvptx = _requires_target("nvptx")
requires_micro = _requires_target("micro")


def exclude_targets(*args: Any) -> Any:
    """Decorator of a test with parameters target, dev: it doesn't run for these targets."""
    return lambda function: _over_targets(function, lambda kind: None if kind in args else [])


def known_failing_targets(*args: Any) -> Any:
    """Decorator of a test with parameters target, dev: it is expected to fail for these targets."""
    import pytest

    return lambda function: _over_targets(function, lambda kind: [pytest.mark.xfail] if kind in args else [])


def echo(value: Any) -> Any:
    """The value, after it went to C++ and back."""
    from .._ffi import PackedFunc

    return PackedFunc(lambda x: x)(value)


def requires_gpu(*functions: Any) -> Any:
    """Decorator: the test needs a GPU."""
    return _marked(functions, device_enabled("opencl"), "needs a GPU")


def requires_rpc(*functions: Any) -> Any:
    """Decorator: the test needs RPC, which every build has."""
    return _marked(functions, True, "needs RPC")


def uses_gpu(*functions: Any) -> Any:
    """Decorator: the test uses a GPU if there is one."""
    return _marked(functions, True, "uses a GPU")


def parameter(*values: Any, ids: Sequence[str] | None = None, by_dict: dict[str, Any] | None = None) -> Any:
    """A fixture of pytest for each value: `size = parameter(1, 16)` in a module runs tests that take `size` twice.
    by_dict: the values by what tests are called for them."""
    import pytest

    if by_dict is not None:
        if values or ids:
            raise ValueError("parameter: values and ids, or by_dict")
        ids, values = list(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=values, ids=ids)
    def value(*_instance, request):  # in a class, too
        return request.param

    return value


def parameters(*value_sets: Any, ids: Sequence[str] | None = None) -> Any:
    """Fixtures of pytest that change together: `a, b = parameters((1, 2), (3, 4))` runs tests with a=1, b=2 and a=3, b=4.
    A test that takes several of them is skipped where they are of different sets."""
    import pytest

    sets = [tuple(each) for each in value_sets]
    if len({len(each) for each in sets}) > 1:
        raise ValueError("parameters: sets of values have different lengths")
    mine = set()

    def of(position):
        @pytest.fixture(params=range(len(sets)), ids=ids or [f"set{i}" for i in range(len(sets))])
        def value(*_instance, request):
            mine.add(request.fixturename)
            chosen = getattr(request.node, "callspec", None)
            others = [] if chosen is None else [chosen.params[name] for name in mine if name in chosen.params]
            if any(other != request.param for other in others):
                pytest.skip("parameters of different sets")
            return sets[request.param][position]

        return value

    return tuple(of(position) for position in range(len(sets[0]) if sets else 0))


def fixture(function: Any = None, *, cache_return_value: bool = False) -> Any:
    """A fixture of pytest; cache_return_value: made once for all tests."""
    import pytest

    mark = pytest.fixture(scope="session" if cache_return_value else "function")
    return mark if function is None else mark(function)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raises AssertionError unless two expressions are provably equal for all values of their variables."""
    from .. import arith

    if not arith.Analyzer().can_prove_equal(lhs, rhs):
        raise AssertionError(f"{lhs} and {rhs} aren't provably equal")


def check_bool_expr_is_true(bool_expr: Any, vranges: Any, cond: Any = None) -> None:
    """Raises AssertionError with a counterexample where a condition doesn't hold for all values of its variables, whose
    ranges `vranges` says by variable, that make `cond` true."""
    import itertools

    from .. import arith, tir

    analyzer = arith.Analyzer()

    def value(expr, values):
        return bool(int(analyzer.simplify(tir.stmt_functor.substitute(expr, values))))

    variables = list(vranges)
    ranges = [range(int(r.min), int(r.min) + int(r.extent)) for r in vranges.values()]
    for numbers in itertools.product(*ranges):
        values = {var: tir.const(number, var.dtype) for var, number in zip(variables, numbers)}
        if cond is not None and not value(cond, values):
            continue
        if not value(bool_expr, values):
            example = ", ".join(f"{var.name} = {number}" for var, number in zip(variables, numbers))
            raise AssertionError(f"{bool_expr} isn't true for {example}")


def check_numerical_grads(function: Callable[..., Any], input_values: Any, grad_values: Any, function_value: Any = None,
                          delta: float = 1e-3, atol: float = 1e-2, rtol: float = 0.1) -> None:
    """Raises AssertionError where derivatives differ from differences of function(*inputs), or function(**inputs).

    grad_values: as input_values, a list or a dict of arrays. Of each input some 64 elements are compared, by the norm of
    the difference: single elements of float32 are noise."""
    import numpy as np

    by_name = isinstance(input_values, dict)
    names = list(input_values) if by_name else range(len(input_values))
    values = {name: np.array(input_values[name], "float64") for name in names}

    def call(changed):
        inputs = {**values, **changed}
        given = {name: inputs[name].astype(np.asarray(input_values[name]).dtype) for name in names}
        result = function(**given) if by_name else function(*given.values())
        return float(np.sum(np.asarray(result, "float64")))

    for name in names:
        found = np.asarray(grad_values[name], "float64")
        if found.shape != values[name].shape:
            raise AssertionError(f"derivatives by {name} have shape {found.shape}, not {values[name].shape}")
        elements = np.linspace(0, found.size - 1, min(64, found.size)).astype(int)
        expected = []
        for index in elements:
            moved = {sign: values[name].copy() for sign in (-1, 1)}
            for sign, array in moved.items():
                array.flat[index] += sign * delta
            expected.append((call({name: moved[1]}) - call({name: moved[-1]})) / (2 * delta))
        distance, norm = np.linalg.norm(found.flat[elements] - expected), np.linalg.norm(expected)
        if not distance <= atol * np.sqrt(len(elements)) + rtol * norm:
            worst = int(np.argmax(np.abs(found.flat[elements] - expected)))
            raise AssertionError(f"derivatives by {name} are {distance:.3g} away from differences, whose norm is {norm:.3g};"
                                 f" element {elements[worst]}: {found.flat[elements[worst]]:.6g}, expected about "
                                 f"{expected[worst]:.6g}")


def requires_package(*packages: str) -> Any:
    """Decorator: a test runs only where Python packages can be imported."""
    import importlib.util

    import pytest

    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs the packages {', '.join(missing)}")
