// SPDX-License-Identifier: Apache-2.0
#include "driver/evaluate/numeric_check.h"

#include "treadle/driver/interpreter.h"

namespace treadle::driver {
namespace {

void Flatten(const Value& value, std::vector<runtime::NDArray>* tensors) {
  if (const auto* tuple = value.as<TupleValueNode>()) {
    for (const Value& field : tuple->fields) Flatten(field, tensors);
  } else if (value.as<runtime::NDArrayNode>() != nullptr) {
    tensors->push_back(Downcast<runtime::NDArray>(value));
  }
}

}  // namespace

std::vector<runtime::NDArray> RunMain(const IRModule& module, const std::vector<runtime::NDArray>& inputs) {
  std::vector<runtime::NDArray> tensors;
  Flatten(Interpreter(module).Run("main", std::vector<Value>(inputs.begin(), inputs.end())), &tensors);
  return tensors;
}

ObjectPtr<transform::PassInstrument> MakeNumericCheck(relay::NumericCheckOptions options) {
  return relay::MakeNumericCheck(&RunMain, options);
}

}  // namespace treadle::driver
