// SPDX-License-Identifier: Apache-2.0
// External code generator "cblas": products of matrices through a BLAS library.
#include "treadle/external/codegen.h"
#include "external/region_json.h"
#include "external/register.h"
#include "treadle/base/error.h"
#include "treadle/external/region.h"
#include "treadle/ops/attrs/nn.h"

namespace treadle::external {
namespace {

bool Takes(const relay::CallNode* call, std::string* reason) {
  return CheckTensors(call, {DataType::Float(32), DataType::Float(64)}, reason);
}

/// op(a) is (m, k), op(b) is (k, n); `batch` of them, an operand of one matrix is used for all.
Json MatmulStep(const RegionNode& node, const Tensor& a, const Tensor& b) {
  const auto [transpose_a, transpose_b] = TransposedOperands(node);
  const bool batched = node.op() == "nn.batch_matmul";
  const size_t rank = a.shape.size();
  const int64_t n = node.type.shape.back(), k = a.shape[rank - (transpose_a ? 2 : 1)];
  // Matrices of rank above 2 are rows of rows.
  const int64_t m = batched || transpose_a ? a.shape[rank - (transpose_a ? 1 : 2)] : a.size() / k;
  return {{"op", "matmul"},
          {"batch", batched ? node.type.shape[0] : 1},
          {"m", m},
          {"n", n},
          {"k", k},
          {"transpose", {transpose_a, transpose_b}},
          {"one", {!batched || a.shape[0] == 1, !batched || b.shape[0] == 1}}};
}

Module Compile(const Function& function) {
  const Region region(function);
  RegionWriter writer(region);
  for (size_t i = 0; i < region.nodes.size(); ++i) {
    const RegionNode& node = region.nodes[i];
    if (node.kind != RegionNode::kCall) continue;
    const std::string& op = node.op();
    if (op != "nn.dense" && op != "nn.matmul" && op != "nn.batch_matmul") {
      throw Error(StrCat("BLAS has no operator ", op));
    }
    const Tensor& a = region.nodes[static_cast<size_t>(node.inputs[0])].type;
    const Tensor& b = region.nodes[static_cast<size_t>(node.inputs[1])].type;
    writer.Step(static_cast<int>(i), MatmulStep(node, a, b),
                {writer.ValueOf(node.inputs[0]), writer.ValueOf(node.inputs[1])});
  }
  return writer.Finish("cblas");
}

}  // namespace

void RegisterCblasCodegen() {
  Codegen codegen;
  codegen.name = "cblas";
  codegen.doc = "nn.dense, nn.matmul and nn.batch_matmul by OpenBLAS";
  codegen.ops = {{"nn.dense", &Takes}, {"nn.matmul", &Takes}, {"nn.batch_matmul", &Takes}};
  codegen.compile = &Compile;
  codegen.require = [] { RequireRuntime("cblas"); };
  RegisterCodegen(std::move(codegen));
}

}  // namespace treadle::external
