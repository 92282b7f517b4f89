// SPDX-License-Identifier: Apache-2.0
// Bounds on what models may take of the machine.
#pragma once

#include <cstdint>
#include <string>

namespace treadle::runtime {

/// Bytes of one buffer on the CPU beyond which allocating is refused with a RuntimeError, rather than granted and the
/// process killed when it uses them: $TREADLE_MAX_TENSOR_BYTES, else the memory of the machine or of the control group.
int64_t MaxTensorBytes();
/// 0: the default.
void SetMaxTensorBytes(int64_t bytes);

/// Whether weights of models that run repeatedly are moved to huge pages: faster, but memory of this process's own
/// rather than shared with others that map the file. kAuto: where there are 8 MiB of them or more.
enum class HugePages { kAuto, kOn, kOff };
/// "auto", "on", "off".
HugePages ParseHugePages(const std::string& text);
/// What $TREADLE_HUGE_PAGES says, until it is set.
HugePages GetHugePages();
void SetHugePages(HugePages mode);

}  // namespace treadle::runtime
