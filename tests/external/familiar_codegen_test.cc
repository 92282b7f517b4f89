// SPDX-License-Identifier: Apache-2.0
#include "treadle/external/familiar_codegen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locale>

namespace treadle::familiar::relay {
namespace {

struct GroupedDigits : std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

struct Writer : CodegenCBase {
  std::string Write() {
    code_stream_ << "static float table[" << 123456 << "];\n";
    return JitImpl("region", {"x"}, {}, {"copy(x, out0)"}, std::vector<std::string>{"out0"});
  }
};

TEST(FamiliarCodegen, CodeHasPlainNumbersWhateverTheLocale) {
  const std::locale before =
      std::locale::global(std::locale(std::locale::classic(), new GroupedDigits));  // owned by the locale
  const std::string code = Writer().Write();
  std::locale::global(before);
  EXPECT_THAT(code, ::testing::HasSubstr("static float table[123456];"));
}

}  // namespace
}  // namespace treadle::familiar::relay
