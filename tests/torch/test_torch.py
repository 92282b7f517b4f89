# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch: treadle.from_torch and torch.compile(backend="treadle"). Run in an environment of its own, which
has torch and onnxscript: tools/ci/torch.sh."""
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import treadle  # noqa: E402

BACKEND = treadle.pytorch.backend


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.fixture
def net():
    torch.manual_seed(1)
    return Net().eval()


def close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_modules_are_compiled_with_example_inputs(net):
    x = torch.randn(2, 3, 16, 16)
    model = treadle.from_torch(net, (x,))
    (result,) = model(x).values()
    close(result, net(x))


def test_exported_programs_are_compiled(net):
    x = torch.randn(1, 3, 8, 8)
    (result,) = treadle.from_torch(torch.export.export(net, (x,)))(x).values()
    close(result, net(x))


def test_dynamic_shapes_stay_open(net):
    batch = torch.export.Dim("batch", min=1, max=64)
    model = treadle.from_torch(net, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: batch},))
    for size in (1, 5):
        x = torch.randn(size, 3, 8, 8)
        (result,) = model(x).values()
        close(result, net(x))


def test_transformers_are_compiled():
    torch.manual_seed(2)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
    x = torch.randn(2, 7, 32)
    (result,) = treadle.from_torch(encoder, (x,))(x).values()
    close(result, encoder(x))


@pytest.mark.parametrize("call, message", [
    (lambda net, x: treadle.from_torch(net), "a torch.nn.Module is exported with example inputs: from_torch(module, (x,))"),
    (lambda net, x: treadle.from_torch(net.train(), (x,)), "the module is in training mode: call module.eval() first"),
    (lambda net, x: treadle.from_torch("net.pt", (x,)),
     "expected a torch.nn.Module or torch.export.ExportedProgram, got str"),
    (lambda net, x: treadle.from_torch(torch.export.export(net, (x,)), (x,)),
     "args, kwargs and dynamic_shapes say how to export a module; an ExportedProgram has its own"),
])
def test_mistakes_say_what_to_do(net, call, message):
    with pytest.raises(treadle.Error) as caught:
        call(net, torch.randn(1, 3, 8, 8))
    assert str(caught.value) == message


def compiled(function, **keywords):
    torch._dynamo.reset()
    return torch.compile(function, backend=BACKEND, **keywords)


def test_compiled_modules_compute_the_same_without_falling_back(net):
    fast = compiled(net)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (8, 16, 8):
            x = torch.randn(2, 3, size, size)
            result = fast(x)
            assert isinstance(result, torch.Tensor)
            close(result, net(x))


def test_changed_parameters_are_seen(net):
    fast, x = compiled(net), torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        before = fast(x).clone()
        net.last.bias += 1
        close(fast(x), before + 1)


def test_functions_with_several_results_and_types():
    def function(a, b):
        return a @ b, (a > 0).sum(), torch.argmax(b, 1)

    fast = compiled(function)
    a, b = torch.randn(4, 5), torch.randn(5, 6)
    for actual, expected in zip(fast(a, b), function(a, b)):
        assert actual.dtype == expected.dtype
        close(actual, expected)


def test_gradients_are_left_to_torch_with_a_warning(net):
    with pytest.warns(UserWarning, match="it computes no gradients"):
        compiled(net)(torch.randn(1, 3, 8, 8)).sum().backward()
    assert net.last.weight.grad is not None


def test_what_cannot_be_compiled_runs_in_torch_with_a_warning():
    fast, x = compiled(lambda x: torch.special.bessel_j0(x)), torch.rand(3)
    with pytest.warns(UserWarning, match="runs in PyTorch rather than in Treadle"):
        close(fast(x), torch.special.bessel_j0(x))


def test_modes_are_refused(net):
    with pytest.raises(Exception, match="the backend treadle has no modes"):
        compiled(net, mode="max-autotune")(torch.randn(1, 3, 8, 8))


def test_relay_of_traced_modules(net):
    """relay.frontend.from_pytorch: traced modules and plain ones, inputs under names of the caller's choice."""
    image = torch.randn(1, 3, 8, 8)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced, expected = torch.jit.trace(net.eval(), image).eval(), net(image).numpy()
    for module in (traced, net):
        mod, params = treadle.relay.frontend.from_pytorch(module, [("input0", (1, 3, 8, 8))])
        assert mod["main"].params[0].name_hint == "input0" and "last.weight" in params
        lib = treadle.relay.build(mod, "llvm", params=params)
        run = treadle.contrib.graph_executor.GraphModule(lib["default"](treadle.cpu()))
        run.run(input0=image.numpy())
        np.testing.assert_allclose(run.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("args, message", [
    ((1, [("x", (1, 3))]), "expected a torch.jit.ScriptModule"),
    ((None, [("x", (1, 3, 8, "a"))]), "expected integers|has the shape"),
    ((None, [(1, 3, 8, 8)]), "expected .name, shape."),
    ((None, [("x", ((1, 3, 8, 8), "float31"))]), "no data type 'float31'"),
    ((None, [("x", (1, 3, 8, 8))], {"aten::relu": None}), "custom_convert_map isn't supported")])
def test_mistakes_of_from_pytorch(net, args, message):
    with pytest.raises(treadle.Error, match=message):
        treadle.relay.frontend.from_pytorch(net.eval() if args[0] is None else args[0], *args[1:])
