// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/function_compiler.h"

#include <functional>

#include "driver/vm/size_rules.h"
#include "runtime/vm/opcodes.h"
#include "treadle/base/checked_math.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::driver {

using namespace relay;  // NOLINT(google-build-using-namespace): this file is about graph IR
using runtime::vm::IntOp;
using runtime::vm::PackDType;

namespace {

bool IsDataFlow(const Expr& e) { return e.as<CallNode>() || e.as<TupleNode>() || e.as<TupleGetItemNode>(); }

Type TypeOf(const Expr& e) {
  if (const auto* var = e.as<VarNode>()) {
    if (var->checked_type_.defined()) return var->checked_type_;
    return var->type_annotation;
  }
  return e->checked_type();
}

std::string Place(const Span& span) { return span.defined() ? " at '" + span.str() + "'" : ""; }

}  // namespace

// ---- Functions.

runtime::vm::Function VmFunctionCompiler::Compile(const Function& func, const Array<Var>& captured, const Var& self,
                                                  int index, const std::string& name) {
  if (auto ranges = func->GetAttr<Map<String, ObjectRef>>(kDimRanges)) dim_ranges_ = *ranges;
  std::vector<std::string> params;
  std::vector<VmValuePtr> captured_values;
  auto bind = [&](const Var& var) {
    int reg = static_cast<int>(params.size());
    Type type = TypeOf(var);
    VmValuePtr value;
    if (type.as<TensorTypeNode>()) {
      value = TensorValue(reg, BindParamDims(reg, Downcast<TensorType>(type), var->name_hint()));
    } else {
      value = FromRegister(reg, type);
    }
    vars_[var->vid.get()] = value;
    params.push_back(var->name_hint());
    return value;
  };
  for (const Var& var : captured) captured_values.push_back(bind(var));
  for (const Var& var : func->params) bind(var);
  EmitSizeRules(func);
  if (self.defined()) {
    auto value = std::make_shared<VmValue>();
    value->type = TypeOf(self);
    value->is_function = true;
    value->function = index;
    value->fields = captured_values;
    vars_[self->vid.get()] = value;
  }
  Tail(func->body);
  return out_.Finish(name, params);
}

/// What is promised of a dimension of main.
DimRange VmFunctionCompiler::RangeOf(const std::string& name) const {
  DimRange range;
  auto found = dim_ranges_.Get(name);
  if (!found) return range;
  const auto numbers = Downcast<Array<IntImm>>(*found);
  range.min = numbers[0]->value;
  range.max = numbers[1]->value;
  range.multiple = numbers[2]->value;
  return range;
}

/// The dimension `var` as a multiple of another, where that is promised: what follows from it is seen to be one, too.
PrimExpr VmFunctionCompiler::MultipleOf(const tir::Var& var, const DimRange& range) {
  if (range.multiple == 1) return var;
  const PrimExpr multiple(range.multiple);
  const tir::Var count = BindDim(EmitInt(tir::floordiv(var, multiple)));
  analyzer_.Bind(count, arith::ConstIntBound{range.min / range.multiple, range.max / range.multiple});
  analyzer_.BindValue(var, count * multiple);
  return count * multiple;
}

/// Symbols are bound where they first stand alone; where they stand again the dimension is checked.
TensorType VmFunctionCompiler::BindParamDims(int reg, const TensorType& type, const std::string& name) {
  bool dynamic = !IsStatic(type.get());
  if (!dynamic) return type;
  Array<PrimExpr> shape;
  for (size_t d = 0; d < type->shape.size(); ++d) {
    PrimExpr dim = type->shape[d];
    if (AsConstInt(dim) != nullptr) {
      shape.push_back(dim);
      continue;
    }
    int actual = out_.NewInt();
    out_.Emit(Opcode::kDimOf, actual, reg, -1, static_cast<int64_t>(d));
    const auto* var = dim.as<tir::VarNode>();
    if (var != nullptr && !IsAnyDim(dim) && ints_.count(dim) == 0) {
      ints_[dim] = actual;
      const DimRange range = RangeOf(var->name_hint);
      analyzer_.Bind(GetRef<tir::Var>(var), arith::ConstIntBound{range.min, range.max});
      if (std::string expected = range.str(); !expected.empty()) {
        const PrimExpr within = tir::min(tir::max(dim, PrimExpr(range.min)), PrimExpr(range.max));
        const PrimExpr multiple(range.multiple);
        int text = program_->String(StrCat("dimension \"", var->name_hint, "\" of \"", name, "\" has to be ", expected,
                                           "; given, and the nearest that fits"));
        out_.Emit(Opcode::kCheckEqual, -1, actual, EmitInt(tir::floordiv(within, multiple) * multiple), text);
      }
      shape.push_back(MultipleOf(GetRef<tir::Var>(var), range));
    } else if (!IsAnyDim(dim) && CanEmit(dim)) {
      std::string symbol = var != nullptr ? "\"" + var->name_hint + "\" " : "";
      int text = program_->String(StrCat("dimension ", d, " of \"", name, "\" has to equal ", symbol, "elsewhere"));
      out_.Emit(Opcode::kCheckEqual, -1, actual, EmitInt(dim), text);
      shape.push_back(dim_ranges_.empty() ? dim : analyzer_.Simplify(dim));
    } else {
      shape.push_back(BindDim(actual));
    }
  }
  return TensorType(shape, type->dtype);
}

/// What the model's operators asked of the sizes of inputs; what names one that is gone is left to kernels.
void VmFunctionCompiler::EmitSizeRules(const Function& func) {
  const auto stated = func->GetAttr<Array<ObjectRef>>(kSizeRules);
  if (!stated) return;
  Array<tir::Var> variables;
  std::vector<PrimExpr> values;
  for (const ObjectRef& entry : Downcast<Array<ObjectRef>>((*stated)[0])) {
    const auto dim = Downcast<Array<ObjectRef>>(entry);
    const auto at = static_cast<size_t>(Downcast<IntImm>(dim[2])->value);
    for (const Var& param : func->params) {
      if (param->name_hint() != Downcast<String>(dim[1])) continue;
      const auto* type = vars_.at(param->vid.get())->type.as<TensorTypeNode>();
      if (type == nullptr || at >= type->shape.size()) continue;
      variables.push_back(Downcast<tir::Var>(dim[0]));
      values.push_back(type->shape[at]);
    }
  }
  for (const ObjectRef& entry : Downcast<Array<ObjectRef>>((*stated)[1])) {
    const auto rule = Downcast<Array<PrimExpr>>(entry);
    const PrimExpr found = analyzer_.Simplify(SubstituteDims(rule[0], variables, values));
    const PrimExpr expected = analyzer_.Simplify(SubstituteDims(rule[1], variables, values));
    if (!CanEmit(found) || !CanEmit(expected) || analyzer_.CanProveEqual(found, expected)) continue;
    const int text = program_->String(Downcast<tir::StringImm>(rule[2])->value);
    out_.Emit(Opcode::kCheckEqual, -1, EmitInt(found), EmitInt(expected), text);
  }
}

void VmFunctionCompiler::CloseScope(size_t mark) {
  while (undo_.size() > mark) {
    undo_.back()();
    undo_.pop_back();
  }
}

// ---- Expressions.

VmValuePtr VmFunctionCompiler::Visit(const Expr& e) {
  if (const auto* var = e.as<VarNode>()) {
    auto it = vars_.find(var->vid.get());
    TREADLE_ICHECK(it != vars_.end()) << "variable %" << var->name_hint() << " isn't bound";
    return it->second;
  }
  auto known = memo_.find(e);
  if (known != memo_.end()) return known->second;
  return WithEnoughStack([&]() -> VmValuePtr {
    if (IsDataFlow(e)) return VisitDataFlow(e);
    VmValuePtr value = Compute(e);
    memo_[e] = value;
    undo_.push_back([this, e] { memo_.erase(e); });
    return value;
  });
}

/// Calls, tuples and projections are walked with a stack of their own: they may be deep.
VmValuePtr VmFunctionCompiler::VisitDataFlow(const Expr& root) {
  std::vector<std::pair<Expr, bool>> stack{{root, false}};
  while (!stack.empty()) {
    auto [e, ready] = stack.back();
    if (memo_.count(e) != 0) {
      stack.pop_back();
      continue;
    }
    if (ready || !IsDataFlow(e)) {
      stack.pop_back();
      if (e.as<VarNode>()) continue;
      if (!IsDataFlow(e)) {
        Visit(e);
        continue;
      }
      memo_[e] = Compute(e);
      undo_.push_back([this, e = e] { memo_.erase(e); });
      continue;
    }
    stack.back().second = true;
    std::vector<Expr> children;
    if (const auto* call = e.as<CallNode>()) {
      children.assign(call->args.begin(), call->args.end());
    } else if (const auto* tuple = e.as<TupleNode>()) {
      children.assign(tuple->fields.begin(), tuple->fields.end());
    } else {
      children.push_back(e.as<TupleGetItemNode>()->tuple);
    }
    for (size_t i = children.size(); i-- > 0;) {
      if (!children[i].as<VarNode>()) stack.emplace_back(children[i], false);
    }
  }
  return memo_.at(root);
}

std::vector<VmValuePtr> VmFunctionCompiler::VisitAll(const Array<Expr>& exprs) {
  std::vector<VmValuePtr> values;
  for (const Expr& e : exprs) values.push_back(Visit(e));
  return values;
}

VmValuePtr VmFunctionCompiler::Compute(const Expr& e) {
  if (const auto* op = e.as<ConstantNode>()) return VisitConstant(op);
  if (const auto* op = e.as<TupleNode>()) return MakeTuple(VisitAll(op->fields));
  if (const auto* op = e.as<TupleGetItemNode>()) return VisitItem(op);
  if (const auto* op = e.as<CallNode>()) return VisitCall(op);
  if (const auto* op = e.as<LetNode>()) return VisitLet(op, false);
  if (const auto* op = e.as<IfNode>()) return VisitIf(op, false);
  if (const auto* op = e.as<MatchNode>()) return VisitMatch(op, false);
  if (e.as<FunctionNode>()) return VisitFunction(Downcast<Function>(e), Var(ObjectPtr<Object>()));
  if (e.as<GlobalVarNode>()) {
    auto value = std::make_shared<VmValue>();
    value->type = e->checked_type_;
    value->is_function = true;
    value->function = program_->GlobalFunction(Downcast<GlobalVar>(e));
    return value;
  }
  if (const auto* constructor = e.as<ConstructorNode>()) {
    // A constructor as a value is a function that applies it.
    Array<Var> params;
    Array<Expr> args;
    for (const Type& type : constructor->inputs) {
      params.push_back(Var("field" + std::to_string(params.size()), type));
      args.push_back(params.back());
    }
    if (params.empty()) {
      int reg = out_.NewRegister();
      out_.Emit(Opcode::kAllocData, reg, -1, -1, constructor->tag);
      return FromRegister(reg, e->checked_type_);
    }
    return VisitFunction(Function(params, Call(e, args)), Var(ObjectPtr<Object>()));
  }
  if (const auto* op = e.as<RefCreateNode>()) {
    int value = Register(Visit(op->value)), reg = out_.NewRegister();
    out_.Emit(Opcode::kRefNew, reg, value, -1, 0);
    return FromRegister(reg, e->checked_type());
  }
  if (const auto* op = e.as<RefReadNode>()) {
    int ref = Register(Visit(op->ref)), reg = out_.NewRegister();
    out_.Emit(Opcode::kRefRead, reg, ref, -1, 0);
    return FromRegister(reg, e->checked_type());
  }
  if (const auto* op = e.as<RefWriteNode>()) {
    int ref = Register(Visit(op->ref)), value = Register(Visit(op->value));
    out_.Emit(Opcode::kRefWrite, -1, ref, value, 0);
    return MakeTuple({});
  }
  std::string what = e.as<OpNode>() ? "operator " + e.as<OpNode>()->name + " as a value" : e->type_key();
  throw Error(StrCat("the VM can't compile ", what, Place(e->span)));
}

VmValuePtr VmFunctionCompiler::VisitConstant(const ConstantNode* constant) {
  auto value = std::make_shared<VmValue>();
  value->type = TensorType(constant->data.shape(), constant->data.dtype());
  value->constant = constant->data;
  DataType dtype = constant->data.dtype();
  if (dtype.is_integral() && constant->data.size() <= 64 && constant->data.IsCompact()) {
    value->has_elements = true;
    const char* data = constant->data.Data<char>();
    for (int64_t i = 0; i < constant->data.size(); ++i) {
      int64_t element = 0;
      auto read = [&](auto sample) {
        std::memcpy(&sample, data + i * static_cast<int64_t>(sizeof(sample)), sizeof(sample));
        element = static_cast<int64_t>(sample);
      };
      switch (dtype.bytes()) {
        case 1:
          dtype.is_int() ? read(int8_t{}) : read(uint8_t{});
          break;
        case 2:
          dtype.is_int() ? read(int16_t{}) : read(uint16_t{});
          break;
        case 4:
          dtype.is_int() ? read(int32_t{}) : read(uint32_t{});
          break;
        default:
          read(int64_t{});
          break;
      }
      value->elements.push_back(PrimExpr(element));
    }
  }
  return value;
}

VmValuePtr VmFunctionCompiler::VisitItem(const TupleGetItemNode* item) {
  return Field(Visit(item->tuple), item->index);
}

VmValuePtr VmFunctionCompiler::VisitLet(const LetNode* let, bool tail) {
  Expr rest = GetRef<Expr>(let);
  std::vector<const Object*> bound;
  while (const auto* op = rest.as<LetNode>()) {
    VmValuePtr value = op->value.as<FunctionNode>() && !op->value.as<FunctionNode>()->is_primitive()
                           ? VisitFunction(Downcast<Function>(op->value), op->var)
                           : Visit(op->value);
    vars_[op->var->vid.get()] = value;
    rest = op->body;
  }
  if (!tail) return Visit(rest);
  Tail(rest);
  return nullptr;
}

VmValuePtr VmFunctionCompiler::VisitFunction(const Function& func, const Var& self) {
  Array<Var> captured;
  for (const Var& var : FreeVars(func)) {
    if (self.defined() && var->vid.same_as(self->vid)) continue;
    captured.push_back(var);
  }
  auto value = std::make_shared<VmValue>();
  value->type = func->checked_type_;
  value->is_function = true;
  for (const Var& var : captured) value->fields.push_back(Visit(var));
  value->function = program_->AddClosure(func, captured, self);
  return value;
}

VmValuePtr VmFunctionCompiler::VisitCall(const CallNode* call) {
  if (call->op.as<OpNode>()) return CallOperator(call, VisitAll(call->args));
  if (const auto* func = call->op.as<FunctionNode>()) {
    bool kernel = func->is_primitive() || func->attrs->dict.contains(treadle::attr::kCompiler);
    if (kernel) return CallKernel(GetRef<Function>(func), VisitAll(call->args));
    return Inline(func, VisitAll(call->args), false);
  }
  if (const auto* constructor = call->op.as<ConstructorNode>()) {
    std::vector<int> fields = Registers(VisitAll(call->args));
    int reg = out_.NewRegister();
    out_.Emit(Opcode::kAllocData, reg, -1, -1, constructor->tag, fields);
    return FromRegister(reg, call->checked_type());
  }
  std::vector<VmValuePtr> args = VisitAll(call->args);
  if (const auto* global = call->op.as<GlobalVarNode>()) {
    BaseFunc callee = program_->module->Lookup(GetRef<GlobalVar>(global));
    const auto* func = callee.as<FunctionNode>();
    if (func != nullptr && (func->is_primitive() || func->attrs->dict.contains(treadle::attr::kCompiler))) {
      return CallKernel(GetRef<Function>(func), args);
    }
  }
  VmValuePtr callee = Visit(call->op);
  int reg = out_.NewRegister();
  if (callee->is_function && callee->reg < 0) {
    std::vector<int> operands = Registers(callee->fields);
    for (int r : Registers(args)) operands.push_back(r);
    out_.Emit(Opcode::kInvoke, reg, -1, -1, callee->function, operands);
  } else {
    int closure = Register(callee);
    out_.Emit(Opcode::kApply, reg, closure, -1, 0, Registers(args));
  }
  return FromRegister(reg, call->checked_type());
}

VmValuePtr VmFunctionCompiler::Inline(const FunctionNode* func, const std::vector<VmValuePtr>& args, bool tail) {
  // The body's values are this call's: another call of the same function computes them again.
  std::unordered_map<Expr, VmValuePtr, ObjectPtrHash, ObjectPtrEqual> outer = memo_;
  for (size_t i = 0; i < args.size(); ++i) vars_[func->params[i]->vid.get()] = args[i];
  VmValuePtr result;
  if (tail) {
    Tail(func->body);
  } else {
    result = Visit(func->body);
  }
  memo_ = std::move(outer);
  return result;
}

void VmFunctionCompiler::Tail(const Expr& e) {
  WithEnoughStack([&] {
    if (memo_.count(e) == 0) {
      if (const auto* op = e.as<LetNode>()) return (void)VisitLet(op, true);
      if (const auto* op = e.as<IfNode>()) return (void)VisitIf(op, true);
      if (const auto* op = e.as<MatchNode>()) return (void)VisitMatch(op, true);
      if (const auto* op = e.as<CallNode>()) return TailCall(op);
    }
    out_.Emit(Opcode::kReturn, -1, Register(Visit(e)), -1, 0);
  });
}

void VmFunctionCompiler::TailCall(const CallNode* call) {
  const auto* func = call->op.as<FunctionNode>();
  bool is_kernel = func != nullptr && (func->is_primitive() || func->attrs->dict.contains(treadle::attr::kCompiler));
  if (const auto* global = call->op.as<GlobalVarNode>()) {
    const auto* callee = program_->module->Lookup(GetRef<GlobalVar>(global)).as<FunctionNode>();
    is_kernel = callee != nullptr && (callee->is_primitive() || callee->attrs->dict.contains(treadle::attr::kCompiler));
  }
  if (call->op.as<OpNode>() || call->op.as<ConstructorNode>() || is_kernel) {
    return out_.Emit(Opcode::kReturn, -1, Register(Visit(GetRef<Expr>(call))), -1, 0);
  }
  std::vector<VmValuePtr> args = VisitAll(call->args);
  if (func != nullptr) return (void)Inline(func, args, true);
  VmValuePtr callee = Visit(call->op);
  if (callee->is_function && callee->reg < 0) {
    std::vector<int> operands = Registers(callee->fields);
    for (int r : Registers(args)) operands.push_back(r);
    out_.Emit(Opcode::kTailInvoke, -1, -1, -1, callee->function, operands);
  } else {
    int closure = Register(callee);
    out_.Emit(Opcode::kTailApply, -1, closure, -1, 0, Registers(args));
  }
}

// ---- Values.

int VmFunctionCompiler::Register(const VmValuePtr& value) {
  if (value->reg >= 0) return value->reg;
  int reg = -1;
  if (value->is_tuple || value->is_function) {
    std::vector<int> fields = Registers(value->fields);
    reg = out_.NewRegister();
    if (value->is_tuple) {
      out_.Emit(Opcode::kAllocData, reg, -1, -1, runtime::kTupleTag, fields);
    } else {
      out_.Emit(Opcode::kMakeClosure, reg, -1, -1, value->function, fields);
    }
  } else if (value->constant.defined()) {
    reg = out_.NewRegister();
    out_.Emit(Opcode::kLoadConst, reg, -1, -1, program_->Constant(value->constant));
  } else {
    TREADLE_ICHECK(value->has_elements) << "a value without register";
    const auto* type = value->type.as<TensorTypeNode>();
    std::vector<int> ints;
    for (const PrimExpr& element : value->elements) ints.push_back(EmitInt(element));
    reg = out_.NewRegister();
    bool vector = type->shape.size() == 1;
    out_.Emit(Opcode::kMakeInts, reg, -1, type->shape.empty() ? 0 : 1, PackDType(type->dtype), ints);
    if (!vector && !type->shape.empty()) {
      int shaped = out_.NewRegister();
      std::vector<int> dims;
      for (const PrimExpr& dim : type->shape) dims.push_back(EmitInt(dim));
      out_.Emit(Opcode::kReshape, shaped, reg, -1, 0, dims);
      reg = shaped;
    }
  }
  value->reg = reg;
  undo_.push_back([value] { value->reg = -1; });
  return reg;
}

int VmFunctionCompiler::RegisterOn(const VmValuePtr& value, int device_type) {
  const bool is_tensor = !value->is_tuple && !value->is_function;
  if (!is_tensor || value->device_type == device_type || (!program_->has_devices && device_type == kDLCPU)) {
    return Register(value);
  }
  if (auto known = value->copies.find(device_type); known != value->copies.end()) return known->second;
  int reg = -1;
  if (value->constant.defined()) {
    if (device_type == kDLCPU) return Register(value);
    reg = out_.NewRegister();
    out_.Emit(Opcode::kLoadConst, reg, -1, device_type, program_->Constant(value->constant));
  } else {
    const bool made_here = value->has_elements && value->reg < 0;
    int source = Register(value);
    if (made_here && device_type == kDLCPU) return source;
    reg = out_.NewRegister();
    out_.Emit(Opcode::kDeviceCopy, reg, source, -1, device_type);
  }
  value->copies[device_type] = reg;
  undo_.push_back([value, device_type] { value->copies.erase(device_type); });
  return reg;
}

std::vector<int> VmFunctionCompiler::Registers(const std::vector<VmValuePtr>& values) {
  std::vector<int> registers;
  for (const VmValuePtr& value : values) registers.push_back(Register(value));
  return registers;
}

VmValuePtr VmFunctionCompiler::TensorValue(int reg, const Type& type) {
  auto value = std::make_shared<VmValue>();
  value->type = type;
  value->reg = reg;
  return value;
}

VmValuePtr VmFunctionCompiler::FromRegister(int reg, const Type& type) {
  if (const auto* tensor = type.as<TensorTypeNode>()) {
    Array<PrimExpr> shape;
    for (size_t d = 0; d < tensor->shape.size(); ++d) {
      const PrimExpr dim = tensor->shape[d];
      if (AsConstInt(dim) != nullptr) {
        shape.push_back(dim);
        continue;
      }
      int actual = out_.NewInt();
      out_.Emit(Opcode::kDimOf, actual, reg, -1, static_cast<int64_t>(d));
      shape.push_back(BindDim(actual));
    }
    return TensorValue(reg, TensorType(shape, tensor->dtype));
  }
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    std::vector<VmValuePtr> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      int field = out_.NewRegister();
      out_.Emit(Opcode::kGetField, field, reg, -1, static_cast<int64_t>(i));
      fields.push_back(FromRegister(field, tuple->fields[i]));
    }
    VmValuePtr value = MakeTuple(fields);
    value->reg = reg;
    return value;
  }
  return TensorValue(reg, type);
}

VmValuePtr VmFunctionCompiler::MakeTuple(std::vector<VmValuePtr> fields) {
  auto value = std::make_shared<VmValue>();
  Array<Type> types;
  for (const VmValuePtr& field : fields) types.push_back(field->type);
  value->type = TupleType(types);
  value->is_tuple = true;
  value->fields = std::move(fields);
  return value;
}

VmValuePtr VmFunctionCompiler::Field(const VmValuePtr& tuple, int index) {
  if (tuple->is_tuple) {
    TREADLE_ICHECK(index >= 0 && static_cast<size_t>(index) < tuple->fields.size()) << "projection out of range";
    return tuple->fields[static_cast<size_t>(index)];
  }
  throw InternalError(
      StrCat("internal error: projection of a ", tuple->type.defined() ? tuple->type->type_key() : "value"));
}

void VmFunctionCompiler::FlattenTensors(const VmValuePtr& value, std::vector<VmValuePtr>* out) {
  if (!value->is_tuple) return out->push_back(value);
  for (const VmValuePtr& field : value->fields) FlattenTensors(field, out);
}

VmValuePtr VmFunctionCompiler::Unflatten(const Type& type, const std::vector<VmValuePtr>& tensors, size_t* next) {
  const auto* tuple = type.as<TupleTypeNode>();
  if (tuple == nullptr) return tensors.at((*next)++);
  std::vector<VmValuePtr> fields;
  for (const Type& field : tuple->fields) fields.push_back(Unflatten(field, tensors, next));
  return MakeTuple(fields);
}

// ---- Integers.

tir::Var VmFunctionCompiler::BindDim(int int_register) {
  tir::Var var("d" + std::to_string(fresh_dims_++), DataType::Int(64));
  ints_[var] = int_register;
  analyzer_.Bind(var, arith::ConstIntBound{0, INT32_MAX});
  return var;
}

namespace {

class UnboundFinder : public tir::ExprVisitor {
 public:
  explicit UnboundFinder(std::function<bool(const PrimExpr&)> bound) : bound_(std::move(bound)) {}
  bool found = false;
  void VisitExpr_(const tir::VarNode* op) override { found = found || !bound_(GetRef<PrimExpr>(op)); }
  void VisitExpr_(const tir::CallNode*) override { found = true; }
  using tir::ExprVisitor::VisitExpr_;

 private:
  std::function<bool(const PrimExpr&)> bound_;
};

class NodeCounter : public tir::ExprVisitor {
 public:
  int count = 0;
  void VisitExpr(const PrimExpr& e) override {
    if (++count < 100) tir::ExprVisitor::VisitExpr(e);
  }
};

}  // namespace

bool VmFunctionCompiler::CanEmit(const PrimExpr& e) {
  UnboundFinder finder([this](const PrimExpr& var) { return ints_.count(var) != 0; });
  finder(e);
  return !finder.found;
}

PrimExpr VmFunctionCompiler::Shorten(const PrimExpr& e) {
  if (AsConstInt(e) != nullptr || e.as<tir::VarNode>()) return e;
  PrimExpr simple = analyzer_.Simplify(e);
  NodeCounter counter;
  counter(simple);
  if (counter.count <= 12) return simple;
  auto named = names_.find(simple);
  if (named != names_.end()) return named->second;
  auto known = ints_.find(simple);
  const tir::Var name = BindDim(known != ints_.end() ? known->second : EmitInt(simple));
  names_.emplace(simple, name);
  undo_.push_back([this, simple] { names_.erase(simple); });
  return name;
}

int VmFunctionCompiler::EmitInt(const PrimExpr& e) {
  if (const int64_t* value = AsConstInt(e)) return out_.ConstantInt(*value);
  auto it = ints_.find(e);
  if (it != ints_.end()) return it->second;
  int reg = WithEnoughStack([&] { return EmitIntNode(e); });
  ints_[e] = reg;
  undo_.push_back([this, e] { ints_.erase(e); });
  return reg;
}

int VmFunctionCompiler::EmitIntNode(const PrimExpr& e) {
  auto binary = [&](IntOp op, const PrimExpr& a, const PrimExpr& b) {
    int x = EmitInt(a), y = EmitInt(b), reg = out_.NewInt();
    out_.Emit(Opcode::kIntOp, reg, x, y, static_cast<int64_t>(op));
    return reg;
  };
  if (const auto* op = e.as<tir::CastNode>()) {
    bool test = op->dtype.is_bool() && !op->value.dtype().is_bool();
    return test ? binary(IntOp::kNE, op->value, PrimExpr(int64_t{0})) : EmitInt(op->value);
  }
  if (const auto* op = e.as<tir::AddNode>()) return binary(IntOp::kAdd, op->a, op->b);
  if (const auto* op = e.as<tir::SubNode>()) return binary(IntOp::kSub, op->a, op->b);
  if (const auto* op = e.as<tir::MulNode>()) return binary(IntOp::kMul, op->a, op->b);
  if (const auto* op = e.as<tir::FloorDivNode>()) return binary(IntOp::kFloorDiv, op->a, op->b);
  if (const auto* op = e.as<tir::FloorModNode>()) return binary(IntOp::kFloorMod, op->a, op->b);
  if (const auto* op = e.as<tir::DivNode>()) return binary(IntOp::kTruncDiv, op->a, op->b);
  if (const auto* op = e.as<tir::ModNode>()) return binary(IntOp::kTruncMod, op->a, op->b);
  if (const auto* op = e.as<tir::MinNode>()) return binary(IntOp::kMin, op->a, op->b);
  if (const auto* op = e.as<tir::MaxNode>()) return binary(IntOp::kMax, op->a, op->b);
  if (const auto* op = e.as<tir::EQNode>()) return binary(IntOp::kEQ, op->a, op->b);
  if (const auto* op = e.as<tir::NENode>()) return binary(IntOp::kNE, op->a, op->b);
  if (const auto* op = e.as<tir::LTNode>()) return binary(IntOp::kLT, op->a, op->b);
  if (const auto* op = e.as<tir::LENode>()) return binary(IntOp::kLE, op->a, op->b);
  if (const auto* op = e.as<tir::GTNode>()) return binary(IntOp::kLT, op->b, op->a);
  if (const auto* op = e.as<tir::GENode>()) return binary(IntOp::kLE, op->b, op->a);
  if (const auto* op = e.as<tir::AndNode>()) return binary(IntOp::kAnd, op->a, op->b);
  if (const auto* op = e.as<tir::OrNode>()) return binary(IntOp::kOr, op->a, op->b);
  if (const auto* op = e.as<tir::NotNode>()) return binary(IntOp::kEQ, op->a, PrimExpr(int64_t{0}));
  if (const auto* op = e.as<tir::SelectNode>()) {
    int condition = EmitInt(op->condition), yes = EmitInt(op->true_value), no = EmitInt(op->false_value);
    int reg = out_.NewInt();
    out_.Emit(Opcode::kSelect, reg, condition, yes, no);
    return reg;
  }
  if (const auto* var = e.as<tir::VarNode>()) {
    throw Error(StrCat("the dimension \"", var->name_hint, "\" isn't known: no argument of the function has it"));
  }
  throw UnsupportedOpError(StrCat("a dimension is computed by ", e->type_key(), ", which the VM can't"), {});
}

}  // namespace treadle::driver
