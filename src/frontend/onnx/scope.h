// SPDX-License-Identifier: Apache-2.0
// The named values of a graph that is being imported, and of the graphs around it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/onnx/model.h"
#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

/// Makes weights expressions.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual bool has_large_weights() const = 0;
  virtual relay::Expr WeightExpr(const std::string& name, const NDArray& value) = 0;
};

/// A named value: an expression, a weight that nobody has asked for as an expression yet, or the output of a node that
/// couldn't be imported.
class Value : public NodeInput {
 public:
  Value() = default;
  explicit Value(relay::Expr e, bool text = false) : expr_(std::move(e)), text_(text) {}
  Value(WeightSource* weights, std::string name, std::shared_ptr<const Tensor> tensor)
      : weights_(weights), name_(std::move(name)), tensor_(std::move(tensor)) {}
  Value(WeightSource* weights, std::string name, std::shared_ptr<const SparseTensor> tensor)
      : weights_(weights), name_(std::move(name)), sparse_(std::move(tensor)) {}

  relay::Expr expr() override;
  std::optional<NDArray> known() override;
  std::optional<ElemType> sub_byte() const override {
    if (narrow_.has_value() || is_text() || (!tensor_ && !sparse_)) return narrow_;
    const ElemType type = tensor_ ? tensor_->data_type : sparse_->values.data_type;
    return ElemTypeBits(type) < 8 ? std::optional(type) : std::nullopt;
  }
  /// Elements of 4 or 2 bits, which the expression has as bytes.
  void set_sub_byte(std::optional<ElemType> type) { narrow_ = type; }
  bool is_text() const override { return text_ || (tensor_ && tensor_->data_type == ElemType::kString); }
  bool poisoned() const { return !expr_.defined() && tensor_ == nullptr && sparse_ == nullptr; }

 private:
  const NDArray& array();

  WeightSource* weights_ = nullptr;
  std::string name_;
  std::shared_ptr<const Tensor> tensor_;
  std::shared_ptr<const SparseTensor> sparse_;
  NDArray array_;
  relay::Expr expr_;
  std::optional<ElemType> narrow_;
  bool text_ = false;
  bool computed_ = false;  ///< by the model when it runs: `known` has looked
};

/// Names of one graph; `outer` is the graph around it.
struct Scope {
  Scope* outer = nullptr;
  std::unordered_map<std::string, std::shared_ptr<Value>> values;  ///< shared: a function's body sees its caller's

  /// Of a function: values of outside that it uses become its parameters.
  bool is_function = false;
  std::vector<std::pair<relay::Var, relay::Expr>> captured;

  /// The value of that name here or around; null where there is none.
  std::shared_ptr<Value> Lookup(const std::string& name);
  Value* Find(const std::string& name) { return Lookup(name).get(); }
  /// The same; one without a value, as of an input that the function's caller leaves out, where there is none.
  std::shared_ptr<Value> Shared(const std::string& name);
  std::shared_ptr<Value> Capture(const std::string& name, Value& value);
  template <typename... Args>
  void Define(const std::string& name, Args&&... args) {
    values[name] = std::make_shared<Value>(std::forward<Args>(args)...);
  }
};

}  // namespace treadle::onnx
