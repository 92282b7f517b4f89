// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, short-time ones, and the matrix that mel spectra are made with. Transforms are products with
// matrices of waves, in float64.
#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/run_time_axes.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kMaxStoredWaves = 1 << 20;
const DataType kInt64 = DataType::Int(64);
const DataType kFloat64 = DataType::Float(64);

/// 2 pi i j / length, (rows, columns).
Term Phases(const Term& rows, const Term& columns, const Term& length) {
  Term turns = (Iota(rows).Expand(1) * Iota(columns).Expand(0)).Op("floor_mod", Max(length, 1));
  return turns.As(kFloat64) * (2 * kPi) / Max(length, 1).As(kFloat64);
}

struct Waves {
  Term cos, sin;
};

Waves MakeWaves(const Term& rows, const Term& columns, const Term& length) {
  NodeImport& n = rows.node();
  auto r = n.KnownElements(rows), c = n.KnownElements(columns), l = n.KnownElements(length);
  if (!r || !c || !l || (*r)[0] * (*c)[0] > kMaxStoredWaves || (*l)[0] < 1) {
    Term phases = Phases(rows, columns, length);
    return {phases.Op("cos"), phases.Op("sin")};
  }
  std::vector<double> cos, sin;
  for (int64_t i = 0; i < (*r)[0]; ++i) {
    for (int64_t j = 0; j < (*c)[0]; ++j) {
      const double t = 2 * kPi * static_cast<double>((i * j) % (*l)[0]) / static_cast<double>((*l)[0]);
      cos.push_back(std::cos(t));
      sin.push_back(std::sin(t));
    }
  }
  auto constant = [&](const std::vector<double>& values) {
    return Term(n, n.Const(ArrayOf(values, {(*r)[0], (*c)[0]}, kFloat64)));
  };
  return {constant(cos), constant(sin)};
}

/// Numbers along the last axis, in float64; `imaginary` may be absent.
struct Signal {
  Term real;
  std::optional<Term> imaginary;
};

Term Product(const Term& a, const Term& b) { return {a.node(), MatMulAnyRank(a.node(), a, b)}; }

/// Cut to `length`; what is missing counts as zeros.
Signal CutTo(const Signal& x, const Term& length) {
  const int last = x.real.rank() - 1;
  const int64_t* size = AsConstInt(x.real.shape()[static_cast<size_t>(last)]);
  auto known = length.node().KnownElements(length);
  auto cut = [&](const Term& t) {
    if (size != nullptr && known) return (*known)[0] >= *size ? t : t.Slice(last, 0, std::max<int64_t>((*known)[0], 0));
    return SliceAxis(t, last, IntNum(t.node(), 0), length);
  };
  Signal result{cut(x.real), std::nullopt};
  if (x.imaginary) result.imaginary = cut(*x.imaginary);
  return result;
}

Signal Transform(const Signal& x, const Term& length, bool inverse, bool onesided) {
  Signal s = CutTo(x, length);
  Term columns = onesided ? FloorDiv(length, 2) + 1 : length;
  Waves w = MakeWaves(DimOf(s.real, s.real.rank() - 1), columns, length);
  Term sin = inverse ? w.sin : w.sin * -1.0;
  Term real = Product(s.real, w.cos), imaginary = Product(s.real, sin);
  if (s.imaginary) {
    real = real - Product(*s.imaginary, sin);
    imaginary = imaginary + Product(*s.imaginary, w.cos);
  }
  if (!inverse) return {real, imaginary};
  Term factor = 1.0 / Max(length, 1).As(kFloat64);
  return {real * factor, imaginary * factor};
}

/// Real numbers from the first half of a spectrum whose other half mirrors it.
Term InverseOfHalf(const Signal& x, const Term& length) {
  NodeImport& n = length.node();
  Signal s = CutTo(x, FloorDiv(length, 2) + 1);
  Term rows = DimOf(s.real, s.real.rank() - 1), k = Iota(rows);
  // The first number, and the middle one of an even length, have no mirror image.
  Term alone = k == IntNum(n, 0) || k * 2 == length;
  Term one = k.As(kFloat64) * 0.0 + 1.0, weight = alone.Select(one, one * 2.0).Expand(1);
  Waves w = MakeWaves(rows, length, length);
  Term y = Product(s.real, w.cos * weight);
  if (s.imaginary) y = y - Product(*s.imaginary, w.sin * weight);
  return y * (1.0 / Max(length, 1).As(kFloat64));
}

/// X [..., 1 or 2]: real and imaginary parts.
Signal Parts(NodeImport& n, const Term& x) {
  const int last = x.rank() - 1;
  const int64_t* known = AsConstInt(x.shape()[static_cast<size_t>(last)]);
  if (known == nullptr) {  // one or two: where there is one, it counts nothing as the second
    const Term second(
        n, CheckedValues(n, DimOf(x, last) - 1, "at_most", IntNum(n, 1), "size of the last dimension less 1"));
    Term imaginary = x.Take(second, last).As(kFloat64) * second.As(kFloat64);
    return {x.Slice(last, 0, 1).Squeeze({last}).As(kFloat64), imaginary};
  }
  const int64_t parts = *known;
  if (parts != 1 && parts != 2) n.Invalid(StrCat("the last dimension is ", parts, ", expected 1 or 2"));
  auto part = [&](int64_t i) { return x.Slice(last, i, i + 1).Squeeze({last}).As(kFloat64); };
  if (parts == 1) return {part(0), std::nullopt};
  return {part(0), part(1)};
}

Term Joined(const Signal& x, int axis) { return Concat({x.real.Expand(axis), x.imaginary->Expand(axis)}, axis); }

/// X [..., 1 or 2] transformed along one axis, which is an attribute before version 20.
Expr ImportDft(NodeImport& n) {
  const int rank = n.Rank(0);
  if (rank < 2) n.Invalid(StrCat("the operand has rank ", rank));
  const bool inverse = n.Flag("inverse", false), onesided = n.Flag("onesided", false);
  Term x = In(n, 0), axis = IntNum(n, -2);
  if (n.version() < 20) axis = IntNum(n, n.Int("axis", 1));
  if (n.version() >= 20 && n.Has(2)) axis = ScalarIn(n, 2, kInt64);
  if (auto known = n.KnownElements(axis)) {
    if (n.Axis((*known)[0], rank) == rank - 1) n.Invalid("the last axis holds real and imaginary parts");
  }
  // Counted from the start: the parts' axis goes away.
  Term from_start = (axis < 0).Select(axis + static_cast<double>(rank), axis);
  Signal s = Parts(n, x);
  AxisOrder order = AxesLast(from_start, rank - 1);
  auto move = [&](const Term& t, const Term& by) {
    auto known = n.KnownElements(by);
    return known ? t.Permute(*known) : TransposeBy(t, by);
  };
  Signal moved{move(s.real, order.order), std::nullopt};
  if (s.imaginary) moved.imaginary = move(*s.imaginary, order.order);
  Term size = DimOf(moved.real, rank - 2), length = inverse && onesided ? (size - 1) * 2 : size;
  if (n.Has(1)) length = ScalarIn(n, 1, kInt64);
  if (n.Has(1)) length = AtLeast(length, 1, "'dft_length'");
  if (inverse && onesided) return move(InverseOfHalf(moved, length), order.position).Expand(rank - 1).As(x.dtype());
  Signal y = Transform(moved, length, inverse, onesided);
  Signal back{move(y.real, order.position), move(*y.imaginary, order.position)};
  return Joined(back, rank - 1).As(x.dtype());
}

/// signal [batch, length, 1 or 2], frame_step, window, frame_length -> [batch, frames, frequencies, 2]. Exporters write
/// real signals as [batch, length], too.
Expr ImportStft(NodeImport& n) {
  const bool onesided = n.Flag("onesided", true);
  const int rank = n.Rank(0);
  if (rank != 2 && rank != 3) n.Invalid(StrCat("the signal has rank ", rank, ", expected 3, or 2 of a real one"));
  Term x = In(n, 0), step = ScalarIn(n, 1, kInt64);
  if (rank == 2) x = x.Expand(2);
  Signal s = Parts(n, x);
  Term size = DimOf(x, 1);
  Term length = n.Has(3) ? ScalarIn(n, 3, kInt64) : n.Has(2) ? DimOf(In(n, 2), 0) : size;
  step = AtLeast(step, 1, "'frame_step'");
  length = AtLeast(length, 1, "frame's length");
  Term spare = AtLeast(size - length, 0, "signal's length beyond that of a frame");
  Term frames = FloorDiv(spare, step) + 1;
  Term index = (Iota(frames) * step).Expand(1) + Iota(length).Expand(0);
  auto framed = [&](const Term& t) {
    Term y = t.Take(index, 1);  // (batch, frames, length)
    return n.Has(2) ? y * In(n, 2).As(kFloat64) : y;
  };
  Signal windows{framed(s.real), std::nullopt};
  if (s.imaginary) windows.imaginary = framed(*s.imaginary);
  return Joined(Transform(windows, length, false, onesided), 3).As(x.dtype());
}

/// Triangles over the frequencies of a spectrum, evenly spaced in mels: num_mel_bins, dft_length, sample_rate,
/// lower_edge_hertz, upper_edge_hertz.
Expr ImportMelWeightMatrix(NodeImport& n) {
  const DataType dtype = n.TypeAttr("output_datatype", ElemType::kFloat);
  Term bins = AtLeast(ScalarIn(n, 0, kInt64), 0, "'num_mel_bins'");
  Term length = AtLeast(ScalarIn(n, 1, kInt64), 1, "'dft_length'");
  Term rate = ScalarIn(n, 2, kFloat64), lower = ScalarIn(n, 3, kFloat64), upper = ScalarIn(n, 4, kFloat64);
  const double log10 = std::log(10.0);
  auto mels = [&](const Term& hertz) { return (hertz * (1.0 / 700) + 1.0).Op("log") * (2595 / log10); };
  Term low = mels(lower), points = Iota(bins + 2).As(kFloat64);
  Term at = points * ((mels(upper) - low) / (bins + 2).As(kFloat64)) + low;
  Term hertz = ((at * (log10 / 2595)).Op("exp") - 1.0) * 700.0;
  Term edges = ((length + 1).As(kFloat64) * hertz / rate).Op("floor");
  auto edge = [&](int64_t from) {
    return SliceAxis(edges, 0, IntNum(n, from), bins + static_cast<double>(from)).Expand(0);
  };
  Term left = edge(0), center = edge(1), right = edge(2);  // (1, mel bins)
  Term f = Iota(FloorDiv(length, 2) + 1).As(kFloat64).Expand(1);
  Term rise = center - left, fall = right - center;
  Term rising = (f >= left && f <= center && rise > 0.0).Select((f - left) / Max(rise, 1), 0);
  Term flat = (f == center && rise == 0.0).Select(f * 0.0 + 1.0, 0);
  Term falling = f >= center && f < right && fall > 0.0;
  return falling.Select((right - f) / Max(fall, 1), rising + flat).As(dtype);
}

}  // namespace

void RegisterFourierRules(RuleTable& table) {
  table.Add1("DFT", {17, 20}, ImportDft);
  table.Add1("STFT", {17}, ImportStft);
  table.Add1("MelWeightMatrix", {17}, ImportMelWeightMatrix);
}

}  // namespace treadle::onnx
