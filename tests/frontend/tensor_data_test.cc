// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/tensor_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx_builder.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> Values(const NDArray& array) {
  return std::vector<T>(array.Data<T>(), array.Data<T>() + array.size());
}

Tensor RawTensor(ElemType type, std::vector<int64_t> dims, std::string_view raw) {
  Tensor tensor;
  tensor.data_type = type;
  tensor.dims = std::move(dims);
  tensor.raw = raw;
  return tensor;
}

TEST(TensorData, ReadsRawAndTypedData) {
  std::string raw = testing::RawOf<float>({1, 2});
  EXPECT_THAT(Values<float>(ToNDArray(RawTensor(ElemType::kFloat, {2}, raw), "t")), ElementsAre(1, 2));
  Tensor typed;
  typed.data_type = ElemType::kInt64;
  typed.dims = {2};
  typed.int64_data = {-5, 6};
  EXPECT_THAT(Values<int64_t>(ToNDArray(typed, "t")), ElementsAre(-5, 6));
}

TEST(TensorData, NarrowsInt32Data) {
  Tensor tensor;
  tensor.data_type = ElemType::kInt8;
  tensor.dims = {2};
  tensor.int32_data = {-1, 127};
  EXPECT_THAT(Values<int8_t>(ToNDArray(tensor, "t")), ElementsAre(-1, 127));
  tensor.data_type = ElemType::kFloat16;
  tensor.int32_data = {0x3c00, 0xc000};
  NDArray half = ToNDArray(tensor, "t");
  EXPECT_EQ(half.dtype(), DataType::Float(16));
  EXPECT_THAT(Values<uint16_t>(half), ElementsAre(0x3c00, 0xc000));
}

TEST(TensorData, UnpacksTypesBelowAByte) {
  EXPECT_THAT(Values<int8_t>(ToNDArray(RawTensor(ElemType::kInt4, {3}, "\x8f\x07"), "t")), ElementsAre(-1, -8, 7));
  EXPECT_THAT(Values<uint8_t>(ToNDArray(RawTensor(ElemType::kUInt4, {3}, "\x8f\x07"), "t")), ElementsAre(15, 8, 7));
  EXPECT_THAT(Values<int8_t>(ToNDArray(RawTensor(ElemType::kInt2, {4}, "\xe4"), "t")), ElementsAre(0, 1, -2, -1));
}

TEST(TensorData, NormalisesBooleans) {
  NDArray array = ToNDArray(RawTensor(ElemType::kBool, {3}, std::string_view("\x00\x02\x01", 3)), "t");
  EXPECT_EQ(array.dtype(), DataType::Bool());
  EXPECT_THAT(Values<uint8_t>(array), ElementsAre(0, 1, 1));
}

TEST(TensorData, SharesAlignedBytes) {
  alignas(64) static float values[4] = {1, 2, 3, 4};
  Tensor tensor = RawTensor(ElemType::kFloat, {4}, {reinterpret_cast<const char*>(values), sizeof(values)});
  EXPECT_EQ(ToNDArray(tensor, "t").data_ptr(), values);
  tensor = RawTensor(ElemType::kFloat, {3}, {reinterpret_cast<const char*>(values + 1), 12});
  EXPECT_NE(ToNDArray(tensor, "t").data_ptr(), values + 1);
}

TEST(TensorData, RefusesStringsAndComplexNumbers) {
  for (ElemType type : {ElemType::kString, ElemType::kComplex64, ElemType::kFloat4E2M1}) {
    Tensor tensor;
    tensor.data_type = type;
    EXPECT_THROW(ToNDArray(tensor, "t"), UnsupportedOpError) << ElemTypeName(type);
  }
}

TEST(TensorData, ExpandsSparseTensors) {
  std::string values = testing::RawOf<float>({5, 6});
  std::string indices = testing::RawOf<int64_t>({0, 1, 1, 0});
  SparseTensor sparse{RawTensor(ElemType::kFloat, {2}, values), RawTensor(ElemType::kInt64, {2, 2}, indices), {2, 2}};
  EXPECT_THAT(Values<float>(ToNDArray(sparse, "t")), ElementsAre(0, 5, 6, 0));
}

}  // namespace
}  // namespace treadle::onnx
