// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/node_import.h"

#include <algorithm>

#include "frontend/onnx/forks.h"
#include "frontend/onnx/narrow_types.h"
#include "frontend/onnx/tensor_data.h"
#include "frontend/onnx/text_operands.h"
#include "treadle/ir/model_span.h"

namespace treadle::onnx {

using relay::Expr;

NodeImport::NodeImport(const Node& node, int version, int64_t opset, std::vector<NodeInput*> inputs,
                       SubgraphImporter* subgraphs)
    : ExprBuilder(ModelSpan(node.DisplayName(), node.op_type),
                  subgraphs == nullptr ? nullptr : subgraphs->known_values()),
      node_(node),
      version_(version),
      opset_(opset),
      inputs_(std::move(inputs)),
      subgraphs_(subgraphs),
      num_outputs_(node.outputs.size()) {
  while (num_outputs_ > 0 && node.outputs[num_outputs_ - 1].empty()) --num_outputs_;
}

void NodeImport::Invalid(const std::string& message) const {
  throw ModelFormatError(StrCat("node ", QuoteName(node_.DisplayName()), " (", node_.op_type, "): ", message));
}

NodeInput* NodeImport::Read(size_t i) {
  read_inputs_.insert(i);
  if (inputs_[i]->sub_byte().has_value() && !allow_sub_byte_) {
    Unsupported(StrCat("input ", i, " has elements of 4 or 2 bits, which isn't implemented"));
  }
  if (inputs_[i]->is_text() && (text_operands_ == nullptr || !text_operands_->Allows(i)))
    Unsupported(StrCat("input ", i, " has strings, which isn't implemented"));
  return inputs_[i];
}

Expr NodeImport::In(size_t i) {
  if (!Has(i)) Invalid(StrCat("input ", i, " is missing"));
  return Read(i)->expr();
}

DataType NodeImport::StatedDType(size_t i) {
  const DataType dtype = DType(i);
  const std::optional<ElemType> narrow = SubByte(i);
  return narrow.has_value() ? StoredType(*narrow, StrCat("input ", i)) : dtype;
}

Array<Expr> NodeImport::AllInputs() {
  Array<Expr> result;
  for (size_t i = 0; i < inputs_.size(); ++i) result.push_back(In(i));
  return result;
}

NDArray NodeImport::Constant(size_t i, const char* name) {
  if (!Has(i)) Invalid(StrCat("input '", name, "' is missing"));
  std::optional<NDArray> value = Read(i)->known();
  if (!value) {
    Unsupported(StrCat("input '", name,
                       "' isn't known when compiling (fix the shapes it depends on with "
                       "--input-shapes or --dim)"));
  }
  return *value;
}

std::vector<int64_t> NodeImport::ConstantInts(size_t i, const char* name) {
  NDArray array = Constant(i, name);
  if (!array.dtype().is_integral()) Invalid(StrCat("input '", name, "' is ", array.dtype(), ", expected integers"));
  if (array.ndim() > 1) Invalid(StrCat("input '", name, "' has rank ", array.ndim(), ", expected a vector"));
  return IntsOf(array);
}

std::optional<std::vector<int64_t>> NodeImport::OptionalInts(size_t i, const char* name) {
  if (!Has(i)) return std::nullopt;
  return ConstantInts(i, name);
}

int64_t NodeImport::ConstantInt(size_t i, const char* name) {
  std::vector<int64_t> values = ConstantInts(i, name);
  if (values.size() != 1) Invalid(StrCat("input '", name, "' has ", values.size(), " elements, expected one"));
  return values[0];
}

std::vector<double> NodeImport::ConstantFloats(size_t i, const char* name) {
  NDArray array = Constant(i, name);
  if (!array.dtype().is_floating()) Invalid(StrCat("input '", name, "' is ", array.dtype(), ", expected floats"));
  return DoublesOf(array);
}

std::vector<int64_t> NodeImport::StaticShapeOf(const Expr& expr) {
  std::vector<int64_t> shape;
  for (int i = 0; i < RankOf(expr); ++i) shape.push_back(StaticDim(expr, i));
  return shape;
}

int64_t NodeImport::StaticDim(const Expr& expr, int axis) {
  if (axis < 0 || axis >= RankOf(expr)) Invalid(StrCat("an operand of rank ", RankOf(expr), " has no axis ", axis));
  const int64_t* dim = AsConstInt(TypeOf(expr)->shape[static_cast<size_t>(axis)]);
  if (dim == nullptr) {
    Unsupported(StrCat("dimension ", axis,
                       " of an operand isn't known when compiling (fix it with --input-shapes or "
                       "--dim)"));
  }
  return *dim;
}

int NodeImport::Axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) Invalid(StrCat("axis ", axis, " is out of range for rank ", rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int64_t> NodeImport::Axes(std::vector<int64_t> axes, int rank) {
  for (int64_t& axis : axes) axis = Axis(axis, rank);
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) Invalid(StrCat("axis ", *twice, " is given twice"));
  return axes;
}

const Attribute* NodeImport::Find(const char* name) {
  const Attribute* attribute = node_.FindAttribute(name);
  if (attribute != nullptr) read_attributes_.insert(name);
  return attribute;
}

const Attribute* NodeImport::Typed(const char* name, Attribute::Type type) {
  const Attribute* attribute = Find(name);
  if (attribute != nullptr && attribute->type != type) {
    Invalid(StrCat("attribute ", QuoteName(name), " is of type ", AttributeTypeName(attribute->type), ", expected ",
                   AttributeTypeName(type)));
  }
  return attribute;
}

namespace {
template <typename T>
T Required(const NodeImport& n, const char* name, std::optional<T> otherwise) {
  if (!otherwise) n.Invalid(StrCat("attribute ", QuoteName(name), " is missing"));
  return *std::move(otherwise);
}
}  // namespace

int64_t NodeImport::Int(const char* name, std::optional<int64_t> otherwise) {
  const Attribute* attribute = Typed(name, Attribute::Type::kInt);
  return attribute != nullptr ? attribute->i : Required(*this, name, otherwise);
}

double NodeImport::Float(const char* name, std::optional<double> otherwise) {
  const Attribute* attribute = Typed(name, Attribute::Type::kFloat);
  return attribute != nullptr ? double{attribute->f} : Required(*this, name, otherwise);
}

std::string NodeImport::Str(const char* name, std::optional<std::string> otherwise) {
  const Attribute* attribute = Typed(name, Attribute::Type::kString);
  return attribute != nullptr ? attribute->s : Required(*this, name, std::move(otherwise));
}

std::vector<int64_t> NodeImport::Ints(const char* name, std::optional<std::vector<int64_t>> otherwise) {
  const Attribute* attribute = Typed(name, Attribute::Type::kInts);
  return attribute != nullptr ? attribute->ints : Required(*this, name, std::move(otherwise));
}

std::optional<std::vector<int64_t>> NodeImport::OptInts(const char* name) {
  const Attribute* attribute = Typed(name, Attribute::Type::kInts);
  if (attribute == nullptr) return std::nullopt;
  return attribute->ints;
}

std::vector<double> NodeImport::Floats(const char* name, std::optional<std::vector<double>> otherwise) {
  const Attribute* attribute = Typed(name, Attribute::Type::kFloats);
  if (attribute == nullptr) return Required(*this, name, std::move(otherwise));
  return {attribute->floats.begin(), attribute->floats.end()};
}

std::vector<Expr> NodeImport::Subgraph(const char* name, const std::vector<Expr>& inputs,
                                       const std::vector<bool>& text) {
  const Attribute* attribute = Typed(name, Attribute::Type::kGraph);
  if (attribute == nullptr) Invalid(StrCat("attribute ", QuoteName(name), " is missing"));
  try {
    return subgraphs_->ImportSubgraph(*attribute->g, inputs, text);
  } catch (const RankFork&) {
    Unsupported(StrCat("a result of its graph ", QuoteName(name), " has a rank that only the run decides"));
  }
}

std::vector<Expr> NodeImport::ForkingSubgraph(const char* name) {
  const Attribute* attribute = Typed(name, Attribute::Type::kGraph);
  if (attribute == nullptr) Invalid(StrCat("attribute ", QuoteName(name), " is missing"));
  return subgraphs_->ImportSubgraph(*attribute->g, {}, {});
}

void NodeImport::Ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) read_attributes_.insert(name);
}

DataType NodeImport::ToType(ElemType type) {
  auto dtype = ToDataType(type);
  if (!IsKnownElemType(type)) Invalid(StrCat("element type ", static_cast<int32_t>(type), " isn't one of ONNX's"));
  if (!dtype || ElemTypeBits(type) < 8) Unsupported(StrCat("type ", ElemTypeName(type), " isn't implemented"));
  return *dtype;
}

DataType NodeImport::TypeAttr(const char* name, std::optional<ElemType> otherwise) {
  std::optional<int64_t> number;
  if (otherwise) number = static_cast<int64_t>(*otherwise);
  int64_t value = Int(name, number);
  if (value < 0 || value > 1000) Invalid(StrCat("element type ", value, " isn't one of ONNX's"));
  return ToType(static_cast<ElemType>(value));
}

void NodeImport::CheckAllRead() const {
  for (const Attribute& attribute : node_.attributes) {
    if (read_attributes_.count(attribute.name) == 0) {
      Unsupported(StrCat("attribute ", QuoteName(attribute.name), " isn't implemented"));
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] != nullptr && read_inputs_.count(i) == 0) Unsupported(StrCat("input ", i, " isn't implemented"));
  }
}

}  // namespace treadle::onnx
