// SPDX-License-Identifier: Apache-2.0
// C text for single operators.
#pragma once

#include <string>
#include <vector>

#include "treadle/external/region.h"

namespace treadle::external {

/// Operators that the code generator knows.
std::vector<std::string> COperators();
/// Whether it takes the call.
bool CTakes(const relay::CallNode* call, std::string* reason);
/// Whether the operator only relabels the shape of its first operand.
bool IsReshape(const RegionNode& node);

/// "float", "int32_t", ...
std::string CTypeName(DataType dtype);
/// The elements as C literals that give the same values, separated by commas.
std::string CLiterals(const runtime::NDArray& data, const Tensor& type);

/// Includes, the macros of binary operators, and helpers for the exported function.
std::string CHeader();
/// `static void name(const T* a, .., T* out)`, or a macro that stands for it.
std::string EmitFunction(const std::string& name, const RegionNode& node, const std::vector<Tensor>& inputs);
/// The function in the packed calling convention: checks `types` and calls symbol_ with `arguments`.
std::string CEntry(const std::string& symbol, const std::vector<Tensor>& types, const std::string& arguments);

}  // namespace treadle::external
