# SPDX-License-Identifier: Apache-2.0
"""Groups that fusion forms in random programs, compared with the description of fusion written down once more."""
import random

import fusion_reference
import numpy as np
import pytest

import treadle as tvm
from treadle import relay


class Program:
    """A random program over float32 tensors: element-wise, broadcast, injective, reducing and complex operators, tuples,
    values used several times, operators that don't fuse."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        side = self.random.choice([4, 8])
        self.lines, self.params = [], [("x0", (1, self.random.choice([4, 8]), side, side))]
        self.values = [("%x0", self.params[0][1])]
        self.count = 0
        for _ in range(self.random.randint(3, 28)):
            value, shape = self.pick()
            self.random.choice([self.unary, self.unary, self.binary, self.binary, self.scaled, self.convolution,
                                self.complex, self.reduction, self.joined, self.parts, self.moved, self.apart])(value, shape)

    def pick(self):
        return self.values[-1] if self.random.random() < 0.55 else self.random.choice(self.values)

    def emit(self, text, shape=None):
        name = f"%{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text};")
        if shape is not None:
            self.values.append((name, shape))
        return name

    def weight(self, *shape):
        self.params.append((f"w{len(self.params)}", shape))
        return "%" + self.params[-1][0]

    def unary(self, value, shape):
        self.emit(f"{self.random.choice(['exp', 'negative', 'nn.relu', 'copy'])}({value})", shape)

    def binary(self, value, shape):
        other = self.random.choice([v for v, s in self.values if s == shape] + ["2f"])
        self.emit(f"{self.random.choice(['add', 'multiply', 'maximum'])}({value}, {other})", shape)

    def scaled(self, value, shape):
        self.emit(f"add({value}, {self.weight(shape[-1])})", shape)
        if len(shape) == 4 and self.random.random() < 0.5:
            self.emit(f"nn.bias_add({value}, {self.weight(shape[1])})", shape)

    def convolution(self, value, shape):
        if len(shape) == 4:
            out = self.random.choice([4, 8])
            weight = self.weight(out, shape[1], 3, 3)
            self.emit(f"nn.conv2d({value}, {weight}, padding=[1, 1, 1, 1])", (shape[0], out, *shape[2:]))

    def complex(self, value, shape):
        if len(shape) == 4 and self.random.random() < 0.5:
            self.emit(f"nn.max_pool2d({value}, pool_size=[3, 3], padding=[1, 1, 1, 1])", shape)
        else:
            self.emit(f"nn.softmax({value})", shape)

    def reduction(self, value, shape):
        name = self.random.choice(["sum", "max", "mean"])
        self.emit(f"{name}({value}, axis=[{len(shape) - 1}], keepdims=True)", (*shape[:-1], 1))

    def joined(self, value, shape):
        if len(shape) < 2:
            return
        fits = [v for v in self.values if len(v[1]) == len(shape) and v[1][:1] + v[1][2:] == shape[:1] + shape[2:]]
        parts = [self.random.choice(fits) for _ in range(self.random.randint(1, 3))] + [(value, shape)]
        fields = "(" + ", ".join(name for name, _ in parts) + ")"
        if self.random.random() < 0.5:
            fields = self.emit(fields)
        self.emit(f"concatenate({fields}, axis=1)", (shape[0], sum(s[1] for _, s in parts), *shape[2:]))

    def parts(self, value, shape):
        if len(shape) > 1 and shape[1] % 2 == 0:
            name = self.emit(f"split({value}, indices_or_sections=2, axis=1)")
            for i in range(self.random.randint(1, 2)):
                self.emit(f"{name}.{i}", (shape[0], shape[1] // 2, *shape[2:]))

    def moved(self, value, shape):
        axes = list(range(len(shape)))
        self.random.shuffle(axes)
        which = self.random.randint(0, 2)
        if which == 0:
            self.emit(f"transpose({value}, axes={axes})", tuple(shape[axis] for axis in axes))
        elif which == 1:
            self.emit(f"strided_slice({value}, begin=[0], end=[1], strides=[1], axes=[0])", (1, *shape[1:]))
        elif len(shape) < 5:
            self.emit(f"expand_dims({value}, axis=0)", (1, *shape))

    def apart(self, value, shape):
        which = self.random.randint(0, 3)
        if which == 0:
            self.emit(f"annotation.stop_fusion({value})", shape)
        elif which == 1:
            self.emit(f"argsort({value}, dtype=\"float32\")", shape)

    def text(self):
        results = [self.values[-1][0]]
        if self.random.random() < 0.3:
            results = [self.random.choice(self.values)[0] for _ in range(3)]
        result = results[0] if len(results) == 1 else f"({', '.join(results)})"
        params = ", ".join(f"%{name}: Tensor[({', '.join(map(str, shape))}), float32]" for name, shape in self.params)
        return "#[version = \"0.0.5\"]\ndef @main(" + params + ") {\n" + "\n".join(self.lines) + f"\n  {result}\n}}\n"


def check(text, depths=(256, 4)):
    function = relay.parse(text)["main"]
    for level, depth in ((0, 256), *((2, depth) for depth in depths)):
        groups = fusion_reference.actual(function, level, depth)
        assert groups == fusion_reference.expected(function, level, depth), f"level {level} depth {depth}\n{text}"


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_programs(first):
    for seed in range(first, first + 20):
        check(Program(seed).text(), depths=(256, random.Random(seed).choice([2, 3, 5, 8])))


def test_control_flow():
    check("""#[version = "0.0.5"]
def @main(%x: Tensor[(4), float32], %c: bool) {
  %0 = exp(%x);
  let %a = add(%0, 1f);
  %1 = multiply(%a, %a);
  %2 = if (%c) {
    %3 = negative(%1);
    exp(%3)
  } else {
    let %b = add(%1, %0);
    nn.relu(%b)
  };
  %4 = fn (%y: Tensor[(4), float32]) {
    %5 = exp(%y);
    add(%5, %1)
  };
  %6 = %4(%2);
  %7 = nn.relu(%6);
  add(%7, %2)
}
""")


def test_checks_of_indices_in_modules_fused_before():
    """A build checks indices within kernels that FuseOps made earlier: the limits become arguments of the kernel."""
    x = relay.var("x", shape=(10, 1))
    indices = relay.const([[0, 1], [1, 0]], dtype="int64")
    body = relay.gather_nd(relay.concatenate([x, x], axis=-1), indices)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    lib = relay.build(relay.transform.FuseOps(2)(mod), "llvm")
    module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=np.arange(10, dtype="float32").reshape(10, 1))
    np.testing.assert_array_equal(module.get_output(0).numpy(), [0, 1])
