// SPDX-License-Identifier: Apache-2.0
#include "passes/pass_util.h"

#include <unordered_set>

#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {

const CallNode* AsCallOf(const Expr& expr, const char* op_name) {
  const auto* call = expr.as<CallNode>();
  if (call == nullptr) return nullptr;
  const auto* op = call->op.as<OpNode>();
  return op != nullptr && op->name == op_name ? call : nullptr;
}

const ops::ConvAttrs* PlainConvAttrs(const CallNode* call) {
  const std::string& name = OpName(call);
  if (name != "nn.conv1d" && name != "nn.conv2d" && name != "nn.conv3d") return nullptr;
  const auto* attrs = call->attrs.as<ops::ConvAttrs>();
  const bool plain = attrs->ParsedDataLayout().IsPlain() && attrs->ParsedKernelLayout().IsPlain() &&
                     attrs->ParsedOutLayout().IsPlain();
  return plain ? attrs : nullptr;
}

OpPatternKind PatternOf(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  return op == nullptr ? OpPatternKind::kOpaque : GetRef<Op>(op).GetAttr(kOpPattern, OpPatternKind::kOpaque);
}

const std::string& OpName(const CallNode* call) {
  static const std::string kNone;
  const auto* op = call->op.as<OpNode>();
  return op != nullptr ? op->name : kNone;
}

namespace {

/// Element `i` of a compact CPU tensor as a double, or nothing where a double doesn't hold it.
std::optional<double> ExactDouble(const runtime::NDArray& data, int64_t i) {
  const DataType dtype = data.dtype();
  if (!runtime::IsNumber(dtype)) return std::nullopt;
  if (dtype.is_integral() && dtype.bits() == 64) {
    const int64_t value = runtime::ElementAsInt64(data, i);
    const bool negative = dtype.is_int() && value < 0;
    const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    if (magnitude > uint64_t{1} << 53) return std::nullopt;
  }
  return runtime::ElementAsDouble(data, i);
}

}  // namespace

std::optional<double> UniformValue(const Expr& expr) {
  const auto* constant = expr.as<ConstantNode>();
  if (constant == nullptr || !constant->data.IsCompact()) return std::nullopt;
  int64_t size = constant->data.size();
  if (size < 1 || size > (1 << 20)) return std::nullopt;
  std::optional<double> first = ExactDouble(constant->data, 0);
  if (!first) return std::nullopt;
  for (int64_t i = 1; i < size; ++i) {
    if (ExactDouble(constant->data, i) != first) return std::nullopt;
  }
  return first;
}

bool ShapesEqual(const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!StructuralEqual(a[i], b[i])) {
      const int64_t* x = AsConstInt(a[i]);
      const int64_t* y = AsConstInt(b[i]);
      if (x == nullptr || y == nullptr || *x != *y) return false;
    }
  }
  return true;
}

bool TypesEqual(const Type& a, const Type& b) {
  const auto* x = a.as<TensorTypeNode>();
  const auto* y = b.as<TensorTypeNode>();
  if (x != nullptr && y != nullptr) return x->dtype == y->dtype && ShapesEqual(x->shape, y->shape);
  return StructuralEqual(a, b);
}

std::unordered_map<const Object*, int> CountUses(const Expr& expr) {
  std::unordered_map<const Object*, int> uses;
  std::vector<Expr> stack{expr}, children;
  uses[expr.get()] = 1;
  while (!stack.empty()) {
    Expr next = stack.back();
    stack.pop_back();
    children.clear();
    CollectChildren(next, &children);
    for (const Expr& child : children) {
      if (++uses[child.get()] == 1) stack.push_back(child);
    }
  }
  return uses;
}

bool IsPureOp(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  return op != nullptr && !GetRef<Op>(op).GetAttr(kOpIsStateful, false);
}

namespace {

/// Whether evaluating the node itself may have an effect; if not, `parts` is what is evaluated with it.
bool HasOwnEffect(const Expr& expr, std::vector<Expr>* parts) {
  if (expr.as<RefCreateNode>() || expr.as<RefReadNode>() || expr.as<RefWriteNode>()) return true;
  if (expr.as<FunctionNode>()) return false;
  if (const auto* call = expr.as<CallNode>()) {
    if (const auto* func = call->op.as<FunctionNode>()) {
      parts->push_back(func->body);
    } else if (call->op.as<ConstructorNode>() == nullptr && !IsPureOp(call)) {
      return true;
    }
  }
  CollectChildren(expr, parts);
  return false;
}

}  // namespace

bool EffectFinder::MayHaveEffect(const Expr& root) {
  struct Frame {
    Expr expr;
    std::vector<Expr> parts;
    size_t next = 0;
  };
  std::vector<Frame> stack;
  // True: the answer is known; else a frame will find it. A node under way (of a function that calls itself) is taken
  // to be without effect: its own frame will tell.
  auto enter = [&](const Expr& expr) {
    auto [it, inserted] = known_.emplace(expr, false);
    if (!inserted) return it->second;
    Frame frame{expr, {}, 0};
    if (HasOwnEffect(expr, &frame.parts)) return it->second = true;
    if (!frame.parts.empty()) stack.push_back(std::move(frame));
    return false;
  };
  bool found = enter(root);
  while (!stack.empty()) {
    Frame& top = stack.back();
    // A part that was under way when it was met has its answer when its frame is left.
    if (top.next > 0 && known_.at(top.parts[top.next - 1])) {
      known_[top.expr] = true;
      stack.pop_back();
    } else if (top.next == top.parts.size()) {
      stack.pop_back();
    } else {
      const Expr part = top.parts[top.next++];
      enter(part);
    }
  }
  return found || known_.at(root);
}

bool EffectFinder::OthersMayHaveEffect(const Array<Expr>& fields, size_t index) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i != index && MayHaveEffect(fields[i])) return true;
  }
  return false;
}

bool MayHaveEffect(const Expr& expr) { return EffectFinder().MayHaveEffect(expr); }

Expr WithPlaceOf(const Expr& replaced, const CallNode* original) {
  if (!original->span.defined()) return replaced;
  std::unordered_set<const Object*> seen;
  for (const Expr& arg : original->args) seen.insert(arg.get());
  std::vector<Expr> left{replaced};
  while (!left.empty()) {
    const Expr e = left.back();
    left.pop_back();
    if (!seen.insert(e.get()).second) continue;
    if (const auto* tuple = e.as<TupleNode>()) {
      left.insert(left.end(), tuple->fields.begin(), tuple->fields.end());
    } else if (const auto* item = e.as<TupleGetItemNode>()) {
      left.push_back(item->tuple);
    } else if (const auto* call = e.as<CallNode>(); call != nullptr && !call->span.defined()) {
      const_cast<CallNode*>(call)->span = original->span;
      left.insert(left.end(), call->args.begin(), call->args.end());
    }
  }
  return replaced;
}

Expr RebuildLets(const std::vector<LetWithValue>& lets, Expr body) {
  for (size_t i = lets.size(); i-- > 0;) {
    const auto& [let, value] = lets[i];
    const bool same = value.same_as(let->value) && body.same_as(let->body);
    body = same ? GetRef<Expr>(let) : Let(let->var, value, body, let->span);
  }
  return body;
}

bool IsFusedCall(const CallNode* call) {
  const auto* func = call->op.as<FunctionNode>();
  return func != nullptr && func->is_primitive() && func->attrs->dict.size() == 1;
}

Call CallPrimitive(const Array<Var>& params, const Expr& body, const Array<Expr>& args, const Span& span,
                   bool reshape_only) {
  Map<String, ObjectRef> attrs;
  attrs.Set(attr::kPrimitive, IntImm(DataType::Int(32), 1));
  if (reshape_only) attrs.Set(attr::kReshapeOnly, IntImm(DataType::Int(32), 1));
  return Call(Function(params, body, Type(), {}, DictAttrs(attrs), span), args, Attrs(), {}, span);
}

Expr ApplyAll(const std::vector<const CallNode*>& calls, Expr value) {
  for (size_t i = calls.size(); i-- > 0;) {
    value = Call(calls[i]->op, {value}, calls[i]->attrs, calls[i]->type_args, calls[i]->span);
  }
  return value;
}

Function WithBody(const Function& func, const Expr& body) {
  if (body.same_as(func->body)) return func;
  return Function(func->params, body, func->ret_type, func->type_params, func->attrs, func->span);
}

}  // namespace treadle::relay
