# SPDX-License-Identifier: Apache-2.0
"""What this build has."""
from typing import Any

from ._ffi import get_global_func
from ._version import __version__


def libinfo() -> dict[str, str]:
    """Options of the build by name: USE_LLVM, USE_OPENCL, ... as "ON" or "OFF", and the version."""
    targets = {str(kind) for kind in get_global_func("target.ListKinds")()}
    compilers = {str(name) for name in get_global_func("external.ListCodegens")()}
    switches = {"LLVM": "llvm", "OPENCL": "opencl", "CUDA": "cuda", "METAL": "metal", "ROCM": "rocm", "VULKAN": "vulkan"}
    info = {f"USE_{name}": kind in targets for name, kind in switches.items()}
    info.update(USE_RPC=True, USE_GRAPH_EXECUTOR=True, USE_CODEGENC="ccompiler" in compilers,
                USE_DNNL_CODEGEN="dnnl" in compilers, USE_BLAS="cblas" in compilers)
    return {"TVM_VERSION": __version__, **{name: "ON" if there else "OFF" for name, there in info.items()}}
