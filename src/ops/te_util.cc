// SPDX-License-Identifier: Apache-2.0
#include "ops/te_util.h"

#include <cmath>

#include "ops/infer.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle::ops {

Array<PrimExpr> Indices(const Array<te::Var>& axes) {
  Array<PrimExpr> result;
  for (const te::Var& axis : axes) result.push_back(axis);
  return result;
}

const TensorTypeNode* OutTensor(const Type& out_type, int i) {
  const auto* tuple = out_type.as<TupleTypeNode>();
  const Type type = tuple != nullptr ? tuple->fields[static_cast<size_t>(i)] : out_type;
  const auto* tensor = type.as<TensorTypeNode>();
  TREADLE_ICHECK(tensor != nullptr) << "the result isn't a tensor";
  return tensor;
}

Tensor Compute(const Array<PrimExpr>& shape, const IndexBody& body, const std::string& name, const std::string& tag) {
  return te::Compute(shape, [&](const Array<te::Var>& axes) { return body(Indices(axes)); }, name, tag);
}

PrimExpr LoadBroadcast(const Tensor& t, const Array<PrimExpr>& index, const Array<PrimExpr>& shape) {
  Array<PrimExpr> at;
  size_t skip = index.size() - t.ndim();
  for (size_t i = 0; i < t.ndim(); ++i) {
    PrimExpr dim = t->shape[i];
    if (DimValue(dim) == 1) {
      at.push_back(Index(0));
    } else if (AsConstInt(dim) != nullptr || SameDim(dim, shape[i + skip])) {
      at.push_back(index[i + skip]);
    } else {
      // A symbolic dimension may turn out to be 1.
      at.push_back(tir::select(tir::equal(dim, Index(1)), Index(0), index[i + skip]));
    }
  }
  return t(at);
}

DataType AccumulatorDType(DataType dtype) {
  if (dtype.is_floating() && dtype.bits() < 32) return DataType::Float(32);
  if (dtype.is_integral() && dtype.bits() < 32) return DataType::Int(32);
  return dtype;
}

Tensor CastTo(const Tensor& t, DataType dtype, const std::string& name) {
  if (t->dtype == dtype) return t;
  return Compute(t->shape, [&](const Array<PrimExpr>& i) { return tir::cast(dtype, t(i)); }, name, tag::kElemWise);
}

Array<te::IterVar> ReduceAxes(const std::vector<int64_t>& extents, const std::string& prefix) {
  Array<te::IterVar> axes;
  for (int64_t extent : extents) {
    axes.push_back(te::ReduceAxis(tir::Range(Index(extent)), StrCat(prefix, axes.size())));
  }
  return axes;
}

Array<PrimExpr> AxisVars(const Array<te::IterVar>& axes) {
  Array<PrimExpr> vars;
  for (const te::IterVar& axis : axes) vars.push_back(axis->var);
  return vars;
}

Tensor Pad(const Tensor& data, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
           const PrimExpr& value, const std::string& name) {
  bool any = false;
  Array<PrimExpr> shape;
  for (size_t i = 0; i < data.ndim(); ++i) {
    any = any || before[i] != 0 || after[i] != 0;
    shape.push_back(DimAdd(DimAdd(data->shape[i], Index(before[i])), Index(after[i])));
  }
  if (!any) return data;
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr inside;
        auto require = [&](const PrimExpr& condition) { inside = inside.defined() ? inside && condition : condition; };
        Array<PrimExpr> at;
        bool empty = false;
        for (size_t d = 0; d < i.size(); ++d) {
          at.push_back(before[d] == 0 ? i[d] : i[d] - before[d]);
          if (before[d] > 0) require(i[d] >= before[d]);
          if (after[d] > 0) require(at[d] < data->shape[d]);
          empty = empty || IsEmptyDim(data->shape[d]);
        }
        if (empty) return value;
        return inside.defined() ? tir::if_then_else(inside, data(at), value) : data(at);
      },
      name, tag::kPad);
}

PrimExpr SaturatedConst(DataType dtype, double value) {
  if (runtime::ActsAsFloat(dtype)) {
    if (std::isinf(value)) return value > 0 ? tir::infinity(dtype) : tir::neg_infinity(dtype);
    return tir::make_const(dtype, value);
  }
  if (std::isnan(value)) return tir::make_zero(dtype);
  PrimExpr low = tir::min_value(dtype);
  PrimExpr high = tir::max_value(dtype);
  const int64_t* least = AsConstInt(low);
  const int64_t* most = AsConstInt(high);
  if (least != nullptr && value <= static_cast<double>(*least)) return low;
  if (most != nullptr && *most > 0 && value >= static_cast<double>(*most)) return high;
  return tir::make_const(dtype, static_cast<int64_t>(value));
}

PrimExpr ExpUpToOne(const PrimExpr& x) {
  if (x.dtype() != DataType::Float(32)) return tir::exp(x);
  constexpr double kLeast = -87;
  auto number = [](double value) { return tir::make_const(DataType::Float(32), value); };
  // Limits that lowering sees, which needn't care for results that aren't normal numbers then.
  const PrimExpr normal = tir::exp(tir::max(tir::min(x, number(0)), number(kLeast)));
  return tir::select(x < number(kLeast), number(0), normal);
}

PrimExpr OrderOfBits(const PrimExpr& bits) {
  const DataType word = bits.dtype();
  const PrimExpr sign = tir::right_shift(bits, tir::make_const(word, word.bits() - 1));
  return tir::bitwise_xor(bits, tir::bitwise_and(sign, tir::make_const(word, (int64_t{1} << (word.bits() - 1)) - 1)));
}

PrimExpr GreaterOf(const PrimExpr& a, const PrimExpr& b) { return tir::select(a > b, a, b); }

PrimExpr GreatestOf(const PrimExpr& source, const te::IterVar& axis) {
  if (!source.dtype().is_float()) return te::MaxReduce(source, {axis});  // types that users register have max
  const tir::Var x("x", source.dtype()), y("y", source.dtype());
  const tir::CommReducer reducer({x}, {y}, {GreaterOf(x, y)}, {tir::neg_infinity(source.dtype())});
  return te::CommReduce(reducer, {source}, {axis})[0];
}

PrimExpr Clamp(const PrimExpr& x, const PrimExpr& low, const PrimExpr& high) {
  return tir::max(tir::min(x, high), low);
}

PrimExpr SafeIndex(const PrimExpr& index, const PrimExpr& extent, bool plain) {
  PrimExpr i = tir::cast(DataType::Int(64), index);
  bool may_be_negative = !index.dtype().is_uint();
  if (may_be_negative && !plain) i = tir::select(i < 0, i + extent, i);
  return Clamp(i, Index(0), extent - 1);
}

bool IsEmptyDim(const PrimExpr& dim) { return AsConstInt(dim) != nullptr && DimValue(dim) == 0; }

PrimExpr FlatIndex(const Array<PrimExpr>& index, const Array<PrimExpr>& shape) {
  PrimExpr flat = Index(0);
  for (size_t i = 0; i < index.size(); ++i) {
    flat = i == 0 ? index[i] : flat * shape[i] + index[i];
  }
  return flat;
}

Array<PrimExpr> UnflattenIndex(PrimExpr flat, const Array<PrimExpr>& shape) {
  Array<PrimExpr> reversed;
  for (size_t i = shape.size(); i > 0; --i) {
    PrimExpr dim = shape[i - 1];
    if (DimValue(dim) == 1) {
      reversed.push_back(Index(0));
      continue;
    }
    // The slowest dimension needs no remainder: the index is within the tensor. So don't faster ones of a tensor whose
    // other dimensions are 1.
    bool rest_is_one = true;
    for (size_t j = 0; j + 1 < i; ++j) rest_is_one = rest_is_one && DimValue(shape[j]) == 1;
    if (rest_is_one || IsEmptyDim(dim)) {
      reversed.push_back(flat);
      flat = Index(0);
    } else {
      reversed.push_back(tir::indexmod(flat, dim));
      flat = tir::indexdiv(flat, dim);
    }
  }
  Array<PrimExpr> index;
  for (size_t i = reversed.size(); i > 0; --i) index.push_back(reversed[i - 1]);
  return index;
}

}  // namespace treadle::ops
