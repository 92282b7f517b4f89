# SPDX-License-Identifier: Apache-2.0
"""Models that somebody damaged: fields of a ModelProto changed at random, or bytes of the file."""
import re
import struct

import onnx
from onnx import AttributeProto, TensorProto, helper

INTEGERS = [0, 1, -1, 2, 3, 5, 7, 63, 64, 65, 127, 128, 255, 256, 2**31 - 1, 2**31, -2**31, 2**32, 2**40, 2**62, 2**63 - 1,
            -2**63]
FLOATS = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e38, -1e38, 1e-45, 0.5, 1e10]
STRINGS = [b"", b"x", b"SAME_UPPER", b"constant", b"linear", b"\xff\xfe", b"reflect", b"add"]
OPERATORS = ("Conv Slice Pad Reshape Gather TopK Resize LSTM Loop Scan If Einsum ConvTranspose MaxPool Unique NonZero Split "
             "Concat OneHot Range Tile Expand ScatterND GatherND DFT Attention").split()
OPSETS = [1, 6, 7, 9, 11, 13, 17, 18, 21, 22, 23, 25, 28, 0, -1, 1000]
TYPES = range(28)
ATTRIBUTE_TYPES = range(15)


def _attribute(random, a):
    if random.random() < 0.04:  # what it holds is of another type
        a.type = random.choice(ATTRIBUTE_TYPES)
    elif a.type == AttributeProto.INT:
        a.i = random.choice(INTEGERS)
    elif a.type == AttributeProto.FLOAT:
        a.f = random.choice(FLOATS)
    elif a.type == AttributeProto.STRING:
        a.s = random.choice(STRINGS)
    elif a.type == AttributeProto.GRAPH and a.g.node:
        _change(random, a.g)
    elif a.type == AttributeProto.INTS:
        way = random.randrange(4)
        if way == 0 and a.ints:
            a.ints[random.randrange(len(a.ints))] = random.choice(INTEGERS)
        elif way == 1:
            a.ints.append(random.choice(INTEGERS))
        elif a.ints:
            del a.ints[-1 if way == 2 else 0:]


def _tensor(random, t):
    way = random.randrange(5)
    if way == 0 and t.dims:
        t.dims[random.randrange(len(t.dims))] = random.choice(INTEGERS)
    elif way == 1:
        t.data_type = random.choice(TYPES)
    elif way == 2 and t.raw_data:
        data = bytearray(t.raw_data)
        for _ in range(random.randint(1, 8)):
            data[random.randrange(len(data))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        t.raw_data = bytes(data)
    elif way == 3 and t.data_type == TensorProto.INT64:
        count = len(t.raw_data) // 8
        t.raw_data = struct.pack(f"<{count}q", *(random.choice(INTEGERS) for _ in range(count)))
    else:
        t.dims.append(random.choice([0, 1, 2]))


def _input(random, value):
    kind = value.type.tensor_type
    way = random.randrange(4)
    if way == 1:
        kind.elem_type = random.choice(TYPES)
    elif way == 2:
        kind.shape.dim.add().dim_value = random.choice([0, 1, 3])
    elif way == 3 and random.random() < 0.2:  # not even the rank is known
        kind.ClearField("shape")
    elif kind.shape.dim:
        dim = random.choice(kind.shape.dim)
        if way == 0:
            dim.dim_value = random.choice(INTEGERS)
        else:
            dim.dim_param = random.choice(["n", "m", "", "?"])


def _open(random, graph):
    """What the model knew is what it is given, of sizes that it says, or not."""
    tensor = random.choice(graph.initializer)
    dims = [random.choice([d, d, "n", None]) for d in tensor.dims]
    graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, dims if random.random() < 0.8 else None))
    graph.initializer.remove(tensor)


def _rename(random, graph, node):
    """An attribute under the name of another, or one that another node has."""
    attributes = [a for n in graph.node for a in n.attribute]
    if random.random() < 0.5 and node.attribute:
        random.choice(node.attribute).name = random.choice(attributes).name
    elif attributes:
        node.attribute.add().CopyFrom(random.choice(attributes))


def _ends(random, graph, names):
    """Another result, a result of another type, or one less of a node's."""
    way, node = random.randrange(4), random.choice(graph.node)
    if way == 0:
        graph.output.append(helper.make_empty_tensor_value_info(random.choice(names)))
    elif way == 1 and graph.output:
        _input(random, random.choice(graph.output))
    elif way == 2 and len(node.output) > 1:
        del node.output[-1]
    else:
        node.output.append(random.choice(["more", *names]))


def _change(random, graph):
    node = random.choice(graph.node)
    names = [name for n in graph.node for name in [*n.input, *n.output]] + [t.name for t in graph.initializer]
    way = random.randrange(17)
    if way == 13 and graph.initializer:
        _open(random, graph)
    elif way == 14:
        _rename(random, graph, node)
    elif way == 15:
        _ends(random, graph, names)
    elif way == 16 and len(node.input) > 1:
        first, second = random.sample(range(len(node.input)), 2)
        node.input[first], node.input[second] = node.input[second], node.input[first]
    elif way <= 3 and node.attribute:
        _attribute(random, random.choice(node.attribute))
    elif way == 4 and node.attribute:
        node.attribute.remove(random.choice(node.attribute))
    elif way == 5 and node.input:
        node.input[random.randrange(len(node.input))] = random.choice([*names, "", "nowhere"])
    elif way == 6 and node.input:
        if random.random() < 0.5:
            del node.input[-1]
        else:
            node.input.append(random.choice(names))
    elif way in (7, 8) and graph.initializer:
        _tensor(random, random.choice(graph.initializer))
    elif way == 9 and graph.input:
        _input(random, random.choice(graph.input))
    elif way == 10:
        node.op_type = random.choice([*OPERATORS, *(n.op_type for n in graph.node)])
    elif way == 11 and node.output:
        node.output[random.randrange(len(node.output))] = random.choice([*names, ""])
    else:
        graph.node.add().CopyFrom(node)


def of_model(random, model):
    """The file of a model after one to three changes; None where protobuf can't write it."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    try:
        if random.random() < 0.05:
            random.choice(changed.opset_import).version = random.choice(OPSETS)
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            _change(random, changed.graph)
        return changed.SerializeToString()
    except (ValueError, TypeError):
        return None


def of_bytes(random, data):
    """The file after one to sixteen bytes changed, came or went."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4, 16])):
        way, at = random.randrange(4), random.randrange(len(data))
        if way == 0:
            data[at] = random.randrange(256)
        elif way == 1:
            data[at] ^= 1 << random.randrange(8)
        elif way == 2 and len(data) > 16:
            del data[at:at + random.randint(1, 9)]
        else:
            data[at:at] = bytes(random.randrange(256) for _ in range(random.randint(1, 6)))
    return bytes(data)


def of_text(random, data):
    """A text after one to three of its numbers or quoted names became others."""
    text = data.decode(errors="replace")
    for _ in range(random.choice([1, 1, 2, 3])):
        words = list(re.finditer(r"-?\d+" if random.random() < 0.7 else r'"[^"]*"', text))
        if not words:
            break
        word = random.choice(words)
        other = random.choice(words).group() if random.random() < 0.4 or word.group()[0] == '"' else \
            str(random.choice(INTEGERS))
        text = text[:word.start()] + other + text[word.end():]
    return text.encode()
