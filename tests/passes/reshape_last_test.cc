// SPDX-License-Identifier: Apache-2.0
#include "passes/reshape_last.h"

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

constexpr const char* kHead =
    "fn (%x: Tensor[(6, 4), float32], %w: Tensor[(8, 4), float32], %b: Tensor[(8), float32]) {";

void ExpectMoved(const std::string& body, const std::string& expected) {
  ExpectPass(transform::ReshapeLast(), kHead + body + " }", kHead + expected + " }");
}

TEST(ReshapeLast, WhatProductsAreFusedWithComesFirst) {
  ExpectMoved("nn.gelu(add(%b, reshape(nn.dense(%x, %w), newshape=[1, 2, 3, 8])))",
              "reshape(nn.gelu(add(%b, nn.dense(%x, %w))), newshape=[1, 2, 3, 8])");
}

TEST(ReshapeLast, OperandsOfOneProductMoveTogether) {
  ExpectMoved("%0 = reshape(nn.dense(%x, %w), newshape=[2, 3, 8]); multiply(%0, sigmoid(%0))",
              "%0 = nn.dense(%x, %w); reshape(multiply(%0, sigmoid(%0)), newshape=[2, 3, 8])");
}

/// The change of layout is scheduled by its own dimensions, whatever becomes of columns.
TEST(ReshapeLast, WhatFollowsAChangeOfLayoutComesFirst) {
  const std::string head = R"(fn (%x: Tensor[(1, 2, 3, 5, 16), uint8], %b: Tensor[(480), float32]) {
  %0 = layout_transform(%x, src_layout="NCHW16c", dst_layout="NCHW"); )";
  ExpectPass(transform::ReshapeLast(),
             head + R"(multiply(cast(reshape(%0, newshape=[1, 480]), dtype="float32"), 2f) })",
             head + R"(reshape(multiply(cast(%0, dtype="float32"), 2f), newshape=[1, 480]) })");
  const std::string columns = head + R"(multiply(cast(reshape(%0, newshape=[1, 480]), dtype="float32"), %b) })";
  ExpectPass(transform::ReshapeLast(), columns,
             head + R"(multiply(reshape(cast(%0, dtype="float32"), newshape=[1, 480]), %b) })");
}

TEST(ReshapeLast, OthersStay) {
  for (const char* body : {"exp(reshape(%x, newshape=[2, 3, 4]))",           // no product
                           "exp(reshape(nn.dense(%x, %w), newshape=[48]))",  // columns aren't kept
                           "add(reshape(nn.dense(%x, %w), newshape=[1, 6, 8]), reshape(%b, newshape=[1, 1, 8]))"}) {
    ExpectMoved(body, body);
  }
}

/// Their axis is one of the shape that they see.
TEST(ReshapeLast, OperatorsWithAnAxisStay) {
  const std::string head = "fn (%x: Tensor[(64, 4), float32], %w: Tensor[(8, 4), float32], %b: Tensor[(8), float32]) {";
  for (const char* op : {"nn.bias_add", "nn.prelu"}) {
    const std::string text = head + op + "(reshape(nn.dense(%x, %w), newshape=[1, 8, 8, 8]), %b) }";
    ExpectPass(transform::ReshapeLast(), text, text);
  }
}

}  // namespace
}  // namespace treadle::relay
