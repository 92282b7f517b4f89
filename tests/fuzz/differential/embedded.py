# SPDX-License-Identifier: Apache-2.0
"""Single operators of `edges` amid a graph: what is computed before and after them joins their kernels."""
import numpy as np

from .rules import rule

DOMAINS = ("", "com.microsoft")
RANDOM = ("RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli", "Multinomial", "Dropout")
# Of those ONNX Runtime ends the process where graphs like these run, or keeps no NaN.
LEFT_OUT = RANDOM + ("Scan", "MelWeightMatrix", "MaxUnpool")


def _draw(g):
    """An operator with operands without NaN and infinities, which others would drop or not as they please; its domain."""
    from . import edges  # which reads `graphs`

    class Tame(edges.Source):
        def array(self, shape, dtype, special=None):
            return super().array(shape, dtype, 0)

    known = edges.all_rules()
    rules = sorted(name for name, (_, domain, op) in known.items() if domain in DOMAINS and op not in LEFT_OUT)
    function, domain, op = known[g.pick(rules)]
    try:
        draw = function(Tame(g.random.randrange(2**31)), op)
    except (IndexError, ValueError):
        g.need(False)
    g.need(draw.opset in (edges.OPSET, g.opset) or 19 < draw.opset <= g.opset)
    return draw, domain


def _computed(g, array):
    """A value of these elements that a node gives: of an input that holds them negated, moved or in other dimensions."""
    ways = ["reshape", "transpose", "plain"] + ["negate"] * 3 * (array.dtype.kind == "f")
    how = g.pick(ways)
    if how == "plain":
        return g.add_array(array)
    if how == "negate":
        return g.add("Neg", [g.add_array(-array)])[0]
    if how == "transpose":
        order = g.random.sample(range(array.ndim), array.ndim)
        return g.add("Transpose", [g.add_array(np.ascontiguousarray(array.transpose(np.argsort(order))))], perm=order)[0]
    flat = g.add_array(array.reshape(g.pick([(-1,), (1, -1), array.shape[::-1]]) if array.size else array.shape[::-1]))
    return g.add("Reshape", [flat, g.ints(array.shape)], allowzero=1)[0]


@rule(10, pictures=5, rows=5, few_bits=6)
def embedded(g):
    g.need(not g.special)
    draw, domain = _draw(g)
    arrays = [None if x is None else np.asarray(x) for x in draw.operands]
    g.need(all(a is None or (a.dtype.kind in "fiub" and a.size) for a in arrays))
    operands = []
    for i, array in enumerate(arrays):
        if array is None:
            operands.append(None)
        elif i in draw.constants or (i and g.chance(0.5)):
            operands.append(g.constant(array))
        else:
            operands.append(_computed(g, array) if i == 0 or g.chance(0.3) else g.add_array(array))
    attributes = dict(draw.attributes, **({"domain": domain} if domain else {}))
    results = g.add(draw.op, operands, draw.outputs, error=draw.error if draw.error > 1e-5 else 0.0, **attributes)
    if g.chance(0.6) and results[0].dtype == np.float32:
        g.add(g.pick(["Neg", "Relu", "Abs", "Sigmoid"]), [results[0]])
    return results
