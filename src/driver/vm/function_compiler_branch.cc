// SPDX-License-Identifier: Apache-2.0
// Branches and matches: each part is compiled in a scope of its own, results meet in common registers.
#include "driver/vm/function_compiler.h"

namespace treadle::driver {

using namespace relay;  // NOLINT(google-build-using-namespace): this file is about graph IR
using runtime::vm::IntOp;

VmValuePtr VmFunctionCompiler::JoinTarget(const Type& type) {
  auto target = std::make_shared<VmValue>();
  target->type = type;
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    target->is_tuple = true;
    for (const Type& field : tuple->fields) target->fields.push_back(JoinTarget(field));
  } else {
    target->reg = out_.NewRegister();
  }
  return target;
}

void VmFunctionCompiler::MoveInto(const VmValuePtr& target, const VmValuePtr& value) {
  if (!target->is_tuple) return out_.Emit(Opcode::kMove, target->reg, Register(value), -1, 0);
  for (size_t i = 0; i < target->fields.size(); ++i) MoveInto(target->fields[i], Field(value, static_cast<int>(i)));
}

void VmFunctionCompiler::FinishJoin(const VmValuePtr& target) {
  if (target->is_tuple) {
    Array<Type> types;
    for (const VmValuePtr& field : target->fields) {
      FinishJoin(field);
      types.push_back(field->type);
    }
    target->type = TupleType(types);
  } else if (target->type.as<TensorTypeNode>()) {
    target->type = FromRegister(target->reg, target->type)->type;
  }
}

VmValuePtr VmFunctionCompiler::VisitIf(const IfNode* op, bool tail) {
  PrimExpr condition = ElementOf(Visit(op->cond), 0);
  condition = analyzer_.Simplify(condition);
  if (const int64_t* known = AsConstInt(condition)) {
    const Expr& taken = *known != 0 ? op->true_branch : op->false_branch;
    if (!tail) return Visit(taken);
    Tail(taken);
    return nullptr;
  }
  VmValuePtr target = tail ? nullptr : JoinTarget(GetRef<Expr>(op)->checked_type());
  size_t to_else = out_.EmitJumpIfZero(EmitInt(condition));
  size_t begin = out_.position(), to_end = 0;
  auto part = [&](const Expr& branch) {
    size_t scope = OpenScope();
    if (tail) {
      Tail(branch);
    } else {
      MoveInto(target, Visit(branch));
    }
    CloseScope(scope);
  };
  part(op->true_branch);
  if (!tail) to_end = out_.EmitJump();
  out_.Land(to_else);
  part(op->false_branch);
  if (!tail) out_.Land(to_end);
  out_.EndConditional(begin);
  if (!tail) FinishJoin(target);
  return target;
}

void VmFunctionCompiler::MatchPattern(const Pattern& pattern, const VmValuePtr& value, std::vector<size_t>* fail) {
  if (const auto* var = pattern.as<PatternVarNode>()) {
    vars_[var->var->vid.get()] = value;
    return;
  }
  if (const auto* tuple = pattern.as<PatternTupleNode>()) {
    for (size_t i = 0; i < tuple->patterns.size(); ++i)
      MatchPattern(tuple->patterns[i], Field(value, static_cast<int>(i)), fail);
    return;
  }
  const auto* constructor = pattern.as<PatternConstructorNode>();
  if (constructor == nullptr) return;  // a wildcard
  int data = Register(value), tag = out_.NewInt(), same = out_.NewInt();
  out_.Emit(Opcode::kGetTag, tag, data, -1, 0);
  out_.Emit(Opcode::kIntOp, same, tag, out_.ConstantInt(constructor->constructor->tag),
            static_cast<int64_t>(IntOp::kEQ));
  fail->push_back(out_.EmitJumpIfZero(same));
  for (size_t i = 0; i < constructor->patterns.size(); ++i) {
    const Pattern& sub = constructor->patterns[i];
    if (sub.as<PatternWildcardNode>()) continue;
    Type type;
    if (const auto* var = sub.as<PatternVarNode>()) {
      type = var->var->checked_type_.defined() ? var->var->checked_type_ : var->var->type_annotation;
    }
    int field = out_.NewRegister();
    out_.Emit(Opcode::kGetField, field, data, -1, static_cast<int64_t>(i));
    VmValuePtr sub_value = TensorValue(field, type);
    if (type.defined()) sub_value = FromRegister(field, type);
    if (const auto* tuple = sub.as<PatternTupleNode>()) {
      // The fields' types are those of the variables bound there; what is between them is only projected.
      std::vector<VmValuePtr> fields;
      for (size_t k = 0; k < tuple->patterns.size(); ++k) {
        int reg = out_.NewRegister();
        out_.Emit(Opcode::kGetField, reg, field, -1, static_cast<int64_t>(k));
        Type field_type;
        if (const auto* var = tuple->patterns[k].as<PatternVarNode>()) {
          field_type = var->var->checked_type_.defined() ? var->var->checked_type_ : var->var->type_annotation;
        }
        fields.push_back(field_type.defined() ? FromRegister(reg, field_type) : TensorValue(reg, field_type));
      }
      sub_value = std::make_shared<VmValue>();
      sub_value->is_tuple = true;
      sub_value->reg = field;
      sub_value->fields = std::move(fields);
    }
    MatchPattern(sub, sub_value, fail);
  }
}

VmValuePtr VmFunctionCompiler::VisitMatch(const MatchNode* op, bool tail) {
  VmValuePtr data = Visit(op->data);
  VmValuePtr target = tail ? nullptr : JoinTarget(GetRef<Expr>(op)->checked_type());
  std::vector<size_t> to_end;
  size_t begin = out_.position();
  for (const Clause& clause : op->clauses) {
    size_t scope = OpenScope();
    std::vector<size_t> fail;
    MatchPattern(clause->lhs, data, &fail);
    if (tail) {
      Tail(clause->rhs);
    } else {
      MoveInto(target, Visit(clause->rhs));
      to_end.push_back(out_.EmitJump());
    }
    CloseScope(scope);
    for (size_t jump : fail) out_.Land(jump);
  }
  std::string place = op->span.defined() ? " at '" + op->span.str() + "'" : "";
  out_.Emit(Opcode::kFatal, -1, -1, -1, program_->String("no clause of the match" + place + " fits the value"));
  for (size_t jump : to_end) out_.Land(jump);
  out_.EndConditional(begin);
  if (!tail) FinishJoin(target);
  return target;
}

}  // namespace treadle::driver
