// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <utility>
#include <vector>

#include "report/resources.h"
#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/base/html.h"
#include "treadle/base/json.h"

namespace treadle::report {
namespace {

/// JSON as the text of a script element: "<" can't end or comment it. Bytes that aren't UTF-8 are replaced.
std::string ScriptText(const Json& data) {
  std::string result;
  for (char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

Json Parse(const std::string& text) {
  Json data = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!data.is_object() || !data.contains("title") || !data["title"].is_string() || !data.contains("sections") ||
      !data["sections"].is_array()) {
    throw Error("a report is a JSON object with a title and a list of sections");
  }
  static const std::vector<std::pair<std::string, std::vector<const char*>>> kinds = {{"facts", {"rows"}},
                                                                                      {"advice", {"items"}},
                                                                                      {"table", {"columns", "rows"}},
                                                                                      {"chart", {"spec"}},
                                                                                      {"graph", {"nodes", "edges"}}};
  for (const Json& section : data["sections"]) {
    const std::string kind = section.is_object() ? section.value("kind", "") : "";
    bool known = false;
    for (const auto& [name, fields] : kinds) {
      if (name != kind) continue;
      known = true;
      for (const char* field : fields) {
        if (!section.contains(field)) throw Error(StrCat("a section of kind ", kind, " needs '", field, "'"));
      }
    }
    if (!known) {
      throw Error(
          StrCat("a report has no sections of kind '", kind, "'; there are: facts, advice, table, chart, graph"));
    }
    if (section.value("title", "").empty()) throw Error(StrCat("a section of kind ", kind, " has no title"));
  }
  return data;
}

}  // namespace

std::string Page(const std::string& text) {
  const Resources& resources = PageResources();
  if (resources.charts.empty() || resources.layout.empty()) {
    throw RuntimeError(
        "this build of Treadle has no libraries to draw reports with\nhelp: build it with the Python packages "
        "vl-convert-python and netron installed (requirements-dev.txt)");
  }
  const Json data = Parse(text);
  const std::vector<std::pair<std::string_view, std::string>> parts = {
      {"@TITLE@", EscapeHtml(data["title"].get<std::string>())},
      {"@STYLE@", std::string(resources.style)},
      {"@DATA@", ScriptText(data)},
      {"@CHARTS@", std::string(resources.charts)},
      {"@LAYOUT@", std::string(resources.layout)},
      {"@PROGRAM@", std::string(resources.program)}};
  // The places stand in the frame in this order.
  std::string page;
  std::string_view rest = resources.frame;
  for (const auto& [place, content] : parts) {
    const size_t at = rest.find(place);
    TREADLE_ICHECK(at != std::string_view::npos) << "page.html has no " << place;
    page += rest.substr(0, at);
    page += content;
    rest = rest.substr(at + place.size());
  }
  return page.append(rest);
}

void WritePage(const std::string& path, const std::string& data) {
  runtime::CheckOutputPath(path);
  runtime::WriteFile(path, Page(data), runtime::FileKind::kText);
}

}  // namespace treadle::report
