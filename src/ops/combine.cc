// SPDX-License-Identifier: Apache-2.0
// Operators of several tensors with index patterns of their own. Semantics: NumPy's einsum, meshgrid, unravel_index,
// searchsorted and integer-array indexing; TensorFlow's matrix_set_diag; ONNX Trilu-14.
#include <algorithm>
#include <map>

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(SearchSortedAttrs);
TREADLE_DEFINE_NODE(MeshgridAttrs);
TREADLE_DEFINE_NODE(MatrixSetDiagAttrs);
TREADLE_DEFINE_NODE(EinsumAttrs);
TREADLE_DEFINE_NODE(TriluAttrs);

namespace {

// ---- einsum ----

/// Labels of each operand's dimensions and of the result's. Dimensions of an ellipsis are numbered from the last one
/// on.
struct Einsum {
  static constexpr int kEllipsis = 1000;
  std::vector<std::vector<int>> operands;
  std::vector<int> out;
  std::map<int, PrimExpr> sizes;
  std::vector<std::pair<PrimExpr, PrimExpr>> alike;  ///< of one label; a run knows whether they are

  Einsum(const std::string& equation, const std::vector<Array<PrimExpr>>& shapes) {
    std::string text;
    for (char c : equation) {
      if (c != ' ') text += c;
    }
    size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow);
    size_t widest = 0;
    size_t begin = 0;
    for (size_t n = 0; n < shapes.size(); ++n) {
      size_t end = std::min(left.find(',', begin), left.size());
      if (begin > left.size()) Fail(equation, "has fewer terms than operands");
      operands.push_back(Parse(equation, left.substr(begin, end - begin), shapes[n].size(), &widest));
      begin = end + 1;
      Note(equation, operands.back(), shapes[n]);
    }
    if (begin <= left.size()) Fail(equation, "has more terms than operands");
    if (arrow != std::string::npos) {
      std::string right = text.substr(arrow + 2);
      size_t ellipsis = right.find("...") == std::string::npos ? 0 : widest;
      size_t letters = right.size() - (right.find("...") == std::string::npos ? 0 : 3);
      size_t ignored = 0;
      out = Parse(equation, right, letters + ellipsis, &ignored);
      for (int label : out) {
        if (sizes.count(label) == 0) Fail(equation, "names a dimension of the result that no operand has");
      }
    } else {
      // Implied: the ellipsis, then labels that occur once, in alphabetical order.
      for (size_t i = widest; i > 0; --i) out.push_back(kEllipsis + static_cast<int>(i - 1));
      for (const auto& [label, size] : sizes) {
        size_t count = 0;
        for (const auto& operand : operands)
          count += static_cast<size_t>(std::count(operand.begin(), operand.end(), label));
        if (label < kEllipsis && count == 1) out.push_back(label);
      }
    }
  }

 private:
  [[noreturn]] static void Fail(const std::string& equation, const char* why) {
    throw ShapeError(StrCat("equation \"", equation, "\" ", why));
  }
  static std::vector<int> Parse(const std::string& equation, const std::string& term, size_t rank, size_t* widest) {
    std::vector<int> labels;
    for (size_t i = 0; i < term.size(); ++i) {
      char c = term[i];
      if (c == '.') {
        size_t letters = term.size() - 3;
        if (term.compare(i, 3, "...") != 0 || letters > rank) Fail(equation, "has a misplaced ellipsis");
        size_t count = rank - letters;
        *widest = std::max(*widest, count);
        for (size_t k = count; k > 0; --k) labels.push_back(kEllipsis + static_cast<int>(k - 1));
        i += 2;
      } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        labels.push_back(c);
      } else {
        Fail(equation, "has an unexpected character");
      }
    }
    if (labels.size() != rank) Fail(equation, "doesn't match the ranks of the operands");
    return labels;
  }
  void Note(const std::string& equation, const std::vector<int>& labels, const Array<PrimExpr>& shape) {
    for (size_t d = 0; d < labels.size(); ++d) {
      auto [it, added] = sizes.emplace(labels[d], shape[d]);
      if (added || SameDim(it->second, shape[d]) || DimValue(shape[d]) == 1) continue;
      bool constant = AsConstInt(it->second) != nullptr && AsConstInt(shape[d]) != nullptr;
      if (constant && DimValue(it->second) != 1) Fail(equation, "names dimensions of different sizes alike");
      if (!constant) alike.emplace_back(it->second, shape[d]);
      it->second = shape[d];
    }
  }
};

Type EinsumInfer(const InferContext& context) {
  std::vector<const TensorTypeNode*> fields = context.Tuple(0, "data");
  if (fields.empty()) throw ShapeError("einsum needs at least one tensor");
  std::vector<Array<PrimExpr>> shapes;
  for (const TensorTypeNode* field : fields) {
    CheckSameDType(fields[0], field);
    shapes.push_back(field->shape);
  }
  Einsum einsum(context.attrs<EinsumAttrs>()->equation, shapes);
  for (const auto& [a, b] : einsum.alike) context.Equal(a, b);
  Array<PrimExpr> out;
  for (int label : einsum.out) out.push_back(einsum.sizes.at(label));
  return TensorType(out, fields[0]->dtype);
}

Array<Tensor> EinsumCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  std::vector<Array<PrimExpr>> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input->shape);
  Einsum einsum(attrs.as<EinsumAttrs>()->equation, shapes);
  const TensorTypeNode* out = OutTensor(out_type);
  DataType dtype = AccumulatorDType(out->dtype);
  Array<te::IterVar> axes;
  std::map<int, PrimExpr> reduced;
  for (const auto& [label, size] : einsum.sizes) {
    if (std::find(einsum.out.begin(), einsum.out.end(), label) != einsum.out.end()) continue;
    axes.push_back(te::ReduceAxis(tir::Range(size), StrCat("k", axes.size())));
    reduced.emplace(label, axes.back()->var);
  }
  Tensor sum = Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr product;
        for (size_t n = 0; n < inputs.size(); ++n) {
          Array<PrimExpr> at;
          for (size_t d = 0; d < inputs[n].ndim(); ++d) {
            int label = einsum.operands[n][d];
            auto it = std::find(einsum.out.begin(), einsum.out.end(), label);
            PrimExpr index =
                it != einsum.out.end() ? i[static_cast<size_t>(it - einsum.out.begin())] : reduced.at(label);
            at.push_back(DimValue(shapes[n][d]) == 1 ? Index(0) : index);
          }
          PrimExpr value = tir::cast(dtype, inputs[n](at));
          product = product.defined() ? product * value : value;
        }
        return axes.empty() ? product : te::Sum(product, axes);
      },
      "einsum", axes.empty() ? tag::kInjective : tag::kCommReduce);
  return {CastTo(sum, out->dtype, "einsum_cast")};
}

// ---- meshgrid ----

Type MeshgridInfer(const InferContext& context) {
  std::vector<const TensorTypeNode*> fields = context.Tuple(0, "data");
  const auto* attrs = context.attrs<MeshgridAttrs>();
  if (attrs->indexing != "ij" && attrs->indexing != "xy") {
    throw ShapeError(StrCat("indexing must be ij or xy, not \"", attrs->indexing, "\""));
  }
  Array<PrimExpr> shape;
  for (const TensorTypeNode* field : fields) {
    CheckSameDType(fields[0], field);
    if (field->shape.size() > 1) throw ShapeError(StrCat("meshgrid needs vectors, not ", TypeText(field)));
    shape.push_back(field->shape.empty() ? Dim(1) : field->shape[0]);
  }
  if (attrs->indexing == "xy" && shape.size() >= 2) {
    PrimExpr first = shape[0];
    shape.Set(0, shape[1]);
    shape.Set(1, first);
  }
  Array<Type> out;
  for (const TensorTypeNode* field : fields) out.push_back(TensorType(shape, field->dtype));
  return TupleType(out);
}

Array<Tensor> MeshgridCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  bool xy = attrs.as<MeshgridAttrs>()->indexing == "xy" && inputs.size() >= 2;
  Array<Tensor> out;
  for (size_t n = 0; n < inputs.size(); ++n) {
    size_t axis = xy && n < 2 ? 1 - n : n;
    out.push_back(Compute(
        OutTensor(out_type, static_cast<int>(n))->shape,
        [&](const Array<PrimExpr>& i) {
          return inputs[n].ndim() == 0 ? inputs[n](Array<PrimExpr>()) : inputs[n](i[axis]);
        },
        StrCat("meshgrid_", n), tag::kInjective));
  }
  return out;
}

// ---- indices ----

/// (indices, shape) -> (rank, indices..)
Type UnravelIndexInfer(const InferContext& context) {
  const auto* indices = context.Tensor(0, "indices");
  const auto* shape = context.Tensor(1, "shape");
  CheckIntegral(indices, "indices");
  CheckSameDType(indices, shape);
  CheckRank(shape, 1, "shape");
  if (DimValue(shape->shape[0]) < 0) throw ShapeError("shape must be a vector of constant length");
  Array<PrimExpr> out = indices->shape;
  out.insert(0, shape->shape[0]);
  return TensorType(out, indices->dtype);
}

Array<Tensor> UnravelIndexCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  int64_t rank = DimValue(out->shape[0]);
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> from = i;
        from.erase(0);
        PrimExpr rest = inputs[0](from);
        PrimExpr result = tir::make_zero(out->dtype);
        for (int64_t d = rank - 1; d >= 0; --d) {
          PrimExpr size = inputs[1](Index(d));
          PrimExpr here = d == 0 ? rest : tir::floormod(rest, size);
          result = tir::select(tir::equal(i[0], Index(d)), here, result);
          rest = tir::floordiv(rest, size);
        }
        return result;
      },
      "unravel_index", tag::kInjective)};
}

Type InvertPermutationInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  CheckRank(data, 1, "data");
  CheckIntegral(data, "data");
  return context.type(0);
}

Array<Tensor> InvertPermutationCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  PrimExpr n = x->shape[0];
  te::IterVar k = te::ReduceAxis(tir::Range(n), "k");
  // The position of i: a sum with one term, which needs no check of the values.
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr here = tir::equal(tir::cast(DataType::Int(64), x(k->var)), i[0]);
        return te::Sum(tir::select(here, tir::cast(x->dtype, k->var), tir::make_zero(x->dtype)), {k});
      },
      "invert_permutation", tag::kCommReduce)};
}

/// (sorted_sequence, values): one sequence, or one for each row of values.
Type SearchSortedInfer(const InferContext& context) {
  const auto* sequence = context.Tensor(0, "sorted_sequence");
  const auto* values = context.Tensor(1, "values");
  CheckSameDType(sequence, values);
  if (sequence->shape.empty()) throw ShapeError("sorted_sequence must have a dimension");
  if (sequence->shape.size() != 1) CheckRank(values, sequence->shape.size(), "values");
  for (size_t i = 0; i + 1 < sequence->shape.size(); ++i) {
    CheckDim(context, values, i, "values", sequence->shape[i], "sorted_sequence");
  }
  return TensorType(values->shape, context.attrs<SearchSortedAttrs>()->dtype);
}

Array<Tensor> SearchSortedCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<SearchSortedAttrs>();
  const Tensor& sequence = inputs[0];
  const TensorTypeNode* out = OutTensor(out_type);
  te::IterVar k = te::ReduceAxis(tir::Range(sequence->shape[sequence.ndim() - 1]), "k");
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        for (size_t d = 0; d + 1 < sequence.ndim(); ++d) at.push_back(i[d]);
        at.push_back(k->var);
        PrimExpr value = inputs[1](i);
        PrimExpr before = a->right ? sequence(at) <= value : sequence(at) < value;
        return te::Sum(tir::cast(out->dtype, before), {k});
      },
      "searchsorted", tag::kCommReduce)};
}

/// (data, index, index, ..): indices of the leading dimensions, broadcast against each other.
Type AdvIndexInfer(const InferContext& context) {
  std::vector<const TensorTypeNode*> fields = context.Tuple(0, "inputs");
  if (fields.size() < 2 || fields.size() - 1 > fields[0]->shape.size()) {
    throw ShapeError("needs a tensor and at most as many index tensors as it has dimensions");
  }
  Array<PrimExpr> out;
  for (size_t n = 1; n < fields.size(); ++n) {
    CheckIntegral(fields[n], "index");
    out = BroadcastShape(context, out, fields[n]->shape);
  }
  for (size_t d = fields.size() - 1; d < fields[0]->shape.size(); ++d) out.push_back(fields[0]->shape[d]);
  return TensorType(out, fields[0]->dtype);
}

Array<Tensor> AdvIndexCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  const TensorTypeNode* out = OutTensor(out_type);
  size_t picked = out->shape.size() - (x.ndim() - (inputs.size() - 1));
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> place, place_shape, at;
        for (size_t d = 0; d < picked; ++d) {
          place.push_back(i[d]);
          place_shape.push_back(out->shape[d]);
        }
        for (size_t n = 1; n < inputs.size(); ++n) {
          if (IsEmptyDim(x->shape[n - 1])) return tir::make_zero(x->dtype);
          at.push_back(SafeIndex(LoadBroadcast(inputs[n], place, place_shape), x->shape[n - 1]));
        }
        for (size_t d = picked; d < i.size(); ++d) at.push_back(i[d]);
        return x(at);
      },
      "adv_index", tag::kInjective)};
}

// ---- diagonals ----

Type MatrixSetDiagInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "input");
  const auto* diagonal = context.Tensor(1, "diagonal");
  const auto* attrs = context.attrs<MatrixSetDiagAttrs>();
  CheckSameDType(data, diagonal);
  if (data->shape.size() < 2) throw ShapeError(StrCat("input must be a matrix, not ", TypeText(data)));
  if (attrs->k1 > attrs->k2) throw ShapeError(StrCat("k1 ", attrs->k1, " exceeds k2 ", attrs->k2));
  CheckRank(diagonal, data->shape.size() - (attrs->k1 == attrs->k2 ? 1 : 0), "diagonal");
  const size_t batch = data->shape.size() - 2;
  for (size_t i = 0; i < batch; ++i) CheckDim(context, diagonal, i, "diagonal", data->shape[i], "input");
  if (attrs->k1 != attrs->k2)
    CheckDim(context, diagonal, batch, "diagonal", Dim(attrs->k2 - attrs->k1 + 1), "k1 to k2");
  const PrimExpr longest = tir::min(DimAdd(data->shape[batch], Dim(std::min<int64_t>(attrs->k2, 0))),
                                    DimSub(data->shape[batch + 1], Dim(std::max<int64_t>(attrs->k1, 0))));
  CheckDim(context, diagonal, diagonal->shape.size() - 1, "diagonal", longest, "the longest diagonal");
  return context.type(0);
}

Array<Tensor> MatrixSetDiagCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<MatrixSetDiagAttrs>();
  const Tensor& x = inputs[0];
  const Tensor& diagonal = inputs[1];
  PrimExpr rows = x->shape[x.ndim() - 2];
  PrimExpr columns = x->shape[x.ndim() - 1];
  PrimExpr longest = diagonal->shape[diagonal.ndim() - 1];
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr row = i[x.ndim() - 2];
        PrimExpr column = i[x.ndim() - 1];
        PrimExpr d = column - row;
        PrimExpr along = tir::min(row, column);
        PrimExpr length = tir::min(rows + tir::min(d, Index(0)), columns - tir::max(d, Index(0)));
        PrimExpr shift = Index(0);
        if (a->k1 != a->k2) {
          PrimExpr right = longest - length;
          shift = tir::select(d >= 0, a->super_diag_right_align ? right : Index(0),
                              a->sub_diag_right_align ? right : Index(0));
        }
        Array<PrimExpr> at;
        for (size_t k = 0; k + 2 < x.ndim(); ++k) at.push_back(i[k]);
        if (a->k1 != a->k2) at.push_back(Clamp(Index(a->k2) - d, Index(0), Index(a->k2 - a->k1)));
        at.push_back(Clamp(along + shift, Index(0), longest - 1));
        return tir::if_then_else(d >= a->k1 && d <= a->k2, diagonal(at), x(i));
      },
      "matrix_set_diag", tag::kInjective)};
}

/// (data, k)
Type TriluInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  context.attrs<TriluAttrs>();
  if (data->shape.size() < 2) throw ShapeError(StrCat("data must be a matrix, not ", TypeText(data)));
  CheckIntegral(context.Tensor(1, "k"), "k");
  CheckRank(context.Tensor(1, "k"), 0, "k");
  return context.type(0);
}

Array<Tensor> TriluCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  bool upper = attrs.as<TriluAttrs>()->upper;
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr d = i[x.ndim() - 1] - i[x.ndim() - 2];
        PrimExpr k = tir::cast(DataType::Int(64), inputs[1](Array<PrimExpr>()));
        return tir::select(upper ? d >= k : d <= k, x(i), tir::make_zero(x->dtype));
      },
      "trilu", tag::kInjective)};
}

OpRegistration Register(const char* name, const char* text, std::vector<OpArgument> arguments, TypeRelationFn relation,
                        FTECompute compute, OpPatternKind pattern = OpPatternKind::kInjective) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments(std::move(arguments))
      .SupportLevel(10)
      .Relation(relation)
      .Set(kOpPattern, pattern)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterCombineOps() {
  const OpArgument tuple = {"data", "Tuple", "The tensors."};
  const OpArgument data = {"data", "Tensor", "The input."};
  Register("einsum", "Sum of products, by the Einstein convention.", {tuple}, Rule<EinsumInfer>, EinsumCompute)
      .AttrsType<EinsumAttrs>();
  Register("meshgrid", "Coordinates of a grid.", {tuple}, Rule<MeshgridInfer>, MeshgridCompute)
      .AttrsType<MeshgridAttrs>();
  Register("unravel_index", "Coordinates of flat indices.",
           {{"indices", "Tensor", "Flat indices."}, {"shape", "Tensor", "Vector."}}, Rule<UnravelIndexInfer>,
           UnravelIndexCompute);
  Register("invert_permutation", "The inverse of a permutation.", {data}, Rule<InvertPermutationInfer>,
           InvertPermutationCompute);
  Register("searchsorted", "Where values belong in a sorted sequence.",
           {{"sorted_sequence", "Tensor", "Ascending."}, {"values", "Tensor", "What to place."}},
           Rule<SearchSortedInfer>, SearchSortedCompute, OpPatternKind::kOpaque)
      .AttrsType<SearchSortedAttrs>();
  Register("adv_index", "Elements picked by index tensors of the leading dimensions.",
           {{"inputs", "Tuple", "The tensor, then the indices."}}, Rule<AdvIndexInfer>, AdvIndexCompute);
  Register("matrix_set_diag", "A matrix with other diagonals.",
           {{"input", "Tensor", "The matrix."}, {"diagonal", "Tensor", "Its new diagonals, from the highest on."}},
           Rule<MatrixSetDiagInfer>, MatrixSetDiagCompute)
      .AttrsType<MatrixSetDiagAttrs>();
  Register("trilu", "The upper or lower triangle of a matrix.", {data, {"k", "Tensor", "Scalar: the diagonal."}},
           Rule<TriluInfer>, TriluCompute)
      .AttrsType<TriluAttrs>();
}

}  // namespace treadle::ops
