// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/math_functions.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {
namespace {

constexpr double kLn2 = 0.693147180559945309417232;
constexpr double kLog2E = 1.44269504088896340735992;
constexpr double kPi = 3.14159265358979323846264;
constexpr double kHalfPi32 = 0x1.921fb6p+0;  ///< pi / 2 as a float32

/// Expressions over values that are computed once.
class MathBuilder {
 public:
  /// `e` under a name.
  PrimExpr Bind(const PrimExpr& e) {
    const auto* broadcast = e.as<BroadcastNode>();
    const PrimExpr& scalar = broadcast != nullptr ? broadcast->value : e;
    if (e.as<VarNode>() || scalar.as<FloatImmNode>() || scalar.as<IntImmNode>()) return e;
    Var var("m", e.dtype());
    lets_.emplace_back(var, e);
    return var;
  }
  /// The result within all bindings.
  PrimExpr Finish(PrimExpr result) {
    for (size_t i = lets_.size(); i-- > 0;) result = Let(lets_[i].first, lets_[i].second, result);
    return result;
  }

  // ---- Pieces ----

  static PrimExpr Num(const PrimExpr& like, double value) { return make_const(like.dtype(), value); }
  static DataType IntType(const PrimExpr& x) { return DataType::Int(x.dtype().bits(), x.dtype().lanes()); }
  PrimExpr Sqrt(const PrimExpr& x) { return CallIntrin(x.dtype(), "tir.sqrt", {x}); }
  PrimExpr Abs(const PrimExpr& x) { return CallIntrin(x.dtype(), "tir.fabs", {x}); }
  PrimExpr Floor(const PrimExpr& x) { return CallIntrin(x.dtype(), "tir.floor", {x}); }
  PrimExpr Nearest(const PrimExpr& x) { return CallIntrin(x.dtype(), "tir.nearbyint", {x}); }
  PrimExpr CopySign(const PrimExpr& size, const PrimExpr& sign) {
    return CallIntrin(size.dtype(), "tir.copysign", {size, sign});
  }

  /// c[0] + c[1] x + c[2] x^2 + ..
  PrimExpr Polynomial(const PrimExpr& x, const std::vector<double>& c) {
    PrimExpr sum = Num(x, c.back());
    for (size_t i = c.size() - 1; i-- > 0;) sum = Bind(sum * x + Num(x, c[i]));
    return sum;
  }

  /// The integer nearest to x (|x| below 2^21), as an integer and as a float.
  std::pair<PrimExpr, PrimExpr> NearestInt(const PrimExpr& x) {
    // Adding 1.5 * 2^(mantissa bits) leaves the integer in the low bits.
    const bool wide = x.dtype().bits() == 64;
    const double magic = wide ? 6755399441055744.0 : 12582912.0;
    const int64_t magic_bits = wide ? 0x4338000000000000 : 0x4B400000;
    PrimExpr shifted = Bind(x + Num(x, magic));
    PrimExpr integer = Bind(reinterpret(IntType(x), shifted) - make_const(IntType(x), magic_bits));
    return {integer, Bind(shifted - Num(x, magic))};
  }

  /// Of float32: 2^(n + extra) for the integer n nearest to x, and n as a float. n + extra must be the exponent of a
  /// normal number.
  std::pair<PrimExpr, PrimExpr> NearestPowerOfTwo(const PrimExpr& x, int extra = 0) {
    // The same magic number, and the bias of exponents: what is above the low bits is shifted out.
    constexpr int kBias = 127, kMantissa = 23;
    const double magic = 12582912.0 + kBias + extra;
    const DataType bits = DataType::UInt(32, x.dtype().lanes());
    PrimExpr shifted = Bind(x + Num(x, magic));
    PrimExpr power = reinterpret(x.dtype(), left_shift(reinterpret(bits, shifted), make_const(bits, kMantissa)));
    return {Bind(power), Bind(shifted - Num(x, magic))};
  }

  /// 2^n for an integer vector n in the normal range of exponents.
  PrimExpr PowerOfTwo(const PrimExpr& n, DataType type) {
    const bool wide = type.bits() == 64;
    PrimExpr biased = n + make_const(n.dtype(), wide ? 1023 : 127);
    return reinterpret(type, left_shift(biased, make_const(n.dtype(), wide ? 52 : 23)));
  }

  /// value * 2^n where the result may be subnormal or overflow.
  PrimExpr Scale(const PrimExpr& value, const PrimExpr& n) {
    PrimExpr half = Bind(right_shift(n, make_const(n.dtype(), 1)));
    return value * PowerOfTwo(half, value.dtype()) * PowerOfTwo(n - half, value.dtype());
  }

  // ---- Functions; arguments are bound ----

  PrimExpr Exp(const PrimExpr& x0) {
    const bool wide = x0.dtype().bits() == 64;
    PrimExpr x = Bind(min(max(x0, Num(x0, wide ? -746.0 : -104.0)), Num(x0, wide ? 710.0 : 89.0)));
    auto [n, nf] = NearestInt(Bind(x * Num(x, kLog2E)));
    // ln 2 in two parts, the first with few enough bits for nf * part to be exact.
    const double high = wide ? 0x1.62e42feep-1 : 0.693359375;
    const double low = wide ? 0x1.a39ef35793c76p-33 : -2.12194440054690583e-4;
    PrimExpr r = Bind(Bind(x - nf * Num(x, high)) - nf * Num(x, low));
    return Scale(ExpReduced(r), n);
  }

  /// 1 / (1 + exp(-x)). Numerator and denominator are scaled by 4, so that the exponential is infinite, and the result
  /// 0, before the result is subnormal: Intel's processors take a hundred times as long for each such number, in all
  /// that follows.
  PrimExpr SigmoidFloat32(const PrimExpr& x0) {
    constexpr int kShift = 2;
    PrimExpr scale = Num(x0, std::ldexp(1.0, kShift));
    PrimExpr x = Bind(min(max(x0, Num(x0, -87.3)), Num(x0, 70.0)));
    auto [power, nf] = NearestPowerOfTwo(Bind(x * Num(x, -kLog2E)), kShift);
    // What is reduced is x instead of -x, which saves the negation.
    PrimExpr r = Bind(Bind(x + nf * Num(x, 0.693359375)) + nf * Num(x, -2.12194440054690583e-4));
    return scale / Bind(ExpReduced(r, /*sign=*/-1) * power + scale);
  }

  /// exp(sign * r) for |r| <= ln(2) / 2; `sign` of float64 is 1.
  PrimExpr ExpReduced(const PrimExpr& r, int sign = 1) {
    if (r.dtype().bits() == 64) return Bind(Expm1Reduced(r) + Num(r, 1));
    // A minimax fit of the relative error, 2e-9; after rounding results are within 8e-8.
    std::vector<double> c = {1,
                             1,
                             0.49999999368070147,
                             0.16666663912607252,
                             0.04167295058982955,
                             0.008357439154276097,
                             0.0013400041137076053};
    for (size_t i = 1; i < c.size(); i += 2) c[i] *= sign;
    return Polynomial(r, c);
  }
  /// exp(r) - 1 for those.
  PrimExpr Expm1Reduced(const PrimExpr& r) {
    std::vector<double> c;
    if (r.dtype().bits() == 64) {
      double factorial = 1;
      for (int i = 2; i <= 14; ++i) c.push_back(1 / (factorial *= i));
    } else {
      c = {5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4};
    }
    PrimExpr q = Polynomial(r, c);
    return Bind(q * (r * r) + r);
  }

  /// exp of float32 in [-87, 88]: the result is a normal number, which one factor scales.
  PrimExpr ExpNormal(const PrimExpr& x) {
    auto [power, nf] = NearestPowerOfTwo(Bind(x * Num(x, kLog2E)));
    PrimExpr r = Bind(Bind(x - nf * Num(x, 0.693359375)) - nf * Num(x, -2.12194440054690583e-4));
    return ExpReduced(r) * power;
  }

  PrimExpr Exp2(const PrimExpr& x0) {
    const bool wide = x0.dtype().bits() == 64;
    PrimExpr x = Bind(min(max(x0, Num(x0, wide ? -1076.0 : -151.0)), Num(x0, wide ? 1025.0 : 129.0)));
    auto [n, nf] = NearestInt(x);
    return Scale(ExpReduced(Bind((x - nf) * Num(x, kLn2))), n);
  }

  /// float64 only.
  PrimExpr Expm1(const PrimExpr& x) {
    std::vector<double> c;
    double factorial = 1;
    for (int i = 2; i <= 17; ++i) c.push_back(1 / (factorial *= i));
    PrimExpr small = Bind(Polynomial(x, c) * (x * x) + x);
    return select(Abs(x) < Num(x, 0.5), small, Exp(x) - Num(x, 1));
  }

  struct LogParts {
    PrimExpr exponent;  ///< float
    PrimExpr mantissa;  ///< log of the mantissa, which is in [sqrt(1/2), sqrt(2)]
  };
  /// log(x) = exponent * ln 2 + mantissa for positive finite float64 x. `terms` of the series: 11 for full precision.
  LogParts LogOfPositive(const PrimExpr& x, int terms) {
    const DataType i64 = IntType(x);
    PrimExpr tiny = Bind(x < Num(x, 0x1p-1022));
    PrimExpr normal = select(tiny, x * Num(x, 0x1p54), x);
    PrimExpr bits = Bind(reinterpret(i64, normal));
    // Exponent relative to sqrt(1/2), so that the mantissa lies around 1.
    PrimExpr offset = Bind(bits - make_const(i64, int64_t{0x3fe6a09e667f3bcd}));
    PrimExpr e = Bind(right_shift(offset, make_const(i64, 52)));
    PrimExpr m = Bind(reinterpret(x.dtype(), bits - left_shift(e, make_const(i64, 52))));
    PrimExpr exponent = Bind(cast(x.dtype(), e) - select(tiny, Num(x, 54), Num(x, 0)));
    PrimExpr f = Bind(m - Num(x, 1));
    PrimExpr s = Bind(f / (f + Num(x, 2)));
    PrimExpr z = Bind(s * s);
    std::vector<double> c;
    for (int i = 1; i <= terms; ++i) c.push_back(2.0 / (2 * i + 1));
    // log(1+f) = 2s + s z P(z), with 2s = f - s f: the large part stays exact.
    PrimExpr tail = Bind(Polynomial(z, c) * z);
    return {exponent, Bind(f - s * (f - tail))};
  }

  /// log(x) = e * ln 2 + log(1 + f) of float32; ln 2 in two parts, with the larger of which products are exact. A
  /// polynomial fitted to (log(1 + f) - f + f^2 / 2) / f^3 in [sqrt(1/2) - 1, sqrt(2) - 1] makes an error below 2^-30.
  PrimExpr LogFloat32(const PrimExpr& x) {
    const DataType i32 = IntType(x);
    PrimExpr tiny = Bind(x < Num(x, 0x1p-126));
    PrimExpr bits = Bind(reinterpret(i32, select(tiny, x * Num(x, 0x1p25), x)));
    constexpr int64_t kRootOfHalf = 0x3f3504f3;
    constexpr int kMantissa = 23;
    PrimExpr e = Bind(right_shift(bits - make_const(i32, kRootOfHalf), make_const(i32, kMantissa)));
    PrimExpr m = Bind(reinterpret(x.dtype(), bits - left_shift(e, make_const(i32, kMantissa))));
    PrimExpr exponent = Bind(cast(x.dtype(), e) - select(tiny, Num(x, 25), Num(x, 0)));
    PrimExpr f = Bind(m - Num(x, 1));
    PrimExpr z = Bind(f * f);
    PrimExpr p = Polynomial(
        f, {0.3333331346511841, -0.25000008940696716, 0.20002113282680511, -0.1666799634695053, 0.14219647645950317,
            -0.12405644357204437, 0.1188759133219719, -0.11675114929676056, 0.06747167557477951});
    PrimExpr tail = Bind(p * f * z - z * Num(x, 0.5));
    PrimExpr rest = Bind(Bind(tail + exponent * Num(x, -2.12194440054690583e-4)) + f);
    return LogSpecials(x, Bind(rest + exponent * Num(x, 0.693359375)));
  }

  /// Special values of logarithms.
  PrimExpr LogSpecials(const PrimExpr& x, const PrimExpr& value) {
    PrimExpr result = select(equal(x, infinity(x.dtype())), infinity(x.dtype()), value);
    result = select(equal(x, Num(x, 0)), neg_infinity(x.dtype()), result);
    // Negative or NaN.
    return select(x >= Num(x, 0), result, Num(x, std::numeric_limits<double>::quiet_NaN()));
  }
  PrimExpr Log(const PrimExpr& x, int terms) {
    LogParts parts = LogOfPositive(x, terms);
    PrimExpr value = parts.exponent * Num(x, 0x1.62e42fefa3800p-1) +
                     (parts.exponent * Num(x, 0x1.ef35793c76730p-45) + parts.mantissa);
    return LogSpecials(x, Bind(value));
  }
  PrimExpr LogBase(const PrimExpr& x, int terms, double scale_of_2, double scale) {
    LogParts parts = LogOfPositive(x, terms);
    return LogSpecials(x, Bind(parts.exponent * Num(x, scale_of_2) + parts.mantissa * Num(x, scale)));
  }
  PrimExpr Log1p(const PrimExpr& x, int terms) {
    PrimExpr u = Bind(x + Num(x, 1));
    PrimExpr d = Bind(u - Num(x, 1));
    PrimExpr value = Bind(Log(u, terms) * x / select(equal(d, Num(x, 0)), Num(x, 1), d));
    value = select(equal(d, Num(x, 0)), x, value);
    value = select(equal(x, infinity(x.dtype())), x, value);
    return select(equal(x, Num(x, -1)), neg_infinity(x.dtype()), value);
  }

  /// An angle as n quarter turns and the rest, at most an eighth of a turn.
  struct Angle {
    PrimExpr quarters, rest;
  };
  Angle ReduceAngle(const PrimExpr& x) {
    PrimExpr n = Bind(Nearest(x * Num(x, 2 / kPi)));
    PrimExpr r = Bind(x - n * Num(x, 0x1.921fb544p+0));
    r = Bind(r - n * Num(x, 0x1.0b4611a6p-34));
    return {n, Bind(r - n * Num(x, 0x1.3198a2e037073p-69))};
  }
  /// For a float64 that holds a float32 of at least 2^22, from where on products of quarters and the first part of pi/2
  /// aren't exact. With the exponent of one of at least 2^50 brought to [24, 50) by a power of 2^26 it is a whole
  /// number of 24 bits; its product with 2/pi times that power counts modulo 4 only, and is made of parts of the factor
  /// with which products are exact.
  Angle ReduceLargeAngle(const PrimExpr& x) {
    // 2/pi * 2^(26 j) modulo 4.
    constexpr double kParts[4][3] = {{0x1.45f306c000000p-1, 0x1.c9c882a000000p-29, 0x1.4fe13abe8fa9ap-59},
                                     {0x1.b939104000000p+0, 0x1.4a7f09d000000p-28, 0x1.7d1f534ddc0dbp-58},
                                     {0x1.529fc26000000p+0, 0x1.57d1f53000000p-28, 0x1.377036d8a5665p-58},
                                     {0x1.d5f47d4000000p+0, 0x1.a6ee06c000000p-29, 0x1.b14acc9e21c82p-57}};
    PrimExpr a = Bind(Abs(x));
    auto choose = [&](const std::function<double(int)>& value) {
      PrimExpr chosen = Num(x, value(3));
      for (int j = 2; j >= 0; --j) chosen = select(a < Num(x, std::ldexp(1.0, 50 + 26 * j)), Num(x, value(j)), chosen);
      return Bind(chosen);
    };
    PrimExpr whole = Bind(x * choose([](int j) { return std::ldexp(1.0, -26 * j); }));
    auto modulo4 = [&](const PrimExpr& v) { return Bind(v - Num(x, 4) * Nearest(v * Num(x, 0.25))); };
    PrimExpr high = modulo4(Bind(whole * choose([&](int j) { return kParts[j][0]; })));
    PrimExpr middle = modulo4(Bind(whole * choose([&](int j) { return kParts[j][1]; })));
    PrimExpr low = whole * choose([&](int j) { return kParts[j][2]; });
    PrimExpr n = Bind(Nearest(high + middle));
    PrimExpr turn = Bind(Bind(high - n) + middle);
    return {n, Bind((turn + low) * Num(x, kPi / 2))};
  }

  /// For a float64 m * 2^e of at least 2^20, m of 53 bits: m times 192 bits of 2/pi, from the first one whose product
  /// isn't a multiple of 4. That is the angle in quarter turns modulo 4, in units of 2^-190.
  Angle ReduceAnyAngle(const PrimExpr& x) {
    constexpr int kCandidates = 17;  // words of 64 bits that may come first
    constexpr int kBias = 1013;      // of the exponent of x: the place of the first bit in the words below
    // 64 zeros, then the bits of 2/pi.
    static constexpr uint64_t kWords[kCandidates + 3] = {
        0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
        0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
        0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
    const int lanes = x.dtype().lanes();
    const DataType u64 = DataType::UInt(64, lanes), i64 = DataType::Int(64, lanes);
    auto number = [&](int64_t value) { return make_const(u64, value); };
    auto up = [&](const PrimExpr& v, int by) { return left_shift(v, number(by)); };
    auto down = [&](const PrimExpr& v, int by) { return right_shift(v, number(by)); };
    auto low = [&](const PrimExpr& v) { return bitwise_and(v, number(0xffffffff)); };
    const PrimExpr bits = Bind(reinterpret(u64, Abs(x)));
    const PrimExpr m = Bind(bitwise_or(bitwise_and(bits, number((int64_t{1} << 52) - 1)), number(int64_t{1} << 52)));
    const PrimExpr place = Bind(down(bits, 52) - number(kBias));
    const PrimExpr first = Bind(down(place, 6)), shift = Bind(bitwise_and(place, number(63)));
    std::vector<PrimExpr> words, limbs;
    for (int k = 0; k < 4; ++k) {
      auto word = [&](int i) { return make_const(i64, static_cast<int64_t>(kWords[i + k])); };
      PrimExpr chosen = word(kCandidates - 1);
      for (int i = kCandidates - 2; i >= 0; --i) chosen = select(first <= number(i), word(i), chosen);
      words.push_back(Bind(reinterpret(u64, chosen)));
    }
    // Least significant first. Shifts by 64 leave nothing.
    for (int k = 2; k >= 0; --k) {
      const PrimExpr word = Bind(bitwise_or(left_shift(words[static_cast<size_t>(k)], shift),
                                            right_shift(words[static_cast<size_t>(k) + 1], number(64) - shift)));
      limbs.push_back(Bind(low(word)));
      limbs.push_back(Bind(down(word, 32)));
    }
    const PrimExpr m_low = Bind(low(m)), m_high = Bind(down(m, 32));
    std::vector<PrimExpr> product;
    PrimExpr carry = number(0);
    for (size_t i = 0; i < limbs.size(); ++i) {
      const PrimExpr part = Bind(limbs[i] * m_low + carry);
      const PrimExpr sum = i == 0 ? low(part) : Bind(limbs[i - 1] * m_high + low(part));
      product.push_back(low(sum));
      if (i + 1 == limbs.size()) break;
      carry = Bind(i == 0 ? down(part, 32) : down(part, 32) + down(sum, 32));
    }
    const PrimExpr high = Bind(bitwise_or(up(product[5], 32), product[4]));
    const PrimExpr rest = Bind(bitwise_or(up(product[3], 32), product[2]));
    // What is behind the quarter turns, as a number in [-1/2, 1/2) of 64 bits, and 62 more.
    const PrimExpr turn = Bind(bitwise_or(up(high, 2), down(rest, 62)));
    const PrimExpr quarters = down(high, 62) + down(turn, 63);
    auto real = [&](const PrimExpr& v, int exponent) {
      return cast(x.dtype(), reinterpret(i64, v)) * Num(x, std::ldexp(1.0, exponent));
    };
    const PrimExpr upper = cast(x.dtype(), right_shift(reinterpret(i64, turn), make_const(i64, 32)));
    PrimExpr r = Bind(upper * Num(x, std::ldexp(1.0, -32)) + real(low(turn), -64));
    r = Bind(r + real(down(up(rest, 2), 32), -96));
    r = Bind(Bind(r + real(low(up(rest, 2)), -128)) * Num(x, kPi / 2));
    const PrimExpr sign = Bind(CopySign(Num(x, 1), x));
    const PrimExpr nan = Num(x, std::numeric_limits<double>::quiet_NaN());
    return {Bind(real(quarters, 0) * sign), Bind(select(Abs(x) < infinity(x.dtype()), r * sign, nan))};
  }

  /// float64; sine or cosine of x by the quadrant that its angle lies in. `full`: of float64, else of float32
  /// arguments, for which fewer terms do.
  PrimExpr SinCosOfAngle(const PrimExpr& x, const Angle& angle, bool cosine, bool full) {
    const PrimExpr& r = angle.rest;
    PrimExpr z = Bind(r * r);
    std::vector<double> s, c;
    double factorial = 1;
    for (int i = 1; i <= (full ? 18 : 11); ++i) {
      factorial *= i;
      const double sign = (i / 2) % 2 == 0 ? 1 : -1;
      if (i % 2 == 1 && i >= 3) s.push_back(sign / factorial);
      if (i % 2 == 0) c.push_back(sign / factorial);
    }
    PrimExpr sine = Bind(r + r * (z * Polynomial(z, s)));
    PrimExpr cosine_value = Bind(Num(x, 1) + z * Polynomial(z, c));
    PrimExpr quadrant = angle.quarters + Num(x, cosine ? 1 : 0);
    PrimExpr q = Bind(quadrant - Num(x, 4) * Floor(quadrant * Num(x, 0.25)));
    PrimExpr odd = equal(q, Num(x, 1)) || equal(q, Num(x, 3));
    PrimExpr value = Bind(select(odd, cosine_value, sine));
    value = select(q >= Num(x, 2), Num(x, 0) - value, value);
    // Also keeps the sign of zero.
    return cosine ? value : select(equal(x, Num(x, 0)), x, value);
  }

  using OfAngle = std::function<PrimExpr(MathBuilder& m, const Angle& angle)>;
  /// float64; a function of the angle x, however large. Angles beyond 2^20 are rare: all that they need is computed
  /// where there is one.
  PrimExpr AnyAngle(const PrimExpr& x, bool full, const OfAngle& function) {
    Angle angle = ReduceAngle(x);
    if (!full) {
      Angle large = ReduceLargeAngle(x);
      PrimExpr is_large = Bind(Abs(x) >= Num(x, 0x1p22));
      return function(*this, {Bind(select(is_large, large.quarters, angle.quarters)),
                              Bind(select(is_large, large.rest, angle.rest))});
    }
    PrimExpr value = Bind(function(*this, angle));
    MathBuilder rare;
    PrimExpr large = function(rare, rare.ReduceAnyAngle(x));
    PrimExpr usual = likely(Abs(x) <= Num(x, 0x1p20));
    return CallIntrin(x.dtype(), "tir.if_then_else", {usual, value, rare.Finish(large)});
  }
  PrimExpr SinCos(const PrimExpr& x, bool cosine, bool full) {
    return AnyAngle(x, full, [&](MathBuilder& m, const Angle& a) { return m.SinCosOfAngle(x, a, cosine, full); });
  }
  PrimExpr Tan(const PrimExpr& x, bool full) {
    return AnyAngle(x, full, [&](MathBuilder& m, const Angle& a) {
      return m.Bind(m.SinCosOfAngle(x, a, false, full)) / m.SinCosOfAngle(x, a, true, full);
    });
  }

  /// Of float32. Angles of up to 2^13 are reduced in float32: pi/2 is taken in parts of at most 11 bits, with which
  /// products are exact, and the rest. Vectors with others, which are rare, are computed again in float64.
  PrimExpr SinCosFloat32(const PrimExpr& x, bool cosine) {
    const DataType i32 = IntType(x);
    auto [n, nf] = NearestInt(Bind(x * Num(x, 2 / kPi)));
    PrimExpr r = x;
    for (double part : {0x1.92p+0, 0x1.fb4p-12, 0x1.444p-24, 0x1.68c234p-39}) r = Bind(r - nf * Num(x, part));
    PrimExpr z = Bind(r * r);
    PrimExpr sine = Bind(Polynomial(z, {-1.66666546e-1, 8.33216087e-3, -1.95152959e-4}) * z * r + r);
    PrimExpr even = Polynomial(z, {4.166664568e-2, -1.388731625e-3, 2.443315711e-5});
    PrimExpr cosine_value = Bind(even * (z * z) + (Num(x, 1) - z * Num(x, 0.5)));
    PrimExpr quadrant = cosine ? Bind(n + make_const(i32, 1)) : n;
    PrimExpr odd = not_equal(bitwise_and(quadrant, make_const(i32, 1)), make_const(i32, 0));
    PrimExpr value = select(odd, cosine_value, sine);
    PrimExpr sign = left_shift(bitwise_and(quadrant, make_const(i32, 2)), make_const(i32, 30));
    value = reinterpret(x.dtype(), bitwise_xor(reinterpret(i32, value), sign));
    // Also keeps the sign of zero.
    if (!cosine) value = select(equal(x, Num(x, 0)), x, value);
    MathBuilder wide;
    PrimExpr large = wide.SinCos(wide.Bind(cast(DataType::Float(64, x.dtype().lanes()), x)), cosine, false);
    PrimExpr usual = likely(Abs(x) <= Num(x, 8192));
    return CallIntrin(x.dtype(), "tir.if_then_else", {usual, Bind(value), wide.Finish(cast(x.dtype(), large))});
  }

  /// float64.
  PrimExpr Atan(const PrimExpr& x, int terms) {
    PrimExpr a = Bind(Abs(x));
    PrimExpr inverted = Bind(a > Num(x, 1));
    PrimExpr t = Bind(select(inverted, Num(x, 1) / a, a));
    PrimExpr high = Bind(t > Num(x, 0.41421356237309504880));
    PrimExpr u = Bind(select(high, (t - Num(x, 1)) / (t + Num(x, 1)), t));
    PrimExpr z = Bind(u * u);
    std::vector<double> c;
    for (int i = 1; i <= terms; ++i) c.push_back((i % 2 == 0 ? 1.0 : -1.0) / (2 * i + 1));
    PrimExpr value = Bind(u + u * (z * Polynomial(z, c)));
    value = Bind(select(high, Num(x, kPi / 4) + value, value));
    value = Bind(select(inverted, Num(x, kPi / 2) - value, value));
    return CopySign(value, x);
  }
  /// With u = x, (x - 1) / (x + 1) or -1 / x, the atan of u and 0, pi / 4 or pi / 2: |u| < tan(pi / 8). The odd
  /// polynomial is a minimax fit of the relative error, 7e-10.
  PrimExpr AtanFloat32(const PrimExpr& x) {
    const PrimExpr a = Bind(Abs(x)), one = Num(x, 1), zero = Num(x, 0);
    const PrimExpr inverted = Bind(a > Num(x, 2.41421356237309505)), high = Bind(a > Num(x, 0.41421356237309505));
    const auto choose = [&](const PrimExpr& far, const PrimExpr& middle, const PrimExpr& near) {
      return Bind(select(inverted, far, select(high, middle, near)));
    };
    const PrimExpr u = Bind(choose(Num(x, -1), a - one, a) / choose(a, a + one, one));
    const PrimExpr base = choose(Num(x, kHalfPi32), Num(x, kHalfPi32 / 2), zero);
    const PrimExpr rest = choose(Num(x, kPi / 2 - kHalfPi32), Num(x, kPi / 4 - kHalfPi32 / 2), zero);
    const PrimExpr z = Bind(u * u);
    const PrimExpr p = Polynomial(
        z, {-0.3333331518024107, 0.1999847096127035, -0.14243522179518617, 0.10593726497474948, -0.060779894253440145});
    return CopySign(base + (u + (u * z * p + rest)), x);
  }
  /// asin(x) of |x| <= 1/2 by its odd polynomial (a minimax fit of the relative error, 5e-9), and of others by that of
  /// s = sqrt((1 - |x|) / 2), of which twice the asin is that of the angle beyond.
  PrimExpr AsinFloat32(const PrimExpr& x) {
    const auto [far, s, q] = AsinParts(x);
    const PrimExpr two = Num(x, 2);
    const PrimExpr beyond = (Num(x, kHalfPi32) - two * s) - (two * q - Num(x, kPi / 2 - kHalfPi32));
    return CopySign(select(far, beyond, s + q), x);
  }
  PrimExpr AcosFloat32(const PrimExpr& x) {
    const auto [far, s, q] = AsinParts(x);
    const PrimExpr rest = Num(x, kPi / 2 - kHalfPi32), two = Num(x, 2);
    const PrimExpr p = Bind(s + q), twice = Bind(two * p);
    const PrimExpr left = Num(x, 2 * kHalfPi32) - (twice - two * rest);
    const PrimExpr middle = Num(x, kHalfPi32) - (CopySign(p, x) - rest);
    return select(far, select(x > Num(x, 0), twice, left), middle);
  }
  struct AsinOf {
    PrimExpr far;   ///< whether |x| > 1/2
    PrimExpr s, q;  ///< asin(s) = s + q of what the polynomial is for
  };
  AsinOf AsinParts(const PrimExpr& x) {
    const PrimExpr a = Bind(Abs(x)), half = Num(x, 0.5);
    const PrimExpr far = Bind(a > half);
    const PrimExpr z = Bind(select(far, half - half * a, x * x));
    const PrimExpr s = Bind(select(far, Sqrt(z), a));
    const PrimExpr p = Polynomial(
        z, {0.16666752482325456, 0.0749529762920135, 0.045470377863516764, 0.0241795045135661, 0.0421663269497475});
    return {far, s, Bind(s * z * p)};
  }
  PrimExpr Atan2(const PrimExpr& y, const PrimExpr& x, int terms) {
    PrimExpr ax = Bind(Abs(x)), ay = Bind(Abs(y));
    PrimExpr both_infinite = equal(ax, infinity(x.dtype())) && equal(ay, infinity(x.dtype()));
    PrimExpr both_zero = equal(ax, Num(x, 0)) && equal(ay, Num(x, 0));
    PrimExpr ratio = Bind(select(both_infinite, Num(x, 1), select(both_zero, Num(x, 0), ay / ax)));
    PrimExpr angle = Bind(Atan(ratio, terms));
    const DataType i64 = IntType(x);
    PrimExpr negative = reinterpret(i64, x) < make_const(i64, 0);
    return CopySign(select(negative, Num(x, kPi) - angle, angle), y);
  }

  /// With t = exp(2 |x|) - 1, t / (t + 2). In exp(2 |x|) = 2^n exp(r) one is taken off the power of two, exactly, so
  /// that nothing cancels; what rounding the sum leaves of the quotient is added.
  PrimExpr TanhFloat32(const PrimExpr& x) {
    PrimExpr a = Bind(Abs(x));
    PrimExpr y = Bind(min(a + a, Num(x, 40.0)));
    auto [n, nf] = NearestInt(Bind(y * Num(x, kLog2E)));
    PrimExpr r = Bind(Bind(y - nf * Num(x, 0.693359375)) - nf * Num(x, -2.12194440054690583e-4));
    PrimExpr power = Bind(PowerOfTwo(n, x.dtype()));
    PrimExpr t = Bind(Expm1Reduced(r) * power + (power - Num(x, 1)));
    PrimExpr inverse = Bind(Num(x, 1) / (t + Num(x, 2)));
    PrimExpr q = Bind(t * inverse);
    PrimExpr rest = Bind(Bind(t - q * Num(x, 2)) - q * t);
    // The sign of zero is kept, too.
    return CopySign(rest * inverse + q, x);
  }
  PrimExpr TanhFloat64(const PrimExpr& x) {
    PrimExpr a = Bind(min(Abs(x), Num(x, 20.0)));
    PrimExpr t = Bind(Expm1(Bind(a + a)));
    return CopySign(t / (t + Num(x, 2)), x);
  }

  PrimExpr ErfFloat32(const PrimExpr& x) {
    PrimExpr t = Bind(Abs(x));
    PrimExpr s = Bind(x * x);
    PrimExpr u = Bind(Num(x, -3.88396438e-3) * t + Num(x, 2.42546219e-2));
    PrimExpr r = Bind((Num(x, -1.72853470e-5) * t + Num(x, 3.83197126e-4)) * s + u);
    for (double c : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1}) r = Bind(r * t + Num(x, c));
    r = Bind(r * t - t);
    PrimExpr large = CopySign(Num(x, 1) - ExpNormal(Bind(max(r, Num(x, -80.0)))), x);
    PrimExpr p =
        Polynomial(s, {1.28379166e-1, -3.76125336e-1, 1.12819925e-1, -2.67681349e-2, 4.99119423e-3, -5.96761703e-4});
    return select(t > Num(x, 0.927734375), large, p * x + x);
  }
  /// erf(x) = 2/sqrt(pi) exp(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ..): all terms positive.
  PrimExpr ErfFloat64(const PrimExpr& x) {
    PrimExpr a = Bind(min(Abs(x), Num(x, 6.0)));
    PrimExpr z = Bind(a * a);
    PrimExpr sum = Num(x, 1);
    for (int n = 120; n >= 1; --n) sum = Bind(sum * z * Num(x, 2.0 / (2 * n + 1)) + Num(x, 1));
    PrimExpr value = Num(x, 1.12837916709551257390) * a * Exp(Bind(Num(x, 0) - z)) * sum;
    return CopySign(min(value, Num(x, 1)), x);
  }

  /// exp(x) / 2, also where exp(x) is too large for its type.
  PrimExpr HalfOfExp(const PrimExpr& x) {
    PrimExpr root = Bind(Exp(Bind(x * Num(x, 0.5))));
    return Bind(root * Num(x, 0.5) * root);
  }

  /// float64.
  PrimExpr Pow(const PrimExpr& x, const PrimExpr& y, int terms) {
    PrimExpr one = Num(x, 1), zero = Num(x, 0);
    PrimExpr a = Bind(Abs(x));
    PrimExpr value = Bind(Exp(Bind(y * Log(a, terms))));
    PrimExpr integer = Bind(equal(Floor(y), y));
    PrimExpr half = Bind(y * Num(x, 0.5));
    PrimExpr odd = integer && not_equal(Floor(half), half);
    value = Bind(select(odd, CopySign(value, x), value));
    PrimExpr undefined = x < zero && logical_not(integer) && a < infinity(x.dtype());
    value = select(undefined, Num(x, std::numeric_limits<double>::quiet_NaN()), value);
    PrimExpr unit = equal(a, one) && equal(Abs(y), infinity(x.dtype()));
    return select(equal(y, zero) || equal(x, one) || unit, one, value);
  }

  /// Remainder with the sign of x, of float32 in float64: each step takes up to 28 bits off the quotient, whose
  /// products with the 24 bits of y are exact.
  PrimExpr Fmod(const PrimExpr& x, const PrimExpr& y) {
    constexpr int kSteps = 10;
    PrimExpr b = Bind(Abs(y));
    PrimExpr r = Bind(Abs(x));
    for (int k = kSteps - 1; k >= 0; --k) {
      PrimExpr divisor = Bind(b * Num(x, std::ldexp(1.0, 28 * k)));
      PrimExpr q = Bind(Floor(r / divisor));
      PrimExpr next = Bind(r - q * divisor);
      next = Bind(select(next < Num(x, 0), next + divisor, next));
      r = Bind(select(r >= divisor, select(next >= divisor, next - divisor, next), r));
    }
    PrimExpr nan = Num(x, std::numeric_limits<double>::quiet_NaN());
    PrimExpr bad = equal(b, Num(x, 0)) || equal(Abs(x), infinity(x.dtype())) || isnan(x) || isnan(y);
    return select(bad, nan, CopySign(r, x));
  }

 private:
  std::vector<std::pair<Var, PrimExpr>> lets_;
};

using Args = std::vector<PrimExpr>;
/// `terms`: of series whose length depends on the precision that is asked for (1: float32, 2: float64).
using Function = PrimExpr (*)(MathBuilder& m, const Args& a, bool full);

/// Functions that are computed in float64, whatever the argument is.
const std::map<std::string, Function>& WideFunctions() {
  static const auto log_terms = [](bool full) { return full ? 11 : 6; };
  static const auto atan_terms = [](bool full) { return full ? 22 : 11; };
  static const std::map<std::string, Function> table = {
      {"exp10",
       [](MathBuilder& m, const Args& a, bool) { return m.Exp(m.Bind(a[0] * m.Num(a[0], 2.302585092994045684))); }},
      {"expm1", [](MathBuilder& m, const Args& a, bool) { return m.Expm1(a[0]); }},
      {"log", [](MathBuilder& m, const Args& a, bool full) { return m.Log(a[0], log_terms(full)); }},
      {"log2", [](MathBuilder& m, const Args& a, bool full) { return m.LogBase(a[0], log_terms(full), 1, kLog2E); }},
      {"log10",
       [](MathBuilder& m, const Args& a, bool full) {
         return m.LogBase(a[0], log_terms(full), 0.30102999566398119521, 0.43429448190325182765);
       }},
      {"log1p", [](MathBuilder& m, const Args& a, bool full) { return m.Log1p(a[0], log_terms(full)); }},
      {"sin", [](MathBuilder& m, const Args& a, bool full) { return m.SinCos(a[0], false, full); }},
      {"cos", [](MathBuilder& m, const Args& a, bool full) { return m.SinCos(a[0], true, full); }},
      {"tan", [](MathBuilder& m, const Args& a, bool full) { return m.Tan(a[0], full); }},
      {"atan", [](MathBuilder& m, const Args& a, bool full) { return m.Atan(a[0], atan_terms(full)); }},
      {"atan2", [](MathBuilder& m, const Args& a, bool full) { return m.Atan2(a[0], a[1], atan_terms(full)); }},
      {"asin",
       [](MathBuilder& m, const Args& a, bool full) {
         PrimExpr one = m.Num(a[0], 1);
         return m.Atan(m.Bind(a[0] / m.Sqrt((one - a[0]) * (one + a[0]))), atan_terms(full));
       }},
      {"acos",
       [](MathBuilder& m, const Args& a, bool full) {
         PrimExpr one = m.Num(a[0], 1);
         return m.Num(a[0], 2) * m.Atan(m.Bind(m.Sqrt((one - a[0]) / (one + a[0]))), atan_terms(full));
       }},
      {"sinh",
       [](MathBuilder& m, const Args& a, bool full) {
         PrimExpr x = m.Bind(m.Abs(a[0]));
         PrimExpr e = m.Bind(m.Expm1(x));
         PrimExpr value = m.Num(x, 0.5) * (e + e / (e + m.Num(x, 1)));
         return m.CopySign(select(equal(e, infinity(e.dtype())), full ? m.HalfOfExp(x) : e, value), a[0]);
       }},
      {"cosh",
       [](MathBuilder& m, const Args& a, bool full) {
         PrimExpr x = m.Bind(m.Abs(a[0]));
         PrimExpr e = m.Bind(m.Exp(x));
         PrimExpr value = m.Num(x, 0.5) * (e + m.Num(x, 1) / e);
         return full ? select(equal(e, infinity(e.dtype())), m.HalfOfExp(x), value) : value;
       }},
      {"asinh",
       [](MathBuilder& m, const Args& a, bool full) {
         PrimExpr x = m.Bind(m.Abs(a[0])), one = m.Num(a[0], 1);
         PrimExpr square = m.Bind(x * x);
         PrimExpr t = m.Bind(x + square / (one + m.Sqrt(square + one)));
         PrimExpr huge = m.Bind(m.Log(x, log_terms(full)) + m.Num(x, kLn2));
         return m.CopySign(select(x > m.Num(x, 1e18), huge, m.Log1p(t, log_terms(full))), a[0]);
       }},
      {"acosh",
       [](MathBuilder& m, const Args& a, bool full) {
         PrimExpr t = m.Bind(a[0] - m.Num(a[0], 1));
         PrimExpr near = m.Log1p(m.Bind(t + m.Sqrt(t * (t + m.Num(t, 2)))), log_terms(full));
         PrimExpr huge = m.Bind(m.Log(a[0], log_terms(full)) + m.Num(t, kLn2));
         // Below 1 there is none; the formulas may well yield a number there.
         PrimExpr nan = m.Num(t, std::numeric_limits<double>::quiet_NaN());
         return select(a[0] < m.Num(t, 1), nan, select(a[0] > m.Num(t, 1e18), huge, near));
       }},
      {"atanh",
       [](MathBuilder& m, const Args& a, bool full) {
         PrimExpr x = m.Bind(m.Abs(a[0])), one = m.Num(a[0], 1);
         PrimExpr value = m.Num(x, 0.5) * m.Log1p(m.Bind(m.Num(x, 2) * x / (one - x)), log_terms(full));
         return m.CopySign(select(x > one, m.Num(x, std::numeric_limits<double>::quiet_NaN()), value), a[0]);
       }},
      {"pow", [](MathBuilder& m, const Args& a, bool full) { return m.Pow(a[0], a[1], log_terms(full)); }},
      {"hypot", [](MathBuilder& m, const Args& a, bool) { return m.Sqrt(a[0] * a[0] + a[1] * a[1]); }},
      {"fmod", [](MathBuilder& m, const Args& a, bool) { return m.Fmod(a[0], a[1]); }},
      // Of float64 arguments; float32 has functions of its own.
      {"tanh", [](MathBuilder& m, const Args& a, bool) { return m.TanhFloat64(a[0]); }},
      {"erf", [](MathBuilder& m, const Args& a, bool) { return m.ErfFloat64(a[0]); }},
  };
  return table;
}

PrimExpr NextAfter(MathBuilder& m, const PrimExpr& x, const PrimExpr& y) {
  const DataType type = MathBuilder::IntType(x);
  PrimExpr bits = m.Bind(reinterpret(type, x));
  PrimExpr one = make_const(type, 1);
  PrimExpr away = equal(x < y, bits >= make_const(type, 0));
  PrimExpr moved = reinterpret(x.dtype(), select(away, bits + one, bits - one));
  PrimExpr smallest = m.CopySign(reinterpret(x.dtype(), one), y);
  PrimExpr value = select(equal(x, m.Num(x, 0)), smallest, moved);
  value = select(equal(x, y), y, value);
  return select(isnan(x) || isnan(y), x + y, value);
}

/// x to the power of 1/2: the square root but for -0, whose power is 0, and -infinity, whose power is infinity (C's
/// pow).
PrimExpr PowerOfHalf(MathBuilder& m, const PrimExpr& x) {
  const PrimExpr most = infinity(x.dtype());
  return m.Bind(m.Abs(m.Sqrt(select(equal(x, m.Num(x, 0) - most), most, x))));
}

/// Powers that are cheaper as products and square roots.
PrimExpr PowByProducts(MathBuilder& m, const PrimExpr& x, const PrimExpr& y) {
  PrimExpr scalar = y;
  if (const auto* b = y.as<BroadcastNode>()) scalar = b->value;
  const auto* imm = scalar.as<FloatImmNode>();
  if (imm == nullptr) return PrimExpr();
  if (imm->value == 1) return x;
  if (imm->value == 2) return x * x;
  if (imm->value == 3) return x * x * x;
  if (imm->value == 4) {
    PrimExpr square = m.Bind(x * x);
    return square * square;
  }
  if (imm->value == -1) return m.Num(x, 1) / x;
  if (imm->value == 0.5) return PowerOfHalf(m, x);
  if (imm->value == -0.5) return m.Num(x, 1) / PowerOfHalf(m, x);
  if (imm->value == 0.75) {
    PrimExpr root = PowerOfHalf(m, x);
    return root * m.Sqrt(root);
  }
  return PrimExpr();
}

/// The number that all lanes of `e` are; none where it isn't a constant.
std::optional<double> ConstantOf(const PrimExpr& e) {
  const auto* broadcast = e.as<BroadcastNode>();
  const auto* number = (broadcast != nullptr ? broadcast->value : e).as<FloatImmNode>();
  return number == nullptr ? std::nullopt : std::optional<double>(number->value);
}

/// Whether `x` is max(min(e, high), low) with limits between which exp(x) of float32 is a normal number.
bool HasNormalExp(const PrimExpr& x) {
  constexpr double kLeast = -87, kMost = 88;
  const auto* least = x.as<MaxNode>();
  const auto* most = least == nullptr ? nullptr : least->a.as<MinNode>();
  if (most == nullptr || x.dtype().bits() != 32) return false;
  const std::optional<double> low = ConstantOf(least->b), high = ConstantOf(most->b);
  return low && high && *low >= kLeast && *high <= kMost && *low <= *high;
}

PrimExpr Expand(MathBuilder& m, const std::string& name, const Args& a) {
  const PrimExpr& x = a[0];
  const bool wide = x.dtype().bits() == 64;
  if (name == "exp") return m.Exp(x);
  if (name == "exp2") return m.Exp2(x);
  if (name == "sigmoid") {
    return wide ? m.Num(x, 1) / (m.Num(x, 1) + m.Exp(m.Bind(m.Num(x, 0) - x))) : m.SigmoidFloat32(x);
  }
  if (name == "rsqrt") return m.Num(x, 1) / m.Sqrt(x);
  if (name == "round") {
    PrimExpr half = m.Num(x, wide ? 0.49999999999999994 : 0.49999997019767761);
    return CallIntrin(x.dtype(), "tir.trunc", {x + m.CopySign(half, x)});
  }
  if (name == "nextafter") return NextAfter(m, x, a[1]);
  if (name == "pow") {
    if (PrimExpr product = PowByProducts(m, x, a[1]); product.defined()) return product;
  }
  if (!wide && name == "tanh") return m.TanhFloat32(x);
  if (!wide && name == "erf") return m.ErfFloat32(x);
  if (!wide && (name == "sin" || name == "cos")) return m.SinCosFloat32(x, name == "cos");
  if (!wide && name == "log") return m.LogFloat32(x);
  if (!wide && name == "atan") return m.AtanFloat32(x);
  if (!wide && name == "asin") return m.AsinFloat32(x);
  if (!wide && name == "acos") return m.AcosFloat32(x);
  if (wide && name == "fmod") return PrimExpr();  // a loop, which is the target's business
  auto it = WideFunctions().find(name);
  if (it == WideFunctions().end()) return PrimExpr();
  if (wide) return it->second(m, a, true);
  Args widened;
  for (const PrimExpr& arg : a) widened.push_back(m.Bind(cast(DataType::Float(64, x.dtype().lanes()), arg)));
  return cast(x.dtype(), it->second(m, widened, false));
}

}  // namespace

PrimExpr ExpandMathFunction(const std::string& name, const std::vector<PrimExpr>& args, const PrimExpr& otherwise) {
  if (args.empty() || !args[0].dtype().is_float()) return otherwise;
  MathBuilder m;
  Args bound;
  for (const PrimExpr& arg : args) {
    if (arg.dtype() != args[0].dtype()) return otherwise;
    bound.push_back(m.Bind(arg));
  }
  PrimExpr result = name == "exp" && HasNormalExp(args[0]) ? m.ExpNormal(bound[0]) : Expand(m, name, bound);
  return result.defined() ? m.Finish(result) : otherwise;
}

}  // namespace treadle::tir
