# SPDX-License-Identifier: Apache-2.0
"""Null and values of the wrong kind as arguments: an error for each, never a crash or an internal error."""
import json
import subprocess
import sys

import pytest

import treadle
from treadle import relay, te, tir, topi

X = relay.var("x", shape=(2, 3))
KERNEL = te.create_prim_func([(A := te.placeholder((4,), name="A")), te.compute((4,), lambda i: A[i] + 1, name="B")])


@pytest.mark.parametrize("call,text", [
    (lambda: treadle.transform.Pass().info, "argument 0: expected transform.Pass but got null"),
    (lambda: treadle.transform.Pass().name, "argument 0: expected transform.Pass but got null"),
    (lambda: treadle.runtime.Module().get_source(), "expected a Module"),
    (lambda: treadle.IRModule.from_expr(None), "argument 0: expected Object but got null"),
    (lambda: relay.analysis.post_order_visit(None, print), "argument 0: expected RelayExpr but got null"),
    (lambda: relay.analysis.well_formed(KERNEL), "argument 0: expected RelayExpr but got tir.PrimFunc"),
    (lambda: relay.transform.InferType()(None), "argument 1: expected IRModule but got null"),
    (lambda: relay.Call(None, []), "argument 0: expected RelayExpr but got null"),
    (lambda: relay.Tuple([X, None]), "expected an expression, a number or an array but got None"),
    (lambda: relay.Tuple([KERNEL]), "argument 0, element 0: expected RelayExpr but got tir.PrimFunc"),
    (lambda: relay.Constant(None), "argument 0: expected runtime.NDArray but got null"),
    (lambda: relay.backend.GraphPlanMemory(None), "a plan is made of a relay.Function, not of null"),
    (lambda: treadle.get_global_func("runtime.SaveParams")({"w": None}), "parameters are a dict from names to arrays"),
    (lambda: relay.save_param_dict({"w": None}), "can't make a tensor of a NoneType"),
    (lambda: tir.Block([], [], [], "b", None), "expected a statement but got null"),
    (lambda: tir.Schedule(None), "Schedule takes a module or a loop-level function, not None"),
    (lambda: tir.stmt_seq(relay.TupleType([])), "expected tir.Stmt but got TupleType"),
    (lambda: tir.analysis.verify_ssa(None), "argument 0: expected Object but got null"),
    (lambda: tir.analysis.verify_ssa("x"), "expected tir.Stmt but got runtime.String"),
    (lambda: tir.analysis.undefined_vars([1], []), "expected tir.Stmt but got runtime.Array"),
    (lambda: topi.nn.flatten(X), "the graph's variable x is no tensor expression; expected a te.Tensor"),
])
def test_mistakes(call, text):
    with pytest.raises((treadle.Error, TypeError), match=text):
        call()


SWEEP = """
import json, re, sys
import treadle
for name in treadle._core.list_globals():
    if re.match(r"rpc|tune\\.|driver\\.KernelCacheClear|relay\\.backend\\._CompileEngineClear", name):
        continue
    function = treadle.get_global_func(name)
    for count in range(12):
        print(json.dumps([name, count]), flush=True)
        try:
            function(*[None] * count)
            break
        except treadle.error.InternalError as error:
            sys.exit(f"{name}: {error}")
        except Exception as error:
            if not re.match(r"function takes|there is no argument|.* argument.* (was|were) given", str(error)):
                break
"""


def test_no_function_fails_on_null():
    child = subprocess.run([sys.executable, "-c", SWEEP], capture_output=True, text=True, timeout=300, check=False)
    last = json.loads(child.stdout.splitlines()[-1])
    assert child.returncode == 0, (last, child.stderr[-500:])
