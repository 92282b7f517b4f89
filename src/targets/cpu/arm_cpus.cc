// SPDX-License-Identifier: Apache-2.0
// From the makers' technical reference manuals, as LLVM 19 has them.
#include "targets/cpu/arm_cpus.h"

#include <set>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace treadle {
namespace {

ArmInstructions OfThisMachine() {
  ArmInstructions has;
#if defined(__aarch64__) && defined(__linux__)
  has.dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  has.i8mm = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  has.bf16 = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#endif
  return has;
}

}  // namespace

ArmInstructions ArmInstructionsOf(const std::string& cpu) {
  if (cpu == "native") return OfThisMachine();
  static const std::set<std::string> kAll = {
      "ampere1",     "ampere1a",    "ampere1b",    "apple-a15",     "apple-a16",       "apple-a17",
      "apple-m2",    "apple-m3",    "apple-m4",    "cortex-a510",   "cortex-a520",     "cortex-a520ae",
      "cortex-a710", "cortex-a715", "cortex-a720", "cortex-a725",   "cortex-a720ae",   "cortex-x2",
      "cortex-x3",   "cortex-x4",   "cortex-x925", "grace",         "neoverse-n2",     "neoverse-n3",
      "neoverse-v1", "neoverse-v2", "neoverse-v3", "neoverse-v3ae", "neoverse-512tvb", "oryon-1"};
  static const std::set<std::string> kDotprod = {
      "apple-a13",   "apple-a14",   "apple-m1",     "cortex-a55", "cortex-a65", "cortex-a65ae",
      "cortex-a75",  "cortex-a76",  "cortex-a76ae", "cortex-a77", "cortex-a78", "cortex-a78ae",
      "cortex-a78c", "cortex-r82",  "cortex-r82ae", "cortex-x1",  "cortex-x1c", "exynos-m4",
      "exynos-m5",   "neoverse-e1", "neoverse-n1",  "saphira",    "tsv110"};
  const bool all = kAll.count(cpu) != 0;
  return {all || kDotprod.count(cpu) != 0, all, all};
}

}  // namespace treadle
