# SPDX-License-Identifier: Apache-2.0
"""Mistakes that type checkers have to find: each line with an "error" comment, with that code, and no other."""
import treadle
from treadle import onnxruntime, relay, runtime, te, tir

model = treadle.compile("m.onnx", opt_level="3")  # error: arg-type
treadle.compile("m.onnx", shapes=[1, 3])  # error: arg-type
treadle.compile("m.onnx", shapes={"x": (None, 3)})  # error: dict-item
treadle.compile("m.onnx", opt_levle=3)  # error: call-arg
treadle.compile(3)  # error: arg-type
treadle.load(b"m.so")  # error: arg-type
model.runn(None, {})  # error: attr-defined
model.run(None, [1, 2])  # error: arg-type
model.benchmark(repeats=3)  # error: call-arg
model.save()  # error: call-arg
seconds: str = model.benchmark().median  # error: assignment
treadle.no_such_function()  # error: attr-defined
treadle.cpu("0")  # error: arg-type
runtime.load_module(3)  # error: arg-type
relay.var(3)  # error: arg-type
onnxruntime.SessionOptions().intra_op_num_threads = "1"  # error: assignment
onnxruntime.SessionOptions().intra_op_threads = 1  # error: attr-defined

a = te.placeholder((4, 5))
te.placeholder("4, 5")  # error: arg-type
te.compute(a.shape, 3)  # error: arg-type
stage = te.create_schedule(a.op)[a]
stage.split(a, factor=4)  # error: arg-type
stage.vectorize(a.op)  # error: arg-type
index: str = te.var("n") + 1  # error: assignment
te.exp("x")  # error: arg-type
te.reduce_axis(4)  # error: arg-type
tir.Schedule(a)  # error: arg-type
tir.For(te.var("i"), 0, 4)  # error: call-arg
relay.Function([relay.const(1.0)], relay.const(1.0))  # error: list-item
relay.transform.FuseOps()(relay.const(1.0))  # error: arg-type
relay.TensorType(4, "float32")  # error: arg-type
treadle.IRModule.from_expr("main")  # error: arg-type
treadle.transform.PassContext(opt_levl=3)  # error: call-arg
treadle.target.Target(3)  # error: arg-type
relay.nn.conv2d(relay.const(1.0), relay.const(1.0), paddings=1)  # error: call-arg
relay.nn.softmax(relay.const(1.0), axis="last")  # error: arg-type
relay.nn.rellu(relay.const(1.0))  # error: attr-defined
kernels: int = relay.add(relay.const(1.0), 2.0)  # error: assignment
