// SPDX-License-Identifier: Apache-2.0
#include "relay/analysis/indexed_graph.h"

#include <unordered_set>
#include <utility>

#include "treadle/ir/structural.h"
#include "treadle/relay/call_pattern.h"
#include "treadle/relay/data_reads.h"

namespace treadle::relay {

const char* PatternName(OpPatternKind pattern) {
  switch (pattern) {
    case OpPatternKind::kElemWise:
      return "elemwise";
    case OpPatternKind::kBroadcast:
      return "broadcast";
    case OpPatternKind::kInjective:
      return "injective";
    case OpPatternKind::kCommReduce:
      return "comm_reduce";
    case OpPatternKind::kOutEWiseFusable:
      return "out_elemwise_fusable";
    case OpPatternKind::kTuple:
      return "tuple";
    case OpPatternKind::kOpaque:
      break;
  }
  return "opaque";
}

std::string DescribeNode(const ExprNode* node) {
  if (const auto* call = dynamic_cast<const CallNode*>(node)) {
    if (const auto* op = call->op.as<OpNode>()) return op->name;
    if (const auto* global = call->op.as<GlobalVarNode>()) return "call @" + global->name_hint;
    return "call";
  }
  if (const auto* var = dynamic_cast<const VarNode*>(node)) return "var %" + var->name_hint();
  if (const auto* item = dynamic_cast<const TupleGetItemNode*>(node)) return StrCat(".", item->index);
  if (node->IsInstance<ConstantNode>()) return "constant";
  if (node->IsInstance<TupleNode>()) return "tuple";
  if (node->IsInstance<LetNode>()) return "let";
  if (node->IsInstance<IfNode>()) return "if";
  if (node->IsInstance<MatchNode>()) return "match";
  return node->type_key();
}

bool IsSimpleScalar(const ConstantNode* constant) {
  if (!constant->is_scalar()) return false;
  DataType dtype = constant->data.dtype();
  return dtype == DataType::Int(32) || dtype == DataType::Int(64) || dtype == DataType::Float(32) ||
         dtype == DataType::Float(64) || dtype == DataType::Bool();
}

namespace {

/// Variables are one per identity, everything else one per object.
const Object* KeyOf(const ExprNode* node) {
  if (node->IsInstance<VarNode>()) return static_cast<const VarNode*>(node)->vid.get();
  return node;
}

bool SameShape(const TensorTypeNode* a, const TensorTypeNode* b) {
  if (a->shape.size() != b->shape.size()) return false;
  for (size_t i = 0; i < a->shape.size(); ++i) {
    PrimExpr x = a->shape[i], y = b->shape[i];
    if (x.same_as(y)) continue;
    const int64_t* cx = AsConstInt(x);
    const int64_t* cy = AsConstInt(y);
    if (cx != nullptr && cy != nullptr) {
      if (*cx != *cy) return false;
    } else if (!StructuralEqual(x, y)) {
      return false;
    }
  }
  return true;
}

bool IsDynamicType(const Type& type) {
  if (const auto* tensor = type.as<TensorTypeNode>()) return !IsStatic(tensor);
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) {
      if (IsDynamicType(field)) return true;
    }
  }
  return false;
}

OpPatternKind PatternOf(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  if (op == nullptr) return OpPatternKind::kOpaque;
  Op ref = GetRef<Op>(op);
  // The kernel of an operator whose shape function reads values can't run inside another kernel.
  if (ref.GetAttr(kDataDependentShape, false) && IsDynamicType(call->checked_type())) return OpPatternKind::kOpaque;
  if (const FCallPattern own = ref.GetAttr(kCallPattern, FCallPattern{}); own != nullptr) {
    if (const auto pattern = own(call)) return *pattern;
  }
  // One without a pattern, such as batch_norm before SimplifyInference, stays by itself.
  return ref.GetAttr(kOpPattern, OpPatternKind::kOpaque);
}

}  // namespace

/// One depth-first walk with an explicit stack. Edges are recorded when a consumer is entered, with provisional
/// numbers; nodes get their index when they are left.
class ForwardGraphBuilder {
 public:
  IndexedForwardGraph Build(const Expr& body) {
    MarkExtern(body.get());
    Push(body.get());
    while (!stack_.empty()) {
      Frame frame = stack_.back();
      stack_.pop_back();
      if (frame.leaving) {
        Finish(frame.node);
      } else if (visited_.insert(KeyOf(frame.node)).second) {
        Enter(frame.node);
      }
    }
    return Renumber();
  }

 private:
  struct Frame {
    const ExprNode* node;
    bool leaving;
  };
  struct Pending {
    ForwardNode node;
    int index = -1;
  };

  void Push(const ExprNode* node) { stack_.push_back({node, false}); }

  int IdOf(const ExprNode* node) {
    auto [it, inserted] = ids_.emplace(KeyOf(node), static_cast<int>(pending_.size()));
    if (inserted) pending_.emplace_back();
    return it->second;
  }
  void MarkExtern(const ExprNode* node) { pending_[IdOf(node)].node.extern_ref = true; }
  void AddUse(const Expr& value, int consumer, OpPatternKind pattern) {
    pending_[IdOf(value.get())].node.outputs.push_back({consumer, pattern});
  }
  void SetPattern(const ExprNode* node, OpPatternKind pattern) { pending_[IdOf(node)].node.pattern = pattern; }

  /// Children are visited in the order given.
  void PushChildren(const ExprNode* node, const std::vector<const ExprNode*>& children, bool has_index = true) {
    if (has_index) stack_.push_back({node, true});
    for (size_t i = children.size(); i-- > 0;) Push(children[i]);
  }
  void EnterOutsideDataflow(const ExprNode* node, const std::vector<const ExprNode*>& children) {
    for (const ExprNode* child : children) MarkExtern(child);
    PushChildren(node, children);
  }

  void Enter(const ExprNode* node) {
    if (node->IsInstance<CallNode>()) return EnterCall(static_cast<const CallNode*>(node));
    if (node->IsInstance<TupleNode>()) return EnterTuple(static_cast<const TupleNode*>(node));
    if (node->IsInstance<TupleGetItemNode>()) return EnterProjection(static_cast<const TupleGetItemNode*>(node));
    if (node->IsInstance<FunctionNode>()) return EnterFunction(static_cast<const FunctionNode*>(node));
    if (node->IsInstance<ConstantNode>()) {
      if (IsSimpleScalar(static_cast<const ConstantNode*>(node))) SetPattern(node, OpPatternKind::kElemWise);
      return Finish(node);
    }
    if (node->IsInstance<VarNode>()) return Finish(node);
    if (const auto* let = dynamic_cast<const LetNode*>(node)) {
      return EnterOutsideDataflow(node, {let->var.get(), let->value.get(), let->body.get()});
    }
    if (const auto* branch = dynamic_cast<const IfNode*>(node)) {
      return EnterOutsideDataflow(node, {branch->cond.get(), branch->true_branch.get(), branch->false_branch.get()});
    }
    if (const auto* ref = dynamic_cast<const RefCreateNode*>(node)) {
      return EnterOutsideDataflow(node, {ref->value.get()});
    }
    if (const auto* read = dynamic_cast<const RefReadNode*>(node)) return EnterOutsideDataflow(node, {read->ref.get()});
    if (const auto* write = dynamic_cast<const RefWriteNode*>(node)) {
      return EnterOutsideDataflow(node, {write->ref.get(), write->value.get()});
    }
    if (const auto* match = dynamic_cast<const MatchNode*>(node)) {
      std::vector<const ExprNode*> children{match->data.get()};
      for (const Clause& clause : match->clauses) children.push_back(clause->rhs.get());
      return EnterOutsideDataflow(node, children);
    }
    // Operators, global names and constructors: nothing flows out of them.
  }

  void EnterCall(const CallNode* call) {
    OpPatternKind pattern = PatternOf(call);
    SetPattern(call, pattern);
    MarkExtern(call->op.get());
    int id = IdOf(call);
    const auto* result = call->type_as<TensorTypeNode>();
    std::vector<const ExprNode*> children{call->op.get()};
    const auto* op = call->op.as<OpNode>();
    const bool gathers = op != nullptr && GetRef<Op>(op).GetAttr(kGathersData, false);
    const bool reads_once = op != nullptr && GetRef<Op>(op).GetAttr(kReadsDataOnce, false);
    for (const Expr& arg : call->args) {
      const bool data = children.size() == 1;
      OpPatternKind edge = pattern;
      if (data && gathers) edge = OpPatternKind::kOpaque;
      if (data && reads_once) edge = OpPatternKind::kCommReduce;
      if (edge == OpPatternKind::kBroadcast && result != nullptr) {
        const auto* type = arg->type_as<TensorTypeNode>();
        if (type != nullptr && SameShape(result, type)) edge = OpPatternKind::kElemWise;
      }
      AddUse(arg, id, edge);
      children.push_back(arg.get());
    }
    PushChildren(call, children);
  }

  /// Whether a tensor is gathered, whatever its shape is made: where tensors are joined, rows of each may be too short
  /// for the loops that gather.
  static bool IsGathered(Expr tensor) {
    for (;;) {
      const auto* call = tensor.as<CallNode>();
      const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
      if (op == nullptr) return false;
      if (GetRef<Op>(op).GetAttr(kGathersData, false)) return true;
      if (!GetRef<Op>(op).GetAttr(kReshapeOp, false)) return false;
      tensor = call->args[0];
    }
  }

  void EnterTuple(const TupleNode* tuple) {
    SetPattern(tuple, OpPatternKind::kTuple);
    int id = IdOf(tuple);
    std::vector<const ExprNode*> children;
    for (const Expr& field : tuple->fields) {
      if (field->type_as<TensorTypeNode>() != nullptr) {
        AddUse(field, id, IsGathered(field) ? OpPatternKind::kOpaque : OpPatternKind::kInjective);
      } else {
        MarkExtern(field.get());
      }
      children.push_back(field.get());
    }
    PushChildren(tuple, children);
  }

  void EnterProjection(const TupleGetItemNode* item) {
    const auto* type = item->tuple->type_as<TupleTypeNode>();
    TREADLE_ICHECK(type != nullptr) << "projection of a value that isn't a tuple";
    // A fused function takes tensors and tuples of tensors only.
    bool only_tensors = true;
    for (const Type& field : type->fields) only_tensors = only_tensors && field.as<TensorTypeNode>() != nullptr;
    if (only_tensors) {
      SetPattern(item, OpPatternKind::kInjective);
      AddUse(item->tuple, IdOf(item), OpPatternKind::kInjective);
    } else {
      MarkExtern(item->tuple.get());
    }
    PushChildren(item, {item->tuple.get()});
  }

  void EnterFunction(const FunctionNode* func) {
    if (func->GetAttr<ObjectRef>(attr::kCompiler) || func->is_primitive()) return;
    std::vector<const ExprNode*> children;
    for (const Var& param : func->params) {
      MarkExtern(param.get());
      children.push_back(param.get());
    }
    MarkExtern(func->body.get());
    children.push_back(func->body.get());
    PushChildren(func, children, /*has_index=*/false);
  }

  void Finish(const ExprNode* node) {
    Pending& entry = pending_[IdOf(node)];
    entry.node.ref = node;
    entry.index = count_++;
  }

  IndexedForwardGraph Renumber() {
    IndexedForwardGraph graph;
    graph.nodes_.resize(count_);
    for (Pending& entry : pending_) {
      if (entry.index < 0) continue;
      for (ForwardEdge& edge : entry.node.outputs) edge.consumer = pending_[edge.consumer].index;
      graph.index_.emplace(KeyOf(entry.node.ref), entry.index);
    }
    for (Pending& entry : pending_) {
      if (entry.index >= 0) graph.nodes_[entry.index] = std::move(entry.node);
    }
    return graph;
  }

  std::vector<Frame> stack_;
  std::unordered_set<const Object*> visited_;
  std::unordered_map<const Object*, int> ids_;
  std::vector<Pending> pending_;
  int count_ = 0;
};

IndexedForwardGraph IndexedForwardGraph::Create(const Expr& body) { return ForwardGraphBuilder().Build(body); }

int IndexedForwardGraph::Find(const ExprNode* expr) const {
  auto it = index_.find(KeyOf(expr));
  return it == index_.end() ? -1 : it->second;
}

std::string IndexedForwardGraph::Dump() const {
  std::string text;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ForwardNode& node = nodes_[i];
    text +=
        StrCat(i, ": ", DescribeNode(node.ref), " [", PatternName(node.pattern), "]", node.extern_ref ? " extern" : "");
    if (!node.outputs.empty()) text += " ->";
    for (const ForwardEdge& edge : node.outputs)
      text += StrCat(" ", edge.consumer, "(", PatternName(edge.pattern), ")");
    text += "\n";
  }
  return text;
}

}  // namespace treadle::relay
