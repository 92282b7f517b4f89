// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals. Sequences whose length is known when compiling are tuples, optional values that are known to
// be there the values themselves; others are values of the virtual machine.
#include <algorithm>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/narrow_types.h"
#include "frontend/onnx/values.h"
#include "treadle/ops/attrs/host.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

std::vector<Expr> FieldsOf(NodeImport& n, const Expr& sequence) {
  const auto* type = sequence->type_as<TupleTypeNode>();
  if (type == nullptr) n.Invalid("the operand isn't a sequence");
  std::vector<Expr> fields;
  for (size_t i = 0; i < type->fields.size(); ++i) fields.push_back(n.Item(sequence, static_cast<int>(i)));
  return fields;
}
bool IsTuple(const Expr& e) { return e->type_as<TupleTypeNode>() != nullptr; }
/// Whether the sequence's length is known, and the position that input `i` gives (if there is one).
bool IsStaticAt(NodeImport& n, size_t i) { return IsTuple(n.In(0)) && (!n.Has(i) || n.IsKnown(i)); }
const DataType kInt64 = DataType::Int(64);

/// A sequence that differs from input 0 in what it holds.
Expr Changed(NodeImport& n, const char* function, const Array<Expr>& args, const Expr& added) {
  Type type = CarriedType(n.In(0));
  if (added.defined()) type = CommonType(type, n.MakeTuple({added})->checked_type(), "the sequence");
  return HostSequence(n, function, args, type);
}

/// A position counted from 0, which may be `end` where that is allowed.
size_t Position(NodeImport& n, size_t input, size_t length, bool end) {
  int64_t position = n.ConstantInt(input, "position");
  const auto size = static_cast<int64_t>(length);
  if (position < 0) position += size;
  if (position < 0 || position >= size + (end ? 1 : 0)) {
    n.Invalid(StrCat("the position is out of range for a sequence of ", length));
  }
  return static_cast<size_t>(position);
}

/// Elements of a sequence are tensors of one type.
void CheckElement(NodeImport& n, const Expr& element, const Expr& first) {
  const auto *type = element->checked_type().as<TensorTypeNode>(), *own = first->checked_type().as<TensorTypeNode>();
  if (type == nullptr) n.Invalid("an element of a sequence isn't a tensor");
  if (own != nullptr && type->dtype != own->dtype) {
    n.Invalid(StrCat("a sequence of ", own->dtype, " can't hold ", type->dtype));
  }
}

Expr ImportSequenceConstruct(NodeImport& n) {
  const Array<Expr> elements = n.AllInputs();
  if (elements.empty()) n.Invalid("there is no element");
  for (const Expr& element : elements) CheckElement(n, element, elements[0]);
  return n.MakeTuple(elements);
}

Expr ImportSequenceEmpty(NodeImport& n) {
  if (n.Int("dtype", 1) == static_cast<int64_t>(ElemType::kString)) {
    n.MarkText();
  } else {
    n.TypeAttr("dtype", ElemType::kFloat);  // refuses what isn't a type
  }
  return n.MakeTuple({});
}

Expr ImportSequenceAt(NodeImport& n) {
  if (!IsStaticAt(n, 1)) return SequenceElement(n, n.In(0), n.In(1));
  std::vector<Expr> fields = FieldsOf(n, n.In(0));
  return fields[Position(n, 1, fields.size(), false)];
}

Expr ImportSequenceLength(NodeImport& n) {
  if (!IsTuple(n.In(0))) return HostCall(n, "sequence.length", {n.In(0)}, {"tensor", kInt64, 0});
  return IntNum(n, static_cast<int64_t>(FieldsOf(n, n.In(0)).size()));
}

Expr ImportSequenceInsert(NodeImport& n) {
  if (!IsStaticAt(n, 2)) {
    Array<Expr> args{AsSequence(n, n.In(0)), n.In(1)};
    if (n.Has(2)) args.push_back(n.Cast(n.In(2), kInt64));
    return Changed(n, "sequence.insert", args, n.In(1));
  }
  std::vector<Expr> fields = FieldsOf(n, n.In(0));
  if (!fields.empty()) CheckElement(n, n.In(1), fields[0]);
  size_t at = n.Has(2) ? Position(n, 2, fields.size(), true) : fields.size();
  fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), n.In(1));
  return n.MakeTuple(fields);
}

Expr ImportSequenceErase(NodeImport& n) {
  if (!IsStaticAt(n, 1)) {
    Array<Expr> args{AsSequence(n, n.In(0))};
    if (n.Has(1)) args.push_back(n.Cast(n.In(1), kInt64));
    return Changed(n, "sequence.erase", args, Expr());
  }
  std::vector<Expr> fields = FieldsOf(n, n.In(0));
  if (fields.empty()) n.Invalid("the sequence is empty");
  size_t at = n.Has(1) ? Position(n, 1, fields.size(), false) : fields.size() - 1;
  fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
  return n.MakeTuple(fields);
}

Expr ConcatAtRunTime(NodeImport& n) {
  const bool stacks = n.Flag("new_axis", false);
  Expr sequence = n.In(0);
  const Type element = ops::ElementOfSequence(sequence->checked_type());
  const auto* type = element.as<TensorTypeNode>();
  if (type == nullptr) n.Unsupported("the rank of the sequence's elements isn't known when compiling");
  const int rank = static_cast<int>(type->shape.size()) + (stacks ? 1 : 0);
  Expr axis = IntNum(n, n.Axis(n.Int("axis"), rank));
  Expr shape = n.IntVector({type->dtype.code(), type->dtype.bits(), rank});
  return HostCall(n, "sequence.concat", {sequence, axis, shape, IntNum(n, stacks ? 1 : 0)},
                  {"tensor", type->dtype, rank});
}

Expr ImportConcatFromSequence(NodeImport& n) {
  if (!IsTuple(n.In(0))) return ConcatAtRunTime(n);
  std::vector<Expr> fields = FieldsOf(n, n.In(0));
  if (fields.empty()) n.Invalid("the sequence is empty");
  const bool stacks = n.Flag("new_axis", false);
  const int axis = n.Axis(n.Int("axis"), RankOf(fields[0]) + (stacks ? 1 : 0));
  std::vector<Term> parts;
  for (const Expr& field : fields) parts.push_back(stacks ? Term(n, field).Expand(axis) : Term(n, field));
  return Concat(parts, axis);
}

/// Parts of given sizes, of one size (a scalar, the last may be smaller), or of 1, whose axis then may go away.
Expr ImportSplitToSequence(NodeImport& n) {
  Term x = In(n, 0);
  const int axis = n.Axis(n.Int("axis", 0), x.rank());
  const bool keepdims = n.Flag("keepdims", true);
  if (n.Has(1) && n.Rank(1) > 1) n.Invalid(StrCat("'split' has rank ", n.Rank(1), ", expected 0 or 1"));
  const bool known = AsConstInt(x.shape()[static_cast<size_t>(axis)]) != nullptr && (!n.Has(1) || n.IsKnown(1));
  if (!known) {
    Expr sizes = n.Has(1) ? n.Cast(n.In(1), kInt64) : Expr(IntNum(n, 1));
    const bool keep = n.Has(1) || keepdims;
    return HostCall(n, "sequence.split", {x, IntNum(n, axis), sizes, IntNum(n, keep ? 1 : 0)},
                    {"sequence", x.dtype(), x.rank() - (keep ? 0 : 1)});
  }
  const int64_t extent = n.StaticDim(x, axis);
  std::vector<int64_t> sizes;
  if (n.Has(1) && n.Rank(1) == 1) {
    sizes = n.ConstantInts(1, "split");
  } else {
    const int64_t size = n.Has(1) ? n.ConstantInt(1, "split") : 1;
    if (size < 1) n.Invalid(StrCat("'split' is ", size));
    if (extent / size > 4096) n.Unsupported("sequences of more than 4096 parts aren't implemented");
    for (int64_t begin = 0; begin < extent; begin += size) sizes.push_back(std::min(size, extent - begin));
  }
  std::vector<Expr> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > extent - begin) n.Invalid("the parts' sizes don't add up to the dimension");
    Term part = x.Slice(axis, begin, begin + size);
    parts.push_back(!n.Has(1) && !keepdims ? part.Squeeze({axis}) : part);
    begin += size;
  }
  if (begin != extent) n.Invalid("the parts' sizes don't add up to the dimension");
  return n.MakeTuple(parts);
}

/// The body for each element, as a loop that inserts what it gives into sequences.
std::vector<Expr> MapAtRunTime(NodeImport& n, const Graph& body) {
  std::vector<Expr> carried;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    carried.push_back(IsSequence(n.In(i)) ? AsSequence(n, n.In(i)) : n.In(i));
  }
  const size_t inputs = carried.size();
  for (size_t i = 0; i < body.outputs.size(); ++i) carried.push_back(AsSequence(n, n.MakeTuple({})));
  auto trip = [&](const std::vector<Expr>& values, const Expr& number) {
    std::vector<Expr> arguments;
    for (size_t i = 0; i < inputs; ++i) {
      arguments.push_back(IsSequence(values[i]) ? SequenceElement(n, values[i], number) : values[i]);
    }
    std::vector<Expr> outputs = n.Subgraph("body", arguments, InputsText(n));
    MarkTextResults(n, 0);
    LoopTrip result{{values.begin(), values.begin() + static_cast<std::ptrdiff_t>(inputs)}, {}, Expr()};
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Expr& sequence = values[inputs + i];
      const Type type = CommonType(CarriedType(sequence), n.MakeTuple({outputs[i]})->checked_type(), "a result");
      result.carried.push_back(HostSequence(n, "sequence.insert", {sequence, outputs[i]}, type));
    }
    return result;
  };
  Expr length = HostCall(n, "sequence.length", {carried[0]}, {"tensor", kInt64, 0});
  std::vector<Expr> all = ImportCountedLoop(n, carried, length, trip);
  return {all.begin() + static_cast<std::ptrdiff_t>(inputs), all.end()};
}

/// The body for each element; inputs that aren't sequences are the same for all.
std::vector<Expr> ImportSequenceMap(NodeImport& n) {
  const Attribute* body = n.Find("body");
  if (body == nullptr || !body->g) n.Invalid("attribute 'body' is missing");
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    if (IsSequence(n.In(i)) && !IsTuple(n.In(i))) return MapAtRunTime(n, *body->g);
  }
  const std::vector<Expr> first = FieldsOf(n, n.In(0));
  std::vector<std::vector<Expr>> results(body->g->outputs.size());
  for (size_t k = 0; k < first.size(); ++k) {
    std::vector<Expr> arguments;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      Expr input = n.In(i);
      if (IsTuple(input)) {
        std::vector<Expr> fields = FieldsOf(n, input);
        if (fields.size() != first.size()) n.Invalid("the sequences have different lengths");
        input = fields[k];
      }
      arguments.push_back(input);
    }
    std::vector<Expr> outputs = n.Subgraph("body", arguments, InputsText(n));
    MarkTextResults(n, 0);
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(outputs.at(i));
  }
  std::vector<Expr> sequences;
  for (const std::vector<Expr>& values : results) sequences.push_back(n.MakeTuple(values));
  return sequences;
}

Expr ImportOptional(NodeImport& n) {
  const Attribute* type = n.Find("type");
  if (n.Has(0)) {
    const auto* given = n.In(0)->checked_type().as<TensorTypeNode>();
    const TypeProto* stated = type != nullptr ? type->tp.get() : nullptr;
    if (given != nullptr && stated != nullptr && stated->kind == TypeProto::Kind::kTensor && !HasText(*stated)) {
      const DataType dtype = StoredType(stated->elem_type, "'type'");
      if (given->dtype != dtype) n.Invalid(StrCat("the value is ", given->dtype, ", 'type' says ", dtype));
    }
    return n.In(0);
  }
  if (type == nullptr || type->tp == nullptr) n.Invalid("an absent value needs attribute 'type'");
  if (HasText(*type->tp)) n.MarkText();
  return ImportOptionalNone(n, *type->tp);
}

Expr ImportOptionalGetElement(NodeImport& n) {
  Expr value = n.In(0);
  const Type inner = ops::ValueOfOptional(value->checked_type());
  if (!inner.defined()) return value;
  if (ops::ElementOfSequence(inner).defined()) return HostSequence(n, "optional.get", {value}, inner);
  const auto* type = inner.as<TensorTypeNode>();
  if (type == nullptr) n.Unsupported("the rank of the optional tensor isn't known when compiling");
  return HostTensor(n, "optional.get", {value}, type->dtype, static_cast<int64_t>(type->shape.size()));
}

Expr ImportOptionalHasElement(NodeImport& n) {
  if (n.Has(0)) {
    Expr value = n.In(0);
    if (ops::ValueOfOptional(value->checked_type()).defined()) {
      return HostCall(n, "optional.has", {value}, {"tensor", DataType::Bool(), 0});
    }
  }
  return n.Const(ArrayOf(std::vector<int64_t>{n.Has(0) ? 1 : 0}, std::vector<int64_t>{}, DataType::Bool()));
}

}  // namespace

void RegisterSequenceRules(RuleTable& table) {
  table.Add1("SequenceConstruct", {11}, ImportSequenceConstruct);
  table.Add1("SequenceEmpty", {11}, ImportSequenceEmpty);
  table.Add1("SequenceAt", {11}, ImportSequenceAt);
  table.Add1("SequenceLength", {11}, ImportSequenceLength);
  table.Add1("SequenceInsert", {11}, ImportSequenceInsert);
  table.Add1("SequenceErase", {11}, ImportSequenceErase);
  table.Add1("ConcatFromSequence", {11}, ImportConcatFromSequence);
  table.Add1("SplitToSequence", {11, 24}, ImportSplitToSequence);
  table.Add("SequenceMap", {17}, ImportSequenceMap);
  table.Add1("Optional", {15, 28}, ImportOptional);
  table.Add1("OptionalGetElement", {15, 18, 28}, ImportOptionalGetElement);
  table.Add1("OptionalHasElement", {15, 18, 28}, ImportOptionalHasElement);
}

}  // namespace treadle::onnx
