// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/specialize.h"

#include <algorithm>
#include <utility>

#include "tir/buffer_replacer.h"
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"

namespace treadle::tir {
namespace {

/// Puts values for variables, and folds what becomes constant. Leaves buffers as they are.
class ValueFolder : public FoldingMutator {
 public:
  explicit ValueFolder(const Map<Var, PrimExpr>& values) : values_(values) {}

 protected:
  using FoldingMutator::VisitExpr_;
  PrimExpr VisitExpr_(const VarNode* op) override {
    return values_.Get(GetRef<Var>(op)).value_or(GetRef<PrimExpr>(op));
  }

 private:
  const Map<Var, PrimExpr>& values_;
};

class Specializer {
 public:
  explicit Specializer(PrimFunc func) : func_(std::move(func)) {}

  PrimFunc Run(const Map<Var, ObjectRef>& values) {
    for (const auto& [param, value] : values) {
      const bool known = std::any_of(func_->params.begin(), func_->params.end(),
                                     [&param = param](const Var& v) { return v.same_as(param); });
      if (!known) throw Error(StrCat("specialize: ", param->name_hint, " is no parameter of the function"));
      const std::optional<Buffer> tensor = func_->buffer_map.Get(param);
      if (const auto* buffer = value.as<BufferNode>()) {
        if (!tensor) throw Error(StrCat("specialize: parameter ", param->name_hint, " is a scalar, not a tensor"));
        Match(*tensor, GetRef<Buffer>(buffer));
      } else if (tensor) {
        throw Error(StrCat("specialize: parameter ", param->name_hint, " is a tensor: expected a buffer for it"));
      } else if (value.as<PrimExprNode>() != nullptr) {
        Bind(param, Downcast<PrimExpr>(value), param->name_hint);
      } else {
        throw Error(StrCat("specialize: parameter ", param->name_hint, " can't be ", value->type_key()));
      }
    }
    return Result();
  }

 private:
  void Match(const Buffer& from, const Buffer& to) {
    if (from->dtype != to->dtype) {
      throw DTypeError(StrCat("specialize: tensor ", from->name, " is of ", from->dtype, ", not ", to->dtype));
    }
    MatchAll(from->shape, to->shape, StrCat("shape of tensor ", from->name));
    if (!from->strides.empty() || !to->strides.empty()) {
      MatchAll(from->strides, to->strides, StrCat("strides of tensor ", from->name));
    }
    if (from->elem_offset.defined() && to->elem_offset.defined()) {
      MatchOne(from->elem_offset, to->elem_offset, StrCat("offset of tensor ", from->name));
    }
  }
  void MatchAll(const Array<PrimExpr>& from, const Array<PrimExpr>& to, const std::string& what) {
    if (from.size() != to.size()) {
      throw ShapeError(StrCat("specialize: the ", what, " has ", from.size(), " numbers, not ", to.size()));
    }
    for (size_t i = 0; i < from.size(); ++i) MatchOne(from[i], to[i], StrCat(what, ", dimension ", i));
  }
  void MatchOne(const PrimExpr& from, const PrimExpr& to, const std::string& what) {
    if (const auto* var = from.as<VarNode>()) return Bind(GetRef<Var>(var), to, what);
    const PrimExpr now = Substitute(from, values_);
    if (!arith::Analyzer().CanProveEqual(now, to)) {
      throw ShapeError(StrCat("specialize: ", what, " is ", AsText(now, false), ", not ", AsText(to, false)));
    }
  }
  void Bind(const Var& var, const PrimExpr& value, const std::string& what) {
    if (value.dtype() != var.dtype()) {
      throw DTypeError(StrCat("specialize: ", what, " is of ", var.dtype(), ", not ", value.dtype()));
    }
    const std::optional<PrimExpr> known = values_.Get(var);
    if (known && !arith::Analyzer().CanProveEqual(*known, value)) {
      throw ShapeError(
          StrCat("specialize: ", what, " is ", AsText(*known, false), " already, not ", AsText(value, false)));
    }
    values_.Set(var, value);
  }

  PrimFunc Result() {
    ValueFolder folder(values_);
    auto here = [&folder](const PrimExpr& e) { return folder.Rewrite(e); };
    Map<Buffer, Buffer> buffers;
    PrimFuncNode* node = func_.CopyOnWrite();
    for (const auto& [param, buffer] : Map<Var, Buffer>(node->buffer_map)) {
      Buffer changed = buffer;
      BufferNode* fields = changed.CopyOnWrite();
      fields->shape = buffer->shape.Map(here);
      fields->strides = buffer->strides.Map(here);
      if (buffer->elem_offset.defined()) fields->elem_offset = here(buffer->elem_offset);
      buffers.Set(buffer, changed);
      node->buffer_map.Set(param, changed);
    }
    Array<Var> params;
    for (const Var& param : node->params) {
      if (!values_.contains(param)) params.push_back(param);
    }
    node->params = params;
    node->body = Substitute(folder.Rewrite(ReplaceBuffers(node->body, buffers)), values_);  // buffers inside, too
    return func_;
  }

  PrimFunc func_;
  Map<Var, PrimExpr> values_;
};

}  // namespace

PrimFunc Specialize(PrimFunc func, const Map<Var, ObjectRef>& values) {
  return Specializer(std::move(func)).Run(values);
}

}  // namespace treadle::tir
