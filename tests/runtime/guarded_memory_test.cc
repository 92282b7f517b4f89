// SPDX-License-Identifier: Apache-2.0
#include "runtime/guarded_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace treadle::runtime {
namespace {

TEST(GuardedMemory, EndsWhereABufferEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const size_t bytes : {size_t{4}, size_t{64}, size_t{4096}, size_t{5000}}) {
    char* data = static_cast<char*>(AllocGuarded(bytes, 64));
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    float first = 0;
    std::memcpy(&first, data, sizeof(first));
    EXPECT_TRUE(std::isnan(first));
    std::memset(data, 0, bytes);
    const size_t end = (bytes + 63) / 64 * 64;
    volatile char* behind = data + end;
    EXPECT_DEATH(static_cast<void>(*behind), "");
    FreeGuarded(data);
  }
}

TEST(GuardedMemory, BeginsBehindAPageThatIsntMapped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  char* data = static_cast<char*>(AllocGuarded(4096, 64));
  volatile char* before = data - 1;
  EXPECT_DEATH(static_cast<void>(*before), "");
  FreeGuarded(data);
  FreeGuarded(nullptr);
}

}  // namespace
}  // namespace treadle::runtime
