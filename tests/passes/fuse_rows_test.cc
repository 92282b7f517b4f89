// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_rows.h"

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

constexpr const char* kNorm = R"(
fn (%x: Tensor[(4, 8), float32], %scale: Tensor[(8), float32]) {
  %0 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) { mean(%p0, axis=[1], keepdims=True) };
  %1 = %0(%x);
  %2 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(4, 1), float32], Primitive=1) { subtract(%p0, %p1) };
  %3 = %2(%x, %1);
  %5 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) {
    %4 = multiply(%p0, %p0);
    mean(%4, axis=[1], keepdims=True)
  };
  %6 = %5(%3);
  %9 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(4, 1), float32], %p2: Tensor[(8), float32], Primitive=1) {
    %7 = sqrt(%p1);
    %8 = divide(%p0, %7);
    multiply(%8, %p2)
  };
  %9(%3, %6, %scale)
})";

TEST(FuseRows, ANormIsOneFunction) {
  ExpectPass(transform::FuseRows(), kNorm, R"(
fn (%x: Tensor[(4, 8), float32], %scale: Tensor[(8), float32]) {
  %6 = fn (%p0: Tensor[(8), float32], %p1: Tensor[(4, 8), float32], Primitive=1) {
    %0 = mean(%p1, axis=[1], keepdims=True);
    %1 = subtract(%p1, %0);
    %2 = multiply(%1, %1);
    %3 = mean(%2, axis=[1], keepdims=True);
    %4 = sqrt(%3);
    %5 = divide(%1, %4);
    multiply(%5, %p0)
  };
  %6(%scale, %x)
})");
}

TEST(FuseRows, WhatMovesElementsAfterwardsIsAFunctionOfItsOwn) {
  ExpectPass(transform::FuseRows(), R"(
fn (%x: Tensor[(4, 8), float32]) {
  %0 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) { sum(%p0, axis=[1], keepdims=True) };
  %1 = %0(%x);
  %4 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(4, 1), float32], Primitive=1) {
    %2 = divide(%p0, %p1);
    %3 = transpose(%2, axes=[1, 0]);
    reshape(%3, newshape=[32])
  };
  %4(%x, %1)
})",
             R"(
fn (%x: Tensor[(4, 8), float32]) {
  %1 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) {
    %0 = sum(%p0, axis=[1], keepdims=True);
    divide(%p0, %0)
  };
  %2 = %1(%x);
  %4 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) {
    %3 = transpose(%p0, axes=[1, 0]);
    reshape(%3, newshape=[32])
  };
  %4(%2)
})");
}

TEST(FuseRows, WhatMovesElementsOfAMemberIsNotPartOfIt) {
  const char* text = R"(
fn (%x: Tensor[(8, 8), float32]) {
  %0 = fn (%p0: Tensor[(8, 8), float32], Primitive=1) { sum(%p0, axis=[1], keepdims=True) };
  %1 = %0(%x);
  %3 = fn (%p0: Tensor[(8, 8), float32], %p1: Tensor[(8, 1), float32], Primitive=1) {
    %2 = transpose(%p1, axes=[1, 0]);
    divide(%p0, %2)
  };
  %3(%x, %1)
})";
  ExpectPass(transform::FuseRows(), text, text);
}

TEST(FuseRows, AResultThatOthersReadStays) {
  const char* text = R"(
fn (%x: Tensor[(4, 8), float32]) {
  %0 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) { sum(%p0, axis=[1], keepdims=True) };
  %1 = %0(%x);
  %2 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(4, 1), float32], Primitive=1) { divide(%p0, %p1) };
  %3 = %2(%x, %1);
  (%3, %1)
})";
  ExpectPass(transform::FuseRows(), text, text);
}

TEST(FuseRows, OtherAxesAndLongRowsStay) {
  for (const char* reduced : {"axis=[0]", "axis=[0, 2]"}) {
    std::string text = R"(
fn (%x: Tensor[(4, 8, 6), float32]) {
  %0 = fn (%p0: Tensor[(4, 8, 6), float32], Primitive=1) { sum(%p0, AXES, keepdims=True) };
  %1 = %0(%x);
  %2 = fn (%p0: Tensor[(4, 8, 6), float32], %p1, Primitive=1) { divide(%p0, %p1) };
  %2(%x, %1)
})";
    text.replace(text.find("AXES"), 4, reduced);
    ExpectPass(transform::FuseRows(), text, text);
  }
  const char* text = R"(
fn (%x: Tensor[(4, 40000), float32]) {
  %0 = fn (%p0: Tensor[(4, 40000), float32], Primitive=1) { sum(%p0, axis=[1], keepdims=True) };
  %1 = %0(%x);
  %2 = fn (%p0: Tensor[(4, 40000), float32], %p1: Tensor[(4, 1), float32], Primitive=1) { divide(%p0, %p1) };
  %2(%x, %1)
})";
  ExpectPass(transform::FuseRows(), text, text);
}

TEST(FuseRows, RowsOfAnyLengthAreRows) {
  ExpectPass(transform::FuseRows(), R"(
fn (%x: Tensor[(n, 3, h, w), float32]) {
  %0 = fn (%p0: Tensor[(n, 3, h, w), float32], Primitive=1) { mean(%p0, axis=[2, 3], keepdims=True) };
  %1 = %0(%x);
  %2 = fn (%p0: Tensor[(n, 3, h, w), float32], %p1: Tensor[(n, 3, 1, 1), float32], Primitive=1) { subtract(%p0, %p1) };
  %2(%x, %1)
})",
             R"(
fn (%x: Tensor[(n, 3, h, w), float32]) {
  %1 = fn (%p0: Tensor[(n, 3, h, w), float32], Primitive=1) {
    %0 = mean(%p0, axis=[2, 3], keepdims=True);
    subtract(%p0, %0)
  };
  %1(%x)
})");
}

TEST(FuseRows, RowsOfALoopStayOutsideOfIt) {
  const char* text = R"(
fn (%x: Tensor[(4, 8), float32], %c: Tensor[(), bool]) {
  %0 = fn (%p0: Tensor[(4, 8), float32], Primitive=1) { sum(%p0, axis=[1], keepdims=True) };
  %1 = %0(%x);
  if (%c) {
    %2 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(4, 1), float32], Primitive=1) { divide(%p0, %p1) };
    %2(%x, %1)
  } else {
    %3 = fn (%p0: Tensor[(4, 8), float32], %p1: Tensor[(4, 1), float32], Primitive=1) { add(%p0, %p1) };
    %3(%x, %1)
  }
})";
  ExpectPass(transform::FuseRows(), text, text);
}

}  // namespace
}  // namespace treadle::relay
