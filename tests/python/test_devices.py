# SPDX-License-Identifier: Apache-2.0
"""Values on several devices: copies between them, and which device each value is on."""
import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.relay.transform import RewriteAnnotatedOps

SHAPE = (4, 8)


def on(device, value):
    return relay.annotation.on_device(value, device)


def rewritten(params, body, fallback):
    mod = treadle.IRModule.from_expr(relay.Function(params, body))
    return RewriteAnnotatedOps(fallback)(mod)["main"]


def copies(function):
    """(operator, from, to) of each copy."""
    found = []

    def visit(e):
        if isinstance(e, relay.Call) and getattr(e.op, "name", "") == "device_copy":
            source = e.args[0].op.name if isinstance(e.args[0], relay.Call) else "?"
            found.append((source, int(e.attrs.src_dev_type), int(e.attrs.dst_dev_type)))

    relay.analysis.post_order_visit(function, visit)
    return sorted(found)


def test_three_readers_share_one_copy():
    x = relay.var("x", shape=SHAPE)
    total = on(4, relay.exp(x))
    function = rewritten([x], relay.tanh(total) + relay.log(total) * relay.sqrt(total), 1)
    assert copies(function) == [("exp", 4, 1)]


def test_convolutions_of_one_device_between_those_of_another():
    data = [relay.var(f"data{i}", shape=(1, 4, 8, 8)) for i in (1, 2)]
    weight = relay.var("weight", shape=(4, 4, 3, 3))

    def conv(value):
        return relay.nn.conv2d(value, weight, channels=4, kernel_size=(3, 3), padding=(1, 1))

    total = on(1, relay.add(on(2, conv(data[0])), on(2, conv(data[1]))))
    function = rewritten([*data, weight], on(2, conv(total)), 3)
    assert copies(function) == [("add", 1, 2), ("nn.conv2d", 2, 1), ("nn.conv2d", 2, 1)]


def test_a_diamond_on_another_device():
    x = relay.var("x", shape=SHAPE)
    log = on(1, relay.log(x))
    total = on(2, relay.add(on(2, relay.log2(log)), on(2, relay.log10(log))))
    function = rewritten([x], on(1, relay.tan(total)), 1)
    assert copies(function) == [("add", 2, 1), ("log", 1, 2)]
    devices = {e.op.name: d for e, d in relay.analysis.collect_device_info(function).items()
               if isinstance(e, relay.Call) and e.op.name != "device_copy"}
    assert devices == {"log": 1, "log2": 2, "log10": 2, "add": 2, "tan": 1}
    assert relay.analysis.collect_device_info(function)[function.params[0]] == 1


def test_what_is_annotated_for_the_fallback_itself():
    a, b, c, d = (relay.var(name, shape=SHAPE) for name in "abcd")
    body = on(2, relay.subtract(on(2, relay.add(a, b)), on(1, relay.multiply(c, d))))
    function = rewritten([a, b, c, d], body, 2)
    assert copies(function) == [("multiply", 1, 2)]
    devices = relay.analysis.collect_device_info(function)
    assert [devices[p] for p in function.params] == [2, 2, 1, 1]


def test_annotations_are_listed():
    x = relay.var("x", shape=SHAPE)
    first = on(2, relay.exp(x))
    found = relay.analysis.collect_device_annotation_ops(on(1, relay.log(first)))
    assert sorted(found.values()) == [1, 2] and found[first] == 2


def test_a_conflict_names_the_value():
    x = relay.var("x", shape=SHAPE)
    value = relay.add(x, relay.exp(x))
    with pytest.raises(treadle.Error, match=r"add\(%x, exp\(%x\)\) is annotated for device type 2 and for 1"):
        rewritten([x], on(2, value) + on(1, value), 1)


@pytest.mark.skipif(not treadle.opencl().exist, reason="no OpenCL device")
def test_control_flow_across_devices(tmp_path):
    x, c = relay.var("x", shape=SHAPE), relay.var("c", shape=(), dtype="bool")
    inner = on(4, relay.tanh(relay.exp(x) + x))
    body = relay.If(c, on(4, relay.sqrt(relay.exp(inner))), relay.negative(inner) + x)
    lib = relay.build(relay.Function([x, c], body), {"cpu": "llvm", "opencl": "opencl"})
    assert sorted(str(target).split()[0] for target in lib.lowered_ir_mods) == ["llvm", "opencl"]
    lib.export_library(tmp_path / "m.so")
    model = treadle.load(tmp_path / "m.so")
    value = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    tanh = np.tanh(np.exp(value) + value)
    for flag, expected in ((True, np.sqrt(np.exp(tanh))), (False, value - tanh)):
        result = model(x=value, c=np.array(flag))
        result = list(result.values())[0] if isinstance(result, dict) else result
        result = result[0] if isinstance(result, (list, tuple)) else result
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not treadle.opencl().exist, reason="no OpenCL device")
@pytest.mark.parametrize("targets", [{"cpu": "llvm", "opencl": "opencl"}, "opencl"])
def test_programs_of_the_virtual_machine_on_devices(targets):
    x, c = relay.var("x", shape=SHAPE), relay.var("c", shape=(), dtype="bool")
    weight = relay.const(np.full(SHAPE, 2, "float32"))
    body = relay.If(c, on(4, relay.exp(x) * weight), on(4, relay.tanh(x)))
    program = relay.vm.compile(treadle.IRModule.from_expr(relay.Function([x, c], body)), targets)
    assert "load_const 0 on opencl" in program.bytecode and "alloc_tensor float32 on opencl" in program.bytecode
    machine = treadle.runtime.vm.VirtualMachine(program, [treadle.cpu(), treadle.opencl()])
    value = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    for flag, expected in ((True, np.exp(value) * 2), (False, np.tanh(value))):
        result = machine.run(value, np.array(flag)).numpy()
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not treadle.opencl().exist, reason="no OpenCL device")
def test_tensors_of_devices_show_their_elements():
    assert "2., 3." in repr(treadle.nd.array(np.array([2, 3], "float32"), treadle.opencl()))
