// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/compiler_api.h"
#include "treadle/base/error.h"
#include "treadle/base/text.h"

namespace treadle::cli {
namespace {

/// `what` begins the message of an error.
int64_t ParseInt(const std::string& what, const std::string& text) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) {
    throw Error(StrCat(what, "'", text, "' isn't an integer"));
  }
  return value;
}

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(Trim(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::map<std::string, std::vector<int64_t>> ParseShapes(const std::vector<std::string>& texts) {
  const std::string flag = "--input-shapes";
  // "[2,3]" arrives as a list of its numbers.
  const bool unnamed = std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.find_first_not_of(" 0123456789") == std::string::npos;
  });
  if (unnamed && !texts.empty()) {
    const std::string numbers = fmt::format("{}", fmt::join(texts, ","));
    throw Error(
        StrCat(flag, ": [", numbers, "] names no input; expected name:[dim,dim,...], such as \"x:[1,3,224,224]\""));
  }
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::string& text : texts) {
    size_t begin = text.find_first_not_of(" ,\t");
    while (begin != std::string::npos) {
      const size_t open = text.find(":[", begin);
      const size_t close = open == std::string::npos ? open : text.find(']', open);
      if (close == std::string::npos) {
        throw Error(StrCat(flag, ": can't read '", text.substr(begin),
                           "'; expected name:[dim,dim,...], such as \"x:[1,3,224,224]\""));
      }
      std::vector<int64_t> shape;
      const std::string name = text.substr(begin, open - begin);
      const std::string inside = Trim(text.substr(open + 2, close - open - 2));
      if (!inside.empty()) {
        for (const std::string& dim : Split(inside, ',')) {
          shape.push_back(ParseInt(StrCat(flag, ": input '", name, "': dimension "), dim));
          if (shape.back() < 0)
            throw Error(StrCat(flag, ": dimension ", dim, " is negative; name it with --dim instead"));
        }
      }
      if (!shapes.emplace(name, shape).second) throw Error(StrCat(flag, ": input '", name, "' is given twice"));
      begin = text.find_first_not_of(" ,\t", close + 1);
    }
  }
  return shapes;
}

void ParseDims(const std::vector<std::string>& texts, CompileRequest* request) {
  std::vector<std::string> single;
  for (const std::string& text : texts) {
    for (const std::string& item : Split(text, ',')) single.push_back(item);
  }
  for (const auto& [name, value] : ParsePairs("--dim", single)) {
    if (value.find_first_not_of("-0123456789") != std::string::npos) {
      request->dim_ranges[name] = value;
      continue;
    }
    request->dims[name] = ParseInt("--dim: ", value);
    if (request->dims[name] <= 0) throw Error(StrCat("--dim: ", name, "=", value, " must be positive"));
  }
}

std::map<std::string, std::string> ParsePairs(const std::string& flag, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(StrCat(flag, ": expected name=value, got '", text, "'"));
    const std::string name = text.substr(0, equals);
    if (!pairs.emplace(name, text.substr(equals + 1)).second)
      throw Error(StrCat(flag, ": '", name, "' is given twice"));
  }
  return pairs;
}

std::vector<std::string> SplitLists(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) {
    for (const std::string& item : Split(text, ',')) {
      if (!item.empty()) items.push_back(item);
    }
  }
  return items;
}

std::vector<double> ParseNumbers(const std::string& flag, const std::string& text) {
  std::vector<double> values;
  for (const std::string& item : SplitLists({text})) {
    const std::optional<double> value = ParseDouble(item);
    if (!value) throw Error(StrCat(flag, ": expected numbers such as 0.485,0.456,0.406, got '", item, "'"));
    values.push_back(*value);
  }
  return values;
}

uint64_t ParseSize(const std::string& what, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  unsigned shift = 64;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "K" || unit == "KiB") shift = 10;
  if (unit == "M" || unit == "MiB") shift = 20;
  if (unit == "G" || unit == "GiB") shift = 30;
  if (error != std::errc() || shift == 64 || value > (UINT64_MAX >> 1 >> shift)) {
    throw Error(StrCat(what, ": expected a size such as 512MiB, 2GiB or 0, got '", text, "'"));
  }
  return value << shift;
}

std::string SizeText(uint64_t bytes) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  return bytes == 0 ? "0" : bytes < 10 * kMiB ? StrCat(bytes >> 10, " KiB") : StrCat(bytes >> 20, " MiB");
}

}  // namespace treadle::cli
