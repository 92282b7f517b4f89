# SPDX-License-Identifier: Apache-2.0
"""Inputs of tasks whose values matter, such as the indices of a sparse matrix."""
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import te
from .._measure import Failed
from ..error import Error


def _timed(folder, path, number, repeat, min_repeat_ms):
    """Seconds of a run."""
    from treadle import nd, runtime

    with np.load(os.path.join(folder, "inputs.npz")) as given:
        tensors = [nd.array(given[f"arr_{i}"]) for i in range(len(given.files))]
    function = runtime.load_module(path)["main"]
    function(*tensors)
    costs = []
    for _ in range(repeat):
        runs = number
        while True:
            start = time.perf_counter()
            for _ in range(runs):
                function(*tensors)
            seconds = time.perf_counter() - start
            if seconds * 1e3 >= min_repeat_ms:
                break
            runs = max(runs + 1, math.ceil(runs * 1.2 * min_repeat_ms / max(seconds * 1e3, 1e-3)))
        costs.append(seconds / runs)
    return costs


class Inputs:
    """The values that a task gives of its tensors, by names that check functions know tensors by."""

    def __init__(self, tensors: Sequence[Any], given: Any, checks: Any) -> None:
        self._tensors, self.values, self._named = tensors, {}, {}
        if not given:
            return
        names = {tensor: name for check in checks for tensor, name in dict(check(tensors) or {}).items()}
        unknown = set(given) - set(names.values())
        if unknown:
            raise Error(f"task_inputs: no tensor is called {', '.join(sorted(unknown))}; there are: "
                        f"{', '.join(sorted(names.values())) or 'none'} (auto_scheduler.register_task_input_check_func)")
        for tensor, name in names.items():
            if name in given:
                value = np.asarray(given[name].numpy() if hasattr(given[name], "numpy") else given[name])
                wanted = tuple(int(d) for d in tensor.shape)
                if value.shape != wanted or str(value.dtype) != str(tensor.dtype):
                    raise Error(f"task_inputs: {name} is {value.dtype} {value.shape}, expected {tensor.dtype} {wanted}")
                self.values[tensor] = self._named[name] = value

    def save(self, overwrite: bool) -> None:
        """Keeps the values beside the script, as <name>.npy."""
        for name, value in self._named.items():
            if overwrite or not os.path.exists(f"{name}.npy"):
                np.save(f"{name}.npy", value)

    def costs(self, path: str | os.PathLike[str], runner: Any) -> Any:
        """Seconds of the library's function, on these values and random ones for the others."""
        rng, arrays = np.random.default_rng(0), []
        for tensor in self._tensors:
            value = next((v for t, v in self.values.items() if t.same_as(tensor)), None)
            if value is None:
                shape, dtype = [int(d) for d in tensor.shape], str(tensor.dtype)
                is_input = isinstance(tensor.op, te.PlaceholderOp)
                value = (rng.random(shape) if is_input and dtype.startswith("float") else np.zeros(shape)).astype(dtype)
            arrays.append(value)
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            np.savez(os.path.join(folder, "inputs.npz"), *arrays)
            how = json.dumps([folder, path, runner.number, runner.repeat, runner.min_repeat_ms])
            paths = [_package_path(), os.environ.get("PYTHONPATH", "")]
            environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
            command = [sys.executable, "-m", "treadle.auto_scheduler.inputs", how]
            seconds = runner.timeout * max(1, runner.repeat) + 20
            try:
                # A process of its own, which imports nothing of the script: a crash or a hang is a result like others.
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
            except subprocess.TimeoutExpired:
                raise Failed(f"took longer than {seconds} s", "timeout") from None
            if done.returncode != 0:
                raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else
                             f"ended with status {done.returncode}", "runtime")
            return json.loads(done.stdout)


def _package_path():
    import treadle

    return os.path.dirname(os.path.dirname(treadle.__file__))


if __name__ == "__main__":
    print(json.dumps(_timed(*json.loads(sys.argv[1]))))
