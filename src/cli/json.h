// SPDX-License-Identifier: Apache-2.0
// JSON of reports, whose members keep their order; what needs no template arguments is compiled once.
#pragma once

#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace treadle::cli {

using Json = nlohmann::ordered_json;

}  // namespace treadle::cli
