// SPDX-License-Identifier: Apache-2.0
// Literals of the text form: numbers with the suffix of their type, and quoted strings.
#pragma once

#include <optional>
#include <string>

#include "treadle/runtime/ndarray.h"

namespace treadle::relay {

/// Shortest text that reads back as the same double (float with `single`); "inf", "nan".
std::string FloatText(double value, bool single);
/// "3", "1f", "True", "1i64", ...; nothing for tensors that have no literal: rank above 0, NaNs, rare types.
std::optional<std::string> LiteralOf(const NDArray& data);
/// In double quotes, with escapes.
std::string Quote(const std::string& text);

/// The suffix of a number in text: "" is int32 or, with a fraction or exponent, float32 ("f"); "f64", "i8", "u16",
/// "bf16", ... Nothing when `suffix` is none.
std::optional<DataType> DTypeOfSuffix(const std::string& suffix);
/// A rank-0 tensor of the number. Throws ModelFormatError where it doesn't fit.
NDArray ScalarFromText(const std::string& digits, DataType dtype);
NDArray ScalarBool(bool value);

}  // namespace treadle::relay
