// SPDX-License-Identifier: Apache-2.0
// Random programs of special forms.
#include "targets/random_maker.h"
#include "treadle/te/scan.h"

namespace treadle::testing_random {
namespace {

/// `index` kept within [0, size).
PrimExpr Clamped(const PrimExpr& index, int size) {
  return tir::max(tir::min(tir::cast(kI32, index), I(size - 1)), I(0));
}

/// Conditions stored as bool, reduced with "or" and "and".
Program Masks(Random& r) {
  Maker make("masks", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 17), "m");
  te::Tensor a = make.Input({n, m}, "A"), mask = make.Input({m}, "M", DataType::Bool(), 0, 1);
  te::Tensor large =
      te::Compute({n, m}, [&](const Indices& i) { return a(i[0], i[1]) > Number(make.type, 0) && mask(i[1]); }, "L");
  tir::IterVar q = Over(m, "q");
  Var x("x", DataType::Bool()), y("y", DataType::Bool());
  const bool any = r.Chance(2);
  tir::CommReducer reducer({x}, {y}, {any ? x || y : x && y}, {tir::make_bool(!any)});
  te::Tensor rows =
      te::Compute({n}, [&](const Indices& i) { return te::CommReduce(reducer, {large(i[0], q->var)}, {q})[0]; }, "R");
  if (r.Chance(3)) return make.Output(Array<te::Tensor>{large, rows});
  return make.Output(te::Compute(
      {n, m},
      [&](const Indices& i) { return tir::Select(rows(i[0]), a(i[0], i[1]), tir::cast(make.type, large(i[0], i[1]))); },
      "O"));
}

/// From dtype to dtype.
Program Casts(Random& r) {
  Maker make("casts", r);
  const PrimExpr n = make.Dim(r.Between(1, 7), "n"), m = make.Dim(r.Between(1, 40), "m");
  te::Tensor t = make.Input({n, m}, "A");
  const int stages = r.Between(1, 4);
  for (int k = 0; k < stages; ++k) {
    const DataType to = r.Chance(6) ? DataType::Bool() : r.Of(Maker::Types());
    t = te::Compute({n, m}, [&](const Indices& i) { return tir::cast(to, t(i[0], i[1])); }, "C" + std::to_string(k));
  }
  return make.Output(t);
}

/// Each element from those inputs that a stride reaches.
Program TransposedConvolution(Random& r) {
  Maker make("transposed", r);
  const int n = r.Between(1, 9), window = r.Between(1, 4), stride = r.Between(1, 3), out = (n - 1) * stride + window;
  const PrimExpr c = make.Dim(r.Between(1, 4), "c");
  te::Tensor x = make.Input({c, I(n)}, "X"), w = make.Input({c, I(window)}, "W");
  tir::IterVar p = Over(c, "p"), q = Over(window, "q");
  te::Tensor y = te::Compute(
      {c, I(out)},
      [&](const Indices& i) {
        const PrimExpr from = i[1] - q->var, at = tir::floordiv(from, I(stride));
        const PrimExpr hit = from >= 0 && tir::equal(tir::floormod(from, I(stride)), I(0)) && at < n;
        return te::Sum(tir::if_then_else(hit, x(p->var, at) * w(i[0], q->var), Number(make.type, 0)), {p, q});
      },
      "Y");
  return make.Output(
      te::Compute({I(out), c}, [&](const Indices& i) { return y(i[1], i[0]) + Number(make.type, 1); }, "Z"));
}

/// Indices that are read by indices that are read.
Program NestedGather(Random& r) {
  Maker make("nested_gather", r);
  const int rows = r.Between(1, 9), size = r.Between(1, 9);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 9), "m");
  const DataType wide = r.Chance(2) ? kI32 : DataType::Int(64);
  te::Tensor data = make.Input({I(rows), m}, "A");
  te::Tensor first = make.Input({n, m}, "X", kI32, -2, size + 2), second = make.Input({I(size)}, "Y", wide, -2, rows);
  te::Tensor at = te::Compute(
      {n, m}, [&](const Indices& i) { return Clamped(second(Clamped(first(i[0], i[1]), size)), rows); }, "I");
  te::Tensor g =
      te::Compute({m, n}, [&](const Indices& i) { return data(at(i[1], i[0]), i[0]) + data(I(0), i[0]); }, "G");
  if (r.Chance(2)) return make.Output(g);
  tir::IterVar q = Over(n, "q");
  return make.Output(te::Compute({m}, [&](const Indices& i) { return te::MaxReduce(g(i[0], q->var), {q}); }, "O"));
}

/// Statements that add rows to where an index says.
Program Scatter(Random& r) {
  Maker make("scatter", r);
  const int rows = r.Between(1, 7);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n");
  te::Tensor x = make.Input({n}, "X"), index = make.Input({n}, "I", kI32, -2, rows + 2);
  te::Tensor twice = te::Compute({n}, [&](const Indices& i) { return x(i[0]) + x(i[0]); }, "T");
  te::Tensor y = te::Extern(
      {{I(rows)}}, {make.type}, {twice, index},
      [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
        Var i("i", kI32), j("j", n.dtype());
        tir::Stmt zero = tir::BufferStore(out[0], Number(make.type, 0), {i});
        const PrimExpr at = Clamped(tir::BufferLoad(in[1], {j}), rows);
        tir::Stmt add = tir::BufferStore(out[0], tir::BufferLoad(out[0], {at}) + tir::BufferLoad(in[0], {j}), {at});
        return tir::SeqStmt({tir::For(i, I(0), I(rows), tir::ForKind::kSerial, zero),
                             tir::For(j, tir::make_zero(n.dtype()), n, tir::ForKind::kSerial, add)});
      },
      "Y")[0];
  return make.Output(te::Compute({I(rows), n}, [&](const Indices& i) { return y(i[0]) - x(i[1]); }, "O"));
}

/// One computation of two values that isn't a reduction.
Program Pairs(Random& r) {
  Maker make("pairs", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 17), "m");
  te::Tensor a = make.Input({n, m}, "A"), b = make.Input({n}, "B");
  Array<te::Tensor> both = te::BatchCompute(
      {n, m},
      [&](const Indices& i) {
        return Array<PrimExpr>{a(i[0], i[1]) + b(i[0]), tir::cast(kI32, a(i[0], m - 1 - i[1])) * 3};
      },
      "P");
  if (r.Chance(2)) return make.Output(both);
  return make.Output(te::Compute(
      {n, m}, [&](const Indices& i) { return both[0](i[0], i[1]) + tir::cast(make.type, both[1](i[0], i[1])); }, "O"));
}

Program Products(Random& r) {
  Maker make("products", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor a = make.Input({n, m, I(2)}, "A", make.type, 1, 2);
  tir::IterVar p = Over(m, "p"), q = Over(2, "q");
  te::Tensor t = te::Compute({n}, [&](const Indices& i) { return te::Prod(a(i[0], p->var, q->var), {p, q}); }, "T");
  return make.Output(
      te::Compute({n, m}, [&](const Indices& i) { return tir::min(t(i[0]), a(i[0], i[1], I(1))); }, "O"));
}

/// Two recurrences that read each other.
Program TwoStates(Random& r) {
  Maker make("two_states", r, true);
  const int steps = r.Between(2, 8);
  const PrimExpr t = I(steps), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor x = make.Input({t, m}, "X");
  te::Tensor s = te::Placeholder({t, m}, make.type, "s"), u = te::Placeholder({t, m}, make.type, "u");
  auto first = [&](const Indices& i) { return x(i[0], i[1]); };
  te::Tensor s0 = te::Compute({I(1), m}, first, "s0"), u0 = te::Compute({I(1), m}, first, "u0");
  te::Tensor s1 = te::Compute({t, m}, [&](const Indices& i) { return u(i[0] - 1, i[1]) + x(i[0], i[1]); }, "s1");
  te::Tensor u1 =
      te::Compute({t, m}, [&](const Indices& i) { return s(i[0] - 1, m - 1 - i[1]) - s1(i[0], i[1]); }, "u1");
  const Array<te::Tensor> scan = te::Scan({s0, u0}, {s1, u1}, {s, u}, {x}, "scan");
  if (r.Chance(2)) return make.Output(scan);
  return make.Output(
      te::Compute({t, m}, [&](const Indices& i) { return scan[0](i[0], i[1]) + scan[1](i[0], i[1]); }, "O"));
}

/// (A B) C.
Program Chain(Random& r) {
  Maker make("chain", r, true);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 9), "m");
  const PrimExpr k = make.Dim(r.Between(1, 9), "k"), l = make.Dim(r.Between(1, 9), "l");
  te::Tensor a = make.Input({n, k}, "A"), b = make.Input({k, m}, "B"), c = make.Input({m, l}, "C");
  tir::IterVar p = Over(k, "p"), q = Over(m, "q");
  te::Tensor t =
      te::Compute({n, m}, [&](const Indices& i) { return te::Sum(a(i[0], p->var) * b(p->var, i[1]), {p}); }, "T");
  return make.Output(
      te::Compute({n, l}, [&](const Indices& i) { return te::Sum(t(i[0], q->var) * c(q->var, i[1]), {q}); }, "O"));
}

/// Mirrored beyond both ends, then windows of it.
Program Reflect(Random& r) {
  Maker make("reflect", r);
  const int n = r.Between(3, 12), pad = r.Between(1, 2);
  const PrimExpr c = make.Dim(r.Between(1, 5), "c");
  te::Tensor x = make.Input({c, I(n)}, "X");
  te::Tensor p = te::Compute(
      {c, I(n + 2 * pad)},
      [&](const Indices& i) {
        const PrimExpr at = i[1] - pad;
        return x(i[0], tir::Select(at < 0, 0 - at, tir::Select(at >= n, 2 * n - 2 - at, at)));
      },
      "P");
  return make.Output(te::Compute(
      {c, I(n)}, [&](const Indices& i) { return p(i[0], i[1]) + p(i[0], i[1] + pad) + p(i[0], i[1] + 2 * pad); }, "O"));
}

/// Channels in blocks of four with the last one padded, and back.
Program Blocked(Random& r) {
  Maker make("blocked", r);
  const int channels = r.Between(1, 11), blocks = (channels + 3) / 4;
  const PrimExpr n = make.Dim(r.Between(1, 7), "n");
  te::Tensor x = make.Input({I(channels), n}, "X");
  te::Tensor packed = te::Compute(
      {I(blocks), n, I(4)},
      [&](const Indices& i) {
        const PrimExpr c = i[0] * 4 + i[2];
        return tir::if_then_else(c < channels, x(c, i[1]), Number(make.type, 0));
      },
      "P");
  te::Tensor twice =
      te::Compute({I(blocks), n, I(4)}, [&](const Indices& i) { return packed(i[0], i[1], i[2]) * 2; }, "T");
  return make.Output(te::Compute(
      {I(channels), n},
      [&](const Indices& i) {
        return twice(tir::floordiv(i[0], I(4)), i[1], tir::floormod(i[0], I(4))) - x(i[0], i[1]);
      },
      "O"));
}

/// Half as many elements, of symbolic sizes rounded up.
Program Halves(Random& r) {
  Maker make("halves", r);
  const PrimExpr n = make.Dim(r.Between(1, 15), "n"), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor x = make.Input({n, m}, "X");
  const PrimExpr half = tir::floordiv(n + 1, tir::make_const(n.dtype(), 2));
  te::Tensor h = te::Compute(
      {half, m}, [&](const Indices& i) { return tir::max(x(i[0] * 2, i[1]), x(tir::min(i[0] * 2 + 1, n - 1), i[1])); },
      "H");
  return make.Output(
      te::Compute({m, half}, [&](const Indices& i) { return h(i[1], i[0]) + h(half - 1 - i[1], i[0]); }, "O"));
}

/// What integers have beside arithmetic.
Program Bits(Random& r) {
  Maker make("bits", r);
  make.type = r.Of<DataType>({kI32, DataType::Int(64), DataType::Int(8), DataType::UInt(8), DataType::UInt(32)});
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 33), "m");
  te::Tensor a = make.Input({n, m}, "A"), b = make.Input({m}, "B", make.type, 0, 7);
  te::Tensor s = te::Compute(
      {n, m}, [&](const Indices& i) { return (a(i[0], i[1]) << b(i[1])) ^ (a(i[0], i[1]) >> b(i[1])); }, "S");
  return make.Output(
      te::Compute({n, m}, [&](const Indices& i) { return (s(i[0], i[1]) & a(i[0], m - 1 - i[1])) | b(i[1]); }, "O"));
}

}  // namespace

const std::vector<Program (*)(Random&)>& SpecialPrograms() {
  static const std::vector<Program (*)(Random&)> programs = {
      Masks,  Casts, TransposedConvolution, NestedGather, Scatter, Pairs, Products, TwoStates, Chain, Reflect, Blocked,
      Halves, Bits};
  return programs;
}

}  // namespace treadle::testing_random
