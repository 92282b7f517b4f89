// SPDX-License-Identifier: Apache-2.0
#include "backends/random_programs.h"

#include <functional>

#include "treadle/base/error.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"

namespace treadle::testing_random {
namespace {

using runtime::NDArray;
using tir::Var;
using Indices = Array<Var>;

const DataType kI32 = DataType::Int(32);

PrimExpr I(int64_t v) { return PrimExpr(static_cast<int32_t>(v)); }
PrimExpr Number(DataType t, int v) { return tir::make_const(t, v); }
Array<PrimExpr> Shape(const std::vector<int64_t>& shape) {
  Array<PrimExpr> result;
  for (int64_t n : shape) result.push_back(I(n));
  return result;
}
tir::IterVar Over(int64_t n, const char* name) { return te::ReduceAxis(tir::Range(I(n)), name); }

/// Collects a program's parameters with random contents.
class Maker {
 public:
  Maker(std::string kind, Random& random) : random_(random) {
    program_kind_ = std::move(kind);
    type = random.Of<DataType>({kI32, kI32, DataType::Float(32), DataType::Int(64)});
  }
  te::Tensor Input(const std::vector<int64_t>& shape, const char* name) { return Input(shape, name, type, -9, 9); }
  te::Tensor Input(const std::vector<int64_t>& shape, const char* name, DataType dtype, int low, int high) {
    te::Tensor t = te::Placeholder(Shape(shape), dtype, name);
    params_.push_back(t);
    args_.push_back(random_.Tensor(shape, dtype, low, high));
    return t;
  }
  Program Output(const te::Tensor& result) {
    std::vector<int64_t> shape;
    for (const PrimExpr& n : result->shape) shape.push_back(*AsConstInt(n));
    params_.push_back(result);
    args_.push_back(random_.Tensor(shape, result->dtype));
    return {program_kind_, te::CreatePrimFunc(params_, "f"), args_};
  }
  DataType type;

 private:
  Random& random_;
  std::string program_kind_;
  Array<te::Tensor> params_;
  std::vector<NDArray> args_;
};

Program Elementwise(Random& r) {
  Maker make("elementwise", r);
  const int n = r.Between(1, 20), m = r.Between(1, 33);
  te::Tensor a = make.Input({n, m}, "A"), b = make.Input({m}, "B");
  te::Tensor c = te::Compute(Shape({n, m}), [&](const Indices& i) { return a(i[0], i[1]) * b(i[1]); }, "C");
  te::Tensor d = te::Compute(Shape({n, m}), [&](const Indices& i) { return c(i[0], i[1]) + a(i[0], i[1]); }, "D");
  te::Tensor e =
      te::Compute(Shape({n, m}), [&](const Indices& i) { return tir::max(d(i[0], i[1]), Number(make.type, 3)); }, "E");
  return make.Output(e);
}

Program Broadcast(Random& r) {
  Maker make("broadcast", r);
  const int n = r.Between(1, 7), m = r.Between(1, 9), k = r.Between(1, 9);
  te::Tensor a = make.Input({n, 1, k}, "A"), b = make.Input({m, 1}, "B");
  te::Tensor t = te::Compute(Shape({n, k}), [&](const Indices& i) { return a(i[0], I(0), i[1]) * 2; }, "T");
  te::Tensor c = te::Compute(Shape({n, m, k}), [&](const Indices& i) { return t(i[0], i[2]) - b(i[1], I(0)); }, "C");
  te::Tensor d =
      te::Compute(Shape({k, n, m}), [&](const Indices& i) { return c(i[1], i[2], i[0]) + c(i[1], i[2], i[0]); }, "D");
  return make.Output(d);
}

Program Reshape(Random& r) {
  Maker make("reshape", r);
  const int n = r.Between(1, 6), m = r.Between(1, 8), k = r.Between(1, 8);
  te::Tensor a = make.Input({n, m, k}, "A");
  te::Tensor flat = te::Compute(
      Shape({n * m * k}),
      [&](const Indices& i) {
        return a(tir::floordiv(i[0], I(m * k)), tir::floormod(tir::floordiv(i[0], I(k)), I(m)),
                 tir::floormod(i[0], I(k)));
      },
      "F");
  te::Tensor out = te::Compute(
      Shape({k, n * m}), [&](const Indices& i) { return flat(i[1] * k + i[0]) + Number(make.type, 1); }, "O");
  return make.Output(out);
}

Program Matmul(Random& r) {
  Maker make("matmul", r);
  const int n = r.Between(1, 18), m = r.Between(1, 18), k = r.Between(1, 18);
  te::Tensor a = make.Input({n, k}, "A"), b = make.Input({k, m}, "B");
  tir::IterVar q = Over(k, "k");
  te::Tensor c = te::Compute(
      Shape({n, m}), [&](const Indices& i) { return te::Sum(a(i[0], q->var) * b(q->var, i[1]), {q}); }, "C");
  if (r.Below(3) == 0) return make.Output(c);
  te::Tensor d =
      te::Compute(Shape({n, m}), [&](const Indices& i) { return c(i[0], i[1]) + Number(make.type, 1); }, "D");
  return make.Output(d);
}

Program Convolution(Random& r) {
  Maker make("convolution", r);
  const int ci = r.Between(1, 4), co = r.Between(1, 5), n = r.Between(3, 10), stride = r.Between(1, 2);
  const int out = (n + 2 - 3) / stride + 1;
  te::Tensor x = make.Input({ci, n, n}, "X"), w = make.Input({co, ci, 3, 3}, "W");
  te::Tensor p = te::Compute(
      Shape({ci, n + 2, n + 2}),
      [&](const Indices& i) {
        return tir::if_then_else(i[1] >= 1 && i[1] < n + 1 && i[2] >= 1 && i[2] < n + 1, x(i[0], i[1] - 1, i[2] - 1),
                                 Number(make.type, 0));
      },
      "P");
  tir::IterVar c = Over(ci, "c"), kh = Over(3, "kh"), kw = Over(3, "kw");
  te::Tensor y = te::Compute(
      Shape({co, out, out}),
      [&](const Indices& i) {
        return te::Sum(p(c->var, i[1] * stride + kh->var, i[2] * stride + kw->var) * w(i[0], c->var, kh->var, kw->var),
                       {c, kh, kw});
      },
      "Y");
  te::Tensor z = te::Compute(
      Shape({co, out, out}), [&](const Indices& i) { return tir::max(y(i[0], i[1], i[2]), Number(make.type, 0)); },
      "Z");
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
      Shape({channels, out, out}),
      [&](const Indices& i) {
        PrimExpr e = x(i[0], i[1] * stride + h->var, i[2] * stride + w->var);
        return is_max ? te::MaxReduce(e, {h, w}) : te::MinReduce(e, {h, w});
      },
      "Y");
  return make.Output(y);
}

Program Rows(Random& r) {
  Maker make("rows", r);
  const int n = r.Between(1, 9), m = r.Between(1, 21);
  te::Tensor a = make.Input({n, m}, "A");
  tir::IterVar q = Over(m, "q"), s = Over(m, "s");
  te::Tensor top = te::Compute(Shape({n}), [&](const Indices& i) { return te::MaxReduce(a(i[0], q->var), {q}); }, "T");
  te::Tensor d = te::Compute(Shape({n, m}), [&](const Indices& i) { return a(i[0], i[1]) - top(i[0]); }, "D");
  te::Tensor sum = te::Compute(Shape({n}), [&](const Indices& i) { return te::Sum(d(i[0], s->var), {s}); }, "S");
  te::Tensor out = te::Compute(Shape({n, m}), [&](const Indices& i) { return d(i[0], m - 1 - i[1]) * sum(i[0]); }, "O");
  return make.Output(out);
}

Program ArgMax(Random& r) {
  Maker make("argmax", r);
  const int n = r.Between(1, 9), m = r.Between(1, 21);
  te::Tensor a = make.Input({n, m}, "A");
  tir::IterVar q = Over(m, "q");
  Array<te::Tensor> both = te::BatchCompute(
      Shape({n}),
      [&](const Indices& i) {
        return te::CommReduce(te::ArgMaxReducer(kI32, make.type), {q->var, a(i[0], q->var)}, {q});
      },
      "M");
  te::Tensor out = te::Compute(
      Shape({n}), [&](const Indices& i) { return tir::Cast(make.type, both[0](i[0])) + both[1](i[0]); }, "O");
  return make.Output(out);
}

Program Gather(Random& r) {
  Maker make("gather", r);
  const int rows = r.Between(1, 12), n = r.Between(1, 9), m = r.Between(1, 9);
  te::Tensor data = make.Input({rows, m}, "A"), index = make.Input({n}, "X", kI32, -3, rows + 3);
  te::Tensor picked = te::Compute(
      Shape({n, m}), [&](const Indices& i) { return data(tir::max(tir::min(index(i[0]), I(rows - 1)), I(0)), i[1]); },
      "G");
  tir::IterVar q = Over(n, "q");
  te::Tensor sum = te::Compute(Shape({m}), [&](const Indices& i) { return te::Sum(picked(q->var, i[0]), {q}); }, "S");
  return make.Output(sum);
}

Program Concatenation(Random& r) {
  Maker make("concatenation", r);
  const int n = r.Between(1, 9), m = r.Between(1, 9), k = r.Between(1, 9);
  te::Tensor a = make.Input({n, k}, "A"), b = make.Input({m, k}, "B");
  te::Tensor c = te::Compute(
      Shape({n + m, k}),
      [&](const Indices& i) { return tir::if_then_else(i[0] < n, a(i[0], i[1]), b(i[0] - n, i[1])); }, "C");
  te::Tensor d = te::Compute(
      Shape({n + m, k}), [&](const Indices& i) { return c(n + m - 1 - i[0], i[1]) * Number(make.type, 3); }, "D");
  return make.Output(d);
}

// ---- Steps ----

/// What a step works on.
class Stepper {
 public:
  Stepper(tir::Schedule& schedule, Random& random) : s_(schedule), r_(random), blocks_(schedule.GetBlocks()) {
    block_ = r_.Of(blocks_);
    loops_ = s_.GetLoops(block_);
  }
  struct Step {
    const char* name;
    void (Stepper::*run)();
    bool needs_loops;
  };
  static const std::vector<Step>& Steps() {
    static const std::vector<Step> steps = {
        {"split", &Stepper::Split, true},
        {"split", &Stepper::Split, true},
        {"split", &Stepper::SplitThree, true},
        {"tile", &Stepper::Tile, true},
        {"fuse", &Stepper::Fuse, true},
        {"reorder", &Stepper::Reorder, true},
        {"reorder", &Stepper::Reorder, true},
        {"vectorize", &Stepper::Vectorize, true},
        {"unroll", &Stepper::Unroll, true},
        {"parallel", &Stepper::Parallel, true},
        {"vthread", &Stepper::VThread, true},
        {"compute_at", &Stepper::ComputeAt, true},
        {"compute_at", &Stepper::ComputeAt, true},
        {"reverse_compute_at", &Stepper::ReverseComputeAt, true},
        {"compute_inline", &Stepper::ComputeInline, false},
        {"reverse_compute_inline", &Stepper::ReverseComputeInline, false},
        {"cache_read", &Stepper::CacheRead, false},
        {"cache_write", &Stepper::CacheWrite, false},
        {"set_scope", &Stepper::SetScope, false},
        {"storage_align", &Stepper::StorageAlign, false},
        {"double_buffer", &Stepper::DoubleBuffer, false},
        {"prefetch", &Stepper::Prefetch, true},
        {"decompose_reduction", &Stepper::DecomposeReduction, true},
        {"rfactor", &Stepper::RFactor, true},
        {"pragma", &Stepper::Pragma, true},
        {"add_unit_loop", &Stepper::AddUnitLoop, false},
    };
    return steps;
  }
  bool has_loops() const { return !loops_.empty(); }
  void Bind() {
    const std::vector<const char*> tags = {"blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"};
    s_.Bind(Loop(), r_.Of(tags));
  }

 private:
  tir::LoopRV Loop() { return r_.Of(loops_); }
  tir::BlockRV Other() { return r_.Of(blocks_); }
  int Factor() { return r_.Between(1, 9); }

  void Split() { s_.Split(Loop(), {PrimExpr(), I(Factor())}); }
  void SplitThree() {
    std::vector<PrimExpr> factors = {I(Factor()), I(Factor()), I(Factor())};
    factors[static_cast<size_t>(r_.Below(3))] = PrimExpr();
    s_.Split(Loop(), factors);
  }
  void Tile() { s_.Tile(Loop(), Loop(), I(Factor()), I(Factor())); }
  void Fuse() {
    const size_t at = static_cast<size_t>(r_.Below(static_cast<int>(loops_.size())));
    std::vector<tir::LoopRV> loops(loops_.begin() + static_cast<std::ptrdiff_t>(at), loops_.end());
    loops.resize(std::min<size_t>(loops.size(), static_cast<size_t>(r_.Between(2, 3))));
    s_.Fuse(loops);
  }
  void Reorder() { s_.Reorder({Loop(), Loop()}); }
  void Vectorize() { s_.Vectorize(r_.Below(3) == 0 ? Loop() : loops_.back()); }
  void Unroll() { s_.Unroll(Loop()); }
  void Parallel() { s_.Parallel(Loop()); }
  void VThread() { s_.VThread(Loop()); }
  void ComputeAt() { s_.ComputeAt(Other(), Loop(), r_.Below(2) == 0); }
  void ReverseComputeAt() { s_.ReverseComputeAt(Other(), Loop(), r_.Below(2) == 0); }
  void ComputeInline() { s_.ComputeInline(block_); }
  void ReverseComputeInline() { s_.ReverseComputeInline(block_); }
  void CacheRead() { s_.CacheRead(block_, r_.Below(2), r_.Below(2) == 0 ? "global" : "local"); }
  void CacheWrite() { s_.CacheWrite(block_, 0, r_.Below(2) == 0 ? "local" : "global"); }
  void SetScope() { s_.SetScope(block_, 0, "local"); }
  void StorageAlign() { s_.StorageAlign(block_, 0, r_.Below(3), r_.Between(1, 16), r_.Below(4)); }
  void DoubleBuffer() { s_.DoubleBuffer(block_, 0); }
  void Prefetch() { s_.Prefetch(block_, 0, Loop(), I(r_.Between(1, 3))); }
  void DecomposeReduction() { s_.DecomposeReduction(block_, Loop()); }
  void RFactor() { s_.RFactor(Loop(), r_.Below(2)); }
  void Pragma() { s_.Pragma(Loop(), "auto_unroll_max_step", IntImm(kI32, r_.Between(1, 32))); }
  void AddUnitLoop() { s_.AddUnitLoop(block_); }

  tir::Schedule& s_;
  Random& r_;
  std::vector<tir::BlockRV> blocks_;
  tir::BlockRV block_;
  std::vector<tir::LoopRV> loops_;
};

}  // namespace

NDArray Random::Tensor(const std::vector<int64_t>& shape, DataType dtype, int low, int high) {
  NDArray a = NDArray::Empty(shape, dtype);
  for (int64_t i = 0; i < a.size(); ++i) {
    const int value = Between(low, high);
    if (dtype == DataType::Float(32)) {
      a.Data<float>()[i] = static_cast<float>(value);
    } else if (dtype == DataType::Int(64)) {
      a.Data<int64_t>()[i] = value;
    } else {
      a.Data<int32_t>()[i] = value;
    }
  }
  return a;
}

Program RandomProgram(Random& random) {
  Program (*const makers[])(Random&) = {Elementwise, Broadcast, Reshape, Matmul, Convolution,
                                        Pooling,     Rows,      ArgMax,  Gather, Concatenation};
  return makers[random.Below(static_cast<int>(std::size(makers)))](random);
}

std::string StepCounts::Summary() const {
  std::string text = StrCat(taken + refused, " steps, ", refused, " refused (",
                            taken + refused == 0 ? 0 : 100 * refused / (taken + refused), " %);");
  for (const auto& [name, counts] : by_primitive) text += StrCat(" ", name, " ", counts.first, "/", counts.second);
  return text;
}

void RandomStep(tir::Schedule& schedule, Random& random, bool threads, StepCounts* counts) {
  if (schedule.GetBlocks().empty()) return;
  Stepper stepper(schedule, random);
  const bool bind = threads && stepper.has_loops() && random.Below(4) == 0;
  const Stepper::Step step = bind ? Stepper::Step{"bind", &Stepper::Bind, true} : random.Of(Stepper::Steps());
  if (step.needs_loops && !stepper.has_loops()) return;
  auto& [taken, refused] = counts->by_primitive[step.name];
  try {
    (stepper.*step.run)();
    ++taken;
    ++counts->taken;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    ++refused;
    ++counts->refused;
  }
}

}  // namespace treadle::testing_random
