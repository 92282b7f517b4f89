// SPDX-License-Identifier: Apache-2.0
// Sequences whose length is known when compiling: tuples. Optional values are the values themselves.
#include <algorithm>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/composed.h"

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
bool IsSequence(const Expr& e) { return e->type_as<TupleTypeNode>() != nullptr; }

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

Expr ImportSequenceConstruct(NodeImport& n) { return n.MakeTuple(n.AllInputs()); }

Expr ImportSequenceEmpty(NodeImport& n) {
  n.Ignore({"dtype"});
  return n.MakeTuple({});
}

Expr ImportSequenceAt(NodeImport& n) {
  std::vector<Expr> fields = FieldsOf(n, n.In(0));
  return fields[Position(n, 1, fields.size(), false)];
}

Expr ImportSequenceLength(NodeImport& n) { return IntNum(n, static_cast<int64_t>(FieldsOf(n, n.In(0)).size())); }

Expr ImportSequenceInsert(NodeImport& n) {
  std::vector<Expr> fields = FieldsOf(n, n.In(0));
  size_t at = n.Has(2) ? Position(n, 2, fields.size(), true) : fields.size();
  fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), n.In(1));
  return n.MakeTuple(fields);
}

Expr ImportSequenceErase(NodeImport& n) {
  std::vector<Expr> fields = FieldsOf(n, n.In(0));
  if (fields.empty()) n.Invalid("the sequence is empty");
  size_t at = n.Has(1) ? Position(n, 1, fields.size(), false) : fields.size() - 1;
  fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
  return n.MakeTuple(fields);
}

Expr ImportConcatFromSequence(NodeImport& n) {
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

/// The body for each element; inputs that aren't sequences are the same for all.
std::vector<Expr> ImportSequenceMap(NodeImport& n) {
  const Attribute* body = n.Find("body");
  if (body == nullptr || !body->g) n.Invalid("attribute 'body' is missing");
  const std::vector<Expr> first = FieldsOf(n, n.In(0));
  std::vector<std::vector<Expr>> results(body->g->outputs.size());
  for (size_t k = 0; k < first.size(); ++k) {
    std::vector<Expr> arguments;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      Expr input = n.In(i);
      if (IsSequence(input)) {
        std::vector<Expr> fields = FieldsOf(n, input);
        if (fields.size() != first.size()) n.Invalid("the sequences have different lengths");
        input = fields[k];
      }
      arguments.push_back(input);
    }
    std::vector<Expr> outputs = n.Subgraph("body", arguments);
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(outputs.at(i));
  }
  std::vector<Expr> sequences;
  for (const std::vector<Expr>& values : results) sequences.push_back(n.MakeTuple(values));
  return sequences;
}

Expr ImportOptional(NodeImport& n) {
  n.Ignore({"type"});
  if (!n.Has(0)) n.Unsupported("an optional value that is absent isn't implemented");
  return n.In(0);
}
Expr ImportOptionalGetElement(NodeImport& n) { return n.In(0); }
Expr ImportOptionalHasElement(NodeImport& n) {
  if (n.Has(0)) n.In(0);
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
