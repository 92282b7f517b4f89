// SPDX-License-Identifier: Apache-2.0
// Weights that a model puts together from others, as exporters do with those of recurrent layers.
#pragma once

#include <optional>

#include "treadle/relay/expr.h"

namespace treadle::onnx {

/// The value of a constant, or of a few operators that only move elements (reshape, transpose, slice, concatenate) of
/// constants of any size. Nothing for all else.
std::optional<NDArray> MovedWeight(const relay::Expr& expr);

}  // namespace treadle::onnx
