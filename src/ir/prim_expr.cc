// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/prim_expr.h"

#include <utility>

namespace treadle::tir {

TREADLE_DEFINE_NODE(VarNode);
TREADLE_DEFINE_NODE(StringImmNode);
TREADLE_DEFINE_NODE(CastNode);
TREADLE_DEFINE_NODE(AddNode);
TREADLE_DEFINE_NODE(SubNode);
TREADLE_DEFINE_NODE(MulNode);
TREADLE_DEFINE_NODE(DivNode);
TREADLE_DEFINE_NODE(ModNode);
TREADLE_DEFINE_NODE(FloorDivNode);
TREADLE_DEFINE_NODE(FloorModNode);
TREADLE_DEFINE_NODE(MinNode);
TREADLE_DEFINE_NODE(MaxNode);
TREADLE_DEFINE_NODE(EQNode);
TREADLE_DEFINE_NODE(NENode);
TREADLE_DEFINE_NODE(LTNode);
TREADLE_DEFINE_NODE(LENode);
TREADLE_DEFINE_NODE(GTNode);
TREADLE_DEFINE_NODE(GENode);
TREADLE_DEFINE_NODE(AndNode);
TREADLE_DEFINE_NODE(OrNode);
TREADLE_DEFINE_NODE(NotNode);
TREADLE_DEFINE_NODE(SelectNode);
TREADLE_DEFINE_NODE(RampNode);
TREADLE_DEFINE_NODE(BroadcastNode);
TREADLE_DEFINE_NODE(ShuffleNode);
TREADLE_DEFINE_NODE(LetNode);
TREADLE_DEFINE_NODE(CallNode);
TREADLE_DEFINE_NODE(BufferNode);
TREADLE_DEFINE_NODE(BufferLoadNode);
TREADLE_DEFINE_NODE(RangeNode);
TREADLE_DEFINE_NODE(IterVarNode);
TREADLE_DEFINE_NODE(CommReducerNode);
TREADLE_DEFINE_NODE(ReduceNode);
TREADLE_DEFINE_NODE(DataProducerNode);
TREADLE_DEFINE_NODE(ProducerLoadNode);

Var::Var(std::string name_hint, DataType dtype, Span span) {
  auto node = MakeObject<VarNode>();
  node->name_hint = std::move(name_hint);
  node->dtype = dtype;
  node->span = std::move(span);
  data_ = std::move(node);
}

Var::Var(std::string name_hint, Type type_annotation, Span span) {
  auto node = MakeObject<VarNode>();
  node->name_hint = std::move(name_hint);
  const auto* prim = type_annotation.as<PrimTypeNode>();
  node->dtype = prim ? prim->dtype : DataType::Handle();
  node->type_annotation = std::move(type_annotation);
  node->span = std::move(span);
  data_ = std::move(node);
}

StringImm::StringImm(std::string value, Span span) {
  auto node = MakeObject<StringImmNode>();
  node->value = std::move(value);
  node->dtype = DataType::Handle();
  node->span = std::move(span);
  data_ = std::move(node);
}

Cast::Cast(DataType dtype, PrimExpr value, Span span) {
  if (dtype.lanes() != value.dtype().lanes()) {
    throw DTypeError(StrCat("cast of ", value.dtype(), " to ", dtype, " changes the number of lanes"));
  }
  auto node = MakeObject<CastNode>();
  node->dtype = dtype;
  node->value = std::move(value);
  node->span = std::move(span);
  data_ = std::move(node);
}

namespace {

template <typename Node>
ObjectPtr<Object> MakeBinary(DataType dtype, PrimExpr a, PrimExpr b, Span span) {
  TREADLE_ICHECK(a.defined() && b.defined()) << "null operand of " << Node::kSymbol;
  if (a.dtype() != b.dtype()) {
    throw DTypeError(StrCat("operands of ", Node::kSymbol, " have different dtypes: ", a.dtype(), " and ", b.dtype()));
  }
  auto node = MakeObject<Node>();
  node->dtype = dtype;
  node->a = std::move(a);
  node->b = std::move(b);
  node->span = std::move(span);
  return node;
}

}  // namespace

#define TREADLE_DEFINE_ARITHMETIC(Name)                                                 \
  Name::Name(PrimExpr a, PrimExpr b, Span span) {                                       \
    DataType dtype = a.dtype();                                                         \
    data_ = MakeBinary<Name##Node>(dtype, std::move(a), std::move(b), std::move(span)); \
  }
#define TREADLE_DEFINE_PREDICATE(Name)                                                  \
  Name::Name(PrimExpr a, PrimExpr b, Span span) {                                       \
    DataType dtype = DataType::Bool(a.dtype().lanes());                                 \
    data_ = MakeBinary<Name##Node>(dtype, std::move(a), std::move(b), std::move(span)); \
  }
TREADLE_DEFINE_ARITHMETIC(Add)
TREADLE_DEFINE_ARITHMETIC(Sub)
TREADLE_DEFINE_ARITHMETIC(Mul)
TREADLE_DEFINE_ARITHMETIC(Div)
TREADLE_DEFINE_ARITHMETIC(Mod)
TREADLE_DEFINE_ARITHMETIC(FloorDiv)
TREADLE_DEFINE_ARITHMETIC(FloorMod)
TREADLE_DEFINE_ARITHMETIC(Min)
TREADLE_DEFINE_ARITHMETIC(Max)
TREADLE_DEFINE_PREDICATE(EQ)
TREADLE_DEFINE_PREDICATE(NE)
TREADLE_DEFINE_PREDICATE(LT)
TREADLE_DEFINE_PREDICATE(LE)
TREADLE_DEFINE_PREDICATE(GT)
TREADLE_DEFINE_PREDICATE(GE)
TREADLE_DEFINE_PREDICATE(And)
TREADLE_DEFINE_PREDICATE(Or)

Not::Not(PrimExpr a, Span span) {
  auto node = MakeObject<NotNode>();
  node->dtype = DataType::Bool(a.dtype().lanes());
  node->a = std::move(a);
  node->span = std::move(span);
  data_ = std::move(node);
}

Select::Select(PrimExpr condition, PrimExpr true_value, PrimExpr false_value, Span span) {
  if (true_value.dtype() != false_value.dtype()) {
    throw DTypeError(
        StrCat("values of select have different dtypes: ", true_value.dtype(), " and ", false_value.dtype()));
  }
  auto node = MakeObject<SelectNode>();
  node->dtype = true_value.dtype();
  node->condition = std::move(condition);
  node->true_value = std::move(true_value);
  node->false_value = std::move(false_value);
  node->span = std::move(span);
  data_ = std::move(node);
}

Ramp::Ramp(PrimExpr base, PrimExpr stride, int lanes, Span span) {
  TREADLE_ICHECK(base.dtype().is_scalar() && lanes > 1) << "ramp of " << lanes << " lanes over " << base.dtype();
  auto node = MakeObject<RampNode>();
  node->dtype = base.dtype().with_lanes(lanes);
  if (stride.dtype() != base.dtype()) stride = Cast(base.dtype(), stride);
  node->base = std::move(base);
  node->stride = std::move(stride);
  node->lanes = lanes;
  node->span = std::move(span);
  data_ = std::move(node);
}

Broadcast::Broadcast(PrimExpr value, int lanes, Span span) {
  TREADLE_ICHECK(value.dtype().is_scalar() && lanes > 1) << "broadcast of " << value.dtype() << " to " << lanes;
  auto node = MakeObject<BroadcastNode>();
  node->dtype = value.dtype().with_lanes(lanes);
  node->value = std::move(value);
  node->lanes = lanes;
  node->span = std::move(span);
  data_ = std::move(node);
}

Shuffle::Shuffle(Array<PrimExpr> vectors, Array<PrimExpr> indices, Span span) {
  TREADLE_ICHECK(!vectors.empty() && !indices.empty()) << "empty shuffle";
  auto node = MakeObject<ShuffleNode>();
  node->dtype = vectors[0].dtype().with_lanes(static_cast<int>(indices.size()));
  node->vectors = std::move(vectors);
  node->indices = std::move(indices);
  node->span = std::move(span);
  data_ = std::move(node);
}

Let::Let(Var var, PrimExpr value, PrimExpr body, Span span) {
  auto node = MakeObject<LetNode>();
  node->dtype = body.dtype();
  node->var = std::move(var);
  node->value = std::move(value);
  node->body = std::move(body);
  node->span = std::move(span);
  data_ = std::move(node);
}

Call::Call(DataType dtype, RelayExpr op, Array<PrimExpr> args, Span span) {
  auto node = MakeObject<CallNode>();
  node->dtype = dtype;
  node->op = std::move(op);
  node->args = std::move(args);
  node->span = std::move(span);
  data_ = std::move(node);
}

Buffer::Buffer(Var data, DataType dtype, Array<PrimExpr> shape, Array<PrimExpr> strides, PrimExpr elem_offset,
               std::string name, int data_alignment, int offset_factor, Span span) {
  TREADLE_ICHECK(data->type_annotation.as<PointerTypeNode>() != nullptr) << "data of a buffer must be a pointer";
  auto node = MakeObject<BufferNode>();
  node->data = std::move(data);
  node->dtype = dtype;
  node->shape = std::move(shape);
  node->strides = std::move(strides);
  node->elem_offset = std::move(elem_offset);
  node->name = std::move(name);
  node->data_alignment = data_alignment;
  node->offset_factor = offset_factor;
  node->span = std::move(span);
  data_ = std::move(node);
}

std::string Buffer::scope() const {
  const auto* pointer = get()->data->type_annotation.as<PointerTypeNode>();
  return pointer == nullptr || pointer->storage_scope.empty() ? "global" : pointer->storage_scope;
}

Buffer DeclBuffer(Array<PrimExpr> shape, DataType dtype, std::string name, std::string scope) {
  Var data(name, PointerType(PrimType(dtype), std::move(scope)));
  return Buffer(data, dtype, std::move(shape), {}, PrimExpr(ObjectPtr<Object>()), std::move(name));
}

BufferLoad::BufferLoad(Buffer buffer, Array<PrimExpr> indices, Span span) {
  TREADLE_ICHECK(indices.size() == buffer->shape.size())
      << "buffer " << buffer->name << " of rank " << buffer->shape.size() << " read with " << indices.size()
      << " indices";
  auto node = MakeObject<BufferLoadNode>();
  int lanes = indices.empty() ? 1 : indices.back().dtype().lanes();
  node->dtype = buffer->dtype.with_lanes(buffer->dtype.lanes() * lanes);
  node->buffer = std::move(buffer);
  node->indices = std::move(indices);
  node->span = std::move(span);
  data_ = std::move(node);
}

Range::Range(PrimExpr end) {
  auto node = MakeObject<RangeNode>();
  node->min = IntImm(end.dtype(), 0);
  node->extent = std::move(end);
  data_ = std::move(node);
}

Range Range::FromMinExtent(PrimExpr min, PrimExpr extent) {
  Range range;
  auto node = MakeObject<RangeNode>();
  node->min = std::move(min);
  node->extent = std::move(extent);
  range.data_ = std::move(node);
  return range;
}

IterVar::IterVar(Range dom, Var var, IterVarType iter_type, std::string thread_tag, Span span) {
  auto node = MakeObject<IterVarNode>();
  node->dtype = var.dtype();
  node->dom = std::move(dom);
  node->var = std::move(var);
  node->iter_type = iter_type;
  node->thread_tag = std::move(thread_tag);
  node->span = std::move(span);
  data_ = std::move(node);
}

CommReducer::CommReducer(Array<Var> lhs, Array<Var> rhs, Array<PrimExpr> result, Array<PrimExpr> identity_element) {
  TREADLE_ICHECK(lhs.size() == rhs.size() && lhs.size() == result.size() && lhs.size() == identity_element.size())
      << "a reducer needs equally many left, right, result and identity values";
  auto node = MakeObject<CommReducerNode>();
  node->lhs = std::move(lhs);
  node->rhs = std::move(rhs);
  node->result = std::move(result);
  node->identity_element = std::move(identity_element);
  data_ = std::move(node);
}

Reduce::Reduce(CommReducer combiner, Array<PrimExpr> source, Array<IterVar> axis, PrimExpr condition, int value_index,
               Array<PrimExpr> init, Span span) {
  TREADLE_ICHECK(value_index >= 0 && static_cast<size_t>(value_index) < source.size()) << "value_index out of range";
  auto node = MakeObject<ReduceNode>();
  node->dtype = source[value_index].dtype();
  node->combiner = std::move(combiner);
  node->source = std::move(source);
  node->axis = std::move(axis);
  node->condition = std::move(condition);
  node->value_index = value_index;
  node->init = std::move(init);
  node->span = std::move(span);
  data_ = std::move(node);
}

ProducerLoad::ProducerLoad(DataProducer producer, Array<PrimExpr> indices, Span span) {
  auto node = MakeObject<ProducerLoadNode>();
  node->dtype = producer->GetDataType();
  node->producer = std::move(producer);
  node->indices = std::move(indices);
  node->span = std::move(span);
  data_ = std::move(node);
}

}  // namespace treadle::tir
