// SPDX-License-Identifier: Apache-2.0
// Parameter files: named tensors.
//
// Format (little-endian), that of TVM's .params files:
//   u64 0xF7E58D4F05049CB7, u64 0, u64 count, names (u64 length, bytes), u64 count, tensors.
//   A tensor: u64 0xDD5E40F096B4A13F, u64 0, i32 device type (1), i32 device id (0), i32 rank, dtype {u8 code, u8 bits,
//   u16 lanes}, i64 dimensions, i64 bytes, the elements.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "treadle/runtime/ndarray.h"

namespace treadle::runtime {

/// Named tensors in the order in which they are stored.
using ParamList = std::vector<std::pair<std::string, NDArray>>;

std::string SaveParams(const ParamList& params);
/// Reads what SaveParams wrote; `what` is named in errors. Anything inconsistent is a ModelFormatError.
ParamList LoadParams(std::string_view bytes, const std::string& what = "params");
void SaveParamsFile(const std::string& path, const ParamList& params);
ParamList LoadParamsFile(const std::string& path);

}  // namespace treadle::runtime
