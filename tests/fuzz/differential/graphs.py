# SPDX-License-Identifier: Apache-2.0
"""Random valid ONNX graphs with operands.

Every node is evaluated while the graph grows, in several worlds: at the sizes that operands have, at other sizes of the
symbolic dimensions, and at each of them with slightly wrong operands. What ONNX refuses in one of the worlds doesn't get in; what turns
small errors into large ones (a comparison of rounded numbers, the logarithm of nearly 1) doesn't either, so that
whatever differs in the end is a defect."""
import dataclasses
import random

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import chains, control, embedded, kernels, low_precision, operators, rows, rules, sequences  # noqa: F401  their rules
from .engines import evaluate_nodes, imports_of, inner_reads

OPSETS = [13, 15, 17, 18, 20, 21, 22, 22, 22, 22, 22, 22, 23, 24, 25]
IR_VERSION = 10
MAX_ELEMENTS = {"any": 4096, "pictures": 49152, "rows": 32768, "few_bits": 32768}  # of one value, by profile
MAX_MAGNITUDE = 1e5
WRONG = 1e-6  # relative error that the wrong world adds to rounded results
AMPLIFIED = 3e-4  # relative error at which a node is refused


@dataclasses.dataclass
class Value:
    """An edge of the graph: its name, and what it holds in each world."""

    name: str
    arrays: list  # one per world, the second half with slightly wrong operands
    constant: bool = False
    error: float = 0.0  # expected of a right implementation, absolute

    @property
    def shape(self):
        return self.arrays[0].shape

    @property
    def dtype(self):
        return self.arrays[0].dtype

    @property
    def rank(self):
        return self.arrays[0].ndim

    @property
    def static(self):
        """Whether the sizes are the same in all worlds."""
        return all(a.shape == self.shape for a in self.arrays)


@dataclasses.dataclass
class Case:
    model: onnx.ModelProto
    feeds: list  # operands by name, one dictionary per world
    errors: dict  # absolute error allowed by output
    seed: int = 0
    expected: list | None = None  # results by name, one dictionary per world, where they are known


class Refused(Exception):
    """The operator can't follow what is there."""


class Graph:
    """The graph so far. Operators ask it for operands and add nodes."""

    def __init__(self, seed, dynamic=False, special=False, profile="any"):
        """profile: "any" operator as likely as weights say; "pictures": what layouts and fusion of convolutions meet; "rows":
        long ones of lengths that vectors don't divide; "few_bits": pictures between what quantises and takes back."""
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.dynamic = dynamic
        self.special = special
        self.profile = profile
        self.pictures = profile in ("pictures", "few_bits")
        self.values, self.nodes, self.inputs, self.initializers = [], [], [], []
        self.opset = self.random.choice(OPSETS)
        self.sizes = [{"n": 3, "m": 5}, {"n": 4, "m": 2}] if dynamic else [{}]
        if dynamic and self.chance(0.3):
            self.sizes[1] = {"n": self.random.choice([0, 1, 1, 16]), "m": self.random.choice([1, 2, 7])}
        if dynamic and profile == "rows":
            self.sizes = [dict(zip("nm", self.random.sample(rows.LENGTHS, 2))) for _ in range(2)]
        self.worlds = 2 * len(self.sizes)  # those with wrong operands come last
        self.count = 0

    # ---- choices ----
    def chance(self, p):
        return self.random.random() < p

    def pick(self, items):
        if not items:
            raise Refused
        return self.random.choice(list(items))

    def need(self, condition):
        if not condition:
            raise Refused

    def integer(self, low, high):
        return self.random.randint(low, high)

    def fresh(self, prefix="v"):
        self.count += 1
        return f"{prefix}{self.count}"

    # ---- operands ----
    def array(self, shape, dtype, low=-4, high=4, finite=False):
        """Multiples of 1/8 for floats: sums and products of few of them are exact. finite: also in graphs with infinities,
        as weights that may meet the zeros of padding."""
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return self.numpy.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return self.numpy.integers(max(low * 5, info.min), min(high * 5, info.max) + 1, shape).astype(dtype)
        x = (np.round(self.numpy.uniform(low, high, shape) * 8) / 8).astype(dtype)
        if self.special and x.size and not finite:
            flat = x.reshape(-1)
            flat[self.numpy.integers(0, x.size)] = self.random.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40])
        return np.asarray(x)

    def add_input(self, dims, dtype, low=-4, high=4):
        """dims: ints, or names of symbolic dimensions."""
        name = self.fresh("x")
        arrays = [self.array([sizes.get(d, d) for d in dims], dtype, low, high) for sizes in self.sizes]
        arrays += [a.copy() for a in arrays]
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), dims))
        value = Value(name, arrays)
        self.values.append(value)
        return value

    def add_array(self, array):
        """An input of these elements."""
        arrays = [np.array(array) for _ in range(self.worlds)]
        value = Value(self.fresh("x"), arrays)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(value.name, kind, array.shape))
        self.values.append(value)
        return value

    def constant(self, array):
        array = np.asarray(array)
        name = self.fresh("c")
        self.initializers.append(numpy_helper.from_array(array, name))
        return Value(name, [array] * self.worlds, constant=True)

    def ints(self, values):
        return self.constant(np.array(values, np.int64))

    def choose(self, dtypes=None, ranks=None, where=None):
        """A value of the graph; recent ones are likelier, so that graphs get deep."""
        kinds = None if dtypes is None else [np.dtype(d) for d in dtypes]
        fitting = [v for v in self.values if (kinds is None or v.dtype in kinds) and
                   (ranks is None or v.rank in ranks) and (where is None or where(v))]
        if not fitting:
            raise Refused
        if self.chance(0.6):
            fitting = fitting[-4:]
        return self.random.choice(fitting)

    def like(self, value, broadcast=True):
        """A second operand for `value`: a value of its shape, itself, or a constant that broadcasts."""
        kind = self.random.random()
        if kind < 0.25:
            return value
        fitting = [v for v in self.values if v.dtype == value.dtype and
                   all(a.shape == b.shape for a, b in zip(v.arrays, value.arrays))]
        if kind < 0.65 and fitting:
            return self.random.choice(fitting)
        if kind < 0.75 and broadcast:
            same = [v for v in self.values if v.dtype == value.dtype]
            return self.random.choice(same)
        # Sizes that differ between the worlds can only be broadcast to.
        shape = [d if all(a.shape[i] == d for a in value.arrays) and self.chance(0.7) else 1
                 for i, d in enumerate(value.shape)]
        if broadcast:
            shape = shape[self.integer(0, len(shape)):] if self.chance(0.3) else shape
        elif not value.static:
            raise Refused
        else:
            shape = list(value.shape)
        return self.constant(self.array(shape, value.dtype))

    # ---- nodes ----
    def add(self, op, inputs, outputs=1, keep=None, captured=(), error=0.0, **attributes):
        """Adds a node if it is fit in all worlds; Refused otherwise. Returns its outputs, which join the values;
        keep: numbers of those that do. captured: outer values that its graphs read. error: that the operator may make,
        beside usual rounding, as a part of its range."""
        names = [self.fresh() for _ in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value not in ((), [])}  # of a scalar's axes
        node = helper.make_node(op, [v.name if v is not None else "" for v in inputs], names, **attributes)
        return self.add_nodes([node], [v for v in inputs if v is not None] + list(captured), keep, error)

    def add_nodes(self, nodes, operands, keep=None, error=0.0, fixed=()):
        """As `add`, of nodes each of which reads the one before; what is between them, and `fixed` initializers, may be of
        types that NumPy lacks."""
        results = evaluate_nodes(nodes, [{v.name: v.arrays[w] for v in operands} for w in range(self.worlds)],
                                 self.opset, fixed)
        if results is None:
            raise Refused
        made = [self.checked(name, [r[i] for r in results], error) for i, name in enumerate(nodes[-1].output)]
        self.nodes += nodes
        self.values += [m for i, m in enumerate(made) if keep is None or i in keep]
        return made

    def checked(self, name, arrays, error=0.0):
        if any(a.size > MAX_ELEMENTS[self.profile] or a.ndim > 5 for a in arrays):
            raise Refused
        pairs = list(zip(arrays, arrays[len(self.sizes):]))
        if any(right.shape != wrong.shape for right, wrong in pairs):
            raise Refused
        if arrays[0].dtype.kind != "f":
            if not all(np.array_equal(right, wrong) for right, wrong in pairs):
                raise Refused
            return Value(name, arrays)
        with np.errstate(all="ignore"):
            errors, noisy = zip(*(self._with_noise(right, wrong, error) for right, wrong in pairs))
        return Value(name, arrays[:len(self.sizes)] + list(noisy), error=max(errors))

    def _with_noise(self, right, wrong, error):
        """The error to allow where operands are slightly wrong, and the wrong result with rounding of its own."""
        finite = np.isfinite(right)
        if not self.special and not finite.all() or not np.array_equal(finite, np.isfinite(wrong)):
            raise Refused
        if right.size and finite.any() and np.abs(right[finite]).max() > MAX_MAGNITUDE:
            raise Refused
        scale = max(1.0, float(np.abs(right[finite]).max()) if finite.any() else 1.0)
        apart = float(np.abs(right[finite].astype(np.float64) - wrong[finite]).max()) if finite.any() else 0.0
        if apart > AMPLIFIED * scale:
            raise Refused
        noise = self.numpy.uniform(-WRONG, WRONG, right.shape) * np.maximum(np.abs(wrong), scale / 16)
        half = right.dtype == np.float16
        exact = np.array_equal(right * 64, np.round(right * 64)) and apart == 0 and error == 0
        noisy = wrong if exact else (wrong + noise * (500 if half else 1)).astype(right.dtype)
        return 100 * apart + (2e-2 if half else 3e-5 + error) * scale, noisy

    def finish(self, seed):
        read = {name for node in self.nodes for name in node.input}
        read |= {name for node in self.nodes for name in inner_reads(node)}
        made = {name for node in self.nodes for name in node.output}
        results = [v for v in self.values if v.name in made and (v.name not in read or self.chance(0.1))]
        if not results:
            raise Refused
        results += [v for v in self.values if v.name.startswith("x") and self.chance(0.02)]
        outputs = [helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), [None] * v.rank)
                   for v in results]
        graph = helper.make_graph(self.nodes, "fuzz", self.inputs, outputs, self.initializers)
        imports = imports_of(self.nodes, self.opset)
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="fuzz")
        onnx.checker.check_model(model, full_check=False)
        feeds = [{v.name: v.arrays[w] for v in self.values if v.name.startswith("x")} for w in range(len(self.sizes))]
        expected = [{v.name: v.arrays[w] for v in results} for w in range(len(self.sizes))]
        return Case(model, feeds, {v.name: v.error for v in results}, seed, expected)


SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17]
CHANNELS = [1, 3, 4, 5, 8, 12, 16, 17, 20, 24, 32, 33]


def _inputs(graph, chooser):
    """One to three inputs; of pictures the first is one."""
    for number in range(chooser.randint(1, 3)):
        pictures = graph.pictures and number == 0
        long = graph.profile == "rows"
        rank = 4 if pictures else chooser.choice([2, 3, 3, 3, 4] if long else [1, 2, 2, 3, 3, 4, 4, 4])
        dims = [chooser.choice(SIZES) for _ in range(rank)]
        if pictures:
            dims = [chooser.choice([1, 1, 2]), chooser.choice(CHANNELS), *(chooser.choice([5, 7, 8, 12, 14]) for _ in range(2))]
            if chooser.random() < 0.15:  # a volume
                dims.insert(2, chooser.choice([1, 3, 4, 6]))
        elif long:
            dims[-1] = chooser.choice(rows.LENGTHS)
            if chooser.random() < 0.3:
                dims[-2] = chooser.choice(rows.LENGTHS)
        elif rank == 4:
            dims[1] = chooser.choice([1, 2, 3, 4, 8, 16])
        if chooser.random() < 0.03:
            dims[chooser.randrange(len(dims))] = 0
        while np.prod(dims) > (8192 if pictures or long else 2048):
            dims[dims.index(max(dims[:-1] if long else dims))] = 2
        if graph.dynamic:
            open_axes = [i for i in range(len(dims)) if i != 1 or not pictures]
            dims[chooser.choice(open_axes)] = "n"
            if chooser.random() < 0.4:
                dims[chooser.choice(open_axes)] = "m"
            if chooser.random() < 0.25:  # the same ones at several places
                several = [chooser.choice([d, "n", "m"]) if i in open_axes else d for i, d in enumerate(dims)]
                if all(np.prod([sizes.get(d, d) for d in several]) <= MAX_ELEMENTS[graph.profile] for sizes in graph.sizes):
                    dims = several
        dtype = chooser.choice(["float32"] * 9 + ["float64", "int64", "int32", "float16", "int8", "uint8"])
        graph.add_input(dims, "float32" if pictures or (long and number == 0) else dtype)


def generate(seed, nodes=None, profile=None):
    """A Case; the same one for the same seed."""
    chooser = random.Random(seed * 7919 + 1)
    profile = profile or chooser.choice(["any"] * 3 + ["pictures"] * 2 + ["few_bits"] * 2 + ["rows"] * 3)
    graph = Graph(seed, dynamic=chooser.random() < 0.3, special=chooser.random() < 0.08, profile=profile)
    _inputs(graph, chooser)
    wanted = nodes or chooser.choice([1, 2, 2, 3, 3, 4, 6, 8, 8, 12, 12, 16, 16, 24, 40, 64, 100])
    for _ in range(wanted * 6):
        if len(graph.nodes) >= wanted:
            break
        before = len(graph.nodes), len(graph.values), len(graph.initializers), len(graph.inputs)
        try:
            rules.grow(graph)
        except Refused:
            del graph.nodes[before[0]:], graph.values[before[1]:], graph.initializers[before[2]:], graph.inputs[before[3]:]
    return graph.finish(seed)
