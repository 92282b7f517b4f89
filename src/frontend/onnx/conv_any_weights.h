// SPDX-License-Identifier: Apache-2.0
// Convolutions whose weights have dimensions that only a run knows, out of gathers and matrix products.
#pragma once

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

/// Whether a dimension of the weights isn't known when compiling.
bool HasUnknownDim(const relay::Expr& weights);
/// The convolution of x [N, C, spatial..] and weights [O, C / group, spatial..], of the node's attributes, without its
/// bias.
Term ConvOfAnyWeights(NodeImport& n, const Term& x, const Term& weights);
/// Its transpose; weights [C, O / group, spatial..].
Term ConvTransposeOfAnyWeights(NodeImport& n, const Term& x, const Term& weights);

}  // namespace treadle::onnx
