# SPDX-License-Identifier: Apache-2.0
"""Tensors and devices."""
from ._core import Device
from ._nd import NDArray, array, cl, cpu, cuda, device, empty, from_dlpack, opencl

gpu = cuda

__all__ = ["Device", "NDArray", "array", "cl", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu", "opencl"]
