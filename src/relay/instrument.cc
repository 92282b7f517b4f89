// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/instrument.h"

#include <cmath>
#include <optional>
#include <random>

#include "treadle/base/half.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

using runtime::NDArray;
using treadle::transform::PassInfo;
using treadle::transform::PassInstrument;

class PassVerifier : public PassInstrument {
 public:
  std::string name() const override { return "PassVerifier"; }
  void RunBeforePass(const IRModule& module, const PassInfo& info) override {
    Check(module, "before pass " + info.name + " the module isn't well formed");
  }
  void RunAfterPass(const IRModule& module, const PassInfo& info) override {
    Check(module, "pass " + info.name + " made a module that isn't well formed");
  }
  TREADLE_NODE(PassVerifier, PassInstrument, "instrument.PassVerifier")

 private:
  void Check(const IRModule& module, const std::string& what) {
    if (module.same_as(checked_)) return;
    std::string problem = FindIllFormed(module);
    if (!problem.empty()) throw Error(StrCat(what, ": ", problem));
    checked_ = module;
  }
  IRModule checked_;
};

/// Element `i` of a tensor as a double.
double ElementOf(const NDArray& data, int64_t i) {
  const DataType dtype = data.dtype();
  switch (dtype.code()) {
    case DataType::kFloat:
      if (dtype.bits() == 64) return data.Data<double>()[i];
      if (dtype.bits() == 32) return data.Data<float>()[i];
      if (dtype.bits() == 16) return HalfToFloat(data.Data<uint16_t>()[i]);
      break;
    case DataType::kBFloat:
      return BFloat16ToFloat(data.Data<uint16_t>()[i]);
    default:
      if (!dtype.is_integral()) break;
      if (dtype.bytes() == 1) return dtype.is_int() ? data.Data<int8_t>()[i] : data.Data<uint8_t>()[i];
      if (dtype.bytes() == 2) return dtype.is_int() ? data.Data<int16_t>()[i] : data.Data<uint16_t>()[i];
      if (dtype.bytes() == 4) return dtype.is_int() ? data.Data<int32_t>()[i] : data.Data<uint32_t>()[i];
      return static_cast<double>(data.Data<int64_t>()[i]);
  }
  throw DTypeError(StrCat("values of dtype ", dtype, " can't be compared"));
}

/// A tensor of random values; nothing for types without a rule.
std::optional<NDArray> RandomTensor(const std::vector<int64_t>& shape, DataType dtype, std::mt19937_64* random) {
  NDArray data = NDArray::Empty(shape, dtype);
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<int> whole(0, 7);
  for (int64_t i = 0; i < data.size(); ++i) {
    if (dtype.is_bool()) {
      data.Data<uint8_t>()[i] = static_cast<uint8_t>(whole(*random) & 1);
    } else if (dtype == DataType::Float(32)) {
      data.Data<float>()[i] = static_cast<float>(real(*random));
    } else if (dtype == DataType::Float(64)) {
      data.Data<double>()[i] = real(*random);
    } else if (dtype == DataType::Float(16)) {
      data.Data<uint16_t>()[i] = FloatToHalf(real(*random));
    } else if (dtype.is_integral() && dtype.bytes() == 1) {
      data.Data<uint8_t>()[i] = static_cast<uint8_t>(whole(*random));
    } else if (dtype.is_integral() && dtype.bytes() == 2) {
      data.Data<uint16_t>()[i] = static_cast<uint16_t>(whole(*random));
    } else if (dtype.is_integral() && dtype.bytes() == 4) {
      data.Data<uint32_t>()[i] = static_cast<uint32_t>(whole(*random));
    } else if (dtype.is_integral() && dtype.bytes() == 8) {
      data.Data<uint64_t>()[i] = static_cast<uint64_t>(whole(*random));
    } else {
      return std::nullopt;
    }
  }
  return data;
}

class NumericCheck : public PassInstrument {
 public:
  ModuleRunner run;
  NumericCheckOptions options;

  std::string name() const override { return "NumericCheck"; }
  void RunBeforePass(const IRModule& module, const PassInfo&) override { Evaluate(module); }
  void RunAfterPass(const IRModule& module, const PassInfo& info) override {
    if (module.same_as(evaluated_)) return;
    std::optional<std::vector<NDArray>> before = std::move(results_);
    const std::string signature = signature_;
    Evaluate(module);
    if (!before || !results_ || signature != signature_) return;
    if (before->size() != results_->size()) {
      throw Error(
          StrCat("pass ", info.name, " changed the number of results from ", before->size(), " to ", results_->size()));
    }
    for (size_t i = 0; i < before->size(); ++i) {
      std::string difference = DescribeDifference((*before)[i], (*results_)[i], options);
      if (!difference.empty()) {
        throw Error(StrCat("pass ", info.name, " changed what main computes: result ", i, ": ", difference));
      }
    }
  }
  TREADLE_NODE(NumericCheck, PassInstrument, "instrument.NumericCheck")

 private:
  /// Sets results_ to what main gives for the inputs of its parameters; nothing where it can't run.
  void Evaluate(const IRModule& module) {
    if (module.same_as(evaluated_)) return;
    evaluated_ = module;
    results_.reset();
    if (!module->ContainGlobalVar("main") || module->Lookup("main").as<FunctionNode>() == nullptr) return;
    const IRModule typed = InferTypes(module);
    const BaseFunc main = typed->Lookup("main");
    auto inputs = RandomInputs(main, options.seed);
    if (!inputs) return;
    signature_.clear();
    for (const NDArray& input : *inputs) {
      signature_ += StrCat(input.dtype(), "[");
      for (int64_t dim : input.shape()) signature_ += StrCat(dim, ",");
      signature_ += "]";
    }
    results_ = run(typed, *inputs);
  }

  IRModule evaluated_;
  std::string signature_;  ///< types of the inputs
  std::optional<std::vector<NDArray>> results_;
};

}  // namespace

std::string FindIllFormed(const IRModule& module) {
  for (const auto& [var, func] : module->functions) {
    if (func.as<FunctionNode>() == nullptr) continue;
    std::string message;
    if (!WellFormed(func, &message)) return StrCat("@", var->name_hint, ": ", message);
    Array<Var> free = FreeVars(func);
    if (!free.empty()) return StrCat("@", var->name_hint, " uses %", free[0]->name_hint(), ", which isn't bound");
  }
  try {
    InferTypes(module);
  } catch (const TypeInferError& error) {
    return error.what();
  }
  return "";
}

ObjectPtr<PassInstrument> MakePassVerifier() { return MakeObject<PassVerifier>(); }

ObjectPtr<PassInstrument> MakeNumericCheck(ModuleRunner run, NumericCheckOptions options) {
  auto node = MakeObject<NumericCheck>();
  node->run = std::move(run);
  node->options = options;
  return node;
}

std::optional<std::vector<NDArray>> RandomInputs(const BaseFunc& func, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<NDArray> inputs;
  for (const Var& param : Downcast<Function>(func)->params) {
    Type type = param->checked_type_.defined() ? param->checked_type_ : param->type_annotation;
    const auto* tensor = type.as<TensorTypeNode>();
    if (tensor == nullptr || !IsStatic(tensor)) return std::nullopt;
    auto data = RandomTensor(StaticShape(tensor, param->name_hint()), tensor->dtype, &random);
    if (!data) return std::nullopt;
    inputs.push_back(*data);
  }
  return inputs;
}

std::string DescribeDifference(const NDArray& expected, const NDArray& actual, const NumericCheckOptions& options) {
  if (expected.dtype() != actual.dtype()) return StrCat("dtype ", expected.dtype(), " became ", actual.dtype());
  if (expected.shape() != actual.shape()) return "the shape changed";
  double largest = 0, worst = -1;
  int64_t place = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    double x = ElementOf(expected, i);
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  for (int64_t i = 0; i < expected.size(); ++i) {
    double x = ElementOf(expected, i), y = ElementOf(actual, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    double excess = std::abs(x - y) - options.atol * largest - options.rtol * std::abs(x);
    if (!std::isfinite(excess)) excess = HUGE_VAL;  // NaN or infinity on one side
    if (excess > worst) {
      worst = excess;
      place = i;
    }
  }
  if (worst <= 0) return "";
  return StrCat("element ", place, " was ", ElementOf(expected, place), " and is ", ElementOf(actual, place));
}

}  // namespace treadle::relay
