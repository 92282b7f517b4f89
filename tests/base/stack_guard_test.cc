// SPDX-License-Identifier: Apache-2.0
// Deep recursion on stacks of every kind.
#include "treadle/base/stack_guard.h"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <fstream>
#include <string>
#include <vector>

namespace treadle {
namespace {

/// Uses about 300 bytes of stack a level.
int64_t Depth(int64_t n) {
  return WithEnoughStack([n]() -> int64_t {
    volatile char frame[256];
    frame[0] = static_cast<char>(n);
    return n == 0 ? 0 : Depth(n - 1) + 1 + 0 * frame[0];
  });
}

TEST(StackGuard, RecursionOfAnyDepth) { EXPECT_EQ(Depth(200000), 200000); }

int64_t on_foreign_stack = 0;

TEST(StackGuard, OnAStackThatItDoesntKnow) {
  // As coroutines make them: small, and not where the thread's own stack lies.
  std::vector<char> stack(256 << 10);
  ucontext_t here, there;
  getcontext(&there);
  there.uc_stack.ss_sp = stack.data();
  there.uc_stack.ss_size = stack.size();
  there.uc_link = &here;
  makecontext(&there, [] { on_foreign_stack = Depth(100000); }, 0);
  swapcontext(&here, &there);
  EXPECT_EQ(on_foreign_stack, 100000);
  EXPECT_EQ(Depth(100000), 100000);  // and on the old one again
}

/// The permissions of the mapping that ends where the one around `address` starts.
std::string PermissionsBelow(uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  std::string previous, line;
  uintptr_t previous_end = 0;
  while (std::getline(maps, line)) {
    const uintptr_t begin = std::stoull(line, nullptr, 16);
    const uintptr_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (address >= begin && address < end) return previous_end == begin ? previous : "nothing";
    previous = line.substr(line.find(' ') + 1, 4);
    previous_end = end;
  }
  return "not found";
}

TEST(StackGuard, SegmentsHaveAGuardBelow) {
  std::string permissions;
  detail::CallOnNewStack(
      [](void* out) {
        char here = 0;
        *static_cast<std::string*>(out) = PermissionsBelow(reinterpret_cast<uintptr_t>(&here));
      },
      &permissions);
  EXPECT_EQ(permissions, "---p");
}

}  // namespace
}  // namespace treadle
