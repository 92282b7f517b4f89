// SPDX-License-Identifier: Apache-2.0
// Generated text under a C++ locale that groups digits and writes a decimal comma.
#include <gtest/gtest.h>

#include <locale>

#include "driver/lower/lower_tir.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/targets/target_spec.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/text.h"

namespace treadle::targets {
namespace {

struct GermanNumbers : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// Large sizes and fractions in C, in OpenCL's dialect of it and as text of TIR.
std::string Texts() {
  driver::RegisterAll();
  te::Tensor a = te::Placeholder({PrimExpr(123456)}, DataType::Float(32), "A");
  te::Tensor b = te::Compute(
      {PrimExpr(123456)},
      [&](const Array<tir::Var>& i) {
        return a(i[0]) * FloatImm(DataType::Float(32), 0.125) + FloatImm(DataType::Float(32), 12345.678);
      },
      "B");
  const Target target("c");
  const tir::PrimFunc func = driver::LowerPrimFunc(te::CreatePrimFunc({a, b}, "f"), target);
  return tir::AsText(func) + GetTargetSpec(target).codegen({func}, target, {}).code;
}

TEST(LocaleTest, TextIsThatOfTheClassicLocale) {
  const std::string expected = Texts();
  std::locale::global(std::locale(std::locale::classic(), new GermanNumbers));
  std::string actual;
  try {
    actual = Texts();
  } catch (...) {
    std::locale::global(std::locale::classic());
    throw;
  }
  std::locale::global(std::locale::classic());
  EXPECT_EQ(actual, expected);
  EXPECT_NE(expected.find("123456"), std::string::npos);
  EXPECT_NE(expected.find("0.125f"), std::string::npos);
}

}  // namespace
}  // namespace treadle::targets
