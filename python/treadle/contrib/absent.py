# SPDX-License-Identifier: Apache-2.0
"""Modules of TVM's contrib for machines and libraries that Treadle has nothing to do with: they can be imported, and
what is called says why it isn't there."""
import sys
import types

from .._refused import refused
from ..error import TargetError

_CUDA = "there is no target for CUDA; opencl drives GPUs"
_OTHER_FORMATS = "models of other frameworks are exported to ONNX: relay.frontend.from_onnx"
_MODULES = {
    "cuda_graph.cuda_graph_executor": ("create GraphModuleCudaGraph", _CUDA),
    "cutlass": ("tune_cutlass_kernels build_cutlass_kernels build_cutlass_kernels_vm", _CUDA),
    "mxnet": ("to_mxnet_func", "MXNet's tensors come by DLPack: nd.from_dlpack"),
    "peak": ("measure_bandwidth_all_types measure_compute_all_types measure_peak_all", "treadle doctor measures the machine"),
    "pipeline_executor": ("build PipelineModule PipelineConfig create", "models are compiled whole; branches run side by side"),
    "sdaccel": ("compile_vhls", "there is no target for FPGAs"), "spirv": ("optimize", "there is no target for Vulkan"),
    "tf_op": ("OpModule TensorFunc", _OTHER_FORMATS), "tflite_runtime": ("create TFLiteModule", _OTHER_FORMATS),
    "torch": ("compile PyTorchTVMModule GraphModule VMModule", "treadle.from_torch compiles PyTorch's modules"),
    "target.coreml": ("CodegenCoreML coreml_compiler", "models aren't run by Core ML"),
    "target.onnx": ("to_onnx onnx_compiler", "graphs aren't written as ONNX"),
    "coreml_runtime": ("create", "models aren't run by Core ML"),
    "cublas": ("matmul batch_matmul", _CUDA), "cublaslt": ("matmul", _CUDA),
    "cudnn": ("conv_forward conv_output_shape softmax log_softmax exists", _CUDA),
    "emcc": ("create_tvmjs_wasm", "there is no target for WebAssembly"),
    "hexagon": ("create_shared link_shared", "there is no target for Hexagon"),
    "mkl": ("matmul batch_matmul matmul_u8s8s32", "products by a library are contrib.cblas.matmul, or external=['dnnl']"),
    "mkldnn": ("matmul dnnl_conv2d", "oneDNN takes parts of graphs: relay.build(.., external=['dnnl'])"),
    "mps": ("matmul conv2d", "there is no target for Metal"), "miopen": ("conv2d_forward softmax", "there is no target for ROCm"),
    "ndk": ("create_shared create_staticlib", "there is no tool chain for Android here; contrib.cc.cross_compiler takes one"),
    "nnpack": ("is_available fully_connected_inference convolution_inference", "products by a library are contrib.cblas"),
    "nvcc": ("compile_cuda find_cuda_path get_cuda_version get_target_compute_version parse_compute_version have_fp16 "
             "have_int8 have_tensorcore have_cudagraph have_bf16", _CUDA),
    "relay_viz": ("RelayVisualizer VizNode VizEdge VizParser VizGraph DOTVizParser",
                  "mod.astext() shows a graph; Model.report draws that of a compiled model with its times"),
    "rocblas": ("matmul batch_matmul", "there is no target for ROCm"), "rocm": ("rocm_link find_lld", "there is no target for ROCm"),
    "thrust": ("can_use_thrust", _CUDA), "xcode": ("create_dylib compile_metal", "there are no tools of Xcode here"),
}


_QUESTIONS = ("have_", "can_use_", "is_available", "exists")


def _refusal(name, reason):
    if name.rpartition(".")[2].startswith(_QUESTIONS):
        return lambda *args, **kwargs: False

    def refuse(*args, **kwargs):
        raise TargetError(f"{name}: {reason}")

    refuse.__name__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Not there: {reason}."
    return refuse


def install() -> None:
    """Puts the modules where `import` and attributes find them."""
    package = __name__.rpartition(".")[0]
    for path, (names, reason) in _MODULES.items():
        folder, _, name = path.rpartition(".")
        if folder and f"{package}.{folder}" not in sys.modules:
            _add(package, folder, types.ModuleType(f"{package}.{folder}", f"Not there: {reason}."))
        module = types.ModuleType(f"{package}.{path}", f"Not there: {reason}.")
        for each in names.split():
            make = refused if each[0].isupper() else _refusal
            setattr(module, each, make(f"contrib.{path}.{each}", reason))
        _add(f"{package}.{folder}" if folder else package, name, module)


def _add(parent, name, module):
    module.__path__ = []  # a package: others may be in it
    sys.modules[module.__name__] = module
    setattr(sys.modules[parent], name, module)


install()
