# SPDX-License-Identifier: Apache-2.0
"""Modules that relay.frontend.from_onnx reads from files don't depend on the files afterwards."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from treadle import relay


def model(weight):
    node = helper.make_node("Add", ["x", "w"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, weight.shape) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def aligned(path, weight):
    """Writes the model so that its weight's bytes begin at a multiple of 64 in the file."""
    proto = model(weight)
    for padding in range(64):
        proto.producer_name = "p" * padding
        data = proto.SerializeToString(deterministic=True)
        at = data.index(weight.tobytes())
        if at % 64 == 0:
            path.write_bytes(data)
            return at
    raise AssertionError("no padding aligns the weight")


@pytest.mark.parametrize("external", [False, True])
def test_files_may_be_written_again(tmp_path, external):
    weight = np.arange(1, 4097, dtype="f4").reshape(64, 64)
    path, data = tmp_path / "m.onnx", tmp_path / "m.onnx"
    if external:
        data, at = tmp_path / "weights", 0
        onnx.save(model(weight), path, save_as_external_data=True, location="weights", size_threshold=0)
    else:
        at = aligned(path, weight)
    module, params = relay.frontend.from_onnx(path, freeze_params=False)
    with data.open("r+b") as file:
        file.seek(at)
        file.write(bytes(weight.nbytes))
    np.testing.assert_array_equal(params["w"].numpy(), weight)
    assert "add" in str(module)


@pytest.mark.parametrize("external", [False, True])
def test_the_same_from_a_file_and_from_bytes(tmp_path, external):
    weight = np.arange(4096, dtype="f4").reshape(64, 64)
    path = tmp_path / "m.onnx"
    onnx.save(model(weight), path, save_as_external_data=external, location="weights", size_threshold=0)
    module, params = relay.frontend.from_onnx(str(path), freeze_params=False)
    renamed, _ = relay.frontend.from_onnx(path, opset=21, freeze_params=False)
    other, others = relay.frontend.from_onnx(model(weight), freeze_params=False)
    assert str(module) == str(other) == str(renamed)
    np.testing.assert_array_equal(params["w"].numpy(), others["w"].numpy())
