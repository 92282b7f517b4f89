// SPDX-License-Identifier: Apache-2.0
#include "tir/flat_buffer.h"

#include <limits>

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {
namespace {

PrimExpr Wide(const PrimExpr& e) { return cast(DataType::Int(64), e); }

PrimExpr Product(const PrimExpr& a, const PrimExpr& b) {
  const int64_t* x = AsConstInt(a);
  const int64_t* y = AsConstInt(b);
  int64_t product = 0;
  if (x != nullptr && y != nullptr && !__builtin_mul_overflow(*x, *y, &product)) {
    const bool narrow = product <= std::numeric_limits<int32_t>::max();
    return IntImm(narrow ? DataType::Int(32) : DataType::Int(64), product);
  }
  return Wide(a) * Wide(b);
}

}  // namespace

PrimExpr BufferSpan(const Buffer& buffer) {
  PrimExpr elements = IntImm(DataType::Int(32), 1);
  if (buffer->strides.empty()) {
    for (const PrimExpr& extent : buffer->shape) elements = Product(elements, extent);
    return elements;
  }
  return Product(Wide(buffer->strides[0]), Wide(buffer->shape[0]));
}

Buffer FlatBuffer(const Buffer& buffer) {
  const bool plain = buffer->strides.empty() && buffer->shape.size() == 1 &&
                     (!buffer->elem_offset.defined() || is_zero(buffer->elem_offset));
  if (plain) return buffer;
  return Buffer(buffer->data, buffer->dtype, {BufferSpan(buffer)}, {}, PrimExpr(ObjectPtr<Object>()), buffer->name,
                buffer->data_alignment, 0, buffer->span);
}

}  // namespace treadle::tir
