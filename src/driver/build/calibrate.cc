// SPDX-License-Identifier: Apache-2.0
#include "driver/build/calibrate.h"

#include "driver/lower/kernel_cache.h"
#include "runtime/hash64.h"
#include "targets/cpu/measure_calibration.h"
#include "targets/llvm/codegen.h"
#include "treadle/base/error.h"
#include "treadle/base/text.h"
#include "treadle/schedule/records.h"

namespace treadle::driver {
namespace {

/// Grows when what is measured changes its meaning.
constexpr int kRevision = 1;

Target ThisMachine() { return Target("llvm -mcpu=native"); }

/// Folders of users may be shared by machines: each has a note of its own.
std::string NoteKey() {
  const Target target = ThisMachine();
  const std::string machine = StrCat("calibration ", kRevision, " ", targets::ResolveLLVMTarget(target).cpu, " ",
                                     schedule::MachineId(target->Features()));
  return HexText(runtime::Hash64(machine), 16) + HexText(runtime::Hash64(machine, kRevision), 16);
}

transform::PassContext WithOption(const transform::PassContext& context, const std::string& text) {
  transform::PassContext with = context;
  auto* node = with.CopyOnWrite();
  Map<String, ObjectRef> config;
  for (const auto& [key, value] : node->config) {
    if (key.str() != targets::kCalibrationOption) config.Set(key, value);
  }
  if (!text.empty()) config.Set(targets::kCalibrationOption, String(text));
  node->config = config;
  return with;
}

}  // namespace

targets::Calibration Calibrate(const std::function<targets::Calibration(const TargetFeatures& features)>& measure) {
  KernelCache* cache = KernelCache::Default();
  if (cache == nullptr) throw Error("a calibration is kept beside the cache of kernels, which is off (TREADLE_CACHE)");
  const TargetFeatures features = ThisMachine()->Features();
  const targets::Calibration measured = measure ? measure(features) : targets::MeasureCalibration(features);
  if (measured.bits == 0) {
    throw Error("this machine can't be calibrated: that takes x86-64 with fused multiply-adds, or aarch64");
  }
  cache->WriteNote(NoteKey(), ToText(measured));
  return measured;
}

std::string StoredCalibration() {
  KernelCache* cache = KernelCache::Default();
  if (cache == nullptr) return "";
  try {
    return ToText(targets::ParseCalibration(cache->ReadNote(NoteKey())));
  } catch (const Error&) {
    return "";  // damaged, or made by another version
  }
}

bool ForgetCalibration() {
  KernelCache* cache = KernelCache::Default();
  return cache != nullptr && cache->RemoveNote(NoteKey());
}

transform::PassContext WithCalibration(const transform::PassContext& context, const Target& target) {
  const std::string given = context->GetConfigString(targets::kCalibrationOption, "");
  if (given == targets::kNoCalibration) return WithOption(context, "");
  if (!given.empty()) {
    targets::ParseCalibration(given);
    return context;
  }
  if (!targets::IsForThisMachine(target)) return context;
  const std::string stored = StoredCalibration();
  return stored.empty() ? context : WithOption(context, stored);
}

}  // namespace treadle::driver
