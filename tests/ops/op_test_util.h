// SPDX-License-Identifier: Apache-2.0
// Asking operators for types and running them alone.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "driver/lower/lower_tir.h"
#include "ops/infer.h"
#include "targets/llvm/codegen.h"
#include "treadle/base/checked_math.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"

namespace treadle::ops {

/// Records what a relation says; holes are filled by position.
class Recorder : public TypeReporter {
 public:
  void Assign(const Type& dst, const Type& src) override {
    for (Type& type : types) {
      if (type.same_as(dst)) {
        if (dst.as<IncompleteTypeNode>() != nullptr) {
          type = src;
        } else if (!StructuralEqual(dst, src, true)) {
          error = "mismatch: " + StructuralDifference(dst, src, true);
        }
      }
    }
  }
  bool AssertEqual(const PrimExpr& lhs, const PrimExpr& rhs) override {
    return SameDim(lhs, rhs) || IsAnyDim(lhs) || IsAnyDim(rhs);
  }
  void Error(const std::string& message) override { error = message; }
  std::vector<Type> types;
  std::string error;
};

inline std::string Show(const Type& type) {
  if (const auto* tensor = type.as<TensorTypeNode>()) return TypeText(tensor);
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    std::string text;
    for (const Type& field : tuple->fields) text += (text.empty() ? "(" : ", ") + Show(field);
    return text + ")";
  }
  return "unknown";
}

struct Result {
  std::string out;  ///< type of the result, or the error
  Type type;
  std::vector<std::string> inputs;
};

inline Result InferAll(const std::string& name, std::vector<Type> inputs, Attrs attrs = Attrs()) {
  RegisterAllOps();
  const Op& op = Op::Get(name);
  if (!attrs.defined() && op->attrs_type != nullptr) attrs = Attrs(ObjectPtr<Object>(op->attrs_type->create()));
  Recorder recorder;
  recorder.types = inputs;
  recorder.types.push_back(IncompleteType(TypeKind::kType));
  Array<Type> types;
  for (const Type& type : recorder.types) types.push_back(type);
  bool known = op->type_relation(types, static_cast<int>(inputs.size()), attrs, recorder);
  Result result;
  result.out = !recorder.error.empty() ? recorder.error : known ? Show(recorder.types.back()) : "waits";
  result.type = recorder.types.back();
  for (size_t i = 0; i < inputs.size(); ++i) result.inputs.push_back(Show(recorder.types[i]));
  return result;
}

inline std::string Infer(const std::string& name, std::vector<Type> inputs, Attrs attrs = Attrs()) {
  return InferAll(name, std::move(inputs), std::move(attrs)).out;
}

inline Type F32(const std::vector<int64_t>& shape) { return TensorType(shape, DataType::Float(32)); }
inline Type I64(const std::vector<int64_t>& shape) { return TensorType(shape, DataType::Int(64)); }
inline Type Hole() { return IncompleteType(TypeKind::kType); }

using runtime::NDArray;

inline NDArray Floats(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  return NDArray::FromVector(values, shape, DataType::Float(32));
}
inline NDArray Longs(const std::vector<int64_t>& shape, const std::vector<int64_t>& values) {
  return NDArray::FromVector(values, shape, DataType::Int(64));
}
/// Values in [-1, 1), the same in each run.
inline NDArray RandomFloats(const std::vector<int64_t>& shape, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (float& v : values) v = value(engine);
  return Floats(shape, values);
}
template <typename T>
std::vector<T> ToVector(const NDArray& a) {
  return std::vector<T>(a.Data<T>(), a.Data<T>() + a.size());
}

/// Compiles the operator for tensors of these types (`is_tuple`: they are the fields of its one operand), without a
/// schedule, and runs it. Results are filled with garbage before.
inline std::vector<NDArray> RunOp(const std::string& name, const std::vector<NDArray>& inputs, Attrs attrs = Attrs(),
                                  bool is_tuple = false) {
  RegisterAllOps();
  const Op& op = Op::Get(name);
  if (!attrs.defined() && op->attrs_type != nullptr) attrs = Attrs(ObjectPtr<Object>(op->attrs_type->create()));
  std::vector<Type> types;
  Array<te::Tensor> args;
  for (const NDArray& input : inputs) {
    types.push_back(TensorType(input.shape(), input.dtype()));
    args.push_back(te::Placeholder(IntArray(input.shape()), input.dtype(), StrCat("p", args.size())));
  }
  if (is_tuple) {
    Array<Type> fields;
    for (const Type& type : types) fields.push_back(type);
    types = {TupleType(fields)};
  }
  Result inferred = InferAll(name, types, attrs);
  if (inferred.type.as<IncompleteTypeNode>() != nullptr) throw ShapeError(inferred.out);
  Array<te::Tensor> results = (*op.GetAttr(kCompute))(attrs, args, inferred.type);
  std::vector<void*> data;
  for (const NDArray& input : inputs) data.push_back(input.data_ptr());
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorTypeNode* type = inferred.type.as<TensorTypeNode>();
    Type field;
    if (const auto* tuple = inferred.type.as<TupleTypeNode>()) {
      field = tuple->fields[i];
      type = field.as<TensorTypeNode>();
    }
    EXPECT_EQ(results[i]->dtype, type->dtype);
    outputs.push_back(NDArray::Empty(StaticShape(type, name), type->dtype));
    std::memset(outputs.back().data_ptr(), 0x7f, static_cast<size_t>(outputs.back().nbytes()));
    data.push_back(outputs.back().data_ptr());
    args.push_back(results[i]);
  }
  Target target("llvm -mcpu=native");
  tir::PrimFunc func = driver::LowerPrimFunc(te::CreatePrimFunc(args, "f"), target);
  auto module = targets::JitLLVM({func}, target);
  auto f = reinterpret_cast<targets::RawFunction>(module->GetSymbol("f__raw"));
  if (f(data.data(), nullptr) != 0) throw RuntimeError("the kernel failed");
  return outputs;
}

}  // namespace treadle::ops
