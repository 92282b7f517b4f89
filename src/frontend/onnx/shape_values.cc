// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/shape_values.h"

#include <functional>
#include <unordered_map>

#include "frontend/onnx/expr_builder.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/transform.h"

namespace treadle::onnx {
namespace {

using relay::CallNode;
using relay::Expr;
using Elements = std::vector<PrimExpr>;

constexpr int64_t kMaxElements = 64;
constexpr int kMaxNodes = 400;

PrimExpr Null() { return PrimExpr(ObjectPtr<Object>()); }

/// Elements of the expression and of what it is made of; each node once.
class Evaluator {
 public:
  std::optional<Elements> Run(const Expr& e) {
    const auto* type = e->checked_type_.as<TensorTypeNode>();
    if (type == nullptr || !type->dtype.is_integral() || type->shape.size() > 1 || !IsStatic(type)) return std::nullopt;
    int64_t size = type->shape.empty() ? 1 : *AsConstInt(type->shape[0]);
    if (size > kMaxElements) return std::nullopt;
    auto known = memo_.find(e);
    if (known != memo_.end()) return known->second;
    Elements elements(static_cast<size_t>(size), Null());
    if (++nodes_ <= kMaxNodes) {
      WithEnoughStack([&] { Compute(e, &elements); });
    }
    if (elements.size() != static_cast<size_t>(size)) elements.assign(static_cast<size_t>(size), Null());
    memo_[e] = elements;
    return elements;
  }

 private:
  void Compute(const Expr& e, Elements* out) {
    if (const auto* constant = e.as<relay::ConstantNode>()) {
      std::vector<int64_t> values = IntsOf(constant->data);
      for (size_t i = 0; i < values.size(); ++i) (*out)[i] = PrimExpr(values[i]);
      return;
    }
    const auto* call = e.as<CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    if (op == nullptr) return;
    const std::string& name = op->name;
    if (name == "shape_of") return ShapeOf(call, out);
    if (name == "ndarray_size") return SizeOf(call, out);
    if (name == "cast") {
      CopyOf(call->args[0], out);
      if (!e->type_as<TensorTypeNode>()->dtype.is_bool()) return;
      for (PrimExpr& element : *out) {
        const int64_t* value = element.defined() ? AsConstInt(element) : nullptr;
        element = value != nullptr ? PrimExpr(int64_t{*value != 0 ? 1 : 0}) : Null();
      }
      return;
    }
    if (name == "reshape" || name == "squeeze" || name == "expand_dims" || name == "dyn.forget_shape") {
      return CopyOf(call->args[0], out);
    }
    if (name == "concatenate") return Concatenate(call, out);
    if (name == "strided_slice") return Slice(call, out);
    if (name == "take") return Take(call, out);
    if (name == "where") return Where(call, out);
    if (name == "logical_not") return Unary(call, [](const PrimExpr& a) { return PrimExpr(int64_t{1}) - a; }, out);
    if (name == "negative") return Unary(call, [](const PrimExpr& a) { return PrimExpr(int64_t{0}) - a; }, out);
    if (call->args.size() == 2) Binary(name, call, out);
  }

  void ShapeOf(const CallNode* call, Elements* out) {
    const auto* type = call->args[0]->type_as<TensorTypeNode>();
    if (type == nullptr) return;
    out->clear();
    for (const PrimExpr& dim : type->shape) out->push_back(dim);
  }

  void SizeOf(const CallNode* call, Elements* out) {
    const auto* type = call->args[0]->type_as<TensorTypeNode>();
    if (type == nullptr) return;
    PrimExpr size(int64_t{1});
    for (const PrimExpr& dim : type->shape) size = analyzer_.Simplify(size * dim);
    (*out)[0] = size;
  }

  void CopyOf(const Expr& from, Elements* out) {
    if (auto elements = Run(from)) *out = *elements;
  }

  void Concatenate(const CallNode* call, Elements* out) {
    const auto* tuple = call->args[0].as<relay::TupleNode>();
    if (tuple == nullptr) return;
    Elements all;
    for (const Expr& field : tuple->fields) {
      auto part = Run(field);
      if (!part) return;
      all.insert(all.end(), part->begin(), part->end());
    }
    *out = all;
  }

  void Slice(const CallNode* call, Elements* out) {
    const auto* attrs = call->attrs_as<ops::StridedSliceAttrs>();
    auto all = Run(call->args[0]);
    if (!all || attrs->begin.size() != 1 || attrs->end.size() != 1 || attrs->slice_mode != "end") return;
    auto size = static_cast<int64_t>(all->size());
    int64_t stride = attrs->strides.empty() ? 1 : attrs->strides[0];
    int64_t begin = attrs->begin[0];
    if (begin < 0) begin += size;
    for (size_t i = 0; i < out->size(); ++i) {
      int64_t at = begin + static_cast<int64_t>(i) * stride;
      if (at < 0 || at >= size) return;
      (*out)[i] = (*all)[static_cast<size_t>(at)];
    }
  }

  void Take(const CallNode* call, Elements* out) {
    auto all = Run(call->args[0]);
    const auto* index = call->args[1].as<relay::ConstantNode>();
    if (!all || index == nullptr || !index->data.dtype().is_integral()) return;
    std::vector<int64_t> at = IntsOf(index->data);
    for (size_t i = 0; i < out->size() && i < at.size(); ++i) {
      int64_t k = at[i] < 0 ? at[i] + static_cast<int64_t>(all->size()) : at[i];
      if (k >= 0 && k < static_cast<int64_t>(all->size())) (*out)[i] = (*all)[static_cast<size_t>(k)];
    }
  }

  void Where(const CallNode* call, Elements* out) {
    auto condition = Run(call->args[0]), yes = Run(call->args[1]), no = Run(call->args[2]);
    if (!condition || !yes || !no) return;
    for (size_t i = 0; i < out->size(); ++i) {
      const PrimExpr test = At(*condition, i);
      if (!test.defined() || AsConstInt(test) == nullptr) continue;
      (*out)[i] = At(*AsConstInt(test) != 0 ? *yes : *no, i);
    }
  }

  static PrimExpr At(const Elements& elements, size_t i) {
    if (elements.size() == 1) return elements[0];
    return i < elements.size() ? elements[i] : Null();
  }

  void Unary(const CallNode* call, const std::function<PrimExpr(const PrimExpr&)>& f, Elements* out) {
    auto a = Run(call->args[0]);
    for (size_t i = 0; a && i < out->size(); ++i) {
      if (At(*a, i).defined()) (*out)[i] = analyzer_.Simplify(f(At(*a, i)));
    }
  }

  void Binary(const std::string& name, const CallNode* call, Elements* out) {
    auto a = Run(call->args[0]), b = Run(call->args[1]);
    if (!a || !b) return;
    for (size_t i = 0; i < out->size(); ++i) {
      const PrimExpr x = At(*a, i), y = At(*b, i);
      if (x.defined() && y.defined()) (*out)[i] = Apply(name, x, y);
    }
  }

  PrimExpr Apply(const std::string& name, const PrimExpr& x, const PrimExpr& y) {
    auto difference = analyzer_.ConstDifference(x, y);
    auto truth = [](bool value) { return PrimExpr(int64_t{value ? 1 : 0}); };
    if (name == "add") return analyzer_.Simplify(x + y);
    if (name == "subtract") return analyzer_.Simplify(x - y);
    if (name == "multiply") return analyzer_.Simplify(x * y);
    if (name == "logical_and" || name == "logical_or") {
      const int64_t* u = AsConstInt(x);
      const int64_t* v = AsConstInt(y);
      if (u != nullptr && v != nullptr) return truth(name == "logical_and" ? *u != 0 && *v != 0 : *u != 0 || *v != 0);
      return Null();
    }
    if (name == "divide" || name == "floor_divide") {
      const int64_t* u = AsConstInt(x);
      const int64_t* v = AsConstInt(y);
      if (v == nullptr || *v <= 0) return Null();
      if (u != nullptr) return *u >= 0 || name == "divide" ? PrimExpr(*u / *v) : Null();
      return tir::floordiv(x, y);
    }
    if (!difference) return Null();
    if (name == "equal") return truth(*difference == 0);
    if (name == "not_equal") return truth(*difference != 0);
    if (name == "less") return truth(*difference < 0);
    if (name == "less_equal") return truth(*difference <= 0);
    if (name == "greater") return truth(*difference > 0);
    if (name == "greater_equal") return truth(*difference >= 0);
    if (name == "maximum") return *difference >= 0 ? x : y;
    if (name == "minimum") return *difference >= 0 ? y : x;
    return Null();
  }

  arith::Analyzer analyzer_;
  std::unordered_map<Expr, Elements, ObjectPtrHash, ObjectPtrEqual> memo_;
  int nodes_ = 0;
};

}  // namespace

std::optional<std::vector<PrimExpr>> ShapeElements(const relay::Expr& expr) { return Evaluator().Run(expr); }

std::optional<std::vector<int64_t>> KnownElements(const relay::Expr& expr) {
  auto elements = ShapeElements(expr);
  if (!elements) return std::nullopt;
  std::vector<int64_t> values;
  for (const PrimExpr& element : *elements) {
    if (!element.defined() || AsConstInt(element) == nullptr) return std::nullopt;
    values.push_back(*AsConstInt(element));
  }
  return values;
}

}  // namespace treadle::onnx
