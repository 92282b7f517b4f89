# SPDX-License-Identifier: Apache-2.0
"""Networks with values for their parameters."""
from typing import Any
import numpy as np

from ..._nd import NDArray
from ... import nd
from ...ir import IRModule


class Initializer:
    """Fills the array of a parameter by what its name ends in; subclasses say how weights are filled."""

    def __call__(self, desc: str, arr: np.ndarray) -> Any:
        """Fills `arr` for the parameter called `desc`."""
        for ending, method in (("weight", self._init_weight), ("bias", self._init_bias), ("gamma", self._init_gamma),
                               ("beta", self._init_beta), ("mean", self._init_mean), ("var", self._init_var),
                               ("state", self._init_bias)):
            if desc.endswith(ending):
                return method(desc, arr)
        return self._init_default(desc, arr)

    def _init_weight(self, name, arr):
        raise NotImplementedError("an initializer says how weights are filled")

    def _init_bias(self, name, arr):
        arr[:] = 0.0

    _init_beta = _init_mean = _init_bias

    def _init_gamma(self, name, arr):
        arr[:] = 1.0

    _init_var = _init_gamma

    def _init_default(self, name, arr):
        raise ValueError(f"no rule for the values of the parameter {name}: its name should end in weight, bias, gamma, "
                         "beta, mean, var or state")


class Xavier(Initializer):
    """Weights whose spread keeps the variance of what flows through a layer (Glorot and Bengio 2010).

    rnd_type: "uniform" or "gaussian". factor_type: "avg", "in" or "out", of which fan the spread is taken.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: int = 3) -> None:
        if rnd_type not in ("uniform", "gaussian"):
            raise ValueError(f"rnd_type is uniform or gaussian, not {rnd_type}")
        if factor_type not in ("avg", "in", "out"):
            raise ValueError(f"factor_type is avg, in or out, not {factor_type}")
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, float(magnitude)

    def _init_weight(self, name, arr):
        if arr.ndim < 2:
            raise ValueError(f"the weight {name} has {arr.ndim} dimensions; at least two are expected")
        window = int(np.prod(arr.shape[2:]))
        fans = {"out": arr.shape[0] * window, "in": arr.shape[1] * window}
        fans["avg"] = (fans["in"] + fans["out"]) / 2
        scale = np.sqrt(self.magnitude / fans[self.factor_type])
        if self.rnd_type == "uniform":
            arr[:] = np.random.uniform(-scale, scale, size=arr.shape)
        else:
            arr[:] = np.random.normal(0, scale, size=arr.shape)


class Constant(Initializer):
    """Weights that are all one number."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def _init_weight(self, name, arr):
        arr[:] = self.value


def create_workload(net: Any, initializer: Any = None, seed: int = 0) -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params): the function as main, and values for all its parameters but `data`."""
    from .. import transform

    module = transform.InferType()(IRModule.from_expr(net))
    initializer = initializer or Xavier()
    np.random.seed(seed)
    params = {}
    for param in module["main"].params:
        if param.name_hint == "data":
            continue
        value = np.zeros(param.checked_type.concrete_shape, dtype=str(param.checked_type.dtype))
        initializer(param.name_hint, value)
        params[param.name_hint] = nd.array(value)
    return module, params
