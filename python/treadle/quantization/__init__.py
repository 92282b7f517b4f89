# SPDX-License-Identifier: Apache-2.0
"""Post-training quantisation of ONNX models: static (QDQ), dynamic, weights only. Needs the package onnx."""
from .api import Quantized, quantize
from .samples import read_samples

__all__ = ["Quantized", "quantize", "read_samples"]
