# SPDX-License-Identifier: Apache-2.0
"""One model in Treadle, ONNX Runtime and ONNX's reference evaluator, and what to make of their answers."""
import dataclasses
import re
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import guarded

onnxruntime.set_default_logger_severity(4)

FEW_BITS = (onnx.TensorProto.INT4, onnx.TensorProto.UINT4)  # types that NumPy lacks


def open_session(model):
    options = onnxruntime.SessionOptions()
    # The peer's own fusions are none of our business.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def imports_of(nodes, opset):
    """Opsets of the default domain and of those that nodes name."""
    return [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in sorted({n.domain for n in nodes} - {""})]


def node_model(nodes, feeds, opset, initializers=(), ir_version=10):
    """`nodes` alone, with operands of any size; results are those of the last one."""
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim)
              for name, a in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output]
    graph = helper.make_graph(nodes, "nodes", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=imports_of(nodes, opset), ir_version=ir_version)


def evaluate_nodes(nodes, worlds, opset, initializers=()):
    """Outputs of the last node for each dictionary of operands; None where ONNX Runtime, or else the reference, refuses one."""
    model = node_model(nodes, worlds[0], opset, initializers)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            session = open_session(model)
            return [session.run(None, feeds) for feeds in worlds]
        except Exception as error:  # noqa: BLE001 - any refusal is one
            if "NOT_IMPLEMENTED" not in str(error):
                return None
        try:
            evaluator = ReferenceEvaluator(model)
            results = [evaluator.run(None, feeds) for feeds in worlds]
            return results if all(isinstance(a, np.ndarray) for r in results for a in r) else None
        except Exception:  # noqa: BLE001
            return None


def inner_reads(node):
    """What the graphs of a node read, at any depth."""
    inner = [n for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in a.g.node]
    return {name for n in inner for name in n.input} | {name for n in inner for name in inner_reads(n)}


def evaluate_stepwise(case):
    """Results of each world, node by node, each by the peer that knows it; None where a value is neither's."""
    opset = next(entry.version for entry in case.model.opset_import if not entry.domain)
    fixed = {tensor.name: tensor for tensor in case.model.graph.initializer}
    usual = {name: numpy_helper.to_array(t) for name, t in fixed.items() if t.data_type not in FEW_BITS}
    worlds = [{**usual, **feeds} for feeds in case.feeds]
    for node in case.model.graph.node:
        read = {name for name in [*node.input, *inner_reads(node)] if name}
        known = [{name: values[name] for name in sorted(read) if name in values} for values in worlds]
        if not all(isinstance(value, np.ndarray) for value in known[0].values()):
            return None
        results = evaluate_nodes([node], known, opset, [fixed[name] for name in sorted(read & fixed.keys() - usual.keys())])
        if results is None:
            return None
        for values, made in zip(worlds, results):
            values.update(zip(node.output, made))
    names = [output.name for output in case.model.graph.output]
    return [{name: values[name] for name in names} for values in worlds]


@dataclasses.dataclass
class Verdict:
    kind: str  # agree, peer (ours is the reference's answer), differ, refused, invalid
    text: str = ""

    @property
    def signature(self):
        """What stays the same while a failure is made smaller."""
        return self.kind, re.sub(r"[\d.\-]+|'[^']*'|\"[^\"]*\"|\b[vxc]\d+\b", "#", self.text)[:80] \
            if self.kind == "refused" else ""


def apart(ours, theirs, allowed):
    """Where two answers differ by more than is allowed, in words; None where they don't."""
    theirs = theirs.astype(object) if theirs.dtype.kind == "U" else theirs  # the reference's text
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}, expected {theirs.dtype}{list(theirs.shape)}"
    if ours.size == 0:
        return None
    if theirs.dtype.kind != "f":
        wrong = ours != theirs
    else:
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= allowed + 1e-4 * np.abs(b)
        wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} elements, such as {ours[at]} at {at}, expected {theirs[at]}"


class Damaged(Exception):
    """A run that wrote what isn't its own, or gave two results."""


def _compiled(case, opt_level, target):
    """Winograd's method makes NaN around what isn't finite."""
    import treadle

    accuracy = "default" if _is_finite(case) else "strict"
    return treadle.compile(case.model, opt_level=opt_level, target=target, threads=1, accuracy=accuracy)


def _answers(case, opt_level, target, expected):
    """Of Treadle, one dictionary per world."""
    names = [output.name for output in case.model.graph.output]
    model = _compiled(case, opt_level, target)
    answers = []
    for world, feeds in enumerate(case.feeds):
        results, wrong = guarded.run(model, feeds, expected[world])
        if wrong is not None:
            raise Damaged(f"operands {world}: {wrong}")
        answers.append(dict(zip(names, results)))
    return answers


def run_alone(case, opt_level, target):
    """Without the peers: "agree" with nobody, or "refused"."""
    import treadle

    try:
        model = _compiled(case, opt_level, target)
        for feeds in case.feeds:
            model.run(None, guarded.guarded_feeds(feeds)[0])
    except treadle.Error as error:
        return Verdict("refused", str(error))
    return Verdict("agree")


def _is_finite(case):
    arrays = [a for feeds in case.feeds for a in feeds.values()]
    arrays += [numpy_helper.to_array(t) for t in case.model.graph.initializer]
    return all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")


def compare(case, opt_level=3, target="llvm -mcpu=native"):
    """A Verdict on a Case."""
    import treadle

    names = [output.name for output in case.model.graph.output]
    try:
        session = open_session(case.model)
        expected = [dict(zip(names, session.run(None, feeds))) for feeds in case.feeds]
    except Exception as error:  # noqa: BLE001 - the peer's refusals are its own
        expected = case.expected or evaluate_stepwise(case)
        if expected is None or "NOT_IMPLEMENTED" not in str(error):
            return Verdict("invalid", str(error))
    try:
        answers = _answers(case, opt_level, target, expected)
    except treadle.Error as error:
        return Verdict("refused", str(error))
    except Damaged as error:
        return Verdict("differ", str(error))
    peers = None
    for world, (ours, theirs) in enumerate(zip(answers, expected)):
        reference = None
        for name in names:
            allowed = case.errors.get(name, 1e-5)
            text = apart(ours[name], theirs[name], allowed)
            if text is None:
                continue
            if reference is None:
                reference = _reference(case, world, names) or _values_by_reference(case, world)
            if name not in reference or apart(ours[name], reference[name], allowed) is not None:
                return Verdict("differ", f"{name}, operands {world}: {text}")
            peers = peers or Verdict("peer", f"{name}: {text}")  # what differs in other results may be ours
    return peers or Verdict("agree")


def known_answers(case):
    """Results of ONNX Runtime and of the reference on the first operands, of those that have any."""
    found = []
    try:
        found.append(open_session(case.model).run(None, case.feeds[0]))
    except Exception:  # noqa: BLE001 - any refusal is one
        pass
    names = [output.name for output in case.model.graph.output]
    reference = _reference(case, 0, names)
    return found + ([list(reference.values())] if reference is not None else [])


def _values_by_reference(case, world):
    """Values by name, as many as can be told, node by node: by the reference where it knows the operator, else by ONNX
    Runtime."""
    opset = next(entry.version for entry in case.model.opset_import if not entry.domain)
    fixed = {tensor.name: tensor for tensor in case.model.graph.initializer}
    values = {name: numpy_helper.to_array(t) for name, t in fixed.items() if t.data_type not in FEW_BITS}
    values.update(case.feeds[world])
    for node in case.model.graph.node:
        read = {name for name in [*node.input, *inner_reads(node)] if name}
        known = {name: values[name] for name in sorted(read) if isinstance(values.get(name), np.ndarray)}
        rest = [fixed[name] for name in sorted(read - known.keys()) if name in fixed]
        if len(known) + len(rest) < len(read):
            continue
        made = _node_by_reference(node, known, opset, rest) or (evaluate_nodes([node], [known], opset, rest) or [None])[0]
        if made is not None:
            values.update(zip(node.output, made))
    return values


def _node_by_reference(node, feeds, opset, initializers):
    """Results, or None."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            results = ReferenceEvaluator(node_model([node], feeds, opset, initializers)).run(None, feeds)
        except Exception:  # noqa: BLE001 - it doesn't know everything
            return None
    return results if all(isinstance(result, np.ndarray) for result in results) else None


def _reference(case, world, names):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = onnx.ModelProto.FromString(case.model.SerializeToString())
            return dict(zip(names, ReferenceEvaluator(model).run(None, case.feeds[world])))
        except Exception:  # noqa: BLE001 - it doesn't know everything
            return None
