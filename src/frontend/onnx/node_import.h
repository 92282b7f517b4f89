// SPDX-License-Identifier: Apache-2.0
// What an import rule sees of its node: inputs with their types and, where known, their values; attributes; and the
// means to build graph IR.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/onnx/expr_builder.h"
#include "frontend/onnx/model.h"
#include "treadle/base/error.h"
#include "treadle/relay/expr.h"

namespace treadle::onnx {

/// The rule's node can't be imported: `reason`. The importer collects these.
class UnsupportedNode : public std::exception {
 public:
  explicit UnsupportedNode(std::string reason) : reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

/// A value that a node reads.
class NodeInput {
 public:
  virtual ~NodeInput() = default;
  /// The value as an expression: weights become parameters of the function here.
  virtual relay::Expr expr() = 0;
  /// The value if it is known when compiling, weights included.
  virtual std::optional<NDArray> known() = 0;
  /// The element type where it has 4 or 2 bits (the array has a byte per element then).
  virtual std::optional<ElemType> sub_byte() const = 0;
  /// Whether the elements are strings: the expression is of their numbers (values.h).
  virtual bool is_text() const { return false; }
};

struct TextOperands;

/// Imports the graphs that a node has as attributes.
class SubgraphImporter {
 public:
  virtual ~SubgraphImporter() = default;
  /// Of the whole import.
  ops::KnownValues* known_values() { return &known_values_; }
  /// The graph's outputs, with its inputs bound to `inputs`, of which those are strings that `text` says. Values of the
  /// surrounding graphs are in scope.
  virtual std::vector<relay::Expr> ImportSubgraph(const Graph& graph, const std::vector<relay::Expr>& inputs,
                                                  const std::vector<bool>& text) = 0;
  /// Which outputs of the graph that was imported last are strings.
  virtual const std::vector<bool>& text_results() const = 0;
  /// What is imported from here on belongs to a new global function: values of outside become parameters of it.
  virtual GlobalVar OpenFunction(const std::string& hint) = 0;
  /// Ends the function that was opened last: its parameters for values of outside, and those values.
  virtual std::vector<std::pair<relay::Var, relay::Expr>> CloseFunction() = 0;
  virtual void DefineFunction(const GlobalVar& var, const relay::Function& function) = 0;
  /// The size of a dimension that the graph around the node declares for a value; -1 where it says none.
  virtual int64_t DeclaredSize(const std::string& value, size_t axis) = 0;
  /// The rank that the graph around the node declares for a value; -1 where it says none, or 0, which exporters write
  /// for what they don't know.
  virtual int64_t DeclaredRank(const std::string& value) = 0;
  /// The same of what is declared for a value.
  virtual int64_t SizeOf(const ValueInfo& declared, size_t axis) = 0;

 private:
  ops::KnownValues known_values_;
};

class NodeImport : public ExprBuilder {
 public:
  /// `inputs` are null where the node leaves an input out.
  NodeImport(const Node& node, int version, int64_t opset, std::vector<NodeInput*> inputs, SubgraphImporter* subgraphs);

  const Node& node() const { return node_; }
  /// The opset at which the operator got the definition that applies.
  int version() const { return version_; }
  int64_t opset() const { return opset_; }

  // ---- Inputs.
  size_t num_inputs() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  /// Whether the input's value is known when compiling.
  bool IsKnown(size_t i) const { return Has(i) && inputs_[i]->known().has_value(); }
  /// The input; a ModelFormatError when the node leaves it out.
  relay::Expr In(size_t i);
  /// From here on inputs may have elements of 4 or 2 bits, which come as int8 and uint8. Refused otherwise: most
  /// operators would take them for bytes.
  void AllowSubByte() { allow_sub_byte_ = true; }
  /// As AllowSubByte, of strings.
  void AllowText(const TextOperands* operands) { text_operands_ = operands; }
  bool IsText(size_t i) const { return Has(i) && inputs_[i]->is_text(); }
  /// Says that an output is of strings.
  void MarkText(size_t output = 0) { text_outputs_.insert(output); }
  const std::set<size_t>& text_outputs() const { return text_outputs_; }
  /// All inputs, none of which may be left out.
  Array<relay::Expr> AllInputs();
  /// The value of an input that has to be known when compiling; `name` is its name in the standard.
  NDArray Constant(size_t i, const char* name);
  /// As Constant, of an integer vector or scalar.
  std::vector<int64_t> ConstantInts(size_t i, const char* name);
  /// As ConstantInts; nothing when the input is left out.
  std::optional<std::vector<int64_t>> OptionalInts(size_t i, const char* name);
  int64_t ConstantInt(size_t i, const char* name);
  /// As Constant, of a floating-point vector or scalar of any precision.
  std::vector<double> ConstantFloats(size_t i, const char* name);

  // ---- Types of inputs.
  int Rank(size_t i) { return RankOf(In(i)); }
  DataType DType(size_t i) { return TypeOf(In(i))->dtype; }
  /// The element type where it has 4 or 2 bits and the input comes as bytes.
  std::optional<ElemType> SubByte(size_t i) const { return inputs_[i]->sub_byte(); }
  /// The element type that the model states, of 4 and 2 bits, too.
  DataType StatedDType(size_t i);
  /// Shape of an input that has to be static; refuses the node otherwise.
  std::vector<int64_t> StaticShape(size_t i) { return StaticShapeOf(In(i)); }
  std::vector<int64_t> StaticShapeOf(const relay::Expr& expr);
  /// The size of dimension `axis`, which has to be static.
  int64_t StaticDim(const relay::Expr& expr, int axis);
  /// `axis` counted from 0; a ModelFormatError unless it is in [-rank, rank).
  int Axis(int64_t axis, int rank);
  std::vector<int64_t> Axes(std::vector<int64_t> axes, int rank);

  // ---- Attributes. A missing one without default is a ModelFormatError, so is one of another type.
  bool HasAttr(const char* name) const { return node_.FindAttribute(name) != nullptr; }
  int64_t Int(const char* name, std::optional<int64_t> otherwise = std::nullopt);
  bool Flag(const char* name, bool otherwise) { return Int(name, otherwise ? 1 : 0) != 0; }
  double Float(const char* name, std::optional<double> otherwise = std::nullopt);
  std::string Str(const char* name, std::optional<std::string> otherwise = std::nullopt);
  std::vector<int64_t> Ints(const char* name, std::optional<std::vector<int64_t>> otherwise = std::nullopt);
  std::optional<std::vector<int64_t>> OptInts(const char* name);
  std::vector<double> Floats(const char* name, std::optional<std::vector<double>> otherwise = std::nullopt);
  /// The attribute if present (of whatever type), noted as read; null otherwise.
  const Attribute* Find(const char* name);
  /// Notes attributes that don't change the result as read.
  void Ignore(std::initializer_list<const char*> names);
  /// Notes an optional input as read although it doesn't matter.
  void IgnoreInput(size_t i) { read_inputs_.insert(i); }
  /// ONNX type number to type; refuses those that Treadle doesn't compute with.
  DataType TypeAttr(const char* name, std::optional<ElemType> otherwise = std::nullopt);
  DataType ToType(ElemType type);

  /// The outputs of the graph that is the attribute's value, with its inputs bound; `text`: which of those are strings,
  /// none beyond its end.
  std::vector<relay::Expr> Subgraph(const char* name, const std::vector<relay::Expr>& inputs,
                                    const std::vector<bool>& text = {});
  /// As Subgraph, of a graph without inputs whose results are the node's: throws a RankFork (forks.h) where a run
  /// decides their ranks.
  std::vector<relay::Expr> ForkingSubgraph(const char* name);
  /// Which outputs of the graph that was imported last are strings.
  const std::vector<bool>& text_results() const { return subgraphs_->text_results(); }
  /// A function of the model's own, see SubgraphImporter.
  GlobalVar OpenFunction(const std::string& hint) { return subgraphs_->OpenFunction(hint); }
  std::vector<std::pair<relay::Var, relay::Expr>> CloseFunction() { return subgraphs_->CloseFunction(); }
  void DefineFunction(const GlobalVar& var, const relay::Function& f) { subgraphs_->DefineFunction(var, f); }

  // ---- Refusals.
  [[noreturn]] void Unsupported(const std::string& reason) const { throw UnsupportedNode(reason); }
  /// The node breaks a rule of the standard.
  [[noreturn]] void Invalid(const std::string& message) const;
  /// Refuses the node if it has inputs or attributes that no rule looked at.
  void CheckAllRead() const;
  /// Number of outputs that the node names (up to the last that isn't "").
  size_t num_outputs() const { return num_outputs_; }
  bool WantsOutput(size_t i) const { return i < num_outputs_ && !node_.outputs[i].empty(); }
  /// The size of a dimension that the model declares for an output; -1 where it says none.
  int64_t DeclaredSize(size_t output, size_t axis) const {
    return HasDeclarations(output) ? subgraphs_->DeclaredSize(node_.outputs[output], axis) : -1;
  }
  int64_t DeclaredRank(size_t output = 0) const {
    return HasDeclarations(output) ? subgraphs_->DeclaredRank(node_.outputs[output]) : -1;
  }
  /// The same of what a graph of the node declares for a value.
  int64_t SizeOf(const ValueInfo& declared, size_t axis) const { return subgraphs_->SizeOf(declared, axis); }

 private:
  /// Nodes that rules write (contrib.h) have neither.
  bool HasDeclarations(size_t output) const { return subgraphs_ != nullptr && WantsOutput(output); }
  NodeInput* Read(size_t i);
  const Attribute* Typed(const char* name, Attribute::Type type);

  const Node& node_;
  int version_;
  int64_t opset_;
  std::vector<NodeInput*> inputs_;
  SubgraphImporter* subgraphs_;
  size_t num_outputs_ = 0;
  bool allow_sub_byte_ = false;
  const TextOperands* text_operands_ = nullptr;  ///< nullptr: none
  std::set<size_t> text_outputs_;
  std::set<size_t> read_inputs_;
  std::set<std::string> read_attributes_;
};

}  // namespace treadle::onnx
