// SPDX-License-Identifier: Apache-2.0
// Random steps of schedules.
#include <algorithm>

#include "targets/random_programs.h"
#include "treadle/base/error.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/tensor_intrin.h"

namespace treadle::testing_random {
namespace {

const DataType kI32 = DataType::Int(32);
PrimExpr I(int64_t v) { return PrimExpr(static_cast<int32_t>(v)); }

/// A product of square matrices of `n` rows, computed from the last step of the sum to the first.
tir::TensorIntrin MatmulIntrin(DataType type, int n) {
  const Array<PrimExpr> shape{I(n), I(n)};
  te::Tensor a = te::Placeholder(shape, type, "a"), b = te::Placeholder(shape, type, "b");
  tir::IterVar q = te::ReduceAxis(tir::Range(I(n)), "k");
  te::Tensor c = te::Compute(
      shape, [&](const Array<tir::Var>& i) { return te::Sum(a(i[0], q->var) * b(q->var, i[1]), {q}); }, "c");
  auto implement = [&](bool init) {
    Array<tir::Var> params;
    Map<tir::Var, tir::Buffer> buffers;
    std::vector<tir::Buffer> all;
    for (const char* name : {"a", "b", "c"}) {
      params.push_back(tir::Var(name, DataType::Handle()));
      all.push_back(tir::DeclBuffer(shape, type, name));
      buffers.Set(params.back(), all.back());
    }
    tir::Var i("i", kI32), j("j", kI32), k("k", kI32);
    const PrimExpr back = n - 1 - k;
    const PrimExpr product = tir::BufferLoad(all[0], {i, back}) * tir::BufferLoad(all[1], {back, j});
    tir::Stmt body = tir::BufferStore(all[2], tir::BufferLoad(all[2], {i, j}) + product, {i, j});
    body = tir::For(k, I(0), I(n), tir::ForKind::kSerial, body);
    if (init) body = tir::SeqStmt({tir::BufferStore(all[2], tir::make_zero(type), {i, j}), body});
    body = tir::For(j, I(0), I(n), tir::ForKind::kSerial, body);
    body = tir::For(i, I(0), I(n), tir::ForKind::kSerial, body);
    return tir::PrimFunc(params, body, Type(), buffers);
  };
  return tir::TensorIntrin(StrCat("matmul", n), te::CreatePrimFunc({a, b, c}), implement(true), implement(false));
}

/// Lanes of sums of products of `n` elements, cast first, as instructions on narrow integers compute them.
tir::TensorIntrin DotIntrin(DataType left, DataType right, DataType sum, int lanes, int n) {
  te::Tensor a = te::Placeholder({I(n)}, left, "a"), b = te::Placeholder({I(lanes), I(n)}, right, "b");
  tir::IterVar q = te::ReduceAxis(tir::Range(I(n)), "k");
  te::Tensor c = te::Compute(
      {I(lanes)},
      [&](const Array<tir::Var>& i) {
        return te::Sum(tir::cast(sum, a(q->var)) * tir::cast(sum, b(i[0], q->var)), {q});
      },
      "c");
  auto implement = [&](bool init) {
    const tir::Buffer buffers[] = {tir::DeclBuffer({I(n)}, left, "a"), tir::DeclBuffer({I(lanes), I(n)}, right, "b"),
                                   tir::DeclBuffer({I(lanes)}, sum, "c")};
    Array<tir::Var> params;
    Map<tir::Var, tir::Buffer> map;
    for (const tir::Buffer& buffer : buffers) {
      params.push_back(tir::Var(buffer->name, DataType::Handle()));
      map.Set(params.back(), buffer);
    }
    tir::Var i("i", kI32);
    PrimExpr total = init ? tir::make_zero(sum) : tir::BufferLoad(buffers[2], {i});
    for (int k = n; k-- > 0;) {
      total = total + tir::cast(sum, tir::BufferLoad(buffers[0], {I(k)})) *
                          tir::cast(sum, tir::BufferLoad(buffers[1], {i, I(k)}));
    }
    tir::Stmt body = tir::BufferStore(buffers[2], total, {i});
    return tir::PrimFunc(params, tir::For(i, I(0), I(lanes), tir::ForKind::kSerial, body), Type(), map);
  };
  return tir::TensorIntrin(StrCat("dot", lanes, "x", n), te::CreatePrimFunc({a, b, c}), implement(true),
                           implement(false));
}

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
        {"transform_layout", &Stepper::TransformLayout, false},
        {"pad_einsum", &Stepper::PadEinsum, false},
        {"blockize", &Stepper::Blockize, true},
        {"tensorize", &Stepper::Tensorize, true},
        {"tensorize_dot", &Stepper::TensorizeDot, true},
        {"split", &Stepper::SplitInFull, true},
        {"reorder", &Stepper::ReorderAll, true},
        {"fuse", &Stepper::FuseAny, true},
        {"cache_read", &Stepper::CacheReadForSome, false},
        {"annotate", &Stepper::Annotate, true},
        {"prefetch_next", &Stepper::PrefetchNext, true},
        {"mistake", &Stepper::Mistake, true},
    };
    return steps;
  }
  bool has_loops() const { return !loops_.empty(); }
  void Bind() {
    const std::vector<const char*> tags = {"blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"};
    s_.Bind(Loop(), r_.Of(tags));
  }
  /// Threads of a block read a copy in its memory, which they fetch together.
  void Fetch() {
    const char* const tag = r_.Chance(2) ? "threadIdx.x" : "threadIdx.y";
    const int count = r_.Between(2, 5);
    const tir::LoopRV thread = s_.Split(Loop(), {PrimExpr(), I(count)})[1];
    const tir::BlockRV copy = s_.CacheRead(block_, r_.Below(2), "shared");
    if (r_.Chance(4)) s_.Bind(s_.GetLoops(copy)[0], "blockIdx.x");
    s_.Bind(thread, tag);
    const std::vector<tir::LoopRV> loops = s_.GetLoops(block_);
    size_t at = 0;
    while (!loops[at].same_as(thread)) ++at;
    s_.ComputeAt(copy, loops[at + static_cast<size_t>(r_.Below(static_cast<int>(loops.size() - at)))]);
    const auto parts = s_.Split(s_.GetLoops(copy).back(), {PrimExpr(), I(r_.Chance(4) ? r_.Between(1, 6) : count)});
    s_.Bind(parts[1], tag);
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
  /// All factors given; those that don't cover the loop are refused.
  void SplitInFull() { s_.Split(Loop(), {I(Factor()), I(Factor())}, {"outer", "inner"}); }
  void Tile() { s_.Tile(Loop(), Loop(), I(Factor()), I(Factor())); }
  void FuseAny() { s_.Fuse({Loop(), Loop()}, "fused"); }
  void ReorderAll() {
    std::vector<tir::LoopRV> order = loops_;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[static_cast<size_t>(r_.Below(int(i)))]);
    s_.Reorder(order);
  }
  void CacheReadForSome() {
    s_.CacheRead(block_, r_.Below(2), r_.Of(scopes_), r_.Chance(2) ? std::vector<tir::BlockRV>{Other()} : blocks_);
  }
  void Annotate() {
    const tir::LoopRV loop = Loop();
    s_.Annotate(loop, "note", String("a \"note\""));
    s_.Annotate(block_, "numbers", Array<PrimExpr>{I(1), IntImm(DataType::Int(64), 2)});
    if (r_.Chance(2)) s_.Unannotate(loop, "note");
  }
  void PrefetchNext() { s_.PrefetchNext(block_, 0, Loop(), Loop()); }
  /// What is wrong whatever the schedule, or nearly so: refused with a reason.
  void Mistake() {
    const tir::LoopRV loop = Loop();
    switch (r_.Below(20)) {
      case 0:
        return void(s_.Split(loop, {I(0), PrimExpr()}));
      case 1:
        return void(s_.Split(loop, {I(-4), PrimExpr()}));
      case 2:
        return void(s_.Split(loop, {PrimExpr(), PrimExpr()}));
      case 3:
        return void(s_.Split(loop, {}));
      case 4:
        return void(s_.Fuse({}));
      case 5:
        return s_.Reorder({loop, loop});
      case 6:
        return s_.Bind(loop, "threadIdx.w");
      case 7:
        return void(s_.CacheRead(block_, r_.Of<int>({-1, 7}), "global"));
      case 8:
        return void(s_.CacheWrite(block_, r_.Of<int>({-1, 3}), "global"));
      case 9:
        return void(s_.CacheWrite(block_, 0, "nowhere"));
      case 10:
        return s_.SetScope(block_, 0, "");
      case 11:
        return s_.StorageAlign(block_, 0, r_.Of<int>({-1, 9}), r_.Of<int>({-8, 0, 8}), 0);
      case 12:
        return s_.ComputeAt(block_, loop);
      case 13:
        return s_.ReverseComputeAt(block_, loop);
      case 14:
        return void(s_.RFactor(loop, r_.Of<int>({-3, 5})));
      case 15:
        return s_.PadEinsum(block_, {});
      case 16:
        return s_.PadEinsum(block_, {0, -1, 4});
      case 17: {
        s_.Split(loop, {PrimExpr(), I(2)});
        return s_.Vectorize(loop);
      }
      case 18: {
        const tir::Var v("v", kI32);
        return s_.TransformLayout(block_, r_.Chance(2), r_.Below(3), {v}, {r_.Chance(2) ? v * 0 : PrimExpr(v)});
      }
      default:
        return s_.Prefetch(block_, 5, loop, I(r_.Of<int>({-1, 0, 100000})));
    }
  }
  void TensorizeDot() {
    const tir::Block block = s_.Get(block_);
    const int lanes = r_.Of<int>({1, 2, 4}), n = r_.Of<int>({2, 4});
    if (loops_.size() < 3 || block->iter_vars.size() != 3 || block->reads.size() < 2) {
      throw tir::ScheduleError("this isn't a product");
    }
    std::vector<tir::LoopRV> order, inner;
    for (size_t i = loops_.size() - 2; i < loops_.size(); ++i) {
      const auto parts = s_.Split(loops_[i], {PrimExpr(), I(i + 1 < loops_.size() ? lanes : n)});
      order.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
    const tir::LoopRV first = inner[0], sum = order[1];
    order.insert(order.end(), inner.begin(), inner.end());
    s_.Reorder(order);
    if (r_.Chance(2)) s_.DecomposeReduction(block_, sum);
    const size_t at = block->reads.size() - 2;
    s_.Tensorize(first, DotIntrin(block->reads[at]->buffer->dtype, block->reads[at + 1]->buffer->dtype,
                                  block->writes[0]->buffer->dtype, lanes, n));
  }
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
  /// Of one of what the block writes: seldom more than one.
  int WriteIndex() { return r_.Chance(4) ? r_.Below(2) : 0; }
  const std::vector<std::string> scopes_ = {"global", "local", "local", "shared"};
  void CacheRead() { s_.CacheRead(block_, r_.Below(2), r_.Of(scopes_)); }
  void CacheWrite() { s_.CacheWrite(block_, WriteIndex(), r_.Of(scopes_)); }
  void SetScope() { s_.SetScope(block_, WriteIndex(), r_.Of(scopes_)); }
  void StorageAlign() { s_.StorageAlign(block_, WriteIndex(), r_.Below(3), r_.Between(1, 16), r_.Below(4)); }
  void DoubleBuffer() { s_.DoubleBuffer(block_, WriteIndex()); }
  void Prefetch() { s_.Prefetch(block_, r_.Below(2), Loop(), I(r_.Between(1, 3))); }
  void DecomposeReduction() { s_.DecomposeReduction(block_, Loop()); }
  void RFactor() { s_.RFactor(Loop(), r_.Below(2)); }
  void Pragma() {
    if (r_.Chance(4)) return s_.Pragma(Loop(), "unroll_explicit", IntImm(kI32, r_.Below(2)));
    s_.Pragma(Loop(), "auto_unroll_max_step", IntImm(kI32, r_.Between(1, 32)));
  }
  void AddUnitLoop() { s_.AddUnitLoop(block_); }
  void Blockize() { s_.Blockize(Loop()); }
  void PadEinsum() {
    std::vector<int64_t> padding;
    for (size_t i = 0; i < s_.Get(block_)->iter_vars.size(); ++i) padding.push_back(r_.Of<int64_t>({1, 2, 4, 8}));
    s_.PadEinsum(block_, padding);
  }
  void TransformLayout() {
    const bool is_write = r_.Chance(2);
    const tir::Block block = s_.Get(block_);
    const auto& regions = is_write ? block->writes : block->reads;
    if (regions.empty()) throw tir::ScheduleError("nothing to transform");
    const auto index = r_.Below(static_cast<int>(regions.size()));
    std::vector<tir::Var> vars;
    std::vector<PrimExpr> indices;
    for (size_t d = 0; d < regions[static_cast<size_t>(index)]->region.size(); ++d) {
      vars.push_back(tir::Var(StrCat("d", d), kI32));
      const int at = r_.Below(static_cast<int>(indices.size()) + 1), factor = r_.Between(2, 5);
      if (r_.Chance(3)) {
        indices.insert(indices.begin() + at, tir::floordiv(vars[d], I(factor)));
        indices.push_back(tir::floormod(vars[d], I(factor)));
      } else if (r_.Chance(4)) {
        indices.insert(indices.begin() + at, vars[d] * 2 + 1);
      } else {
        indices.insert(indices.begin() + at, vars[d]);
      }
    }
    s_.TransformLayout(block_, is_write, index, vars, indices);
  }
  /// Cuts the loops of a matrix product into small ones, and puts an intrinsic for those.
  void Tensorize() {
    const tir::Block block = s_.Get(block_);
    const int factor = r_.Of<int>({1, 2, 4});
    if (r_.Chance(3) || loops_.size() < 3 || block->iter_vars.size() != 3) {
      return s_.Tensorize(Loop(), MatmulIntrin(block->writes[0]->buffer->dtype, factor));
    }
    std::vector<tir::LoopRV> order, inner;
    for (size_t i = loops_.size() - 3; i < loops_.size(); ++i) {
      const auto parts = s_.Split(loops_[i], {PrimExpr(), I(factor)});
      order.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
    const tir::LoopRV first = inner[0], sum = order[2];
    order.insert(order.end(), inner.begin(), inner.end());
    s_.Reorder(order);
    if (r_.Chance(2)) s_.DecomposeReduction(block_, sum);
    s_.Tensorize(first, MatmulIntrin(block->writes[0]->buffer->dtype, factor));
  }

  tir::Schedule& s_;
  Random& r_;
  std::vector<tir::BlockRV> blocks_;
  tir::BlockRV block_;
  std::vector<tir::LoopRV> loops_;
};

/// What a step on stages works on.
class StageStepper {
 public:
  StageStepper(te::TeSchedule& schedule, Random& random) : s_(schedule), r_(random) {
    std::vector<te::Stage> stages;
    for (const te::Stage& stage : s_->stages) {
      if (!stage->leaf_iter_vars.empty()) stages.push_back(stage);
    }
    if (stages.empty()) return;
    stage_ = r_.Of(stages);
    other_ = r_.Of(stages);
  }
  struct Step {
    const char* name;
    void (StageStepper::*run)();
  };
  static const std::vector<Step>& Steps() {
    static const std::vector<Step> steps = {
        {"te.split", &StageStepper::Split},
        {"te.split", &StageStepper::Split},
        {"te.tile", &StageStepper::Tile},
        {"te.fuse", &StageStepper::Fuse},
        {"te.reorder", &StageStepper::Reorder},
        {"te.reorder", &StageStepper::Reorder},
        {"te.vectorize", &StageStepper::Vectorize},
        {"te.unroll", &StageStepper::Unroll},
        {"te.parallel", &StageStepper::Parallel},
        {"te.vthread", &StageStepper::VThread},
        {"te.compute_at", &StageStepper::ComputeAt},
        {"te.compute_at", &StageStepper::ComputeAt},
        {"te.compute_inline", &StageStepper::ComputeInline},
        {"te.reverse_compute_at", &StageStepper::ReverseComputeAt},
        {"te.reverse_compute_inline", &StageStepper::ReverseComputeInline},
        {"te.compute_root", &StageStepper::ComputeRoot},
        {"te.set_scope", &StageStepper::SetScope},
        {"te.storage_align", &StageStepper::StorageAlign},
        {"te.double_buffer", &StageStepper::DoubleBuffer},
        {"te.prefetch", &StageStepper::Prefetch},
        {"te.pragma", &StageStepper::Pragma},
        {"te.cache_read", &StageStepper::CacheRead},
        {"te.cache_write", &StageStepper::CacheWrite},
        {"te.rfactor", &StageStepper::RFactor},
        {"te.reorder", &StageStepper::ReorderAll},
        {"te.fuse", &StageStepper::FuseMany},
        {"te.cache_read", &StageStepper::CacheReadForAll},
        {"te.cache_write", &StageStepper::CacheWriteAll},
        {"te.tensorize", &StageStepper::Tensorize},
        {"te.mistake", &StageStepper::Mistake},
    };
    return steps;
  }
  bool has_stages() const { return stage_.defined(); }
  void Bind() {
    const std::vector<const char*> tags = {"blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"};
    stage_.Bind(Axis(), r_.Of(tags));
  }
  /// Threads of a block read a copy in its memory, which they fetch together.
  void Fetch() {
    const Array<te::Tensor> inputs = te::InputTensors(stage_->op);
    if (inputs.empty()) throw tir::ScheduleError("nothing is read");
    const char* const tag = r_.Chance(2) ? "threadIdx.x" : "threadIdx.y";
    const int count = r_.Between(2, 5);
    const tir::IterVar thread = stage_.Split(Axis(), I(count), PrimExpr()).second;
    stage_.Bind(thread, tag);
    const te::Tensor copy = s_.CacheRead(r_.Of(inputs.ToVector()), "shared", {stage_->op});
    const auto& leaves = stage_->leaf_iter_vars;
    size_t at = 0;
    while (!leaves[at].same_as(thread)) ++at;
    te::Stage fetch = s_[copy];
    if (fetch->leaf_iter_vars.empty()) return;
    fetch.ComputeAt(stage_, leaves[at + static_cast<size_t>(r_.Below(static_cast<int>(leaves.size() - at)))]);
    const tir::IterVar axis = r_.Chance(2) ? fetch->leaf_iter_vars.back() : fetch.Fuse(fetch->leaf_iter_vars);
    fetch.Bind(fetch.Split(axis, I(r_.Chance(4) ? r_.Between(1, 6) : count), PrimExpr()).second, tag);
  }

 private:
  static te::Tensor TensorOf(const te::Stage& stage, int index = 0) {
    return te::Tensor(stage->op->output_shape(index), stage->op->output_dtype(index), stage->op, index);
  }
  tir::IterVar Axis(const te::Stage& stage) { return r_.Of(stage->leaf_iter_vars.ToVector()); }
  tir::IterVar Axis() { return Axis(stage_); }
  PrimExpr Factor() { return I(r_.Between(1, 9)); }
  const std::vector<const char*> scopes_ = {"global", "local", "local", "shared"};

  void ReorderAll() {
    std::vector<tir::IterVar> order = stage_->leaf_iter_vars.ToVector();
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[static_cast<size_t>(r_.Below(int(i)))]);
    stage_.Reorder(order);
  }
  void FuseMany() { stage_.Fuse(stage_->leaf_iter_vars); }
  void CacheReadForAll() {
    Array<te::Operation> readers;
    const te::Tensor tensor = TensorOf(stage_);
    for (const te::Stage& stage : s_->stages) {
      for (const te::Tensor& input : te::InputTensors(stage->op)) {
        if (input == tensor) readers.push_back(stage->op);
      }
    }
    s_.CacheRead(tensor, r_.Of(scopes_), readers);
  }
  void CacheWriteAll() {
    Array<te::Tensor> all;
    for (int i = 0; i < stage_->op->num_outputs(); ++i) all.push_back(TensorOf(stage_, i));
    s_.CacheWrite(all, r_.Of(scopes_));
  }
  void Tensorize() {
    const auto* compute = stage_->op.as<te::ComputeOpNode>();
    if (compute == nullptr || compute->axis.size() != 2 || compute->reduce_axis.size() != 1) {
      throw tir::ScheduleError("this isn't a product");
    }
    const int n = r_.Of<int>({1, 2, 4});
    Array<tir::IterVar> order, inner;
    for (const tir::IterVar& axis : {compute->axis[0], compute->axis[1], compute->reduce_axis[0]}) {
      const auto [outside, inside] = stage_.Split(axis, I(n), PrimExpr());
      order.push_back(outside);
      inner.push_back(inside);
    }
    for (const tir::IterVar& axis : inner) order.push_back(axis);
    stage_.Reorder(order);
    stage_.Tensorize(inner[0], MatmulIntrin(stage_->op->output_dtype(0), n));
  }
  void Mistake() {
    const tir::IterVar axis = Axis();
    switch (r_.Below(10)) {
      case 0:
        return void(stage_.Split(axis, I(0), PrimExpr()));
      case 1:
        return void(stage_.Split(axis, I(-2), PrimExpr()));
      case 2:
        return void(stage_.Split(axis, PrimExpr(), PrimExpr()));
      case 3:
        return void(stage_.Split(axis, I(2), I(2)));
      case 4:
        return void(stage_.Fuse({}));
      case 5:
        return stage_.Reorder({axis, axis});
      case 6:
        return stage_.ComputeAt(stage_, axis);
      case 7:
        return stage_.ComputeAt(other_, tir::IterVar(tir::Range(I(3)), tir::Var("x", kI32), axis->iter_type));
      case 8:
        return void(s_.RFactor(TensorOf(stage_), axis, 17));
      default:
        return void(s_.CacheRead(te::Placeholder({I(3)}, kI32, "Q"), "global", {stage_->op}));
    }
  }
  void Split() {
    const bool parts = r_.Chance(3);
    stage_.Split(Axis(), parts ? PrimExpr() : Factor(), parts ? Factor() : PrimExpr());
  }
  void Tile() { stage_.Tile(Axis(), Axis(), Factor(), Factor()); }
  void Fuse() {
    const auto& leaves = stage_->leaf_iter_vars;
    const size_t at = static_cast<size_t>(r_.Below(static_cast<int>(leaves.size())));
    Array<tir::IterVar> axes;
    for (size_t i = at; i < leaves.size() && i < at + 2; ++i) axes.push_back(leaves[i]);
    stage_.Fuse(axes);
  }
  void Reorder() { stage_.Reorder({Axis(), Axis()}); }
  void Vectorize() { stage_.Mark("vectorize", r_.Chance(3) ? Axis() : stage_->leaf_iter_vars.back()); }
  void Unroll() { stage_.Mark("unroll", Axis()); }
  void Parallel() { stage_.Mark("parallel", Axis()); }
  void VThread() { stage_.Bind(Axis(), "vthread"); }
  void ComputeAt() { stage_.ComputeAt(other_, Axis(other_)); }
  void ComputeInline() { stage_.ComputeInline(); }
  void ReverseComputeAt() { stage_.ReverseComputeAt(other_, Axis(other_)); }
  void ReverseComputeInline() {
    if (r_.Chance(3)) stage_.ReverseComputeInline();
  }
  void ComputeRoot() { stage_.ComputeRoot(); }
  // What doesn't fit the stage is refused when all is applied; it shan't be most of what is drawn.
  bool Own() { return !stage_->is_output || r_.Chance(8); }
  void SetScope() {
    if (Own()) stage_.SetScope("local");
  }
  void StorageAlign() {
    if (Own()) stage_.StorageAlign(Axis(), r_.Between(4, 16), r_.Below(4));
  }
  void DoubleBuffer() {
    if (Own()) stage_.DoubleBuffer();
  }
  void Prefetch() {
    const Array<te::Tensor> inputs = te::InputTensors(stage_->op);
    if (!inputs.empty()) stage_.Prefetch(r_.Of(inputs.ToVector()), Axis(), I(r_.Between(1, 3)));
  }
  void Pragma() { stage_.Pragma(Axis(), "auto_unroll_max_step", IntImm(kI32, r_.Between(1, 32))); }
  void CacheRead() {
    const Array<te::Tensor> inputs = te::InputTensors(stage_->op);
    if (inputs.empty()) throw tir::ScheduleError("nothing is read");
    s_.CacheRead(r_.Of(inputs.ToVector()), r_.Of(scopes_), {stage_->op});
  }
  void CacheWrite() { s_.CacheWrite(TensorOf(stage_), r_.Of(scopes_)); }
  void RFactor() { s_.RFactor(TensorOf(stage_), Axis(), r_.Below(2)); }

  te::TeSchedule& s_;
  Random& r_;
  te::Stage stage_, other_;
};

}  // namespace

std::string StepCounts::Summary() const {
  std::string text = StrCat(taken + refused, " steps, ", refused, " refused (",
                            taken + refused == 0 ? 0 : 100 * refused / (taken + refused), " %);");
  for (const auto& [name, counts] : by_primitive) text += StrCat(" ", name, " ", counts.first, "/", counts.second);
  return text;
}

namespace {
/// Takes a step, or counts that it was refused.
template <typename F>
void Count(StepCounts* counts, const char* name, F&& step) {
  auto& [taken, refused] = counts->by_primitive[name];
  try {
    step();
    ++taken;
    ++counts->taken;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    ++refused;
    ++counts->refused;
  }
}
}  // namespace

void RandomStep(tir::Schedule& schedule, Random& random, bool threads, StepCounts* counts) {
  if (schedule.GetBlocks().empty()) return;
  Stepper stepper(schedule, random);
  const bool bind = threads && stepper.has_loops() && random.Chance(4);
  if (bind && random.Chance(3)) return Count(counts, "fetch", [&] { stepper.Fetch(); });
  const Stepper::Step step = bind ? Stepper::Step{"bind", &Stepper::Bind, true} : random.Of(Stepper::Steps());
  if (step.needs_loops && !stepper.has_loops()) return;
  Count(counts, step.name, [&] { (stepper.*step.run)(); });
}

void RandomStageStep(te::TeSchedule& schedule, Random& random, bool threads, StepCounts* counts) {
  StageStepper stepper(schedule, random);
  if (!stepper.has_stages()) return;
  const bool bind = threads && random.Chance(5);
  if (bind && random.Chance(3)) return Count(counts, "te.fetch", [&] { stepper.Fetch(); });
  const StageStepper::Step step =
      bind ? StageStepper::Step{"te.bind", &StageStepper::Bind} : random.Of(StageStepper::Steps());
  Count(counts, step.name, [&] { (stepper.*step.run)(); });
}

}  // namespace treadle::testing_random
