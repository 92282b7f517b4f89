// SPDX-License-Identifier: Apache-2.0
#include "treadle/driver/interpreter.h"

#include <utility>

#include "driver/evaluate/interpreter_code.h"
#include "driver/evaluate/op_evaluator.h"
#include "passes/qnn_passes.h"
#include "relay/node_check.h"
#include "treadle/driver/compile.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::driver {

TREADLE_DEFINE_NODE(TupleValueNode);
TREADLE_DEFINE_NODE(ConstructorValueNode);
TREADLE_DEFINE_NODE(RefValueNode);
TREADLE_DEFINE_NODE(ClosureValueNode);

using relay::CallNode;
using relay::Expr;
using relay::FunctionNode;
using relay::MatchNode;
using relay::Pattern;
using runtime::NDArray;

TupleValue::TupleValue(Array<Value> fields) {
  auto node = MakeObject<TupleValueNode>();
  node->fields = std::move(fields);
  data_ = std::move(node);
}

ConstructorValue::ConstructorValue(Constructor constructor, Array<Value> fields) {
  auto node = MakeObject<ConstructorValueNode>();
  node->tag = constructor->tag;
  node->fields = std::move(fields);
  node->constructor = std::move(constructor);
  data_ = std::move(node);
}

RefValue::RefValue(Value value) {
  auto node = MakeObject<RefValueNode>();
  node->value = std::move(value);
  data_ = std::move(node);
}

ClosureValue::ClosureValue(Expr callee, int code, std::vector<Value> captured) {
  auto node = MakeObject<ClosureValueNode>();
  node->callee = std::move(callee);
  node->code = code;
  node->captured = std::move(captured);
  data_ = std::move(node);
}

namespace {

constexpr int kDescribedDepth = 3;

std::string Describe(const Value& value, int depth) {
  if (!value.defined()) return "nothing";
  if (const auto* tensor = value.as<runtime::NDArrayNode>()) {
    return StrCat("Tensor[", runtime::ShapeString(tensor->shape), ", ", DataType(tensor->tensor.dtype), "]");
  }
  if (value.as<RefValueNode>()) return "a reference";
  if (value.as<ClosureValueNode>()) return "a function";
  const auto* tuple = value.as<TupleValueNode>();
  const auto* constructed = value.as<ConstructorValueNode>();
  if (tuple == nullptr && constructed == nullptr) return "a value of kind " + value->type_key();
  const Array<Value>& fields = tuple != nullptr ? tuple->fields : constructed->fields;
  std::string text = tuple != nullptr ? "" : constructed->constructor->name_hint;
  if (tuple == nullptr && fields.empty()) return text;
  text += "(";
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i != 0) text += ", ";
    if (depth == 0 || i == 8) {
      text += "..";
      break;
    }
    text += Describe(fields[i], depth - 1);
  }
  return text + ")";
}

/// " (at file:3:4)", or "" where the place isn't known.
std::string Place(const Expr& expr) { return expr->span.defined() ? " (at " + expr->span.str() + ")" : ""; }

bool IsTrue(const Value& value, const Expr& where) {
  const auto* node = value.as<runtime::NDArrayNode>();
  if (node == nullptr) throw RuntimeError(StrCat("the condition of if is ", Describe(value, 1), Place(where)));
  const NDArray tensor = GetRef<NDArray>(node);
  if (tensor.size() != 1 || !tensor.IsCompact() || runtime::ElementBytes(tensor.dtype()) != 1) {
    throw RuntimeError(StrCat("the condition of if is ", Describe(value, 1), ", not a scalar bool", Place(where)));
  }
  return *tensor.Data<char>() != 0;
}

/// Dimensions of the argument against those of the parameter, as far as they are constants.
void CheckArgument(const relay::Var& param, const Value& value) {
  const auto* type = param->type_annotation.as<TensorTypeNode>();
  if (type == nullptr) return;
  const auto* node = value.as<runtime::NDArrayNode>();
  const std::string name = "parameter %" + param->name_hint();
  if (node == nullptr) throw DTypeError(StrCat(name, " takes a tensor but gets ", Describe(value, 1)));
  if (DataType(node->tensor.dtype) != type->dtype) {
    throw DTypeError(StrCat(name, " has dtype ", type->dtype, " but gets ", DataType(node->tensor.dtype)));
  }
  bool fits = node->shape.size() == type->shape.size();
  for (size_t i = 0; fits && i < node->shape.size(); ++i) {
    const auto* dim = type->shape[i].as<IntImmNode>();
    fits = dim == nullptr || dim->value == node->shape[i];
  }
  if (!fits) {
    throw ShapeError(StrCat(name, " has type ", relay::PrettyPrint(param->type_annotation), " but gets shape ",
                            runtime::ShapeString(node->shape)));
  }
}

/// A call of the operator on constants as a program that passes may rewrite.
IRModule ProgramOf(const CallNode* call, const Operands& operands, bool* rewritable) {
  Array<Expr> args;
  size_t next = 0;
  auto constant = [&]() -> Expr { return relay::Constant(operands.tensors[next++], call->span); };
  for (int count : operands.fields) {
    if (count < 0) {
      args.push_back(constant());
      continue;
    }
    Array<Expr> fields;
    for (int i = 0; i < count; ++i) fields.push_back(constant());
    args.push_back(relay::Tuple(fields));
  }
  IRModule module = IRModule::FromExpr(relay::Function({}, relay::Call(call->op, args, call->attrs, {}, call->span)));
  module = relay::InferTypes(module);
  // Operators with several results are rewritten by their projections.
  auto main = Downcast<relay::Function>(module->Lookup("main"));
  if (const auto* tuple = main->ret_type.as<TupleTypeNode>()) {
    Array<Expr> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      fields.push_back(relay::TupleGetItem(main->body, static_cast<int>(i)));
    }
    module = relay::InferTypes(IRModule::FromExpr(relay::Function({}, relay::Tuple(fields))));
  }
  namespace passes = relay::transform;
  for (const auto& pass :
       {passes::DynamicToStatic(), passes::SimplifyInference(), passes::Legalize(), passes::QnnCanonicalize()}) {
    module = pass(module);
  }
  *rewritable = true;
  relay::PostOrderVisit(module->Lookup("main"), [&](const Expr& e) {
    const auto* inner = e.as<CallNode>();
    if (inner != nullptr && inner->op.same_as(call->op)) *rewritable = false;
  });
  return module;
}

}  // namespace

std::string DescribeValue(const Value& value) { return Describe(value, kDescribedDepth); }

/// Runs code on a stack of its own: one entry per function or arm that is being evaluated.
class Interpreter::Machine {
 public:
  Machine(IRModule module, InterpreterLimits limits) : module_(std::move(module)), limits_(limits) {}

  const IRModule& module() const { return module_; }

  Value Call(const Value& function, const std::vector<Value>& args, const Expr& where) {
    const size_t base = stack_.size();
    if (base == 0) steps_ = 0;
    try {
      Value result;
      if (Enter(function, args, 0, where, &result)) result = Execute(base);
      return result;
    } catch (...) {
      stack_.resize(base);
      throw;
    }
  }

  Value Global(const GlobalVar& var) { return ClosureValue(var, -1, {}); }

 private:
  using Slots = std::shared_ptr<std::vector<Value>>;
  struct Entry {
    const Code* code;
    const Block* block;
    size_t next;
    Slots slots;
    int dst;  ///< where the entry below takes the result
  };

  /// Starts a call. True: an entry was pushed; false: `result` holds the value already.
  bool Enter(const Value& function, const std::vector<Value>& args, int dst, const Expr& where, Value* result) {
    const auto* closure = function.as<ClosureValueNode>();
    if (closure == nullptr) throw RuntimeError(StrCat(Describe(function, 1), " is called", Place(where)));
    if (closure->code < 0) return EnterNamed(closure->callee, args, dst, where, result);
    const Code& code = codes_[closure->code];
    auto slots = Push(code, args, dst, where);
    for (size_t i = 0; i < code.captures.size(); ++i) {
      (*slots)[static_cast<size_t>(code.captures[i].second)] = closure->captured[i];
    }
    if (code.self >= 0) (*slots)[static_cast<size_t>(code.self)] = function;
    return true;
  }

  bool EnterNamed(const Expr& callee, const std::vector<Value>& args, int dst, const Expr& where, Value* result) {
    if (callee.as<GlobalVarNode>()) {
      Push(codes_[CodeOf(Downcast<GlobalVar>(callee))], args, dst, where);
      return true;
    }
    if (callee.as<ConstructorNode>()) {
      *result = ConstructorValue(Downcast<Constructor>(callee), args);
    } else {
      const auto* call = where.as<CallNode>();
      Attrs attrs = call != nullptr ? call->attrs : Attrs();
      // An operator that was passed as a value.
      if (!attrs.defined()) attrs = relay::DefaultAttrs(static_cast<const OpNode*>(callee.get()));
      *result = Operator(Downcast<Op>(callee), attrs, args, where);
    }
    return false;
  }

  Slots Push(const Code& code, const std::vector<Value>& args, int dst, const Expr& where) {
    if (args.size() != code.params.size()) {
      throw Error(StrCat("a function of ", code.params.size(), " parameters gets ", args.size(), " arguments",
                         where.defined() ? Place(where) : ""));
    }
    auto slots = std::make_shared<std::vector<Value>>(static_cast<size_t>(code.slots));
    for (size_t i = 0; i < args.size(); ++i) (*slots)[static_cast<size_t>(code.params[i])] = args[i];
    PushEntry({&code, &code.blocks[0], 0, slots, dst});
    return slots;
  }

  void PushEntry(Entry entry) {
    if (static_cast<int64_t>(stack_.size()) >= limits_.max_depth) {
      throw RuntimeError(StrCat("evaluation is deeper than ", limits_.max_depth,
                                " calls: does the recursion end? (InterpreterLimits::max_depth)"));
    }
    stack_.push_back(std::move(entry));
  }

  int CodeOf(const GlobalVar& var) {
    auto it = globals_.find(var->name_hint);
    if (it != globals_.end()) return it->second;
    const BaseFunc func = module_->Lookup(var->name_hint);
    if (func.as<FunctionNode>() == nullptr) {
      throw Error(StrCat("@", var->name_hint, " isn't a function of the graph IR but ", func->type_key(),
                         ", which the interpreter doesn't run"));
    }
    return globals_[var->name_hint] = codes_.Add(Downcast<relay::Function>(func));
  }

 public:
  int AddCode(const relay::Function& func) { return codes_.Add(func); }

 private:
  Value Execute(size_t base) {
    while (true) {
      Entry& top = stack_.back();
      if (top.next == top.block->instructions.size()) {
        Value result = (*top.slots)[static_cast<size_t>(top.block->result)];
        const int dst = top.dst;
        stack_.pop_back();
        if (stack_.size() == base) return result;
        (*stack_.back().slots)[static_cast<size_t>(dst)] = std::move(result);
        continue;
      }
      if (++steps_ > limits_.max_steps) {
        throw RuntimeError(StrCat("evaluation takes more than ", limits_.max_steps,
                                  " steps: does it end? (InterpreterLimits::max_steps)"));
      }
      Step(top.block->instructions[top.next++]);
    }
  }

  const Value& Slot(int i) const { return (*stack_.back().slots)[static_cast<size_t>(i)]; }
  void Set(int i, Value value) { (*stack_.back().slots)[static_cast<size_t>(i)] = std::move(value); }
  std::vector<Value> Gather(const std::vector<int>& slots, size_t from = 0) const {
    std::vector<Value> values;
    values.reserve(slots.size());
    for (size_t i = from; i < slots.size(); ++i) values.push_back(Slot(slots[i]));
    return values;
  }

  /// The destination of what `in` starts; an entry that has nothing left to do makes room for it.
  int LeaveIfDone(const Instruction& in, Slots* slots) {
    Entry& top = stack_.back();
    *slots = top.slots;
    if (top.next != top.block->instructions.size() || top.block->result != in.dst) return in.dst;
    const int dst = top.dst;
    stack_.pop_back();
    return dst;
  }

  void StartCall(const Instruction& in, const Value& function, const std::vector<Value>& args) {
    const auto* closure = function.as<ClosureValueNode>();
    Value result;
    if (closure != nullptr && closure->code < 0 && !closure->callee.as<GlobalVarNode>()) {
      EnterNamed(closure->callee, args, in.dst, in.object, &result);
      Set(in.dst, std::move(result));
      return;
    }
    const Value keep = function;
    Slots slots;
    const int dst = LeaveIfDone(in, &slots);
    Enter(keep, args, dst, in.object, &result);
  }

  void StartArm(const Instruction& in, int arm) {
    const Code* code = stack_.back().code;
    Slots slots;
    const int dst = LeaveIfDone(in, &slots);
    PushEntry({code, &code->blocks[static_cast<size_t>(in.index + arm)], 0, std::move(slots), dst});
  }

  void Step(const Instruction& in) {
    using Kind = Instruction::Kind;
    switch (in.kind) {
      case Kind::kConstant:
        return Set(in.dst, static_cast<const relay::ConstantNode*>(in.object.get())->data);
      case Kind::kGlobal:
        return Set(in.dst, Named(in.object));
      case Kind::kTuple:
        return Set(in.dst, TupleValue(Gather(in.args)));
      case Kind::kField:
        return Set(in.dst, Field(in));
      case Kind::kOperator: {
        const auto* call = static_cast<const CallNode*>(in.object.get());
        return Set(in.dst, Operator(Downcast<Op>(call->op), call->attrs, Gather(in.args), in.object));
      }
      case Kind::kConstruct: {
        const auto* call = static_cast<const CallNode*>(in.object.get());
        return Set(in.dst, ConstructorValue(Downcast<Constructor>(call->op), Gather(in.args)));
      }
      case Kind::kCallGlobal: {
        const auto* call = static_cast<const CallNode*>(in.object.get());
        return StartCall(in, Global(Downcast<GlobalVar>(call->op)), Gather(in.args));
      }
      case Kind::kCall:
        return StartCall(in, Slot(in.args[0]), Gather(in.args, 1));
      case Kind::kClosure: {
        std::vector<Value> captured;
        for (const auto& [outer, inner] : codes_[in.index].captures) captured.push_back(Slot(outer));
        return Set(in.dst, ClosureValue(in.object, in.index, std::move(captured)));
      }
      case Kind::kIf:
        return StartArm(in, IsTrue(Slot(in.args[0]), in.object) ? 0 : 1);
      case Kind::kMatch:
        return StartArm(in, ChooseClause(in));
      case Kind::kRefCreate:
        return Set(in.dst, RefValue(Slot(in.args[0])));
      case Kind::kRefRead:
        return Set(in.dst, Cell(in)->value);
      case Kind::kRefWrite:
        Cell(in)->value = Slot(in.args[1]);
        return Set(in.dst, TupleValue(Array<Value>()));
    }
  }

  Value Named(const Expr& expr) {
    const auto* constructor = expr.as<ConstructorNode>();
    if (constructor != nullptr && constructor->inputs.empty()) {
      return ConstructorValue(Downcast<Constructor>(expr), Array<Value>());
    }
    return ClosureValue(expr, -1, {});
  }

  Value Field(const Instruction& in) {
    const Value& value = Slot(in.args[0]);
    const auto* tuple = value.as<TupleValueNode>();
    if (tuple == nullptr || in.index < 0 || static_cast<size_t>(in.index) >= tuple->fields.size()) {
      throw RuntimeError(StrCat("projection .", in.index, " of ", Describe(value, 1), Place(in.object)));
    }
    return tuple->fields[static_cast<size_t>(in.index)];
  }

  const RefValueNode* Cell(const Instruction& in) {
    const auto* cell = Slot(in.args[0]).as<RefValueNode>();
    if (cell == nullptr) {
      throw RuntimeError(StrCat(Describe(Slot(in.args[0]), 1), " is used as a reference", Place(in.object)));
    }
    return cell;
  }

  int ChooseClause(const Instruction& in) {
    const auto* match = static_cast<const MatchNode*>(in.object.get());
    const Value data = Slot(in.args[0]);
    for (size_t i = 0; i < match->clauses.size(); ++i) {
      if (Matches(match->clauses[i]->lhs, data)) return static_cast<int>(i);
    }
    throw RuntimeError(StrCat("no clause of match takes the value ", DescribeValue(data), Place(in.object)));
  }

  /// Binds the pattern's variables as it goes: those of a clause that fails aren't read.
  bool Matches(const Pattern& root, const Value& data) {
    const auto& vars = stack_.back().code->pattern_vars;
    std::vector<std::pair<Pattern, Value>> work = {{root, data}};
    while (!work.empty()) {
      auto [pattern, value] = std::move(work.back());
      work.pop_back();
      const Array<Pattern>* patterns = nullptr;
      const Array<Value>* fields = nullptr;
      if (const auto* var = pattern.as<relay::PatternVarNode>()) {
        Set(vars.at(var->var->vid.get()), value);
      } else if (const auto* constructor = pattern.as<relay::PatternConstructorNode>()) {
        const auto* constructed = value.as<ConstructorValueNode>();
        if (constructed == nullptr || constructed->tag != constructor->constructor->tag) return false;
        patterns = &constructor->patterns;
        fields = &constructed->fields;
      } else if (const auto* tuple = pattern.as<relay::PatternTupleNode>()) {
        const auto* values = value.as<TupleValueNode>();
        if (values == nullptr) return false;
        patterns = &tuple->patterns;
        fields = &values->fields;
      }
      if (patterns == nullptr) continue;
      if (patterns->size() != fields->size()) return false;
      for (size_t i = 0; i < fields->size(); ++i) work.emplace_back((*patterns)[i], (*fields)[i]);
    }
    return true;
  }

  Value Operator(const Op& op, const Attrs& attrs, const std::vector<Value>& args, const Expr& where) {
    Operands operands;
    for (const Value& arg : args) AddOperand(arg, op, where, &operands);
    try {
      if (HasComputeRule(op)) return FromResults(EvaluateOp(op, attrs, operands));
      return OperatorByPasses(op, attrs, args, operands, where);
    } catch (const UnsupportedOpError& e) {
      throw UnsupportedOpError(StrCat(e.what(), Place(where)), e.nodes());
    } catch (const ShapeError& e) {
      throw ShapeError(StrCat(op->name, ": ", e.what(), Place(where)));
    } catch (const RuntimeError& e) {
      throw RuntimeError(StrCat(op->name, ": ", e.what(), Place(where)));
    }
  }

  static Value FromResults(OpResults results) {
    if (!results.is_tuple) return results.tensors[0];
    return TupleValue(Array<Value>(results.tensors.begin(), results.tensors.end()));
  }

  static void AddOperand(const Value& arg, const Op& op, const Expr& where, Operands* operands) {
    if (arg.as<runtime::NDArrayNode>()) {
      operands->tensors.push_back(Downcast<NDArray>(arg));
      operands->fields.push_back(-1);
      return;
    }
    const auto* tuple = arg.as<TupleValueNode>();
    if (tuple == nullptr) throw RuntimeError(StrCat(op->name, " gets ", Describe(arg, 1), Place(where)));
    operands->fields.push_back(static_cast<int>(tuple->fields.size()));
    for (const Value& field : tuple->fields) {
      if (field.as<runtime::NDArrayNode>() == nullptr) {
        throw RuntimeError(StrCat(op->name, " gets ", Describe(arg, 2), Place(where)));
      }
      operands->tensors.push_back(Downcast<NDArray>(field));
    }
  }

  /// Operators that have no tensor compute: annotations pass their operand on; those of training and of dynamic
  /// shape are defined by the passes that replace them.
  Value OperatorByPasses(const Op& op, const Attrs& attrs, const std::vector<Value>& args, const Operands& operands,
                         const Expr& where) {
    if (op->name == "nn.batch_norm" || op->name == "nn.dropout") return Normalize(op, attrs, args, operands, where);
    const bool annotation = op.GetAttr(kNonComputational, false) || op->name == "device_copy" ||
                            op->name == "on_device" || op->name.compare(0, 11, "annotation.") == 0;
    if (annotation && args.size() == 1) return args[0];
    bool rewritable = false;
    const relay::Call call(op, {}, attrs, {}, where->span);
    IRModule program = ProgramOf(call.get(), operands, &rewritable);
    if (!rewritable) throw UnsupportedOpError(StrCat("no implementation of operator '", op->name, "'"), {op->name});
    return Interpreter(program, limits_).Run("main", {});
  }

  /// The first result is what inference computes; the others are the moving statistics, or a mask of ones.
  Value Normalize(const Op& op, const Attrs& attrs, const std::vector<Value>& args, const Operands& operands,
                  const Expr& where) {
    if (op->name == "nn.dropout") {
      const NDArray& data = operands.tensors.at(0);
      OpResults ones = EvaluateOp(Op::Get("ones_like"), Attrs(), {{data}, {-1}});
      return TupleValue(Array<Value>{args[0], ones.tensors[0]});
    }
    bool ignored = false;
    const relay::Call call(op, {}, attrs, {}, where->span);
    IRModule program = ProgramOf(call.get(), operands, &ignored);
    const auto main = Downcast<relay::Function>(program->Lookup("main"));
    const Expr first = Downcast<relay::Tuple>(main->body)->fields[0];
    Value result = Interpreter(IRModule::FromExpr(relay::Function({}, first)), limits_).Run("main", {});
    return TupleValue(Array<Value>{result, args.at(3), args.at(4)});
  }

  IRModule module_;
  InterpreterLimits limits_;
  CodeTable codes_;
  std::unordered_map<std::string, int> globals_;
  std::vector<Entry> stack_;
  int64_t steps_ = 0;
};

Interpreter::Interpreter(IRModule module, InterpreterLimits limits) {
  RegisterAll();
  if (!module.defined()) module = IRModule::Empty();
  machine_ = std::make_unique<Machine>(relay::InferTypes(module), limits);
}

Interpreter::~Interpreter() = default;

Value Interpreter::Evaluate(const Expr& expr) {
  const Expr typed = relay::InferType(expr, machine_->module());
  if (typed.as<GlobalVarNode>()) return machine_->Global(Downcast<GlobalVar>(typed));
  const Array<relay::Var> free = relay::FreeVars(typed);
  if (!free.empty()) throw Error(StrCat("the expression has the free variable %", free[0]->name_hint()));
  const int code = machine_->AddCode(relay::Function({}, typed));
  return machine_->Call(ClosureValue(typed, code, {}), {}, typed);
}

Value Interpreter::Invoke(const Value& function, const std::vector<Value>& args) {
  const auto* closure = function.as<ClosureValueNode>();
  Expr callee = closure != nullptr ? closure->callee : Expr();
  if (callee.as<GlobalVarNode>()) callee = machine_->module()->Lookup(Downcast<GlobalVar>(callee)->name_hint);
  if (const auto* func = callee.as<FunctionNode>()) {
    if (func->params.size() != args.size()) {
      throw Error(StrCat("the function takes ", func->params.size(), " arguments but gets ", args.size()));
    }
    for (size_t i = 0; i < args.size(); ++i) CheckArgument(func->params[i], args[i]);
  }
  return machine_->Call(function, args, callee);
}

Value Interpreter::Run(const std::string& function, const std::vector<Value>& args) {
  return Invoke(machine_->Global(machine_->module()->GetGlobalVar(function)), args);
}

}  // namespace treadle::driver
