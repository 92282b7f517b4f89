// SPDX-License-Identifier: Apache-2.0
// Lowering passes, text in and text out.
#include "tir/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unordered_set>

#include "tests_common/sample_functions.h"
#include "tir/passes/convert_ssa.h"
#include "tir/passes/strided_access.h"
#include "treadle/ir/structural.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"
#include "treadle/tir/verify.h"

namespace treadle::tir {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const kHead = R"(primfn(a: handle, n: int32) -> ()
  attr = {"global_symbol": "f"}
  buffers = {A: Buffer(p: Pointer(float32), float32, [64], [])}
  buffer_map = {a: A} {
)";

/// The body after the pass, in the printed form of `expected`.
void ExpectBody(PrimFunc (*pass)(PrimFunc, const LowerConfig&), const std::string& body, const std::string& expected) {
  PrimFunc after = pass(ParsePrimFunc(kHead + body + "}"), LowerConfig());
  EXPECT_EQ(FindFault(after), "");
  EXPECT_EQ(AsText(after, false), AsText(ParsePrimFunc(kHead + expected + "}"), false));
}

TEST(HoistIfThenElse, InvariantConditionsLeaveLoops) {
  ExpectBody(HoistIfThenElse,
             "for (i: int32, 0, 8) { for (j: int32, 0, 8) { if ((n < 4) && (j < i)) { A[(i*8) + j] = 1f32 } } }",
             "if (n < 4) { for (i: int32, 0, 8) { for (j: int32, 0, 8) { if (j < i) { A[(i*8) + j] = 1f32 } } } }");
}

TEST(HoistIfThenElse, ConditionsOnDataStay) {
  const char* text = "for (i: int32, 0, 8) { if (A[0] < 4f32) { A[i] = 1f32 } }";
  ExpectBody(HoistIfThenElse, text, text);
}

TEST(HoistIfThenElse, LikelyConjunctionsWithConditionsOnDataStay) {
  const char* text =
      "for (i: int32, 0, 8) { if (@tir.likely(((n < 4) && (A[0] < 4f32)), dtype=bool)) { A[i] = 1f32 } }";
  ExpectBody(HoistIfThenElse, text, text);
}

TEST(InjectVirtualThread, FewThreadsAreUnrolled) {
  ExpectBody(InjectVirtualThread, "for (i: int32, 0, 4) thread_binding(\"vthread\") { A[i] = 1f32 }",
             "for (i: int32, 0, 4) unroll { A[i] = 1f32 }");
}

TEST(Simplify, ConditionsOnDataHoldUntilTheDataAreWritten) {
  const char* text = "if (A[0] < 1f32) { A[0] = 2f32 if (A[0] < 1f32) { A[1] = 3f32 } }";
  ExpectBody(SimplifyFunc, text, text);
  ExpectBody(SimplifyFunc, "if (A[0] < 1f32) { A[1] = 2f32 if (n < 4) { if (n < 5) { A[2] = 3f32 } } }",
             "if (A[0] < 1f32) { A[1] = 2f32 if (n < 4) { A[2] = 3f32 } }");
}

TEST(Simplify, ConditionsDoNotHoldInTheOtherCase) {
  ExpectBody(SimplifyFunc, "if (n < 4) { A[0] = 1f32 } else { if (2 < n) { A[min(n, 3)] = 2f32 } }",
             "if (n < 4) { A[0] = 1f32 } else { A[3] = 2f32 }");
  // What was read before it was written says nothing, and a comparison with NaN holds in neither way.
  const char* text =
      "if (A[0] < 1f32) { A[1] = 1f32 } else { A[0] = 0f32 if (A[0] < 1f32) { A[1] = 3f32 } if (1f32 <= A[2]) { A[3] = "
      "1f32 } }";
  ExpectBody(SimplifyFunc, text, text);
}

TEST(LoopPartition, IterationsBeyondADynamicEndDoNotRun) {
  const char* text = R"(
    for (i: int32, 0, 8) {
      for (k: int32, 0, 4) {
        evaluate(@tir.prefetch(@tir.address_of((float32*)p[k], dtype=handle), 0, 2, 1, dtype=int32))
        for (r: int32, 0, 8) { if (((i*8) + r) < n) { A[((i*8) + r)] = 1f32 } }
      }
    })";
  const std::string after = AsText(LoopPartition(ParsePrimFunc(kHead + std::string(text) + "}"), LowerConfig()), false);
  // Whole tiles, and what is left: up to ceil(n / 8), not to 8.
  EXPECT_THAT(after, HasSubstr("0, max(0, min(floordiv(n, 8), 8))"));
  EXPECT_THAT(after, HasSubstr("floordiv((n + 7), 8)"));
}

/// Loops over what is left of a block of tiles, too: few rows would run through all tiles of a block otherwise.
TEST(LoopPartition, IterationsBeyondADynamicEndDoNotRunInBlocks) {
  const char* text = R"(
    for (o: int32, 0, floordiv((n + 799), 800)) {
      for (i: int32, 0, 100) {
        for (r: int32, 0, 8) unroll { if ((((o*800) + (i*8)) + r) < n) { A[(((o*800) + (i*8)) + r)] = 1f32 } }
      }
    })";
  const std::string after = AsText(LoopPartition(ParsePrimFunc(kHead + std::string(text) + "}"), LowerConfig()), false);
  EXPECT_THAT(after, HasSubstr("(floordiv((n + 7), 8) - (o_1*100))"));
}

/// Borders that a run gives: read once, so that loops can be cut at them. What the function writes stays where it is.
TEST(LoopPartition, LoopsAreCutAtNumbersOfOperands) {
  const auto after = [](const std::string& noalias) {
    const std::string text = R"(primfn(a: handle, b: handle, c: handle) -> ()
  attr = {"global_symbol": "f", "tir.noalias": )" +
                             noalias + R"(}
  buffers = {A: Buffer(p: Pointer(float32), float32, [64], []),
             B: Buffer(q: Pointer(int64), int64, [2], []),
             C: Buffer(r: Pointer(int64), int64, [2], [])}
  buffer_map = {a: A, b: B, c: C} {
    for (i: int64, 0i64, 64i64) {
      A[i] = @tir.if_then_else(((i - max(q[1], 0i64)) >= 0i64), 1f32, 2f32, dtype=float32)
    }
    for (i: int64, 0i64, 2i64) { if (i < r[0]) { r[i] = 0i64 } }
})";
    return AsText(LoopPartition(ParsePrimFunc(text), LowerConfig()), false);
  };
  EXPECT_THAT(after("True"), HasSubstr("let read: int64 = max(B[1], 0i64)"));
  EXPECT_THAT(after("True"), HasSubstr("A[i_1] = 1f32"));
  EXPECT_THAT(after("True"), HasSubstr("< C[0]"));
  EXPECT_THAT(after("False"), Not(HasSubstr("let read")));
}

/// Operands of one form are different ones.
TEST(LoopPartition, NumbersOfSeveralOperandsStayApart) {
  const std::string after = AsText(LoopPartition(ParsePrimFunc(R"(primfn(a: handle, b: handle, c: handle) -> ()
  attr = {"global_symbol": "f", "tir.noalias": True}
  buffers = {A: Buffer(p: Pointer(float32), float32, [64], []),
             B: Buffer(q: Pointer(int64), int64, [1], []),
             C: Buffer(r: Pointer(int64), int64, [1], [])}
  buffer_map = {a: A, b: B, c: C} {
    for (i: int64, 0i64, 64i64) {
      A[i] = @tir.if_then_else(((i >= q[0]) && (i < r[0])), 1f32, 2f32, dtype=float32)
    }
})"),
                                                 LowerConfig()),
                                   false);
  EXPECT_THAT(after, HasSubstr("= B[0]"));
  EXPECT_THAT(after, HasSubstr("= C[0]"));
}

/// A loop whose whole body has an end needs nothing after its main part, and one around parallel loops no forms.
TEST(LoopPartition, DynamicEndsOfAllThatIsDoneLeaveNoRest) {
  const char* text = R"(
    for (i: int32, 0, n) {
      for (j: int32, 0, 4) parallel {
        for (k: int32, 0, 8) { if (((i*8) + k) < n) { A[((i*8) + k)] = 1f32 } }
      }
    })";
  ExpectBody(LoopPartition, text, R"(
    for (i: int32, 0, n) {
      for (j: int32, 0, 4) parallel {
        for (k: int32, 0, max(0, min((n - (i*8)), 8))) { A[((i*8) + k)] = 1f32 }
      }
    })");
}

/// Conditions that depend on the loop otherwise than by a multiple of its variable can't cut it.
TEST(LoopPartition, AnnotatedLoopsHaveABodyWithoutConditions) {
  const char* text = R"(
    for (t: int32, 0, 8) annotations {"partition_whole": 1i64} {
      for (y: int32, 0, 4) unroll {
        if (t < n) { if (((floordiv(t, 3)*4) + y) < (n*2)) { A[((t*4) + y)] = 1f32 } }
      }
    })";
  const std::string after = AsText(LoopPartition(ParsePrimFunc(kHead + std::string(text) + "}"), LowerConfig()), false);
  EXPECT_THAT(after, HasSubstr("for (t: int32, 0, max(0, min(n, 8)))"));
  EXPECT_THAT(after, HasSubstr("if ((((floordiv(t, 3)*4) + 4) - (n*2)) <= 0)"));
  EXPECT_THAT(after, HasSubstr("} else {"));
  EXPECT_THAT(after, HasSubstr("if (((floordiv(t, 3)*4) + y) < (n*2))"));
}

TEST(NarrowTails, TilesOfFewRowsHaveFormsOfTheirOwn) {
  const char* text = R"(
    for (i: int32, 0, n) {
      allocate(t: Pointer(local float32), float32, [14]), storage_scope = "local";
      for (k: int32, 0, 4) {
        for (r: int32, 0, 14) unroll { if (((i*14) + r) < n) { t[r] = A[k] } }
      }
      for (r, 0, 14) unroll { if (((i*14) + r) < n) { A[((i*14) + r)] = t[r] } }
    })";
  const std::string after = AsText(NarrowTails(ParsePrimFunc(kHead + std::string(text) + "}"), LowerConfig()), false);
  EXPECT_THAT(after, HasSubstr("for (r: int32, 0, 2) unroll"));
  for (const char* width : {"5", "8", "11", "14"}) EXPECT_THAT(after, HasSubstr(StrCat("(r, 0, ", width, ") unroll")));
}

/// The form of five elements runs where there are at least three: those are where they are, the others may be the last.
TEST(NarrowTails, OnlyElementsThatMayBeBeyondTheEndHaveAddressesOfTheirOwn) {
  const char* text = R"(
    for (i: int32, 0, n) {
      allocate(t: Pointer(local float32), float32, [7]), storage_scope = "local";
      for (k: int32, 0, 4) {
        for (r: int32, 0, 7) unroll { if (((i*7) + r) < n) { t[r] = A[((i*7) + r)] } }
      }
      for (r, 0, 7) unroll { if (((i*7) + r) < n) { A[((i*7) + r)] = t[r] } }
    })";
  PrimFunc func = ParsePrimFunc(kHead + std::string(text) + "}");
  for (const LoweringPass& pass : LoweringPasses()) {
    const std::string name = pass.name;
    if (name == "NarrowTails" || name == "RelaxTails" || name == "UnrollLoop" || name == "Simplify") {
      func = pass.run(func, LowerConfig());
    }
  }
  const std::string after = AsText(func, false);
  EXPECT_THAT(after, HasSubstr("t[1] = A[(n - 1)]"));  // of the form of two
  EXPECT_THAT(after, Not(HasSubstr("min(2, ")));       // of a tile with at least three
  EXPECT_THAT(after, HasSubstr("min(6, "));
}

/// Of a vector that the end of a row cuts off, only what is read from elsewhere is masked.
TEST(RelaxTails, LanesBeyondTheEndAreComputed) {
  const char* text = R"(
    for (i: int32, 0, n) {
      allocate(t: Pointer(local float32), float32, [4]), storage_scope = "local";
      for (r: int32, 0, 4) vectorized { if (((i*4) + r) < n) { t[r] = 0f32 } }
      for (k: int32, 0, 3) {
        for (r, 0, 4) vectorized { if (((i*4) + r) < n) { t[r] = max(t[r], A[(((i*4) + r) + k)]) } }
      }
      for (r, 0, 4) vectorized { if (((i*4) + r) < n) { A[((i*4) + r)] = t[r] } }
    })";
  const auto after = [&](const std::string& source) {
    return AsText(RelaxTails(ParsePrimFunc(kHead + source + "}"), LowerConfig()), false);
  };
  EXPECT_THAT(after(text),
              HasSubstr("t[r] = max((float32*)t[r], @tir.if_then_else((((i*4) + r) < n), A[(((i*4) + r) + k)], 0f32"));
  EXPECT_THAT(after(text), HasSubstr("if (((i*4) + r) < n) {"));  // what is stored in A
  // Not where the buffer ends earlier, or what is computed might fail.
  const auto with = [&](std::string from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return after(changed);
  };
  EXPECT_THAT(with("[4])", "[3])"), Not(HasSubstr("if_then_else")));
  EXPECT_THAT(with("max(t[r], A[(((i*4) + r) + k)])", "A[floordiv(n, r)]"), Not(HasSubstr("if_then_else")));
  EXPECT_THAT(with("A[(((i*4) + r) + k)]", "A[((floordiv(i, n) + r) + k)]"), HasSubstr("if_then_else"));
  // Nor where places are looked up in rows of joined loops: under a mask of its own such a load has no vector.
  EXPECT_THAT(with("A[(((i*4) + r) + k)]", "A[((floordiv(i, n) + r) + cast(int32, A[k]))]"),
              Not(HasSubstr("if_then_else")));
}

/// A load right behind a masked store would wait for it: buffers that vectors fill have room for the last one.
TEST(RelaxTails, VectorsMayEndBehindBuffersOfRunTimeLength) {
  const auto after = [](const std::string& length, const std::string& place, const std::string& value) {
    const std::string text =
        "allocate(t: Pointer(global float32), float32, [" + length +
        "]), storage_scope = \"global\";\nfor (i: int32, 0, n) { for (r: int32, 0, 4) vectorized " +
        "{ if (((i*4) + r) < n) { t[" + place + "] = " + value + " } } }\nA[0] = t[0] + t[(n - 1)]";
    return AsText(RelaxTails(ParsePrimFunc(kHead + text + "}"), LowerConfig()), false);
  };
  const std::string place = "((i*4) + r)", value = "@tir.exp(A[((i*4) + r)], dtype=float32)";
  const std::string grown = after("n", place, value);
  EXPECT_THAT(grown, HasSubstr("float32, [(n + 3)]"));
  EXPECT_THAT(grown, HasSubstr("if ((i*4) < n) {"));
  EXPECT_THAT(grown, HasSubstr("t[((i*4) + r)] = @tir.exp(@tir.if_then_else((((i*4) + r) < n), A[((i*4) + r)], 0f32"));
  // Not where more follows in the buffer, elements are apart, or what is computed might fail.
  EXPECT_THAT(after("(n*2)", place, value), Not(HasSubstr("if_then_else")));
  EXPECT_THAT(after("(n*2)", "(((i*4) + r)*2)", value), Not(HasSubstr("if_then_else")));
  EXPECT_THAT(after("n", place, "cast(float32, floordiv(n, r))"), Not(HasSubstr("n + 3")));
}

TEST(NarrowTails, OneFormIsEnoughForWhatNothingRepeats) {
  const char* text = "for (i: int32, 0, n) { for (r: int32, 0, 14) unroll { if (((i*14) + r) < n) { A[r] = 1f32 } } }";
  ExpectBody(NarrowTails, text, text);
}

TEST(StorageRewrite, BuffersThatDontLiveTogetherShareMemory) {
  const char* text = R"(
    allocate(x: Pointer(global float32), float32, [4096]), storage_scope = "global";
    allocate(y: Pointer(global float32), float32, [4096]), storage_scope = "global";
    allocate(z: Pointer(global float32), float32, [2048]), storage_scope = "global";
    x[0] = A[0]
    y[0] = x[0]
    z[0] = y[0]
    A[0] = z[0])";
  std::string after = AsText(StorageRewrite(ParsePrimFunc(std::string(kHead) + text + "}"), LowerConfig()));
  EXPECT_THAT(after, HasSubstr("x[0] = (float32*)y[0]"));
  EXPECT_THAT(after, Not(HasSubstr("allocate(z")));
}

TEST(StorageRewrite, BuffersInUseTogetherStayApart) {
  const char* text = R"(
    allocate(x: Pointer(global float32), float32, [4096]), storage_scope = "global";
    allocate(y: Pointer(global float32), float32, [4096]), storage_scope = "global";
    x[0] = A[0]
    y[0] = A[1]
    A[0] = (float32*)x[0] + (float32*)y[0])";
  PrimFunc before = ParsePrimFunc(std::string(kHead) + text + "}");
  EXPECT_EQ(AsText(StorageRewrite(before, LowerConfig())), AsText(before));
}

TEST(InjectDoubleBuffer, FillsOneIterationAhead) {
  const char* text = R"(
    for (i: int32, 0, 8) {
      allocate(x: Pointer(global float32), float32, [4]), storage_scope = "global" annotations {"double_buffer_scope": 1};
      for (j: int32, 0, 4) { x[j] = A[i + j] }
      for (k: int32, 0, 4) { A[32 + k] = (float32*)x[k] }
    })";
  // What is filled is read from A, which the rest writes: refused.
  PrimFunc before = ParsePrimFunc(std::string(kHead) + text + "}");
  EXPECT_EQ(AsText(InjectDoubleBuffer(before, LowerConfig())), AsText(before));
}

TEST(Text, EveryPassKeepsTheRoundTrip) {
  LowerConfig config;
  PrimFunc func = testing_util::ConvRelu(6, 3);
  EXPECT_TRUE(StructuralEqual(func, ParsePrimFunc(AsText(func))));
  for (const LoweringPass& pass : LoweringPasses()) {
    func = pass.run(func, config);
    EXPECT_EQ(FindFault(func), "") << pass.name;
    EXPECT_EQ(StructuralDifference(func, ParsePrimFunc(AsText(func))), "") << pass.name << "\n" << AsText(func);
  }
}

TEST(CommonSubexpr, QuotientsThatALoopKeepsLeaveIt) {
  ExpectBody(CommonSubexpr, "for (i: int32, 0, 8) { A[floordiv(n, 3)] = A[(floordiv(n, 3) + i)] }",
             "let cse_var: int32 = floordiv(n, 3); for (i: int32, 0, 8) { A[cse_var] = A[(cse_var + i)] }");
}

TEST(CommonSubexpr, IndicesOfOneStatementAreSharedWithinTheLoop) {
  ExpectBody(CommonSubexpr, "for (i: int32, 0, 8) { A[floormod(i, 3)] = (A[floormod(i, 3)] + 1f32) }",
             "for (i: int32, 0, 8) { let cse_var: int32 = floormod(i, 3); A[cse_var] = (A[cse_var] + 1f32) }");
}

TEST(CommonSubexpr, EqualValuesAreComputedOnce) {
  ExpectBody(CommonSubexpr, "A[n] = ((A[(n + 1)]*A[(n + 2)]) + @tir.exp((A[(n + 1)]*A[(n + 2)]), dtype=float32))",
             "A[n] = (let t: float32 = (A[(n + 1)]*A[(n + 2)]) in (t + @tir.exp(t, dtype=float32)))");
}

TEST(CommonSubexpr, WhatOnlyOneCaseReadsIsNotReadBefore) {
  const std::string text =
      "A[n] = (@tir.if_then_else((n < 4), (A[(n + 1)] + A[(n + 2)]), 0f32, dtype=float32) + "
      "@tir.if_then_else((n < 5), (A[(n + 1)] + A[(n + 2)]), 1f32, dtype=float32))";
  ExpectBody(CommonSubexpr, text, text);
}

TEST(CommonSubexpr, LetsOfOneVariableKeepWhatUsesItInside) {
  // exp(t) looks the same in both, and may not be computed before them.
  const Var t("t", DataType::Float(32)), i("i", DataType::Int(32));
  const Buffer a = DeclBuffer({PrimExpr(64)}, DataType::Float(32), "A"),
               b = DeclBuffer({PrimExpr(64)}, DataType::Float(32), "B");
  const PrimExpr load = BufferLoad(a, {i}), shared = exp(t * t + t);
  const PrimExpr value = Let(t, load, shared * shared) + Let(t, load + make_const(load.dtype(), 1), shared * shared);
  PrimFunc func({a->data, b->data}, For(i, PrimExpr(0), PrimExpr(4), ForKind::kSerial, BufferStore(b, value, {i})));
  EXPECT_EQ(FindFault(CommonSubexpr(func, LowerConfig())), "");
}

TEST(CompactBuffers, CopiesOfAnAllocationKeepTheRoomThatEachNeeds) {
  const std::string text = R"(
    allocate B_1: Buffer(B: Pointer(global float32), float32, [64], []);
    for (i: int32, 0, %) { B_1[i] = A[i] }
    A[0] = B_1[0])";
  auto copy = [&](const char* extent) { return std::string(text).replace(text.find('%'), 1, extent); };
  PrimFunc one = ParsePrimFunc(kHead + copy("32") + "}"), two = ParsePrimFunc(kHead + copy("4") + "}");
  // The second copy of the statement needs less than the first one.
  const auto* first = one->body.as<AllocateNode>();
  const auto* second = two->body.as<AllocateNode>();
  Map<Var, PrimExpr> same;
  same.Set(second->buffer->data, first->buffer->data);
  PrimFunc both = one;
  both.CopyOnWrite()->body = SeqStmt(Array<Stmt>{one->body, Substitute(two->body, same)});
  const std::string after = AsText(CompactBuffers(both, LowerConfig()), false);
  EXPECT_THAT(after, Not(HasSubstr("[4]")));
}

/// 2^64 steps, which counted as none: the loop around them was unrolled.
TEST(UnrollLoop, CountsOfStepsMayExceedEveryNumber) {
  std::string text = "A[0] = 1f32";
  for (const char* extent : {"4294967296", "4294967296", "2"}) {
    text = StrCat("for (i", text.size(), ": int64, 0i64, ", extent, "i64) { ", text, " }");
  }
  LowerConfig config;
  config.unroll_max_step = 16;
  PrimFunc before = ParsePrimFunc(kHead + text + "}");
  EXPECT_EQ(AsText(UnrollLoop(before, config), false), AsText(before, false));
}

TEST(AlignStorage, RowsBeginAtMultiplesOfTheFactor) {
  const std::string after = AsText(AlignStorage(ParsePrimFunc(std::string(kHead) + R"(
    allocate B_1: Buffer(B: Pointer(float32), float32, [4, 10], []) annotations {"storage_alignment": [[0, 8, 4]]};
    for (i: int32, 0, 4) { B_1[i, 3] = A[i] }
    A[0] = B_1[3, 3] })"),
                                                LowerConfig()));
  EXPECT_THAT(after, HasSubstr("[4, 10], [12i64, 1i64]"));
}

/// A tile product states where the second row of an operand begins; other addresses tell nothing of it.
TEST(AlignStorage, OperandsOfTileProductsHaveStrides) {
  auto align = [](const std::string& user) {
    const std::string at = "@tir.address_of(B_1[0, 0], B_1[3, 9], dtype=handle)",
                      next = "@tir.address_of(B_1[1, 0], B_1[1, 0], dtype=handle)";
    return AsText(AlignStorage(ParsePrimFunc(std::string(kHead) +
                                             "allocate B_1: Buffer(B: Pointer(float32), float32, [4, 10], []) "
                                             "annotations {\"storage_alignment\": [[0, 8, 4]]}; "
                                             "evaluate(" +
                                             user + "(" + at + ", " + next + ", dtype=int32)) }"),
                               LowerConfig()));
  };
  EXPECT_THAT(align("@tir.tile_dot_pairs"), HasSubstr("[4, 10], [12i64, 1i64]"));
  EXPECT_THAT(align("@tir.call_extern"), Not(HasSubstr("[12i64")));
}

TEST(VectorizeLoop, LetsOfOneVariableMayShareTheirBody) {
  const Var t("t", DataType::Float(32)), i("i", DataType::Int(32));
  const Buffer a = DeclBuffer({PrimExpr(64)}, DataType::Float(32), "A"),
               b = DeclBuffer({PrimExpr(64)}, DataType::Float(32), "B");
  const PrimExpr square = t * t, load = BufferLoad(a, {i});
  const PrimExpr value = Let(t, load, square) + Let(t, load + make_const(load.dtype(), 1), square);
  Stmt loop = For(i, PrimExpr(0), PrimExpr(4), ForKind::kVectorized, BufferStore(b, value, {i}));
  PrimFunc func({a->data, b->data}, loop);
  EXPECT_EQ(FindFault(VectorizeLoop(func, LowerConfig())), "");
}

/// Where any lane runs the first one does: what all lanes share is read if that one may.
TEST(VectorizeLoop, LanesThatEndEarlyReadWhatTheyShareIfTheFirstOneRuns) {
  const PrimFunc func = ParsePrimFunc(std::string(kHead) +
                                      "for (i: int32, 0, 4) vectorized { if (@tir.likely(((n + i) < 7), dtype=bool)) { "
                                      "A[i] = A[n + 32] * A[n + i] } } }");
  const std::string after = AsText(VectorizeLoop(func, LowerConfig()), false);
  EXPECT_THAT(after, HasSubstr("if @tir.likely(((n + 0) < 7), dtype=bool) {"));
  EXPECT_THAT(after, HasSubstr("@tir.masked_store(A[ramp(0, 1, 4)], (ramp(n, 1, 4) < broadcast(7, 4)), "
                               "(broadcast(A[(n + 32)], 4)*@tir.masked_load(A[ramp(n, 1, 4)]"));
}

/// Remainders by a multiple of the lanes start at one, too.
TEST(VectorizeLoop, LanesWithinBlocksOfBlocksAreLoadedTogether) {
  ExpectBody(VectorizeLoop,
             "for (i: int32, 0, 4) vectorized { "
             "A[i] = A[floordiv(floormod(n*4 + i, 28), 16)*32 + floormod(floormod(n*4 + i, 28), 16)] }",
             "A[ramp(0, 1, 4)] = A[broadcast(floordiv(floormod(n*4, 28), 16), 4)*broadcast(32, 4) + "
             "ramp(floormod(floormod(n*4, 28), 16), 1, 4)]");
}

/// An operand that a run may broadcast: lanes were read one by one, as of any index that chooses.
TEST(VectorizeLoop, WhatAllLanesDecideAlikeIsDecidedOnce) {
  ExpectBody(VectorizeLoop, "for (i: int32, 0, 4) vectorized { A[i] = A[select((n == 1), 0, (n + i))] }",
             "A[ramp(0, 1, 4)] = @tir.if_then_else((n == 1), broadcast(A[0], 4), A[ramp(n, 1, 4)], dtype=float32x4)");
}

/// As the dimensions of a transpose whose order a run gives: each condition would double what is read.
TEST(VectorizeLoop, ManyDecisionsAreLeftToTheLanes) {
  std::string index = "i";
  for (int k = 0; k < 20; ++k) {
    index = "(select((n == " + std::to_string(k) + "), " + std::to_string(k) + ", i) + " + index + ")";
  }
  const PrimFunc func =
      ParsePrimFunc(std::string(kHead) + "for (i: int32, 0, 4) vectorized { A[i] = A[" + index + "] } }");
  const std::string after = AsText(VectorizeLoop(func, LowerConfig()), false);
  EXPECT_THAT(after, Not(HasSubstr("@tir.if_then_else")));
  EXPECT_LT(after.size(), 4000u);
}

/// Channels in vectors of four, those of one operand after 36 of another: lanes of a vector are on one side.
TEST(VectorizeLoop, GroupsOfLanesThatALimitDoesNotCutAreOnOneSideOfIt) {
  const auto expect = [](const std::string& condition, const std::string& decided) {
    ExpectBody(VectorizeLoop,
               "for (i: int32, 0, 4) vectorized { A[i] = @tir.if_then_else(" + condition +
                   ", A[n*4 + i], 0f32, dtype=float32) }",
               "A[ramp(0, 1, 4)] = @tir.if_then_else(" + decided +
                   ", A[ramp(n*4, 1, 4)], broadcast(0f32, 4), dtype=float32x4)");
  };
  expect("(n*4 + i) < 36", "(n*4) < 36");
  expect("(n*4 + i) >= 36", "(n*4) >= 36");
  expect("36 > (n*4 + i)", "36 > (n*4)");
  expect("36 <= (n*4 + i)", "36 <= (n*4)");
}

TEST(VectorizeLoop, LimitsWithinGroupsOfLanesDecideForEach) {
  for (const char* condition : {"(n*4 + i) < 37", "(n*4 + i) <= 36", "(n*2 + i) < 36"}) {
    const PrimFunc func = ParsePrimFunc(std::string(kHead) + "for (i: int32, 0, 4) vectorized { A[i] = select(" +
                                        condition + ", A[i], 0f32) } }");
    EXPECT_THAT(AsText(VectorizeLoop(func, LowerConfig()), false), HasSubstr("broadcast(3")) << condition;
  }
}

/// A scalar operand was no reason to run a loop over lanes: it is there whether any lane reads it or not.
TEST(VectorizeLoop, WhatIsAlwaysThereIsReadUnderAnyCondition) {
  ExpectBody(VectorizeLoop,
             "for (i: int32, 0, 4) vectorized { A[i] = @tir.if_then_else((7 < (n + i)), A[n + i] * A[3], 0f32, "
             "dtype=float32) }",
             "A[ramp(0, 1, 4)] = select((broadcast(7, 4) < ramp(n, 1, 4)), (@tir.masked_load(A[ramp(n, 1, 4)], "
             "(broadcast(7, 4) < ramp(n, 1, 4)), broadcast(0f32, 4), dtype=float32x4)*broadcast(A[3], 4)), "
             "broadcast(0f32, 4))");
}

TEST(VectorizeLoop, LanesThatBeginLateAreALoop) {
  const char* const loop = "(i: int32, 0, 4) %{ if (7 < (n + i)) { A[i] = A[n + 32] * A[n + i] } }";
  const auto text = [&](const std::string& kind) {
    return std::string(loop).replace(std::string(loop).find('%'), 1, kind);
  };
  ExpectBody(VectorizeLoop, "for " + text("vectorized "), "for " + text(""));
}

TEST(CoalesceStridedAccess, EveryOtherElementIsPickedFromWholeVectors) {
  ExpectBody(CoalesceStridedAccess, "A[ramp(0, 1, 4)] = A[ramp(n, 2, 4)]",
             "A[ramp(0, 1, 4)] = shuffle([A[ramp(n, 1, 4)], A[ramp((n + 3), 1, 4)]], [0, 2, 5, 7])");
}

/// Reading past the last of them was a gather.
TEST(CoalesceStridedAccess, ElementsThatExistArePickedFromMaskedVectors) {
  const PrimFunc func = ParsePrimFunc(std::string(kHead) +
                                      "A[ramp(0, 1, 4)] = @tir.masked_load(A[ramp(n, 2, 4)], (ramp(n, 1, 4) < "
                                      "broadcast(7, 4)), broadcast(0f32, 4), dtype=float32x4) }");
  const std::string after = AsText(CoalesceStridedAccess(func, LowerConfig()), false);
  EXPECT_THAT(after,
              HasSubstr("shuffle([@tir.masked_load(A[ramp(n, 1, 4)], shuffle([(ramp(n, 1, 4) < broadcast(7, 4)), "
                        "broadcast(False, 4)], [0, 4, 1, 4])"));
  EXPECT_THAT(after, HasSubstr("A[ramp((n + 3), 1, 4)], shuffle([(ramp(n, 1, 4) < broadcast(7, 4)), "
                               "broadcast(False, 4)], [4, 2, 4, 3])"));
  EXPECT_THAT(after, HasSubstr("[0, 2, 5, 7])"));
}

TEST(CoalesceStridedAccess, NeighboursThatLanesRepeatAreReadOnce) {
  const auto load = [](const std::string& ramp) {
    return "A[(broadcast(n, 8) + floordiv(" + ramp + ", broadcast(2, 8)))]";
  };
  ExpectBody(CoalesceStridedAccess, "A[ramp(0, 1, 8)] = " + load("ramp(0, 1, 8)"),
             "A[ramp(0, 1, 8)] = shuffle([A[ramp(n, 1, 4)]], [0, 0, 1, 1, 2, 2, 3, 3])");
  ExpectBody(CoalesceStridedAccess, "A[ramp(0, 1, 8)] = " + load("ramp(1, 1, 8)"),
             "A[ramp(0, 1, 8)] = " + load("ramp(1, 1, 8)"));  // five of eight
  ExpectBody(CoalesceStridedAccess, "A[ramp(0, 1, 8)] = " + load("ramp(0, 3, 8)"),
             "A[ramp(0, 1, 8)] = " + load("ramp(0, 3, 8)"));  // what lies between may not exist
  const PrimFunc func =
      ParsePrimFunc(std::string(kHead) + "A[ramp(0, 1, 8)] = @tir.masked_load(" + load("ramp(0, 1, 8)") +
                    ", (ramp(n, 1, 8) < broadcast(7, 8)), broadcast(0f32, 8), dtype=float32x8) }");
  const std::string after = AsText(CoalesceStridedAccess(func, LowerConfig()), false);
  EXPECT_THAT(after, HasSubstr("broadcast(False, 8)], [0, 2, 4, 6]) || shuffle("));
  EXPECT_THAT(after, HasSubstr("broadcast(False, 8)], [1, 3, 5, 7])"));
}

TEST(TransposeLoads, ColumnsAreReadAsRows) {
  const std::string after = AsText(TransposeLoads(ParsePrimFunc(std::string(kHead) + R"(
    allocate(x: Pointer(global float32), float32, [16]), storage_scope = "global";
    x[ramp(0, 1, 4)] = A[ramp(n, 8, 4)]
    x[ramp(4, 1, 4)] = A[ramp((n + 1), 8, 4)]
    x[ramp(8, 1, 4)] = A[ramp((n + 2), 8, 4)]
    x[ramp(12, 1, 4)] = A[ramp((n + 3), 8, 4)] })"),
                                                  LowerConfig()),
                                   false);
  EXPECT_THAT(after, Not(HasSubstr("8, 4")));
  EXPECT_THAT(after, HasSubstr("A[ramp((n + 24), 1, 4)]"));
}

TEST(TransposeLoads, RowsMayBeAsFarApartAsARunSays) {
  std::string text = R"(allocate(x: Pointer(global float32), float32, [16]), storage_scope = "global";)";
  for (int i = 0; i < 4; ++i) text += StrCat("\n x[ramp(", 4 * i, ", 1, 4)] = A[ramp(", i, ", n, 4)]");
  const std::string after = AsText(TransposeLoads(ParsePrimFunc(kHead + text + "}"), LowerConfig()), false);
  EXPECT_THAT(after, Not(HasSubstr("n, 4)")));
  EXPECT_THAT(after, HasSubstr("n*3)"));
}

TEST(TransposeLoads, ThreeColumnsAreReadAsTheyAre) {
  const char* text = R"(
    A[ramp(0, 1, 4)] = A[ramp(n, 8, 4)]
    A[ramp(4, 1, 4)] = A[ramp((n + 1), 8, 4)]
    A[ramp(8, 1, 4)] = A[ramp((n + 2), 8, 4)])";
  ExpectBody(TransposeLoads, text, text);
}

/// They were read before it was asked whether they exist.
TEST(TransposeLoads, ColumnsUnderAConditionAreReadUnderIt) {
  auto stores = [](const std::vector<std::string>& conditions) {
    std::string text = R"(allocate(x: Pointer(global float32), float32, [16]), storage_scope = "global";)";
    for (size_t i = 0; i < conditions.size(); ++i) {
      text += StrCat("\n x[ramp(", 4 * i, ", 1, 4)] = @tir.if_then_else((n < ", conditions[i], "), A[ramp((n + ", i,
                     "), 8, 4)], broadcast(0f32, 4), dtype=float32x4)");
    }
    return text;
  };
  auto transposed = [&](const std::vector<std::string>& conditions) {
    const PrimFunc func = ParsePrimFunc(kHead + stores(conditions) + "}");
    return AsText(TransposeLoads(func, LowerConfig()), false);
  };
  const std::string after = transposed({"5", "5", "5", "5"});
  EXPECT_THAT(after, HasSubstr("A[ramp(((n + 0) + 24), 1, 4)]"));
  EXPECT_LT(after.find("if (n < 5)"), after.find("let rows"));
  EXPECT_THAT(after, Not(HasSubstr("if_then_else")));
  EXPECT_THAT(transposed({"5", "5", "5", "6"}), Not(HasSubstr("let")));
}

TEST(InterleaveStores, VectorsThatFillEachOthersGapsAreOne) {
  ExpectBody(InterleaveStores, "A[ramp(n, 2, 4)] = broadcast(1f32, 4)\n A[ramp((n + 1), 2, 4)] = broadcast(2f32, 4)",
             "A[ramp(n, 1, 8)] = shuffle([broadcast(1f32, 4), broadcast(2f32, 4)], [0, 4, 1, 5, 2, 6, 3, 7])");
}

TEST(InterleaveStores, OthersStay) {
  for (const char* text : {
           "A[ramp(n, 2, 4)] = broadcast(1f32, 4)\n A[ramp((n + 2), 2, 4)] = broadcast(2f32, 4)",
           "A[ramp((n + 1), 2, 4)] = broadcast(1f32, 4)\n A[ramp(n, 2, 4)] = broadcast(2f32, 4)",
           "A[ramp(n, 2, 4)] = broadcast(1f32, 4)\n A[ramp((n + 1), 2, 4)] = A[ramp(n, 2, 4)]",
           "A[ramp(n, 4, 4)] = broadcast(1f32, 4)\n A[ramp((n + 1), 4, 4)] = broadcast(2f32, 4)",
       }) {
    ExpectBody(InterleaveStores, text, text);
  }
}

TEST(StridedAccess, IsDescribedPerLoop) {
  const PrimFunc f =
      ParsePrimFunc(std::string(kHead) +
                    "for (i: int32, 0, 4) { for (j: int32, 0, 8) vectorized { A[j] = A[((j*4) + i)] + A[i] } } }");
  EXPECT_EQ(DescribeStridedAccesses(f),
            "loop j vectorize: loads A with stride 4\nloop j vectorize: loads A with stride 0\n"
            "loop j vectorize: stores A with stride 1\n");
}

TEST(LegalizeNarrowFloat, RoundsAtTheEndOfAnExpression) {
  const char* head = R"(primfn(a: handle, n: int32) -> ()
  attr = {"global_symbol": "f"}
  buffers = {A: Buffer(p: Pointer(float16), float16, [64], [])}
  buffer_map = {a: A} {
)";
  const PrimFunc f = ParsePrimFunc(std::string(head) + "A[0] = ((A[1] + A[2]) * A[3]) }");
  const PrimFunc expected =
      ParsePrimFunc(std::string(head) +
                    "A[0] = cast(float16, ((cast(float32, A[1]) + cast(float32, A[2])) * cast(float32, A[3]))) }");
  EXPECT_EQ(AsText(LegalizeNarrowFloat(f, LowerConfig()), false), AsText(expected, false));
}

TEST(LegalizeNarrowFloat, IsComputedAsFloat32) {
  const char* head = R"(primfn(a: handle, n: int32) -> ()
  attr = {"global_symbol": "f"}
  buffers = {A: Buffer(p: Pointer(float16), float16, [64], [])}
  buffer_map = {a: A} {
)";
  const PrimFunc f = ParsePrimFunc(std::string(head) + "A[0] = (A[1] + A[2]) }");
  const PrimFunc expected =
      ParsePrimFunc(std::string(head) + "A[0] = cast(float16, (cast(float32, A[1]) + cast(float32, A[2]))) }");
  EXPECT_EQ(AsText(LegalizeNarrowFloat(f, LowerConfig()), false), AsText(expected, false));
}

TEST(ConvertSSA, CopiesOfAStatementBindVariablesOfTheirOwn) {
  PrimFunc func = ParsePrimFunc(std::string(kHead) + R"(
    for (i: int32, 0, n) {
      allocate(B: Pointer(local float32), float32, [4]), storage_scope = "local";
      let x: int32 = (i + 1);
      B[floormod(x, 4)] = A[i]
      A[x] = (B[0] + cast(float32, (let y: int32 = (x*2) in (y + y))))
    }
  })");
  const Stmt once = func->body;
  func.CopyOnWrite()->body = SeqStmt({once, once});
  const PrimFunc after = ConvertSSA(func, LowerConfig());
  EXPECT_EQ(FindFault(after), "");
  const auto* seq = after->body.as<SeqStmtNode>();
  ASSERT_NE(seq, nullptr);
  EXPECT_TRUE(seq->seq[0].same_as(once));
  EXPECT_TRUE(StructuralEqual(seq->seq[0], seq->seq[1], true));
  std::unordered_set<const Object*> first;
  PostOrderVisit(seq->seq[0], [&](const ObjectRef& node) { first.insert(node.get()); });
  PostOrderVisit(seq->seq[1], [&](const ObjectRef& node) {
    const auto* var = node.as<VarNode>();
    if (var != nullptr) {
      EXPECT_EQ(first.count(var), var->name_hint == "n" ? 1 : 0) << var->name_hint;
    }
  });
  EXPECT_TRUE(ConvertSSA(after, LowerConfig())->body.same_as(after->body));
}

}  // namespace
}  // namespace treadle::tir
