// SPDX-License-Identifier: Apache-2.0
// Element types that users define: a name and a code; what computes with them are functions that users register
// (tir::LowerCustomDatatypes). In text "custom[name]bits", such as custom[posit]16.
#pragma once

#include <optional>
#include <string>

#include "treadle/runtime/data_type.h"

namespace treadle::runtime {

/// The codes that users may give.
inline constexpr int kFirstCustomCode = 129;
inline constexpr int kLastCustomCode = 255;

/// Makes `name` (letters, digits, underscores) an element type. Throws DTypeError where the name, the code or both
/// stand for something else already; registering the same again does nothing.
void RegisterCustomDatatype(const std::string& name, int code);
std::optional<std::string> CustomDatatypeName(int code);
std::optional<int> CustomDatatypeCode(const std::string& name);
inline bool IsCustomDatatype(DataType dtype) { return dtype.code() >= kFirstCustomCode; }
/// Whether any is registered.
bool HasCustomDatatypes();
/// What arithmetic treats as real numbers: floating-point types and users' types.
inline bool ActsAsFloat(DataType dtype) { return dtype.is_floating() || IsCustomDatatype(dtype); }

}  // namespace treadle::runtime
