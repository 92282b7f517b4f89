# SPDX-License-Identifier: Apache-2.0
"""Runs compiled graphs."""
from .. import nd
from .._ffi import get_global_func


def create(graph_json_str, libmod, device):
    """An executor for a graph with the kernels of a module; parameters are loaded afterwards."""
    device = device[0] if isinstance(device, (list, tuple)) else device
    return GraphModule(get_global_func("tvm.graph_executor.create")(graph_json_str, libmod, device))


class GraphModule:
    """An executor with methods: set_input, run, get_output."""

    def __init__(self, module):
        self.module = module
        for name in ("set_input", "run", "get_output", "get_input", "get_num_outputs", "get_num_inputs", "load_params"):
            setattr(self, f"_{name}", module[name])

    def set_input(self, key=None, value=None, **params):
        """Copies an input (by name or index), and further ones by name. Arrays are converted to the input's type."""
        for name, array in ([(key, value)] if key is not None else []) + list(params.items()):
            if not isinstance(array, nd.NDArray):
                array = nd.array(array, dtype=self._get_input(name).dtype)
            self._set_input(name, array)

    def run(self, **inputs):
        if inputs:
            self.set_input(**inputs)
        self._run()

    def get_output(self, index, out=None):
        """An output; copied into `out` when that is given."""
        if out is None:
            return self._get_output(index)
        self._get_output(index, out)
        return out

    def get_input(self, index, out=None):
        tensor = self._get_input(index)
        return tensor if out is None else tensor.copyto(out)

    def get_num_outputs(self):
        return self._get_num_outputs()

    def get_num_inputs(self):
        return self._get_num_inputs()

    def load_params(self, params_bytes):
        self._load_params(bytes(params_bytes))

    def __getitem__(self, name):
        return self.module[name]

    def benchmark(self, device, func_name="run", repeat=5, number=5, min_repeat_ms=0, end_to_end=False, **kwargs):
        """Times of `repeat` measurements of `number` runs each."""
        if kwargs:
            self.set_input(**kwargs)
        return self.module.time_evaluator(func_name, device, number=number, repeat=repeat,
                                          min_repeat_ms=min_repeat_ms)()
