# SPDX-License-Identifier: Apache-2.0
"""Single layers as models: matrix products of the shapes that networks have, and the convolutions of ResNet-50 (He et
al. 2015) and MobileNet (Howard et al. 2017)."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

# m, k, n
PRODUCTS = [(1024, 1024, 1024), (512, 512, 512), (256, 256, 256), (128, 768, 768), (128, 768, 3072), (1, 4096, 4096),
            (197, 64, 197)]
# channels in, size, channels out, kernel, stride, groups
CONVOLUTIONS = [(3, 224, 64, 7, 2, 1), (64, 56, 64, 1, 1, 1), (64, 56, 64, 3, 1, 1), (256, 56, 512, 1, 2, 1),
                (128, 28, 128, 3, 1, 1), (256, 14, 256, 3, 1, 1), (1024, 14, 256, 1, 1, 1), (512, 7, 512, 3, 1, 1),
                (64, 112, 64, 3, 2, 64), (512, 14, 512, 3, 1, 512)]


def _model(name, node, inputs, output_shape, initializers=()):
    graph = helper.make_graph(
        [node], name, [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output_shape)], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def product(m, k, n):
    """Both operands are inputs: what packs them counts."""
    return _model("product", helper.make_node("MatMul", ["a", "b"], ["y"]), {"a": (m, k), "b": (k, n)}, (m, n))


def convolution(channels, size, outputs, kernel, stride, groups):
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((outputs, channels // groups, kernel, kernel), dtype=np.float32) * 0.1
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                            pads=[kernel // 2] * 4, group=groups)
    out = (size + stride - 1) // stride
    return _model("convolution", node, {"x": (1, channels, size, size)}, (1, outputs, out, out),
                  [numpy_helper.from_array(weight, "w")])
