# SPDX-License-Identifier: Apache-2.0
"""The modules of onnxruntime.capi that programs import from."""
from . import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state
