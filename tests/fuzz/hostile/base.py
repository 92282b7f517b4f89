# SPDX-License-Identifier: Apache-2.0
"""A case, and how to make small models."""
import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 21


@dataclasses.dataclass
class Case:
    """`want`: "error" (compiling or running has to fail with an Error), "ok" (an answer, as ONNX's reference has it), or
    "either" (an answer, right where the reference has one, or an Error)."""
    name: str
    data: bytes
    want: str
    feeds: dict = dataclasses.field(default_factory=dict)
    expected: list = None  # the outputs, where the reference evaluator can't tell; []: any will do
    files: object = None  # makes the files that the model refers to, in the folder given

    @property
    def size(self):
        return len(self.data)


def tensor(value, name):
    return numpy_helper.from_array(np.asarray(value), name)


def info(name, dtype, shape):
    """A declared type; `dtype` is NumPy's or a number of TensorProto.DataType."""
    number = dtype if isinstance(dtype, int) else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, number, shape)


def untyped(name):
    return helper.make_empty_tensor_value_info(name)


def node(op_type, inputs, outputs, **attributes):
    filled = {key: value for key, value in attributes.items() if value != []}
    made = helper.make_node(op_type, inputs, outputs, **filled)
    made.attribute.extend(helper.make_attribute(key, [], attr_type=8) for key in attributes if key not in filled)
    return made


def graph(nodes, inputs=(), outputs=(), initializers=(), name="g", **more):
    outputs = [untyped(o) if isinstance(o, str) else o for o in outputs]
    return helper.make_graph(list(nodes), name, list(inputs), outputs, list(initializers), **more)


def model(*args, opset=OPSET, ir_version=10, functions=(), opsets=None, **kwargs):
    imports = [helper.make_opsetid(domain, version) for domain, version in (opsets or {"": opset}).items()]
    return helper.make_model(graph(*args, **kwargs), opset_imports=imports, ir_version=ir_version,
                             functions=list(functions))


def f32(*shape):
    """Small numbers, none of them equal."""
    count = int(np.prod(shape))
    return (np.arange(count, dtype="float32").reshape(shape) - count / 3) / 4


def i64(*values):
    return np.array(values[0] if len(values) == 1 else values, dtype="int64")


def one(name, op_type, feeds, want, constants=(), outputs=1, opset=OPSET, dynamic=False, expected=None, domain=None,
        version=1, **attributes):
    """A model of one operator. `feeds`: operands in order, None where left out; those in `constants` are initializers.
    `version`: of the operators of `domain`.

    `dynamic`: True for no known dimensions, or declared shapes of some operands."""
    inputs, initializers, names, given = [], [], [], {}
    for key, value in feeds.items():
        names.append("" if value is None else key)
        if value is None:
            continue
        array = np.asarray(value)
        if key in constants:
            initializers.append(tensor(array, key))
            continue
        shape = [f"{key}{i}" for i in range(array.ndim)] if dynamic is True else list(array.shape)
        if isinstance(dynamic, dict):
            shape = dynamic.get(key, shape)
        inputs.append(info(key, array.dtype, shape))
        given[key] = array
    results = [f"y{i}" for i in range(outputs)]
    if domain:
        attributes["domain"] = domain
    made = model([node(op_type, names, results, **attributes)], inputs, results, initializers,
                 opsets={"": opset, **({domain: version} if domain else {})})
    return Case(name, made.SerializeToString(), want, given, expected)


def forms(name, op_type, feeds, want, values, **more):
    """The same with operands `values` known when compiling, when running, and with sizes known when running.

    (The number of sizes and the like that an operand lists is always known: the rank of a result depends on it.)"""
    sizes = True
    if name.startswith(("shape_", "size_")):
        sizes = {key: [f"{key}{i}" for i in range(np.ndim(value))] for key, value in feeds.items() if key not in values}
    yield one(name + "_constant", op_type, feeds, want, constants=values, **more)
    yield one(name + "_input", op_type, feeds, want, **more)
    yield one(name + "_dynamic", op_type, feeds, want, dynamic=sizes, **more)


FLOAT = TensorProto.FLOAT
