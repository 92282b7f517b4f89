# SPDX-License-Identifier: Apache-2.0
"""A graph compiled before its sizes are known, against the graph compiled for the sizes of a run: those it was made for
and others, most of which don't fit. Where the sizes are wrong, no run may give numbers."""
import random

import numpy as np
import onnx

from . import edges, engines, guarded
from .graphs import Case

RUNS = 5  # other sizes that are tried
PEER_LIMITS = ("NOT_IMPLEMENTED", "ort_value_tensor_slicer")  # the latter: any Scan without slices


def generate(seed):
    """A case of `graphs` or of `edges`, whichever the seed says, with a symbol for every size of its inputs."""
    from . import graphs

    chooser = random.Random(seed * 6271 + 5)
    made = edges.generate(seed) if chooser.random() < 0.5 else graphs.generate(seed, chooser.choice([1, 2, 2, 3, 4, 6, 8, 12]))
    if not made.model.graph.input:
        raise graphs.Refused
    case = edges.with_symbols(Case(made.model, made.feeds[:1], made.errors, seed))
    case.feeds += _other_feeds(case, chooser)
    return case


def _other_feeds(case, chooser):
    """Operands in other sizes: of one dimension, or of all that were as long."""
    feeds = case.feeds[0]
    places = [(value.name, axis) for value in case.model.graph.input
              for axis, dim in enumerate(value.type.tensor_type.shape.dim) if dim.dim_param]
    for _ in range(RUNS if places else 0):
        name, axis = chooser.choice(places)
        size = feeds[name].shape[axis]
        other = chooser.choice([n for n in (0, 1, 1, size - 1, size + 1, size + 1, 2 * size, 3 * size + 1) if n not in (size, -1)])
        chosen = [(name, axis)]
        if chooser.random() < 0.4:
            chosen = [(n, i) for n, i in places if feeds[n].shape[i] == size]
        sizes = dict.fromkeys(chosen, other)
        if chooser.random() < 0.4:  # what doesn't fit doesn't fit in an empty result either
            name, axis = chooser.choice(places)
            length = feeds[name].shape[axis]
            empty = [(n, i) for n, i in places if feeds[n].shape[i] == length] if chooser.random() < 0.6 else [(name, axis)]
            sizes.update((place, 0) for place in empty if place not in chosen)
        yield {n: _resized(a, {i: size for (m, i), size in sizes.items() if m == n}) for n, a in feeds.items()}


def _resized(array, sizes):
    """The array, cut or repeated along axes."""
    for axis, size in sizes.items():
        have = array.shape[axis]
        if have == 0:
            return np.zeros([sizes.get(i, d) for i, d in enumerate(array.shape)], array.dtype)
        array = np.take(array, np.arange(size) % have, axis)
    return array


def _fixed(model, feeds):
    other = onnx.ModelProto.FromString(model.SerializeToString())
    for value in other.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape):
            dim.dim_value = size
    return other


def _of_fixed_sizes(model, feeds):
    """Results by the interpreter, or the text of a refusal."""
    import treadle

    try:
        fixed = treadle.compile(_fixed(model, feeds), opt_level=0, target="stackvm", threads=1)
        return [np.asarray(a) for a in fixed.run(None, feeds)]
    except treadle.Error as error:
        return str(error)


def _of_run(model, feeds):
    import treadle

    try:
        return [np.asarray(a) for a in model.run(None, guarded.guarded_feeds(feeds)[0])]
    except treadle.Error as error:
        return str(error)


def _of_peer(model, feeds):
    try:
        return engines.open_session(model).run(None, feeds)
    except Exception as error:  # noqa: BLE001 - any refusal is one
        return f"ONNX Runtime: {error}"


def judge(case, model, feeds):
    """A Verdict on one run."""
    error = max(case.errors.values())
    ours, fixed = _of_run(model, feeds), _of_fixed_sizes(case.model, feeds)
    shapes = {name: list(array.shape) for name, array in feeds.items()}
    if isinstance(ours, str) and isinstance(fixed, str):
        return engines.Verdict("agree")
    if not isinstance(ours, str) and not isinstance(fixed, str):
        text = edges.apart(ours, fixed, error)
        if text is None:
            return engines.Verdict("agree")
    else:
        text = f"only the fixed form refuses: {fixed}" if isinstance(fixed, str) else f"only the run refuses: {ours}"
    peer = _of_peer(case.model, feeds)
    if isinstance(peer, str):
        # What ONNX Runtime refuses, one of the two forms may refuse, too; what it can't do, nobody knows.
        kind = "differ" if isinstance(fixed, str) and not any(text in peer for text in PEER_LIMITS) else "invalid"
        return engines.Verdict(kind, f"{shapes}: {text}; {peer}")
    right = not isinstance(ours, str)
    if right and not isinstance(fixed, str):  # what both forms say isn't the question
        asked = [i for i, pair in enumerate(zip(ours, fixed)) if edges.apart(pair[:1], pair[1:], error)]
        ours, peer = [ours[i] for i in asked], [peer[i] for i in asked]
    right = right and edges.apart(ours, peer, error) is None
    return engines.Verdict("fixed" if right else "differ", f"{shapes}: {text}")


def run_alone(case, opt_level, target):
    """Without the peer: "agree" with nobody, or "refused"."""
    import treadle

    try:
        model = treadle.compile(case.model, opt_level=opt_level, target=target, threads=1)
    except treadle.Error as error:
        return engines.Verdict("refused", str(error))
    for feeds in case.feeds:
        _of_run(model, feeds)
        _of_fixed_sizes(case.model, feeds)
    return engines.Verdict("agree")


def compare(case, opt_level=3, target="llvm -mcpu=native"):
    """A Verdict: agree; differ; "fixed" where only the form of fixed sizes is wrong; refused."""
    import treadle

    try:
        model = treadle.compile(case.model, opt_level=opt_level, target=target, threads=1)
    except treadle.Error as error:
        return engines.Verdict("refused", str(error))
    found = [judge(case, model, feeds) for feeds in case.feeds]
    for kind in ("differ", "fixed"):
        for verdict in found:
            if verdict.kind == kind:
                return verdict
    return engines.Verdict("agree")
