// SPDX-License-Identifier: Apache-2.0
// What the functions of this folder share.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/runtime/vm/host.h"

namespace treadle::runtime::vm {

using HostArgs = std::vector<ObjectRef>;
using HostTable = std::unordered_map<std::string, HostFunction>;

void AddValueFunctions(HostTable* table);
void AddImageFunctions(HostTable* table);
void AddProbabilityFunctions(HostTable* table);
void AddSequenceFunctions(HostTable* table);
void AddStringFunctions(HostTable* table);
void AddTextFunctions(HostTable* table);

/// Argument `i` as a compact tensor on the CPU; RuntimeError where it isn't a tensor, or not of `dtype`.
NDArray TensorArg(const HostArgs& args, size_t i);
NDArray TensorArg(const HostArgs& args, size_t i, DataType dtype);
/// One integer of any shape.
int64_t IntArg(const HostArgs& args, size_t i);
/// A tensor of strings.
std::vector<std::string_view> TextsArg(const HostRun& run, const HostArgs& args, size_t i);
/// Bytes: a constant of the program.
std::string_view BytesArg(const HostArgs& args, size_t i);
const AdtValueNode* DataArg(const HostArgs& args, size_t i, int64_t tag, const char* what);

/// Argument `i`, a sequence: one of maps with the same keys with an element for each.
AdtValue SequenceArg(HostRun& run, const HostArgs& args, size_t i);

/// An int64 tensor.
NDArray MakeInts(HostRun& run, const std::vector<int64_t>& shape, const std::vector<int64_t>& values);

}  // namespace treadle::runtime::vm
