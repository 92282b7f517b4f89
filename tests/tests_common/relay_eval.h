// SPDX-License-Identifier: Apache-2.0
// Values of programs of the graph IR, computed by the interpreter: what passes must keep.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "treadle/base/half.h"
#include "treadle/driver/compile.h"
#include "treadle/driver/interpreter.h"
#include "treadle/relay/text.h"

namespace treadle::testing {

using driver::Value;

/// Random numbers of few digits: floats in [-2, 2], integers in [-4, 4], bools. Symbolic dimensions become 3.
inline Value RandomValue(const Type& type, std::mt19937* random) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    Array<Value> fields;
    for (const Type& field : tuple->fields) fields.push_back(RandomValue(field, random));
    return driver::TupleValue(fields);
  }
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr) throw Error("no random values of type " + relay::PrettyPrint(type));
  std::vector<int64_t> shape;
  for (const PrimExpr& dim : tensor->shape) {
    const auto* size = dim.as<IntImmNode>();
    shape.push_back(size != nullptr ? size->value : 3);
  }
  const DataType t = tensor->dtype;
  NDArray array = NDArray::Empty(shape, t);
  for (int64_t i = 0; i < array.size(); ++i) {
    const int number = static_cast<int>((*random)() % 9) - 4;
    const double fraction = static_cast<double>(static_cast<int>((*random)() % 129) - 64) / 32;
    if (t == DataType::Float(32)) {
      array.Data<float>()[i] = static_cast<float>(fraction);
    } else if (t == DataType::Float(64)) {
      array.Data<double>()[i] = fraction;
    } else if (t == DataType::Float(16)) {
      array.Data<uint16_t>()[i] = FloatToHalf(static_cast<float>(fraction));
    } else if (t.is_bool()) {
      array.Data<uint8_t>()[i] = static_cast<uint8_t>(number > 0);
    } else if (t.is_integral() && t.bytes() == 1) {
      array.Data<int8_t>()[i] = static_cast<int8_t>(t.is_uint() ? std::abs(number) : number);
    } else if (t.is_integral() && t.bytes() == 4) {
      array.Data<int32_t>()[i] = number;
    } else if (t.is_integral() && t.bytes() == 8) {
      array.Data<int64_t>()[i] = number;
    } else {
      throw Error(StrCat("no random values of dtype ", t));
    }
  }
  return array;
}

/// Random arguments for the parameters of `function`.
inline std::vector<Value> RandomInputs(const IRModule& module, unsigned seed, const std::string& function = "main") {
  std::mt19937 random(seed);
  std::vector<Value> inputs;
  for (const relay::Var& param : Downcast<relay::Function>(module->Lookup(function))->params) {
    inputs.push_back(RandomValue(param->checked_type(), &random));
  }
  return inputs;
}

/// The value of `function` of the module on `inputs`.
inline Value EvalModule(const IRModule& module, const std::vector<Value>& inputs,
                        const std::string& function = "main") {
  return driver::Interpreter(module).Run(function, inputs);
}

inline double ElementAsDouble(const NDArray& array, int64_t i) {
  const DataType t = array.dtype();
  if (t == DataType::Float(32)) return array.Data<float>()[i];
  if (t == DataType::Float(64)) return array.Data<double>()[i];
  if (t == DataType::Float(16)) return HalfToFloat(array.Data<uint16_t>()[i]);
  if (t == DataType::BFloat(16)) return BFloat16ToFloat(array.Data<uint16_t>()[i]);
  switch (t.bytes()) {
    case 1:
      return t.is_int() ? double{static_cast<double>(array.Data<int8_t>()[i])} : array.Data<uint8_t>()[i];
    case 2:
      return t.is_int() ? double{static_cast<double>(array.Data<int16_t>()[i])} : array.Data<uint16_t>()[i];
    case 4:
      return t.is_int() ? double{static_cast<double>(array.Data<int32_t>()[i])} : array.Data<uint32_t>()[i];
    default:
      return static_cast<double>(array.Data<int64_t>()[i]);
  }
}

/// "" when the values agree: same structure, shapes and dtypes, numbers within the tolerance (of each number's size
/// for floats; integers exactly). Functions aren't compared. Else where and how they differ.
inline std::string DifferenceOfValues(const Value& a, const Value& b, double tolerance = 1e-4,
                                      const std::string& path = "result") {
  if (a->type_key() != b->type_key()) return StrCat(path, ": ", a->type_key(), " against ", b->type_key());
  auto fields_differ = [&](const Array<Value>& x, const Array<Value>& y) -> std::string {
    if (x.size() != y.size()) return StrCat(path, ": ", x.size(), " fields against ", y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      std::string difference = DifferenceOfValues(x[i], y[i], tolerance, StrCat(path, ".", i));
      if (!difference.empty()) return difference;
    }
    return "";
  };
  if (const auto* x = a.as<driver::TupleValueNode>()) {
    return fields_differ(x->fields, b.as<driver::TupleValueNode>()->fields);
  }
  if (const auto* x = a.as<driver::ConstructorValueNode>()) {
    const auto* y = b.as<driver::ConstructorValueNode>();
    if (x->constructor->name_hint != y->constructor->name_hint) {
      return StrCat(path, ": ", x->constructor->name_hint, " against ", y->constructor->name_hint);
    }
    return fields_differ(x->fields, y->fields);
  }
  if (const auto* x = a.as<driver::RefValueNode>()) {
    return DifferenceOfValues(x->value, b.as<driver::RefValueNode>()->value, tolerance, path + ".value");
  }
  if (a.as<runtime::NDArrayNode>() == nullptr) return "";
  NDArray x = Downcast<NDArray>(a), y = Downcast<NDArray>(b);
  if (x.dtype() != y.dtype()) return StrCat(path, ": ", x.dtype(), " against ", y.dtype());
  if (x.shape() != y.shape()) {
    return StrCat(path, ": shape ", runtime::ShapeString(x.shape()), " against ", runtime::ShapeString(y.shape()));
  }
  for (int64_t i = 0; i < x.size(); ++i) {
    double u = ElementAsDouble(x, i), v = ElementAsDouble(y, i);
    if (u == v || (std::isnan(u) && std::isnan(v))) continue;
    bool close = x.dtype().is_floating() && std::abs(u - v) <= tolerance * (1 + std::max(std::abs(u), std::abs(v)));
    if (!close) return StrCat(path, "[", i, "]: ", u, " against ", v);
  }
  return "";
}

/// Runs both modules' main on the same random inputs.
inline void ExpectSameResult(const IRModule& before, const IRModule& after, unsigned seed = 1,
                             double tolerance = 1e-4) {
  const std::vector<Value> inputs = RandomInputs(before, seed);
  const std::string difference = DifferenceOfValues(EvalModule(before, inputs), EvalModule(after, inputs), tolerance);
  EXPECT_EQ(difference, "") << relay::PrettyPrint(before) << "\nbecame\n" << relay::PrettyPrint(after);
}

}  // namespace treadle::testing
