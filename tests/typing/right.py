# SPDX-License-Identifier: Apache-2.0
"""Uses of the public API that type checkers have to accept; tests/python/test_typing.py checks it, nothing runs it."""
import pathlib
from typing import Any

import numpy as np

import treadle
from treadle import onnxruntime, relay, runtime, te, tir
from treadle.relay.dataflow_pattern import DFPatternCallback, is_constant, is_op, wildcard


def compile_and_run(path: pathlib.Path) -> np.ndarray:
    model = treadle.compile(path, shapes={"x": (1, 3, 224, 224)}, dims={"batch": 1}, target={"kind": "llvm"},
                            progress=lambda progress: print(progress.done, progress.total))
    model.save(path.with_suffix(".so"))
    loaded: treadle.Model = treadle.load(path.with_suffix(".so"), threads=1)
    seconds: float = loaded.benchmark(repeat=3).median
    future = loaded.run_async(x=[1, 2])
    outputs: dict[str, Any] = future.result()
    names: list[str] = [info.name for info in loaded.inputs]
    context = loaded.create_context(threads=2)
    context.bind_output("y", np.empty(3, np.float32))
    print(seconds, names, [time.seconds * 1e3 for time in loaded.profile()], model.explain().splitlines())
    print([row.max_abs for row in model.verify(reference={"y": np.zeros(3)})])
    result: np.ndarray = outputs["y"]
    return result


def tensors() -> tuple[int, ...]:
    tensor = treadle.nd.array([1.0, 2.0], treadle.cpu(0))
    data: bytes = runtime.save_param_dict({"w": tensor})
    loaded: dict[str, treadle.nd.NDArray] = runtime.load_param_dict(data)
    return loaded["w"].shape + tensor.numpy().shape


def graphs() -> runtime.Module:
    x = relay.var("x", shape=(2, 3), dtype="float32")
    module = treadle.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    factory = relay.build(relay.parse(str(module)), target="llvm", params={"w": np.zeros(3)})
    print(factory, relay.const(1.0), relay.create_executor("graph"))
    return runtime.load_module("kernels.so")


def sessions(path: str) -> list[str]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    first = session.run(None, {"x": np.zeros(3, np.float32)})[0]
    print(first, onnxruntime.OrtValue.ortvalue_from_numpy(first).shape())
    try:
        return [node.name for node in session.get_inputs()]
    except treadle.UnsupportedOpError as error:
        return list(error.nodes)


def expressions(n: int) -> tir.PrimFunc:
    m = te.var("m")
    a, b = te.placeholder((n, m), name="a"), te.placeholder((n,), "float32")
    k = te.reduce_axis((0, m))
    c = te.compute((n,), lambda i: te.sum(a[i, k] * b[i] + tir.exp(b[i]) - 1.0, axis=k), name="c")
    schedule = te.create_schedule(c.op)
    outer, inner = schedule[c].split(schedule[c].op.axis[0], factor=8)
    schedule[c].reorder(outer, inner)
    schedule[c].bind(outer, te.thread_axis("blockIdx.x"))
    names: list[str] = [axis.var.name for axis in schedule[c].all_iter_vars]
    half: tir.PrimExpr = (m + 1) // 2
    other = te.compute(a.shape, lambda *i: a(*i) + 1, name="d")
    print(names, half, (a + b * 2.0).shape, other.op.num_outputs, te.placeholder(a.shape), te.if_then_else(m > 3, m, 0), tir.min_value("int8"))
    loops = tir.Schedule(te.create_prim_func([a, b, c]))
    block = loops.get_block("c")
    first, *_ = loops.get_loops(block)
    loops.parallel(loops.split(first, [None, 4])[0])
    return loops.func


class Doubled(DFPatternCallback):
    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.x = wildcard()
        self.pattern = is_op("multiply")(self.x, is_constant())

    def callback(self, pre: relay.Expr, post: relay.Expr, node_map: Any) -> relay.Expr:
        found: relay.Expr = node_map[self.x][0]
        return found + found


class Counter(relay.ExprVisitor):
    def visit_call(self, call: relay.Call) -> None:
        name: str = call.op.name
        print(name, len(call.args), call.attrs.keys())
        super().visit_call(call)


def graph_passes(module: treadle.IRModule) -> dict[str, int]:
    @treadle.transform.module_pass(opt_level=1)
    def mine(mod: treadle.IRModule, context: treadle.transform.PassContext) -> treadle.IRModule:
        return mod

    with treadle.transform.PassContext(opt_level=3, instruments=[treadle.instrument.PassTimingInstrument()]) as context:
        module = treadle.transform.Sequential([relay.transform.InferType(), mine])(module)
    rewritten = Doubled().rewrite(module["main"])
    Counter().visit(rewritten)
    free: list[relay.Var] = relay.analysis.free_vars(rewritten)
    shape: tuple[int, ...] = relay.TensorType((1, 2)).concrete_shape
    print(context.opt_level, free, shape, module.get_global_var("main").name_hint, relay.const(1.0) * 2 + free[0])
    return relay.analysis.list_op_freqs(module)


def operators(x: relay.Expr, weight: np.ndarray) -> relay.Expr:
    from treadle.relay.op.nn import bias_add

    y = relay.nn.conv2d(x, weight, strides=2, padding=(1, 1), channels=8)
    halves = relay.split(relay.nn.relu(bias_add(y, relay.const(np.zeros(8)))), 2, axis=1)
    return relay.op.tensor.concatenate([halves[0], relay.image.resize2d(halves[1], (4, 4))], axis=1)
