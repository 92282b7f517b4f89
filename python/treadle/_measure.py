# SPDX-License-Identifier: Apache-2.0
"""Running compiled functions in a process of their own: a crash, a hang or too much memory is a result like others."""
import json
import os
import select
import subprocess
import time

from ._arguments import number
from ._ffi import Api
from .error import Error

_api = Api("tune")


def _last_cache():
    """Bytes of the largest cache; 32 MiB where the system doesn't say."""
    try:
        return max(os.sysconf("SC_LEVEL2_CACHE_SIZE"), os.sysconf("SC_LEVEL3_CACHE_SIZE")) or 32 << 20
    except (ValueError, OSError):
        return 32 << 20


class Failed(Error):
    """What became of a candidate that couldn't be timed. `kind`: "runtime", "timeout"."""

    def __init__(self, message, kind):
        super().__init__(message)
        self.kind = kind


class Runner:
    """The program `treadle measure`, started when it is needed and again after what ended it."""

    def __init__(self, threads=0, timeout=10, memory_mib=0):
        number("the time limit of a measurement", timeout, "seconds above 0")
        self.threads, self.timeout, self.memory_mib = threads, timeout, memory_mib
        self._process = None

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    __del__ = close

    def _ask(self, request, timeout):
        if self._process is None:
            command = [str(_api.MeasureProgram()), "measure", "--threads", str(self.threads), "--memory", str(self.memory_mib)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise Failed("the process that runs candidates ended", "runtime") from None
        answer, until = b"", time.monotonic() + timeout
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, until - time.monotonic()))
            if not ready:
                self.close()
                raise Failed(f"took longer than {timeout} s", "timeout")
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                status = self._process.wait()
                self._process = None
                raise Failed(f"crashed: signal {-status}" if status < 0 else f"ended with status {status}", "runtime")
            answer += part
        answer = json.loads(answer)
        if "error" in answer:
            raise Failed(answer["error"], "runtime")
        return answer

    def costs(self, path, symbol, shapes, num_outputs=1, number=3, repeat=1, min_repeat_ms=0, cold=False):
        """Seconds of a run of the function, `repeat` times the mean of `number`. `shapes`: (shape, dtype) of its
        tensors, the results last. cold: each run has copies of the inputs that aren't in a cache."""
        tensors = [{"shape": list(shape), "dtype": dtype, "constant": cold and i < len(shapes) - num_outputs}
                   for i, (shape, dtype) in enumerate(shapes)]
        request = {"do": "arguments", "tensors": tensors, "outputs": num_outputs, "copies": 2 * _last_cache() if cold else 0}
        self._ask(request, self.timeout + 5)
        self._ask({"do": "kernel", "slot": 0, "path": path, "symbol": symbol}, self.timeout)
        return self._ask({"do": "time", "slot": 0, "number": number, "repeat": repeat, "min_repeat_ms": min_repeat_ms},
                         self.timeout * max(1, repeat) + 2 * min_repeat_ms * repeat / 1e3)["costs"]
