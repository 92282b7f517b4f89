# SPDX-License-Identifier: Apache-2.0
"""Calls of operators in Relay text, a line each in calls.txt, and what somebody who writes such a text may get wrong: sizes,
ranks, element types, operands, attributes. Internal operators (packed, blocked, tiled forms) are called, too: passes make
sure of what these are given, a text doesn't."""
import collections
import pathlib
import re

import mutants

PATH = pathlib.Path(__file__).with_name("calls.txt")
DTYPES = "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 uint32 uint64 bool".split()
SIZES = [0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 32, 33, 64, "n", "m", "?"]
STRINGS = ["NCHW", "NHWC", "NCHW16c", "NCHW8c", "NCHW4c", "NCHW0c", "NCHW1c", "OIHW", "HWIO", "HWOI", "OIHW16i16o", "NCW", "NCDHW",
           "", "N", "NCHWC", "constant", "edge", "reflect", "sum", "linear", "nearest_neighbor", "none", "both"]
ATTRIBUTES = """axis axes strides dilation groups padding channels kernel_size units layout data_layout kernel_layout out_layout
    out_dtype output_padding pool_size ceil_mode exclude keepdims newshape begin end indices_or_sections block_size dtype
    tile_groups group_inputs group_outputs transpose_a transpose_b auto_scheduler_rewritten_layout method rounding""".split()
TENSOR = re.compile(r"Tensor\[\(([^)]*)\), (\w+)\]")
VALUE = re.compile(r'(\w+)=("[^"]*"|\[[^]]*\](?:, \[[^]]*\])*\]?|[^,)\s]+)')


def of_operators():
    """A dictionary from the name of each operator to its calls."""
    calls = collections.defaultdict(list)
    for line in PATH.read_text(encoding="utf-8").splitlines():
        if line and line[0] != "#":
            name, call = line.split(" ", 1)
            calls[name].append(call)
    return calls


def text(call):
    return f'#[version = "0.0.5"]\ndef @main{call}\n'


def _spliced(call, match, other, group=0):
    return call[:match.start(group)] + other + call[match.end(group):]


def _number(random):
    return str(random.choice(SIZES[:-3] if random.random() < 0.7 else mutants.INTEGERS))


def _type(random, call):
    """A size, the rank or the elements of an operand."""
    tensors = list(TENSOR.finditer(call))
    if not tensors:
        return call
    tensor, way = random.choice(tensors), random.random()
    if way < 0.2:
        return _spliced(call, tensor, random.choice(DTYPES), 2)
    sizes = [size for size in tensor[1].replace(" ", "").split(",") if size]
    at = random.randrange(len(sizes) + 1)
    if way < 0.35:
        sizes.insert(at, str(random.choice(SIZES)))
    elif at < len(sizes) and way < 0.5:
        del sizes[at]
    elif at < len(sizes):
        old, new = sizes[at], str(random.choice(SIZES if random.random() < 0.85 else mutants.INTEGERS))
        if random.random() < 0.4:  # everywhere, so that operands agree
            return TENSOR.sub(lambda t: "Tensor[(" + ", ".join(new if s == old else s for s in t[1].split(", ")) + f"), {t[2]}]", call)
        sizes[at] = new
    return _spliced(call, tensor, ", ".join(sizes), 1)


def _attribute(random, call):
    """An attribute's value, or whether it is there."""
    body = call.index("{")
    attributes = list(VALUE.finditer(call, body))
    if not attributes or random.random() < 0.15:
        close = call.rindex(")")
        value = random.choice([_number(random), f"[{_number(random)}, {_number(random)}]", f'"{random.choice(STRINGS + DTYPES)}"'])
        return call[:close] + f", {random.choice(ATTRIBUTES)}={value}" + call[close:]
    attribute = random.choice(attributes)
    value = attribute[2]
    if random.random() < 0.1:
        return _spliced(call, attribute, "").replace(", , ", ", ").replace(", )", ")")
    if value[0] == '"':
        return _spliced(call, attribute, f'"{random.choice(STRINGS + DTYPES)}"', 2)
    numbers = list(re.finditer(r"-?\d+", value))
    if value[0] != "[" or (numbers and random.random() < 0.75):
        number = random.choice(numbers) if numbers else None
        return _spliced(call, attribute, _spliced(value, number, _number(random)) if number else _number(random), 2)
    if random.random() < 0.5 or not numbers:
        return _spliced(call, attribute, value[:-1] + (", " if numbers else "") + _number(random) + "]", 2)
    return _spliced(call, attribute, re.sub(r"(, )?-?\d+\]$", "]", value), 2)


def _operands(random, call):
    """Operands change places, or one is another."""
    body = call.index("{")
    names = list(re.finditer(r"%a\d+", call[body:]))
    if not names:
        return call
    name, other = random.choice(names), random.choice(names).group()
    return call[:body] + _spliced(call[body:], name, other)


def damaged(random, call):
    """The text of a call after none to three such changes."""
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3])):
        call = random.choice([_type, _type, _type, _attribute, _attribute, _operands])(random, call)
    return text(call)
