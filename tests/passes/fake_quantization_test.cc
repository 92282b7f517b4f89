// SPDX-License-Identifier: Apache-2.0
// What stands between qnn.dequantize and qnn.quantize, on integers.
#include "passes/pass_test.h"
#include "passes/qnn_passes.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

void ExpectIntegers(const std::string& head, const std::string& body, const std::string& expected) {
  ExpectPass(transform::FakeQuantizationToInteger(), head + " { " + body + " }", head + " { " + expected + " }");
}

const std::string kBytes = "fn (%x: Tensor[(2, 8), uint8])";

TEST(FakeQuantizationToInteger, MovementsMoveIntegers) {
  ExpectIntegers(kBytes,
                 "qnn.quantize(transpose(qnn.dequantize(%x, 0.5f, 3), axes=[1, 0]), 0.5f, 3, out_dtype=\"uint8\")",
                 "transpose(%x, axes=[1, 0])");
}

TEST(FakeQuantizationToInteger, OperatorsSayThemselvesThatTheyMove) {
  auto quantised = [](const std::string& call) {
    return StrCat("qnn.quantize(", call, ", 0.5f, 3, out_dtype=\"uint8\")");
  };
  const std::string real = "qnn.dequantize(%x, 0.5f, 3)";
  ExpectIntegers(kBytes, quantised(StrCat("sliding_window(", real, ", axis=1, window_shape=[4], strides=[2])")),
                 "sliding_window(%x, axis=1, window_shape=[4], strides=[2])");
  ExpectIntegers(kBytes, quantised(StrCat("broadcast_to_like(", real, ", ones(shape=[4, 2, 8], dtype=\"float32\"))")),
                 "broadcast_to_like(%x, ones(shape=[4, 2, 8], dtype=\"float32\"))");
  ExpectIntegers("fn (%x: Tensor[(1, 2, 8), uint8])",
                 quantised(StrCat("nn.adaptive_max_pool1d(", real, ", output_size=[4])")),
                 "nn.adaptive_max_pool1d(%x, output_size=[4])");
  // The sum of elements isn't one of them.
  const std::string sum = quantised(StrCat("sum(", real, ", axis=[1], keepdims=True)"));
  ExpectIntegers(kBytes, sum, sum);
}

TEST(FakeQuantizationToInteger, CostlyFunctionsOfBytesBecomeTables) {
  for (const char* name : {"exp", "log2", "asinh", "nn.gelu"}) {
    const IRModule module = transform::FakeQuantizationToInteger()(Parse(
        StrCat(kBytes, " { qnn.quantize(", name, "(qnn.dequantize(%x, 0.5f, 3)), 0.5f, 3, out_dtype=\"uint8\") }")));
    EXPECT_NE(Show(module).find("qnn.contrib_lookup(%x, "), std::string::npos) << name;
  }
}

TEST(FakeQuantizationToInteger, TablesTakeThePlaceOfFunctionsBeforeAReshape) {
  const IRModule module = transform::FakeQuantizationToInteger()(
      Parse(StrCat(kBytes,
                   " { qnn.quantize(transpose(reshape(nn.gelu(qnn.dequantize(%x, 0.5f, 3)), newshape=[4, 4]), "
                   "axes=[1, 0]), 0.5f, 3, out_dtype=\"uint8\") }")));
  const std::string text = Show(module);
  EXPECT_NE(text.find("qnn.contrib_lookup(%x, "), std::string::npos) << text;
  EXPECT_LT(text.find("reshape("), text.find("transpose(")) << text;
  EXPECT_EQ(text.find("nn.gelu(qnn.dequantize(%x"), std::string::npos) << text;
}

TEST(FakeQuantizationToInteger, MeansAreSumsOfIntegers) {
  ExpectIntegers(kBytes, "mean(qnn.dequantize(%x, 0.5f, 3), axis=[1], keepdims=True)",
                 "qnn.dequantize(sum(cast(%x, dtype=\"int32\"), axis=[1], keepdims=True), 0.0625f, 24)");
  ExpectIntegers("fn (%x: Tensor[(1, 4, 4, 2), uint8])",
                 "nn.global_avg_pool2d(qnn.dequantize(%x, 0.5f, 3), layout=\"NHWC\")",
                 "qnn.dequantize(sum(cast(%x, dtype=\"int32\"), axis=[1, 2], keepdims=True), 0.03125f, 48)");
}

TEST(FakeQuantizationToInteger, MeansOfMoreThanInt32HoldsStayReal) {
  const char* text = "nn.global_avg_pool2d(qnn.dequantize(%x, 0.5f, 3))";
  ExpectIntegers("fn (%x: Tensor[(1, 2, 2049, 2049), uint8])", text, text);
}

TEST(FakeQuantizationToInteger, OtherScalesStayReal) {
  const char* text = "qnn.quantize(qnn.dequantize(%x, 0.5f, 3), 0.25f, 3, out_dtype=\"uint8\")";
  ExpectIntegers(kBytes, text, text);
}

TEST(FakeQuantizationToInteger, ReluThatTheRangeImpliesGoes) {
  ExpectIntegers("fn (%x: Tensor[(2, 8), float32])", "qnn.quantize(nn.relu(%x), 0.5f, 0, out_dtype=\"uint8\")",
                 "qnn.quantize(%x, 0.5f, 0, out_dtype=\"uint8\")");
  const char* other = "qnn.quantize(nn.relu(%x), 0.5f, 3, out_dtype=\"uint8\")";
  ExpectIntegers("fn (%x: Tensor[(2, 8), float32])", other, other);
}

TEST(FakeQuantizationToInteger, ReluOfNegativeScalesStaysReal) {
  const char* text = "nn.relu(qnn.dequantize(%x, -0.5f, 3))";
  ExpectIntegers(kBytes, text, text);
}

TEST(FakeQuantizationToInteger, ScalarsNeedNoTable) {
  const char* text = "qnn.quantize(exp(qnn.dequantize(%x, 0.5f, 3)), 0.5f, 3, out_dtype=\"uint8\")";
  ExpectIntegers("fn (%x: uint8)", text, text);
}

TEST(FakeQuantizationToInteger, ClipOfTheWholeRangeGoes) {
  ExpectIntegers("fn (%x: Tensor[(2, 8), float32])",
                 "qnn.quantize(clip(%x, a_min=0, a_max=6), 0.0234375f, 0, out_dtype=\"uint8\")",
                 "qnn.quantize(%x, 0.0234375f, 0, out_dtype=\"uint8\")");
  const char* narrow = "qnn.quantize(clip(%x, a_min=0, a_max=5), 0.0234375f, 0, out_dtype=\"uint8\")";
  ExpectIntegers("fn (%x: Tensor[(2, 8), float32])", narrow, narrow);
}

TEST(FakeQuantizationToInteger, ProductsAreRequantised) {
  ExpectIntegers("fn (%x: Tensor[(2, 8), uint8], %w: Tensor[(4, 8), int8])",
                 "qnn.quantize(nn.dense(qnn.dequantize(%x, 0.5f, 3), qnn.dequantize(%w, 0.25f, 0), units=None), 2f, 7, "
                 "out_dtype=\"uint8\")",
                 "qnn.requantize(qnn.dense(%x, %w, 3, 0, 0.5f, 0.25f, units=None), 0.125f, 0, 2f, 7, "
                 "out_dtype=\"uint8\")");
}

TEST(FakeQuantizationToInteger, CheapFunctionsOfBytesStayArithmetic) {
  const char* text = "qnn.quantize(abs(qnn.dequantize(%x, 0.5f, 3)), 0.5f, 3, out_dtype=\"uint8\")";
  ExpectIntegers(kBytes, text, text);
}

TEST(FakeQuantizationToInteger, ChainsThatMeetInOneTensorBecomeATable) {
  const IRModule module = transform::FakeQuantizationToInteger()(
      Parse(kBytes + " { %0 = qnn.dequantize(%x, 0.5f, 3); %1 = qnn.quantize(clip(%0, a_min=0, a_max=1), 0.01f, 0, "
                     "out_dtype=\"uint8\"); qnn.quantize(multiply(%0, qnn.dequantize(%1, 0.01f, 0)), 0.5f, 3, "
                     "out_dtype=\"uint8\") }"));
  const std::string text = Show(module);
  EXPECT_NE(text.find("qnn.contrib_lookup(%x, "), std::string::npos) << text;
}

TEST(FakeQuantizationToInteger, TablesOfTwoTensorsAreNone) {
  const char* text =
      "qnn.quantize(tanh(add(qnn.dequantize(%x, 0.5f, 3), qnn.dequantize(%y, 0.5f, 3))), 0.5f, 3, "
      "out_dtype=\"uint8\")";
  ExpectIntegers("fn (%x: Tensor[(2, 8), uint8], %y: Tensor[(2, 8), uint8])", text, text);
}

TEST(FakeQuantizationToInteger, JoinedPartsAreQuantisedFirst) {
  ExpectIntegers(kBytes,
                 "qnn.quantize(concatenate((qnn.dequantize(%x, 0.5f, 3), qnn.dequantize(%x, 0.5f, 3))), 0.5f, 3, "
                 "out_dtype=\"uint8\")",
                 "concatenate((%x, %x))");
}

}  // namespace
}  // namespace treadle::relay
