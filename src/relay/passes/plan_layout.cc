// SPDX-License-Identifier: Apache-2.0
// Chooses the layout in which each operator runs. Operators that profit (convolutions) ask for blocked activations;
// what lies between them (element-wise, pooling, concatenation) follows the layout its inputs are in; the others get
// the plain layout. A tensor is transformed at most once per layout, however many consumers it has.
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "relay/passes/pass_util.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/transform.h"
#include "treadle/ops/make.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/layout.h"
#include "treadle/relay/transform.h"
#include "treadle/runtime/reflection.h"

namespace treadle::relay {

std::string BlockedLayout(int64_t channels) {
  for (int block : {16, 8}) {
    if (channels > 0 && channels % block == 0) return "NCHW" + std::to_string(block) + "c";
  }
  return "";
}

std::string FilledLayout(int64_t channels) {
  std::string whole = BlockedLayout(channels);
  if (!whole.empty()) return whole;
  constexpr int64_t kBlock = 16, kHalf = 8;
  const int64_t filled = (channels + kBlock - 1) / kBlock * kBlock, half = (channels + kHalf - 1) / kHalf * kHalf;
  if (filled * 7 <= channels * 8) return "NCHW16c";
  return half * 2 <= channels * 3 ? BlockedLayout(half) : "";
}

int64_t ChannelsIn(const std::string& layout, int64_t channels) {
  if (layout.empty()) return channels;
  const int64_t block = BlockOf(layout);
  return (channels + block - 1) / block * block;
}

int64_t BlockOf(const std::string& layout) {
  size_t digit = layout.find_first_of("0123456789");
  TREADLE_ICHECK(digit != std::string::npos) << "layout " << layout << " isn't blocked";
  return std::stoll(layout.substr(digit));
}

Expr LayoutTransform(const Expr& data, const std::string& from, const std::string& to) {
  static const Op op = Op::Get("layout_transform");
  // The attributes' class belongs to the operators; its fields are reached by name.
  ObjectPtr<Object> attrs(op->attrs_type->create());
  for (const FieldInfo& field : op->attrs_type->fields) {
    if (field.name == "src_layout") field.GetMutable<std::string>(attrs.get()) = from;
    if (field.name == "dst_layout") field.GetMutable<std::string>(attrs.get()) = to;
  }
  return Call(op, {data}, Attrs(attrs), {}, data->span);
}

Expr ChangeLayout(const Expr& data, const TensorTypeNode* type, const std::string& from, const std::string& to) {
  const std::string plain = "NCHW", source = from.empty() ? plain : from, target = to.empty() ? plain : to;
  const int64_t* channels = type != nullptr && type->shape.size() == 4 ? AsConstInt(type->shape[1]) : nullptr;
  if (channels == nullptr || ChannelsIn(from, *channels) == ChannelsIn(to, *channels)) {
    return LayoutTransform(data, source, target);
  }
  const int64_t have = ChannelsIn(from, *channels), want = ChannelsIn(to, *channels);
  Expr result = from.empty() ? data : LayoutTransform(data, source, plain);
  if (want > have) {
    result = ops::MakePad(result, {{0, 0}, {0, want - have}, {0, 0}, {0, 0}}, ops::ScalarConstant(type->dtype, 0.0));
  } else if (IsStatic(type)) {
    std::vector<int64_t> end;
    for (const PrimExpr& dim : type->shape) end.push_back(*AsConstInt(dim));
    end[1] = want;
    result = ops::MakeStridedSlice(result, {0, 0, 0, 0}, end);
  } else {
    result = ops::MakeStridedSlice(result, {0}, {want}, {1}, std::vector<int64_t>{1});
  }
  return to.empty() ? result : LayoutTransform(result, plain, target);
}

namespace {

/// Expressions that something reads which runs blocked, as far as that can be told before layouts are chosen.
class BlockedReaders {
 public:
  explicit BlockedReaders(const Expr& body) {
    std::vector<Expr> order;
    PostOrderVisit(body, [&order](const Expr& e) { order.push_back(e); });
    // Readers first.
    for (size_t i = order.size(); i-- > 0;) {
      if (const auto* call = order[i].as<CallNode>()) {
        Visit(call);
      } else if (const auto* part = order[i].as<TupleGetItemNode>()) {
        if (Has(part)) found_.insert(part->tuple.get());
      }
    }
  }
  bool Has(const Object* e) const { return found_.count(e) != 0; }

 private:
  void Visit(const CallNode* call) {
    const auto* callee = call->op.as<OpNode>();
    if (callee == nullptr || Downcast<Op>(call->op).GetAttr(kLayoutRule) == nullptr) {
      if (callee != nullptr && callee->name == "split" && Has(call)) found_.insert(call->args[0].get());
      return;
    }
    if (callee->name == "nn.conv2d" || callee->name == "nn.conv2d_transpose") {
      const auto* type = call->type_as<TensorTypeNode>();
      const int64_t* channels = type == nullptr || type->shape.size() != 4 ? nullptr : AsConstInt(type->shape[1]);
      if (channels != nullptr && !FilledLayout(*channels).empty()) found_.insert(call->args[0].get());
      return;
    }
    // Beside another image, one that is blocked is likely.
    std::vector<Expr> images;
    for (const Expr& arg : call->args) {
      const auto* tuple = arg.as<TupleNode>();
      for (const Expr& e : tuple != nullptr ? tuple->fields : Array<Expr>{arg}) {
        const auto* type = TensorTypeOf(e);
        const bool image = type != nullptr && type->shape.size() == 4 && e.as<ConstantNode>() == nullptr;
        if (image && !tir::is_const_int(type->shape[2], 1)) images.push_back(e);
      }
    }
    if (images.size() < 2 && !Has(call)) return;
    for (const Expr& image : images) found_.insert(image.get());
  }

  std::unordered_set<const Object*> found_;
};

/// An expression in the layouts in which it exists so far; "" is the plain one.
using Forms = std::map<std::string, Expr>;

class LayoutPlanner : public ExprMutator {
 public:
  Function Plan(const Function& func) {
    // Nested functions are seen with the one around them.
    if (!readers_) readers_.emplace(func->body);
    Expr body = Plain(func->body);
    if (body.same_as(func->body)) return func;
    Function result = func;
    result.CopyOnWrite()->body = body;
    return result;
  }

  /// `e` (of the old graph) in `layout`.
  Expr InLayout(const Expr& e, const std::string& layout) {
    Expr plain_or_any = Mutate(e);
    Forms& forms = forms_[e];
    if (forms.empty()) forms[""] = plain_or_any;
    auto it = forms.find(layout);
    if (it != forms.end()) return it->second;
    // From the plain form where there is one, else from a blocked one.
    const auto& [from, form] = *(forms.count("") ? forms.find("") : std::prev(forms.end()));
    return forms[layout] = ChangeLayout(form, e->type_as<TensorTypeNode>(), from, layout);
  }
  Expr Plain(const Expr& e) { return InLayout(e, ""); }
  bool ReadBlocked(const CallNode* call) const { return readers_->Has(call); }
  std::string LayoutOf(const Expr& e) {
    Mutate(e);
    const Forms& forms = forms_[e];
    return forms.empty() ? "" : forms.rbegin()->first;
  }

  Expr VisitExpr_(const CallNode* call) override;
  Expr VisitExpr_(const TupleNode* op) override {
    Array<Expr> fields = op->fields.Map([this](const Expr& field) { return Plain(field); });
    if (fields.same_as(op->fields)) return GetRef<Expr>(op);
    return Tuple(fields, op->span);
  }
  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr part = BlockedPart(op);
    if (part.defined()) return part;
    Expr tuple = Plain(op->tuple);
    if (tuple.same_as(op->tuple)) return GetRef<Expr>(op);
    return TupleGetItem(tuple, op->index, op->span);
  }
  /// A part of a tensor that is split between blocks of its channels, where that exists blocked; else null.
  Expr BlockedPart(const TupleGetItemNode* op);
  Expr VisitExpr_(const LetNode* op) override {
    Expr value = Plain(op->value), body = Plain(op->body);
    if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<Expr>(op);
    return Let(op->var, value, body, op->span);
  }
  Expr VisitExpr_(const IfNode* op) override {
    Expr cond = Plain(op->cond), t = Plain(op->true_branch), f = Plain(op->false_branch);
    if (cond.same_as(op->cond) && t.same_as(op->true_branch) && f.same_as(op->false_branch)) return GetRef<Expr>(op);
    return If(cond, t, f, op->span);
  }
  Expr VisitExpr_(const FunctionNode* op) override { return Plan(GetRef<Function>(op)); }

 private:
  std::unordered_map<Expr, Forms, ObjectPtrHash, ObjectPtrEqual> forms_;
  std::optional<BlockedReaders> readers_;
};

class CallArgs : public LayoutArgs {
 public:
  CallArgs(LayoutPlanner* planner, const CallNode* call) : planner_(planner), call_(call) {
    for (const Expr& arg : call->args) {
      if (const auto* tuple = arg.as<TupleNode>()) {
        for (const Expr& field : tuple->fields) args_.push_back(field);
      } else {
        args_.push_back(arg);
      }
    }
  }
  size_t size() const override { return args_.size(); }
  std::string Layout(size_t i) const override { return planner_->LayoutOf(args_.at(i)); }
  Expr Get(size_t i, const std::string& layout) override { return planner_->InLayout(args_.at(i), layout); }
  bool ReadBlocked() const override { return planner_->ReadBlocked(call_); }
  const TensorTypeNode* Type(size_t i) const override { return args_.at(i)->type_as<TensorTypeNode>(); }

 private:
  LayoutPlanner* planner_;
  const CallNode* call_;
  std::vector<Expr> args_;
};

Expr LayoutPlanner::BlockedPart(const TupleGetItemNode* op) {
  const CallNode* split = AsCallOf(op->tuple, "split");
  if (split == nullptr) return Expr();
  const auto* type = TensorTypeOf(split->args[0]);
  const auto* attrs = split->attrs_as<ops::SplitAttrs>();
  const std::string layout = LayoutOf(split->args[0]);
  if (layout.empty() || type == nullptr || type->shape.size() != 4 || PositiveAxis(attrs->axis, 4) != 1) return Expr();
  // Blocks are whole up to the last part, which may end in one that is filled up.
  const int64_t block = BlockOf(layout);
  int64_t begin = 0, end = 0;
  const auto* parts = op->tuple->type_as<TupleTypeNode>();
  for (int i = 0; i <= op->index; ++i) {
    const auto* part = parts->fields[static_cast<size_t>(i)].as<TensorTypeNode>();
    const int64_t* size = part == nullptr ? nullptr : AsConstInt(part->shape[1]);
    if (size == nullptr || *size == 0 || end % block != 0) return Expr();
    begin = end;
    end += *size;
  }
  const bool last = static_cast<size_t>(op->index) + 1 == parts->fields.size();
  if (end % block != 0 && !last) return Expr();
  Expr result = ops::MakeStridedSlice(InLayout(split->args[0], layout), {begin / block}, {(end + block - 1) / block},
                                      {1}, std::vector<int64_t>{1});
  forms_[GetRef<Expr>(op)][layout] = result;
  return result;
}

Expr LayoutPlanner::VisitExpr_(const CallNode* call) {
  Expr self = GetRef<Expr>(call);
  if (call->op.as<OpNode>() != nullptr) {
    const FLayoutRule* rule = Downcast<Op>(call->op).GetAttr(kLayoutRule);
    const auto* type = call->type_as<TensorTypeNode>();
    if (rule != nullptr && type != nullptr) {
      CallArgs args(this, call);
      if (auto result = (*rule)(call, args)) {
        forms_[self][result->layout] = result->expr;
        return result->expr;
      }
    }
  }
  Array<Expr> args = call->args.Map([this](const Expr& arg) { return Plain(arg); });
  Expr op = call->op.as<OpNode>() ? call->op : Plain(call->op);
  if (args.same_as(call->args) && op.same_as(call->op)) return self;
  return Call(op, args, call->attrs, call->type_args, call->span);
}

}  // namespace

namespace transform {

Pass PlanLayout() {
  return CreateFunctionPass(
      [](Function func, const IRModule&, const PassContext&) { return LayoutPlanner().Plan(func); },
      {"PlanLayout", 3, {"InferType"}, "run convolutions and what follows them on channel-blocked activations"});
}

}  // namespace transform
}  // namespace treadle::relay
