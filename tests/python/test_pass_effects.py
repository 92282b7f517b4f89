# SPDX-License-Identifier: Apache-2.0
"""Passes neither lose nor repeat nor reorder what has an effect, and keep the values of programs with control flow."""
import numpy as np
import pytest

from treadle import relay, transform

PROGRAMS = {
    "refs": """
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %a = ref_write(%r, add(ref_read(%r), 1));
  let %b = ref_read(%r);
  let %c = ref_write(%r, multiply(%b, 3));
  let %d = ref_read(%r);
  add(multiply(%b, 100), %d)
}
""",
    "refs_unused_write": """
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  ref_write(%r, 5);
  ref_write(%r, add(ref_read(%r), 1));
  ref_read(%r)
}
""",
    "ref_fn": """
def @inc(%r: ref(int32)) -> int32 {
  ref_write(%r, add(ref_read(%r), 1));
  ref_read(%r)
}
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %a = @inc(%r);
  let %b = @inc(%r);
  let %unused = @inc(%r);
  add(multiply(%a, 10000), add(multiply(%b, 100), ref_read(%r)))
}
""",
    "ref_closure": """
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %f = fn (%y: int32) -> int32 { ref_write(%r, add(ref_read(%r), %y)); ref_read(%r) };
  let %a = %f(2);
  let %b = %f(2);
  let %t = (%f(3), %f(4));
  add(multiply(%a, 1000), add(multiply(%b, 100), add(multiply(%t.0, 10), %t.1)))
}
""",
    "ref_if": """
def @main(%x: int32) -> int32 {
  let %r = ref(1);
  let %u = if (less(%x, 3)) { ref_write(%r, 10); () } else { ref_write(%r, 20); () };
  let %v = if (less(%x, 0)) { ref_read(%r) } else { ref_write(%r, 7); multiply(ref_read(%r), 2) };
  add(%v, multiply(ref_read(%r), 1000))
}
""",
    "ref_inline": """
def @bump(%r: ref(int32), Inline=1) -> int32 {
  let %old = ref_read(%r);
  ref_write(%r, add(%old, 1));
  %old
}
def @twice(%v: int32, Inline=1) -> int32 { add(%v, %v) }
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %t = @twice(@bump(%r));
  let %s = @twice(@bump(%r));
  add(multiply(%t, 1000), add(multiply(%s, 10), ref_read(%r)))
}
""",
    "inline_graph_effect": """
def @twice(%v: int32, Inline=1) -> int32 { add(%v, %v) }
def @bump(%r: ref(int32)) -> int32 { ref_write(%r, add(ref_read(%r), 1)); ref_read(%r) }
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %s = @twice(@bump(%r));
  add(multiply(%s, 10), ref_read(%r))
}
""",
    "inline_drop_effect": """
def @first(%v: int32, %w: int32, Inline=1) -> int32 { %v }
def @bump(%r: ref(int32)) -> int32 { ref_write(%r, add(ref_read(%r), 1)); ref_read(%r) }
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %s = @first(@bump(%r), @bump(%r));
  add(multiply(%s, 10), ref_read(%r))
}
""",
    "rec": """
def @fact(%n: int32) -> int32 { if (equal(%n, 0)) { 1 } else { multiply(%n, @fact(subtract(%n, 1))) } }
def @main(%x: int32) -> int32 { add(@fact(5), @fact(%x)) }
""",
    "mutual": """
def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
def @main(%x: int32) -> (bool, bool) { (@even(%x), @odd(7)) }
""",
    "letrec": """
def @main(%x: int32) -> int32 {
  let %loop = fn (%i: int32, %acc: int32) -> int32 { if (equal(%i, 0)) { %acc } else { %loop(subtract(%i, 1),
    add(%acc, multiply(%i, %x))) } };
  %loop(4, 0)
}
""",
    "hof": """
def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
def @main(%x: int32) -> (int32, int32) {
  let %y = multiply(%x, 3);
  (@apply(fn (%a: int32) -> int32 { add(%a, %y) }, %x), @apply(fn (%a: int32) -> int32 { subtract(%a, %y) }, %y))
}
""",
    "adt": """
type L { C(int32, L), N, }
def @build(%n: int32) -> L { if (equal(%n, 0)) { N } else { C(%n, @build(subtract(%n, 1))) } }
def @sum(%l: L) -> int32 { match (%l) { C(%h, %t) => add(%h, @sum(%t)), N => 0, } }
def @main(%x: int32) -> (int32, int32) { (@sum(@build(3)), @sum(C(%x, C(2, N)))) }
""",
    "match_eff": """
type O { S(int32), Z, }
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %o = S({ ref_write(%r, 42); ref_read(%r) });
  let %v = match (%o) { S(_) => 1, Z => 2, };
  add(%v, ref_read(%r))
}
""",
    "tuple_share": """
def @main(%x: Tensor[(3), float32]) -> (Tensor[(3), float32], (Tensor[(3), float32], Tensor[(3), float32])) {
  %0 = exp(%x); %1 = (%0, (%0, add(%0, 1f))); %2 = %1.1; (%1.0, (%2.1, add(%2.0, %2.1)))
}
""",
    "cse_scopes": """
def @main(%x: Tensor[(3), float32], %c: bool) -> Tensor[(3), float32] {
  %0 = exp(%x);
  %1 = if (%c) { let %a = exp(%x); add(%a, %0) } else { multiply(exp(%x), tanh(%x)) };
  add(%1, tanh(%x))
}
""",
    "dyn": """
def @main(%x: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
  %0 = shape_of(%x, dtype="int64"); %1 = dyn.reshape(%x, %0); nn.relu(add(%1, 0f))
}
""",
    "dyn_batch": """
def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(4, 3), float32]) -> Tensor[(?, 4), float32] {
  %0 = nn.dense(%x, %w); %1 = nn.softmax(%0); add(multiply(%1, 1f), subtract(%0, 0f))
}
""",
    "const_if": """
def @main(%x: int32) -> int32 { let %k = less(1, 2); if (%k) { add(%x, 1) } else { multiply(%x, 9) } }
""",
    "unused_fn": """
def @dead(%x: int32) -> int32 { @dead2(%x) }
def @dead2(%x: int32) -> int32 { %x }
def @live(%x: int32) -> int32 { add(%x, 3) }
def @main(%x: int32) -> int32 { @live(@live(%x)) }
""",
    "nested_fn": """
def @main(%x: int32) -> int32 {
  let %f = fn (%a: int32) -> fn (int32) -> int32 { fn (%b: int32) -> int32 { add(multiply(%a, 10), add(%b, %x)) } };
  let %g = %f(3); let %h = %f(4); add(%g(1), multiply(%h(2), 1000)) }
""",
    "shadow_use": """
def @main(%x: Tensor[(2, 2), float32]) -> Tensor[(2, 2), float32] {
  let %a = add(%x, %x); let %b = { let %t = exp(%a); add(%t, %a) }; let %c = add(%x, %x); add(%b, %c) }
""",
    "refread_order": """
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %a = ref_read(%r);
  ref_write(%r, 100);
  let %b = ref_read(%r);
  add(%a, multiply(%b, 1000)) }
""",
    "ref_data": """
def @main(%x: int32) -> int32 {
  let %r = ref((%x, 2));
  let %p = ref_read(%r);
  ref_write(%r, (%p.1, %p.0));
  let %q = ref_read(%r);
  add(multiply(%q.0, 100), %q.1) }
""",
    "fn_in_tuple": """
def @main(%x: int32) -> int32 {
  let %t = (fn (%a: int32) -> int32 { add(%a, 1) }, fn (%a: int32) -> int32 { multiply(%a, 5) });
  let %f = %t.0; let %g = %t.1; %g(%f(%x)) }
""",
    "tuple_of_effects": """
def @bump(%r: ref(int32)) -> int32 { ref_write(%r, add(ref_read(%r), 1)); ref_read(%r) }
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %a = (@bump(%r), 5).1;
  let %b = (7, { ref_write(%r, multiply(ref_read(%r), 2)); 3 }).0;
  add(multiply(%a, 10000), add(multiply(%b, 100), ref_read(%r)))
}
""",
    "match_of_effects": """
type P { Q(int32, int32), }
def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %a = match (Q({ ref_write(%r, 42); 1 }, 2)) { Q(_, %y) => %y, };
  let %b = match (Q(3, { ref_write(%r, add(ref_read(%r), 1)); 4 })) { Q(%y, _) => %y, };
  add(multiply(%a, 10000), add(multiply(%b, 100), ref_read(%r)))
}
""",
    "ref_alias": """
def @set(%r: ref(int32), %v: int32) -> () { ref_write(%r, %v) }
def @main(%x: int32) -> int32 {
  let %r = ref(%x); let %s = %r; let %u = @set(%s, add(%x, 5)); let %k = @set(%r, multiply(ref_read(%s), 2));
    ref_read(%r) }
""",
}


def in_order(*passes):
    return lambda: transform.Sequential([each() for each in passes])


r = relay.transform
PASSES = {name: lambda name=name: r.get_pass(name) for name in r.list_pass_names()
          if name not in ("FirstOrderGradient", "ToMixedPrecision", "WidenFloats")}
PASSES.update({
    "inline_once": lambda: r.DeadCodeElimination(inline_once=True),
    "fuse_nothing": lambda: r.FuseOps(0),
    "lets_to_graph": in_order(r.ToANormalForm, r.ToGraphNormalForm),
    "graph_to_lets": in_order(r.ToGraphNormalForm, r.ToANormalForm),
    "lets_then_inline_once": in_order(r.ToANormalForm, lambda: r.DeadCodeElimination(inline_once=True)),
    "blocks": in_order(r.ToBasicBlockNormalForm, r.ToGraphNormalForm, r.ToBasicBlockNormalForm),
    "evaluate_lets": in_order(r.ToANormalForm, r.PartialEvaluate, r.DeadCodeElimination),
    "evaluate_twice": in_order(r.PartialEvaluate, r.ToGraphNormalForm, r.EliminateCommonSubexpr, r.PartialEvaluate),
    "fuse_and_back": in_order(r.ToBasicBlockNormalForm, r.EliminateCommonSubexpr, r.FuseOps, r.DefuseOps),
    "lift_and_inline": in_order(r.LambdaLift, r.Inline, r.RemoveUnusedFunctions),
    "lift_lets": in_order(r.ToANormalForm, r.LambdaLift, r.FuseOps),
})


def plain(value):
    """A value as arrays in lists."""
    return value.numpy() if hasattr(value, "numpy") else [plain(field) for field in value]


def arguments(mod, seed):
    rng = np.random.RandomState(seed)
    values = []
    for param in mod["main"].params:
        kind = param.checked_type
        shape = [int(dim) if str(dim).isdigit() else 3 for dim in kind.shape]
        values.append({"int32": lambda: rng.randint(0, 5, shape).astype("int32"), "bool": lambda: np.array(rng.rand() > 0.5),
                       "float32": lambda: rng.randn(*shape).astype("float32")}[str(kind.dtype)]())
    return values


def results(mod):
    run = relay.create_executor("debug", mod=mod).evaluate()
    return [plain(run(*arguments(mod, seed))) for seed in range(3)]


def same(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return np.allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("program", PROGRAMS)
def test_passes_keep_the_value(program):
    before = relay.parse('#[version = "0.0.5"]' + PROGRAMS[program])
    text, expected = before.astext(), results(before)
    for name, make in PASSES.items():
        with transform.PassContext(opt_level=4):
            after = r.InferType()(make()(before))
        assert before.astext() == text, f"{name} changed its input"
        assert same(results(after), expected), f"{name}\n{after.astext()}"
        assert str(after["main"].checked_type) == str(before["main"].checked_type), name
        assert relay.parse(after.astext()).astext() == after.astext(), name
