# SPDX-License-Identifier: Apache-2.0
"""Tensors and devices."""
from ._core import Device
from ._nd import (NDArray, array, cl, cpu, cuda, device, empty, ext_dev, from_dlpack, hexagon, metal, mtl, opencl, rocm, vpi,
                  vulkan, webgpu)

gpu = cuda

__all__ = ["Device", "NDArray", "array", "cl", "cpu", "cuda", "device", "empty", "ext_dev", "from_dlpack", "gpu",
           "hexagon", "metal", "mtl", "opencl", "rocm", "vpi", "vulkan", "webgpu"]
