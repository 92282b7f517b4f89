// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/expr_builder.h"

#include "frontend/onnx/node_import.h"
#include "ops/infer.h"
#include "treadle/base/error.h"
#include "treadle/runtime/scalar.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

/// Receives what one type relation finds out about the result. Operands have full types already.
class ResultReporter : public TypeReporter {
 public:
  explicit ResultReporter(Type hole) : hole_(std::move(hole)) {}
  void Assign(const Type& dst, const Type& src) override {
    if (dst.same_as(hole_)) {
      result_ = src;
    } else {
      CheckOperand(dst.as<TensorTypeNode>(), src.as<TensorTypeNode>());
    }
  }
  bool AssertEqual(const PrimExpr& lhs, const PrimExpr& rhs) override {
    const int64_t* a = AsConstInt(lhs);
    const int64_t* b = AsConstInt(rhs);
    return a == nullptr || b == nullptr || *a == *b;  // what is symbolic, type inference of the module decides
  }
  void Error(const std::string& message) override {
    if (error_.empty()) error_ = message;
  }
  const Type& result() const { return result_; }
  const std::string& error() const { return error_; }

 private:
  /// What a relation says of an operand's type has to be what that is, as far as sizes are known.
  void CheckOperand(const TensorTypeNode* actual, const TensorTypeNode* expected) {
    if (actual == nullptr || expected == nullptr) return;
    bool fits = actual->dtype == expected->dtype && actual->shape.size() == expected->shape.size();
    for (size_t i = 0; fits && i < actual->shape.size(); ++i) fits = AssertEqual(actual->shape[i], expected->shape[i]);
    if (!fits) Error(StrCat("an operand is ", ops::TypeText(actual), ", expected ", ops::TypeText(expected)));
  }

  Type hole_;
  Type result_;
  std::string error_;
};

template <typename E>
E WithType(E expr, const Type& type) {
  const_cast<RelayExprNode*>(static_cast<const RelayExprNode*>(expr.get()))->checked_type_ = type;
  return expr;
}

Type InferCallType(const Op& op, const Array<Expr>& args, const Attrs& attrs) {
  TREADLE_ICHECK(op->type_relation != nullptr) << "operator " << op->name << " has no type relation";
  Array<Type> types;
  for (const Expr& arg : args) types.push_back(arg.checked_type());
  IncompleteType hole(TypeKind::kType);
  types.push_back(hole);
  ResultReporter reporter(hole);
  bool done = op->type_relation(types, static_cast<int>(args.size()), attrs, reporter);
  if (!reporter.error().empty()) throw ShapeError(reporter.error());
  TREADLE_ICHECK(done && reporter.result().defined()) << "type of a call of " << op->name << " stays unknown";
  return reporter.result();
}

std::string FieldText(const std::string& op_name, const std::string& field) {
  return StrCat("attribute ", field, " of ", op_name);
}

Array<PrimExpr> ToPrimExprs(const std::vector<int64_t>& values, int bits) {
  Array<PrimExpr> result;
  for (int64_t value : values) result.push_back(IntImm(DataType::Int(bits), value));
  return result;
}

/// Stores one value in a field of whatever kind it has.
struct FieldSetter {
  const FieldInfo& field;
  Object* object;
  const std::string& op_name;

  template <typename T>
  void Mismatch(const T&) const {
    throw InternalError(StrCat("import rule gives ", FieldText(op_name, field.name), " a value of the wrong kind"));
  }
  void operator()(bool value) const {
    if (field.kind == FieldKind::kBool) return (void)(field.GetMutable<bool>(object) = value);
    (*this)(int64_t{value});
  }
  void operator()(int64_t value) const {
    switch (field.kind) {
      case FieldKind::kInt32:
        if (value < INT32_MIN || value > INT32_MAX) {
          throw ShapeError(StrCat(FieldText(op_name, field.name), " is ", value, ", which is beyond 32 bits"));
        }
        field.GetMutable<int>(object) = static_cast<int>(value);
        break;
      case FieldKind::kInt64:
        field.GetMutable<int64_t>(object) = value;
        break;
      case FieldKind::kDouble:
        field.GetMutable<double>(object) = static_cast<double>(value);
        break;
      case FieldKind::kOptInt64:
        field.GetMutable<std::optional<int64_t>>(object) = value;
        break;
      case FieldKind::kOptDouble:
        field.GetMutable<std::optional<double>>(object) = static_cast<double>(value);
        break;
      case FieldKind::kInt64s:
        field.GetMutable<std::vector<int64_t>>(object) = {value};
        break;
      case FieldKind::kOptInt64s:
        field.GetMutable<std::optional<std::vector<int64_t>>>(object) = {{value}};
        break;
      case FieldKind::kObject:
        field.GetMutable<ObjectRef>(object) = IntImm(DataType::Int(64), value);
        break;
      default:
        Mismatch(value);
    }
  }
  void operator()(double value) const {
    switch (field.kind) {
      case FieldKind::kDouble:
        field.GetMutable<double>(object) = value;
        break;
      case FieldKind::kOptDouble:
        field.GetMutable<std::optional<double>>(object) = value;
        break;
      default:
        Mismatch(value);
    }
  }
  void operator()(const std::string& value) const {
    if (field.kind == FieldKind::kObject) return (void)(field.GetMutable<ObjectRef>(object) = String(value));
    if (field.kind != FieldKind::kString) return Mismatch(value);
    field.GetMutable<std::string>(object) = value;
  }
  void operator()(const std::vector<int64_t>& value) const {
    switch (field.kind) {
      case FieldKind::kInt64s:
        field.GetMutable<std::vector<int64_t>>(object) = value;
        break;
      case FieldKind::kOptInt64s:
        field.GetMutable<std::optional<std::vector<int64_t>>>(object) = value;
        break;
      case FieldKind::kObject:
        field.GetMutable<ObjectRef>(object) = ToPrimExprs(value, 64);
        break;
      default:
        Mismatch(value);
    }
  }
  void operator()(const std::vector<double>& value) const {
    if (field.kind != FieldKind::kDoubles) return Mismatch(value);
    field.GetMutable<std::vector<double>>(object) = value;
  }
  void operator()(DataType value) const {
    if (field.kind != FieldKind::kDataType) return Mismatch(value);
    field.GetMutable<DataType>(object) = value;
  }
  void operator()(const ObjectRef& value) const {
    if (field.kind != FieldKind::kObject) return Mismatch(value);
    field.GetMutable<ObjectRef>(object) = value;
  }
};

}  // namespace

Attrs MakeAttrsByName(const TypeInfo* type, const std::string& op_name, const AttrList& fields) {
  if (type == nullptr) {
    TREADLE_ICHECK(fields.empty()) << "operator " << op_name << " takes no attributes";
    return Attrs();
  }
  TREADLE_ICHECK(type->create != nullptr) << "attributes of " << op_name << " can't be created";
  ObjectPtr<Object> object(type->create());
  for (const auto& [name, value] : fields) {
    const FieldInfo* found = nullptr;
    for (const FieldInfo& field : type->fields) {
      if (field.name == name) found = &field;
    }
    TREADLE_ICHECK(found != nullptr) << "there is no " << FieldText(op_name, name);
    std::visit(FieldSetter{*found, object.get(), op_name}, value);
  }
  return Attrs(object);
}

const TensorTypeNode* TypeOf(const Expr& expr) {
  const auto* type = expr->type_as<TensorTypeNode>();
  if (type == nullptr) throw UnsupportedNode("a value that isn't a tensor is used where one is expected");
  return type;
}

const NDArrayNode* KnownValue(const Expr& expr) {
  const auto* constant = expr.as<relay::ConstantNode>();
  return constant == nullptr ? nullptr : constant->data.get();
}

std::vector<int64_t> IntsOf(const NDArray& array) {
  if (!array.dtype().is_integral()) throw DTypeError(StrCat("expected integers, got a tensor of ", array.dtype()));
  return runtime::ToInt64s(array);
}

std::vector<double> DoublesOf(const NDArray& array) { return runtime::ToDoubles(array); }

NDArray ArrayOf(const std::vector<int64_t>& values, const std::vector<int64_t>& shape, DataType dtype) {
  return runtime::FromInt64s(values, shape, dtype);
}
NDArray ArrayOf(const std::vector<double>& values, const std::vector<int64_t>& shape, DataType dtype) {
  return runtime::FromDoubles(values, shape, dtype);
}

relay::Var MakeVar(const std::string& name, const Type& type, const Span& span) {
  return WithType(relay::Var(name, type, span), type);
}

Expr MakeConstant(const NDArray& value, const Span& span) {
  relay::Constant constant(value, span);
  return WithType(constant, TensorType(value.shape(), value.dtype()));
}

namespace {

/// The place that a value computed from `args` gets: one that rearranges a weight keeps the weight's name.
Span SpanOfResult(const Array<Expr>& args, const Span& span) {
  if (args.size() != 1 || args[0].as<relay::ConstantNode>() == nullptr) return span;
  const Span& source = args[0]->span;
  return source.defined() && source->line == 0 ? source : span;
}

}  // namespace

Expr ExprBuilder::Call(const char* op_name, const Array<Expr>& args, const AttrList& attr_list) {
  Op op = Op::Find(op_name);
  if (!op.defined()) throw UnsupportedNode(StrCat("needs the graph operator ", op_name, ", which doesn't exist"));
  Attrs attrs = MakeAttrsByName(op->attrs_type, op_name, attr_list);
  Type type = InferCallType(op, args, attrs);
  if (auto value = ops::EvaluateCall(op, args, attrs, type)) return MakeConstant(*value, SpanOfResult(args, span_));
  Expr call = WithType(relay::Call(op, args, attrs, {}, span_), type);
  // What is made of a shape may be known although the shape is only in part.
  if (auto known = KnownElements(call)) {
    const auto* tensor = type.as<TensorTypeNode>();
    return MakeConstant(ArrayOf(*known, treadle::StaticShape(tensor, "value"), tensor->dtype), span_);
  }
  return call;
}

std::optional<std::vector<PrimExpr>> ExprBuilder::ShapeElements(const Expr& x) {
  if (known_ != nullptr) return known_->Elements(x);
  return ops::KnownValues().Elements(x);
}
std::optional<std::vector<int64_t>> ExprBuilder::KnownElements(const Expr& x) {
  if (known_ != nullptr) return known_->Integers(x);
  return ops::KnownValues().Integers(x);
}

Expr ExprBuilder::Item(const Expr& tuple, int index) {
  if (const auto* node = tuple.as<relay::TupleNode>()) return node->fields[static_cast<size_t>(index)];
  const auto* type = tuple->type_as<TupleTypeNode>();
  TREADLE_ICHECK(type != nullptr) << "field " << index << " of something that isn't a tuple";
  return WithType(relay::TupleGetItem(tuple, index, span_), type->fields[static_cast<size_t>(index)]);
}

Expr ExprBuilder::MakeTuple(const Array<Expr>& fields) {
  Array<Type> types;
  for (const Expr& field : fields) types.push_back(field.checked_type());
  return WithType(relay::Tuple(fields, span_), TupleType(types));
}

Expr ExprBuilder::Const(const NDArray& value) { return MakeConstant(value, span_); }

Expr ExprBuilder::Scalar(DataType dtype, double value) {
  return Const(ArrayOf(std::vector<double>{value}, std::vector<int64_t>{}, dtype));
}

Expr ExprBuilder::IntVector(const std::vector<int64_t>& values, DataType dtype) {
  return Const(ArrayOf(values, {static_cast<int64_t>(values.size())}, dtype));
}

Expr ExprBuilder::Reshape(const Expr& x, const std::vector<int64_t>& shape) {
  return Call("reshape", {x}, {{"newshape", shape}});
}
Expr ExprBuilder::Transpose(const Expr& x, const std::vector<int64_t>& axes) {
  return Call("transpose", {x}, {{"axes", axes}});
}
Expr ExprBuilder::Cast(const Expr& x, DataType dtype) {
  if (TypeOf(x)->dtype == dtype) return x;
  return Call("cast", {x}, {{"dtype", dtype}});
}
Expr ExprBuilder::Concat(const Array<Expr>& parts, int axis) {
  return Call("concatenate", {MakeTuple(parts)}, {{"axis", int64_t{axis}}});
}
Expr ExprBuilder::ExpandDims(const Expr& x, int axis, int count) {
  if (count == 0) return x;
  return Call("expand_dims", {x}, {{"axis", int64_t{axis}}, {"num_newaxis", int64_t{count}}});
}
Expr ExprBuilder::Squeeze(const Expr& x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  return Call("squeeze", {x}, {{"axis", axes}});
}
Expr ExprBuilder::Pad(const Expr& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                      const Expr& value, const std::string& mode) {
  Array<Array<PrimExpr>> width;
  for (size_t i = 0; i < before.size(); ++i) width.push_back(Array<PrimExpr>{PrimExpr(before[i]), PrimExpr(after[i])});
  return Call("nn.pad", {x, value}, {{"pad_width", width}, {"pad_mode", mode}});
}
Expr ExprBuilder::Slice(const Expr& x, int axis, int64_t begin, int64_t end) {
  return Call("strided_slice", {x},
              {{"begin", std::vector<int64_t>{begin}},
               {"end", std::vector<int64_t>{end}},
               {"strides", std::vector<int64_t>{1}},
               {"axes", std::vector<int64_t>{axis}},
               {"slice_mode", "end"}});
}

}  // namespace treadle::onnx
