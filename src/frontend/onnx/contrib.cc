// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/contrib.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "frontend/onnx/op_versions.h"

namespace treadle::onnx {

using relay::Expr;

void AddContrib(RuleTable& table, const std::string& op_type, ImportRule rule) {
  table.Add(ContribName(op_type), {1}, std::move(rule));
}

namespace {

/// An expression as the input of a node.
class GivenInput : public NodeInput {
 public:
  GivenInput(Expr e, std::optional<ElemType> narrow) : expr_(std::move(e)), narrow_(narrow) {}
  Expr expr() override { return expr_; }
  std::optional<NDArray> known() override {
    const auto* constant = expr_.as<relay::ConstantNode>();
    if (constant == nullptr) return std::nullopt;
    return constant->data;
  }
  std::optional<ElemType> sub_byte() const override { return narrow_; }

 private:
  Expr expr_;
  std::optional<ElemType> narrow_;
};

Attribute Named(const char* name, Attribute::Type type) {
  Attribute attribute;
  attribute.name = name;
  attribute.type = type;
  return attribute;
}

}  // namespace

StandardOp::StandardOp(NodeImport& n, std::string op_type, int opset) : n_(n), opset_(opset) {
  node_.name = n.node().DisplayName();
  node_.op_type = std::move(op_type);
}

StandardOp& StandardOp::Operand(const Expr& value) {
  operands_.emplace_back(value, std::nullopt);
  return *this;
}

StandardOp& StandardOp::Input(size_t i) {
  operands_.emplace_back(n_.Has(i) ? n_.In(i) : Expr(), n_.Has(i) ? n_.SubByte(i) : std::nullopt);
  return *this;
}

StandardOp& StandardOp::Take(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const Attribute* attribute = n_.Find(name)) node_.attributes.push_back(*attribute);
  }
  return *this;
}

StandardOp& StandardOp::Set(const char* name, int64_t value) {
  node_.attributes.push_back(Named(name, Attribute::Type::kInt));
  node_.attributes.back().i = value;
  return *this;
}

StandardOp& StandardOp::Set(const char* name, double value) {
  node_.attributes.push_back(Named(name, Attribute::Type::kFloat));
  node_.attributes.back().f = static_cast<float>(value);
  return *this;
}

StandardOp& StandardOp::Set(const char* name, const std::string& value) {
  node_.attributes.push_back(Named(name, Attribute::Type::kString));
  node_.attributes.back().s = value;
  return *this;
}

StandardOp& StandardOp::Set(const char* name, std::vector<int64_t> value) {
  node_.attributes.push_back(Named(name, Attribute::Type::kInts));
  node_.attributes.back().ints = std::move(value);
  return *this;
}

std::vector<Expr> StandardOp::Import(size_t count) {
  const std::vector<int> versions = VersionsOfOp(node_.op_type);
  const auto after = std::upper_bound(versions.begin(), versions.end(), opset_);
  TREADLE_ICHECK(after != versions.begin()) << node_.op_type << " isn't in opset " << opset_;
  const int version = *std::prev(after);
  const ImportRule* rule = RuleTable::All().Find(node_.op_type, version);
  TREADLE_ICHECK(rule != nullptr) << "no rule for " << node_.op_type << " " << version;
  std::vector<std::unique_ptr<GivenInput>> given;
  std::vector<NodeInput*> inputs;
  for (const auto& [operand, narrow] : operands_) {
    node_.inputs.push_back(operand.defined() ? "given" : "");
    given.push_back(operand.defined() ? std::make_unique<GivenInput>(operand, narrow) : nullptr);
    inputs.push_back(given.back().get());
  }
  for (size_t i = 0; i < count; ++i) node_.outputs.push_back(StrCat("result", i));
  NodeImport inner(node_, version, opset_, std::move(inputs), nullptr);
  std::vector<Expr> results = (*rule)(inner);
  inner.CheckAllRead();
  return results;
}

namespace {

/// A vector of one number as that number.
Expr OneNumber(NodeImport& n, const Expr& value) {
  const int64_t* count = RankOf(value) == 1 ? AsConstInt(TypeOf(value)->shape[0]) : nullptr;
  return count != nullptr && *count == 1 ? n.Reshape(value, {}) : value;
}

/// Whether only a run knows how many numbers there are.
bool IsUncounted(const Expr& value) { return RankOf(value) == 1 && AsConstInt(TypeOf(value)->shape[0]) == nullptr; }

Expr ZeroPointOr(NodeImport& n, size_t i, DataType otherwise) {
  if (n.Has(i) && n.DType(i) != otherwise) {
    n.Invalid(StrCat("the zero point (input ", i, ") is ", n.DType(i), ", expected ", otherwise));
  }
  return n.Has(i) ? OneNumber(n, n.In(i)) : n.Scalar(otherwise, 0);
}

}  // namespace

Expr Dequantized(NodeImport& n, size_t i, size_t scale, size_t zero_point, int64_t axis) {
  Expr s = OneNumber(n, n.In(scale)), z = ZeroPointOr(n, zero_point, n.DType(i));
  if (RankOf(s) > 1 || RankOf(z) > 1) n.Unsupported("scales and zero points of rank 2 and more aren't implemented");
  if (IsUncounted(s) || IsUncounted(z)) {
    StandardOp op(n, "DequantizeLinear", 13);
    op.Operand(n.In(i)).Operand(s).Operand(n.Has(zero_point) ? z : Expr());
    return op.Set("axis", axis).Import1();
  }
  const bool one = RankOf(s) == 0 && RankOf(z) == 0;
  return n.Call("qnn.dequantize", {n.In(i), s, z}, {{"axis", one ? int64_t{0} : n.Axis(axis, n.Rank(i))}});
}

Expr Quantized(NodeImport& n, const Expr& real, size_t scale, size_t zero_point, DataType otherwise) {
  const DataType dtype = n.Has(zero_point) ? n.DType(zero_point) : otherwise;
  Expr s = OneNumber(n, n.In(scale)), z = ZeroPointOr(n, zero_point, dtype);
  for (Expr* value : {&s, &z}) {
    if (IsUncounted(*value)) *value = n.Reshape(*value, {});  // checked when it runs
  }
  if (RankOf(s) != 0 || RankOf(z) != 0) n.Unsupported("several scales of a result aren't implemented");
  return n.Call("qnn.quantize", {real, s, z}, {{"axis", int64_t{0}}, {"out_dtype", dtype}});
}

Expr ChannelsFirst(NodeImport& n, const Expr& x) {
  std::vector<int64_t> axes{0, RankOf(x) - 1};
  for (int i = 1; i + 1 < RankOf(x); ++i) axes.push_back(i);
  return n.Transpose(x, axes);
}

Expr ChannelsLast(NodeImport& n, const Expr& x) {
  std::vector<int64_t> axes{0};
  for (int i = 2; i < RankOf(x); ++i) axes.push_back(i);
  axes.push_back(1);
  return n.Transpose(x, axes);
}

}  // namespace treadle::onnx
