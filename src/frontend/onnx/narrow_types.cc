// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/narrow_types.h"

#include <cmath>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/tensor_data.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

const DataType kFloat32 = DataType::Float(32);
const DataType kInt8 = DataType::Int(8);
const DataType kUInt8 = DataType::UInt(8);
const DataType kUInt32 = DataType::UInt(32);
const DataType kFloat4(kDLFloat4_e2m1fn, 4);
const DataType kFloat8E8M0(kDLFloat8_e8m0fnu, 8);

Term Reinterpret(const Term& x, DataType dtype) { return x.Op("reinterpret", {{"dtype", dtype}}); }

/// One sign bit, two of the exponent, one of the mantissa.
Term DecodeFloat4(const Term& x) {
  NodeImport& n = x.node();
  Term code = Reinterpret(x, DataType::UInt(4)).As(DataType::Int(64));
  Term table(n, n.Const(ArrayOf(std::vector<double>{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6},
                                {16}, kFloat32)));
  return table.Take(code);
}

/// The nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, halfway ones to that of even code; greater ones become 6.
Term EncodeFloat4(const Term& x) {
  Term magnitude = x.Op("abs"), code = (magnitude > 0.25).As(kUInt8);
  for (double bound : {1.25, 2.5, 5.0}) code = code + (magnitude > bound).As(kUInt8);
  for (double bound : {0.75, 1.75, 3.5}) code = code + (magnitude >= bound).As(kUInt8);
  // There is no NaN: it becomes the zero that has the sign bit.
  Term sign = Reinterpret(x, DataType::Int(32)) < 0.0;
  code = x.Op("isnan").Select(code.Number(8), code + sign.As(kUInt8) * 8.0);
  return Reinterpret(code.As(DataType::UInt(4)), kFloat4);
}

/// Powers of two from 2^-127 on; 255 is NaN.
Term DecodeFloat8E8M0(const Term& x) {
  Term code = Reinterpret(x, kUInt8).As(kUInt32);
  Term bits = (code == 0.0).Select(code.Number(0x400000), code * static_cast<double>(1 << 23));
  Term value = Reinterpret(bits, kFloat32);
  return (code == 255.0).Select(value.Number(std::nan("")), value);
}

Term EncodeFloat8E8M0(const Term& x, const NarrowRounding& rounding) {
  const Term bits = Reinterpret(x.Op("abs"), kUInt32), one = bits.Number(1);
  const Term shift = bits.Number(23);
  Term exponent = bits.Op("right_shift", shift), fraction = bits.Op("bitwise_and", bits.Number((1 << 23) - 1));
  Term code = exponent;
  if (rounding.round_mode == "up") {
    // Below 2^-126 numbers have no exponent of their own: above 2^-127 they round up too.
    Term up = (exponent == 0.0).Select((fraction > 4194304.0).As(kUInt32), (fraction > 0.0).As(kUInt32));
    code = exponent + up;
  } else if (rounding.round_mode == "nearest") {
    code = exponent + (fraction >= 4194304.0).As(kUInt32);
  }
  Term largest = bits.Number(254), infinite = exponent == 255.0 && fraction == 0.0;
  Term finite = rounding.saturate ? Min(code, largest) : code;
  if (rounding.saturate) finite = infinite.Select(largest, finite);
  Term nan = x.Op("isnan");
  return Reinterpret(nan.Select(bits.Number(255), finite).As(kUInt8), kFloat8E8M0);
}

double LargestOf(DataType dtype) {
  switch (dtype.code()) {
    case DataType::kFloat8E4M3FN:
      return 448;
    case DataType::kFloat8E4M3FNUZ:
      return 240;
    default:
      return 57344;
  }
}

}  // namespace

DataType StoredType(ElemType type, const std::string& where) {
  switch (type) {
    case ElemType::kInt4:
      return DataType::Int(4);
    case ElemType::kUInt4:
      return DataType::UInt(4);
    case ElemType::kInt2:
      return DataType::Int(2);
    case ElemType::kUInt2:
      return DataType::UInt(2);
    case ElemType::kFloat4E2M1:
      return kFloat4;
    case ElemType::kFloat8E8M0:
      return kFloat8E8M0;
    default:
      return ToDataTypeOrThrow(type, where);
  }
}

Expr ConvertTo(NodeImport& n, const Expr& x, DataType dtype, const NarrowRounding& rounding) {
  Term value(n, x);
  const DataType from = value.dtype();
  if (from == dtype) return x;
  if (from == kFloat4) value = DecodeFloat4(value);
  if (from == kFloat8E8M0) value = DecodeFloat8E8M0(value);
  if (from.is_float8() && from != kFloat8E8M0) value = value.As(kFloat32);
  if (from.is_integral() && from.bits() < 8 && !from.is_bool()) value = value.As(from.is_int() ? kInt8 : kUInt8);
  // Integers keep the bits that fit, those of negative numbers too.
  if (value.dtype().is_floating() && dtype.is_uint() && dtype.bits() < 8 && !dtype.is_bool()) {
    value = value.As(DataType::Int(32));
  }
  if (dtype == kFloat4) return EncodeFloat4(value.As(kFloat32));
  if (dtype == kFloat8E8M0) return EncodeFloat8E8M0(value.As(kFloat32), rounding);
  if (dtype.is_float8()) {
    value = value.As(kFloat32);
    if (rounding.saturate) value = Max(Min(value, LargestOf(dtype)), -LargestOf(dtype));
    return value.As(dtype);
  }
  if (dtype.is_integral() && dtype.bits() < 8 && !dtype.is_bool()) value = value.As(dtype.is_int() ? kInt8 : kUInt8);
  return value.As(dtype);
}

}  // namespace treadle::onnx
