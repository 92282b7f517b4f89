// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, short-time ones, and the matrix that mel spectra are made with.
#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/fourier_transform.h"
#include "frontend/onnx/run_time_axes.h"
#include "treadle/runtime/limits.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

const DataType kInt64 = DataType::Int(64);
const DataType kFloat64 = DataType::Float(64);

/// The first numbers of dimension `axis` up to `length`; what is missing counts as zeros.
Term CutOrPadded(const Term& x, int axis, const Term& length) {
  NodeImport& n = x.node();
  const int64_t* size = AsConstInt(x.shape()[static_cast<size_t>(axis)]);
  auto known = n.KnownElements(length);
  if (size != nullptr && known) return CutOrFilled(x, axis, 0, (*known)[0]);
  const Term actual = DimOf(x, axis);
  const Term cut = SliceAxis(x, axis, IntNum(n, 0), length);
  std::vector<Term> widths(2 * static_cast<size_t>(x.rank()), IntNum(n, 0));
  widths[2 * static_cast<size_t>(axis) + 1] = Max(length - actual, 0);
  return {n, n.Call("dyn.nn.pad", {cut, Stack(widths).Reshape({x.rank(), 2}), x.Number(0)},
                    {{"pad_mode", std::string("constant")}})};
}

/// Numbers of 1 or 2 parts, which are the last dimension.
struct Numbers {
  Term x;
  int64_t parts;
};

Numbers NumbersOf(NodeImport& n, const Term& x) {
  const int last = x.rank() - 1;
  const int64_t* known = AsConstInt(x.shape()[static_cast<size_t>(last)]);
  if (known == nullptr) {  // one or two: where there is one, it counts nothing as the second
    const Term second(
        n, CheckedValues(n, DimOf(x, last) - 1, "at_most", IntNum(n, 1), "size of the last dimension less 1"));
    const Term imaginary = x.Take(second, last) * second.As(x.dtype());
    return {Concat({x.Slice(last, 0, 1), imaginary.Expand(last)}, last), 2};
  }
  if (*known != 1 && *known != 2) n.Invalid(StrCat("the last dimension is ", *known, ", expected 1 or 2"));
  return {x, *known};
}

/// x [..., length, parts]: the whole spectrum of one whose transform is real, of which x has the first half; the rest
/// mirrors it.
Term WholeSpectrum(const Numbers& x, const Term& length) {
  const int axis = x.x.rank() - 2, last = axis + 1;
  const Term half = CutOrPadded(x.x, axis, FloorDiv(length, 2) + 1);
  // Number k beyond the half mirrors number length - k.
  const Term back = length - Iota(length), at = Min(Iota(length), back);
  Term all = half.Op("take", at, {{"axis", int64_t{axis}}, {"mode", std::string("clip")}});
  if (x.parts == 1) return all;
  const Term beyond = Iota(length) > back;
  const Term sign = (beyond.As(x.x.dtype()) * -2.0 + 1.0).Expand(1);
  return Concat({all.Slice(last, 0, 1), all.Slice(last, 1, 2) * sign}, last);
}

/// Moves an axis in front of that of the parts, which is the last, and back.
class TransformAxis {
 public:
  TransformAxis(NodeImport& n, const Term& axis, int rank) : rank_(rank) {
    if (auto known = n.KnownElements(axis)) {
      known_ = n.Axis((*known)[0], rank);
      if (*known_ == rank - 1) n.Invalid("the last axis holds real and imaginary parts");
      return;
    }
    // Counted from the start, as the axis of the parts doesn't count.
    order_ = AxesLast((axis < 0).Select(axis + static_cast<double>(rank), axis), rank - 1);
  }
  Term MovedLast(const Term& x) const {
    if (!known_) return Moved(x, order_->order);
    std::vector<int64_t> order;
    for (int i = 0; i < rank_; ++i) {
      if (i == rank_ - 1) order.push_back(*known_);
      if (i != *known_) order.push_back(i);
    }
    return x.Permute(order);
  }
  Term MovedBack(const Term& x) const {
    if (!known_) return Moved(x, order_->position);
    std::vector<int64_t> order;
    for (int i = 0; i < rank_; ++i)
      order.push_back(i == *known_ ? rank_ - 2 : i < *known_ || i == rank_ - 1 ? i : i - 1);
    return x.Permute(order);
  }

 private:
  Term Moved(const Term& x, const Term& by) const {
    return TransposeBy(x, Concat({by, IntVec(x.node(), {rank_ - 1})}, 0));
  }

  int rank_;
  std::optional<int> known_;
  std::optional<AxisOrder> order_;
};

/// `length` numbers have to fit into a tensor, of known lengths before they are divided into factors.
Term FittingLength(const Term& length, DataType dtype, const char* what) {
  NodeImport& n = length.node();
  const auto known = n.KnownElements(length);
  const int64_t limit = runtime::MaxTensorBytes() / runtime::ElementBytes(dtype);
  if (known && (*known)[0] > limit) n.Invalid(StrCat(what, " is ", (*known)[0], ", expected at most ", limit));
  return AtLeast(length, 1, what);
}

/// X [..., 1 or 2] transformed along one axis, which is an attribute before version 20.
Expr ImportDft(NodeImport& n) {
  const int rank = n.Rank(0);
  if (rank < 2) n.Invalid(StrCat("the operand has rank ", rank));
  const bool inverse = n.Flag("inverse", false), onesided = n.Flag("onesided", false);
  Term axis = IntNum(n, -2);
  if (n.version() < 20) axis = IntNum(n, n.Int("axis", 1));
  if (n.version() >= 20 && n.Has(2)) axis = ScalarIn(n, 2, kInt64);
  const TransformAxis at(n, axis, rank);
  const Numbers given = NumbersOf(n, In(n, 0));
  Term x = at.MovedLast(given.x);
  const bool from_half = inverse && onesided;
  const Term size = DimOf(x, rank - 2);
  Term length = n.Has(1) ? ScalarIn(n, 1, kInt64) : from_half ? (size - 1) * 2 : size;
  length = FittingLength(length, x.dtype(), n.Has(1) ? "'dft_length'" : "length of the transform");
  if (from_half) {
    x = WholeSpectrum({x, given.parts}, length);
  } else if (n.Has(1)) {
    x = CutOrPadded(x, rank - 2, length);
  }
  const Term columns = onesided && !inverse ? FloorDiv(length, 2) + 1 : length;
  return at.MovedBack(FourierTransform(x, length, {inverse, given.parts, from_half ? 1 : 2, columns}));
}

/// signal [batch, length, 1 or 2], frame_step, window, frame_length -> [batch, frames, frequencies, 2]. Exporters write
/// real signals as [batch, length], too.
Expr ImportStft(NodeImport& n) {
  const bool onesided = n.Flag("onesided", true);
  const int rank = n.Rank(0);
  if (rank != 2 && rank != 3) n.Invalid(StrCat("the signal has rank ", rank, ", expected 3, or 2 of a real one"));
  Term x = In(n, 0), step = ScalarIn(n, 1, kInt64);
  if (rank == 2) x = x.Expand(2);
  const Numbers given = NumbersOf(n, x);
  x = given.x;
  Term size = DimOf(x, 1);
  Term length = n.Has(3) ? ScalarIn(n, 3, kInt64) : n.Has(2) ? DimOf(In(n, 2), 0) : size;
  step = AtLeast(step, 1, "'frame_step'");
  length = FittingLength(length, x.dtype(), "frame's length");
  Term spare = AtLeast(size - length, 0, "signal's length beyond that of a frame");
  Term frames = FloorDiv(spare, step) + 1;
  Term index = (Iota(frames) * step).Expand(1) + Iota(length).Expand(0);
  Term windows = x.Take(index, 1);  // (batch, frames, length, parts)
  if (n.Has(2)) windows = windows * In(n, 2).As(x.dtype()).Expand(1);
  return FourierTransform(windows, length, {false, given.parts, 2, onesided ? FloorDiv(length, 2) + 1 : length});
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
