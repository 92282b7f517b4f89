# SPDX-License-Identifier: Apache-2.0
"""Post-training quantisation of ONNX models: static (QDQ), dynamic, weights only. Needs the package onnx."""
from . import graph_ir
from .api import Quantized, quantize
from .samples import read_samples

__all__ = ["Quantized", "graph_ir", "quantize", "read_samples"]
