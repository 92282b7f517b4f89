# SPDX-License-Identifier: Apache-2.0
"""Makes a failing case small: fewer outputs, worlds and nodes, while it fails in the same way."""
import numpy as np
import onnx
from onnx import helper

from . import engines
from .engines import inner_reads
from .graphs import Case


def rebuilt(case, nodes, outputs, fixed):
    """The case with these nodes and outputs. fixed: arrays, one per world, of values that became inputs."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(node.input) | inner_reads(node)
    graph = case.model.graph
    inputs = [v for v in graph.input if v.name in needed and v.name not in fixed]
    inputs += [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a[0].dtype), _dims(a))
               for name, a in fixed.items() if name in needed]
    results = [helper.make_tensor_value_info(o.name, o.type.tensor_type.elem_type, [None] * len(
        o.type.tensor_type.shape.dim)) for o in graph.output if o.name in outputs]
    model = helper.make_model(
        helper.make_graph(kept[::-1], "fuzz", inputs, results, [t for t in graph.initializer if t.name in needed]),
        opset_imports=list(case.model.opset_import), ir_version=case.model.ir_version, producer_name="fuzz")
    names = {v.name for v in inputs}
    feeds = [{**{n: a for n, a in feed.items() if n in names}, **{n: a[w] for n, a in fixed.items() if n in names}}
             for w, feed in enumerate(case.feeds)]
    return Case(model, feeds, {n: e for n, e in case.errors.items() if n in outputs}, case.seed)


def _dims(arrays):
    return [d if all(a.shape[i] == d for a in arrays) else f"d{i}" for i, d in enumerate(arrays[0].shape)]


def intermediates(case):
    """Every tensor of the graph in every world, by ONNX Runtime, which may take the process with it. Sequences, which are
    lists, have no place among operands."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    names = [name for node in model.graph.node for name in node.output if name]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = engines.open_session(model)
    worlds = [dict(zip(names, session.run(None, feeds))) for feeds in case.feeds]
    return {name: [w[name] for w in worlds] for name in names if all(isinstance(w[name], np.ndarray) for w in worlds)}


def _without_node(case, values, at):
    """The nodes without one: what it made becomes an input."""
    nodes = list(case.model.graph.node)
    outputs = {o.name for o in case.model.graph.output}
    if outputs & set(nodes[at].output) or any(n and n not in values for n in nodes[at].output):
        return None
    return rebuilt(case, nodes[:at] + nodes[at + 1:], outputs, {n: values[n] for n in nodes[at].output if n})


def _bypassed(case, values, at):
    """Whoever reads the node reads its operand, where that is alike."""
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in case.model.graph.node]
    known = {**values, **{n: [f[n] for f in case.feeds] for n in case.feeds[0]}}
    outputs = {o.name for o in case.model.graph.output}
    made = nodes[at].output[0]
    if made not in known:
        return None
    alike = [n for n in nodes[at].input if n in known and all(
        a.shape == b.shape and a.dtype == b.dtype for a, b in zip(known[n], known[made]))]
    if made in outputs or not alike:
        return None
    for node in nodes:
        node.input[:] = [alike[0] if n == made else n for n in node.input]
    return rebuilt(case, nodes[:at] + nodes[at + 1:], outputs, {})


def _without_end(case, values):
    """Each operand of the node that makes the only output, as the output."""
    name = case.model.graph.output[0].name
    last = next(node for node in case.model.graph.node if name in node.output)
    for operand in dict.fromkeys(last.input):
        if operand not in values:
            continue
        array = values[operand][0]
        shown = onnx.ModelProto.FromString(case.model.SerializeToString())
        del shown.graph.output[:]
        shown.graph.output.append(helper.make_tensor_value_info(operand, helper.np_dtype_to_tensor_dtype(array.dtype),
                                                                [None] * array.ndim))
        finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind == "f" else np.zeros(0)
        error = max(case.errors.get(name, 0.0), 1e-4 * float(finite.max()) if finite.size else 0.0)
        yield rebuilt(Case(shown, case.feeds, {operand: error}, case.seed), list(shown.graph.node), {operand}, {})


def _smaller_forms(case, evaluate):
    outputs = [o.name for o in case.model.graph.output]
    nodes = list(case.model.graph.node)
    if len(case.feeds) > 1:
        for w in range(len(case.feeds)):
            yield Case(case.model, [case.feeds[w]], case.errors, case.seed)
    if len(outputs) > 1:
        for name in outputs:
            yield rebuilt(case, nodes, {name}, {})
    try:
        values = evaluate(case)
    except Exception:  # noqa: BLE001 - then nothing can be cut off
        return
    if len(outputs) == 1:
        yield from _without_end(case, values)
    # Whole fronts of the graph first.
    for at in range(len(nodes) - 1, -1, -1):
        yield _without_node(case, values, at)
    for at in range(len(nodes)):
        yield _bypassed(case, values, at)
    for at, node in enumerate(nodes):
        for a in node.attribute:
            fewer = onnx.ModelProto.FromString(case.model.SerializeToString())
            rest = [b for b in fewer.graph.node[at].attribute if b.name != a.name]
            del fewer.graph.node[at].attribute[:]
            fewer.graph.node[at].attribute.extend(rest)
            yield Case(fewer, case.feeds, case.errors, case.seed)


def shrink(case, fails, steps=300, evaluate=intermediates):
    """The smallest form found for which fails(case) holds. evaluate: `intermediates`, perhaps in another process."""
    tried = set()
    progress = True
    while progress and steps > 0:
        progress = False
        for form in _smaller_forms(case, evaluate):
            if form is None or not form.model.graph.node:
                continue
            key = (form.model.SerializeToString(), len(form.feeds))
            if key in tried:
                continue
            tried.add(key)
            steps -= 1
            if fails(form):
                case, progress = form, True
                break
            if steps <= 0:
                break
    return case


def _stored(arrays):
    """Strings as NumPy's own type: objects would be pickled."""
    return {name: a.astype(str) if np.asarray(a).dtype == object else a for name, a in arrays.items()}


def _restored(array):
    return array.astype(object) if array.dtype.kind == "U" else array


def save(case, path):
    """path.onnx, and path.npz: operands NAME (of world w: NAME@w)."""
    onnx.save(case.model, f"{path}.onnx")
    arrays = {name if w == 0 else f"{name}@{w}": a for w, feed in enumerate(case.feeds) for name, a in feed.items()}
    arrays.update({f"allowed:{name}": np.float64(e) for name, e in case.errors.items()})
    np.savez(f"{path}.npz", **_stored(arrays))


def load(path):
    model = onnx.load(f"{path}.onnx")
    feeds, errors = {}, {}
    for name, array in np.load(f"{path}.npz").items():
        if name.startswith("allowed:"):
            errors[name[8:]] = float(array)
        else:
            name, _, world = name.partition("@")
            feeds.setdefault(int(world or 0), {})[name] = _restored(array)
    return Case(model, [feeds[w] for w in sorted(feeds)] or [{}], errors)




def save_intermediates(case, path):
    """What load_intermediates reads: path.values.npz."""
    values = intermediates(case)
    np.savez(f"{path}.values.npz", **_stored(
        {f"{name}@{w}": a for name, arrays in values.items() for w, a in enumerate(arrays)}))


def load_intermediates(path):
    found = {}
    with np.load(f"{path}.values.npz") as arrays:
        for key, array in arrays.items():
            name, _, world = key.rpartition("@")
            found.setdefault(name, {})[int(world)] = _restored(array)
    return {name: [worlds[w] for w in sorted(worlds)] for name, worlds in found.items()}
