# SPDX-License-Identifier: Apache-2.0
"""relay.quantize: TVM's door to 8-bit graphs."""
import numpy as np
import pytest

import treadle
from treadle import relay


def network():
    """Three convolutions and a product, and the values of its weights."""
    rng = np.random.default_rng(0)
    params = {}

    def weight(name, *shape):
        params[name] = (rng.standard_normal(shape) * np.prod(shape[1:])**-0.5).astype("float32")
        return relay.var(name, shape=shape)

    x = relay.var("x", shape=(1, 16, 12, 12))
    y = relay.nn.relu(relay.nn.conv2d(x, weight("w0", 16, 16, 3, 3), padding=(1, 1)))
    y = relay.nn.relu(relay.nn.conv2d(y, weight("w1", 32, 16, 3, 3), padding=(1, 1)))
    y = relay.nn.relu(relay.nn.conv2d(y, weight("w2", 32, 32, 1, 1)))
    y = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y)), weight("w3", 10, 32))
    mod = treadle.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))
    return mod, params, rng.standard_normal((1, 16, 12, 12)).astype("float32")


def run(mod, params, x):
    bound = treadle.IRModule.from_expr(relay.build_module.bind_params_by_name(mod["main"], params)) if params else mod
    return relay.create_executor("graph", mod=bound, target="llvm -mcpu=native").evaluate()(x).numpy()


def snr(reference, actual):
    return 10 * np.log10(np.sum(reference**2) / np.sum((reference - actual)**2))


@pytest.mark.parametrize("options, least", [
    ({}, 15), ({"weight_scale": "max", "global_scale": 4.0}, 20),
    ({"skip_dense_layer": False, "global_scale": 4.0}, 15),
    ({"calibrate_mode": "percentile", "weight_scale": "max"}, 22),
    ({"calibrate_mode": "kl_divergence", "weight_scale": "max"}, 22),
    ({"calibrate_mode": "minmax", "weight_scale": "max", "skip_conv_layers": (), "skip_dense_layer": False}, 22)])
def test_numbers_stay_near(options, least):
    mod, params, x = network()
    with relay.quantize.qconfig(**options):
        quantised = relay.quantize.quantize(mod, params, dataset=[{"x": x}])
    assert snr(run(mod, params, x), run(quantised, None, x)) > least
    text = str(quantised)
    layers = 2 + (options.get("skip_conv_layers", (0,)) == ()) + (not options.get("skip_dense_layer", True))
    assert text.count("qnn.quantize(") == layers


def test_options_are_a_context():
    assert relay.quantize.current_qconfig().global_scale == 8.0
    with relay.quantize.qconfig(global_scale=2.0):
        with relay.quantize.qconfig(global_scale=3.0):
            assert relay.quantize.current_qconfig().global_scale == 3.0
        assert relay.quantize.current_qconfig().global_scale == 2.0
    assert relay.quantize.current_qconfig().global_scale == 8.0


@pytest.mark.parametrize("options, message", [
    ({"nbit_input": 4}, "nbit_input is 4; only 8"), ({"calibrate_mode": "entropy"}, "expected global_scale or"),
    ({"no_such": 1}, "no_such")])
def test_what_is_not_there_is_refused(options, message):
    with pytest.raises(treadle.Error, match=message):
        relay.quantize.qconfig(**options)
    mod, params, _ = network()
    with relay.quantize.qconfig(calibrate_mode="percentile"), pytest.raises(treadle.Error, match="needs a dataset"):
        relay.quantize.quantize(mod, params)
