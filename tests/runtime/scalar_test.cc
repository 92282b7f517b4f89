// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

const DataType kTypes[] = {DataType::Bool(),
                           DataType::Int(4),
                           DataType::UInt(4),
                           DataType::Int(8),
                           DataType::UInt(8),
                           DataType::Int(16),
                           DataType::UInt(16),
                           DataType::Int(32),
                           DataType::UInt(32),
                           DataType::Int(64),
                           DataType::UInt(64),
                           DataType::Float(64),
                           DataType::Float(32),
                           DataType::Float(16),
                           DataType::BFloat(16),
                           {DataType::kFloat8E4M3FN, 8},
                           {DataType::kFloat8E4M3FNUZ, 8},
                           {DataType::kFloat8E5M2, 8},
                           {DataType::kFloat8E5M2FNUZ, 8},
                           {kDLFloat4_e2m1fn, 4}};

double RoundTrip(DataType dtype, double value) {
  uint64_t memory[2] = {~uint64_t{0}, ~uint64_t{0}};
  StoreDouble(dtype, memory, 1, value);
  return LoadDouble(dtype, memory, 1);
}

TEST(Scalar, ZeroAndOneAreNumbersOfEveryType) {
  for (DataType dtype : kTypes) {
    EXPECT_TRUE(IsNumber(dtype)) << dtype;
    EXPECT_EQ(RoundTrip(dtype, 0), 0) << dtype;
    EXPECT_EQ(RoundTrip(dtype, 1), 1) << dtype;
    uint64_t memory = ~uint64_t{0};
    StoreInt64(dtype, &memory, 0, 1);
    EXPECT_EQ(LoadInt64(dtype, &memory, 0), 1) << dtype;
  }
}

TEST(Scalar, StoringTouchesOneElement) {
  for (DataType dtype : kTypes) {
    std::vector<uint8_t> memory(3 * static_cast<size_t>(dtype.bytes()), 0x5a);
    StoreDouble(dtype, memory.data(), 1, 1);
    for (size_t i = 0; i < memory.size(); ++i) {
      if (i / static_cast<size_t>(dtype.bytes()) != 1) {
        EXPECT_EQ(memory[i], 0x5a) << dtype << " byte " << i;
      }
    }
  }
}

TEST(Scalar, DoublesAreTruncatedAndSaturatedAsIntegers) {
  EXPECT_EQ(RoundTrip(DataType::Int(8), -1.9), -1);
  EXPECT_EQ(RoundTrip(DataType::Int(8), 300), 127);
  EXPECT_EQ(RoundTrip(DataType::Int(8), -kInf), -128);
  EXPECT_EQ(RoundTrip(DataType::UInt(8), -5), 0);
  EXPECT_EQ(RoundTrip(DataType::UInt(16), 1e9), 65535);
  EXPECT_EQ(RoundTrip(DataType::Int(32), 3e9), 2147483647);
  EXPECT_EQ(RoundTrip(DataType::UInt(32), 3e9), 3e9);
  EXPECT_EQ(RoundTrip(DataType::UInt(64), 1e19), 1e19);
  EXPECT_EQ(RoundTrip(DataType::Int(64), NAN), 0);
  EXPECT_EQ(RoundTrip(DataType::Int(4), 9), 7);
  EXPECT_EQ(RoundTrip(DataType::Int(4), -9), -8);
  EXPECT_EQ(RoundTrip(DataType::UInt(4), 99), 15);
  EXPECT_EQ(RoundTrip(DataType::Bool(), -0.25), 1);
}

TEST(Scalar, IntegersKeepTheirLowBits) {
  int8_t byte = 0;
  StoreInt64(DataType::Int(8), &byte, 0, 0x1ff);
  EXPECT_EQ(byte, -1);
  EXPECT_EQ(LoadInt64(DataType::UInt(8), &byte, 0), 255);
  EXPECT_EQ(LoadInt64(DataType::Int(4), &byte, 0), -1);
  EXPECT_EQ(LoadInt64(DataType::UInt(4), &byte, 0), 15);
  uint64_t large = 0;
  StoreInt64(DataType::UInt(64), &large, 0, -1);
  EXPECT_EQ(LoadInt64(DataType::UInt(64), &large, 0), -1);
  EXPECT_EQ(LoadDouble(DataType::UInt(64), &large, 0), 0x1p64);
  const int64_t odd = (int64_t{1} << 62) + 1;
  EXPECT_EQ(LoadInt64(DataType::Int(64), &odd, 0), odd);
}

TEST(Scalar, FloatsAreRoundedOnce) {
  EXPECT_EQ(RoundTrip(DataType::BFloat(16), 1 + 0x1p-8), 1);                     // a tie, to even
  EXPECT_EQ(RoundTrip(DataType::BFloat(16), 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);  // in float32 it would be the tie
  EXPECT_EQ(RoundTrip(DataType::Float(16), 65520), kInf);
  EXPECT_EQ(RoundTrip(DataType::BFloat(16), 3e38), 0x1.c4p127);
  EXPECT_TRUE(std::isnan(RoundTrip({DataType::kFloat8E4M3FN, 8}, NAN)));
  EXPECT_TRUE(std::signbit(RoundTrip(DataType::Float(32), -0.0)));
  // As a double this is a tie between two bfloat16, as an integer it is above.
  uint16_t small = 0;
  StoreInt64(DataType::BFloat(16), &small, 0, (int64_t{1} << 60) + (int64_t{1} << 52) + 1);
  EXPECT_EQ(LoadDouble(DataType::BFloat(16), &small, 0), 0x1p60 + 0x1p53);
}

TEST(Scalar, TensorsInAnyLayoutAreReadInRowMajorOrder) {
  const NDArray rows = FromInt64s({1, 2, 3, 4, 5, 6}, {2, 3}, DataType::UInt(16));
  DLTensor transposed = rows.dl_tensor();
  std::vector<int64_t> shape = {3, 2}, strides = {1, 3};
  transposed.shape = shape.data();
  transposed.strides = strides.data();
  const NDArray compact = NDArray::Empty({3, 2}, DataType::UInt(16));
  compact.CopyFrom(transposed);
  EXPECT_EQ(ToInt64s(compact), (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(ToDoubles(FromDoubles({0.5, -2}, {2}, DataType::BFloat(16))), (std::vector<double>{0.5, -2}));
  EXPECT_THROW(FromInt64s({1}, {2}, DataType::Int(8)), ShapeError);
}

TEST(Scalar, HandlesAndVectorsArentNumbers) {
  uint64_t memory = 0;
  for (DataType dtype : {DataType::Handle(), DataType::Float(32, 4), DataType::Int(24), DataType::Int(128)}) {
    EXPECT_FALSE(IsNumber(dtype)) << dtype;
    EXPECT_THROW(LoadDouble(dtype, &memory, 0), DTypeError) << dtype;
  }
}

}  // namespace
}  // namespace treadle::runtime
