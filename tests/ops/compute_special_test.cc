// SPDX-License-Identifier: Apache-2.0
// Values of operators with index patterns of their own.
#include <cmath>

#include "ops/op_test_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/vision.h"

namespace treadle::ops {
namespace {

std::vector<float> RunFloats(const std::string& name, const std::vector<NDArray>& inputs, Attrs attrs = Attrs(),
                             bool is_tuple = false) {
  return ToVector<float>(RunOp(name, inputs, attrs, is_tuple)[0]);
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5f) << "element " << i;
}

Attrs Equation(const char* equation) {
  return MakeAttrs<EinsumAttrs>([&](auto& a) { a.equation = equation; });
}

TEST(ComputeSpecial, EinsumMultipliesTransposesAndSums) {
  NDArray a = Floats({2, 2}, {1, 2, 3, 4}), b = Floats({2, 2}, {5, 6, 7, 8});
  ExpectNear(RunFloats("einsum", {a, b}, Equation("ij,jk->ik"), true), {19, 22, 43, 50});
  ExpectNear(RunFloats("einsum", {a}, Equation("ij->ji"), true), {1, 3, 2, 4});
  ExpectNear(RunFloats("einsum", {a}, Equation("ii"), true), {5});
  ExpectNear(RunFloats("einsum", {a, b}, Equation("...i,...i->..."), true), {17, 53});
}

TEST(ComputeSpecial, EinsumNamesWhatIsWrong) {
  TupleType operands(Array<Type>{F32({2, 3})});
  EXPECT_EQ(Infer("einsum", {operands}, Equation("ij,jk->ik")), "equation \"ij,jk->ik\" has more terms than operands");
  EXPECT_EQ(Infer("einsum", {operands}, Equation("ij->ik")),
            "equation \"ij->ik\" names a dimension of the result that no operand has");
}

TEST(ComputeSpecial, SpaceToBatchAndBack) {
  NDArray x = Floats({1, 2, 2, 1}, {1, 2, 3, 4});
  NDArray blocks = RunOp("nn.space_to_batch_nd", {x}, MakeAttrs<SpaceToBatchNDAttrs>([](auto& a) {
                           a.block_shape = {2, 2};
                           a.paddings = IntPairs({{0, 0}, {0, 2}});
                         }))[0];
  ExpectNear(ToVector<float>(blocks), {1, 0, 2, 0, 3, 0, 4, 0});
  ExpectNear(RunFloats("nn.batch_to_space_nd", {blocks}, MakeAttrs<BatchToSpaceNDAttrs>([](auto& a) {
                         a.block_shape = {2, 2};
                         a.crops = IntPairs({{0, 0}, {0, 2}});
                       })),
             {1, 2, 3, 4});
}

TEST(ComputeSpecial, UnravelIndex) {
  EXPECT_EQ(ToVector<int64_t>(RunOp("unravel_index", {Longs({2}, {5, 3}), Longs({2}, {2, 3})})[0]),
            (std::vector<int64_t>{1, 1, 2, 0}));
}

TEST(ComputeSpecial, InvertPermutation) {
  EXPECT_EQ(ToVector<int64_t>(RunOp("invert_permutation", {Longs({3}, {2, 0, 1})})[0]),
            (std::vector<int64_t>{1, 2, 0}));
}

TEST(ComputeSpecial, SearchSorted) {
  auto run = [](bool right) {
    Attrs attrs = MakeAttrs<SearchSortedAttrs>([&](auto& a) { a.right = right; });
    return ToVector<int32_t>(RunOp("searchsorted", {Floats({4}, {1, 2, 2, 3}), Floats({3}, {0, 2, 9})}, attrs)[0]);
  };
  EXPECT_EQ(run(false), (std::vector<int32_t>{0, 1, 4}));
  EXPECT_EQ(run(true), (std::vector<int32_t>{0, 3, 4}));
}

TEST(ComputeSpecial, MatrixSetDiag) {
  NDArray x = Floats({2, 3}, {0, 0, 0, 0, 0, 0});
  ExpectNear(RunFloats("matrix_set_diag", {x, Floats({2}, {1, 2})}), {1, 0, 0, 0, 2, 0});
  Attrs band = MakeAttrs<MatrixSetDiagAttrs>([](auto& a) {
    a.k1 = -1;
    a.k2 = 0;
  });
  ExpectNear(RunFloats("matrix_set_diag", {x, Floats({2, 2}, {1, 2, 3, 9})}, band), {1, 0, 0, 3, 2, 0});
}

TEST(ComputeSpecial, Trilu) {
  ExpectNear(RunFloats("trilu", {Floats({2, 2}, {1, 2, 3, 4}), Longs({}, {0})}), {1, 2, 0, 4});
}

TEST(ComputeSpecial, Mish) {
  ExpectNear(RunFloats("nn.mish", {Floats({4}, {-2, 0, 1, 50})}), {-0.252501477f, 0, 0.865098388f, 50});
  EXPECT_EQ(RunFloats("nn.mish", {Floats({1}, {1e30f})})[0], 1e30f);
}

TEST(ComputeSpecial, Gelu) {
  ExpectNear(RunFloats("nn.gelu", {Floats({5}, {-1e30f, -1, 0, 2, 50})}), {0, -0.158655254f, 0, 1.95449974f, 50});
  EXPECT_TRUE(std::isnan(RunFloats("nn.gelu", {Floats({1}, {NAN})})[0]));
}

TEST(ComputeSpecial, GridSampleOfTheIdentity) {
  NDArray theta = Floats({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  NDArray grid =
      RunOp("image.affine_grid", {theta}, MakeAttrs<AffineGridAttrs>([](auto& a) { a.target_shape = {2, 3}; }))[0];
  NDArray x = Floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectNear(RunFloats("image.grid_sample", {x, grid}), {1, 2, 3, 4, 5, 6});
}

TEST(ComputeSpecial, GridSamplePadding) {
  NDArray x = Floats({1, 1, 1, 2}, {1, 2});
  NDArray grid = Floats({1, 2, 1, 1}, {3, 0});  // x = 3, y = 0
  auto run = [&](const char* mode) {
    return RunFloats("image.grid_sample", {x, grid},
                     MakeAttrs<GridSampleAttrs>([&](auto& a) { a.padding_mode = mode; }));
  };
  ExpectNear(run("zeros"), {0});
  ExpectNear(run("border"), {2});
  ExpectNear(run("reflection"), {1});
}

TEST(ComputeSpecial, RoiAlignAveragesSamples) {
  NDArray x = Floats({1, 1, 2, 2}, {1, 2, 3, 4});
  NDArray rois = Floats({1, 5}, {0, 0, 0, 2, 2});
  auto run = [&](const char* mode) {
    return RunFloats("vision.roi_align", {x, rois}, MakeAttrs<ROIAlignAttrs>([&](auto& a) {
                       a.pooled_size = {1, 1};
                       a.sample_ratio = 1;
                       a.mode = mode;
                     }));
  };
  ExpectNear(run("avg"), {4});  // the sample at (1, 1)
  ExpectNear(run("max"), {4});
}

TEST(ComputeSpecial, RoiPoolTakesTheGreatest) {
  NDArray x = Floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  NDArray rois = Floats({1, 5}, {0, 0, 0, 1, 1});
  ExpectNear(RunFloats("vision.roi_pool", {x, rois}, MakeAttrs<ROIPoolAttrs>([](auto& a) { a.pooled_size = {1, 2}; })),
             {4, 5});
}

TEST(ComputeSpecial, NegativeLogLikelihood) {
  NDArray x = Floats({2, 3}, {-1, -2, -3, -4, -5, -6});
  NDArray weights = Floats({3}, {1, 2, 3});
  auto run = [&](const char* reduction, int64_t second) {
    return RunFloats("nn.nll_loss", {x, Longs({2}, {1, second}), weights},
                     MakeAttrs<NLLLossAttrs>([&](auto& a) { a.reduction = reduction; }));
  };
  ExpectNear(run("none", 2), {4, 18});
  ExpectNear(run("sum", 2), {22});
  ExpectNear(run("mean", 2), {4.4f});
  ExpectNear(run("mean", -100), {2});
}

TEST(ComputeSpecial, SparseToDense) {
  Attrs attrs = MakeAttrs<SparseToDenseAttrs>([](auto& a) { a.output_shape = {2, 2}; });
  ExpectNear(RunFloats("sparse_to_dense", {Longs({2, 2}, {0, 1, 1, 0}), Floats({2}, {5, 6}), Floats({}, {-1})}, attrs),
             {-1, 5, 6, -1});
}

TEST(ComputeSpecial, DensePackedInBlocks) {
  Attrs attrs = MakeAttrs<DensePackAttrs>([](auto& a) { a.weight_layout = "NC2n"; });
  // Columns 0, 1 in block 0; 2, 3 in block 1.
  NDArray weight = Floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  ExpectNear(RunFloats("nn.contrib_dense_pack", {Floats({1, 2}, {1, 10}), weight}, attrs), {31, 42, 75, 86});
}

TEST(ComputeSpecial, ShapesFromOperandsKeepTheRank) {
  EXPECT_EQ(Infer("dyn.reshape", {F32({2, 3}), I64({3})}), "Tensor[(?, ?, ?), float32]");
  EXPECT_EQ(Infer("dyn.reshape", {F32({2, 3}), I64({1, 3})}),
            "shape must have 1 dimensions, not Tensor[(1, 3), int64]");
}

TEST(ComputeSpecial, ResizeWithAlignedCornersUsesTheSizeBeforeRounding) {
  // The example of ONNX Resize: 4 * 0.6 = 2.4 columns.
  ExpectNear(RunFloats("image.resize2d", {Floats({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})},
                       MakeAttrs<Resize2DAttrs>([](auto& a) {
                         a.size = IntArray({1, 2});
                         a.scales = {0.6, 0.6};
                         a.coordinate_transformation_mode = "align_corners";
                       })),
             {1, 3.142857f});
}

TEST(ComputeSpecial, StridedSet) {
  NDArray x = Floats({5}, {0, 0, 0, 0, 0});
  ExpectNear(RunFloats("strided_set", {x, Floats({2}, {1, 2}), Longs({1}, {1}), Longs({1}, {4}), Longs({1}, {2})}),
             {0, 1, 0, 2, 0});
  ExpectNear(RunFloats("strided_set", {x, Floats({2}, {1, 2}), Longs({1}, {-1}), Longs({1}, {0}), Longs({1}, {-3})}),
             {0, 2, 0, 0, 1});
}

TEST(ComputeSpecial, CollapseSumUndoesBroadcasting) {
  Attrs attrs = MakeAttrs<InitOpAttrs>([](auto& a) { a.shape = IntArray({2, 1}); });
  ExpectNear(RunFloats("collapse_sum_to", {Floats({1, 2, 3}, {1, 2, 3, 4, 5, 6}), Longs({2}, {2, 1})}, attrs), {6, 15});
}

}  // namespace
}  // namespace treadle::ops
