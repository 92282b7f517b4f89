// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace treadle {
namespace {

struct NamedFormat {
  const char* name;
  FloatFormat format;
  double max;
  double smallest;
};

const NamedFormat kFormats[] = {
    {"float16", kFloat16Format, 65504.0, std::ldexp(1.0, -24)},
    {"bfloat16", kBFloat16Format, 0x1.fep127, std::ldexp(1.0, -133)},
    {"e4m3fn", kFloat8E4M3FNFormat, 448.0, std::ldexp(1.0, -9)},
    {"e4m3fnuz", kFloat8E4M3FNUZFormat, 240.0, std::ldexp(1.0, -10)},
    {"e5m2", kFloat8E5M2Format, 57344.0, std::ldexp(1.0, -16)},
    {"e5m2fnuz", kFloat8E5M2FNUZFormat, 57344.0, std::ldexp(1.0, -17)},
    {"e2m1", kFloat4E2M1Format, 6.0, 0.5},
};

/// Finite non-negative values of a format, ascending, by their codes.
std::vector<double> FiniteValues(const FloatFormat& format) {
  std::vector<double> values;
  for (uint32_t code = 0; code <= format.max_finite(); ++code) values.push_back(DecodeFloat(format, code));
  return values;
}

TEST(Half, LimitsAreThoseOfTheSpecifications) {
  for (const NamedFormat& f : kFormats) {
    EXPECT_EQ(DecodeFloat(f.format, f.format.max_finite()), f.max) << f.name;
    EXPECT_EQ(DecodeFloat(f.format, 1), f.smallest) << f.name;
  }
}

TEST(Half, EveryCodeSurvivesDecodingAndEncoding) {
  for (const NamedFormat& f : kFormats) {
    for (uint32_t code = 0; code < (1u << f.format.bits()); ++code) {
      float value = DecodeFloat(f.format, code);
      uint32_t back = EncodeFloat(f.format, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(DecodeFloat(f.format, back))) << f.name << " " << code;
      } else {
        EXPECT_EQ(back, code) << f.name;
      }
    }
  }
}

TEST(Half, RoundsToNearestTiesToEvenBetweenAnyTwoNeighbours) {
  for (const NamedFormat& f : kFormats) {
    std::vector<double> values = FiniteValues(f.format);
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      ASSERT_LT(values[i], values[i + 1]);
      double middle = (values[i] + values[i + 1]) / 2;
      uint32_t even = static_cast<uint32_t>(i % 2 == 0 ? i : i + 1);
      uint32_t minus = f.format.sign_mask();
      ASSERT_EQ(EncodeFloat(f.format, middle), even) << f.name << " " << i;
      ASSERT_EQ(EncodeFloat(f.format, std::nextafter(middle, 0.0)), i) << f.name;
      ASSERT_EQ(EncodeFloat(f.format, std::nextafter(middle, 1e300)), i + 1) << f.name;
      bool unsigned_zero = f.format.specials == FloatSpecials::kUnsigned0;
      ASSERT_EQ(EncodeFloat(f.format, -middle), even == 0 && unsigned_zero ? 0 : (minus | even)) << f.name;
    }
  }
}

TEST(Half, OverflowGivesInfinityNanOrTheLargestValue) {
  for (const NamedFormat& f : kFormats) {
    std::vector<double> values = FiniteValues(f.format);
    double step = values.back() - values[values.size() - 2];
    double beyond = values.back() + step / 2;  // a tie: its even neighbour is the first code beyond, unless saturated
    for (double value : {beyond * 1.01, 1e300, std::numeric_limits<double>::infinity()}) {
      EXPECT_EQ(EncodeFloat(f.format, value, true), f.format.max_finite()) << f.name;
      float got = DecodeFloat(f.format, EncodeFloat(f.format, -value));
      if (f.format.specials == FloatSpecials::kIeee) {
        EXPECT_EQ(got, -std::numeric_limits<float>::infinity()) << f.name;
      } else if (f.format.specials == FloatSpecials::kNone) {
        EXPECT_EQ(got, -f.max);
      } else {
        EXPECT_TRUE(std::isnan(got)) << f.name;
      }
    }
    EXPECT_EQ(EncodeFloat(f.format, std::nextafter(beyond, 0.0)), f.format.max_finite()) << f.name;
  }
}

#if defined(__FLT16_MAX__)
TEST(Half, AgreesWithTheCompilersHalfOnEveryFloatExponent) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 997) {
    float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(FloatToHalf(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}
#endif

TEST(Half, DoublesAreRoundedOnce) {
  // 1 + 2^-11 + 2^-40 rounds up directly; by way of float it would first become the tie 1 + 2^-11 and then 1.
  EXPECT_EQ(FloatToHalf(1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)), 0x3c01);
}

}  // namespace
}  // namespace treadle
