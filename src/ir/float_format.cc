// SPDX-License-Identifier: Apache-2.0
#include "ir/float_format.h"

namespace treadle {

std::optional<FloatFormat> SmallFloatFormat(DataType dtype) {
  if (dtype.is_float16()) return kFloat16Format;
  if (dtype.is_bfloat16()) return kBFloat16Format;
  switch (dtype.code()) {
    case DataType::kFloat8E4M3FN:
      return kFloat8E4M3FNFormat;
    case DataType::kFloat8E4M3FNUZ:
      return kFloat8E4M3FNUZFormat;
    case DataType::kFloat8E5M2:
      return kFloat8E5M2Format;
    case DataType::kFloat8E5M2FNUZ:
      return kFloat8E5M2FNUZFormat;
    default:
      return std::nullopt;
  }
}

}  // namespace treadle
