// SPDX-License-Identifier: Apache-2.0
// The table of external code generators, and the one list of those in this build.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "external/register.h"
#include "treadle/base/error.h"
#include "treadle/external/c_source_module.h"
#include "treadle/external/codegen.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/registry.h"

namespace treadle::external {

using runtime::NDArray;
using runtime::Registry;

namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Codegen>> codegens;
  std::vector<std::shared_ptr<const Codegen>> replaced;  // pointers to them may be around
  static Table& Global() {
    static auto* table = new Table();
    return *table;
  }
};

constexpr char kPrefix[] = "relay.ext.";

/// Patterns as Python sees them: an array of (name, pattern, check of the call at the root).
Array<Array<ObjectRef>> TableOf(const std::vector<relay::CompositePattern>& patterns) {
  Array<Array<ObjectRef>> table;
  for (const relay::CompositePattern& entry : patterns) {
    auto check = runtime::PackedFunc::FromTyped(
        [accepts = entry.check](relay::Call root) { return !accepts || accepts(root.get()); });
    table.push_back(
        {String(entry.name), entry.pattern.defined() ? entry.pattern : relay::ToPattern(entry.tree), check});
  }
  return table;
}

const Function& Defined(const Function& region) {
  if (!region.defined()) throw DTypeError("external code is made of a relay.Function, not of null");
  return region;
}

}  // namespace

void RegisterCodegen(Codegen codegen) {
  if (codegen.name.empty() || codegen.name.find('.') != std::string::npos) {
    throw Error(StrCat("'", codegen.name, "' can't be the name of an external code generator"));
  }
  if (!codegen.compile) throw Error(StrCat("external code generator '", codegen.name, "' can't compile anything"));
  for (const auto& [op, predicate] : codegen.ops) relay::RegisterExternalOp(codegen.name, op, predicate);
  Registry::RegisterTyped(
      kPrefix + codegen.name, [compile = codegen.compile](Function region) { return compile(Defined(region)); },
      /*override=*/true);
  if (codegen.constants) {
    auto constants = codegen.constants;
    Registry::RegisterTyped(
        StrCat(kPrefix, codegen.name, ".constant_updater"),
        [constants](Function region, std::string symbol) { return constants(Defined(region), symbol); },
        /*override=*/true);
  }
  if (codegen.patterns) {
    Registry::RegisterTyped(
        StrCat(kPrefix, codegen.name, ".pattern_table"), [patterns = codegen.patterns] { return TableOf(patterns()); },
        /*override=*/true);
  }
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto& slot = table.codegens[codegen.name];
  if (slot != nullptr) table.replaced.push_back(slot);
  slot = std::make_shared<const Codegen>(std::move(codegen));
}

const Codegen* FindCodegen(const std::string& name) {
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.codegens.find(name);
  return it == table.codegens.end() ? nullptr : it->second.get();
}

std::vector<std::string> ListCodegens() {
  std::vector<std::string> names;
  for (const std::string& name : Registry::ListNames()) {
    if (name.rfind(kPrefix, 0) != 0) continue;
    std::string rest = name.substr(sizeof(kPrefix) - 1);
    if (rest.find('.') == std::string::npos) names.push_back(rest);
  }
  return names;
}

std::string DescribeCodegen(const std::string& name) {
  const Codegen* codegen = FindCodegen(name);
  if (codegen == nullptr) return "registered as relay.ext." + name;
  if (codegen->require) {
    try {
      codegen->require();
    } catch (const std::exception& error) {
      return StrCat(codegen->doc, " (can't be used here: ", error.what(), ")");
    }
  }
  return codegen->doc;
}

Map<String, NDArray> DefaultConstants(const Function& region, const std::string& symbol) {
  Map<String, NDArray> constants;
  size_t count = 0;
  relay::PostOrderVisit(region->body, [&](const relay::Expr& e) {
    const auto* constant = e.as<relay::ConstantNode>();
    if (constant != nullptr) constants.Set(StrCat(symbol, "_const_", count++), constant->data);
  });
  return constants;
}

void RegisterExternalCodegens() {
  RegisterCSourceModule();
#ifdef TREADLE_USE_C_CODEGEN
  RegisterCCodegen();
#endif
#ifdef TREADLE_USE_JSON_CODEGEN
  RegisterJsonCodegen();
#endif
#ifdef TREADLE_USE_CBLAS_CODEGEN
  RegisterCblasCodegen();
#endif
#ifdef TREADLE_USE_DNNL_CODEGEN
  RegisterDnnlCodegen();
#endif
}

}  // namespace treadle::external
