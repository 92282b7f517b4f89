// SPDX-License-Identifier: Apache-2.0
#include "cli/fill.h"

#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <random>
#include <vector>

#include "cli/color.h"
#include "treadle/base/error.h"
#include "treadle/base/text.h"
#include "treadle/runtime/scalar.h"

namespace treadle::cli {
namespace {

std::pair<double, double> ParseRange(const std::string& text) {
  const size_t dots = text.find("..");
  const std::string low = text.substr(0, dots), high = dots == std::string::npos ? "" : text.substr(dots + 2);
  const std::optional<double> first = ParseDouble(low), last = ParseDouble(high);
  if (!first || !last || !std::isfinite(*first) || !std::isfinite(*last)) {
    throw Error(StrCat("random:", text, ": expected a range such as random:0..255"));
  }
  if (*first > *last) throw Error(StrCat("random:", text, ": the range ends before it begins"));
  return {*first, *last};
}

/// Integers have no fractions and no numbers beyond their ends.
void CheckHas(const runtime::TensorInfo& info, double value) {
  if (!info.dtype.is_integral()) return;
  NDArray element = NDArray::Empty({1}, info.dtype);
  runtime::StoreDouble(info.dtype, element.data_ptr(), 0, value);
  if (runtime::LoadDouble(info.dtype, element.data_ptr(), 0) == value) return;
  throw Error(StrCat("input '", info.name, "' is of type ", info.dtype, ", which has no ", value));
}

std::function<double(std::mt19937&)> Generator(const runtime::TensorInfo& info, const Fill& fill) {
  if (info.dtype.is_bool()) return [](std::mt19937& bits) { return static_cast<double>(bits() % 2); };
  if (!fill.range) {
    if (info.dtype.is_integral()) return [](std::mt19937& bits) { return static_cast<double>(bits() % 10); };
    return [normal = std::normal_distribution<float>()](std::mt19937& bits) mutable { return normal(bits); };
  }
  const auto [low, high] = *fill.range;
  if (!info.dtype.is_integral()) {
    return [uniform = std::uniform_real_distribution<double>(low, high)](std::mt19937& bits) mutable {
      return uniform(bits);
    };
  }
  CheckHas(info, low);
  CheckHas(info, high);
  std::uniform_int_distribution<int64_t> uniform(static_cast<int64_t>(low), static_cast<int64_t>(high));
  return [uniform](std::mt19937& bits) mutable { return static_cast<double>(uniform(bits)); };
}

/// The shape of an input: as declared, else as given.
std::vector<int64_t> ShapeOf(const runtime::TensorInfo& info, const DynamicSizes& sizes) {
  std::vector<int64_t> shape = info.shape;
  const auto given = sizes.shapes.find(info.name);
  if (given != sizes.shapes.end() && given->second.size() != shape.size()) {
    throw Error(
        StrCat("input '", info.name, "' has rank ", shape.size(), ", the given shape has rank ", given->second.size()));
  }
  std::string open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (given != sizes.shapes.end()) {
      if (shape[i] >= 0 && shape[i] != given->second[i]) {
        throw Error(StrCat("input '", info.name, "' is ", info.str(), ": dimension ", i, " isn't ", given->second[i]));
      }
      shape[i] = given->second[i];
    }
    if (shape[i] >= 0) continue;
    const std::string name = i < info.dim_names.size() ? info.dim_names[i] : "";
    const auto size = sizes.dims.find(name);
    if (size != sizes.dims.end()) {
      shape[i] = size->second;
    } else if (IsBatch(i, shape.size(), name)) {
      shape[i] = 1;
      std::cerr << PaintedMessage(
          StrCat("note: input '", info.name, "': ", name.empty() ? "dimension 0" : name, " = 1 (assumed)\n"));
    } else {
      open += StrCat(open.empty() ? "" : ", ", "dimension ", i, name.empty() ? "" : " (" + name + ")");
    }
  }
  if (open.empty()) return shape;
  throw Error(StrCat("sizes aren't known: ", open, " of input ", info.name, " ", info.str(),
                     SizesHelp(info.name, info.shape, info.dim_names)));
}

}  // namespace

runtime::TensorInfo WithSizes(runtime::TensorInfo info, const DynamicSizes& sizes) {
  const auto given = sizes.shapes.find(info.name);
  for (size_t i = 0; i < info.shape.size(); ++i) {
    if (info.shape[i] >= 0) continue;
    const auto named = i < info.dim_names.size() ? sizes.dims.find(info.dim_names[i]) : sizes.dims.end();
    if (named != sizes.dims.end()) info.shape[i] = named->second;
    if (given != sizes.shapes.end() && i < given->second.size()) info.shape[i] = given->second[i];
  }
  return info;
}

std::string SizesHelp(const std::string& input, const std::vector<int64_t>& shape,
                      const std::vector<std::string>& dim_names) {
  constexpr std::array<int64_t, 2> kExamples{480, 640};
  std::string dims, sizes;
  size_t used = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t size = shape[i];
    const std::string name = i < dim_names.size() ? dim_names[i] : "";
    if (size < 0) size = IsBatch(i, shape.size(), name) ? 1 : kExamples[used++ % kExamples.size()];
    const std::string flag = StrCat("--dim ", name, "=", size);
    const bool open = shape[i] < 0 && !name.empty() && !IsBatch(i, shape.size(), name);
    if (open && dims.find(flag) == std::string::npos) dims += (dims.empty() ? "" : " ") + flag;
    sizes += StrCat(i == 0 ? "" : ",", size);
  }
  std::string help = StrCat("\nhelp: give values (-i ", input, "=file.npy)");
  if (!dims.empty()) help += ", sizes by name (" + dims + ")";
  return StrCat(help, dims.empty() ? " or" : ", or", " shapes (--input-shapes \"", input, ":[", sizes, "]\")");
}

bool IsBatch(size_t axis, size_t rank, const std::string& dim_name) {
  return axis == 0 && (rank > 1 || dim_name.find("batch") != std::string::npos || dim_name == "N");
}

std::optional<Fill> ParseFill(const std::string& text) {
  if (text == "random") return Fill{};
  if (text == "ones") return Fill{.value = 1, .range = {}};
  if (text == "zeros") return Fill{.value = 0, .range = {}};
  const std::string ranged = "random:";
  if (text.starts_with(ranged)) return Fill{.value = {}, .range = ParseRange(text.substr(ranged.size()))};
  if (const std::optional<double> value = ParseDouble(text)) return Fill{.value = value, .range = {}};
  return std::nullopt;
}

NDArray MakeFilled(const runtime::TensorInfo& info, const Fill& fill, unsigned seed, const DynamicSizes& sizes) {
  if (!info.value_type.empty()) {
    throw DTypeError(StrCat("can't fill input '", info.name, "', a ", info.value_type, "; run the model from Python"));
  }
  if (!runtime::IsNumber(info.dtype)) {
    throw DTypeError(StrCat("can't fill input '", info.name, "' of type ", info.dtype, "; give a file"));
  }
  if (fill.value) CheckHas(info, *fill.value);
  NDArray tensor = NDArray::Empty(ShapeOf(info, sizes), info.dtype);
  std::mt19937 bits(seed);
  const auto next = fill.value ? [value = *fill.value](std::mt19937&) { return value; } : Generator(info, fill);
  const int64_t count = tensor.size();
  for (int64_t i = 0; i < count; ++i) runtime::StoreDouble(info.dtype, tensor.data_ptr(), i, next(bits));
  return tensor;
}

}  // namespace treadle::cli
