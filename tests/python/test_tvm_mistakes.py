# SPDX-License-Identifier: Apache-2.0
"""Mistakes with TVM's names: what is said of each, word for word where it is short."""
import re

import numpy as np
import pytest

import treadle as tvm
from treadle import auto_scheduler, autotvm, relay, rpc, script, te, tir, topi
from treadle import meta_schedule as ms
from treadle.contrib import cc, graph_executor
from treadle.driver import tvmc

A = te.placeholder((16, 8), name="A")
B = te.compute((16, 8), lambda i, j: A[i, j] + 1, name="B")
W = te.placeholder((8, 4), name="W")
K = te.reduce_axis((0, 8), name="k")
C = te.compute((16, 4), lambda i, j: te.sum(A[i, K] * W[K, j], axis=K), name="C")
X = relay.var("x", shape=(1, 3, 8, 8))
KERNEL = relay.var("w", shape=(4, 3, 3, 3))
CONV = tvm.IRModule.from_expr(relay.Function([X, KERNEL], relay.nn.conv2d(X, KERNEL, channels=4, kernel_size=3)))
ONE = tvm.IRModule.from_expr(relay.const(1.0))


def stage():
    return te.create_schedule(B.op)[B]


def schedule():
    return tir.Schedule(te.create_prim_func([A, W, C]))


def primitive(use):
    """Calls use(schedule, block, its loops)."""
    sch = schedule()
    block = sch.get_block("C")
    return lambda: use(sch, block, sch.get_loops(block))


def executor():
    return graph_executor.GraphModule(relay.build(CONV, "llvm")["default"](tvm.cpu()))


@autotvm.template("ones")
def ones(n):
    data = te.placeholder((n,), name="data")
    result = te.compute((n,), lambda i: data[i] + 1, name="result")
    s, config = te.create_schedule(result.op), autotvm.get_config()
    config.define_split("tile", config.axis(n), num_outputs=2)
    config["tile"].apply(s, result, s[result].op.axis[0])
    return s, [data, result]


@auto_scheduler.register_workload("ones")
def tensors_of_ones(n):
    data = te.placeholder((n,), name="data")
    return [data, te.compute((n,), lambda i: data[i] + 1, name="result")]


LOCAL = autotvm.measure_option("local", "local")
FUNCTION = te.create_prim_func([A, W, C])


def template_task():
    return autotvm.task.create("ones", (16,), "llvm")


def tuner():
    return autotvm.tuner.RandomTuner(template_task())


def search_task():
    return auto_scheduler.SearchTask(func="ones", args=(16,), target="llvm")


def check(mistakes):
    return pytest.mark.parametrize("call, text", mistakes, ids=[text[:60] for _, text in mistakes])


def expect(call, text):
    with pytest.raises((tvm.Error, TypeError, ValueError, AttributeError, IndexError), match=re.escape(text)) as raised:
        call()
    assert "object is not" not in str(raised.value)


@check([
    (lambda: te.placeholder((2, "a")), "a dimension must be an integer or an expression, not 'a'"),
    (lambda: te.placeholder((2, -3)), "a dimension must not be negative: -3"),
    (lambda: te.placeholder((2,), "flaot32"), 'unknown data type "flaot32"'),
    (lambda: te.placeholder((2,), "flaot32"), "did you mean 'float32'?"),
    (lambda: te.placeholder((2,), name=3), "te.Placeholder: argument 2: expected str but got int"),
    (lambda: te.compute((2, 3), lambda i: 1.0), "compute compute: the function takes 1 indices, the shape has 2 dimensions"),
    (lambda: te.compute((2,), lambda i: None), "compute compute: the function must give an expression, not None"),
    (lambda: te.compute((2,), 5), "compute compute: expected a function of the indices, not 5"),
    (lambda: A[0] + 1, "tensor A has 2 dimensions but 1 index"),
    (lambda: A["x", 0], "tensor A: 'x' can't be an index; expected an integer expression"),
    (lambda: te.sum(A[0, 0]), "sum: no axis to reduce over; expected one made by te.reduce_axis, or several"),
    (lambda: te.sum(A[0, 0], axis=0), "sum: 0 isn't a reduction axis; expected one made by te.reduce_axis"),
    (lambda: te.exp("a"), "a floating-point function can't take a value of type handle; expected a number"),
    (lambda: te.reduce_axis((0,)), "axis rv: the domain must be a pair (begin, end), not (0,)"),
    (lambda: te.create_schedule(5), "create_schedule: expected an operation or a tensor, not 5"),
    (lambda: te.create_schedule(B.op)[C], "operation 'C' isn't part of the schedule"),
    (lambda: te.hybrid.script(5), "script: expected a function of tensors, not 5"),
    (lambda: te.decl_tensor_intrin(5, print), "intrinsic tensor_intrin: expected the operation of a tensor (tensor.op), not 5"),
    (lambda: te.scan(1, 2, 3), "te.ScanOp: argument 3, element 0: expected te.Tensor but got IntImm"),
    (lambda: stage().split(B.op.axis[0]), "split: axis 'i' of stage 'B' needs either factor or nparts"),
    (lambda: stage().split(B.op.axis[0], factor=0), "split: factor 0 of axis 'i' of stage 'B'; expected a positive number"),
    (lambda: stage().split("i", factor=2), "split: 'i' isn't an axis of stage 'B'; expected one of its axes (i, j)"),
    (lambda: stage().reorder(B.op.axis[0], B.op.axis[0]), "reorder: axis 'i' of stage 'B' is listed twice"),
    (lambda: stage().compute_inline(), "compute_inline: stage 'B' is an output"),
    (lambda: stage().set_scope("foo"), "set_scope of stage 'B': there is no storage scope 'foo'"),
    (lambda: te.create_schedule(C.op).rfactor(C, C.op.axis[0]), "rfactor: 'i' isn't a reduction axis of stage 'C'"),
    (lambda: te.create_schedule(B.op).cache_read(A, "local", []), "cache_read of tensor A: no readers"),
    (lambda: tvm.lower(te.create_schedule(B.op), [B]), "tensor A is an input of the computation but not among the arguments"),
    (lambda: tvm.lower(te.create_schedule(B.op), [A, B, 5]), "argument 2 of the function: expected a tensor, buffer or variable"),
    (lambda: tvm.build(te.create_schedule(B.op), target="llvm"), "lowering a schedule needs the list of tensors"),
    (lambda: tvm.build(te.create_schedule(B.op), [A, B], "lvm"), "did you mean 'llvm'?"),
    (lambda: tvm.build(te.create_schedule(B.op), [A, B], "llvm").time_evaluator("mian"),
     "a module of type llvm has no function 'mian'; did you mean 'main'?"),
    (lambda: te.extern((2,), [A], 7), "extern extern: expected a function of the input and output buffers, not 7"),
    (lambda: te.thread_axis((0, "a"), "threadIdx.x"), "thread_axis threadIdx.x: a dimension must be an integer or an expression, not 'a'"),
    (lambda: te.thread_axis((0, 1, 2), "vthread"), "thread_axis vthread: the domain must be a pair (begin, end), not (0, 1, 2)"),
    (lambda: te.thread_axis(4, 5), "thread_axis: a tag is a text such as 'threadIdx.x', not 5"),
    (lambda: te.comm_reducer(5, lambda t: 0), "comm_reducer reduce: fcombine is 5; expected a function"),
    (lambda: te.gradient(B, 5), "gradient: inputs: expected a tensor, or a list of them, got 5"),
    (lambda: tvm.build(te.create_schedule(B.op), [A, B], "llvm").time_evaluator("main", tvm.cpu(), number=0),
     "time_evaluator: number is 0; expected 1 or more"),
    (lambda: tvm.build(te.create_schedule(B.op), [A, B], "llvm").time_evaluator("main", "gpuz"), 'unknown device "gpuz"'),
    (lambda: tvm.build(te.create_schedule(B.op), [A, B], "llvm").export_library(5), "export_library: expected a path, got 5"),
    (lambda: tvm.build(te.create_schedule(B.op), [A, B], "llvm").save(5), "save: expected a path, got 5"),
    (lambda: tvm.build(te.create_schedule(B.op), [A, B], "llvm").import_module(5), "import_module: expected a module, got int"),
])
def test_tensor_expressions(call, text):
    expect(call, text)


@check([
    (lambda: tir.IntImm("int32", "a"), "an integer constant is made of a number, not of 'a'"),
    (lambda: tir.IntImm("int8", 300), "constant 300 doesn't fit into int8"),
    (lambda: tir.For(1, 2, 3, 4, 5), "tir.For: argument 0: expected"),
    (lambda: tir.BufferLoad(tir.decl_buffer((2, 3), name="D"), [1]), "buffer D has 2 dimensions but is read with 1 indices"),
    (lambda: tir.decl_buffer("a"), 'decl_buffer buffer: a dimension must be an integer or an expression, not "a"'),
    (lambda: tvm.arith.Analyzer().bind(5, 6), "Analyzer.bind: expected a variable, not 5"),
    (lambda: tir.all(), "all: expected at least one condition"),
    (lambda: tir.any(), "any: expected at least one condition"),
    (lambda: tir.PrimFunc([1], tir.Evaluate(0)), "a parameter of a function is a buffer or a variable, not 1"),
    (lambda: tir.call_intrin("float32", "tir.ecp", 1), "unknown operator 'tir.ecp'; did you mean 'tir.exp'?"),
    (lambda: tir.transform.UnrollLoop()(5), "transform.RunPass: argument 1: expected IRModule but got int"),
    (lambda: schedule().get_block("D"), "there is no block 'D'; the function has: root, C"),
    (lambda: schedule().get_block("C", func_name="mian"), "get_block: the module has no function 'mian'; it has: main"),
    (primitive(lambda s, b, loops: s.split(loops[0], [3, 3])), "split: the factors of loop 'i' cover 9 iterations, its extent is 16"),
    (primitive(lambda s, b, loops: s.split("i", [2, 8])), "split: expected a loop (get_loops), not 'i'"),
    (primitive(lambda s, b, loops: s.fuse(loops[0], loops[2])), "fuse: loop 'k' isn't the only content of loop 'i'"),
    (primitive(lambda s, b, loops: s.vectorize(loops[2])), "which is a reduction axis; only data-parallel axes can run at once"),
    (primitive(lambda s, b, loops: s.bind(loops[0], "threadIdx.w")), "bind: there is no thread axis 'threadIdx.w'; expected blockIdx.x"),
    (primitive(lambda s, b, loops: s.cache_read(b, 5, "local")), "cache_read: block 'C' reads 2 buffers; there is no number 5"),
    (primitive(lambda s, b, loops: s.annotate(b, 5, 6)), "tir.schedule.annotate: argument 2: expected str but got int"),
    (primitive(lambda s, b, loops: s.unannotate(b, "x")), "unannotate: there is no annotation 'x'; there are: none"),
    (primitive(lambda s, b, loops: s.rfactor(loops[0], 0)), "rfactor: loop 'i' iterates over axis 'vi' of block 'C', which isn't reduced"),
    (primitive(lambda s, b, loops: s.tensorize(b, "none")), "there is no intrinsic none"),
    (primitive(lambda s, b, loops: s.sample_perfect_tile(loops[0], 2, 0)),
     "sample_perfect_tile: max_innermost_factor is 0; expected 1 or more"),
    (primitive(lambda s, b, loops: s.sample_categorical([1, 2], [0.5])), "sample_categorical: 2 candidates and 1 probabilities"),
    (lambda: schedule().get_block(5), "get_block: expected the name of a block, not 5"),
    (primitive(lambda s, b, loops: s.transform_layout(b, 5, lambda i: i)),
     'transform_layout: the buffer is 5; expected its name, ("write", 0) or ("read", 1)'),
    (primitive(lambda s, b, loops: s.transform_layout(b, "C", 5)), "transform_layout: expected a function of the indices, not 5"),
    (lambda: tir.transform.prim_func_pass(5), "a pass is made of a function or a class, not of int"),
    (lambda: tvm.transform.module_pass(5), "a pass is made of a function or a class, not of int"),
])
def test_loops(call, text):
    expect(call, text)


@check([
    (lambda: relay.var("x", shape=5), "the shape of 'x' is 5; expected a tuple such as (1, 3, 224, 224)"),
    (lambda: relay.var("x", shape=(2, "n")), "'n' can't be a dimension; expected an integer, relay.Any() or tir.Var('n', 'int64')"),
    (lambda: relay.var(5), "relay.ir.Var: argument 0: expected str but got int"),
    (lambda: relay.nn.conv2d(X), "nn.conv2d takes 2 operands (data, weight), got 1"),
    (lambda: relay.nn.conv2d(X, KERNEL, kernal_size=3), "nn.conv2d has no attribute 'kernal_size'; it has: strides, padding"),
    (lambda: relay.nn.conv2d(X, KERNEL, padding="same"), "nn.conv2d: attribute 'padding' expects an integer"),
    (lambda: relay.nn.conv3(X, KERNEL), "no operator 'nn.conv3'; did you mean 'nn.conv3d'?"),
    (lambda: relay.reshape(X, "a"), "reshape: newshape is 'a'; expected a list of integers, or an expression"),
    (lambda: relay.op.get("nn.conv2dd"), "unknown operator 'nn.conv2dd'; did you mean 'nn.conv2d'?"),
    (lambda: relay.Function(X, X), "the parameters of a function are a list of relay.Var, not a Var"),
    (lambda: relay.Function([5], X), "relay.ir.Function: argument 0, element 0: expected relay.Var but got IntImm"),
    (lambda: relay.Call(5, []), "relay.ir.Call: argument 0: expected RelayExpr but got int"),
    (lambda: relay.build(5), "expected an IRModule or a relay.Function, got int"),
    (lambda: relay.build(tvm.IRModule(), "llvm"), "module has no function 'main'; it has: none"),
    (lambda: relay.build(ONE, "llvm", params=5), "params: expected a dict such as {'weight': array}, got int 5"),
    (lambda: relay.build(ONE, "llvm", foo=5), "build() has no argument 'foo'"),
    (lambda: relay.create_executor("grph"), 'no executor of kind "grph"; there are "debug", "graph" and "vm"'),
    (lambda: relay.transform.FuseOpps(), "no pass 'FuseOpps'; did you mean 'FuseOps'?"),
    (lambda: relay.transform.FuseOps("a"), "relay._transform.FuseOps: argument 0: expected int but got str"),
    (lambda: relay.transform.ConvertLayout({"nn.conv2dd": ["NHWC", "default"]}), "unknown operator 'nn.conv2dd'; did you mean"),
    (lambda: relay.transform.ToMixedPrecision("float17"), "ToMixedPrecision computes in float16 or bfloat16, not in 'float17'"),
    (lambda: relay.fromtext(5), "parse: expected a text, not int 5"),
    (lambda: relay.frontend.from_onnx("no.onnx"), "can't open no.onnx: No such file or directory"),
    (lambda: relay.frontend.from_keras(5), "there is no relay.frontend.from_keras: tf2onnx writes such models as ONNX"),
    (lambda: relay.quantize.quantize(5), "quantize: expected an IRModule, got int"),
    (lambda: relay.quantize.qconfig(nbit_inptu=4), "qconfig has no option 'nbit_inptu'; did you mean 'nbit_input'?"),
    (lambda: relay.analysis.free_vars(5), "relay.analysis.free_vars: argument 0: expected RelayExpr but got int"),
    (lambda: relay.save_param_dict(5), "params: expected a dict such as {'weight': array}, got int 5"),
    (lambda: relay.load_param_dict(b"abc"), "params: truncated: 8 bytes wanted at offset 0 but only 3 are left"),
    (lambda: tvm.transform.PassContext(required_pass="FuseOps"), "required_pass must be a list of names of passes, not 'FuseOps'"),
    (lambda: tvm.transform.Sequential(5), "passes must be a list of Pass objects, not 5"),
    (lambda: tvm.transform.Sequential([5]), "passes must be a list of Pass objects; 5 is none"),
    (lambda: tvm.IRModule({"a": 5}), "ir.IRModule: argument 0, a value: expected BaseFunc but got IntImm"),
    (lambda: ONE["foo"], "module has no function 'foo'; it has: main"),
    (lambda: tvm.target.Target({"kind": "llvm", "mcup": 1}), "llvm has no option -mcup; did you mean 'mcpu'?"),
    (lambda: tvm.target.cuda(), "there is no target cuda; there are: llvm, c, opencl, stackvm, null"),
    (lambda: topi.nn.con2d(A), "there is no operator 'nn.con2d'; did you mean 'nn.conv2d'?"),
    (lambda: topi.nn.softmax(A, axis=7), "nn.softmax: axis 7 is out of range for rank 2"),
    (lambda: topi.reshape(A, (4, 2)), "reshape of (16, 8) to (4, 2): 128 elements can't become 8"),
    (lambda: relay.const([1, [2, 3]]), "const: expected numbers in rows of one length, got [1, [2, 3]]"),
    (lambda: X + "a", "expected an expression, a number or an array but got 'a'"),
    (lambda: relay.Tuple(X), "relay.Tuple: expected a list of expressions, got"),
    (lambda: relay.nn.pad(X, 5), "nn.pad: pad_width is 5; expected a pair (before, after) for each dimension"),
    (lambda: relay.nn.pad(X, ((0, 0), 1, 1, 1)), "nn.pad: pad_width is ((0, 0), 1, 1, 1); expected a pair (before, after)"),
    (lambda: relay.bind(X, 5), "bind: expected a dict from variables to expressions, got 5"),
    (lambda: relay.build_module.bind_params_by_name(5, {}), "bind_params_by_name: expected a relay.Function, got int"),
    (lambda: relay.create_executor("vm", 5), "create_executor: expected an IRModule, got int; IRModule.from_expr makes one"),
    (lambda: relay.create_executor("vm", CONV, "cpux"), 'unknown device "cpux"; expected such as cpu, cpu:0 or opencl'),
    (lambda: relay.create_executor("graph", CONV).evaluate()(np.zeros((1, 3, 8, 8), "float32")),
     "the function takes 2 arguments (x, w), got 1"),
    (lambda: relay.create_executor("debug", CONV).evaluate()(5, y=5),
     "the function has no further parameter 'y'; its parameters are x, w"),
    (lambda: tvm.runtime.vm.VirtualMachine(relay.vm.compile(ONE, "llvm"), "gpuz"), 'unknown device "gpuz"'),
    (lambda: relay.dataflow_pattern.rewrite(5, X), "rewrite: expected a DFPatternCallback, or a list of them, got 5"),
    (lambda: relay.quantize.quantize(CONV, params=5), "params: expected a dict such as {'weight': array}, got int 5"),
    (lambda: relay.quantize.qconfig(global_scale=-1), "qconfig: global_scale is -1; expected a number above 0"),
])
def test_graphs(call, text):
    expect(call, text)


def test_passes_that_look_misspelt_are_a_warning():
    with pytest.warns(UserWarning, match="disabled_pass: there is no pass 'FuseOpps'; did you mean 'FuseOps'?"):
        tvm.transform.PassContext(disabled_pass=["FuseOpps"])


@check([
    (lambda: graph_executor.GraphModule(5), 'GraphModule: expected what lib["default"](device) gives, got int'),
    (lambda: relay.build(ONE, "llvm")["defult"], "has no function 'defult'; did you mean 'default'?"),
    (lambda: executor().set_input("y", np.zeros(2)), 'no input "y"; the inputs are: x, w'),
    (lambda: executor().set_input("x", np.zeros(3, "float32")), 'input "x": expected float32 (1, 3, 8, 8) but got float32 (3,)'),
    (lambda: executor().get_output("y"), "get_output: outputs are numbered from 0; expected an int, got 'y'"),
    (lambda: executor().get_output(4), "no output 4; there are 1"),
    (lambda: cc.create_shared("x.so", 5), "create_shared: expected a list of paths, got 5"),
    (lambda: tvm.nd.array("a"), "arrays of NumPy type <U1 aren't supported"),
    (lambda: tvm.nd.array([1.0], device="gpuu"), 'unknown device "gpuu"; expected such as cpu, cpu:0 or opencl'),
    (lambda: tvm.nd.array([1.0], device=[]), "expected a device such as treadle.cpu(), or its name, got []"),
    (lambda: tvm.nd.empty((2, "a")), "a shape is a tuple of whole numbers below 2**63, not (2, 'a')"),
    (lambda: tvm.nd.array([1.0]).copyto(5), "copyto: expected a tensor or a device, got 5"),
    (lambda: tvm.register_func(5), "register_func: expected the name of a function, or a function, not 5"),
    (lambda: tvm.get_global_func("no.such.func"), 'no global function "no.such.func"'),
    (lambda: tvm.runtime.load_module("nodir/x.so"), "can't read nodir/x.so: No such file or directory"),
    (lambda: rpc.connect("localhost", "a"), "the port is 'a'; expected a whole number from 1 to 65535"),
    (lambda: rpc.Server(port=-1), "rpc.Server: port is -1; expected 0 to 65535"),
    (lambda: tvmc.compile(5, "llvm"), "expected a model with an IRModule, not int"),
    (lambda: tvmc.run(5, "cpu"), "run: expected a package (tvmc.compile), not int"),
    (lambda: tvmc.tune(5, "llvm"), "tune: expected a model (tvmc.load), not int"),
    (lambda: script.from_source(5), "from_source: expected a text in TVMScript, not 5"),
    (lambda: graph_executor.create(5, None, tvm.cpu()), "graph_executor.create: the graph is a text (get_graph_json), not int"),
    (lambda: graph_executor.create("{}", 5, tvm.cpu()), "graph_executor.create: expected a module of kernels (get_lib), got int"),
    (lambda: graph_executor.create("{}", relay.build(ONE, "llvm").get_lib(), "gpuz"), 'unknown device "gpuz"'),
    (lambda: executor().set_input("x", "abc"), "input \"x\": expected numbers for float32, got 'abc'"),
    (lambda: executor().set_input("x", None), 'input "x" is None; expected an array of float32'),
    (lambda: executor().set_input("x", [[1], [2, 3]]), 'input "x": the rows of the list differ in length'),
    (lambda: executor().get_output(0, out=5), "get_output: expected a tensor to copy into, got int"),
    (lambda: executor().load_params(5), "load_params: expected the bytes of relay.save_param_dict, got int"),
    (lambda: executor().share_params(5, b""), "share_params: expected a GraphModule, got int"),
    (lambda: executor().benchmark("gpuz"), 'unknown device "gpuz"'),
    (lambda: executor().benchmark(tvm.cpu(), repeat="a"), "benchmark: repeat is 'a'; expected a whole number of 1 or more"),
    (lambda: rpc.connect(5, 9090), "the host is 5; expected a name or an address"),
    (lambda: rpc.connect_tracker("localhost", "a"), "the port is 'a'; expected a whole number from 1 to 65535"),
    (lambda: rpc.Server(5), "rpc.Server: the host is 5; expected a name or an address"),
    (lambda: rpc.tracker.Tracker(port="a"), "rpc.tracker.Tracker: port is 'a'; expected a whole number from 0 to 65535"),
])
def test_running(call, text):
    expect(call, text)


@check([
    (lambda: autotvm.LocalRunner(number="a"), "LocalRunner: number is 'a'; expected a whole number of 1 or more"),
    (lambda: autotvm.LocalRunner(timeout=0), "LocalRunner: the time limit is 0; expected seconds above 0"),
    (lambda: autotvm.LocalRunner(min_repeat_ms=-1), "LocalRunner: min_repeat_ms is -1; expected milliseconds, 0 or more"),
    (lambda: autotvm.measure_option("local", "lcoal"), "measure_option: the runner is 'lcoal'; expected \"local\" or a LocalRunner"),
    (lambda: autotvm.measure_option(5, "local"), "measure_option: the builder is 5; expected \"local\" or a LocalBuilder"),
    (lambda: autotvm.task.create("no_such", (1,), "llvm"), "there is no template 'no_such'"),
    (lambda: autotvm.task.create(5, (1,), "llvm"), "task.create: expected the name of a template, or its function, not 5"),
    (lambda: autotvm.template("t")(5), "template 't': expected a function of sizes, not 5"),
    (lambda: autotvm.tuner.XGBTuner(5), "XGBTuner: expected a task (autotvm.task.create), not 5"),
    (lambda: autotvm.apply_history_best(5), "records: expected a path, got 5"),
    (lambda: autotvm.task.extract_from_program(5, {}, "llvm"), "expected a module or a function of the graph IR, not int"),
    (lambda: auto_scheduler.SearchTask(func=5, args=(1,), target="llvm"), "there is no workload 5"),
    (lambda: auto_scheduler.register_workload(5), "register_workload: expected a function of sizes, or its name, not 5"),
    (lambda: auto_scheduler.TuningOptions("a"), "TuningOptions: num_measure_trials is 'a'; expected a whole number of 0 or more"),
    (lambda: auto_scheduler.TuningOptions(runner="lcl"), "TuningOptions: the runner is 'lcl'; expected \"local\" or a LocalRunner"),
    (lambda: auto_scheduler.ApplyHistoryBest("nodir/x"), "nodir/x: there is no such file of records"),
    (lambda: auto_scheduler.TaskScheduler(5), "auto_scheduler.TaskScheduler: expected the tasks of extract_tasks, not 5"),
    (lambda: auto_scheduler.ComputeDAG(5), "ComputeDAG: expected the tensors of a computation, inputs and results, got 5"),
    (lambda: auto_scheduler.ComputeDAG([]), "ComputeDAG: there are no tensors"),
    (lambda: auto_scheduler.SketchPolicy(5), "SketchPolicy: expected a SearchTask, not 5"),
    (lambda: auto_scheduler.LocalRunner(repeat=0), "LocalRunner: repeat is 0; expected 1 or more"),
    (lambda: ms.runner.LocalRunner(timeout_sec="a"), "meta_schedule.LocalRunner: the time limit is 'a'; expected seconds above 0"),
    (lambda: ms.builder.LocalBuilder(max_workers="a"), "meta_schedule.LocalBuilder: max_workers is 'a'"),
    (lambda: ms.tune_tir(5, "llvm", "w", 5), "meta_schedule: expected a function or a module with one, not int"),
    (lambda: ms.SearchStrategy.create("foo"), "meta_schedule.SearchStrategy.create: a search draws decisions"),
    (lambda: ms.nosuch, "module 'treadle.meta_schedule' has no attribute 'nosuch'"),
    (lambda: autotvm.task.create("ones", 16, "llvm"), "task.create: args: expected a tuple of the template's arguments, got 16"),
    (lambda: autotvm.task.create("ones", (16, 2), "llvm"), "template 'ones' doesn't take the arguments (16, 2): too many positional"),
    (lambda: template_task().config_space.get(10**6), "there is no configuration 1000000; expected a number from 0 to 4"),
    (lambda: template_task().config_space.get("a"), "there is no configuration 'a'; expected a number from 0 to 4"),
    (lambda: template_task().instantiate(5), "Task.instantiate: expected a configuration (config_space.get), not 5"),
    (lambda: tuner().tune("a", LOCAL), "RandomTuner.tune: n_trial is 'a'; expected a whole number of 0 or more"),
    (lambda: tuner().tune(2, 5), "RandomTuner.tune: expected measure_option(builder, runner), not 5"),
    (lambda: tuner().tune(2, LOCAL, callbacks=5), "RandomTuner.tune: callbacks: expected a list of functions, got 5"),
    (lambda: tuner().tune(2, LOCAL, callbacks=[5]), "RandomTuner.tune: a callback: expected a function, got 5"),
    (lambda: autotvm.tuner.GATuner(template_task(), pop_size=0), "GATuner: pop_size is 0; expected 1 or more"),
    (lambda: autotvm.tuner.XGBTuner(template_task(), loss_type="rnak"), "XGBTuner: loss_type is 'rnak'; expected 'rank' or 'reg'"),
    (lambda: autotvm.callback.log_to_file(5), "log_to_file: expected a path, got 5"),
    (lambda: autotvm.callback.progress_bar("a"), "progress_bar: total is 'a'; expected a whole number of 0 or more"),
    (lambda: autotvm.record.encode(1, 2), "encode: expected a MeasureInput and a MeasureResult, not 1 and 2"),
    (lambda: autotvm.LocalBuilder(n_parallel="a"), "LocalBuilder: n_parallel is 'a'; expected a whole number of 1 or more"),
    (lambda: autotvm.ConfigSpace().define_knob("k", 5), "define_knob 'k': expected a list of values, got 5"),
    (lambda: autotvm.ConfigSpace().define_split("k", "a"), "define_split: expected an axis, or its length, not 'a'"),
    (lambda: autotvm.ConfigSpace().define_split("k", 16, num_outputs=0), "define_split 'k': num_outputs is 0; expected 1 or more"),
    (lambda: autotvm.ConfigSpace().define_reorder("k", 5, policy="all"), "define_reorder 'k': expected a list of axes, got 5"),
    (lambda: autotvm.task.extract_from_program(CONV["main"], 5, "llvm"), "params: expected a dict such as {'weight': array}, got int 5"),
    (lambda: auto_scheduler.SearchTask(func="ones", args=16, target="llvm"),
     "SearchTask: args: expected a tuple of the workload's arguments, got 16"),
    (lambda: search_task().tune(5), "SearchTask.tune: expected TuningOptions, not 5"),
    (lambda: search_task().apply_best(5), "records: expected a path, got 5"),
    (lambda: auto_scheduler.RecordToFile(5), "RecordToFile: expected a path, got 5"),
    (lambda: auto_scheduler.TuningOptions(measure_callbacks=5), "TuningOptions: measure_callbacks: expected a list of functions, got 5"),
    (lambda: auto_scheduler.LocalBuilder(n_parallel="a"), "LocalBuilder: n_parallel is 'a'; expected a whole number of 1 or more"),
    (lambda: auto_scheduler.SketchPolicy(search_task(), program_cost_model=5), "SketchPolicy: the cost model is 5; expected an XGBModel"),
    (lambda: auto_scheduler.SketchPolicy(search_task(), params=5), "SketchPolicy: params: expected a dict such as {'eps_greedy': 0.05}"),
    (lambda: search_task().compute_dag.apply_steps_from_state(5), "apply_steps_from_state: expected a State, not 5"),
    (lambda: ms.tune_tir(FUNCTION, "llvm", 5, 4), "meta_schedule: work_dir: expected a path, got 5"),
    (lambda: ms.tune_tir(FUNCTION, "llvm", "w", "a"), "tune_tir: max_trials_global is 'a'; expected a whole number of 0 or more"),
    (lambda: ms.tune_tir(FUNCTION, "llvm", "w", -1), "tune_tir: max_trials_global is -1; expected 0 or more"),
    (lambda: ms.tune_tir(FUNCTION, "llvm", "w", 4, builder=5), 'tune_tir: the builder is 5; expected "local" or a LocalBuilder'),
    (lambda: ms.tune_tir(FUNCTION, "llvm", "w", 4, runner="lcl"), "tune_tir: the runner is 'lcl'; expected \"local\" or a LocalRunner"),
    (lambda: ms.tune_tir(FUNCTION, "llvm", "w", 4, strategy="evolution"), "did you mean 'evolutionary'?"),
])
def test_tuning(call, text):
    expect(call, text)
