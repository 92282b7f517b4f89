// SPDX-License-Identifier: Apache-2.0
#include "targets/conformance/cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "targets/stackvm/stackvm.h"
#include "treadle/base/half.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/scalar.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::conformance {
namespace {

using runtime::NDArray;
using tir::Var;
using Indices = Array<Var>;

const DataType kF32 = DataType::Float(32);
const DataType kI32 = DataType::Int(32);

double ReadElement(const NDArray& a, int64_t i) {
  const DataType t = a.dtype();
  const char* p = static_cast<const char*>(a.data_ptr());
  if (t.is_bool()) return p[i] != 0;
  if (t == DataType::Float(32)) return a.Data<float>()[i];
  if (t == DataType::Float(64)) return a.Data<double>()[i];
  if (t.is_float16()) return HalfToFloat(a.Data<uint16_t>()[i]);
  if (t.is_bfloat16()) return BFloat16ToFloat(a.Data<uint16_t>()[i]);
  if (t.is_float8()) return a.Data<uint8_t>()[i];
  if (t.is_integral() && t.bits() < 8) {  // what the other bits hold isn't said
    const int value = p[i] & ((1 << t.bits()) - 1), sign = 1 << (t.bits() - 1);
    return t.is_int() ? (value ^ sign) - sign : value;
  }
  switch (t.bytes()) {
    case 1:
      return t.is_int() ? a.Data<int8_t>()[i] : a.Data<uint8_t>()[i];
    case 2:
      return t.is_int() ? a.Data<int16_t>()[i] : a.Data<uint16_t>()[i];
    case 4:
      return t.is_int() ? a.Data<int32_t>()[i] : a.Data<uint32_t>()[i];
    default:
      return t.is_int() ? static_cast<double>(a.Data<int64_t>()[i]) : static_cast<double>(a.Data<uint64_t>()[i]);
  }
}

/// Values in [low, high]; integers are whole, with some extremes.
NDArray Random(const std::vector<int64_t>& shape, DataType t, double low, double high, int seed) {
  NDArray a = NDArray::Empty(shape, t);
  std::mt19937 engine(static_cast<unsigned>(seed));
  std::uniform_real_distribution<double> uniform(low, high);
  for (int64_t i = 0; i < a.size(); ++i) {
    const double v = uniform(engine);
    if (t == DataType::Float(32))
      a.Data<float>()[i] = static_cast<float>(v);
    else if (t == DataType::Float(64))
      a.Data<double>()[i] = v;
    else if (t.is_float16())
      a.Data<uint16_t>()[i] = FloatToHalf(v);
    else if (t.is_bfloat16())
      a.Data<uint16_t>()[i] = FloatToBFloat16(v);
    else if (t.is_bool())
      a.Data<uint8_t>()[i] = v > (low + high) / 2;
    else if (t.bytes() == 1)
      a.Data<int8_t>()[i] = static_cast<int8_t>(std::lround(v));
    else if (t.bytes() == 2)
      a.Data<int16_t>()[i] = static_cast<int16_t>(std::lround(v));
    else if (t.bytes() == 4)
      a.Data<int32_t>()[i] = static_cast<int32_t>(std::lround(v));
    else
      a.Data<int64_t>()[i] = std::lround(v);
  }
  return a;
}

Array<PrimExpr> Shape(const std::vector<int64_t>& shape) {
  Array<PrimExpr> result;
  for (int64_t n : shape) result.push_back(PrimExpr(static_cast<int32_t>(n)));
  return result;
}

NDArray Garbage(const std::vector<int64_t>& shape, DataType t) {
  NDArray a = NDArray::Empty(shape, t);
  std::memset(a.data_ptr(), 0x5a, static_cast<size_t>(a.nbytes()));
  return a;
}

class Builder {
 public:
  /// out[i..] = f(inputs, i..) for inputs of one dtype.
  void Elementwise(const std::string& name, DataType in, int arity, double low, double high, double tolerance,
                   const std::function<PrimExpr(const std::vector<PrimExpr>&)>& f, bool vectorize = true) {
    const std::vector<int64_t> shape{3, 37};
    Array<te::Tensor> args;
    std::vector<NDArray> values;
    for (int k = 0; k < arity; ++k) {
      args.push_back(te::Placeholder(Shape(shape), in, "A" + std::to_string(k)));
      values.push_back(Random(shape, in, low, high, 17 + k));
    }
    te::Tensor out = te::Compute(
        Shape(shape),
        [&](const Indices& i) {
          std::vector<PrimExpr> loads;
          for (int k = 0; k < arity; ++k) loads.push_back(args[static_cast<size_t>(k)](i[0], i[1]));
          return f(loads);
        },
        "out");
    values.push_back(Garbage(shape, out->dtype));
    Array<te::Tensor> all = args;
    all.push_back(out);
    Add(name + "/serial", te::CreatePrimFunc(all, "f"), values, static_cast<size_t>(arity), tolerance);
    if (vectorize) Vectorized(name, values, arity, shape, in, tolerance, f);
  }

  void Add(const std::string& name, tir::PrimFunc func, const std::vector<NDArray>& values, size_t inputs,
           double tolerance) {
    func = WithAttr(func, attr::kGlobalSymbol, String("f" + std::to_string(cases.size())));
    cases.push_back({name, func, values, inputs, tolerance});
  }

  std::vector<Case> cases;

 private:
  /// The same with a vectorised loop of 8 lanes within an imperfect split, and a parallel outer loop.
  void Vectorized(const std::string& name, const std::vector<NDArray>& values, int arity,
                  const std::vector<int64_t>& shape, DataType in, double tolerance,
                  const std::function<PrimExpr(const std::vector<PrimExpr>&)>& f) {
    Array<Var> params;
    Map<Var, tir::Buffer> buffer_map;
    std::vector<tir::Buffer> buffers;
    for (int k = 0; k <= arity; ++k) {
      const DataType t = values[static_cast<size_t>(k)].dtype();
      tir::Buffer buffer = tir::DeclBuffer(Shape(shape), k < arity ? in : t, "b" + std::to_string(k));
      Var handle("h" + std::to_string(k), DataType::Handle());
      params.push_back(handle);
      buffer_map.Set(handle, buffer);
      buffers.push_back(buffer);
    }
    Var i("i"), jo("jo"), ji("ji");
    PrimExpr j = jo * 8 + ji;
    std::vector<PrimExpr> loads;
    for (int k = 0; k < arity; ++k) loads.push_back(tir::BufferLoad(buffers[static_cast<size_t>(k)], {i, j}));
    tir::Stmt body = tir::BufferStore(buffers.back(), f(loads), {i, j});
    body = tir::IfThenElse(tir::likely(j < static_cast<int32_t>(shape[1])), body);
    body = tir::For(ji, PrimExpr(0), PrimExpr(8), tir::ForKind::kVectorized, body);
    body = tir::For(jo, PrimExpr(0), PrimExpr(static_cast<int32_t>((shape[1] + 7) / 8)), tir::ForKind::kSerial, body);
    body = tir::For(i, PrimExpr(0), PrimExpr(static_cast<int32_t>(shape[0])), tir::ForKind::kParallel, body);
    Add(name + "/vector", tir::PrimFunc(params, body, Type(), buffer_map), values, static_cast<size_t>(arity),
        tolerance);
  }
};

void AddArithmetic(Builder& b) {
  using V = std::vector<PrimExpr>;
  for (DataType t : {kF32, DataType::Float(64), DataType::Float(16), DataType::BFloat(16)}) {
    const double tolerance = t.bits() >= 32 ? 1e-6 : 0.02;
    b.Elementwise("add_" + t.str(), t, 2, -9, 9, tolerance, [](const V& x) { return x[0] + x[1] * x[0]; });
    b.Elementwise("div_" + t.str(), t, 2, 1, 9, tolerance, [](const V& x) { return x[0] / x[1]; });
    b.Elementwise("minmax_" + t.str(), t, 2, -9, 9, 0,
                  [](const V& x) { return tir::max(tir::min(x[0], x[1]), tir::make_const(x[0].dtype(), -2.0)); });
    b.Elementwise("compare_" + t.str(), t, 2, -9, 9, 0,
                  [](const V& x) { return tir::select(x[0] < x[1] && x[0] > 0.0f, x[0], x[1]); });
  }
  for (DataType t :
       {DataType::Int(4), DataType::UInt(2), DataType::Int(8), DataType::UInt(16), kI32, DataType::UInt(64)}) {
    const double low = t.is_int() ? -100 : 0;
    b.Elementwise("wrap_" + t.str(), t, 2, low, 100, 0, [](const V& x) { return x[0] * x[1] + x[0] - x[1]; });
    b.Elementwise("div_" + t.str(), t, 2, t.is_int() ? -3 : 0, 3, 0, [](const V& x) { return tir::Div(x[0], x[1]); });
    b.Elementwise("mod_" + t.str(), t, 2, t.is_int() ? -4 : 0, 4, 0, [](const V& x) { return tir::Mod(x[0], x[1]); });
    b.Elementwise("floordiv_" + t.str(), t, 2, t.is_int() ? -7 : 0, 7, 0,
                  [](const V& x) { return tir::FloorDiv(x[0], x[1]); });
    b.Elementwise("floormod_" + t.str(), t, 2, t.is_int() ? -7 : 0, 7, 0,
                  [](const V& x) { return tir::FloorMod(x[0], x[1]); });
    b.Elementwise("bits_" + t.str(), t, 2, 0, 20, 0,
                  [](const V& x) { return ((x[0] & x[1]) | (x[0] << x[1])) ^ (~x[0] >> x[1]); });
    const int odd = t.bits() < 8 ? 3 : 7, even = t.bits() < 8 ? 2 : 8;
    b.Elementwise("floordiv_const_" + t.str(), t, 1, low, 100, 0, [&](const V& x) {
      return tir::floordiv(x[0], tir::make_const(t, odd)) * 3 + tir::floormod(x[0], tir::make_const(t, even));
    });
  }
}

void AddCasts(Builder& b) {
  using V = std::vector<PrimExpr>;
  const DataType types[] = {
      kF32, DataType::Float(16), DataType::BFloat(16), DataType::UInt(8), DataType::Int(64), DataType::Bool()};
  for (DataType from : types) {
    for (DataType to : types) {
      const double low = from.is_uint() ? 0 : -120;
      b.Elementwise("cast_" + from.str() + "_" + to.str(), from, 1, low, 120, 0,
                    [&](const V& x) { return tir::Cast(to, x[0]); });
    }
  }
  b.Elementwise("saturate", kF32, 1, -5e9, 5e9, 0, [](const V& x) { return tir::Cast(kI32, x[0]); });
  for (DataType t : {DataType::Int(4), DataType::UInt(4), DataType::Int(2), DataType::UInt(2)}) {
    b.Elementwise("saturate_" + t.str(), kF32, 1, -20, 20, 0, [&](const V& x) { return tir::Cast(t, x[0]); });
    b.Elementwise("widen_" + t.str(), t, 1, -100, 100, 0, [&](const V& x) { return tir::Cast(kF32, x[0]); });
    b.Elementwise("narrow_" + t.str(), kI32, 1, -100, 100, 0, [&](const V& x) { return tir::Cast(t, x[0]); });
  }
}

/// All codes of small formats, and what lies around their values.
void AddSmallFloats(Builder& b) {
  for (const char* name : {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}) {
    const DataType t = DataType::FromString(name);
    te::Tensor codes = te::Placeholder(Shape({256}), t, "A"), values = te::Placeholder(Shape({4, 256}), kF32, "B");
    NDArray all = NDArray::Empty({256}, t), around = NDArray::Empty({4, 256}, kF32);
    for (int i = 0; i < 256; ++i) {
      static_cast<uint8_t*>(all.data_ptr())[i] = static_cast<uint8_t>(i);
      const float value = DecodeFloat(*runtime::SmallFloatFormat(t), static_cast<uint32_t>(i));
      for (int k = 0; k < 4; ++k) around.Data<float>()[k * 256 + i] = value * (1 + static_cast<float>(k) / 16);
    }
    around.Data<float>()[0] = std::numeric_limits<float>::infinity();
    around.Data<float>()[1] = -1e30F;
    around.Data<float>()[2] = -1e-30F;
    te::Tensor wide = te::Compute(Shape({256}), [&](const Indices& i) { return tir::Cast(kF32, codes(i[0])); }, "W");
    te::Tensor narrow =
        te::Compute(Shape({4, 256}), [&](const Indices& i) { return tir::Cast(t, values(i[0], i[1])); }, "N");
    b.Add(std::string("from_") + name, te::CreatePrimFunc({codes, wide}, "f"), {all, Garbage({256}, kF32)}, 1, 0);
    b.Add(std::string("to_") + name, te::CreatePrimFunc({values, narrow}, "f"), {around, Garbage({4, 256}, t)}, 1, 0);
  }
}

void AddMath(Builder& b) {
  using V = std::vector<PrimExpr>;
  struct Unary {
    const char* name;
    PrimExpr (*function)(PrimExpr);
    double low, high;
  };
  const Unary unary[] = {{"exp", tir::exp, -20, 20},     {"log", tir::log, 0.01, 50},
                         {"tanh", tir::tanh, -6, 6},     {"erf", tir::erf, -4, 4},
                         {"sqrt", tir::sqrt, 0, 9},      {"sigmoid", tir::sigmoid, -9, 9},
                         {"floor", tir::floor, -9, 9},   {"ceil", tir::ceil, -9, 9},
                         {"round", tir::round, -9, 9},   {"trunc", tir::trunc, -9, 9},
                         {"sin", tir::sin, -9, 9},       {"atan", tir::atan, -9, 9},
                         {"rsqrt", tir::rsqrt, 0.1, 9},  {"abs", tir::abs, -9, 9},
                         {"log1p", tir::log1p, -0.9, 9}, {"nearbyint", tir::nearbyint, -9, 9}};
  for (const Unary& u : unary) {
    for (DataType t : {kF32, DataType::Float(64)}) {
      b.Elementwise(std::string(u.name) + "_" + t.str(), t, 1, u.low, u.high, t.bits() == 32 ? 4e-7 : 1e-13,
                    [&](const V& x) { return u.function(x[0]); });
    }
  }
  b.Elementwise("pow_f32", kF32, 2, 0.1, 4, 1e-6, [](const V& x) { return tir::pow(x[0], x[1]); });
  b.Elementwise("fmod_f32", kF32, 2, -50, 50, 1e-6, [](const V& x) { return tir::fmod(x[0], x[1]); });
}

void AddReductions(Builder& b) {
  const std::vector<int64_t> shape{5, 23};
  te::Tensor a = te::Placeholder(Shape(shape), kF32, "A");
  NDArray value = Random(shape, kF32, -3, 3, 5);
  tir::IterVar r = te::ReduceAxis(tir::Range(PrimExpr(23)), "r");
  auto add = [&](const std::string& name, const te::FCompute& f, double tolerance) {
    te::Tensor out = te::Compute(Shape({5}), f, "out");
    b.Add(name, te::CreatePrimFunc({a, out}, "f"), {value, Garbage({5}, out->dtype)}, 1, tolerance);
  };
  add("sum", [&](const Indices& i) { return te::Sum(a(i[0], r->var), {r}); }, 1e-5);
  add("max", [&](const Indices& i) { return te::MaxReduce(a(i[0], r->var), {r}); }, 0);
  add("min", [&](const Indices& i) { return te::MinReduce(a(i[0], r->var), {r}); }, 0);
  add("prod", [&](const Indices& i) { return te::Prod(a(i[0], r->var), {r}); }, 1e-5);
  // Two stages: softmax-like.
  te::Tensor m = te::Compute(Shape({5}), [&](const Indices& i) { return te::MaxReduce(a(i[0], r->var), {r}); }, "m");
  te::Tensor e = te::Compute(Shape(shape), [&](const Indices& i) { return tir::exp(a(i[0], i[1]) - m(i[0])); }, "e");
  tir::IterVar q = te::ReduceAxis(tir::Range(PrimExpr(23)), "q");
  te::Tensor s = te::Compute(Shape({5}), [&](const Indices& i) { return te::Sum(e(i[0], q->var), {q}); }, "s");
  te::Tensor out = te::Compute(Shape(shape), [&](const Indices& i) { return e(i[0], i[1]) / s(i[0]); }, "out");
  b.Add("softmax", te::CreatePrimFunc({a, out}, "f"), {value, Garbage(shape, kF32)}, 1, 1e-5);
}

void AddConvolution(Builder& b) {
  const int n = 9, pad = 1;
  te::Tensor x = te::Placeholder(Shape({2, n, n}), kF32, "X"), w = te::Placeholder(Shape({3, 2, 3, 3}), kF32, "W");
  te::Tensor padded = te::Compute(
      Shape({2, n + 2 * pad, n + 2 * pad}),
      [&](const Indices& i) {
        return tir::if_then_else(i[1] >= pad && i[1] < n + pad && i[2] >= pad && i[2] < n + pad,
                                 x(i[0], i[1] - pad, i[2] - pad), tir::make_const(kF32, 0.0));
      },
      "pad");
  tir::IterVar c = te::ReduceAxis(tir::Range(PrimExpr(2)), "c"), kh = te::ReduceAxis(tir::Range(PrimExpr(3)), "kh"),
               kw = te::ReduceAxis(tir::Range(PrimExpr(3)), "kw");
  te::Tensor y = te::Compute(
      Shape({3, n, n}),
      [&](const Indices& i) {
        return te::Sum(padded(c->var, i[1] + kh->var, i[2] + kw->var) * w(i[0], c->var, kh->var, kw->var), {c, kh, kw});
      },
      "Y");
  te::Tensor relu = te::Compute(
      Shape({3, n, n}), [&](const Indices& i) { return tir::max(y(i[0], i[1], i[2]), tir::make_const(kF32, 0.0)); },
      "relu");
  b.Add("conv_relu", te::CreatePrimFunc({x, w, relu}, "f"),
        {Random({2, n, n}, kF32, -1, 1, 1), Random({3, 2, 3, 3}, kF32, -1, 1, 2), Garbage({3, n, n}, kF32)}, 2, 1e-5);
}

void AddGather(Builder& b) {
  te::Tensor data = te::Placeholder(Shape({11, 4}), kF32, "D"), index = te::Placeholder(Shape({6}), kI32, "I");
  te::Tensor out = te::Compute(
      Shape({6, 4}),
      [&](const Indices& i) {
        PrimExpr k = tir::max(tir::min(index(i[0]), PrimExpr(10)), PrimExpr(0));
        return data(k, i[1]);
      },
      "out");
  b.Add("gather", te::CreatePrimFunc({data, index, out}, "f"),
        {Random({11, 4}, kF32, -1, 1, 1), Random({6}, kI32, -20, 20, 2), Garbage({6, 4}, kF32)}, 2, 0);
}

void AddSymbolic(Builder& b) {
  Var n("n", DataType::Int(64)), m("m", DataType::Int(64));
  te::Tensor a = te::Placeholder({n, m}, kF32, "A");
  te::Tensor out = te::Compute({m, n}, [&](const Indices& i) { return a(i[1], i[0]) * 2.0f; }, "out");
  b.Add("symbolic", te::CreatePrimFunc({a, out}, "f"), {Random({5, 7}, kF32, -1, 1, 1), Garbage({7, 5}, kF32)}, 1, 0);
}

/// Sum and sum of squares in one pass, unrolled: each copy binds the same variables.
void AddUnrolledLets(Builder& b) {
  te::Tensor a = te::Placeholder(Shape({3, 4}), kI32, "A");
  tir::IterVar q = te::ReduceAxis(tir::Range(PrimExpr(4)), "q");
  Var x0("x0", kI32), x1("x1", kI32), y0("y0", kI32), y1("y1", kI32);
  tir::CommReducer both({x0, x1}, {y0, y1}, {x0 + y0, x1 + y1}, {PrimExpr(0), PrimExpr(0)});
  Array<te::Tensor> sums = te::BatchCompute(
      Shape({3}),
      [&](const Indices& i) {
        PrimExpr e = a(i[0], q->var);
        return te::CommReduce(both, {e, e * e}, {q});
      },
      "S");
  tir::Schedule s(te::CreatePrimFunc({a, sums[0], sums[1]}, "f"));
  for (const tir::LoopRV& loop : s.GetLoops(s.GetBlock("S"))) s.Unroll(loop);
  b.Add("unrolled_lets", s.func(), {Random({3, 4}, kI32, -9, 9, 1), Garbage({3}, kI32), Garbage({3}, kI32)}, 1, 0);
}

/// Conditions and numbers of iterations that read what the statements under them write, in expressions that those
/// statements have in common with them.
void AddReadsBetweenWrites(Builder& b) {
  const tir::Buffer out = tir::DeclBuffer(Shape({4}), kI32, "o");
  const Var handle("h", DataType::Handle()), i("i");
  auto load = [&](int at) { return PrimExpr(tir::BufferLoad(out, {PrimExpr(at)})); };
  auto store = [&](int at, const PrimExpr& value) { return tir::Stmt(tir::BufferStore(out, value, {PrimExpr(at)})); };
  auto seq = [](const Array<tir::Stmt>& all) { return tir::SeqStmt::Flatten(all); };
  const PrimExpr count = load(0), sum = load(1), size = load(2);
  const tir::Stmt body =
      seq({store(0, 3), store(1, 0), store(2, 0), store(3, 0),
           tir::While(count > 0, seq({store(0, count - 1), store(1, load(1) + count)})),
           tir::IfThenElse(tir::equal(sum, PrimExpr(3)), seq({store(1, sum + 4), store(2, sum)})),
           tir::For(i, PrimExpr(0), size, tir::ForKind::kSerial, seq({store(2, size - 1), store(3, load(3) + size)})),
           tir::For(Var("k"), PrimExpr(0), load(1), tir::ForKind::kSerial, store(1, load(1) - 1))});
  Map<Var, tir::Buffer> buffers;
  buffers.Set(handle, out);
  b.Add("reads_between_writes", tir::PrimFunc({handle}, body, Type(), buffers), {Garbage({4}, kI32)}, 0, 0);
}

/// Loops that run at once under what only memory says: numbers of iterations, a condition, a value.
void AddGridsByMemory(Builder& b) {
  const tir::Buffer out = tir::DeclBuffer(Shape({12}), kI32, "o");
  const Var handle("h", DataType::Handle()), i("i"), j("j"), k("k"), m("m"), v("v", kI32);
  auto load = [&](const PrimExpr& at) { return PrimExpr(tir::BufferLoad(out, {at})); };
  auto store = [&](const PrimExpr& at, const PrimExpr& value) { return tir::Stmt(tir::BufferStore(out, value, {at})); };
  auto at_once = [&](const Var& var, const PrimExpr& extent, const tir::Stmt& body) {
    return tir::Stmt(tir::For(var, PrimExpr(0), extent, tir::ForKind::kParallel, body));
  };
  const tir::Stmt body = tir::SeqStmt::Flatten(Array<tir::Stmt>{
      store(0, 3), store(1, 2), store(2, 0), at_once(i, load(0), store(i + 3, i * 5)),
      tir::IfThenElse(tir::equal(load(4), PrimExpr(5)), at_once(j, 2, store(j + 6, load(j) + 1)), store(2, 1)),
      tir::LetStmt(v, load(6) + load(7), at_once(k, v - 5, store(k + 8, v + k))),
      tir::For(m, PrimExpr(0), load(1), tir::ForKind::kSerial, at_once(Var("n"), 1, store(m + 10, m + 40)))});
  Map<Var, tir::Buffer> buffers;
  buffers.Set(handle, out);
  b.Add("grids_by_memory", tir::PrimFunc({handle}, body, Type(), buffers), {Garbage({12}, kI32)}, 0, 0);
}

}  // namespace

std::vector<Case> AllCases() {
  Builder b;
  AddArithmetic(b);
  AddCasts(b);
  AddSmallFloats(b);
  AddMath(b);
  AddReductions(b);
  AddConvolution(b);
  AddGather(b);
  AddSymbolic(b);
  AddUnrolledLets(b);
  AddReadsBetweenWrites(b);
  AddGridsByMemory(b);
  return b.cases;
}

void ExpectConformance(const Compiler& compile, size_t every) {
  std::vector<Case> cases;
  size_t count = 0;
  for (const Case& test : AllCases()) {
    const bool program = test.name.find('/') == std::string::npos;  // more than one expression
    if (program || every == 1 || count++ % every == 0) cases.push_back(test);
  }
  std::vector<tir::PrimFunc> funcs;
  for (Case& test : cases) {
    test.func = WithAttr(test.func, attr::kGlobalSymbol, String("f" + std::to_string(funcs.size())));
    funcs.push_back(test.func);
  }
  const Runner run = compile(funcs);
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& test = cases[k];
    SCOPED_TRACE(test.name);
    std::vector<NDArray> expected, got;
    for (const NDArray& value : test.inputs) {
      expected.push_back(value.Copy());
      got.push_back(value.Copy());
    }
    try {
      targets::RunPrimFunc(test.func, expected);
      run(k, got);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    for (size_t a = test.num_inputs; a < got.size(); ++a) {
      for (int64_t i = 0; i < got[a].size(); ++i) {
        const double x = ReadElement(got[a], i), y = ReadElement(expected[a], i);
        const bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                          std::fabs(x - y) <= test.tolerance * std::max(1.0, std::fabs(y));
        EXPECT_TRUE(same) << "element " << i << ": " << x << ", expected " << y;
        if (!same) break;
      }
    }
  }
}

}  // namespace treadle::conformance
