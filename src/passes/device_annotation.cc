// SPDX-License-Identifier: Apache-2.0
// RewriteAnnotatedOps: turns on_device annotations into copies along the edges between devices; and the devices that
// copies imply.
#include <map>
#include <numeric>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/annotation.h"
#include "treadle/relay/device.h"

namespace treadle::relay {
namespace {

using ops::DeviceCopyAttrs;
using ops::OnDeviceAttrs;

const CallNode* AsOnDevice(const Expr& expr) {
  const auto* call = AsCallOf(expr, "annotation.on_device");
  return call != nullptr ? call : AsCallOf(expr, "on_device");
}

/// The attributes when `call` is device_copy, or a call of a fused function that only copies.
const DeviceCopyAttrs* AsCopy(const Expr& expr) {
  const auto* call = expr.as<CallNode>();
  if (call == nullptr) return nullptr;
  if (const auto* func = call->op.as<FunctionNode>()) {
    const auto* inner = func->is_primitive() ? AsCallOf(func->body, "device_copy") : nullptr;
    return inner == nullptr ? nullptr : inner->attrs_as<DeviceCopyAttrs>();
  }
  return OpName(call) == "device_copy" ? call->attrs_as<DeviceCopyAttrs>() : nullptr;
}

/// How messages name a value: "add(%x, nn.relu(..))".
std::string ValueName(const Expr& expr, int depth = 0) {
  if (const auto* var = expr.as<VarNode>()) return "%" + var->name_hint();
  if (expr.as<ConstantNode>() != nullptr) return "a constant";
  if (const auto* item = expr.as<TupleGetItemNode>()) return StrCat(ValueName(item->tuple, depth), ".", item->index);
  const auto* call = expr.as<CallNode>();
  if (call == nullptr || call->op.as<OpNode>() == nullptr) return "a value";
  if (AsOnDevice(expr) != nullptr) return ValueName(call->args[0], depth);
  if (depth > 1) return OpName(call) + "(..)";
  std::string args;
  for (const Expr& arg : call->args) args += (args.empty() ? "" : ", ") + ValueName(arg, depth + 1);
  return StrCat(OpName(call), "(", args, ")");
}

class AnnotationRewriter : public ExprMutator {
 public:
  AnnotationRewriter(const Expr& root, int fallback) : fallback_(fallback) {
    PostOrderVisit(root, [&](const Expr& e) {
      if (const auto* call = AsOnDevice(e)) {
        int device = call->attrs_as<OnDeviceAttrs>()->device_type;
        Record(e, device);
        Record(call->args[0], device);
      } else if (const auto* item = e.as<TupleGetItemNode>()) {
        auto it = device_of_.find(item->tuple);
        if (it != device_of_.end()) Record(e, it->second);
      }
    });
  }

 private:
  using ExprMutator::VisitExpr_;

  void Record(const Expr& expr, int device) {
    auto [it, inserted] = device_of_.emplace(expr, device);
    if (!inserted && it->second != device) {
      throw Error(StrCat(expr->span.defined() ? expr->span.str() + ": " : "", ValueName(expr),
                         " is annotated for device type ", it->second, " and for ", device));
    }
  }

  /// The copy of `value`, which all readers on `to` share.
  Expr Copied(const Expr& value, int from, int to) {
    Expr& copy = copies_[{value.get(), to}];
    if (!copy.defined()) copy = MakeDeviceCopy(value, from, to);
    return copy;
  }

  /// `src` as `dst` (of the original graph) reads it.
  Expr Edge(const Expr& src, const ExprNode* dst) {
    Expr value = Mutate(src);
    auto s = device_of_.find(src), d = device_of_.find(GetRef<Expr>(dst));
    int to = d == device_of_.end() ? fallback_ : d->second;
    if (s != device_of_.end()) return s->second == to ? value : Copied(value, s->second, to);
    bool computed = src.as<CallNode>() || src.as<FunctionNode>();
    if (d == device_of_.end() || to == fallback_ || !computed) return value;
    return Copied(value, fallback_, to);
  }

  Expr VisitExpr_(const CallNode* call) override {
    if (AsOnDevice(GetRef<Expr>(call))) return Mutate(call->args[0]);
    if (OpName(call) == "device_copy") return ExprMutator::VisitExpr_(call);
    Array<Expr> args = call->args.Map([&](const Expr& arg) { return Edge(arg, call); });
    Expr op = Mutate(call->op);
    if (op.same_as(call->op) && args.same_as(call->args)) return GetRef<Expr>(call);
    return Call(op, args, call->attrs, call->type_args, call->span);
  }
  Expr VisitExpr_(const TupleNode* op) override {
    Array<Expr> fields = op->fields.Map([&](const Expr& field) { return Edge(field, op); });
    return fields.same_as(op->fields) ? GetRef<Expr>(op) : Tuple(fields, op->span);
  }
  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr tuple = Edge(op->tuple, op);
    return tuple.same_as(op->tuple) ? GetRef<Expr>(op) : TupleGetItem(tuple, op->index, op->span);
  }
  Expr VisitExpr_(const IfNode* op) override {
    return If(Edge(op->cond, op), Edge(op->true_branch, op), Edge(op->false_branch, op), op->span);
  }
  Expr VisitExpr_(const LetNode* op) override {
    std::vector<std::pair<const LetNode*, Expr>> chain;
    const LetNode* last = op;
    for (const LetNode* let = op; let != nullptr; let = let->body.as<LetNode>()) {
      chain.emplace_back(let, Edge(let->value, let));
      last = let;
    }
    Expr result = Edge(last->body, last);
    for (size_t i = chain.size(); i-- > 0;) {
      result = Let(chain[i].first->var, chain[i].second, result, chain[i].first->span);
    }
    return result;
  }

  int fallback_;
  DeviceMap device_of_;
  std::map<std::pair<const Object*, int>, Expr> copies_;  ///< by rewritten value (which the copy keeps) and destination
};

/// Values that must be on one device, as a union-find forest.
class DeviceClasses {
 public:
  int New() {
    parent_.push_back(static_cast<int>(parent_.size()));
    device_.push_back(0);
    return parent_.back();
  }
  int Find(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  /// Joins the classes unless they are fixed to different devices.
  void Unite(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a == b || (device_[a] != 0 && device_[b] != 0 && device_[a] != device_[b])) return;
    parent_[a] = b;
    if (device_[b] == 0) device_[b] = device_[a];
  }
  void Fix(int i, int device) {
    if (device_[Find(i)] == 0) device_[Find(i)] = device;
  }
  int Device(int i) { return device_[Find(i)]; }

 private:
  std::vector<int> parent_, device_;
};

}  // namespace

Expr MakeDeviceCopy(const Expr& expr, int from, int to) {
  Attrs attrs = MakeAttrs<DeviceCopyAttrs>([&](auto& a) {
    a.src_dev_type = from;
    a.dst_dev_type = to;
  });
  return ops::CallOp("device_copy", {expr}, attrs, expr->span);
}

DeviceMap CollectDeviceInfo(const Expr& func) {
  std::vector<Expr> order;  // without the insides of primitive functions
  int last_copy = 0;
  std::unordered_map<const Object*, int> class_of;
  DeviceClasses classes;
  std::vector<std::pair<Expr, bool>> stack{{func, false}};
  std::unordered_map<const Object*, bool> seen;
  std::vector<Expr> children;
  while (!stack.empty()) {
    auto [expr, leaving] = stack.back();
    stack.pop_back();
    if (leaving) {
      order.push_back(expr);
      if (const auto* copy = AsCopy(expr)) last_copy = copy->dst_dev_type;
      continue;
    }
    const Object* key = expr.as<VarNode>() ? static_cast<const Object*>(expr.as<VarNode>()->vid.get()) : expr.get();
    if (!seen.emplace(key, true).second) continue;
    stack.emplace_back(expr, true);
    children.clear();
    const auto* inner = expr.as<FunctionNode>();
    if (inner == nullptr || !inner->is_primitive()) CollectChildren(expr, &children);
    for (size_t i = children.size(); i-- > 0;) stack.emplace_back(children[i], false);
  }
  if (last_copy == 0) return {};
  for (const auto& [key, unused] : seen) class_of[key] = classes.New();
  auto id = [&](const Expr& e) {
    const auto* var = e.as<VarNode>();
    return class_of.at(var != nullptr ? static_cast<const Object*>(var->vid.get()) : e.get());
  };
  auto is_leaf = [](const Expr& e) { return e.as<VarNode>() != nullptr || e.as<ConstantNode>() != nullptr; };
  for (const Expr& expr : order) {
    if (const auto* copy = AsCopy(expr)) {
      classes.Fix(id(expr), copy->dst_dev_type);
      classes.Fix(id(expr.as<CallNode>()->args[0]), copy->src_dev_type);
    }
  }
  for (const Expr& expr : order) {
    if (AsCopy(expr) != nullptr) continue;
    if (const auto* let = expr.as<LetNode>()) {
      classes.Unite(id(let->var), id(let->value));
      classes.Unite(id(expr), id(let->body));
    }
    bool data_flow = expr.as<CallNode>() || expr.as<TupleNode>() || expr.as<TupleGetItemNode>() || expr.as<IfNode>();
    if (!data_flow) continue;
    children.clear();
    CollectChildren(expr, &children);
    for (size_t i = expr.as<CallNode>() ? 1 : 0; i < children.size(); ++i) {
      if (!is_leaf(children[i]) && !children[i].as<FunctionNode>()) classes.Unite(id(children[i]), id(expr));
    }
  }
  DeviceMap result;
  auto device = [&](const Expr& e) {
    int found = classes.Device(id(e));
    return found == 0 ? last_copy : found;
  };
  // Leaves follow their first consumer.
  for (const Expr& expr : order) {
    if (is_leaf(expr) || expr.as<OpNode>() || expr.as<FunctionNode>()) continue;
    children.clear();
    CollectChildren(expr, &children);
    const auto* copy = AsCopy(expr);
    for (const Expr& child : children) {
      if (is_leaf(child)) classes.Fix(id(child), copy != nullptr ? copy->src_dev_type : device(expr));
    }
  }
  for (const Expr& expr : order) {
    if (!expr.as<OpNode>() && !expr.as<FunctionNode>() && !expr.as<GlobalVarNode>()) result[expr] = device(expr);
  }
  return result;
}

namespace transform {

Pass RewriteAnnotatedOps(int fallback_device_type) {
  return CreateFunctionPass(
      [fallback_device_type](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(AnnotationRewriter(func, fallback_device_type).Mutate(func));
      },
      {"RewriteAnnotatedOps", 1, {"InferType"}, "Turns device annotations into copies"});
}

}  // namespace transform
}  // namespace treadle::relay
