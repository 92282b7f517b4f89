// SPDX-License-Identifier: Apache-2.0
// Parsing of what flags carry: shapes, dimensions, key=value lists.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace treadle::cli {

struct CompileRequest;

/// "x:[1,3,224,224] y:[8]" (as tvmc): names may hold ':' and '/'. Throws Error (exit 2) naming the flag.
std::map<std::string, std::vector<int64_t>> ParseShapes(const std::vector<std::string>& texts);
/// Sizes and ranges of --dim, "batch=1..8,height=32k", into the request.
void ParseDims(const std::vector<std::string>& texts, CompileRequest* request);
/// "key=value" pairs of a flag.
std::map<std::string, std::string> ParsePairs(const std::string& flag, const std::vector<std::string>& texts);
/// "0.485,0.456,0.406" of a flag.
std::vector<double> ParseNumbers(const std::string& flag, const std::string& text);
/// "512MiB", "2GiB", "1000000", "0" in bytes.
uint64_t ParseSize(const std::string& what, const std::string& text);
/// "266 KiB", "512 MiB": what ParseSize reads, without fractions.
std::string SizeText(uint64_t bytes);
/// Items of comma-separated lists, in order, without empty ones.
std::vector<std::string> SplitLists(const std::vector<std::string>& texts);

}  // namespace treadle::cli
