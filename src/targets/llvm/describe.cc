// SPDX-License-Identifier: Apache-2.0
#include "targets/llvm/describe.h"

#include <llvm/Config/llvm-config.h>

#include "targets/llvm/codegen.h"
#include "targets/llvm/target_machine.h"
#include "treadle/base/error.h"
#include "treadle/ir/target.h"

namespace treadle::targets {

std::vector<std::pair<std::string, std::string>> DescribeNative() {
  const LLVMTargetInfo info = ResolveLLVMTarget(Target("llvm -mcpu=native"));
  const bool x86 = info.triple.starts_with("x86_64");
  const std::vector<const char*> sets =
      x86 ? std::vector<const char*>{"avx",        "avx2",    "fma",        "f16c",     "avx512f",
                                     "avx512vnni", "avxvnni", "avx512bf16", "amx-int8", "amx-bf16"}
          : std::vector<const char*>{"neon", "dotprod", "i8mm", "bf16", "sve", "sve2"};
  std::string there;
  for (const char* set : sets) {
    if (HasFeature(info, set)) there += StrCat(there.empty() ? "" : " ", set);
  }
  return {{"LLVM", StrCat(LLVM_VERSION_STRING, ", for x86_64 and aarch64")},
          {"-mcpu=native", info.cpu},
          {"instructions", there}};
}

}  // namespace treadle::targets
