// SPDX-License-Identifier: Apache-2.0
// For which shapes `run`, `verify` and `bench` compile an ONNX model: those of the values that it is to run with.
#pragma once

#include <string>
#include <vector>

#include "cli/compiler_api.h"

namespace treadle::cli {

/// `request` with shapes for all inputs of an .onnx model (others come back as they are):
/// - what --input-shapes and --dim say stays;
/// - inputs that texts of --input give a file for have the shape of its tensor, and so do dimensions of that name;
/// - what is left gets values of a made-up size (random and the like; where `fills` is false and no text says so, that
///   is an Error). The first dimension (the batch) is taken to be 1, which stderr is told; a size that isn't known
///   otherwise is an Error that lists them and the flags that give them: a time or a comparison for images of one pixel
///   says nothing.
CompileRequest WithInputShapes(CompileRequest request, const std::vector<std::string>& inputs, bool fills);

}  // namespace treadle::cli
