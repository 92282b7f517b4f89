// SPDX-License-Identifier: Apache-2.0
// Images out of columns (Col2Im), for Col2Im itself and for transposed convolutions.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

/// Where a block stands in an image, one entry for each spatial dimension: int64 scalars and numbers.
struct BlockPlaces {
  std::vector<Term> image, block;
  std::vector<int64_t> strides, dilations;
  std::vector<Term> before, after;  ///< padding
};

/// Columns x [N, C * block, places], one for each place of the block, added up in images [N, C, image..].
Term ColumnsToImage(NodeImport& n, const Term& x, const BlockPlaces& at);

}  // namespace treadle::onnx
