# SPDX-License-Identifier: Apache-2.0
"""A small int8 network on the accelerator: compile, look at the instructions, store, load, run, compare with NumPy.

Run it where libmyaccel.so and libtreadle_myaccel.so are, with TREADLE_PLUGIN_PATH=$PWD.
"""
import numpy as np

import treadle
from treadle import relay

treadle.load_plugin("./libmyaccel.so")

rng = np.random.default_rng(0)
weights = [rng.integers(-127, 128, shape).astype("int8") for shape in ((64, 32), (10, 64))]
biases = [rng.integers(-1000, 1000, (n,)).astype("int32") for n in (64, 10)]


def layer(x, weight, bias, shift):
    """int8 to int8: product, bias, rectifier, scaling by a power of two."""
    y = relay.nn.dense(x, relay.const(weight), units=weight.shape[0], out_dtype="int32")
    y = relay.nn.relu(relay.add(y, relay.const(bias)))
    y = relay.clip(relay.right_shift(y, relay.const(np.int32(shift))), 0, 127)
    return relay.cast(y, "int8")


x = relay.var("x", shape=(8, 32), dtype="int8")
mod = treadle.IRModule.from_expr(relay.Function([x], layer(layer(x, weights[0], biases[0], 8), weights[1], biases[1], 7)))
lib = relay.build(mod, external=["myaccel"])
print(lib.get_source("partition"))
symbol = next(word[1:] for word in lib.get_source("partition").split() if word.startswith("@tvmgen"))
print(lib.get_source(symbol))

lib.export_library("net.so")
model = treadle.load("net.so")
value = rng.integers(-128, 128, (8, 32)).astype("int8")
result = next(iter(model(x=value).values()))

expected = value
for weight, bias, shift in zip(weights, biases, (8, 7)):
    product = expected.astype("int32") @ weight.astype("int32").T + bias
    expected = np.clip(np.maximum(product, 0) >> shift, 0, 127).astype("int8")
np.testing.assert_array_equal(result, expected)
print("equal to NumPy")
