# SPDX-License-Identifier: Apache-2.0
"""Treadle and its peers behind one interface, set up alike: CPU, float32 throughout, the same number of threads."""
import os
import time

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


class Engine:
    """A way to run a model. `prepare` returns a function that runs it once and returns its outputs as a list."""

    name = ""

    def version(self):
        raise NotImplementedError

    def prepare(self, case, threads, inputs):
        """From the model in memory; Treadle compiles it."""
        return self.load(case.bytes(), case, threads, inputs)

    def load(self, source, case, threads, inputs):
        """From a path or bytes; Treadle takes the path of a compiled model."""
        raise NotImplementedError


class Treadle(Engine):
    name = "treadle"

    def version(self):
        import treadle

        return treadle.__version__

    def prepare(self, case, threads, inputs):
        import treadle

        return self._runner(treadle.compile(case.bytes(), shapes=case.shapes, threads=threads), inputs)

    def load(self, source, case, threads, inputs):
        import treadle

        return self._runner(treadle.load(source, threads=threads), inputs)

    @staticmethod
    def _runner(model, inputs):
        names = [output.name for output in model.outputs]

        def run():
            return model.run(names, inputs)

        run.model = model
        return run


class OnnxRuntime(Engine):
    name = "onnxruntime"

    def version(self):
        import onnxruntime

        return onnxruntime.__version__

    def load(self, source, case, threads, inputs):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Its workers would go on spinning on the cores that the next engine needs.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, inputs)


class OpenVino(Engine):
    name = "openvino"

    def version(self):
        import openvino

        return openvino.__version__.split("-")[0]

    def load(self, source, case, threads, inputs):
        import openvino

        core = openvino.Core()
        model = core.read_model(source)
        model.reshape({name: list(shape) for name, shape in case.shapes.items()})
        # Without the hint this engine computes in bfloat16 where the CPU has it.
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            # It takes two hardware threads for one core otherwise and leaves the second idle.
            "ENABLE_HYPER_THREADING": True, "ENABLE_CPU_PINNING": False})
        request = compiled.create_infer_request()
        outputs = compiled.outputs

        def run():
            result = request.infer(inputs)
            return [result[output] for output in outputs]

        return run


ALL = {engine.name: engine for engine in (Treadle(), OnnxRuntime(), OpenVino())}


def timed(function):
    """(result, seconds) of one call."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start
