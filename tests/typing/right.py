# SPDX-License-Identifier: Apache-2.0
"""Uses of the public API that type checkers have to accept; tests/python/test_typing.py checks it, nothing runs it."""
import pathlib
from typing import Any

import numpy as np

import treadle
from treadle import onnxruntime, relay, runtime


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
