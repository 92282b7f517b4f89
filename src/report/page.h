// SPDX-License-Identifier: Apache-2.0
// Reports as one HTML file that needs nothing else: no network, no other file. docs/report.md describes their data.
#pragma once

#include <string>

namespace treadle::report {

/// The page that shows `data`: JSON of a title and sections, each of a kind: facts, advice, table, chart (a Vega-Lite
/// specification) or graph. Throws Error where the data isn't of that form, and RuntimeError in builds that lack the
/// page's libraries.
std::string Page(const std::string& data);

/// Writes that page to a file, whole or not at all.
void WritePage(const std::string& path, const std::string& data);

}  // namespace treadle::report
