// SPDX-License-Identifier: Apache-2.0
// The familiar schedule of tensor expressions: stages with axes. It records what is wanted; applying it turns the graph
// into a function of blocks and does the recorded steps with tir::Schedule, which checks them.
#pragma once

#include <string>
#include <vector>

#include "treadle/te/tensor.h"
#include "treadle/tir/schedule.h"

namespace treadle::te {

enum class AttachType : int { kRoot = 0, kInline = 1, kScope = 2, kReverseInline = 3, kReverseScope = 4 };

/// One parameter of a function made of tensors: a tensor, perhaps in a buffer of the caller's (strides, alignment), or
/// a scalar variable.
struct Parameter {
  Parameter(Tensor t) : tensor(std::move(t)) {}  // NOLINT(google-explicit-constructor)
  Parameter(Tensor t, tir::Buffer b) : tensor(std::move(t)), buffer(std::move(b)) {}
  explicit Parameter(tir::Var v) : scalar(std::move(v)) {}
  Tensor tensor;       ///< null: a scalar
  tir::Buffer buffer;  ///< null: a compact one
  tir::Var scalar{ObjectPtr<Object>()};
};
/// As CreatePrimFunc of tensors. A buffer must have the shape and dtype of its tensor.
tir::PrimFunc MakePrimFunc(const std::vector<Parameter>& params, const std::string& name);

/// One transformation of a stage's axes, in the order given.
struct StageStep {
  enum class Kind { kSplit, kFuse, kReorder } kind;
  std::vector<IterVar> inputs;
  std::vector<IterVar> outputs;
  PrimExpr factor = PrimExpr(ObjectPtr<Object>());  ///< of split: inner extent, or null
  PrimExpr nparts = PrimExpr(ObjectPtr<Object>());  ///< of split: outer extent, or null
};

/// What is done to a loop, or to the buffer, once all stages stand.
struct StageMark {
  std::string key;   ///< "parallel", "vectorize", "unroll", "bind", "pragma", "prefetch", ..
  IterVar axis;      ///< may be null
  std::string text;  ///< thread name, pragma key
  ObjectRef value;
  std::vector<int> numbers;
};

class StageNode : public Object {
 public:
  Operation op;         ///< changed by cache_read and cache_write
  Operation origin_op;  ///< the stage is looked up by either
  Array<IterVar> leaf_iter_vars;
  std::vector<StageStep> steps;
  std::vector<StageMark> marks;
  AttachType attach_type = AttachType::kRoot;
  const StageNode* attach_stage = nullptr;
  IterVar attach_ivar;
  std::string scope = "global";
  Array<IterVar> env_threads;
  PrimExpr store_predicate = PrimExpr(ObjectPtr<Object>());  ///< null: none
  bool is_output = false;
  TREADLE_DECLARE_NODE(StageNode, Object, "te.Stage");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("op", &StageNode::op);
    r.Field("origin_op", &StageNode::origin_op);
    r.Field("leaf_iter_vars", &StageNode::leaf_iter_vars);
    r.Field("scope", &StageNode::scope);
    r.Field("is_output", &StageNode::is_output);
  }
};

/// Handle of a stage; changes the schedule it belongs to.
class Stage : public ObjectRef {
 public:
  /// Exactly one of `factor` (extent of the inner axis) and `nparts` (of the outer one) is given, the other is null.
  std::pair<IterVar, IterVar> Split(const IterVar& axis, const PrimExpr& factor, const PrimExpr& nparts);
  IterVar Fuse(const Array<IterVar>& axes);
  void Reorder(const Array<IterVar>& order);
  std::vector<IterVar> Tile(const IterVar& x, const IterVar& y, const PrimExpr& x_factor, const PrimExpr& y_factor);
  void ComputeAt(const Stage& consumer, const IterVar& axis);
  void ComputeInline();
  /// Runs right after the producer under `axis`, an axis of that stage.
  void ReverseComputeAt(const Stage& producer, const IterVar& axis);
  /// Done where its only producer stores.
  void ReverseComputeInline();
  void ComputeRoot();
  void SetScope(const std::string& scope);
  /// Marks: "parallel", "vectorize", "unroll" of an axis.
  void Mark(const std::string& key, const IterVar& axis);
  /// The loops from `axis` inwards are replaced by an intrinsic that computes the same.
  void Tensorize(const IterVar& axis, const tir::TensorIntrin& intrin);
  void Bind(const IterVar& axis, const std::string& thread);
  void Pragma(const IterVar& axis, const std::string& key, const ObjectRef& value);
  void StorageAlign(const IterVar& axis, int factor, int offset);
  void DoubleBuffer();
  void Prefetch(const Tensor& tensor, const IterVar& axis, const PrimExpr& offset);
  /// The stage stores only where `predicate` holds, in terms of its axes and the threads they are bound to.
  void SetStorePredicate(const PrimExpr& predicate);
  /// Threads that shall run around the stage; its axes, and those of what is attached to it, are bound to them.
  void EnvThreads(const Array<IterVar>& threads);
  TREADLE_BASE_REF(Stage, ObjectRef, StageNode);

 private:
  StageNode* node() const { return const_cast<StageNode*>(get()); }
  size_t LeafPosition(const IterVar& axis, const char* primitive) const;
};

class TeScheduleNode : public Object {
 public:
  Array<Operation> outputs;
  Array<Stage> stages;  ///< producers before consumers
  TREADLE_DECLARE_NODE(TeScheduleNode, Object, "te.Schedule");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("outputs", &TeScheduleNode::outputs);
    r.Field("stages", &TeScheduleNode::stages);
  }
};
class TeSchedule : public ObjectRef {
 public:
  TREADLE_BASE_REF(TeSchedule, ObjectRef, TeScheduleNode);
  /// The stage of the operation; throws ScheduleError naming it when it isn't part of the schedule.
  Stage operator[](const Operation& op) const;
  Stage operator[](const Tensor& tensor) const { return (*this)[tensor->op]; }
  /// A copy of `tensor` in `scope` that `readers` read instead.
  Tensor CacheRead(const Tensor& tensor, const std::string& scope, const Array<Operation>& readers);
  /// The computation moves to a new stage that writes `scope`; the tensor's stage becomes the copy out of it.
  Tensor CacheWrite(const Tensor& tensor, const std::string& scope);
  /// The same for a computation of several outputs, all of which are given.
  Array<Tensor> CacheWrite(const Array<Tensor>& tensors, const std::string& scope);
  /// Splits a reduction over `axis`, a reduction axis of the tensor's stage: a new stage "<name>.rf" computes partial
  /// results along a new dimension `factor_axis`, which the tensor's stage combines. Returns its outputs.
  Array<Tensor> RFactor(const Tensor& tensor, const IterVar& axis, int factor_axis = 0);
  /// The function whose parameters are `args` (tensors of the graph as they were given), with all steps applied.
  tir::PrimFunc Apply(const Array<Tensor>& args, const std::string& name = "main") const;
  tir::PrimFunc ApplyWith(const std::vector<Parameter>& params, const std::string& name) const;

 private:
  TeScheduleNode* node() const { return const_cast<TeScheduleNode*>(get()); }
};
TeSchedule CreateSchedule(const Array<Operation>& outputs);

}  // namespace treadle::te
