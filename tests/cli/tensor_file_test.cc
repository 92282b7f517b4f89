// SPDX-License-Identifier: Apache-2.0
#include "cli/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Npy(const std::string& header, const std::string& data) {
  std::string text = std::string("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  return text + header + data;
}

template <typename E, typename F>
std::string MessageOf(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

std::vector<float> Floats(const NDArray& tensor) {
  return std::vector<float>(tensor.Data<float>(), tensor.Data<float>() + tensor.size());
}

TEST(Npy, RoundTripKeepsShapeTypeAndValues) {
  NDArray tensor = NDArray::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3}, DataType::Float(32));
  NDArray back = ParseNpy(FormatNpy(tensor), "x");
  EXPECT_EQ(back.dtype(), DataType::Float(32));
  EXPECT_THAT(back.shape(), ElementsAre(2, 3));
  EXPECT_THAT(Floats(back), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, ScalarsAndEmptyTensorsRoundTrip) {
  NDArray scalar = ParseNpy(FormatNpy(NDArray::FromVector<int64_t>({7}, {}, DataType::Int(64))), "x");
  EXPECT_EQ(scalar.ndim(), 0);
  EXPECT_EQ(*scalar.Data<int64_t>(), 7);
  NDArray empty = ParseNpy(FormatNpy(NDArray::Empty({0, 4}, DataType::Bool())), "x");
  EXPECT_THAT(empty.shape(), ElementsAre(0, 4));
}

TEST(Npy, FortranOrderIsTurnedIntoRows) {
  const float columns[] = {1, 4, 2, 5, 3, 6};
  NDArray tensor = ParseNpy(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
                                std::string(reinterpret_cast<const char*>(columns), sizeof(columns))),
                            "x");
  EXPECT_THAT(Floats(tensor), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, TruncatedDataIsRefused) {
  EXPECT_THAT(MessageOf<ModelFormatError>([] {
                ParseNpy(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 3), }", "abcd"), "x.npy");
              }),
              HasSubstr("x.npy: not a readable .npy array: truncated: 4 of 12000000 bytes"));
}

TEST(Npy, AbsurdShapeIsRefused) {
  EXPECT_THROW(ParseNpy(Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", ""), "x"),
               Error);
}

TEST(Npy, TextIsRefused) {
  EXPECT_THAT(MessageOf<ModelFormatError>([] { ParseNpy("hello, this is text", "x.npy"); }), HasSubstr("x.npy"));
}

TEST(Npy, UnknownTypeIsRefused) {
  EXPECT_THAT(MessageOf<DTypeError>(
                  [] { ParseNpy(Npy("{'descr': '<c8', 'fortran_order': False, 'shape': (), }", "12345678"), "x"); }),
              HasSubstr("NumPy type '<c8'"));
}

TEST(Npz, RoundTripKeepsNamesAndOrder) {
  NDArray a = NDArray::FromVector<float>({1, 2}, {2}, DataType::Float(32));
  NDArray b = NDArray::FromVector<int64_t>({3}, {1}, DataType::Int(64));
  NamedTensors back = ParseNpz(FormatNpz({{"b", b}, {"a/0", a}}), "x");
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].first, "b");
  EXPECT_EQ(back[1].first, "a/0");
  EXPECT_THAT(Floats(back[1].second), ElementsAre(1, 2));
}

TEST(Npz, EveryTruncationIsRefused) {
  NDArray a = NDArray::FromVector<float>({1, 2}, {2}, DataType::Float(32));
  const std::string whole = FormatNpz({{"a", a}});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(ParseNpz(whole.substr(0, size), "x"), ModelFormatError) << size;
  }
}

TEST(Npz, FlippedBitsAreRefusedOrHarmless) {
  NDArray a = NDArray::FromVector<float>({1, 2}, {2}, DataType::Float(32));
  const std::string whole = FormatNpz({{"a", a}});
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    try {
      ParseNpz(changed, "x");
    } catch (const Error&) {
    }
  }
}

TEST(TensorProto, RawAndTypedFieldsAreRead) {
  // dims: 2, data_type: float, raw_data
  const float values[] = {1.5f, -2};
  std::string raw = std::string("\x08\x02\x10\x01\x42\x01w\x4a\x08", 9) +
                    std::string(reinterpret_cast<const char*>(values), sizeof(values));
  auto [name, tensor] = ParseTensorProto(raw, "x.pb");
  EXPECT_EQ(name, "w");
  EXPECT_THAT(Floats(tensor), ElementsAre(1.5f, -2));
  // dims: 3 packed, data_type: int64, int64_data packed
  auto [unnamed, ints] = ParseTensorProto(std::string("\x0a\x01\x03\x10\x07\x3a\x03\x01\x02\x03", 10), "x.pb");
  EXPECT_EQ(unnamed, "");
  EXPECT_EQ(ints.Data<int64_t>()[2], 3);
}

TEST(TensorProto, FlippedBitsAreRefusedOrHarmless) {
  const std::string whole("\x0a\x01\x03\x10\x07\x3a\x03\x01\x02\x03", 10);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    try {
      ParseTensorProto(changed, "x");
    } catch (const Error&) {
    }
  }
}

/// A length of 2^32 + 1 was read as 1, and numbers lost their bits beyond 64.
TEST(TensorProto, NumbersThatDoNotFitAreRefused) {
  const std::string whole("\x0a\x01\x03\x10\x07\x3a\x03\x01\x02\x03", 10), nines(9, '\x80'), unknown = "\x98\x06";
  EXPECT_NO_THROW(ParseTensorProto(whole + unknown + nines + "\x01", "x.pb"));
  EXPECT_NO_THROW(ParseTensorProto(whole + "\x9a\x06\x81\x80\x80\x80" + std::string(1, '\0') + "x", "x.pb"))
      << "longer than needed";
  EXPECT_NO_THROW(ParseTensorProto("\x10\x07\x3a\x0a" + nines + "\x01", "x.pb")) << "a scalar, -2^63";
  for (const std::string& bytes : {whole + unknown + nines + "\x02",         // a number of a field that is skipped
                                   "\x0a\x0a" + nines + "\x7f\x10\x07",      // a dimension
                                   "\x10\x07\x3a\x0a" + nines + "\x7f",      // an element
                                   whole + "\x98\x86\x80\x80\x10\x01",       // a tag
                                   whole + "\x9a\x06\x81\x80\x80\x80\x10x",  // a length
                                   whole + "\x42\x81\x80\x80\x80\x10w"}) {   // that of the name
    EXPECT_THAT(MessageOf<ModelFormatError>([&] { ParseTensorProto(bytes, "x.pb"); }),
                HasSubstr("not a serialised ONNX tensor"));
  }
}

TEST(TensorProto, GarbageIsRefused) {
  EXPECT_THROW(ParseTensorProto("\xff\xff\xff\xff", "x.pb"), Error);
  EXPECT_THAT(MessageOf<ModelFormatError>([] { ParseTensorProto(std::string("\x08\x02\x10\x01", 4), "x.pb"); }),
              HasSubstr("holds 0 bytes of data; its shape and type need 8"));
}

}  // namespace
}  // namespace treadle::cli
