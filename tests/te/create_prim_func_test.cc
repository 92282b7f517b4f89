// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::te {
namespace {

std::vector<tir::Block> Blocks(const tir::PrimFunc& func) {
  std::vector<tir::Block> blocks;
  tir::PostOrderVisit(func, [&](const ObjectRef& node) {
    if (const auto* block = node.as<tir::BlockNode>()) blocks.push_back(GetRef<tir::Block>(block));
  });
  return blocks;
}

TEST(CreatePrimFunc, MatmulHasOneBlockWithInit) {
  Tensor a = Placeholder({PrimExpr(4), PrimExpr(8)}, DataType::Float(32), "A");
  Tensor b = Placeholder({PrimExpr(8), PrimExpr(6)}, DataType::Float(32), "B");
  IterVar k = ReduceAxis(Range(PrimExpr(8)), "k");
  Tensor c =
      Compute({PrimExpr(4), PrimExpr(6)}, [&](const Array<Var>& i) { return Sum(a(i[0], k) * b(k, i[1]), {k}); }, "C");
  auto blocks = Blocks(CreatePrimFunc({a, b, c}));
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0]->name_hint, "C");
  EXPECT_TRUE(blocks[0]->init.defined());
  EXPECT_EQ(blocks[0]->iter_vars.size(), 3u);
  EXPECT_EQ(blocks[0]->reads.size(), 2u);
  EXPECT_EQ(blocks[0]->writes.size(), 1u);
}

TEST(CreatePrimFunc, SharedSubexpressionsStaySmall) {
  Tensor a = Placeholder({PrimExpr(4)}, DataType::Float(32), "A");
  Tensor c = Compute(
      {PrimExpr(4)},
      [&](const Array<Var>& i) {
        PrimExpr y = a(i[0]);
        for (int n = 0; n < 40; ++n) y = y * y;
        return y;
      },
      "C");
  int loads = 0;
  tir::PostOrderVisit(CreatePrimFunc({a, c}),
                      [&](const ObjectRef& node) { loads += node.as<tir::BufferLoadNode>() != nullptr; });
  EXPECT_LE(loads, 8);
}

TEST(CreatePrimFunc, MissingArgumentIsNamed) {
  Tensor a = Placeholder({PrimExpr(4)}, DataType::Float(32), "weights");
  Tensor c = Compute({PrimExpr(4)}, [&](const Array<Var>& i) { return a(i[0]); }, "C");
  try {
    CreatePrimFunc({c});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("weights"), std::string::npos);
  }
}

TEST(CreatePrimFunc, WindowReadsAreHulls) {
  Tensor a = Placeholder({PrimExpr(10)}, DataType::Float(32), "A");
  Tensor c = Compute({PrimExpr(8)}, [&](const Array<Var>& i) { return a(i[0]) + a(i[0] + 1) + a(i[0] + 2); }, "C");
  auto blocks = Blocks(CreatePrimFunc({a, c}));
  EXPECT_EQ(tir::as_int(blocks[0]->reads[0]->region[0]->extent, "extent"), 3);
}

TEST(Compute, WrongRankIsAnError) {
  Tensor a = Placeholder({PrimExpr(10), PrimExpr(2)}, DataType::Float(32), "A");
  EXPECT_THROW(a(PrimExpr(1)), ShapeError);
}

TEST(Compute, NestedReductionIsAnError) {
  Tensor a = Placeholder({PrimExpr(10)}, DataType::Float(32), "A");
  IterVar k = ReduceAxis(Range(PrimExpr(10)), "k");
  EXPECT_THROW(Compute({}, [&](const Array<Var>&) { return Sum(a(k), {k}) / 10; }, "mean"), Error);
}

}  // namespace
}  // namespace treadle::te
