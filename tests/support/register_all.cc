// SPDX-License-Identifier: Apache-2.0
// Linked into test programs that name targets: everything is registered before their first test.
#include <gtest/gtest.h>

#include "treadle/driver/compile.h"

namespace {

class RegisterAll : public ::testing::Environment {
  void SetUp() override { treadle::driver::RegisterAll(); }
};

[[maybe_unused]] const auto* const kRegistered = ::testing::AddGlobalTestEnvironment(new RegisterAll);

}  // namespace
