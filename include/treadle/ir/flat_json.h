// SPDX-License-Identifier: Apache-2.0
// Nodes of plain fields (booleans, integers, numbers, strings, dtypes) as flat JSON objects of one line, for files that
// people read and edit. Whole graphs are ir/serialization.h's business.
#pragma once

#include <string>

#include "treadle/runtime/object.h"

namespace treadle {

/// {"type": "schedule.WinogradPlan", "side": 6, ...}: fields in the order of declaration. A field that isn't plain is
/// an InternalError.
std::string ToFlatJson(const ObjectRef& node);
/// The inverse, of a class that is derived from `base`. Throws Error on text that isn't JSON, on other classes ("'x.Y'
/// is no `what`"), and on fields that are unknown, missing or of another type.
ObjectRef FromFlatJson(const std::string& text, const std::string& what, const TypeInfo* base);

}  // namespace treadle
