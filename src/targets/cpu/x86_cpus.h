// SPDX-License-Identifier: Apache-2.0
// What schedules need to know of x86 processors, by the names that LLVM gives them (`llc -mcpu=help`), and of this one.
#pragma once

#include <functional>
#include <string>

#include "treadle/ir/target.h"

namespace treadle {

/// Vector registers, instructions and caches of the processor (-mcpu); those of x86-64 for a name that isn't known.
void ApplyX86Cpu(const std::string& name, TargetFeatures* features);
/// Those of the machine that this runs on.
void ApplyX86Host(TargetFeatures* features);
/// The processor that has the instructions which `has` says: the one that `name` says, unless it has some that
/// processors of that name lack. Virtual machines may give processors another's number.
std::string X86ProcessorWith(const std::string& name, const std::function<bool(const char*)>& has);
/// Whether the processor of that name ("native": this machine) has AVX512_BF16.
bool X86HasBFloat16(const std::string& name);
/// Whether it has AMX, for bytes and for bfloat16, and the operating system lets processes use it.
bool X86HasTiles(const std::string& name);
/// Cache sizes of the machine that this runs on, as far as it tells and they are plausible.
void ApplyHostCaches(TargetFeatures* features);

}  // namespace treadle
