# SPDX-License-Identifier: Apache-2.0
"""Single operators of `edges` of classical machine learning (trees, support vectors, labels), and the steps of training."""
import numpy as np
from onnx import numpy_helper

from .edges import Draw, rule

LEARNING, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


def _list(array):
    return [float(v) for v in np.asarray(array).ravel()]


def _rows(s, columns, dtype="float32", special=None):
    return s.array((s.pick([1, 2, 5]), columns), dtype, s.pick([0, 0, 0.1]) if special is None else special)


# ---- trees ----

class Forest:
    """Lists of nodes as opset 3 has them. Thresholds are among what operands hold, so that ends are met."""

    def __init__(self, s, columns):
        self.s, self.columns, self.nodes, self.leaves = s, columns, [], []
        self.modes = ["BRANCH_LEQ"] if s.chance(0.5) else [f"BRANCH_{m}" for m in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")]
        for tree in range(s.integer(1, 4)):
            self.count = 0
            self.grow(tree, s.integer(0, 3))

    def grow(self, tree, depth):
        s, own = self.s, self.count
        self.count += 1
        place = len(self.nodes)
        self.nodes.append(None)
        if depth == 0 or s.chance(0.2):
            self.nodes[place] = (tree, own, "LEAF", 0, 0.0, 0, 0, 0)
            self.leaves.append((tree, own))
            return own
        yes, no = self.grow(tree, depth - 1), self.grow(tree, depth - 1)
        value = round(s.random.uniform(-4, 4) * 2) / 2
        self.nodes[place] = (tree, own, s.pick(self.modes), s.integer(0, self.columns - 1), value, yes, no, s.integer(0, 1))
        return own

    def attributes(self):
        columns = list(zip(*self.nodes))
        names = ["treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
        return {f"nodes_{name}": list(column) for name, column in zip(names, columns)}

    def weights(self, prefix, number):
        rows = [(tree, node, self.s.integer(0, number - 1), round(self.s.random.uniform(-2, 2) * 8) / 8)
                for tree, node in self.leaves for _ in range(self.s.pick([1, 1, 2]))]
        columns = [list(column) for column in zip(*rows)]
        return {f"{prefix}_{name}": column for name, column in zip(["treeids", "nodeids", "ids", "weights"], columns)}


@rule("TreeEnsembleRegressor", domain=LEARNING)
def tree_regressor(s, op):
    columns, targets = s.pick([1, 3]), s.pick([1, 1, 3])
    forest = Forest(s, columns)
    attributes = {**forest.attributes(), **forest.weights("target", targets), "n_targets": targets,
                  "aggregate_function": s.pick(["SUM", "SUM", "AVERAGE", "MIN", "MAX"])}
    if s.chance(0.4):
        attributes["base_values"] = _list(s.array((targets,), "float32", 0))
    # ONNX Runtime leaves a single one as it is; of the largest of no weights peers have 0 or the lowest number.
    if s.chance(0.3) and targets > 1 and attributes["aggregate_function"] in ("SUM", "AVERAGE"):
        attributes["post_transform"] = s.pick(TRANSFORMS)
    return Draw(op, [_rows(s, columns)], attributes, error=1e-4, version=3)


@rule("TreeEnsembleClassifier", domain=LEARNING)
def tree_classifier(s, op):
    columns, classes = s.pick([1, 3]), s.pick([2, 3, 4])
    forest = Forest(s, columns)
    attributes = {**forest.attributes(), **forest.weights("class", classes), "post_transform": s.pick(TRANSFORMS)}
    attributes.update(_labels(s, classes))
    if s.chance(0.3):
        attributes["base_values"] = _list(s.array((classes,), "float32", 0))
    return Draw(op, [_rows(s, columns)], attributes, 2, error=1e-4, version=3)


class Nodes:
    """Lists of nodes and of leaves as TreeEnsemble has them."""

    def __init__(self, s, columns, targets, kind):
        self.s, self.columns, self.targets = s, columns, targets
        self.nodes, self.leaves, self.members, self.kind = [], [], [], np.dtype(kind)
        self.modes = s.pick([[0], [0, 1, 2, 3, 4, 5], [6], [0, 6]])
        self.roots = [self.grow(s.integer(1, 3), root=True)[0] for _ in range(s.integer(1, 4))]

    def _value(self):
        return round(self.s.random.uniform(-4, 4) * 2) / 2

    def grow(self, depth, root=False):
        """Number of a node, or of a leaf, and whether it is one."""
        s = self.s
        if not root and (depth == 0 or s.chance(0.2)):
            self.leaves.append((s.integer(0, self.targets - 1), round(s.random.uniform(-2, 2) * 8) / 8))
            return len(self.leaves) - 1, 1
        # A tree that is a leaf, to which both ways lead; the reference takes another one. ONNX Runtime has no members.
        place, single = len(self.nodes), root and 6 not in self.modes and s.chance(0.15)
        mode = s.pick(self.modes)
        self.nodes.append(None)
        if mode == 6:  # its members, up to NaN; 0 ends the reference's list, too
            self.members += [self._value() or 0.25 for _ in range(s.integer(1, 3))] + [np.nan]
        if single:
            yes = no = self.grow(0)
        else:
            yes, no = self.grow(depth - 1), self.grow(depth - 1)
        self.nodes[place] = (s.integer(0, self.columns - 1), mode, self._value(), *yes, *no, s.integer(0, 1))
        return place, 0

    def attributes(self):
        columns = dict(zip(["featureids", "modes", "splits", "truenodeids", "trueleafs", "falsenodeids", "falseleafs",
                            "missing_value_tracks_true"], map(list, zip(*self.nodes))))
        tensor = lambda values, kind: numpy_helper.from_array(np.array(values, kind))  # noqa: E731
        found = {f"nodes_{name}": column for name, column in columns.items()}
        found.update(nodes_modes=tensor(columns["modes"], np.uint8), nodes_splits=tensor(columns["splits"], self.kind),
                     leaf_targetids=[target for target, _ in self.leaves], tree_roots=self.roots,
                     leaf_weights=tensor([weight for _, weight in self.leaves], self.kind))
        if self.members:
            found["membership_values"] = tensor(self.members, self.kind)
        return found


@rule("TreeEnsemble", domain=LEARNING)
def tree_ensemble(s, op):
    columns, aggregate, kind = s.pick([1, 3]), s.pick([0, 1, 1, 2, 3]), s.pick(["float32", "float64"])
    targets = s.pick([1, 1, 3]) if aggregate < 2 else 1  # of the least of no weights peers have several numbers
    attributes = {**Nodes(s, columns, targets, kind).attributes(), "n_targets": targets, "aggregate_function": aggregate}
    return Draw(op, [_rows(s, columns, kind)], attributes, error=1e-4, version=5)


def _labels(s, classes, text="classlabels_strings", numbers="classlabels_int64s"):
    if s.chance(0.3):
        return {text: [f"class {i}" for i in range(classes)]}
    return {numbers: [int(i) * 3 - 1 for i in s.numpy.permutation(classes)]}


# ---- support vectors, linear models ----

def _kernel(s):
    return {"kernel_type": s.pick(["LINEAR", "POLY", "RBF", "SIGMOID"]),
            "kernel_params": [s.pick([0.25, 0.5]), s.pick([0.0, 0.5]), s.pick([1.0, 2.0, 3.0])]}


@rule("SVMRegressor", domain=LEARNING)
def vector_regressor(s, op):
    columns, vectors = s.pick([1, 3]), s.pick([1, 2, 4])
    attributes = {**_kernel(s), "coefficients": _list(s.array((vectors,), "float32", 0)), "n_supports": vectors,
                  "rho": [0.5], "support_vectors": _list(s.array((vectors, columns), "float32", 0))}
    if s.chance(0.3):
        attributes["one_class"] = 1
    if s.chance(0.2):  # a linear model
        attributes.update(n_supports=0, coefficients=_list(s.array((columns,), "float32", 0)), kernel_type="LINEAR")
        del attributes["support_vectors"]
    return Draw(op, [_rows(s, columns, special=0)], attributes, error=1e-4, version=1)


@rule("SVMClassifier", domain=LEARNING)
def vector_classifier(s, op):
    columns, classes = s.pick([1, 3]), s.pick([2, 2, 3, 4])
    per_class = [s.integer(1, 2) for _ in range(classes)]
    vectors, pairs = sum(per_class), classes * (classes - 1) // 2
    attributes = {**_kernel(s), "coefficients": _list(s.array(((classes - 1) * vectors,), "float32", 0)),
                  "rho": _list(s.array((pairs,), "float32", 0)), "vectors_per_class": per_class,
                  "support_vectors": _list(s.array((vectors, columns), "float32", 0)),
                  **_labels(s, classes, numbers="classlabels_ints"), "post_transform": s.pick(["NONE", "NONE", *TRANSFORMS])}
    if s.chance(0.5):
        attributes.update(prob_a=_list(-np.abs(s.array((pairs,), "float32", 0)) / 4 - 0.25),
                          prob_b=_list(s.array((pairs,), "float32", 0) / 4))
    return Draw(op, [_rows(s, columns, special=0)], attributes, 2, error=1e-3, version=1)


@rule("LinearClassifier", domain=LEARNING)
def linear_classifier(s, op):
    columns, classes = s.pick([1, 3]), s.pick([2, 3, 4])
    attributes = {"coefficients": _list(s.array((classes, columns), "float32", 0)),
                  "intercepts": _list(s.array((classes,), "float32", 0)), "post_transform": s.pick(TRANSFORMS),
                  **_labels(s, classes, numbers="classlabels_ints")}
    return Draw(op, [_rows(s, columns, s.pick(["float32", "float32", "float64", "int64", "int32"]), 0)], attributes, 2, error=1e-4,
                version=1)


@rule("FeatureVectorizer", "CategoryMapper", domain=LEARNING)
def features(s, op):
    if op == "FeatureVectorizer":
        widths, rows, dtype = [s.pick([1, 3]) for _ in range(s.integer(1, 3))], s.pick([1, 3]), s.pick(["float32", "int64"])
        return Draw(op, [s.array((rows, w), dtype, 0) for w in widths], {"inputdimensions": widths}, version=1)
    categories = {"cats_int64s": [1, 2, 3], "cats_strings": ["a", "b", "über"], "default_int64": -1, "default_string": "none"}
    shape = s.shape([1, 2])
    if s.chance(0.5):
        return Draw(op, [s.numpy.integers(0, 5, shape).astype(np.int64)], categories, version=1)
    words = [s.pick(["a", "b", "über", "c", ""]) for _ in range(int(np.prod(shape)))]
    return Draw(op, [np.array(words, object).reshape(shape)], categories, version=1)


# ---- steps of training ----

@rule("Adagrad", "Momentum", "Adam", domain=TRAINING)
def step(s, op):
    tensors, shape = 2 if op == "Adam" else s.pick([1, 1, 2]), s.shape()  # of one the reference's Adam gives another type
    dtype = s.pick(["float32", "float32", "float64"]) if op != "Adam" else "float32"  # as the reference has it
    several = {"Adagrad": 2, "Momentum": 2, "Adam": 3}[op]  # tensor and states, which come back
    lists = [[s.array(shape, dtype, 0) for _ in range(tensors)] for _ in range(several + 1)]
    if op != "Momentum":
        lists[-1] = [np.abs(a) for a in lists[-1]]  # a sum of squares
    operands = [np.array(s.pick([0.1, 0.5]), dtype), np.array(s.pick([0, 1, 7]), np.int64), *(a for arrays in lists for a in arrays)]
    attributes = {"norm_coefficient": s.pick([0.0, 0.25])}
    if op == "Adagrad":
        attributes.update(epsilon=1e-2, decay_factor=s.pick([0.0, 0.1]))
    elif op == "Momentum":
        attributes.update(alpha=0.9, beta=s.pick([0.5, 1.0]), mode=s.pick(["standard", "nesterov"]))
    else:
        attributes.update(alpha=0.9, beta=0.75, epsilon=1e-2, norm_coefficient_post=s.pick([0.0, 0.1]))
    return Draw(op, operands, attributes, several * tensors, error=1e-4, version=1)
