// SPDX-License-Identifier: Apache-2.0
// The texts that the fuzzer starts from, and those that it found fault with.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/relay_parser.h"

namespace treadle::testing {
namespace {

TEST(FuzzCorpus, RelayTextsParseOrAreRefused) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TREADLE_SOURCE_DIR "/tests/fuzz/corpus/relay_parser")) {
    SCOPED_TRACE(entry.path().filename());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_NO_THROW(CheckRelayText(text));
    ++count;
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace treadle::testing
