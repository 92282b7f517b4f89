// SPDX-License-Identifier: Apache-2.0
// Typed graph IR built by hand, for tests that need neither parser nor type inference.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::testing {

using relay::Call;
using relay::Constant;
using relay::Expr;
using relay::Function;
using relay::Let;
using relay::Tuple;
using relay::TupleGetItem;
using relay::Var;

inline TensorType F32(const std::vector<int64_t>& shape) { return TensorType(shape, DataType::Float(32)); }

template <typename E>
E Typed(E expr, const Type& type) {
  const_cast<relay::ExprNode*>(static_cast<const relay::ExprNode*>(expr.get()))->checked_type_ = type;
  return expr;
}

inline Var Param(const std::string& name, const Type& type) { return Typed(Var(name, type), type); }
inline Constant Zeros(const std::vector<int64_t>& shape, DataType dtype = DataType::Float(32)) {
  auto data = runtime::NDArray::Empty(shape, dtype);
  std::vector<char> bytes(static_cast<size_t>(data.nbytes()), 0);
  data.CopyFromBytes(bytes.data(), bytes.size());
  return Typed(Constant(data), TensorType(shape, dtype));
}

/// A call of operator `name`, which is registered with the pattern on first use.
inline Expr CallOp(const std::string& name, OpPatternKind pattern, const Array<Expr>& args, const Type& type) {
  if (!Op::Find(name).defined()) OpRegistration(name).Set(kOpPattern, pattern);
  return Typed(Call(Op::Get(name), args), type);
}

inline Expr Fields(const Array<Expr>& fields) {
  Array<Type> types;
  for (const Expr& field : fields) types.push_back(field->checked_type());
  return Typed(Tuple(fields), TupleType(types));
}
inline Expr Field(const Expr& tuple, int index) {
  return Typed(TupleGetItem(tuple, index), tuple->type_as<TupleTypeNode>()->fields[static_cast<size_t>(index)]);
}

inline Function MakeFunction(const Array<Var>& params, const Expr& body) {
  Array<Type> types;
  for (const Var& param : params) types.push_back(param->checked_type());
  return Typed(Function(params, body, body->checked_type()), FuncType(types, body->checked_type()));
}

/// A call of a primitive function with one operator of the given pattern.
inline Expr Kernel(const Array<Expr>& args, const Type& type, OpPatternKind pattern = OpPatternKind::kOpaque,
                   bool reshape_only = false) {
  static const char* const kNames[] = {
      "test.elemwise", "test.broadcast", "test.injective", "test.reduce", "test.complex", "", "", "", "test.opaque"};
  Array<Var> params;
  Array<Expr> inner;
  for (const Expr& arg : args) {
    params.push_back(Param("p" + std::to_string(params.size()), arg->checked_type()));
    inner.push_back(params.back());
  }
  Function func = MakeFunction(params, CallOp(kNames[static_cast<int>(pattern)], pattern, inner, type));
  IntImm one(DataType::Int(32), 1);
  func = WithAttr(func, attr::kPrimitive, one);
  if (reshape_only) func = WithAttr(func, attr::kReshapeOnly, one);
  Typed(func, FuncType({}, type));
  return Typed(Call(func, args), type);
}

}  // namespace treadle::testing
