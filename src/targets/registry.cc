// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>

#include "targets/builtin.h"
#include "treadle/runtime/device.h"
#include "treadle/runtime/device_name.h"

namespace treadle::targets {
namespace {

#define TREADLE_LIST_TARGET(Name) Name,
constexpr TargetSpec (*kBuiltin[])() = {TREADLE_BUILTIN_TARGETS(TREADLE_LIST_TARGET)};
#undef TREADLE_LIST_TARGET

/// Entries stay where they are: references to them are handed out.
struct Table {
  std::mutex mutex;
  std::map<std::string, TargetSpec> specs;
  std::vector<std::string> order;
  static Table& Global() {
    static auto* table = new Table();
    return *table;
  }
};

/// What a spec of that form lacks, or "".
std::string Missing(const TargetSpec& spec) {
  if (spec.form == ModuleForm::kModule) return spec.make_module ? "" : "make_module";
  if (!spec.codegen) return "codegen";
  if (spec.form == ModuleForm::kDevice && spec.runtime.empty()) return "runtime";
  if (spec.form == ModuleForm::kDevice && spec.device_type == kDLCPU) return "device_type";
  return "";
}

void Add(TargetSpec spec) {
  const std::string name = spec.kind.name;
  const std::string missing = Missing(spec);
  if (!missing.empty()) throw TargetError(StrCat("target \"", name, "\" can't be registered: it has no ", missing));
  RegisterTargetKind(spec.kind);
  runtime::RegisterDeviceName(name, spec.device_type);
  if (spec.on_register) spec.on_register();
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  table.order.push_back(name);
  table.specs.emplace(name, std::move(spec));
}

}  // namespace

bool CodegenOptions::Wants(const std::string& format) const {
  return std::find(texts.begin(), texts.end(), format) != texts.end();
}

void RegisterAllTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (TargetSpec (*make)() : kBuiltin) Add(make());
  });
}

void RegisterTarget(TargetSpec spec) {
  RegisterAllTargets();  // before: defaults are the first ones
  Add(std::move(spec));
}

const TargetSpec& GetTargetSpec(const std::string& kind) {
  RegisterAllTargets();
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.specs.find(kind);
  if (it != table.specs.end()) return it->second;
  std::string known;
  for (const std::string& name : table.order) known += (known.empty() ? "" : ", ") + name;
  throw TargetError(StrCat("there is no target of kind \"", kind, "\"; this build has: ", known));
}

const TargetSpec& GetTargetSpec(const Target& target) { return GetTargetSpec(target->kind); }

std::vector<std::string> ListTargets() {
  RegisterAllTargets();
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  return table.order;
}

Target DefaultTarget(int device_type) {
  for (const std::string& kind : ListTargets()) {
    if (GetTargetSpec(kind).device_type == device_type) return Target(kind);
  }
  throw TargetError(StrCat("this build has no target for device ", runtime::DeviceTypeName(device_type)));
}

std::string AssembleObject(const std::string& code, const Target& target) {
  const TargetSpec& spec = GetTargetSpec(target);
  return spec.assemble ? spec.assemble(code, target) : code;
}

LinkOptions GetLinkOptions(const Target& target) {
  const TargetSpec& spec = GetTargetSpec(target);
  return spec.link_options ? spec.link_options(target) : LinkOptions();
}

std::string WhyNotCompiled(const tir::PrimFunc& func, const Target& target) {
  const TargetSpec& spec = GetTargetSpec(target);
  return spec.check ? spec.check(func, target) : std::string();
}

}  // namespace treadle::targets
