# SPDX-License-Identifier: Apache-2.0
"""Which layers of a model can be computed in bfloat16 within an error: precision="auto" of treadle.compile."""
import dataclasses
from collections.abc import Mapping

import numpy as np

from . import _arguments
from ._ffi import Api
from .error import DTypeError, Error

MAX_ERROR = 0.01
_GROUPS = 8
_api = Api("driver")


@dataclasses.dataclass
class Choice:
    """Names of layers that keep float32, and the relative errors (layers, error) that were measured."""
    keep: list
    error: float
    rows: list


def relative_error(expected, actual):
    """The largest over the outputs of |difference| / |expected|, as norms."""
    worst = 0.0
    for wide, narrow in zip(expected, actual):
        if not np.issubdtype(np.asarray(wide).dtype, np.floating):
            continue
        wide, narrow = np.asarray(wide, np.float64), np.asarray(narrow, np.float64)
        finite = np.isfinite(wide)
        size = np.sqrt(np.square(wide[finite]).sum())
        noise = np.sqrt(np.square(wide[finite] - narrow[finite]).sum())
        if not np.isfinite(noise):
            return float("inf")
        worst = max(worst, float(noise / size) if size else float(noise > 0))
    return worst


def random_inputs(infos):
    """One sample: floats from a normal distribution, integers below 10; dynamic dimensions are 1."""
    rng = np.random.default_rng(0)
    sample = {}
    for info in infos:
        shape = [dim if isinstance(dim, int) and dim > 0 else 1 for dim in info.shape]
        kind = np.dtype(info.dtype)
        sample[info.name] = rng.standard_normal(shape).astype(kind) if np.issubdtype(kind, np.floating) else \
            rng.integers(0, 2 if kind == bool else 10, shape).astype(kind)
    return sample


def choose(compile_keeping, samples, max_error):
    """A Choice. compile_keeping(keep): the model and the names of its layers that aren't float32, None: all are.

    Layers are tried in groups of neighbours; errors of groups add up like independent noise. Those that cost most keep
    float32; groups that don't fit are tried again in halves."""
    max_error = _arguments.number("max_error", max_error, "a relative error between 0 and 1", high=1)
    if samples is not None and (isinstance(samples, Mapping) or not hasattr(samples, "__iter__")):
        raise DTypeError(f"samples: expected a list of dicts of inputs, got {type(samples).__name__}")
    wide, _ = compile_keeping(None)
    samples = samples or [random_inputs(wide.inputs)]
    expected = [value for sample in samples for value in wide.run(None, sample)]

    def measure(keep):
        model, layers = compile_keeping(keep)
        return relative_error(expected, [value for sample in samples for value in model.run(None, sample)]), layers

    whole, layers = measure([])
    layers = list(dict.fromkeys(layers))
    rows = [(layers, whole)]
    if whole <= max_error or not layers:
        return Choice([], whole, rows)

    def errors_of(groups):
        measured = []
        for group in groups:
            error, _ = measure([name for name in layers if name not in group])
            rows.append((group, error))
            measured.append((error, group))
        return sorted(measured, key=lambda item: item[0])

    size = -(-len(layers) // _GROUPS)
    measured = errors_of([layers[i:i + size] for i in range(0, len(layers), size)])
    if size > 1:
        # Halves of the worst groups, in which a single layer may be to blame.
        halves = [half for _, group in measured[-2:] for half in (group[:size // 2], group[size // 2:]) if half]
        measured = sorted(measured[:-2] + errors_of(halves), key=lambda item: item[0])
    chosen, total = [], 0.0
    for error, group in measured:
        if total + error**2 <= max_error**2:
            chosen.append(group)
            total += error**2
    while chosen:
        narrow = {name for group in chosen for name in group}
        keep = [name for name in layers if name not in narrow]
        error, _ = measure(keep)
        if error <= max_error:
            return Choice(keep, error, rows)
        chosen.pop()
    return Choice(layers, 0.0, rows)


def check_unused(samples, max_error):
    """Refuses what only "auto" uses."""
    if samples is not None:
        raise Error('samples are what precision="auto" measures errors on; without it they have no effect')
    if max_error != MAX_ERROR:
        raise Error('max_error is the limit of precision="auto"; without it it has no effect')


def _narrowed_layers(model):
    """Names of the layers of a compiled model that --precision narrowed."""
    attributes = _api.CompiledModel_Optimized(model._compiled)["main"].attrs
    return [str(name) for name in attributes["narrowed_layers"]] if "narrowed_layers" in attributes else []


def compile_auto(build, pass_config, max_error, samples):
    """The model with the layers in bfloat16 that stay within an error; what was measured is its attribute `precision`."""
    def keeping(keep):
        if keep is None:
            return build(pass_config), []
        model = build({**pass_config, "relay.precision": "mixed", "relay.precision.keep": "".join(f"{k}\n" for k in keep)})
        return model, _narrowed_layers(model)

    choice = choose(keeping, samples, max_error)
    model, _ = keeping(choice.keep)
    model.precision = choice
    return model
