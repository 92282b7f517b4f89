# SPDX-License-Identifier: Apache-2.0
"""The text of loop-level functions: printed, parsed back, refused with a place."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te, tir

GOLDEN = '''#[version = "0.0.5"]
primfn(A_1: handle, B_1: handle, C_1: handle) -> ()
  attr = {"global_symbol": "mmult", "tir.noalias": True}
  buffers = {C: Buffer(C_2: Pointer(float32), float32, [1024, 1024], []),
             B: Buffer(B_2: Pointer(float32), float32, [1024, 1024], []),
             A: Buffer(A_2: Pointer(float32), float32, [1024, 1024], [])}
  buffer_map = {A_1: A, B_1: B, C_1: C} {
  for (x: int32, 0, 1024) {
    for (y: int32, 0, 1024) {
      C_2[((x*1024) + y)] = 0f32
      for (k: int32, 0, 1024) {
        C_2[((x*1024) + y)] = ((float32*)C_2[((x*1024) + y)] + ((float32*)A_2[((x*1024) + k)]*(float32*)B_2[((k*1024) + y)]))
      }
    }
  }
}
'''


def matmul(n=1024):
    k = te.reduce_axis((0, n), "k")
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    c = te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")
    return a, b, c


def test_the_familiar_listing():
    a, b, c = matmul()
    lowered = tvm.lower(te.create_schedule(c.op), [a, b, c], simple_mode=True, name="mmult")
    assert lowered.astext(show_meta_data=False).startswith(GOLDEN.rstrip("\n"))


def round_trip(func):
    text = str(func)
    parsed = tir.from_text(text)
    tvm.ir.assert_structural_equal(func, parsed)
    assert str(parsed) == text


def scheduled():
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    state = te.placeholder((n, m), name="state")
    update = te.compute((n, m), lambda t, i: te.exp(state[t - 1, i]) + x[t, i], name="update")
    scan = te.scan(te.compute((1, m), lambda _, i: x[0, i]), update, state)
    k = te.reduce_axis((0, m), "k")
    total = te.compute((n,), lambda i: te.max(scan[i, k].astype("float16"), axis=k), name="total")
    odd = te.compute((n,), lambda i: te.if_then_else(te.all(i > 2, i % 2 == 1), total[i] * 2.5, float("-inf")), name="odd")
    s = te.create_schedule(odd.op)
    outer, inner = s[odd].split(odd.op.axis[0], factor=4)
    s[odd].vectorize(inner)
    s[total].compute_at(s[odd], outer)
    return s, [x, odd]


def test_round_trip_before_and_after_lowering():
    a, b, c = matmul(32)
    func = te.create_prim_func([a, b, c])
    round_trip(func)
    sch = tir.Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.split(i, [None, 5])
    sch.parallel(sch.get_loops(block)[0])
    sch.cache_write(block, 0, "local")
    sch.decompose_reduction(block, sch.get_loops(block)[-1])
    sch.annotate(block, "note", "it's \"quoted\"\n")
    round_trip(sch.func)
    s, args = scheduled()
    round_trip(te.create_prim_func(args))
    for _, func in tvm.lower(s, args).functions.items():
        round_trip(func)


def test_parsed_functions_run():
    func = tir.from_text('''primfn(a: handle, b: handle) -> ()
      attr = {"global_symbol": "twice"}
      buffers = {A: Buffer(pa: Pointer(float32), float32, [n: int32], []),
                 B: Buffer(pb: Pointer(float32), float32, [n], [])}
      buffer_map = {a: A, b: B} {
      block "root"() {
        for (i: int32, 0, n) {
          block "B"(vi: int32 data (0, n) = i) {
            reads A[vi];
            writes B[vi];
            B[vi] = A[vi] * 2f32 + 1f32
          }
        }
      }
    }''')
    sch = tir.Schedule(func)
    sch.vectorize(sch.split(sch.get_loops("B")[0], [None, 8])[1])
    x = tvm.nd.array(np.arange(13, dtype="float32"))
    y = tvm.nd.array(np.zeros(13, "float32"))
    tvm.build(sch.mod, target="llvm")["twice"](x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(13) * 2 + 1)


@pytest.mark.parametrize("text,message", [
    ("", "1:1: expected 'primfn'"),
    ("primfn(a: handl) -> ()", "1:11: .*handl"),
    ("primfn() -> () attr = {} {\n  x[0] = 1\n}", "2:3: there is no buffer 'x'"),
    ("primfn() -> () attr = {} {\n  evaluate(y)\n}", "2:12: 'y' isn't defined"),
    ("primfn() -> () attr = {} {\n  evaluate(1 + 2f32)\n}", "2:14: "),
    ("primfn() -> () attr = {} { if 3 { } }", "condition of if has dtype int32"),
    ("primfn() -> () attr = {} { evaluate(@tir.nothing(dtype=int32)) }", "no intrinsic 'tir.nothing'"),
    ("primfn() -> () attr = {} { allocate(x: Pointer(global float32), float32, [4]), storage_scope = \"global\"; "
     "x[0, 1] = 1f32 }", "1 dimensions but is indexed with 2"),
    ("primfn() -> () attr = {} { evaluate(" + "(" * 100000, "nested more than"),
    ("primfn() -> () attr = {\"a\": \"", "the string isn't closed"),
    ("primfn() -> () attr = {} { evaluate(99999999999999999999) }", "isn't an integer of 64 bits"),
    ("primfn() -> () attr = {} { evaluate(ramp(0, 1, 100000000)) }", "100000000 lanes"),
])
def test_mistakes_have_a_place(text, message):
    with pytest.raises(tvm.ModelFormatError, match=message) as error:
        tir.from_text(text)
    assert "^" in str(error.value)


@pytest.mark.parametrize("arguments,message", [
    ("1", "11 arguments, and two for each step, not 1"),
    ("1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0", "takes tir.address_of"),
    (", ".join(["{at}"] * 7) + ", 1, 0, 16, 0", "words in multiples of 16, not 1, 0 and 16"),
    (", ".join(["{at}"] * 7) + ", 1, 1, 16, 0, {at}, 0", "words in multiples of 16"),
    (", ".join(["{at}"] * 7) + ", 1, 1, 16, 0", "not float64, float64 and float64"),
])
def test_tile_products_that_make_no_sense_are_refused(arguments, message):
    at = "@tir.address_of(C[0], C[3], dtype=handle)"
    func = tir.from_text(f'''primfn(a: handle) -> ()
      attr = {{"global_symbol": "f"}}
      buffers = {{C: Buffer(p: Pointer(float64), float64, [64], [])}}
      buffer_map = {{a: C}} {{ evaluate(@tir.tile_dot_bytes({arguments.format(at=at)}, dtype=int32)) }}''')
    for target in ("stackvm", "llvm -mcpu=sapphirerapids"):
        with pytest.raises(tvm.Error, match=message) as error:
            tvm.build(func, target=target)
        assert not isinstance(error.value, tvm.InternalError)


def test_damaged_texts_are_refused():
    a, b, c = matmul(8)
    text = str(tvm.lower(te.create_schedule(c.op), [a, b, c])["main"]) + str(te.create_prim_func([a, b, c]))
    rng = np.random.default_rng(0)
    for _ in range(300):
        at = int(rng.integers(len(text)))
        damaged = text[:at] + rng.choice(list("(){}[],=x1.f*&\"")) + text[at + int(rng.integers(3)):]
        try:
            tir.from_text(damaged)
        except tvm.InternalError:
            raise
        except tvm.Error:
            pass
