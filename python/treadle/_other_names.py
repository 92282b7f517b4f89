# SPDX-License-Identifier: Apache-2.0
"""What TVM's Python packages have under names that Treadle has no counterpart of: each says what to use instead. Names
that one package alone refuses stand in that package."""
import sys
from operator import attrgetter

from ._refused import refuse_names

_FLAT = "loads and stores are of buffers: tir.BufferLoad, tir.BufferStore; TVMScript reads T.load and T.store"
_PRODUCER = "tensors become buffers when a schedule is applied; there is no form in between"
_RELATION = "type relations belong to operators: Op.add_type_rel"
_AFFINE = "scale and zero point are operands of qnn operators"
_SREF = "blocks and loops are handled as BlockRV and LoopRV; Schedule.get gives the statement"
_TRACE = "a trace is text: Schedule.trace, trace_json and replay; steps can't be changed in it"
_ITER_MAP = "arith.detect_linear_equation and Analyzer analyse indices; schedules check their maps themselves"
_QUANTIZE = "relay.quantize.quantize does all steps at once"
_TENSOR_ARRAY = "there are no tensor arrays; lists (Prelude) and Sequence operators hold tensors"
_MINRPC = "rpc.Server is the one server, which needs no more than the run time"
_SCOPE = "the device of each value is planned by relay.build(target={device: target})"
_HYBRID = "te.hybrid.script makes te.extern operations; they are built like others"
_BITS = "bit-serial computation is not implemented; qnn.dense and qnn.conv2d compute with 8-bit integers"
_LEGALIZE = "register a function with relay.op.register_legalize or register_alter_op_layout; kernels do the rest"
_WINOGRAD = "kernels transform weights themselves, where that pays; call topi.nn.conv2d or conv3d"

# module: {names, separated by spaces: what to use instead}; Class.method is a method.
_REFUSED = {
    "": {"register_extension": "arguments of packed functions are objects, tensors, numbers and strings; give other "
                               "things as one of these"},
    "error": {"register_error": "exceptions that Python functions raise come back as they were raised"},
    "arith": {"IterMapExpr IterMark IterSplitExpr IterSumExpr": _ITER_MAP},
    "ir": {"TypeConstraint TypeRelation": _RELATION, "TensorAffineType TupleAffineType": _AFFINE,
           "SourceName": "a Span holds the name of its source itself",
           "CallingConv": "PrimFuncs are called as packed functions; target says what runs on a device",
           "Attrs.list_field_info": "attrs.keys() names the fields; relay.op.get(name).arguments describes operands"},
    "parser": {"SourceMap SpanCheck": "spans come from parser.parse; each expression has its own, expr.span"},
    "relay": {"TypeConstraint TypeRelation": _RELATION, "SourceName": "a Span holds the name of its source itself",
              "script": "te.hybrid.script makes loops of Python; relay programs are written with relay.parse or "
                        "ScopeBuilder", "copy_shape_func": "shapes at run time follow from each operator's own rule"},
    "relay.ty": {"TypeConstraint TypeRelation": _RELATION},
    "relay.op": {"register_external_compiler": "annotate with op attributes, target.<compiler>, or a pattern table",
                 "register_gradient": "gradients of operators are built in: relay.transform.gradient",
                 "register_fake_quantization_to_integer": "FakeQuantizationToInteger knows the operators it moves over",
                 "debug": "the interpreter and debug_executor show every value; relay.op has no operator for it"},
    "relay.op.vm": {"shape_of invoke_tvm_op shape_func reshape_tensor": "the VM's compiler makes them; relay.shape_of is "
                    "the operator of graphs"},
    "relay.annotation": {"function_on_device": "annotation.on_device says where values are; functions follow theirs"},
    "relay.qnn.op": {"register_qnn_legalize": "relay.op.register_legalize takes qnn operators, too"},
    "relay.quantize": {"calibrate partition_conversions QAnnotateKind kind2str QuantizeContext quantize_context "
                       "partition annotate realize prerequisite_optimize register_partition_function "
                       "register_annotate_function": _QUANTIZE},
    "relay.build_module": {"VMExecutor GraphExecutor": "relay.create_executor(kind) makes them",
                           "get_executor_from_target build_target_by_device_type_map": "relay.build takes targets as "
                           "they are given"},
    "relay.prelude": {"StaticTensorArrayOps TensorArrayOps get_tensor_array_shape": _TENSOR_ARRAY,
                      "Prelude.get_name Prelude.get_global_var Prelude.get_type Prelude.get_ctor Prelude.get_tensor_ctor "
                      "Prelude.get_name_static Prelude.get_global_var_static Prelude.get_type_static "
                      "Prelude.get_ctor_static Prelude.get_tensor_ctor_static": _TENSOR_ARRAY,
                      "Prelude.load_prelude": "a Prelude is loaded when it is made"},
    "relay.frontend": {"quantize_conv_bias_mkldnn_from_var": "quantised models are imported as QDQ or QLinear operators"},
    "runtime": {"Device.@warp_size Device.@compute_version Device.@max_clock_rate Device.@max_thread_dimensions "
                "Device.@api_version Device.@driver_version":
                    "devices say exist, model, multi_processor_count, max_threads_per_block and their memory",
                "Device.create_raw_stream Device.free_raw_stream Device.set_raw_stream":
                    "a device has one stream; Device.sync waits for it",
                "ObjectGeneric": "convert and packed functions take Objects, numbers, strings, lists and dicts"},
    "rpc": {"PopenSession": "start rpc.Server in a process of its own and rpc.connect to it",
            "with_minrpc": _MINRPC,
            "RPCSession.system_lib": "runtime.system_lib() is of the process that calls it; upload a library instead",
            "RPCSession.download_linked_module": "link on this machine: Module.export_library(fcompile=)"},
    "target": {"vta": "there is no target for VTA", "rasp": "target.arm_cpu(model) describes boards",
               "riscv_cpu": "there is no target for RISC-V", "make_se_scope make_compilation_config": _SCOPE,
               "Target.check_and_update_host_consist": "Target(target, host) makes a target with its host"},
    "te": {"TensorComputeOp": "tensorize a te.compute: te.decl_tensor_intrin, s[C].tensorize(axis, intrin)",
           "HybridOp": _HYBRID},
    "te.hybrid": {"decorate source_to_op HybridModule build": _HYBRID},
    "tir": {"Load Store": _FLAT, "ProducerStore ProducerRealize BufferRealize DataProducer": _PRODUCER,
            "Prefetch": "prefetches are intrinsics; schedules make them with prefetch",
            "Any": "dimensions that only a run knows are variables: te.var, relay.Any()",
            "StmtSRef BlockScope ScheduleState": _SREF,
            "Schedule.@state Schedule.get_sref": _SREF, "Schedule.remove_rv": "handles that aren't used cost nothing",
            "Schedule.enter_postproc": "traces hold what was done; there is no second part that is left out"},
    "tir.schedule": {"StmtSRef BlockScope ScheduleState Dependency DepKind ScheduleDebugMask": _SREF,
                     "Instruction InstructionKind": _TRACE,
                     "Trace.get_decision Trace.append Trace.pop Trace.with_decision Trace.simplified": _TRACE},
    "topi": {"expand_like ceil_log2 take_legalize": "topi.expand_dims, broadcast_to, log2 and take do these in steps",
             "hybrid_argwhere_1d hybrid_argwhere_2d hybrid_argwhere_3d hybrid_argwhere_4d hybrid_argwhere_5d":
                 "topi.argwhere takes tensors of any rank", "scanop binary_search": "topi.cumsum and searchsorted"},
    "contrib.graph_executor": {"get_device": "GraphModule takes devices as they are: tvm.cpu()",
                               "GraphModule.debug_get_output": "debug_executor.create makes an executor that has it"},
    "topi.image": {"dilation2d_nchw dilation2d_nhwc": "topi.image.dilation2d(data_layout=) has both layouts"},
    "topi.vision": {"roi_align_nchw roi_align_nhwc": "topi.vision.roi_align(layout=)", "roi_pool_nchw": "topi.vision.roi_pool",
                    "reorg": "topi.vision.yolo_reorg"},
    "topi.nn": {"bitserial_conv2d_nchw bitserial_conv2d_nhwc bitserial_conv2d_legalize binarize_pack binary_dense": _BITS,
                "conv2d_legalize conv2d_alter_layout conv2d_infer_layout depthwise_conv2d_infer_layout matmul_legalize "
                "dense_legalize dense_alter_layout conv3d_alter_layout conv2d_transpose_legalize "
                "conv3d_transpose_legalize batch_matmul_legalize sparse_dense_alter_layout": _LEGALIZE,
                "conv2d_gemm_weight_transform conv2d_winograd_weight_transform "
                "conv2d_winograd_nnpack_weight_transform conv3d_winograd_weight_transform conv2d_winograd_nhwc "
                "conv2d_winograd_nhwc_without_weight_transform winograd_transform_matrices": _WINOGRAD,
                "depthwise_conv2d_backward_input_nhwc depthwise_conv2d_backward_weight_nhwc pool_grad":
                    "relay.transform.gradient differentiates operators, te.gradient tensor expressions",
                "simulated_quantize simulated_dequantize": "relay.quantize measures ranges and quantises in one step",
                "conv2d_NCHWc_int8 dense_pack depthwise_conv2d_NCHWc unpack_NCHWc_to_nchw scale_shift_nchwc softmax_common "
                "conv2d_transpose_nchw_preprocess declaration_conv2d_transpose_impl conv3d_transpose_ncdhw_preprocess "
                "declaration_conv3d_transpose_impl deformable_conv2d_nhwc":
                    "packed layouts and steps of kernels are made by relay's operators and kernels; topi.nn has the plain form",
                "sparse_dense_sp_rhs sparse_dense_sp_lhs": "topi.nn.sparse_dense(sparse_lhs=) is both",
                "sparse_conv2d": "weights are sparse in topi.nn.sparse_dense and relay.nn.sparse_dense",
                "try_get_sparse_input try_get_conv2d_sparse_input": "relay.data_dep_optimization makes weights sparse"},
}


def install():
    """Puts all of them where `import` and attributes find them."""
    package = sys.modules[__package__]
    for path, groups in _REFUSED.items():
        refuse_names(attrgetter(path)(package) if path else package, path, groups)
