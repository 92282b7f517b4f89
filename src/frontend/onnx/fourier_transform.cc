// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/fourier_transform.h"

#include <cmath>
#include <map>

#include "frontend/onnx/matmul.h"

namespace treadle::onnx {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kMaxStoredWaves = 1 << 20;
/// What dividing a transform costs beside its products, in multiply-adds of each element.
constexpr int64_t kDivisionCost = 32;
/// Sums of float32 are computed in it up to this length.
constexpr int64_t kMaxFloatTerms = 128;
const DataType kFloat64 = DataType::Float(64);

/// The factors of a length, and the multiply-adds that each element takes.
struct Factors {
  int64_t first = 1, second = 1;
  int64_t cost = 0;
  int64_t longest = 1;  ///< the longest sum
};

class FactorTable {
 public:
  const Factors& Of(int64_t length) {
    auto found = known_.find(length);
    if (found != known_.end()) return found->second;
    Factors best{1, length, length, length};
    for (int64_t a = 2; a * a <= length; ++a) {
      if (length % a != 0) continue;
      // Copies: the table grows.
      const Factors first = Of(a), second = Of(length / a);
      const int64_t cost = first.cost + second.cost + kDivisionCost;
      if (cost < best.cost) best = {a, length / a, cost, std::max(first.longest, second.longest)};
    }
    return known_[length] = best;
  }

 private:
  std::map<int64_t, Factors> known_;
};

std::optional<int64_t> Known(const Term& scalar) {
  auto known = scalar.node().KnownElements(scalar);
  if (!known) return std::nullopt;
  return (*known)[0];
}

/// `x` of these dimensions.
Term Shaped(const Term& x, const std::vector<Term>& dims) {
  std::vector<int64_t> sizes;
  int64_t unknown = 0;
  for (const Term& dim : dims) {
    auto known = Known(dim);
    sizes.push_back(known ? *known : -1);
    unknown += known ? 0 : 1;
  }
  if (unknown > 1) return ReshapeTo(x, dims);
  return x.Op("reshape", {{"newshape", sizes}, {"allowzero", unknown == 0}});
}

/// cos and sin of 2 pi i j / length, (rows, columns).
struct Waves {
  Term cos, sin;
};

bool AreStored(const std::optional<int64_t>& rows, const std::optional<int64_t>& columns,
               const std::optional<int64_t>& length) {
  if (!rows || !columns || !length || *length < 1) return false;
  return *rows <= 0 || *columns <= kMaxStoredWaves / *rows;
}

double Turn(int64_t i, int64_t j, int64_t length) {
  return 2 * kPi * static_cast<double>((i * j) % length) / static_cast<double>(length);
}

Waves MakeWaves(const Term& rows, const Term& columns, const Term& length, DataType dtype) {
  NodeImport& n = rows.node();
  auto r = Known(rows), c = Known(columns), l = Known(length);
  if (!AreStored(r, c, l)) {
    Term turns = (Iota(rows).Expand(1) * Iota(columns).Expand(0)).Op("floor_mod", length);
    Term phases = turns.As(kFloat64) * (2 * kPi) / length.As(kFloat64);
    return {phases.Op("cos").As(dtype), phases.Op("sin").As(dtype)};
  }
  std::vector<double> cos, sin;
  for (int64_t i = 0; i < *r; ++i) {
    for (int64_t j = 0; j < *c; ++j) {
      cos.push_back(std::cos(Turn(i, j, *l)));
      sin.push_back(std::sin(Turn(i, j, *l)));
    }
  }
  auto constant = [&](const std::vector<double>& values) { return Term(n, n.Const(ArrayOf(values, {*r, *c}, dtype))); };
  return {constant(cos), constant(sin)};
}

/// Where the parts of numbers stand: next to each other, or those of all numbers of a row.
enum class Parts : std::uint8_t { kLast, kFirst };

/// How many numbers of how many parts.
struct Numbers {
  Term count;
  int64_t parts;
  Parts place;
};

class Transformer {
 public:
  Transformer(DataType dtype, bool inverse) : dtype_(dtype), sign_(inverse ? 1.0 : -1.0) {}

  /// x (rows, numbers and parts in the order of `in`): (rows, those of `out`). Lengths that only a run knows are
  /// divided once.
  Term Run(const Term& x, const Term& rows, const Numbers& in, const Numbers& out, bool part = false) {
    auto length = Known(in.count);
    if (!length && part) return Product(x, rows, in, out);
    if (!length) return Divided(x, rows, LargestDivisor(in.count), in, out);
    const Factors factors = factors_.Of(*length);
    if (factors.first == 1) return Product(x, rows, in, out);
    return Divided(x, rows, IntNum(x.node(), factors.first), in, out);
  }

 private:
  static std::vector<Term> Dims(const Term& rows, const Numbers& numbers) {
    const Term parts = IntNum(rows.node(), numbers.parts);
    if (numbers.place == Parts::kLast) return {rows, numbers.count, parts};
    return {rows, parts, numbers.count};
  }

  /// The matrix (in, out) of waves of length in.count.
  Term Matrix(const Numbers& in, const Numbers& out) {
    NodeImport& n = in.count.node();
    auto rows = Known(in.count), columns = Known(out.count);
    if (!AreStored(rows, columns, rows)) {
      const Waves w = MakeWaves(in.count, out.count, in.count, dtype_);
      const int axis = out.place == Parts::kLast ? 2 : 1;
      auto row = [&](const Term& real, const Term& imaginary) {  // (rows, columns and parts)
        return out.parts == 1 ? real.Expand(axis) : Concat({real.Expand(axis), imaginary.Expand(axis)}, axis);
      };
      const Term first = row(w.cos, w.sin * sign_);
      Term matrix = in.parts == 1 ? first : first.Expand(in.place == Parts::kLast ? 1 : 0);
      if (in.parts == 2) {
        const int at = in.place == Parts::kLast ? 1 : 0;
        matrix = Concat({matrix, row(w.sin * -sign_, w.cos).Expand(at)}, at);
      }
      return ReshapeTo(matrix, {in.count * static_cast<double>(in.parts), out.count * static_cast<double>(out.parts)});
    }
    const int64_t height = *rows * in.parts, width = *columns * out.parts;
    std::vector<double> values(static_cast<size_t>(height * width));
    auto place = [](const Numbers& of, int64_t count, int64_t i, int64_t part) {
      return of.place == Parts::kLast ? i * of.parts + part : part * count + i;
    };
    for (int64_t i = 0; i < *rows; ++i) {
      for (int64_t j = 0; j < *columns; ++j) {
        const double turn = Turn(i, j, *rows), cos = std::cos(turn), sin = sign_ * std::sin(turn);
        const double wave[2][2] = {{cos, sin}, {-sin, cos}};
        for (int64_t p = 0; p < in.parts; ++p) {
          for (int64_t q = 0; q < out.parts; ++q) {
            const int64_t at = place(in, *rows, i, p) * width + place(out, *columns, j, q);
            values[static_cast<size_t>(at)] = wave[p][q];
          }
        }
      }
    }
    return {n, n.Const(ArrayOf(values, {height, width}, dtype_))};
  }

  Term Product(const Term& x, const Term& rows, const Numbers& in, const Numbers& out) {
    const Term flat = Shaped(x, {rows, in.count * static_cast<double>(in.parts)});
    return Shaped({x.node(), MatMulAnyRank(x.node(), flat, Matrix(in, out))}, Dims(rows, out));
  }

  /// The largest divisor of a number up to its root.
  static Term LargestDivisor(const Term& number) {
    const Term root = number.As(kFloat64).Op("sqrt").Op("floor").As(DataType::Int(64));
    const Term candidates = Iota(root) + 1.0;
    return (number.Op("floor_mod", candidates) == IntNum(number.node(), 0)).Select(candidates, 1).Reduce("max", {0});
  }

  /// A length that is a times b: transforms of a of every bth number, turned, and transforms of b of those.
  Term Divided(const Term& x, const Term& rows, const Term& a, const Numbers& in, const Numbers& out) {
    NodeImport& n = x.node();
    const Term b = FloorDiv(in.count, a), parts = IntNum(n, in.parts), two = IntNum(n, 2);
    const Term apart = in.place == Parts::kLast ? Shaped(x, {rows, a, b, parts}).Permute({0, 2, 1, 3})
                                                : Shaped(x, {rows, parts, a, b}).Permute({0, 3, 1, 2});
    const Term first = Run(apart, rows * b, {a, in.parts, in.place}, {a, 2, Parts::kFirst}, true);
    const Term split = Shaped(first, {rows, b, two, a});
    auto part = [&](int64_t i) { return split.Slice(2, i, i + 1).Squeeze({2}); };
    const Waves w = MakeWaves(b, a, in.count, dtype_);
    const Term real = part(0), imaginary = part(1), sin = w.sin * sign_;
    const Term turned = Concat({(real * w.cos - imaginary * sin).Permute({0, 2, 1}).Expand(2),
                                (real * sin + imaginary * w.cos).Permute({0, 2, 1}).Expand(2)},
                               2);
    // Number k1 + a * k2 of the results.
    const Term columns = FloorDiv(out.count + (a - 1), a);
    const Term second = Run(turned, rows * a, {b, 2, Parts::kFirst}, {columns, out.parts, out.place}, true);
    const Term last = IntNum(n, out.parts), all = columns * a;
    if (out.place == Parts::kLast) {
      const Term y = Shaped(Shaped(second, {rows, a, columns, last}).Permute({0, 2, 1, 3}), {rows, all, last});
      return CutTo(y, 1, out.count, all);
    }
    const Term y = Shaped(Shaped(second, {rows, a, last, columns}).Permute({0, 2, 3, 1}), {rows, last, all});
    return CutTo(y, 2, out.count, all);
  }

  static Term CutTo(const Term& x, int axis, const Term& count, const Term& size) {
    auto known = Known(count), whole = Known(size);
    if (known && whole) return *known == *whole ? x : x.Slice(axis, 0, *known);
    return SliceAxis(x, axis, IntNum(x.node(), 0), count);
  }

  DataType dtype_;
  double sign_;
  FactorTable factors_;
};

}  // namespace

Term FourierTransform(const Term& x, const Term& length, const FourierForm& form) {
  NodeImport& n = x.node();
  auto known = Known(length);
  // Long sums lose digits.
  const bool exact = x.dtype() == kFloat64 || (known && FactorTable().Of(*known).longest > kMaxFloatTerms) || !known;
  const DataType dtype = exact ? kFloat64 : DataType::Float(32);
  const auto rank = static_cast<size_t>(x.rank());
  std::vector<Term> dims;
  Term rows = IntNum(n, 1);
  for (size_t i = 0; i + 2 < rank; ++i) {
    dims.push_back(DimOf(x, static_cast<int>(i)));
    rows = rows * dims.back();
  }
  const Term flat = Shaped(x.As(dtype), {rows, length, IntNum(n, form.parts)});
  Term y = Transformer(dtype, form.inverse)
               .Run(flat, rows, {length, form.parts, Parts::kLast}, {form.columns, form.out_parts, Parts::kLast});
  if (form.inverse) y = y * (1.0 / length.As(dtype));
  dims.push_back(form.columns);
  dims.push_back(IntNum(n, form.out_parts));
  return Shaped(y, dims).As(x.dtype());
}

}  // namespace treadle::onnx
