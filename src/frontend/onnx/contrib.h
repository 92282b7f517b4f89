// SPDX-License-Identifier: Apache-2.0
// Operators of the domain com.microsoft, which ONNX Runtime's optimiser, quantiser and exporters write: mostly standard
// operators of other operands, or several of them in one.
#pragma once

#include <string>
#include <vector>

#include "frontend/onnx/rules.h"

namespace treadle::onnx {

/// The domain of ONNX Runtime's own operators, and how the table of rules names them.
inline constexpr const char* kContribDomain = "com.microsoft";
inline std::string ContribName(const std::string& op_type) { return StrCat(kContribDomain, ".", op_type); }

/// Registers the rule of an operator of com.microsoft: all are of version 1.
void AddContrib(RuleTable& table, const std::string& op_type, ImportRule rule);
/// For rules that return a single value.
template <typename F>
void AddContrib1(RuleTable& table, const std::string& op_type, F rule) {
  AddContrib(table, op_type, [rule](NodeImport& n) { return std::vector<relay::Expr>{rule(n)}; });
}

void RegisterContribFusedRules(RuleTable& table);
void RegisterContribQuantizeRules(RuleTable& table);
void RegisterContribStandardRules(RuleTable& table);
void RegisterContribTransformerRules(RuleTable& table);
void RegisterContribWeightRules(RuleTable& table);

/// A standard operator of given operands, imported by its own rule: attributes that the node has under the same name
/// are taken from it, others are given.
class StandardOp {
 public:
  /// The operator as of `opset`.
  StandardOp(NodeImport& n, std::string op_type, int opset);
  /// An operand; a null one is left out.
  StandardOp& Operand(const relay::Expr& value);
  /// Input `i` of the node, left out where the node leaves it out; elements of 4 and 2 bits stay known as such.
  StandardOp& Input(size_t i);
  /// The node's own attributes of these names, where it has them.
  StandardOp& Take(std::initializer_list<const char*> names);
  StandardOp& Set(const char* name, int64_t value);
  StandardOp& Set(const char* name, double value);
  StandardOp& Set(const char* name, const std::string& value);
  StandardOp& Set(const char* name, std::vector<int64_t> value);
  /// The outputs; `count` of them are wanted.
  std::vector<relay::Expr> Import(size_t count = 1);
  relay::Expr Import1() { return Import()[0]; }

 private:
  NodeImport& n_;
  Node node_;
  int opset_;
  std::vector<std::pair<relay::Expr, std::optional<ElemType>>> operands_;
};

/// Input `i` as float32, of scale and zero point (which may be left out) at inputs `scale` and `zero_point`.
relay::Expr Dequantized(NodeImport& n, size_t i, size_t scale, size_t zero_point, int64_t axis = 0);
/// `real` as integers of scale and zero point at those inputs; of type `otherwise` where there is no zero point.
relay::Expr Quantized(NodeImport& n, const relay::Expr& real, size_t scale, size_t zero_point, DataType otherwise);
/// The integers `a` of given scale and zero point (null: 0) times input `b` of scale and zero point at those inputs:
/// float32.
relay::Expr IntegerProduct(NodeImport& n, const relay::Expr& a, const relay::Expr& a_scale, const relay::Expr& a_zero,
                           size_t b, size_t b_scale, size_t b_zero);
/// NCHW of a tensor whose channels are its last dimension, and back.
relay::Expr ChannelsFirst(NodeImport& n, const relay::Expr& x);
relay::Expr ChannelsLast(NodeImport& n, const relay::Expr& x);

}  // namespace treadle::onnx
