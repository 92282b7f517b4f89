// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/instrument.h"

#include <cmath>
#include <optional>
#include <random>

#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {
namespace {

using runtime::ElementAsDouble;
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

/// A tensor of random values; nothing for types without a rule.
std::optional<NDArray> RandomTensor(const std::vector<int64_t>& shape, DataType dtype, std::mt19937_64* random) {
  if (!runtime::IsNumber(dtype)) return std::nullopt;
  NDArray data = NDArray::Empty(shape, dtype);
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<int> whole(0, 7);
  for (int64_t i = 0; i < data.size(); ++i) {
    if (dtype.is_integral()) {
      runtime::StoreInt64(dtype, data.data_ptr(), i, dtype.is_bool() ? whole(*random) & 1 : whole(*random));
    } else {
      runtime::StoreDouble(dtype, data.data_ptr(), i, real(*random));
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
    double x = ElementAsDouble(expected, i);
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  for (int64_t i = 0; i < expected.size(); ++i) {
    double x = ElementAsDouble(expected, i), y = ElementAsDouble(actual, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    double excess = std::abs(x - y) - options.atol * largest - options.rtol * std::abs(x);
    if (!std::isfinite(excess)) excess = HUGE_VAL;  // NaN or infinity on one side
    if (excess > worst) {
      worst = excess;
      place = i;
    }
  }
  if (worst <= 0) return "";
  return StrCat("element ", place, " was ", ElementAsDouble(expected, place), " and is ",
                ElementAsDouble(actual, place));
}

}  // namespace treadle::relay
