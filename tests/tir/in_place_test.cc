// SPDX-License-Identifier: Apache-2.0
// Which operands a function is seen to read only before their elements are overwritten.
#include "tir/in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "treadle/ir/prim_ops.h"
#include "treadle/tir/text.h"

namespace treadle::tir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Operands of a function of X and Y [64] with the result Z [64].
std::vector<int> Operands(const std::string& body) {
  const std::string head = R"(primfn(x: handle, y: handle, z: handle) -> ()
  attr = {"global_symbol": "f"}
  buffers = {X: Buffer(p: Pointer(float32), float32, [64], []), Y: Buffer(q: Pointer(float32), float32, [64], []),
             Z: Buffer(r: Pointer(float32), float32, [64], [])}
  buffer_map = {x: X, y: Y, z: Z} {
)";
  return InPlaceOperands(ParsePrimFunc(head + body + "}"));
}

TEST(InPlaceOperands, ElementWise) {
  EXPECT_THAT(Operands("for (i: int32, 0, 64) parallel { Z[i] = (X[i] + Y[i])*X[i] }"), ElementsAre(0, 1));
}

TEST(InPlaceOperands, OtherElementsAreRead) {
  EXPECT_THAT(Operands("for (i: int32, 0, 64) { Z[i] = X[(63 - i)] + Y[i] }"), ElementsAre(1));
  EXPECT_THAT(Operands("for (i: int32, 0, 64) { Z[i] = X[0] + Y[i] }"), ElementsAre(1));
}

TEST(InPlaceOperands, CopiesBindOneVariableToSeveralIndices) {
  // The element read under the first binding isn't the one stored under the second, though both are called j.
  const Var i("i", DataType::Int(32)), j("j", DataType::Int(32));
  const DataType f32 = DataType::Float(32);
  const Buffer x = DeclBuffer({PrimExpr(64)}, f32, "X"), z = DeclBuffer({PrimExpr(64)}, f32, "Z"),
               sum = DeclBuffer({PrimExpr(1)}, f32, "sum");
  const Stmt read = LetStmt(j, PrimExpr(63) - i, BufferStore(sum, BufferLoad(x, {j}), {PrimExpr(0)}));
  const Stmt store = LetStmt(j, i, BufferStore(z, BufferLoad(sum, {PrimExpr(0)}), {j}));
  const Stmt body =
      Allocate(sum, For(i, PrimExpr(0), PrimExpr(64), ForKind::kSerial, SeqStmt(Array<Stmt>{read, store})));
  const Var px("x", DataType::Handle()), pz("z", DataType::Handle());
  Map<Var, Buffer> buffers;
  buffers.Set(px, x);
  buffers.Set(pz, z);
  EXPECT_THAT(InPlaceOperands(PrimFunc({px, pz}, body, Type(), buffers)), IsEmpty());
}

TEST(InPlaceOperands, Vectors) {
  EXPECT_THAT(Operands("for (i: int32, 0, 8) { Z[ramp((i*8), 1, 8)] = X[ramp((i*8), 1, 8)] + broadcast(Y[i], 8) }"),
              ElementsAre(0));
}

TEST(InPlaceOperands, AccumulatorsAreNotTheResult) {
  EXPECT_THAT(Operands(R"(
    for (i: int32, 0, 64) {
      allocate(s: Pointer(local float32), float32, [1]), storage_scope = "local";
      s[0] = 0f32
      for (k: int32, 0, 64) { s[0] = s[0] + Y[k] }
      Z[i] = s[0] + X[i]
    })"),
              ElementsAre(0));
}

TEST(InPlaceOperands, RowsAreReadBeforeTheyAreStored) {
  EXPECT_THAT(Operands(R"(
    for (i: int32, 0, 4) parallel {
      allocate(s: Pointer(local float32), float32, [1]), storage_scope = "local";
      s[0] = 0f32
      for (k: int32, 0, 16) { s[0] = s[0] + X[(i*16) + k] }
      for (j: int32, 0, 16) { Z[(i*16) + j] = X[(i*16) + j]*s[0] + Y[j] }
    })"),
              ElementsAre(0));
}

TEST(InPlaceOperands, AllIsReadBeforeAnythingIsStored) {
  EXPECT_THAT(Operands(R"(
    allocate(s: Pointer(global float32), float32, [64]), storage_scope = "global";
    for (i: int32, 0, 64) parallel { s[63 - i] = X[i] }
    for (j: int32, 0, 64) parallel { Z[j] = s[j] })"),
              ElementsAre(0, 1));
}

TEST(InPlaceOperands, ReadsAfterStoresAreRefused) {
  EXPECT_THAT(Operands(R"(
    allocate(s: Pointer(local float32), float32, [1]), storage_scope = "local";
    for (i: int32, 0, 4) {
      for (j: int32, 0, 16) {
        s[0] = 0f32
        for (k: int32, 0, 16) { s[0] = s[0] + X[(i*16) + k] }
        Z[(i*16) + j] = s[0]
      }
    })"),
              ElementsAre(1));
  EXPECT_THAT(Operands(R"(
    allocate(s: Pointer(global float32), float32, [64]), storage_scope = "global";
    for (i: int32, 0, 64) { Z[i] = Y[i] }
    for (j: int32, 0, 64) { s[j] = X[j] })"),
              ElementsAre(1));
}

TEST(InPlaceOperands, RowsOfOthersAreRefused) {
  EXPECT_THAT(Operands(R"(
    for (i: int32, 0, 4) parallel {
      allocate(s: Pointer(local float32), float32, [1]), storage_scope = "local";
      s[0] = 0f32
      for (k: int32, 0, 16) { s[0] = s[0] + X[(floormod((i + 1), 4)*16) + k] }
      for (j: int32, 0, 16) { Z[(i*16) + j] = s[0] }
    })"),
              ElementsAre(1));
}

TEST(InPlaceOperands, StoresUnderOtherConditionsDontCount) {
  EXPECT_THAT(Operands(R"(
    allocate(s: Pointer(global float32), float32, [64]), storage_scope = "global";
    for (i: int32, 0, 128) {
      s[floormod(i, 64)] = X[floormod((i + 1), 64)]
      if (i < 64) { Z[i] = s[i] }
    })"),
              ElementsAre(1));
}

TEST(InPlaceOperands, ElementsStoredTwice) {
  EXPECT_THAT(Operands("for (i: int32, 0, 64) { Z[i] = 0f32 Z[i] = X[i] }"), IsEmpty());
  // Two tiles that overlap.
  EXPECT_THAT(Operands("for (t: int32, 0, 2) { for (i: int32, 0, 40) { Z[(t*24) + i] = X[(t*24) + i] } }"), IsEmpty());
}

TEST(InPlaceOperands, ResultIsRead) {
  EXPECT_THAT(Operands("for (i: int32, 0, 64) { Z[i] = X[i] + Z[0] }"), IsEmpty());
}

TEST(InPlaceOperands, ConditionsOnLoops) {
  const char* const guarded = R"(
    for (t: int32, 0, 7) { for (i: int32, 0, 10) {
      if (@tir.likely((((t*10) + i) < 64), dtype=bool)) { Z[(t*10) + i] = X[(t*10) + i] + Y[i] }
    } })";
  EXPECT_THAT(Operands(guarded), ElementsAre(0));
  EXPECT_THAT(Operands("for (i: int32, 0, 64) { if (i < 8) { Z[i] = X[i] } else { Z[i] = Y[i] } }"), ElementsAre(0, 1));
}

TEST(InPlaceOperands, ConditionsOnDataAreRefused) {
  EXPECT_THAT(Operands("for (i: int32, 0, 64) { if (Y[i] < 0f32) { Z[i] = X[i] } else { Z[i] = 0f32 } }"), IsEmpty());
}

TEST(InPlaceOperands, AddressesAreRefused) {
  EXPECT_THAT(Operands(R"(
    for (i: int32, 0, 64) { Z[i] = X[i] + Y[i] }
    evaluate(@tir.call_extern("f", @tir.address_of(X[0], dtype=handle), dtype=int32)))"),
              ElementsAre(1));
}

TEST(InPlaceOperands, AttributeNamesSharedParameters) {
  PrimFunc func = WithInPlaceOperands(ParsePrimFunc(R"(primfn(x: handle, y: handle, z: handle) -> ()
    attr = {"global_symbol": "f"}
    buffers = {X: Buffer(p: Pointer(float32), float32, [8], []), Y: Buffer(q: Pointer(float16), float16, [8], []),
               Z: Buffer(r: Pointer(float32), float32, [8], [])}
    buffer_map = {x: X, y: Y, z: Z} { for (i: int32, 0, 8) { Z[i] = X[i] + cast(float32, Y[i]) } })"));
  EXPECT_THAT(SharedParams(func, 3), ElementsAre(true, false, true));
}

}  // namespace
}  // namespace treadle::tir
