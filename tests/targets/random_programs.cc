// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "targets/random_maker.h"
#include "treadle/base/half.h"
#include "treadle/te/scan.h"

namespace treadle::testing_random {
namespace {

using runtime::NDArray;

Program Elementwise(Random& r) {
  Maker make("elementwise", r);
  const PrimExpr n = make.Dim(r.Between(1, 20), "n"), m = make.Dim(r.Between(1, 33), "m");
  te::Tensor a = make.Input({n, m}, "A"), b = make.Input({m}, "B");
  te::Tensor c = te::Compute({n, m}, [&](const Indices& i) { return a(i[0], i[1]) * b(i[1]); }, "C");
  te::Tensor d = te::Compute({n, m}, [&](const Indices& i) { return c(i[0], i[1]) + a(i[0], i[1]); }, "D");
  te::Tensor e =
      te::Compute({n, m}, [&](const Indices& i) { return tir::max(d(i[0], i[1]), Number(make.type, 3)); }, "E");
  return make.Output(e);
}

Program Broadcast(Random& r) {
  Maker make("broadcast", r);
  const PrimExpr n = make.Dim(r.Between(1, 7), "n"), m = make.Dim(r.Between(1, 9), "m"),
                 k = make.Dim(r.Between(1, 9), "k");
  te::Tensor a = make.Input({n, 1, k}, "A"), b = make.Input({m, 1}, "B");
  te::Tensor t = te::Compute({n, k}, [&](const Indices& i) { return a(i[0], I(0), i[1]) * 2; }, "T");
  te::Tensor c = te::Compute({n, m, k}, [&](const Indices& i) { return t(i[0], i[2]) - b(i[1], I(0)); }, "C");
  te::Tensor d =
      te::Compute({k, n, m}, [&](const Indices& i) { return c(i[1], i[2], i[0]) + c(i[1], i[2], i[0]); }, "D");
  return make.Output(d);
}

Program Reshape(Random& r) {
  Maker make("reshape", r);
  const int n = r.Between(1, 6), m = r.Between(1, 8), k = r.Between(1, 8);
  te::Tensor a = make.Input({n, m, k}, "A");
  te::Tensor flat = te::Compute(
      {n * m * k},
      [&](const Indices& i) {
        return a(tir::floordiv(i[0], I(m * k)), tir::floormod(tir::floordiv(i[0], I(k)), I(m)),
                 tir::floormod(i[0], I(k)));
      },
      "F");
  te::Tensor out =
      te::Compute({k, n * m}, [&](const Indices& i) { return flat(i[1] * k + i[0]) + Number(make.type, 1); }, "O");
  return make.Output(out);
}

Program Matmul(Random& r) {
  Maker make("matmul", r);
  const PrimExpr n = make.Dim(r.Between(1, 18), "n"), m = make.Dim(r.Between(1, 18), "m");
  const PrimExpr k = make.Dim(r.Between(1, 18), "k");
  te::Tensor a = make.Input({n, k}, "A"), b = make.Input({k, m}, "B");
  tir::IterVar q = Over(k, "k");
  te::Tensor c =
      te::Compute({n, m}, [&](const Indices& i) { return te::Sum(a(i[0], q->var) * b(q->var, i[1]), {q}); }, "C");
  if (r.Below(3) == 0) return make.Output(c);
  te::Tensor d = te::Compute({n, m}, [&](const Indices& i) { return c(i[0], i[1]) + Number(make.type, 1); }, "D");
  return make.Output(d);
}

Program Convolution(Random& r) {
  Maker make("convolution", r);
  const int ci = r.Between(1, 4), co = r.Between(1, 5), n = r.Between(3, 10), stride = r.Between(1, 2);
  const int out = (n + 2 - 3) / stride + 1;
  te::Tensor x = make.Input({ci, n, n}, "X"), w = make.Input({co, ci, 3, 3}, "W");
  te::Tensor p = te::Compute(
      {ci, n + 2, n + 2},
      [&](const Indices& i) {
        return tir::if_then_else(i[1] >= 1 && i[1] < n + 1 && i[2] >= 1 && i[2] < n + 1, x(i[0], i[1] - 1, i[2] - 1),
                                 Number(make.type, 0));
      },
      "P");
  tir::IterVar c = Over(ci, "c"), kh = Over(3, "kh"), kw = Over(3, "kw");
  te::Tensor y = te::Compute(
      {co, out, out},
      [&](const Indices& i) {
        return te::Sum(p(c->var, i[1] * stride + kh->var, i[2] * stride + kw->var) * w(i[0], c->var, kh->var, kw->var),
                       {c, kh, kw});
      },
      "Y");
  te::Tensor z = te::Compute(
      {co, out, out}, [&](const Indices& i) { return tir::max(y(i[0], i[1], i[2]), Number(make.type, 0)); }, "Z");
  return make.Output(z);
}

Program Pooling(Random& r) {
  Maker make("pooling", r);
  const int channels = r.Between(1, 4), n = r.Between(4, 12), window = r.Between(2, 3), stride = r.Between(1, 3);
  const int out = (n - window) / stride + 1;
  te::Tensor x = make.Input({channels, n, n}, "X");
  tir::IterVar h = Over(window, "h"), w = Over(window, "w");
  const bool is_max = r.Below(2) == 0;
  te::Tensor y = te::Compute(
      {channels, out, out},
      [&](const Indices& i) {
        PrimExpr e = x(i[0], i[1] * stride + h->var, i[2] * stride + w->var);
        return is_max ? te::MaxReduce(e, {h, w}) : te::MinReduce(e, {h, w});
      },
      "Y");
  return make.Output(y);
}

Program Rows(Random& r) {
  Maker make("rows", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 21), "m");
  te::Tensor a = make.Input({n, m}, "A");
  tir::IterVar q = Over(m, "q"), s = Over(m, "s");
  te::Tensor top = te::Compute({n}, [&](const Indices& i) { return te::MaxReduce(a(i[0], q->var), {q}); }, "T");
  te::Tensor d = te::Compute({n, m}, [&](const Indices& i) { return a(i[0], i[1]) - top(i[0]); }, "D");
  te::Tensor sum = te::Compute({n}, [&](const Indices& i) { return te::Sum(d(i[0], s->var), {s}); }, "S");
  te::Tensor out = te::Compute({n, m}, [&](const Indices& i) { return d(i[0], m - 1 - i[1]) * sum(i[0]); }, "O");
  return make.Output(out);
}

Program ArgMax(Random& r) {
  Maker make("argmax", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 21), "m");
  te::Tensor a = make.Input({n, m}, "A");
  tir::IterVar q = Over(m, "q");
  const bool is_max = r.Chance(2), last = r.Chance(2);
  Array<te::Tensor> both = te::BatchCompute(
      {n},
      [&](const Indices& i) {
        const auto reducer = is_max ? te::ArgMaxReducer : te::ArgMinReducer;
        return te::CommReduce(reducer(kI32, make.type, last), {tir::cast(kI32, q->var), a(i[0], q->var)}, {q});
      },
      "M");
  te::Tensor out =
      te::Compute({n}, [&](const Indices& i) { return tir::Cast(make.type, both[0](i[0])) + both[1](i[0]); }, "O");
  return make.Output(out);
}

Program Gather(Random& r) {
  Maker make("gather", r);
  const int rows = r.Between(1, 12);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor data = make.Input({rows, m}, "A"), index = make.Input({n}, "X", kI32, -3, rows + 3);
  te::Tensor picked = te::Compute(
      {n, m}, [&](const Indices& i) { return data(tir::max(tir::min(index(i[0]), I(rows - 1)), I(0)), i[1]); }, "G");
  tir::IterVar q = Over(n, "q");
  te::Tensor sum = te::Compute({m}, [&](const Indices& i) { return te::Sum(picked(q->var, i[0]), {q}); }, "S");
  return make.Output(sum);
}

Program Concatenation(Random& r) {
  Maker make("concatenation", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 9), "m"),
                 k = make.Dim(r.Between(1, 9), "k");
  te::Tensor a = make.Input({n, k}, "A"), b = make.Input({m, k}, "B");
  te::Tensor c = te::Compute(
      {n + m, k}, [&](const Indices& i) { return tir::if_then_else(i[0] < n, a(i[0], i[1]), b(i[0] - n, i[1])); }, "C");
  te::Tensor d =
      te::Compute({n + m, k}, [&](const Indices& i) { return c(n + m - 1 - i[0], i[1]) * Number(make.type, 3); }, "D");
  return make.Output(d);
}

/// Stages that look at neighbours, so that moved producers need a margin.
Program Stencil(Random& r) {
  Maker make("stencil", r);
  const PrimExpr n = make.Dim(r.Between(1, 12), "n"), m = make.Dim(r.Between(1, 12), "m");
  te::Tensor a = make.Input({n + 2, m + 2}, "A");
  te::Tensor x = te::Compute(
      {n + 2, m}, [&](const Indices& i) { return a(i[0], i[1]) + a(i[0], i[1] + 1) + a(i[0], i[1] + 2); }, "X");
  te::Tensor y =
      te::Compute({n, m}, [&](const Indices& i) { return x(i[0], i[1]) + x(i[0] + 1, i[1]) + x(i[0] + 2, i[1]); }, "Y");
  te::Tensor z = te::Compute({n, m}, [&](const Indices& i) { return y(n - 1 - i[0], i[1]) - a(i[0], i[1]); }, "Z");
  return make.Output(z);
}

/// Several results, of which one reads another.
Program Outputs(Random& r) {
  Maker make("outputs", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 17), "m");
  te::Tensor a = make.Input({n, m}, "A");
  te::Tensor twice = te::Compute({n, m}, [&](const Indices& i) { return a(i[0], i[1]) * 2; }, "T");
  tir::IterVar q = Over(n, "q");
  te::Tensor sum = te::Compute({m}, [&](const Indices& i) { return te::Sum(twice(q->var, i[0]), {q}); }, "S");
  te::Tensor out = te::Compute({n, m}, [&](const Indices& i) { return twice(i[0], i[1]) - sum(i[1]); }, "O");
  return r.Chance(2) ? make.Output({sum, out}) : make.Output({twice, out});
}

/// Sum and sum of squares in one pass.
Program Moments(Random& r) {
  Maker make("moments", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 17), "m");
  te::Tensor a = make.Input({n, m}, "A");
  tir::IterVar q = Over(m, "q");
  Var x0("x0", make.type), x1("x1", make.type), y0("y0", make.type), y1("y1", make.type);
  tir::CommReducer both({x0, x1}, {y0, y1}, {x0 + y0, x1 + y1}, {Number(make.type, 0), Number(make.type, 0)});
  Array<te::Tensor> s = te::BatchCompute(
      {n},
      [&](const Indices& i) {
        PrimExpr e = a(i[0], q->var);
        return te::CommReduce(both, {e, e * e}, {q});
      },
      "S");
  if (r.Chance(2)) return make.Output(s);
  return make.Output(
      te::Compute({n, m}, [&](const Indices& i) { return a(i[0], i[1]) * s[0](i[0]) + s[1](i[0]); }, "O"));
}

/// A sum over part of its axis, which starts from a value given.
Program Triangle(Random& r) {
  Maker make("triangle", r);
  const PrimExpr n = make.Dim(r.Between(1, 14), "n"), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor a = make.Input({n, m}, "A"), b = make.Input({m}, "B");
  tir::IterVar q = Over(n, "q");
  Var x("x", make.type), y("y", make.type);
  tir::CommReducer plus({x}, {y}, {x + y}, {Number(make.type, 0)});
  const bool init = r.Chance(2);
  te::Tensor s = te::Compute(
      {n, m},
      [&](const Indices& i) {
        Array<PrimExpr> first;
        if (init) first.push_back(b(i[1]));
        return te::CommReduce(plus, {a(q->var, i[1])}, {q}, q->var <= i[0], first)[0];
      },
      "S");
  te::Tensor o = te::Compute({m, n}, [&](const Indices& i) { return s(i[1], i[0]) + b(i[0]); }, "O");
  return make.Output(o);
}

/// Divisors include zero: what the quotient is then is defined.
Program Division(Random& r) {
  Maker make("division", r, true);
  make.type = r.Of<DataType>({kI32, DataType::Int(64), DataType::Int(8), DataType::UInt(8)});
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 33), "m");
  te::Tensor a = make.Input({n, m}, "A"), b = make.Input({m}, "B");
  te::Tensor q = te::Compute({n, m}, [&](const Indices& i) { return tir::floordiv(a(i[0], i[1]), b(i[1])); }, "Q");
  te::Tensor p = te::Compute({n, m}, [&](const Indices& i) { return tir::floormod(a(i[0], i[1]), b(i[1])); }, "P");
  te::Tensor t = te::Compute({n, m}, [&](const Indices& i) { return tir::truncmod(q(i[0], i[1]), b(i[1])); }, "R");
  return make.Output(te::Compute(
      {n, m}, [&](const Indices& i) { return q(i[0], i[1]) * b(i[1]) + p(i[0], i[1]) + t(i[0], m - 1 - i[1]); }, "O"));
}

/// Products of narrow integers summed in wide ones.
Program Quantized(Random& r) {
  Maker make("quantized", r);
  const PrimExpr n = make.Dim(r.Between(1, 17), "n"), m = make.Dim(r.Between(1, 17), "m");
  const PrimExpr k = make.Dim(r.Between(1, 20), "k");
  te::Tensor a = make.Input({n, k}, "A", DataType::UInt(8), 0, 255);
  te::Tensor b = make.Input({m, k}, "B", DataType::Int(8), -128, 127);
  tir::IterVar q = Over(k, "k");
  auto wide = [](const PrimExpr& e) { return tir::cast(kI32, e); };
  te::Tensor c = te::Compute(
      {n, m}, [&](const Indices& i) { return te::Sum(wide(a(i[0], q->var)) * wide(b(i[1], q->var)), {q}); }, "C");
  te::Tensor d = te::Compute(
      {n, m},
      [&](const Indices& i) {
        return tir::cast(DataType::Int(8), tir::max(tir::min(tir::floordiv(c(i[0], i[1]), I(64)), I(127)), I(-128)));
      },
      "D");
  return make.Output(d);
}

Program Depthwise(Random& r) {
  Maker make("depthwise", r);
  const PrimExpr c = make.Dim(r.Between(1, 9), "c");
  const int n = r.Between(1, 9), dilation = r.Between(1, 2), up = r.Between(1, 2);
  te::Tensor x = make.Input({c, I(n + 2 * dilation)}, "X"), w = make.Input({c, I(3)}, "W");
  tir::IterVar q = Over(3, "q");
  te::Tensor y = te::Compute(
      {c, I(n)}, [&](const Indices& i) { return te::Sum(x(i[0], i[1] + q->var * dilation) * w(i[0], q->var), {q}); },
      "Y");
  te::Tensor z = te::Compute(
      {c, I(n * up)}, [&](const Indices& i) { return y(i[0], tir::floordiv(i[1], I(up))) + w(i[0], I(1)); }, "Z");
  return make.Output(z);
}

/// A recurrence: each row from one or two rows before it, by way of another computation; then read by a computation.
Program Recurrence(Random& r) {
  Maker make("recurrence", r, true);
  const int back = r.Between(1, 2), steps = r.Between(3, 9);
  const PrimExpr t = I(steps), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor x = make.Input({t, m}, "X");
  te::Tensor state = te::Placeholder({t, m}, make.type, "state");
  te::Tensor init = te::Compute({I(back), m}, [&](const Indices& i) { return x(i[0], i[1]); }, "init");
  te::Tensor inner =
      te::Compute({t, m}, [&](const Indices& i) { return state(i[0] - back, m - 1 - i[1]) - x(i[0], i[1]); }, "inner");
  te::Tensor update =
      te::Compute({t, m}, [&](const Indices& i) { return inner(i[0], i[1]) + state(i[0] - 1, i[1]); }, "update");
  te::Tensor scan = te::Scan({init}, {update}, {state}, {x}, "scan")[0];
  if (r.Chance(3)) return make.Output(scan);
  te::Tensor o = te::Compute({m, t}, [&](const Indices& i) { return scan(i[1], i[0]) + x(i[1], i[0]); }, "O");
  return make.Output(o);
}

/// A recurrence of a matrix product: h(t) = h(t-1) W + x(t).
Program Cell(Random& r) {
  Maker make("cell", r, true);
  const int steps = r.Between(2, 4);
  const PrimExpr t = I(steps), b = make.Dim(r.Between(1, 4), "b"), h = make.Dim(r.Between(1, 7), "h");
  te::Tensor x = make.Input({t, b, h}, "X", make.type, 0, 2), w = make.Input({h, h}, "W", make.type, 0, 1);
  te::Tensor state = te::Placeholder({t, b, h}, make.type, "state");
  te::Tensor init = te::Compute({I(1), b, h}, [&](const Indices& i) { return x(i[0], i[1], i[2]); }, "init");
  tir::IterVar q = Over(h, "q");
  te::Tensor product = te::Compute(
      {t, b, h}, [&](const Indices& i) { return te::Sum(state(i[0] - 1, i[1], q->var) * w(q->var, i[2]), {q}); },
      "product");
  te::Tensor update = te::Compute(
      {t, b, h}, [&](const Indices& i) { return product(i[0], i[1], i[2]) + x(i[0], i[1], i[2]); }, "update");
  return make.Output(te::Scan({init}, {update}, {state}, {x, w}, "scan"));
}

/// A computation given as statements, between others: each row turned round.
Program Statements(Random& r) {
  Maker make("statements", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor a = make.Input({n, m}, "A");
  te::Tensor b = te::Compute({n, m}, [&](const Indices& i) { return a(i[0], i[1]) + Number(make.type, 1); }, "B");
  te::Tensor c = te::Extern(
      {{n, m}}, {make.type}, {b},
      [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
        Var i("i", n.dtype()), j("j", m.dtype());
        tir::Stmt store = tir::BufferStore(out[0], tir::BufferLoad(in[0], {i, m - 1 - j}), {i, j});
        tir::Stmt row = tir::For(j, tir::make_zero(j.dtype()), m, tir::ForKind::kSerial, store);
        return tir::For(i, tir::make_zero(i.dtype()), n, tir::ForKind::kSerial, row);
      },
      "C")[0];
  te::Tensor d = te::Compute({m, n}, [&](const Indices& i) { return c(i[1], i[0]) - b(i[1], i[0]); }, "D");
  return make.Output(d);
}

/// A result of rank 0.
Program Total(Random& r) {
  Maker make("total", r);
  const PrimExpr n = make.Dim(r.Between(1, 9), "n"), m = make.Dim(r.Between(1, 9), "m");
  te::Tensor a = make.Input({n, m}, "A");
  tir::IterVar p = Over(n, "p"), q = Over(m, "q");
  te::Tensor s = te::Compute({}, [&](const Indices&) { return te::Sum(a(p->var, q->var), {p, q}); }, "S");
  if (r.Chance(2)) return make.Output(s);
  return make.Output(te::Compute({n, m}, [&](const Indices& i) { return s(Array<PrimExpr>{}) - a(i[0], i[1]); }, "O"));
}

}  // namespace

NDArray Random::Tensor(const std::vector<int64_t>& shape, DataType dtype, int low, int high) {
  NDArray a = NDArray::Empty(shape, dtype);
  auto fill = [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    for (int64_t i = 0; i < a.size(); ++i) data[i] = static_cast<T>(Between(low, high));
  };
  if (dtype.is_float16() || dtype.is_bfloat16()) {
    for (int64_t i = 0; i < a.size(); ++i) {
      const auto value = static_cast<float>(Between(low, high));
      a.Data<uint16_t>()[i] = dtype.is_float16() ? FloatToHalf(value) : FloatToBFloat16(value);
    }
  } else if (dtype.is_bool()) {
    for (int64_t i = 0; i < a.size(); ++i) a.Data<uint8_t>()[i] = static_cast<uint8_t>(Below(2));
  } else if (dtype == DataType::Float(32)) {
    fill(a.Data<float>());
  } else if (dtype == DataType::Float(64)) {
    fill(a.Data<double>());
  } else if (dtype.bits() == 64) {
    fill(a.Data<int64_t>());
  } else if (dtype.bits() == 16) {
    fill(a.Data<int16_t>());
  } else if (dtype.bits() == 8) {
    fill(a.Data<int8_t>());
  } else {
    fill(a.Data<int32_t>());
  }
  return a;
}

Program RandomProgram(Random& random) {
  Program (*const makers[])(Random&) = {Elementwise, Broadcast, Reshape,    Matmul,   Matmul,    Convolution,
                                        Pooling,     Rows,      ArgMax,     Gather,   Stencil,   Concatenation,
                                        Outputs,     Moments,   Triangle,   Division, Quantized, Depthwise,
                                        Recurrence,  Cell,      Statements, Total};
  const auto& special = SpecialPrograms();
  const int choice = random.Below(static_cast<int>(std::size(makers) + special.size()));
  const size_t at = static_cast<size_t>(choice);
  return at < std::size(makers) ? makers[at](random) : special[at - std::size(makers)](random);
}

}  // namespace treadle::testing_random
