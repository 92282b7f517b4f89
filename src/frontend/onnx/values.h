// SPDX-License-Identifier: Apache-2.0
// Values that aren't tensors of numbers: strings, sequences, optionals, maps. The virtual machine's host functions
// (treadle/runtime/vm/host.h) compute with them. A tensor of strings is one of int64 numbers of strings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/onnx/rules.h"

namespace treadle::onnx {

/// What a host function gives: treadle/ops/attrs/host.h.
struct HostType {
  std::string kind = "tensor";
  DataType dtype = DataType::Int(64);
  int64_t rank = -1;
};
relay::Expr HostCall(ExprBuilder& n, const char* function, const Array<relay::Expr>& args, const HostType& type);
/// A call that gives a tensor whose type and rank the function checks: they are its last argument.
relay::Expr HostTensor(ExprBuilder& n, const char* function, Array<relay::Expr> args, DataType dtype, int64_t rank);
/// A constant vector of bytes.
relay::Expr BytesConstant(ExprBuilder& n, const std::string& bytes);

// ---- Strings.

/// Constant strings of that shape.
relay::Expr TextConstant(ExprBuilder& n, const std::vector<int64_t>& shape, const std::vector<std::string>& texts);
inline relay::Expr TextVector(ExprBuilder& n, const std::vector<std::string>& texts) {
  return TextConstant(n, {static_cast<int64_t>(texts.size())}, texts);
}
relay::Expr TextConstant(ExprBuilder& n, const Tensor& tensor);
/// Numbers to strings and back.
relay::Expr ToText(NodeImport& n, const relay::Expr& x);
relay::Expr FromText(NodeImport& n, const relay::Expr& x, DataType dtype);
bool HasText(const TypeProto& type);

// ---- Sequences.

/// Whether the value is a sequence: of a length known when compiling (a tuple), or not.
bool IsSequence(const relay::Expr& e);
/// As a value of the machine; a tuple becomes one.
relay::Expr AsSequence(ExprBuilder& n, const relay::Expr& e);
/// The most that two types of values have in common: SequenceOf, OptionalOf or a tensor type. Throws UnsupportedNode
/// where they have no type in common.
Type CommonType(const Type& a, const Type& b, const std::string& what);
/// Whether two dimensions are known to be equal.
bool SameDim(const PrimExpr& a, const PrimExpr& b);
/// The value as one of that type, which knows no more of it.
relay::Expr AsType(ExprBuilder& n, const relay::Expr& value, const Type& type);
/// The type with which a value is carried around a loop: tuples as sequences, tensors as they are.
Type CarriedType(const relay::Expr& value);
/// A host call that gives a sequence (or an optional) of `type`.
relay::Expr HostSequence(ExprBuilder& n, const char* function, const Array<relay::Expr>& args, const Type& type);
/// Element at a run-time position of a sequence, a tensor. Refused where its rank isn't known.
relay::Expr SequenceElement(NodeImport& n, const relay::Expr& sequence, const relay::Expr& position);

// ---- Inputs and outputs of a model.

/// Whether the type passes as bytes.
bool PassesAsBytes(const TypeProto& type);
/// As ONNX Runtime writes types: "seq(tensor(float))".
std::string TypeText(const TypeProto& type);
relay::Expr DecodeInput(ExprBuilder& n, const ValueInfo& input, const relay::Expr& bytes);
/// An optional without value, of what `type` says.
relay::Expr ImportOptionalNone(NodeImport& n, const TypeProto& type);
relay::Expr EncodeOutput(ExprBuilder& n, const relay::Expr& value, bool text);

}  // namespace treadle::onnx
