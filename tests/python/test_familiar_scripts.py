# SPDX-License-Identifier: Apache-2.0
"""Scripts as people write them for TVM run with the imports changed only: `import treadle as tvm`."""
import numpy as np
import onnxruntime
import pytest
import zoo

import treadle as tvm
import treadle.relay as relay
from treadle.contrib import graph_executor


@pytest.fixture(scope="module")
def resnet18():
    return zoo.resnet18()


def reference(model, data):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: data})[0]


def test_an_onnx_model_is_compiled_saved_and_run(resnet18, tmp_path):
    save_path = str(tmp_path) + "/"
    img_data = np.expand_dims(np.random.default_rng(0).standard_normal((3, 224, 224)), axis=0)  # float64
    input_name = resnet18.graph.input[0].name
    target = tvm.target.Target(target="llvm", host="llvm")
    shape_dict = {input_name: img_data.shape}
    mod, params = relay.frontend.from_onnx(resnet18, shape_dict, export_node_renamed_model_path=save_path)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    lib_fname = save_path + "mod.so"
    lib.get_lib().export_library(lib_fname)
    params_fname = save_path + "mod.params"
    with open(params_fname, "wb") as param_file:
        param_file.write(relay.save_param_dict(lib.get_params()))
    json_fname = save_path + "mod.json"
    with open(json_fname, "w") as json_file:
        json_file.write(lib.get_executor_config())
    dev = tvm.device(str(target), 0)
    module = graph_executor.GraphModule(lib["default"](dev))
    module.set_input(input_name, img_data)
    module.run()
    output_shape = (1, 1000)
    tvm_output = module.get_output(0, tvm.nd.empty(output_shape)).numpy()
    assert zoo.compare(tvm_output, reference(resnet18, img_data.astype("float32"))) is None


def test_fusion_is_shown_by_printing_the_module(resnet18):
    from treadle.relay import transform

    mod, _ = relay.frontend.from_onnx(resnet18, {resnet18.graph.input[0].name: (1, 3, 224, 224)})
    before = str(mod)
    mod = transform.FuseOps()(mod)
    after = str(mod)
    assert "Primitive=1" in after and "Primitive" not in before
    group = after[:after.index("Primitive=1")].rsplit("= fn (", 1)
    assert group[1].startswith("%p0")


def test_the_pieces_of_a_build_by_name():
    x = relay.var("x", shape=(1, 10))
    f = relay.Function([x], relay.nn.relu(x))
    mod = tvm.IRModule.from_expr(f)
    graph, lib, params = relay.build(mod, "llvm")
    rt = graph_executor.create(graph, lib, tvm.cpu(0))
    rt.set_input("x", np.full((1, 10), -1, "float32"))
    rt.run()
    np.testing.assert_array_equal(rt.get_output(0).numpy(), np.zeros((1, 10)))
    assert params == {} or dict(params) == {}
