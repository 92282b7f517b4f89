// SPDX-License-Identifier: Apache-2.0
#include "targets/c/main_source.h"

#include <algorithm>

#include "targets/call_table.h"
#include "treadle/base/error.h"

namespace treadle::targets {
namespace {

template <typename T>
std::string SourceOfTable(const char* declaration, const std::vector<T>& values) {
  std::string text = StrCat("  static const ", declaration, "[", values.size(), "] = {");
  for (const T& value : values) text += StrCat(value, ",");
  return text + "};\n";
}

std::string SourceOfLoop(const CallTable& table) {
  std::vector<std::string> kernels;
  for (const std::string& symbol : table.kernels) kernels.push_back(symbol + "__raw");
  return StrCat("  typedef int32_t (*Kernel)(void* const*, const int64_t*);\n",
                SourceOfTable("Kernel kernels", kernels), SourceOfTable("uint32_t kernel_of", table.kernel_of),
                SourceOfTable("int64_t first_arg", table.first_arg), "  for (int32_t i = 0; i < ",
                table.kernel_of.size(), "; ++i) {\n",
                "    if (kernels[kernel_of[i]](data + first_arg[i], 0) != 0) return i + 1;\n  }\n");
}

}  // namespace

std::string MakeMainSource(const std::vector<MainCall>& calls) {
  std::vector<std::string> symbols;
  for (const MainCall& call : calls) symbols.push_back(call.symbol);
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  std::string text = "#include <stdint.h>\n";
  for (const std::string& symbol : symbols)
    text += StrCat("int32_t ", symbol, "__raw(void* const*, const int64_t*);\n");
  text += StrCat("int32_t ", kMainFunction, "(void* const* data) {\n");
  if (calls.size() > kMaxInlineCalls) return text + SourceOfLoop(CallTable(calls)) + "  return 0;\n}\n";
  for (size_t i = 0; i < calls.size(); ++i) {
    text += StrCat("  if (", calls[i].symbol, "__raw(data + ", calls[i].first_arg, ", 0) != 0) return ", i + 1, ";\n");
  }
  return text + "  return 0;\n}\n";
}

}  // namespace treadle::targets
