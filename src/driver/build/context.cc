// SPDX-License-Identifier: Apache-2.0
#include "driver/build/context.h"

#include <cstdlib>

#include "targets/cpu/kernels/winograd_transform.h"
#include "targets/cpu/machine.h"
#include "treadle/schedule/kernel.h"
#include "treadle/schedule/records.h"

namespace treadle::driver {

transform::PassContext MakeContext(const CompileOptions& options) {
  transform::PassContext context = transform::PassContext::Create();
  auto* node = context.CopyOnWrite();
  node->opt_level = options.opt_level;
  node->required_pass = options.required_pass;
  node->disabled_pass = options.disabled_pass;
  node->instruments = options.instruments;
  for (const auto& [key, text] : options.config) {
    char* end = nullptr;
    long long number = std::strtoll(text.c_str(), &end, 0);
    bool is_number = !text.empty() && *end == '\0';
    if (text == "true" || text == "false") {
      node->config.Set(key, IntImm(DataType::Bool(), text == "true"));
    } else if (is_number) {
      node->config.Set(key, IntImm(DataType::Int(64), number));
    } else {
      node->config.Set(key, String(text));
    }
  }
  return context;
}

transform::PassContext WithRecords(const transform::PassContext& context, const Target& target) {
  std::string path = context->GetConfigString(schedule::kRecordsOption, "");
  const char* variable = std::getenv(schedule::kRecordsVariable);
  if (path.empty() && variable != nullptr) path = variable;
  if (path.empty()) return context;
  std::string plans;
  if (path != schedule::kNoRecords) {
    const schedule::RecordFile file = schedule::ReadRecordFile(path);
    if (file.foreign()) {
      throw ModelFormatError(StrCat(path, " isn't a file of records: ", file.faults[0]));
    }
    const std::string machine = schedule::MachineId(target->Features());
    plans = schedule::PlanLines(schedule::BestRecords(file.records, machine));
  }
  transform::PassContext with = context;
  auto* node = with.CopyOnWrite();
  // The path isn't part of what is built; the plans are.
  Map<String, ObjectRef> config;
  for (const auto& [key, value] : node->config) {
    if (key.str() != schedule::kRecordsOption) config.Set(key, value);
  }
  // Of two lines for a problem the later one counts.
  const std::string all = plans + context->GetConfigString(schedule::kPlansOption, "");
  if (!all.empty()) config.Set(schedule::kPlansOption, String(all));
  node->config = config;
  return with;
}

transform::PassContext ForShortUse(const transform::PassContext& context, const Target& target) {
  if (!targets::IsForShortUse(*target.get()) || context->config.contains(ops::cpu::kWinogradOption)) return context;
  transform::PassContext with = context;
  with.CopyOnWrite()->config.Set(ops::cpu::kWinogradOption, IntImm(DataType::Bool(), 0));
  return with;
}

}  // namespace treadle::driver
