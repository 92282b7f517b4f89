// SPDX-License-Identifier: Apache-2.0
// The Schedule class: handles, finding, and recording of steps around the primitives.
#include "treadle/tir/schedule.h"

#include <utility>

#include "tir/schedule/primitives.h"
#include "tir/schedule/schedule_data.h"
#include "treadle/ir/serialization.h"

namespace treadle::tir {

namespace {

const Var& VarOf(const LoopRV& loop) {
  if (!loop.defined()) throw ScheduleError("the loop is null; a schedule gives none for an axis of extent 1");
  return loop->var;
}

const std::string& NameOf(const BlockRV& block) {
  if (!block.defined()) throw ScheduleError("the block is null");
  return block->name;
}

}  // namespace

TREADLE_DEFINE_NODE(BlockRVNode);
TREADLE_DEFINE_NODE(LoopRVNode);

Schedule::Schedule(const PrimFunc& func) : data_(std::make_unique<ScheduleData>(func)) {}
Schedule::Schedule(std::unique_ptr<ScheduleData> data) : data_(std::move(data)) {}

namespace {

std::pair<GlobalVar, PrimFunc> OnlyFunction(const IRModule& module, const std::string& name) {
  std::vector<std::pair<GlobalVar, PrimFunc>> found;
  for (const auto& [var, func] : module->functions) {
    if (!func.as<PrimFuncNode>()) continue;
    if (name.empty() || var->name_hint == name) found.emplace_back(var, Downcast<PrimFunc>(func));
  }
  if (found.empty()) {
    throw ScheduleError(name.empty() ? "the module has no loop-level function to schedule"
                                     : StrCat("the module has no loop-level function '", name, "'"));
  }
  if (found.size() > 1) {
    throw ScheduleError(StrCat("the module has ", found.size(), " functions; say which one to schedule, such as '",
                               found[0].first->name_hint, "'"));
  }
  return found[0];
}

}  // namespace

Schedule::Schedule(const IRModule& module, const std::string& func_name) {
  auto [var, func] = OnlyFunction(module, func_name);
  data_ = std::make_unique<ScheduleData>(func);
  data_->module = module;
  data_->var = var;
}

Schedule::~Schedule() = default;
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule&&) noexcept = default;
Schedule Schedule::Copy() const { return Schedule(std::make_unique<ScheduleData>(*data_)); }

PrimFunc Schedule::func() const { return data_->state.func(); }

IRModule Schedule::mod() const {
  if (!data_->module.defined()) {
    auto symbol = func()->GetAttr<String>(treadle::attr::kGlobalSymbol);
    IRModule module = IRModule::Empty();
    module.CopyOnWrite()->Add(GlobalVar(symbol ? symbol->str() : "main"), func());
    return module;
  }
  IRModule module(data_->module->functions, data_->module->type_definitions);
  module.CopyOnWrite()->attrs = data_->module->attrs;
  module.CopyOnWrite()->Add(data_->var, func());
  return module;
}

// ---- Finding ----

BlockRV Schedule::GetBlock(const std::string& name) {
  data_->state.FindBlock(name);
  bool known = data_->blocks.count(name) > 0;
  BlockRV block = data_->BlockHandle(name);
  if (!known) data_->Record("get_block", {name}, {ScheduleData::Ref(block)});
  return block;
}

bool Schedule::HasBlock(const std::string& name) const { return data_->state.HasBlock(name); }

std::vector<BlockRV> Schedule::GetBlocks() {
  std::vector<BlockRV> blocks;
  for (const PlacedBlock& b : data_->state.AllBlocks()) {
    if (b.path.size() > 1 && BlocksIn(b.block()->body).empty()) blocks.push_back(GetBlock(b.name()));
  }
  return blocks;
}

std::vector<LoopRV> Schedule::GetLoops(const BlockRV& block) {
  std::vector<LoopRV> loops;
  Json outputs = Json::array();
  for (const For& loop : data_->state.FindBlock(NameOf(block)).Loops()) {
    loops.push_back(data_->LoopHandle(loop->loop_var));
    outputs.push_back(ScheduleData::Ref(loops.back()));
  }
  data_->Record("get_loops", {ScheduleData::Ref(block)}, outputs);
  return loops;
}

std::vector<BlockRV> Schedule::GetChildBlocks(const BlockRV& block) {
  std::vector<BlockRV> blocks;
  PlacedBlock placed = data_->state.FindBlock(NameOf(block));
  for (const PlacedBlock& b : BlocksIn(placed.block()->body)) blocks.push_back(GetBlock(b.name()));
  return blocks;
}

std::vector<BlockRV> Schedule::GetChildBlocks(const LoopRV& loop) {
  std::vector<BlockRV> blocks;
  Path path = data_->state.FindLoop(VarOf(loop), "get_child_blocks");
  for (const PlacedBlock& b : BlocksIn(path.back())) blocks.push_back(GetBlock(b.name()));
  return blocks;
}

std::vector<BlockRV> Schedule::GetProducers(const BlockRV& block) {
  std::vector<BlockRV> blocks;
  PlacedBlock placed = data_->state.FindBlock(NameOf(block));
  for (const PlacedBlock& b : data_->state.ScopeOf(placed)) {
    if (b.name() == NameOf(block)) continue;
    bool produces = false;
    for (const BufferRegion& w : b.block()->writes) produces |= ReadsBuffer(placed.block(), w->buffer);
    if (produces) blocks.push_back(GetBlock(b.name()));
  }
  return blocks;
}

std::vector<BlockRV> Schedule::GetConsumers(const BlockRV& block) {
  std::vector<BlockRV> blocks;
  PlacedBlock placed = data_->state.FindBlock(NameOf(block));
  for (const PlacedBlock& b : data_->state.ScopeOf(placed)) {
    if (b.name() == NameOf(block)) continue;
    bool consumes = false;
    for (const BufferRegion& w : placed.block()->writes) consumes |= ReadsBuffer(b.block(), w->buffer);
    if (consumes) blocks.push_back(GetBlock(b.name()));
  }
  return blocks;
}

bool Schedule::IsOutput(const BlockRV& block) const {
  PlacedBlock placed = data_->state.FindBlock(NameOf(block));
  for (const BufferRegion& w : placed.block()->writes) {
    if (data_->state.IsParameter(w->buffer)) return true;
  }
  return false;
}

std::vector<BlockRV> Schedule::GetOutputBlocks() {
  std::vector<BlockRV> outputs;
  for (const BlockRV& block : GetBlocks()) {
    if (IsOutput(block)) outputs.push_back(block);
  }
  return outputs;
}

Block Schedule::Get(const BlockRV& block) const { return data_->state.FindBlock(NameOf(block)).realize->block; }
For Schedule::Get(const LoopRV& loop) const { return Downcast<For>(data_->state.FindLoop(VarOf(loop), "get").back()); }

// ---- Loops ----

std::vector<LoopRV> Schedule::Split(const LoopRV& loop, const std::vector<PrimExpr>& factors,
                                    const std::vector<std::string>& names) {
  std::vector<LoopRV> loops;
  Json sizes = Json::array(), outputs = Json::array();
  for (const PrimExpr& factor : factors) sizes.push_back(ScheduleData::Value(factor));
  for (const Var& var : primitive::Split(data_->state, VarOf(loop), factors, names)) {
    loops.push_back(data_->LoopHandle(var));
    outputs.push_back(ScheduleData::Ref(loops.back()));
  }
  data_->Record("split", {ScheduleData::Ref(loop), sizes}, outputs);
  return loops;
}

LoopRV Schedule::Fuse(const std::vector<LoopRV>& loops, const std::string& name) {
  std::vector<Var> vars;
  Json refs = Json::array();
  for (const LoopRV& loop : loops) {
    vars.push_back(VarOf(loop));
    refs.push_back(ScheduleData::Ref(loop));
  }
  LoopRV fused = data_->LoopHandle(primitive::Fuse(data_->state, vars, name));
  data_->Record("fuse", Json::array({refs}), {ScheduleData::Ref(fused)});
  return fused;
}

void Schedule::Reorder(const std::vector<LoopRV>& loops) {
  std::vector<Var> vars;
  Json refs = Json::array();
  for (const LoopRV& loop : loops) {
    vars.push_back(VarOf(loop));
    refs.push_back(ScheduleData::Ref(loop));
  }
  primitive::Reorder(data_->state, vars);
  data_->Record("reorder", Json::array({refs}));
}

std::vector<LoopRV> Schedule::Tile(const LoopRV& y, const LoopRV& x, const PrimExpr& y_factor,
                                   const PrimExpr& x_factor) {
  PrimExpr open{ObjectPtr<Object>()};
  std::vector<LoopRV> ys = Split(y, {open, y_factor}), xs = Split(x, {open, x_factor});
  Reorder({ys[0], xs[0], ys[1], xs[1]});
  return {ys[0], xs[0], ys[1], xs[1]};
}

void Schedule::Parallel(const LoopRV& loop) {
  primitive::SetKind(data_->state, VarOf(loop), ForKind::kParallel, "parallel");
  data_->Record("parallel", {ScheduleData::Ref(loop)});
}
void Schedule::Vectorize(const LoopRV& loop) {
  primitive::SetKind(data_->state, VarOf(loop), ForKind::kVectorized, "vectorize");
  data_->Record("vectorize", {ScheduleData::Ref(loop)});
}
void Schedule::Unroll(const LoopRV& loop) {
  primitive::SetKind(data_->state, VarOf(loop), ForKind::kUnrolled, "unroll");
  data_->Record("unroll", {ScheduleData::Ref(loop)});
}
void Schedule::Bind(const LoopRV& loop, const std::string& thread_axis) {
  primitive::SetKind(data_->state, VarOf(loop), ForKind::kThreadBinding, "bind", thread_axis);
  data_->Record("bind", {ScheduleData::Ref(loop), thread_axis});
}
LoopRV Schedule::AddUnitLoop(const BlockRV& block) {
  LoopRV loop = data_->LoopHandle(primitive::AddUnitLoop(data_->state, NameOf(block)));
  data_->Record("add_unit_loop", {ScheduleData::Ref(block)}, {ScheduleData::Ref(loop)});
  return loop;
}

// ---- Where blocks run ----

void Schedule::ComputeAt(const BlockRV& block, const LoopRV& loop, bool keep_unit_loops) {
  primitive::ComputeAt(data_->state, NameOf(block), VarOf(loop), keep_unit_loops);
  data_->Record("compute_at", {ScheduleData::Ref(block), ScheduleData::Ref(loop), keep_unit_loops});
}
void Schedule::ReverseComputeAt(const BlockRV& block, const LoopRV& loop, bool keep_unit_loops) {
  primitive::ReverseComputeAt(data_->state, NameOf(block), VarOf(loop), keep_unit_loops);
  data_->Record("reverse_compute_at", {ScheduleData::Ref(block), ScheduleData::Ref(loop), keep_unit_loops});
}
void Schedule::ComputeInline(const BlockRV& block) {
  primitive::ComputeInline(data_->state, NameOf(block));
  data_->Record("compute_inline", {ScheduleData::Ref(block)});
}
void Schedule::ReverseComputeInline(const BlockRV& block) {
  primitive::ReverseComputeInline(data_->state, NameOf(block));
  data_->Record("reverse_compute_inline", {ScheduleData::Ref(block)});
}

// ---- Buffers ----

BlockRV Schedule::CacheRead(const BlockRV& block, int read_index, const std::string& scope,
                            const std::vector<BlockRV>& consumers) {
  std::vector<std::string> names;
  Json refs = Json::array();
  for (const BlockRV& consumer : consumers) {
    names.push_back(NameOf(consumer));
    refs.push_back(ScheduleData::Ref(consumer));
  }
  BlockRV copy = data_->BlockHandle(primitive::CacheRead(data_->state, NameOf(block), read_index, scope, names));
  data_->Record("cache_read", {ScheduleData::Ref(block), read_index, scope, refs}, {ScheduleData::Ref(copy)});
  return copy;
}
BlockRV Schedule::CacheWrite(const BlockRV& block, int write_index, const std::string& scope) {
  BlockRV copy = data_->BlockHandle(primitive::CacheWrite(data_->state, NameOf(block), write_index, scope));
  data_->Record("cache_write", {ScheduleData::Ref(block), write_index, scope}, {ScheduleData::Ref(copy)});
  return copy;
}
void Schedule::SetScope(const BlockRV& block, int write_index, const std::string& scope) {
  primitive::SetScope(data_->state, NameOf(block), write_index, scope);
  data_->Record("set_scope", {ScheduleData::Ref(block), write_index, scope});
}
void Schedule::StorageAlign(const BlockRV& block, int write_index, int axis, int factor, int offset) {
  primitive::StorageAlign(data_->state, NameOf(block), write_index, axis, factor, offset);
  data_->Record("storage_align", {ScheduleData::Ref(block), write_index, axis, factor, offset});
}
void Schedule::DoubleBuffer(const BlockRV& block, int write_index) {
  primitive::DoubleBuffer(data_->state, NameOf(block), write_index);
  data_->Record("double_buffer", {ScheduleData::Ref(block), write_index});
}
void Schedule::Prefetch(const BlockRV& block, int read_index, const LoopRV& loop, const PrimExpr& offset) {
  primitive::Prefetch(data_->state, NameOf(block), read_index, VarOf(loop), offset);
  data_->Record("prefetch",
                {ScheduleData::Ref(block), read_index, ScheduleData::Ref(loop), ScheduleData::Value(offset)});
}
void Schedule::PrefetchNext(const BlockRV& block, int read_index, const LoopRV& around, const LoopRV& at,
                            int64_t within) {
  primitive::PrefetchNext(data_->state, NameOf(block), read_index, VarOf(around), VarOf(at), within);
  data_->Record("prefetch_next",
                {ScheduleData::Ref(block), read_index, ScheduleData::Ref(around), ScheduleData::Ref(at), within});
}

void Schedule::TransformLayout(const BlockRV& block, bool is_write, int index, const std::vector<Var>& vars,
                               const std::vector<PrimExpr>& indices) {
  primitive::TransformLayout(data_->state, NameOf(block), is_write, index, vars, indices);
  // The map as a function's text: variables by name, in order.
  Array<Var> params(vars);
  data_->Record("transform_layout", {ScheduleData::Ref(block), is_write, index,
                                     SaveJson(Array<ObjectRef>{params, Array<PrimExpr>(indices)})});
}

BlockRV Schedule::Blockize(const LoopRV& loop) {
  BlockRV outer = data_->BlockHandle(primitive::Blockize(data_->state, VarOf(loop)));
  data_->Record("blockize", {ScheduleData::Ref(loop)}, {ScheduleData::Ref(outer)});
  return outer;
}

void Schedule::Tensorize(const LoopRV& loop, const TensorIntrin& intrin) {
  primitive::Tensorize(data_->state, VarOf(loop), intrin);
  data_->Record("tensorize", {ScheduleData::Ref(loop), SaveJson(intrin)});
}

void Schedule::PadEinsum(const BlockRV& block, const std::vector<int64_t>& padding) {
  primitive::PadEinsum(data_->state, NameOf(block), padding);
  data_->Record("pad_einsum", {ScheduleData::Ref(block), Json(padding)});
}

// ---- Reductions ----

BlockRV Schedule::DecomposeReduction(const BlockRV& block, const LoopRV& loop) {
  BlockRV init = data_->BlockHandle(primitive::DecomposeReduction(data_->state, NameOf(block), VarOf(loop)));
  data_->Record("decompose_reduction", {ScheduleData::Ref(block), ScheduleData::Ref(loop)}, {ScheduleData::Ref(init)});
  return init;
}

BlockRV Schedule::RFactor(const LoopRV& loop, int factor_axis) {
  BlockRV partial = data_->BlockHandle(primitive::RFactor(data_->state, VarOf(loop), factor_axis));
  data_->Record("rfactor", {ScheduleData::Ref(loop), factor_axis}, {ScheduleData::Ref(partial)});
  return partial;
}

// ---- Annotations ----

void Schedule::Annotate(const LoopRV& loop, const std::string& key, const ObjectRef& value) {
  primitive::AnnotateLoop(data_->state, VarOf(loop), key, value);
  data_->Record("annotate", {ScheduleData::Ref(loop), key, ScheduleData::Value(value)});
}
void Schedule::Annotate(const BlockRV& block, const std::string& key, const ObjectRef& value) {
  primitive::AnnotateBlock(data_->state, NameOf(block), key, value);
  data_->Record("annotate", {ScheduleData::Ref(block), key, ScheduleData::Value(value)});
}
void Schedule::Unannotate(const LoopRV& loop, const std::string& key) {
  primitive::AnnotateLoop(data_->state, VarOf(loop), key, ObjectRef());
  data_->Record("unannotate", {ScheduleData::Ref(loop), key});
}
void Schedule::Unannotate(const BlockRV& block, const std::string& key) {
  primitive::AnnotateBlock(data_->state, NameOf(block), key, ObjectRef());
  data_->Record("unannotate", {ScheduleData::Ref(block), key});
}
void Schedule::Pragma(const LoopRV& loop, const std::string& key, const ObjectRef& value) {
  Annotate(loop, attr::kPragmaPrefix + key, value);
}

}  // namespace treadle::tir
