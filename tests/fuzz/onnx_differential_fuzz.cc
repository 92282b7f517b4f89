// SPDX-License-Identifier: Apache-2.0
// ONNX files whose values are all integers, where nothing rounds: native code of every pass gives the bits that the
// interpreter gives of none.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/proto_reader.h"
#include "onnx_run.h"
#include "treadle/base/error.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/transform.h"
#include "treadle/runtime/limits.h"

namespace rt = treadle::runtime;

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 20;  // the interpreter isn't quick

bool IsInteger(const treadle::Type& type) {
  if (const auto* tensor = type.as<treadle::TensorTypeNode>()) return tensor->dtype.is_integral();
  if (const auto* tuple = type.as<treadle::TupleTypeNode>()) {
    return std::all_of(tuple->fields.begin(), tuple->fields.end(), [](const treadle::Type& t) { return IsInteger(t); });
  }
  return true;  // of functions and the like
}

bool HasIntegersOnly(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  treadle::IRModule module = treadle::onnx::FromOnnx(treadle::onnx::ReadModelBytes(*owner, owner, "fuzz"), {}).mod;
  module = treadle::relay::transform::InferType()(module);
  bool only = true;
  for (const auto& [name, function] : module->functions) {
    treadle::relay::PostOrderVisit(treadle::Downcast<treadle::relay::Expr>(function),
                                   [&](const treadle::relay::Expr& e) {
                                     if (e->checked_type_.defined()) only = only && IsInteger(e->checked_type_);
                                   });
  }
  return only;
}

using Results = std::vector<rt::NDArray>;

/// Nothing where the model is refused.
std::optional<Results> ResultsOf(const std::string& bytes, int opt_level, const char* target) {
  try {
    const rt::Model model = treadle::fuzz::Compiled(bytes, treadle::fuzz::QuietOptions(opt_level, target));
    return model.Run(treadle::fuzz::InputsFrom(bytes, model.inputs()), 1);
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
    return std::nullopt;
  }
}

bool Same(const rt::NDArray& a, const rt::NDArray& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(a.nbytes())) == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  treadle::driver::RegisterAll();
  rt::SetMaxTensorBytes(kMostBytes);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (!HasIntegersOnly(bytes)) return 0;
  } catch (const treadle::InternalError&) {
    throw;
  } catch (const treadle::Error&) {
    return 0;
  }
  const auto native = ResultsOf(bytes, 3, "llvm -mcpu=native"), plain = ResultsOf(bytes, 0, "stackvm");
  if (!native || !plain) return 0;
  for (size_t i = 0; i < native->size(); ++i) {
    if (Same((*native)[i], (*plain)[i])) continue;
    std::fprintf(stderr, "result %zu differs\n", i);
    __builtin_trap();
  }
  return 0;
}
