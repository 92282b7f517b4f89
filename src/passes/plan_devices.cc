// SPDX-License-Identifier: Apache-2.0
// PlanDevices: every value gets a device. Annotations (on_device, device_copy, attributes of functions) say some of
// them; unification says what follows; the rest is the default. The result is explicit: functions carry the devices of
// their parameters and result, copies stand where a value moves, on_device where a value isn't where its surroundings
// are. Planning a planned module changes nothing.
//
// A value's place is a domain: one device, or for functions a domain per parameter and one for the result.
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/annotation.h"
#include "treadle/relay/device.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

using ops::DeviceCopyAttrs;
using ops::OnDeviceAttrs;
using treadle::transform::CreateModulePass;

constexpr int kCpu = 1;
constexpr const char* kParamDevices = "param_device_types";
constexpr const char* kResultDevice = "result_device_type";

const CallNode* AsOnDevice(const Expr& expr) { return AsCallOf(expr, "on_device"); }

Expr MakeOnDevice(const Expr& expr, int device, bool fixed) {
  Attrs attrs = MakeAttrs<OnDeviceAttrs>([&](auto& a) {
    a.device_type = device;
    a.is_fixed = fixed;
  });
  return ops::CallOp("on_device", {expr}, attrs, expr->span);
}

/// Annotations in the places where only one reading makes sense become fixed: results of functions and values of lets
/// are where they are said to be. on_device(e).i becomes on_device(e.i).
class AnnotationNormalizer : public ExprMutator {
  using ExprMutator::VisitExpr_;

  static Expr Fixed(const Expr& expr) {
    const auto* call = AsOnDevice(expr);
    if (call == nullptr || call->attrs_as<OnDeviceAttrs>()->is_fixed) return expr;
    return MakeOnDevice(call->args[0], call->attrs_as<OnDeviceAttrs>()->device_type, true);
  }

  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->is_primitive()) return GetRef<Expr>(func);
    return WithBody(GetRef<Function>(func), Fixed(Mutate(func->body)));
  }
  Expr VisitExpr_(const LetNode* op) override {
    std::vector<std::pair<const LetNode*, Expr>> chain;
    Expr body = GetRef<Expr>(op);
    for (; body.as<LetNode>() != nullptr; body = body.as<LetNode>()->body) {
      chain.emplace_back(body.as<LetNode>(), Fixed(Mutate(body.as<LetNode>()->value)));
    }
    body = Mutate(body);
    for (size_t i = chain.size(); i-- > 0;) {
      const LetNode* let = chain[i].first;
      bool same = chain[i].second.same_as(let->value) && body.same_as(let->body);
      body = same ? GetRef<Expr>(let) : Let(let->var, chain[i].second, body, let->span);
    }
    return body;
  }
  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr tuple = Mutate(op->tuple);
    if (const auto* call = AsOnDevice(tuple)) {
      const auto* attrs = call->attrs_as<OnDeviceAttrs>();
      return MakeOnDevice(TupleGetItem(call->args[0], op->index, op->span), attrs->device_type, attrs->is_fixed);
    }
    return tuple.same_as(op->tuple) ? GetRef<Expr>(op) : TupleGetItem(tuple, op->index, op->span);
  }
};

/// Domains as a union-find forest.
class Domains {
 public:
  using Id = int;

  Id New(int device = 0) {
    nodes_.push_back({static_cast<Id>(nodes_.size()), device, {}, -1});
    return nodes_.back().parent;
  }
  Id NewFunction(std::vector<Id> params, Id result) {
    Id id = New();
    nodes_[id].params = std::move(params);
    nodes_[id].result = result;
    return id;
  }
  /// A fresh domain of the form that values of `type` have.
  Id ForType(const Type& type) {
    const auto* func = type.as<FuncTypeNode>();
    if (func == nullptr) return New();
    std::vector<Id> params;
    for (const Type& arg : func->arg_types) params.push_back(ForType(arg));
    return NewFunction(std::move(params), ForType(func->ret_type));
  }
  Id Find(Id id) {
    while (nodes_[id].parent != id) id = nodes_[id].parent = nodes_[nodes_[id].parent].parent;
    return id;
  }
  /// False when both are known and differ.
  bool Unify(Id a, Id b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return true;
    bool function_a = nodes_[a].result >= 0, function_b = nodes_[b].result >= 0;
    if (function_a && function_b) {
      if (nodes_[a].params.size() != nodes_[b].params.size()) return false;
      nodes_[a].parent = b;
      for (size_t i = 0; i < nodes_[a].params.size(); ++i) {
        if (!Unify(nodes_[a].params[i], nodes_[b].params[i])) return false;
      }
      return Unify(nodes_[a].result, nodes_[b].result);
    }
    if (function_a || function_b) {
      // A function stored in a tuple or cell is where its result is.
      return Unify(function_a ? nodes_[a].result : a, function_b ? nodes_[b].result : b);
    }
    if (nodes_[a].device != 0 && nodes_[b].device != 0 && nodes_[a].device != nodes_[b].device) return false;
    nodes_[a].parent = b;
    if (nodes_[b].device == 0) nodes_[b].device = nodes_[a].device;
    return true;
  }
  Id Param(Id id, size_t i) { return nodes_[Find(id)].params.at(i); }
  Id Result(Id id) { return nodes_[Find(id)].result; }
  bool IsFunction(Id id) { return nodes_[Find(id)].result >= 0; }
  /// The device of a value, or of a function's result; 0: not known.
  int Device(Id id) {
    while (IsFunction(id)) id = Result(id);
    return nodes_[Find(id)].device;
  }
  void SetDefault(Id id, int device) {
    id = Find(id);
    if (nodes_[id].result >= 0) {
      SetResultDefaultThenParams(id, device);
    } else if (nodes_[id].device == 0) {
      nodes_[id].device = device;
    }
  }
  /// The result goes to `device` unless it is known, the parameters to where the result is.
  void SetResultDefaultThenParams(Id id, int device) {
    if (!IsFunction(id)) return SetDefault(id, device);
    SetDefault(Result(id), device);
    std::vector<Id> params = nodes_[Find(id)].params;
    for (Id param : params) SetDefault(param, Device(id));
  }

 private:
  struct Node {
    Id parent;
    int device;
    std::vector<Id> params;
    Id result;  ///< -1: not a function
  };
  std::vector<Node> nodes_;
};

/// The domains of all expressions of a module.
class DeviceAnalysis {
 public:
  DeviceAnalysis(const IRModule& module, int default_device) : module_(module), default_device_(default_device) {
    for (const auto& [var, func] : module->functions) {
      if (IsPlanned(func)) Constrain(func);
    }
    for (const auto& [var, func] : module->functions) {
      if (IsPlanned(func)) SetDefaults(func);
    }
  }

  static bool IsPlanned(const BaseFunc& func) {
    const auto* node = func.as<FunctionNode>();
    return node != nullptr && !node->is_primitive() && !node->attrs->dict.contains(attr::kCompiler);
  }

  int DeviceOf(const Expr& expr) { return domains_.Device(DomainFor(expr)); }
  int ParamDevice(const CallNode* call, size_t i) { return domains_.Device(domains_.Param(DomainForCallee(call), i)); }
  int ResultDevice(const CallNode* call) { return domains_.Device(DomainForCallee(call)); }

 private:
  Domains::Id DomainFor(const Expr& expr) {
    const Object* key = expr.get();
    if (const auto* var = expr.as<VarNode>()) key = var->vid.get();
    if (const auto* global = expr.as<GlobalVarNode>()) {
      auto func = module_->functions.Get(GetRef<GlobalVar>(global));
      if (func && func->as<FunctionNode>()) return DomainFor(*func);
    }
    auto it = domain_of_.find(key);
    if (it != domain_of_.end()) return it->second;
    Domains::Id id = domains_.ForType(expr->checked_type_);
    domain_of_.emplace(key, id);
    keep_.push_back(expr);
    return id;
  }

  /// Of the function at one place where it is called: operators are on any device, another at each call.
  Domains::Id DomainForCallee(const CallNode* call) {
    const auto* func = call->op.as<FunctionNode>();
    bool any_device = call->op.as<OpNode>() || call->op.as<ConstructorNode>() || (func && func->is_primitive());
    if (!any_device) return DomainFor(call->op);
    auto it = callee_domain_.find(call);
    if (it != callee_domain_.end()) return it->second;
    Domains::Id id = MakeCalleeDomain(call);
    callee_domain_.emplace(call, id);
    return id;
  }

  Domains::Id MakeCalleeDomain(const CallNode* call) {
    const std::string& name = OpName(call);
    if (name == "on_device") {
      const auto* attrs = call->attrs_as<OnDeviceAttrs>();
      Domains::Id arg = domains_.ForType(call->args[0]->checked_type_);
      Domains::Id result = attrs->is_fixed ? arg : domains_.ForType(call->checked_type_);
      domains_.SetDefault(domains_.IsFunction(arg) ? domains_.Result(arg) : arg, attrs->device_type);
      return domains_.NewFunction({arg}, result);
    }
    if (name == "device_copy") {
      const auto* attrs = call->attrs_as<DeviceCopyAttrs>();
      return domains_.NewFunction({domains_.New(attrs->src_dev_type)}, domains_.New(attrs->dst_dev_type));
    }
    // Shapes are computed on the CPU, wherever the tensor is.
    if (name == "shape_of" || name == "vm.shape_of") return domains_.NewFunction({domains_.New()}, domains_.New(kCpu));
    Domains::Id one = domains_.New();
    return domains_.NewFunction(std::vector<Domains::Id>(call->args.size(), one), one);
  }

  void Unify(const Expr& place, Domains::Id a, Domains::Id b) {
    if (domains_.Unify(a, b)) return;
    std::string text = place->span.defined() ? place->span.str() + ": " : "";
    const auto* call = place.as<CallNode>();
    const auto* op = call != nullptr ? call->op.as<OpNode>() : nullptr;
    throw Error(StrCat(text, op != nullptr ? "the call of " + op->name : std::string("a value"),
                       " is needed on device type ", domains_.Device(a), " and on ", domains_.Device(b),
                       "; a device_copy, or on_device that isn't fixed, moves a value"));
  }
  void Same(const Expr& a, const Expr& b) { Unify(a, DomainFor(a), DomainFor(b)); }

  /// Calls `visit` for what is below `root` and not inside of primitive functions, each once, callers before arguments.
  template <typename F>
  static void ForEach(const Expr& root, F visit) {
    std::vector<Expr> stack{root}, children;
    std::unordered_set<const Object*> seen;
    while (!stack.empty()) {
      Expr expr = stack.back();
      stack.pop_back();
      if (!seen.insert(expr.get()).second) continue;
      const auto* func = expr.as<FunctionNode>();
      if (func != nullptr && func->is_primitive()) continue;
      visit(expr);
      children.clear();
      CollectChildren(expr, &children);
      for (size_t i = children.size(); i-- > 0;) stack.push_back(children[i]);
    }
  }

  /// What the expressions below `root` say of each other's devices.
  void Constrain(const Expr& root) {
    ForEach(root, [this](const Expr& expr) { ConstrainOne(expr); });
  }

  void ConstrainOne(const Expr& expr) {
    if (const auto* call = expr.as<CallNode>()) {
      Domains::Id callee = DomainForCallee(call);
      for (size_t i = 0; i < call->args.size(); ++i) {
        Unify(call->args[i], DomainFor(call->args[i]), domains_.Param(callee, i));
      }
      Unify(expr, DomainFor(expr), domains_.Result(callee));
    } else if (const auto* func = expr.as<FunctionNode>()) {
      ConstrainFunction(func);
    } else if (const auto* let = expr.as<LetNode>()) {
      Same(let->value, let->var);
      Same(expr, let->body);
    } else if (const auto* branch = expr.as<IfNode>()) {
      Same(branch->cond, expr);
      Same(branch->true_branch, expr);
      Same(branch->false_branch, expr);
    } else if (const auto* tuple = expr.as<TupleNode>()) {
      for (const Expr& field : tuple->fields) Same(field, expr);
    } else if (const auto* item = expr.as<TupleGetItemNode>()) {
      Same(item->tuple, expr);
    } else if (const auto* create = expr.as<RefCreateNode>()) {
      Same(create->value, expr);
    } else if (const auto* read = expr.as<RefReadNode>()) {
      Same(read->ref, expr);
    } else if (const auto* write = expr.as<RefWriteNode>()) {
      Same(write->ref, write->value);
      Same(write->ref, expr);
    } else if (const auto* match = expr.as<MatchNode>()) {
      Same(match->data, expr);
      for (const Clause& clause : match->clauses) {
        ConstrainPattern(clause->lhs, match->data);
        Same(clause->rhs, expr);
      }
    }
  }

  void ConstrainPattern(const Pattern& root, const Expr& data) {
    std::vector<Pattern> stack{root};
    while (!stack.empty()) {
      Pattern pattern = stack.back();
      stack.pop_back();
      if (const auto* var = pattern.as<PatternVarNode>()) Same(var->var, data);
      if (const auto* constructor = pattern.as<PatternConstructorNode>()) {
        stack.insert(stack.end(), constructor->patterns.begin(), constructor->patterns.end());
      }
      if (const auto* tuple = pattern.as<PatternTupleNode>()) {
        stack.insert(stack.end(), tuple->patterns.begin(), tuple->patterns.end());
      }
    }
  }

  void ConstrainFunction(const FunctionNode* func) {
    Expr expr = GetRef<Expr>(func);
    Domains::Id id = DomainFor(expr);
    for (size_t i = 0; i < func->params.size(); ++i) {
      Unify(func->params[i], DomainFor(func->params[i]), domains_.Param(id, i));
    }
    Unify(func->body, DomainFor(func->body), domains_.Result(id));
    auto known = func->GetAttr<Array<IntImm>>(kParamDevices);
    for (size_t i = 0; known && i < func->params.size() && i < known->size(); ++i) {
      Unify(func->params[i], domains_.Param(id, i), Given(func->params[i], (*known)[i]->value));
    }
    if (auto result = func->GetAttr<IntImm>(kResultDevice)) {
      Unify(func->body, domains_.Result(id), Given(func->body, (*result)->value));
    }
  }
  Domains::Id Given(const Expr& like, int64_t device) {
    Domains::Id id = domains_.ForType(like->checked_type_);
    domains_.SetDefault(id, static_cast<int>(device));
    return id;
  }

  /// Results of functions go to the default device, parameters to that of the result, the values of lets to that of
  /// the whole; callees as functions do.
  void SetDefaults(const Expr& root) {
    ForEach(root, [this](const Expr& expr) {
      if (expr.as<FunctionNode>()) domains_.SetResultDefaultThenParams(DomainFor(expr), default_device_);
      if (const auto* call = expr.as<CallNode>()) {
        domains_.SetResultDefaultThenParams(DomainForCallee(call), default_device_);
      }
      if (const auto* let = expr.as<LetNode>()) {
        domains_.SetDefault(DomainFor(expr), default_device_);
        domains_.SetDefault(DomainFor(let->var), DeviceOf(expr));
      }
      if (!expr.as<OpNode>() && !expr.as<ConstructorNode>() && !expr.as<GlobalVarNode>()) {
        domains_.SetDefault(DomainFor(expr), default_device_);
      }
    });
  }

  IRModule module_;
  int default_device_;
  Domains domains_;
  std::unordered_map<const Object*, Domains::Id> domain_of_;
  std::unordered_map<const Object*, Domains::Id> callee_domain_;
  std::vector<Expr> keep_;  ///< the keys of domain_of_ stay alive
};

/// Makes what the analysis found explicit.
class DeviceWriter : public ExprMutator {
 public:
  explicit DeviceWriter(DeviceAnalysis* devices) : devices_(devices) {}

 private:
  using ExprMutator::VisitExpr_;

  /// Variables are where they are bound, functions say it in their attributes.
  static Expr WithDevice(const Expr& expr, int device) {
    if (expr.as<VarNode>() || expr.as<GlobalVarNode>() || expr.as<FunctionNode>() || expr.as<OpNode>() ||
        expr.as<ConstructorNode>()) {
      return expr;
    }
    if (const auto* call = AsOnDevice(expr)) {
      if (call->attrs_as<OnDeviceAttrs>()->device_type == device) return MakeOnDevice(call->args[0], device, true);
    }
    return MakeOnDevice(expr, device, true);
  }

  /// `child` (whose value is on `actual`) where it is wanted on `expected`, inside something on `around`.
  Expr Child(int around, int expected, int actual, const Expr& child) {
    if (child.as<OpNode>() || child.as<ConstructorNode>()) return child;
    Expr result = Mutate(child);
    if (actual != expected) result = MakeDeviceCopy(WithDevice(result, actual), actual, expected);
    return expected != around ? WithDevice(result, expected) : result;
  }
  Expr Child(const Expr& parent, const Expr& child) {
    int device = devices_->DeviceOf(parent);
    return Child(device, device, devices_->DeviceOf(child), child);
  }

  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->is_primitive()) return GetRef<Expr>(func);
    int result = devices_->DeviceOf(GetRef<Expr>(func));
    Expr body = Child(result, result, devices_->DeviceOf(func->body), func->body);
    Array<IntImm> params;
    for (const Var& param : func->params) {
      params.push_back(IntImm(DataType::Int(32), devices_->DeviceOf(param)));
    }
    Map<String, ObjectRef> attrs = func->attrs->dict;
    attrs.Set(kParamDevices, params);
    attrs.Set(kResultDevice, IntImm(DataType::Int(32), result));
    return Function(func->params, body, func->ret_type, func->type_params, DictAttrs(attrs), func->span);
  }

  Expr VisitExpr_(const CallNode* call) override {
    if (AsOnDevice(GetRef<Expr>(call)) != nullptr) {
      int outside = devices_->DeviceOf(GetRef<Expr>(call));
      return Child(outside, outside, call->attrs_as<OnDeviceAttrs>()->device_type, call->args[0]);
    }
    if (OpName(call) == "device_copy") {
      const auto* attrs = call->attrs_as<DeviceCopyAttrs>();
      return Child(attrs->dst_dev_type, attrs->dst_dev_type, attrs->src_dev_type, call->args[0]);
    }
    int result = devices_->ResultDevice(call);
    Expr op = Child(result, result, result, call->op);
    Array<Expr> args;
    bool same = op.same_as(call->op);
    for (size_t i = 0; i < call->args.size(); ++i) {
      args.push_back(Child(result, devices_->ParamDevice(call, i), devices_->DeviceOf(call->args[i]), call->args[i]));
      same = same && args[i].same_as(call->args[i]);
    }
    return same ? GetRef<Expr>(call) : Call(op, args, call->attrs, call->type_args, call->span);
  }

  Expr VisitExpr_(const LetNode* op) override {
    int around = devices_->DeviceOf(GetRef<Expr>(op));
    std::vector<std::pair<const LetNode*, Expr>> chain;
    Expr body = GetRef<Expr>(op);
    for (; body.as<LetNode>() != nullptr; body = body.as<LetNode>()->body) {
      const auto* let = body.as<LetNode>();
      chain.emplace_back(let, Child(around, devices_->DeviceOf(let->var), devices_->DeviceOf(let->value), let->value));
    }
    body = Child(around, around, devices_->DeviceOf(body), body);
    for (size_t i = chain.size(); i-- > 0;) {
      body = Let(chain[i].first->var, chain[i].second, body, chain[i].first->span);
    }
    return body;
  }
  Expr VisitExpr_(const TupleNode* op) override {
    Array<Expr> fields = op->fields.Map([&](const Expr& field) { return Child(GetRef<Expr>(op), field); });
    return fields.same_as(op->fields) ? GetRef<Expr>(op) : Tuple(fields, op->span);
  }
  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr tuple = Child(GetRef<Expr>(op), op->tuple);
    return tuple.same_as(op->tuple) ? GetRef<Expr>(op) : TupleGetItem(tuple, op->index, op->span);
  }
  Expr VisitExpr_(const IfNode* op) override {
    Expr self = GetRef<Expr>(op);
    return If(Child(self, op->cond), Child(self, op->true_branch), Child(self, op->false_branch), op->span);
  }
  Expr VisitExpr_(const MatchNode* op) override {
    Expr self = GetRef<Expr>(op);
    Array<Clause> clauses =
        op->clauses.Map([&](const Clause& clause) { return Clause(clause->lhs, Child(self, clause->rhs)); });
    return Match(Child(self, op->data), clauses, op->complete, op->span);
  }

  DeviceAnalysis* devices_;
};

IRModule Plan(IRModule module, int default_device) {
  for (const auto& [var, func] : Map<GlobalVar, BaseFunc>(module->functions)) {
    if (!DeviceAnalysis::IsPlanned(func)) continue;
    module.CopyOnWrite()->functions.Set(var, Downcast<BaseFunc>(AnnotationNormalizer().Mutate(func)));
  }
  module = InferTypes(module);
  DeviceAnalysis devices(module, default_device);
  IRModule result = module;
  for (const auto& [var, func] : module->functions) {
    if (!DeviceAnalysis::IsPlanned(func)) continue;
    result.CopyOnWrite()->functions.Set(var, Downcast<BaseFunc>(DeviceWriter(&devices).Mutate(func)));
  }
  return InferTypes(result);
}

}  // namespace

namespace transform {

Pass PlanDevices(int default_device_type) {
  if (default_device_type <= 0) throw Error(StrCat("PlanDevices: ", default_device_type, " isn't a device type"));
  return CreateModulePass(
      [default_device_type](IRModule module, const PassContext&) {
        return Plan(std::move(module), default_device_type);
      },
      {"PlanDevices", 0, {"InferType"}, "Gives each value a device, and makes the moves between devices explicit"});
}

}  // namespace transform
}  // namespace treadle::relay
