// SPDX-License-Identifier: Apache-2.0
// Windows.
#include <cmath>

#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Doubles = std::vector<double>;

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kMaxWindow = 1 << 22;

/// a0 - a1 cos(t) + a2 cos(2 t), t going round once over the window (over the window less one when not periodic, of
/// which one element is NaN: 0 / 0).
ImportRule Window(double a0, double a1, double a2) {
  return [a0, a1, a2](NodeImport& n) -> std::vector<Expr> {
    if (!n.IsKnown(0)) return {ImportRunTimeWindow(n, a0, a1, a2)};
    int64_t size = n.ConstantInt(0, "size");
    bool periodic = n.Flag("periodic", true);
    DataType dtype = n.TypeAttr("output_datatype", ElemType::kFloat);
    if (size < 0) n.Invalid(StrCat("'size' is ", size));
    if (size > kMaxWindow) n.Unsupported("a window of that size isn't implemented");
    double period = static_cast<double>(periodic ? size : size - 1);
    Doubles values;
    for (int64_t i = 0; i < size; ++i) {
      const double t = 2 * kPi * static_cast<double>(i) / period;
      values.push_back(a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
    }
    return {n.Const(ArrayOf(values, {size}, dtype))};
  };
}

}  // namespace

void RegisterSignalRules(RuleTable& table) {
  table.Add("HannWindow", {17}, Window(0.5, 0.5, 0));
  table.Add("HammingWindow", {17}, Window(25.0 / 46, 21.0 / 46, 0));
  table.Add("BlackmanWindow", {17}, Window(0.42, 0.5, 0.08));
}

}  // namespace treadle::onnx
