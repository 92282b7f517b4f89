// SPDX-License-Identifier: Apache-2.0
// Joining and cutting tensors: concatenate, stack, split, tile, repeat.
#include <algorithm>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout_rules.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ConcatenateAttrs);
TREADLE_DEFINE_NODE(StackAttrs);
TREADLE_DEFINE_NODE(SplitAttrs);
TREADLE_DEFINE_NODE(TileAttrs);
TREADLE_DEFINE_NODE(RepeatAttrs);

std::optional<int64_t> SplitSections(const SplitAttrs& attrs) {
  const auto* sections = attrs.indices_or_sections.as<IntImmNode>();
  return sections != nullptr ? std::optional<int64_t>(sections->value) : std::nullopt;
}

std::vector<int64_t> SplitIndices(const SplitAttrs& attrs) {
  std::vector<int64_t> indices;
  if (attrs.indices_or_sections.as<ArrayNode>() == nullptr) {
    throw ShapeError("indices_or_sections must be an integer or a list of integers");
  }
  for (const ObjectRef& item : Array<ObjectRef>(attrs.indices_or_sections.data())) {
    const auto* index = item.as<IntImmNode>();
    if (index == nullptr) throw ShapeError("indices_or_sections must be a list of integer constants");
    indices.push_back(index->value);
  }
  return indices;
}

namespace {

void CheckJoinable(const InferContext& context, const TensorTypeNode* first, const TensorTypeNode* other, int skip) {
  CheckSameDType(first, other);
  bool match = first->shape.size() == other->shape.size();
  for (size_t i = 0; match && i < first->shape.size(); ++i) {
    if (static_cast<int>(i) == skip || SameDim(first->shape[i], other->shape[i])) continue;
    bool constant = AsConstInt(first->shape[i]) != nullptr && AsConstInt(other->shape[i]) != nullptr;
    match = !constant && context.Equal(first->shape[i], other->shape[i]);
  }
  if (!match) {
    throw ShapeError(StrCat("can't join ", TypeText(first), " and ", TypeText(other),
                            skip < 0 ? std::string() : StrCat(" along dimension ", skip)));
  }
}

Type ConcatenateInfer(const InferContext& context) {
  std::vector<const TensorTypeNode*> fields = context.Tuple(0, "data");
  if (fields.empty()) throw ShapeError("concatenate needs at least one tensor");
  int axis = NormalizeAxis(context.attrs<ConcatenateAttrs>()->axis, fields[0]->shape.size());
  Array<PrimExpr> out = fields[0]->shape;
  auto at = static_cast<size_t>(axis);
  for (size_t i = 1; i < fields.size(); ++i) {
    CheckJoinable(context, fields[0], fields[i], axis);
    out.Set(at, DimAdd(out[at], fields[i]->shape[at]));
    // A dimension that only another operand knows.
    for (size_t d = 0; d < out.size(); ++d) {
      if (d != at && IsAnyDim(out[d])) out.Set(d, fields[i]->shape[d]);
    }
  }
  return TensorType(out, fields[0]->dtype);
}

Type StackInfer(const InferContext& context) {
  std::vector<const TensorTypeNode*> fields = context.Tuple(0, "data");
  if (fields.empty()) throw ShapeError("stack needs at least one tensor");
  int axis = NormalizeAxis(context.attrs<StackAttrs>()->axis, fields[0]->shape.size() + 1);
  for (size_t i = 1; i < fields.size(); ++i) CheckJoinable(context, fields[0], fields[i], -1);
  Array<PrimExpr> out = fields[0]->shape;
  out.insert(static_cast<size_t>(axis), Dim(static_cast<int64_t>(fields.size())));
  return TensorType(out, fields[0]->dtype);
}

Type SplitInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<SplitAttrs>();
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, data->shape.size()));
  PrimExpr whole = data->shape[axis];
  Array<Type> fields;
  auto add = [&](const PrimExpr& size) {
    Array<PrimExpr> shape = data->shape;
    shape.Set(axis, size);
    fields.push_back(TensorType(shape, data->dtype));
  };
  if (std::optional<int64_t> sections = SplitSections(*attrs)) {
    if (*sections < 1 || *sections > (int64_t{1} << 20)) throw ShapeError(StrCat("can't split into ", *sections));
    if (AsConstInt(whole) != nullptr && DimValue(whole) % *sections != 0) {
      throw ShapeError(
          StrCat("dimension ", axis, " of ", TypeText(data), " can't be split into ", *sections, " equal parts"));
    }
    RequireMultiple(context, whole, *sections);
    for (int64_t i = 0; i < *sections; ++i) add(DimFloorDiv(whole, Dim(*sections)));
    return TupleType(fields);
  }
  int64_t begin = 0;
  for (int64_t index : SplitIndices(*attrs)) {
    if (index < begin || (AsConstInt(whole) != nullptr && index > DimValue(whole))) {
      throw ShapeError(StrCat("cut points of split must ascend within ", TypeText(data), "; ", index, " doesn't"));
    }
    add(Dim(index - begin));
    begin = index;
  }
  const PrimExpr rest = DimSub(whole, Dim(begin));
  if (begin > 0) RequireAtLeast(context, whole, Dim(begin));
  add(rest);
  return TupleType(fields);
}

Type TileInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const std::vector<int64_t>& reps = context.attrs<TileAttrs>()->reps;
  size_t rank = std::max(reps.size(), data->shape.size());
  Array<PrimExpr> out;
  for (size_t i = 0; i < rank; ++i) {
    bool in_data = i + data->shape.size() >= rank;
    bool in_reps = i + reps.size() >= rank;
    int64_t rep = in_reps ? reps[i + reps.size() - rank] : 1;
    if (rep < 0) throw ShapeError(StrCat("reps must not be negative, has ", rep));
    PrimExpr dim = in_data ? data->shape[i + data->shape.size() - rank] : Dim(1);
    out.push_back(DimMul(dim, Dim(rep)));
  }
  return TensorType(out, data->dtype);
}

Type RepeatInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<RepeatAttrs>();
  if (attrs->repeats < 0) throw ShapeError(StrCat("repeats must not be negative, is ", attrs->repeats));
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, data->shape.size()));
  Array<PrimExpr> out = data->shape;
  out.Set(axis, DimMul(out[axis], Dim(attrs->repeats)));
  return TensorType(out, data->dtype);
}

Array<Tensor> ConcatenateCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<ConcatenateAttrs>()->axis, inputs[0].ndim()));
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        // Where each part begins; the last one takes what is left.
        std::vector<PrimExpr> begins;
        PrimExpr begin = Index(0);
        for (const Tensor& part : inputs) {
          begins.push_back(begin);
          begin = DimAdd(begin, part->shape[axis]);
        }
        PrimExpr value;
        for (size_t p = inputs.size(); p > 0; --p) {
          const Tensor part = inputs[p - 1];
          if (IsEmptyDim(part->shape[axis])) continue;
          Array<PrimExpr> at = i;
          at.Set(axis, DimValue(begins[p - 1]) == 0 ? i[axis] : i[axis] - begins[p - 1]);
          PrimExpr end = DimAdd(begins[p - 1], part->shape[axis]);
          value = value.defined() ? tir::if_then_else(i[axis] < end, part(at), value) : part(at);
        }
        return value.defined() ? value : tir::make_zero(inputs[0]->dtype);
      },
      "concatenate", tag::kInjective)};
}

Array<Tensor> StackCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<StackAttrs>()->axis, inputs[0].ndim() + 1));
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.erase(axis);
        PrimExpr value = inputs.back()(at);
        for (size_t p = inputs.size() - 1; p > 0; --p) {
          value = tir::if_then_else(tir::equal(i[axis], Index(static_cast<int64_t>(p - 1))), inputs[p - 1](at), value);
        }
        return value;
      },
      "stack", tag::kInjective)};
}

Array<Tensor> SplitCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<SplitAttrs>()->axis, x.ndim()));
  Array<Tensor> parts;
  PrimExpr begin = Index(0);
  size_t count = out_type.as<TupleTypeNode>()->fields.size();
  for (size_t p = 0; p < count; ++p) {
    const Array<PrimExpr>& shape = OutTensor(out_type, static_cast<int>(p))->shape;
    parts.push_back(Compute(
        shape,
        [&](const Array<PrimExpr>& i) {
          Array<PrimExpr> at = i;
          at.Set(axis, i[axis] + begin);
          return x(at);
        },
        StrCat("split_", p), tag::kInjective));
    begin = DimAdd(begin, shape[axis]);
  }
  return parts;
}

Array<Tensor> TileCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  return {Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        size_t extra = i.size() - x.ndim();
        for (size_t d = 0; d < x.ndim(); ++d) {
          bool same = SameDim(x->shape[d], shape[d + extra]) || IsEmptyDim(x->shape[d]);
          at.push_back(same                         ? i[d + extra]
                       : DimValue(x->shape[d]) == 1 ? Index(0)
                                                    : tir::indexmod(i[d + extra], x->shape[d]));
        }
        return x(at);
      },
      "tile", tag::kInjective)};
}

Array<Tensor> RepeatCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<RepeatAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        if (a->repeats > 1) at.Set(axis, tir::indexdiv(i[axis], Index(a->repeats)));
        return x(at);
      },
      "repeat", tag::kInjective)};
}

OpRegistration Register(const char* name, const char* text, TypeRelationFn relation, FTECompute compute,
                        OpPatternKind pattern) {
  return OpRegistration(name)
      .Describe(text)
      .SupportLevel(3)
      .Relation(relation)
      .Set(kOpPattern, pattern)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterJoinOps() {
  const std::vector<OpArgument> tuple = {{"data", "Tuple", "Tensors of one type but for the dimension joined."}};
  const std::vector<OpArgument> tensor = {{"data", "Tensor", "The input."}};
  Register("concatenate", "Tensors joined along a dimension.", Rule<ConcatenateInfer>, ConcatenateCompute,
           OpPatternKind::kInjective)
      .Arguments(tuple)
      .AttrsType<ConcatenateAttrs>()
      .Set(relay::kLayoutRule, relay::FLayoutRule(ConcatenateLayoutRule))
      .Set(kGradient, FGradient(gradient::OfConcatenate));
  Register("stack", "Tensors joined along a new dimension.", Rule<StackInfer>, StackCompute, OpPatternKind::kInjective)
      .Arguments(tuple)
      .AttrsType<StackAttrs>()
      .Set(kGradient, FGradient(gradient::OfStack));
  Register("split", "A tuple of consecutive parts.", Rule<SplitInfer>, SplitCompute, OpPatternKind::kInjective)
      .Arguments(tensor)
      .AttrsType<SplitAttrs>()
      .Set(kGradient, FGradient(gradient::OfSplit))
      .Set(kNumResults, FNumResults([](const Attrs& attrs) {
             const auto* a = attrs.as<SplitAttrs>();
             if (const auto sections = SplitSections(*a)) return static_cast<int>(*sections);
             return static_cast<int>(SplitIndices(*a).size()) + 1;
           }));
  Register("tile", "Whole copies along each dimension.", Rule<TileInfer>, TileCompute, OpPatternKind::kBroadcast)
      .Arguments(tensor)
      .AttrsType<TileAttrs>()
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kGradient, FGradient(gradient::OfTile));
  Register("repeat", "Each element several times in a row.", Rule<RepeatInfer>, RepeatCompute,
           OpPatternKind::kBroadcast)
      .Arguments(tensor)
      .AttrsType<RepeatAttrs>()
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kGradient, FGradient(gradient::OfRepeat));
}

}  // namespace treadle::ops
