// SPDX-License-Identifier: Apache-2.0
// ConvTransposeToProduct: transposed convolutions whose weights only the run knows. Kernels of phases rearrange weights
// when compiling (kernels/conv_transpose.cc). Without, the product of the transposed weights and of the image has what
// each pixel adds to each element of its window, and these columns are added up where the windows stand.
#include <algorithm>

#include "ops/infer.h"
#include "passes/pass_util.h"
#include "targets/cpu/graph/passes.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/columns_to_image.h"

namespace treadle::relay {
namespace {

using Ints = std::vector<int64_t>;

bool HasEmptyDim(const Array<PrimExpr>& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const PrimExpr& dim) { return tir::is_zero(dim); });
}

/// One call that is rewritten.
struct TransposedConv {
  const ops::ConvTransposeAttrs* a;
  const TensorTypeNode* data;
  Ints weight;  ///< (I, O / groups, window..)

  size_t rank() const { return weight.size() - 2; }
  int64_t taps() const {
    int64_t taps = 1;
    for (size_t d = 2; d < weight.size(); ++d) taps *= weight[d];
    return taps;
  }

  Expr Rewrite(const Expr& image, const Expr& kernel) const {
    const int64_t groups = a->groups, inputs = weight[0] / groups, rows = weight[1] * taps();
    Expr pixels = image;
    for (size_t d = 1; d < rank(); ++d) pixels = ops::MakeReshape(pixels, Ints{0, 0, -3, -2});
    Expr left = ops::MakeTranspose(ops::MakeReshape(kernel, Ints{groups, inputs, rows}), {0, 2, 1});
    if (groups > 1) {
      pixels = ops::MakeReshape(pixels, Ints{0, -4, groups, inputs, -2});
      pixels = ops::MakeReshape(pixels, Ints{-3, -2});
      left = ForEachSample(left, image, {groups, rows, inputs});
    }
    const Attrs product = MakeAttrs<ops::BatchMatmulAttrs>([](auto& attrs) { attrs.transpose_b = false; });
    return Image(ops::CallOp("nn.batch_matmul", {left, pixels}, product), image);
  }

 private:
  /// The sizes of dimensions, read in the run.
  static Expr SizesOf(const Expr& e, int64_t begin, int64_t end) {
    Expr all = ops::CallWith<ops::ShapeOfAttrs>("shape_of", {e}, [](auto& attrs) { attrs.dtype = DataType::Int(64); });
    return ops::MakeStridedSlice(all, {begin}, {end}, {1}, Ints{0});
  }
  static Expr Numbers(const Ints& values) {
    runtime::NDArray list = runtime::NDArray::Empty({static_cast<int64_t>(values.size())}, DataType::Int(64));
    std::copy(values.begin(), values.end(), list.Data<int64_t>());
    return Constant(list);
  }
  static PrimExpr Hint(const PrimExpr& dim) { return IsAnyDim(dim) ? PrimExpr(int64_t{-1}) : dim; }

  /// Matrices of the groups (groups, ..), repeated for each sample: (N * groups, ..).
  Expr ForEachSample(const Expr& matrices, const Expr& image, const Ints& sizes) const {
    const int64_t* samples = AsConstInt(data->shape[0]);
    if (samples != nullptr && *samples == 1) return matrices;
    Array<PrimExpr> shape{Hint(data->shape[0])};
    for (const int64_t size : sizes) shape.push_back(size);
    if (samples != nullptr) return ops::MakeReshape(ops::MakeBroadcastTo(matrices, shape), Ints{-3, -2});
    const Expr wanted = ops::MakeConcatenate({SizesOf(image, 0, 1), Numbers(sizes)}, 0);
    const Expr all = ops::CallWith<ops::InitOpAttrs>("dyn.broadcast_to", {matrices, wanted}, [&](auto& attrs) {
      attrs.shape = shape;
      attrs.dtype = data->dtype;
    });
    return ops::MakeReshape(all, Ints{-3, -2});
  }

  /// Columns (N, .., pixels) as windows with dimensions of their own, added up.
  Expr Image(const Expr& columns, const Expr& image) const {
    Ints window{weight[1] * a->groups};
    window.insert(window.end(), weight.begin() + 2, weight.end());
    Array<PrimExpr> shape{data->shape[0]};
    for (const int64_t size : window) shape.push_back(size);
    for (size_t d = 0; d < rank(); ++d) shape.push_back(data->shape[2 + d]);
    Expr apart;
    if (const auto known = ops::ConstInts(shape)) {
      apart = ops::MakeReshape(columns, *known);
    } else {
      const auto end = static_cast<int64_t>(2 + rank());
      const Expr wanted = ops::MakeConcatenate({SizesOf(image, 0, 1), Numbers(window), SizesOf(image, 2, end)}, 0);
      apart = ops::CallWith<ops::ReshapeAttrs>("dyn.reshape", {columns, wanted}, [&](auto& attrs) {
        attrs.allowzero = true;
        for (const PrimExpr& dim : shape) attrs.newshape.push_back(Hint(dim));
      });
    }
    return ops::CallWith<ops::ColumnsToImageAttrs>("nn.contrib_columns_to_image", {apart}, [&](auto& attrs) {
      attrs.strides = a->strides;
      attrs.dilation = a->dilation;
      attrs.padding = ops::NormalizePadding(a->padding, rank(), true);
      const bool same = a->output_padding.size() == 1;
      for (size_t d = 0; d < rank(); ++d) attrs.padding[rank() + d] -= a->output_padding[same ? 0 : d];
    });
  }
};

class ToProducts : public MixedModeMutator {
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return post;
    const std::string& name = OpName(call);
    if (name != "nn.conv1d_transpose" && name != "nn.conv2d_transpose" && name != "nn.conv3d_transpose") return post;
    const auto* a = call->attrs.as<ops::ConvTransposeAttrs>();
    const auto *data = TensorTypeOf(pre->args[0]), *kernel = TensorTypeOf(pre->args[1]),
               *result = TensorTypeOf(GetRef<Expr>(pre));
    if (a == nullptr || data == nullptr || kernel == nullptr || result == nullptr) return post;
    const auto weight = ops::ConstInts(kernel->shape);
    const bool plain = a->IsIn("NCW", "IOW") || a->IsIn("NCW", "OIW") || a->IsIn("NCHW", "IOHW") ||
                       a->IsIn("NCHW", "OIHW") || a->IsIn("NCDHW", "IODHW") || a->IsIn("NCDHW", "OIDHW");
    const bool floats = data->dtype == DataType::Float(32) || data->dtype == DataType::Float(64);
    const bool known = call->args[1].as<ConstantNode>() != nullptr;
    if (!plain || !floats || known || result->dtype != data->dtype || !weight) return post;
    // Products of one term are what the plain kernel does best.
    if ((*weight)[0] == a->groups || HasEmptyDim(data->shape) || HasEmptyDim(kernel->shape)) return post;
    return TransposedConv{a, data, *weight}.Rewrite(call->args[0], call->args[1]);
  }
};

}  // namespace

namespace transform {

Pass ConvTransposeToProduct() {
  return MutatorPass<ToProducts>({"ConvTransposeToProduct",
                                  3,
                                  {"InferType"},
                                  "Runs transposed convolutions by weights that a run gives as products of matrices"});
}

}  // namespace transform
}  // namespace treadle::relay
