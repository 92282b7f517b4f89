// SPDX-License-Identifier: Apache-2.0
// Recording of what is wanted of a stage.
#include <algorithm>
#include <utility>

#include "treadle/ir/prim_ops.h"
#include "treadle/te/schedule.h"

namespace treadle::te {

TREADLE_DEFINE_NODE(StageNode);
TREADLE_DEFINE_NODE(TeScheduleNode);

using tir::IterVarType;
using tir::ScheduleError;

size_t Stage::LeafPosition(const IterVar& axis, const char* primitive) const {
  std::string known;
  const Array<IterVar>& leaves = get()->leaf_iter_vars;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i]->var.same_as(axis->var)) return i;
    known += (known.empty() ? "" : ", ") + leaves[i]->var->name_hint;
  }
  throw ScheduleError(StrCat(primitive, ": stage '", get()->op->name, "' has no axis '", axis->var->name_hint,
                             "' (any more); its axes are ", known));
}

namespace {

IterVar MakeAxis(const std::string& name, const PrimExpr& extent, IterVarType type) {
  return IterVar(Range(extent), Var(name, extent.dtype()), type);
}

Array<IterVar> Without(const Array<IterVar>& list, size_t begin, size_t count, const std::vector<IterVar>& in_place) {
  Array<IterVar> result;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i == begin) {
      for (const IterVar& iv : in_place) result.push_back(iv);
    }
    if (i < begin || i >= begin + count) result.push_back(list[i]);
  }
  return result;
}

}  // namespace

std::pair<IterVar, IterVar> Stage::Split(const IterVar& axis, const PrimExpr& factor, const PrimExpr& nparts) {
  size_t at = LeafPosition(axis, "split");
  if (factor.defined() == nparts.defined()) {
    throw ScheduleError(StrCat("split: axis '", axis->var->name_hint, "' of stage '", get()->op->name,
                               "' needs either factor or nparts"));
  }
  const IterVar parent = get()->leaf_iter_vars[at];
  DataType dtype = parent->var.dtype();
  PrimExpr extent = parent->dom->extent;
  PrimExpr given = tir::cast(dtype, factor.defined() ? factor : nparts);
  if (const int64_t* value = AsConstInt(given); value && *value <= 0) {
    throw ScheduleError(StrCat("split: ", factor.defined() ? "factor " : "nparts ", *value, " of axis '",
                               axis->var->name_hint, "' of stage '", get()->op->name, "'; expected a positive number"));
  }
  PrimExpr other = tir::ceildiv(extent, given);
  const std::string& name = parent->var->name_hint;
  IterVar outer = MakeAxis(name + ".outer", factor.defined() ? other : given, parent->iter_type);
  IterVar inner = MakeAxis(name + ".inner", factor.defined() ? given : other, parent->iter_type);
  StageNode* n = node();
  StageStep step{StageStep::Kind::kSplit, {parent}, {outer, inner}};
  step.factor = factor.defined() ? given : PrimExpr(ObjectPtr<Object>());
  step.nparts = nparts.defined() ? given : PrimExpr(ObjectPtr<Object>());
  n->steps.push_back(step);
  n->leaf_iter_vars = Without(n->leaf_iter_vars, at, 1, {outer, inner});
  return {outer, inner};
}

IterVar Stage::Fuse(const Array<IterVar>& axes) {
  StageNode* n = node();
  if (axes.empty()) {
    // A computation of one element gets a loop of one step, which schedules of all ranks can go on with.
    const auto* compute = n->op.as<ComputeOpNode>();
    if (compute == nullptr || !compute->axis.empty()) {
      throw ScheduleError(StrCat("fuse: no axes of stage '", n->op->name, "' given"));
    }
    IterVar unit = MakeAxis("singleton", PrimExpr(1), IterVarType::kDataPar);
    n->steps.push_back({StageStep::Kind::kFuse, {}, {unit}});
    Array<IterVar> leaves{unit};
    for (const IterVar& axis : n->leaf_iter_vars) leaves.push_back(axis);
    n->leaf_iter_vars = leaves;
    return unit;
  }
  std::vector<size_t> positions;
  for (const IterVar& axis : axes) positions.push_back(LeafPosition(axis, "fuse"));
  std::sort(positions.begin(), positions.end());
  std::vector<IterVar> inputs;
  std::string name;
  PrimExpr extent = PrimExpr(1);
  IterVarType type = n->leaf_iter_vars[positions[0]]->iter_type;
  for (size_t i = 0; i < positions.size(); ++i) {
    const IterVar iv = n->leaf_iter_vars[positions[i]];
    if (positions[i] != positions[0] + i) {
      throw ScheduleError(StrCat("fuse: axis '", iv->var->name_hint, "' of stage '", n->op->name,
                                 "' isn't next to axis '", n->leaf_iter_vars[positions[i - 1]]->var->name_hint, "'"));
    }
    inputs.push_back(iv);
    name += iv->var->name_hint + ".";
    extent = extent * iv->dom->extent;
    if (iv->iter_type != type) {
      const bool reduced = iv->iter_type == IterVarType::kCommReduce;
      const IterVar& first = inputs[0];
      throw ScheduleError(StrCat("fuse: stage '", n->op->name, "': axis '", (reduced ? first : iv)->var->name_hint,
                                 "' is data-parallel and axis '", (reduced ? iv : first)->var->name_hint,
                                 "' is reduced; expected axes of one kind"));
    }
  }
  if (inputs.size() == 1) return inputs[0];
  IterVar fused = MakeAxis(name + "fused", extent, type);
  n->steps.push_back({StageStep::Kind::kFuse, inputs, {fused}});
  n->leaf_iter_vars = Without(n->leaf_iter_vars, positions[0], positions.size(), {fused});
  return fused;
}

void Stage::Reorder(const Array<IterVar>& order) {
  StageNode* n = node();
  std::vector<size_t> positions;
  StageStep step{StageStep::Kind::kReorder, {}, {}};
  for (const IterVar& axis : order) {
    size_t at = LeafPosition(axis, "reorder");
    if (std::find(positions.begin(), positions.end(), at) != positions.end()) {
      throw ScheduleError(
          StrCat("reorder: axis '", axis->var->name_hint, "' of stage '", n->op->name, "' is listed twice"));
    }
    positions.push_back(at);
    step.inputs.push_back(n->leaf_iter_vars[at]);
  }
  std::vector<size_t> sorted = positions;
  std::sort(sorted.begin(), sorted.end());
  Array<IterVar> leaves = n->leaf_iter_vars;
  for (size_t i = 0; i < sorted.size(); ++i) leaves.Set(sorted[i], step.inputs[i]);
  n->leaf_iter_vars = leaves;
  n->steps.push_back(step);
}

std::vector<IterVar> Stage::Tile(const IterVar& x, const IterVar& y, const PrimExpr& x_factor,
                                 const PrimExpr& y_factor) {
  PrimExpr none{ObjectPtr<Object>()};
  auto [xo, xi] = Split(x, x_factor, none);
  auto [yo, yi] = Split(y, y_factor, none);
  Reorder({xo, yo, xi, yi});
  return {xo, yo, xi, yi};
}

void Stage::ComputeAt(const Stage& consumer, const IterVar& axis) {
  StageNode* n = node();
  if (n->is_output) throw ScheduleError(StrCat("compute_at: stage '", n->op->name, "' is an output"));
  if (n->op.as<PlaceholderOpNode>()) {
    throw ScheduleError(StrCat("compute_at: stage '", n->op->name, "' is a placeholder, which isn't computed"));
  }
  if (consumer.same_as(*this))
    throw ScheduleError(StrCat("compute_at: stage '", n->op->name, "' can't be attached to itself"));
  consumer.LeafPosition(axis, "compute_at");
  n->attach_type = AttachType::kScope;
  n->attach_stage = consumer.get();
  n->attach_ivar = axis;
}

void Stage::ComputeInline() {
  StageNode* n = node();
  if (n->is_output) throw ScheduleError(StrCat("compute_inline: stage '", n->op->name, "' is an output"));
  const auto* compute = n->op.as<ComputeOpNode>();
  if (compute == nullptr || !compute->reduce_axis.empty()) {
    throw ScheduleError(StrCat("compute_inline: stage '", n->op->name, "' isn't an element-wise computation",
                               compute == nullptr ? "" : ": it is a reduction"));
  }
  n->attach_type = AttachType::kInline;
}

void Stage::ReverseComputeAt(const Stage& producer, const IterVar& axis) {
  StageNode* n = node();
  if (producer.same_as(*this)) {
    throw ScheduleError(StrCat("reverse_compute_at: stage '", n->op->name, "' can't be attached to itself"));
  }
  producer.LeafPosition(axis, "reverse_compute_at");
  n->attach_type = AttachType::kReverseScope;
  n->attach_stage = producer.get();
  n->attach_ivar = axis;
}

void Stage::ReverseComputeInline() {
  StageNode* n = node();
  const auto* compute = n->op.as<ComputeOpNode>();
  if (compute == nullptr || !compute->reduce_axis.empty()) {
    throw ScheduleError(StrCat("reverse_compute_inline: stage '", n->op->name, "' isn't an element-wise computation"));
  }
  n->attach_type = AttachType::kReverseInline;
}

void Stage::EnvThreads(const Array<IterVar>& threads) {
  for (const IterVar& thread : threads) {
    if (thread->iter_type != IterVarType::kThreadIndex) {
      throw ScheduleError(StrCat("env_threads: axis '", thread->var->name_hint, "' for stage '", get()->op->name,
                                 "' isn't a thread axis; make it with thread_axis"));
    }
  }
  node()->env_threads = threads;
}

void Stage::SetStorePredicate(const PrimExpr& predicate) {
  if (!predicate.dtype().is_bool()) {
    throw DTypeError(StrCat("set_store_predicate: the predicate of stage '", get()->op->name, "' has dtype ",
                            predicate.dtype(), "; expected bool"));
  }
  node()->store_predicate = predicate;
}

void Stage::ComputeRoot() {
  node()->attach_type = AttachType::kRoot;
  node()->attach_stage = nullptr;
}

void Stage::SetScope(const std::string& scope) { node()->scope = scope; }

namespace {

/// How the loop of an axis runs is said by its last mark, as in TVM; a thread binding is apart from the others.
void SetAxisKind(StageNode* stage, StageMark mark) {
  const auto kind_of = [](const StageMark& m) {
    if (m.key == "bind") return 2;
    return m.key == "parallel" || m.key == "vectorize" || m.key == "unroll" || m.key == "tensorize" ? 1 : 0;
  };
  const int kind = kind_of(mark);
  std::erase_if(stage->marks, [&](const StageMark& m) { return kind_of(m) == kind && m.axis.same_as(mark.axis); });
  stage->marks.push_back(std::move(mark));
}

}  // namespace

void Stage::Mark(const std::string& key, const IterVar& axis) {
  size_t at = LeafPosition(axis, key.c_str());
  const IterVar leaf = get()->leaf_iter_vars[at];
  if (key != "unroll" && leaf->iter_type == IterVarType::kCommReduce) {
    throw ScheduleError(StrCat(key, ": axis '", leaf->var->name_hint, "' of stage '", get()->op->name,
                               "' is a reduction axis; only data-parallel axes can run at once"));
  }
  SetAxisKind(node(), {key, leaf, "", ObjectRef(), {}});
}

void Stage::Tensorize(const IterVar& axis, const tir::TensorIntrin& intrin) {
  SetAxisKind(node(), {"tensorize", get()->leaf_iter_vars[LeafPosition(axis, "tensorize")], "", intrin, {}});
}
void Stage::Bind(const IterVar& axis, const std::string& thread) {
  SetAxisKind(node(), {"bind", get()->leaf_iter_vars[LeafPosition(axis, "bind")], thread, ObjectRef(), {}});
}
void Stage::Pragma(const IterVar& axis, const std::string& key, const ObjectRef& value) {
  LeafPosition(axis, "pragma");
  node()->marks.push_back({"pragma", axis, key, value, {}});
}
void Stage::StorageAlign(const IterVar& axis, int factor, int offset) {
  const auto* compute = get()->op.as<ComputeOpNode>();
  for (size_t i = 0; compute && i < compute->axis.size(); ++i) {
    if (!compute->axis[i]->var.same_as(axis->var)) continue;
    node()->marks.push_back({"storage_align", axis, "", ObjectRef(), {static_cast<int>(i), factor, offset}});
    return;
  }
  throw ScheduleError(
      StrCat("storage_align: axis '", axis->var->name_hint, "' isn't an axis of operation '", get()->op->name, "'"));
}
void Stage::DoubleBuffer() { node()->marks.push_back({"double_buffer", IterVar(), "", ObjectRef(), {}}); }
void Stage::Prefetch(const Tensor& tensor, const IterVar& axis, const PrimExpr& offset) {
  LeafPosition(axis, "prefetch");
  node()->marks.push_back({"prefetch", axis, tensor->GetNameHint(), offset, {}});
}

}  // namespace treadle::te
