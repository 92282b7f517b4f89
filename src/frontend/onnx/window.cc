// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/window.h"

#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "treadle/base/int_math.h"

namespace treadle::onnx {
namespace {

void PadToSameSize(NodeImport& n, Window& w, bool upper) {
  w.upper = upper;
  for (size_t i = 0; i < w.spatial; ++i) {
    int64_t total = w.Extent(i) - 1;  // enough for a stride of 1, whatever the size
    if (w.strides[i] != 1) {
      const int64_t* size = AsConstInt(TypeOf(n.In(0))->shape[i + 2]);
      if (size == nullptr) {
        w.run_time.push_back(i);
        continue;
      }
      int64_t out = CeilDiv(*size, w.strides[i]);
      total = std::max<int64_t>((out - 1) * w.strides[i] + w.Extent(i) - *size, 0);
    }
    int64_t less = total / 2;
    w.pads[i] = upper ? less : total - less;
    w.pads[w.spatial + i] = total - w.pads[i];
  }
}

}  // namespace

std::vector<int64_t> WindowSizes(NodeImport& n, const char* name, size_t count, int64_t least) {
  std::vector<int64_t> values = n.Ints(name, std::vector<int64_t>(count, std::max<int64_t>(least, 0)));
  if (values.empty()) values.assign(count, std::max<int64_t>(least, 0));
  if (values.size() != count) n.Invalid(StrCat("'", name, "' has ", values.size(), " entries, expected ", count));
  for (int64_t value : values) {
    if (value < least || value > INT32_MAX) n.Invalid(StrCat("'", name, "' has an entry of ", value));
  }
  return values;
}

Window ReadWindow(NodeImport& n, const std::vector<int64_t>& kernel, bool transposed) {
  int rank = n.Rank(0);
  if (rank < 3 || rank > 5) n.Unsupported(StrCat("operands of rank ", rank, " aren't implemented (3 to 5 are)"));
  Window w;
  w.spatial = static_cast<size_t>(rank) - 2;
  w.kernel = kernel;
  if (kernel.empty() || n.HasAttr("kernel_shape")) {
    n.Ints("kernel_shape");
    w.kernel = WindowSizes(n, "kernel_shape", w.spatial, 1);
  }
  if (!kernel.empty() && kernel != w.kernel) n.Invalid("'kernel_shape' differs from the weights' shape");
  w.strides = WindowSizes(n, "strides", w.spatial, 1);
  w.dilations = WindowSizes(n, "dilations", w.spatial, 1);
  for (size_t i = 0; i < w.spatial; ++i) {
    if (w.kernel[i] > (int64_t{1} << 40) / w.dilations[i]) n.Invalid("the dilated kernel is too large");
  }
  std::string auto_pad = n.Str("auto_pad", "NOTSET");
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    w.pads = WindowSizes(n, "pads", 2 * w.spatial, 0);
    return w;
  }
  if (auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") {
    n.Invalid(StrCat("'auto_pad' is ", QuoteName(auto_pad)));
  }
  n.Ignore({"pads"});
  w.pads.assign(2 * w.spatial, 0);
  if (auto_pad != "VALID" && !transposed) PadToSameSize(n, w, auto_pad == "SAME_UPPER");
  return w;
}

relay::Expr OperandWithChannels(NodeImport& n, size_t i, int64_t channels, const std::string& wanted) {
  if (const int64_t* known = AsConstInt(TypeOf(n.In(i))->shape[1]); known != nullptr && *known != channels) {
    n.Invalid(StrCat("the operand has ", *known, " channels, the weights want ", wanted));
  }
  std::vector<int64_t> sizes(static_cast<size_t>(n.Rank(i)), -1);
  sizes[1] = channels;
  return WithSizes(In(n, i), sizes, "the channel dimension");
}

std::vector<Term> RunTimePadding(const Window& w, const Term& x, size_t i) {
  const Term size = DimOf(x, static_cast<int>(i) + 2);
  const auto stride = static_cast<double>(w.strides[i]), extent = static_cast<double>(w.Extent(i));
  const Term out = FloorDiv(size + (stride - 1), stride);
  const Term total = Max((out - 1) * stride + extent - size, 0), less = FloorDiv(total, 2);
  return {w.upper ? less : total - less, w.upper ? total - less : less};
}

relay::Expr PadAtRunTime(NodeImport& n, const Window& w, const relay::Expr& x, double value) {
  if (w.run_time.empty()) return x;
  const Term operand(n, x);
  std::vector<Term> widths(2 * w.spatial + 4, IntNum(n, 0));
  for (size_t i : w.run_time) {
    const std::vector<Term> added = RunTimePadding(w, operand, i);
    widths[2 * i + 4] = added[0];
    widths[2 * i + 5] = added[1];
  }
  return n.Call("dyn.nn.pad", {x, Stack(widths).Reshape({operand.rank(), 2}), operand.Number(value)},
                {{"pad_mode", std::string("constant")}});
}

void RequireKnownPadding(NodeImport& n, const Window& w) {
  for (size_t i : w.run_time) n.StaticDim(n.In(0), static_cast<int>(i) + 2);
}

int64_t OutputSize(const Window& w, size_t i, int64_t size, bool ceil) {
  int64_t room = size + w.pads[i] + w.pads[w.spatial + i] - w.Extent(i);
  if (room <= -w.strides[i] || (room < 0 && !ceil)) return 0;
  int64_t out = (ceil ? CeilDiv(room, w.strides[i]) : room / w.strides[i]) + 1;
  if (ceil && (out - 1) * w.strides[i] >= size + w.pads[i]) --out;
  return out;
}

}  // namespace treadle::onnx
