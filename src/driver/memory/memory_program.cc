// SPDX-License-Identifier: Apache-2.0
#include "driver/memory/memory_program.h"

#include <algorithm>
#include <unordered_set>

#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/relay/device.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using relay::Expr;
using relay::FunctionNode;
using relay::LetNode;

std::string Place(const Span& span) { return span.defined() ? " at '" + span.str() + "'" : ""; }

class Linearizer {
 public:
  explicit Linearizer(bool share_reshapes) : share_reshapes_(share_reshapes) {}

  MemoryProgram Run(const relay::Function& func) {
    devices_ = relay::CollectDeviceInfo(func);
    for (const relay::Var& param : func->params) {
      std::vector<int> ids = NewTensors(param, /*step=*/-1);
      for (int id : ids) program_.tensors[id].persistent = true;
      Define(param, ids);
    }
    program_.num_params = program_.tensors.size();
    Walk(func->body);
    for (int id : TensorsOf(func->body)) {
      ++program_.tensors[id].uses;
      program_.tensors[id].last_use = static_cast<int>(program_.steps.size());
    }
    ExtendAliases();
    return std::move(program_);
  }

 private:
  struct Frame {
    Expr expr;
    size_t next = 0;
  };

  void Walk(const Expr& body) {
    std::vector<Frame> stack;
    stack.push_back({body});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Expr child = Known(frame.expr) ? Expr() : Child(frame.expr, frame.next);
      if (child.defined()) {
        ++frame.next;
        if (!Known(child)) stack.push_back({child});
        continue;
      }
      Expr done = frame.expr;
      stack.pop_back();
      if (!Known(done)) Leave(done);
    }
  }

  /// The `i`th expression that must be visited before `expr`; null when there are no more.
  Expr Child(const Expr& expr, size_t i) {
    if (const auto* call = expr.as<CallNode>()) return i < call->args.size() ? call->args[i] : Expr();
    if (const auto* tuple = expr.as<relay::TupleNode>()) return i < tuple->fields.size() ? tuple->fields[i] : Expr();
    if (const auto* item = expr.as<relay::TupleGetItemNode>()) return i == 0 ? item->tuple : Expr();
    if (const auto* let = expr.as<LetNode>()) {
      if (i == 1) Define(let->var, TensorsOf(let->value));
      return i == 0 ? let->value : i == 1 ? let->body : Expr();
    }
    return Expr();
  }

  void Leave(const Expr& expr) {
    if (const auto* call = expr.as<CallNode>()) return LeaveCall(call);
    if (const auto* tuple = expr.as<relay::TupleNode>()) {
      std::vector<int> ids;
      for (const Expr& field : tuple->fields) {
        const auto& of_field = TensorsOf(field);
        ids.insert(ids.end(), of_field.begin(), of_field.end());
      }
      return Define(expr, ids);
    }
    if (const auto* item = expr.as<relay::TupleGetItemNode>()) return LeaveProjection(expr, item);
    if (const auto* let = expr.as<LetNode>()) return Define(expr, TensorsOf(let->body));
    if (expr.as<relay::ConstantNode>()) {
      int step = static_cast<int>(program_.steps.size());
      std::vector<int> ids = NewTensors(expr, step);
      for (int id : ids) program_.tensors[id].persistent = true;
      program_.steps.push_back({nullptr, {}, ids});
      return Define(expr, ids);
    }
    if (const auto* var = expr.as<relay::VarNode>()) {
      throw InternalError(StrCat("internal error: variable '", var->name_hint(), "' isn't bound in the function"));
    }
    throw Error(StrCat("memory can't be planned for ", expr->type_key(), Place(expr->span),
                       ": the graph executor runs data flow only"));
  }

  void LeaveProjection(const Expr& expr, const relay::TupleGetItemNode* item) {
    const auto& all = TensorsOf(item->tuple);
    // A field may be a tuple itself: count the tensors before it.
    const auto* type = item->tuple->type_as<TupleTypeNode>();
    TREADLE_ICHECK(type != nullptr) << "projection of a value that isn't a tuple";
    size_t first = 0;
    for (int i = 0; i < item->index; ++i) first += CountTensors(type->fields[static_cast<size_t>(i)]);
    size_t count = CountTensors(type->fields[static_cast<size_t>(item->index)]);
    TREADLE_ICHECK(first + count <= all.size()) << "projection out of range";
    Define(expr, std::vector<int>(all.begin() + static_cast<int64_t>(first),
                                  all.begin() + static_cast<int64_t>(first + count)));
  }

  void LeaveCall(const CallNode* call) {
    PlannedStep step;
    step.call = call;
    int index = static_cast<int>(program_.steps.size());
    for (const Expr& arg : call->args) {
      for (int id : TensorsOf(arg)) {
        step.inputs.push_back(id);
        ++program_.tensors[id].uses;
        program_.tensors[id].last_use = index;
      }
    }
    Expr expr = GetRef<Expr>(call);
    step.outputs = NewTensors(expr, index);
    const auto* func = call->op.as<FunctionNode>();
    if (share_reshapes_ && func != nullptr && func->HasNonzeroAttr(attr::kReshapeOnly) && !step.inputs.empty()) {
      TREADLE_ICHECK(step.outputs.size() == 1) << "a reshape-only function has one tensor as result";
      PlannedTensor& output = program_.tensors[step.outputs[0]];
      const PlannedTensor& input = program_.tensors[step.inputs[0]];
      if (output.device_type == input.device_type) output.alias_of = step.inputs[0];
    }
    program_.steps.push_back(step);
    Define(expr, step.outputs);
  }

  static size_t CountTensors(const Type& type) {
    const auto* tuple = type.as<TupleTypeNode>();
    if (tuple == nullptr) return 1;
    size_t count = 0;
    for (const Type& field : tuple->fields) count += CountTensors(field);
    return count;
  }

  std::vector<int> NewTensors(const Expr& expr, int step) {
    std::vector<int> ids;
    AddTensors(expr, expr->checked_type(), step, &ids);
    return ids;
  }
  void AddTensors(const Expr& expr, const Type& type, int step, std::vector<int>* ids) {
    if (const auto* tuple = type.as<TupleTypeNode>()) {
      for (const Type& field : tuple->fields) AddTensors(expr, field, step, ids);
      return;
    }
    const auto* tensor = type.as<TensorTypeNode>();
    if (tensor == nullptr) {
      throw Error(StrCat("memory can't be planned for a value of type ", type->type_key(), Place(expr->span)));
    }
    PlannedTensor planned;
    planned.bytes = runtime::TensorBytes(StaticShape(tensor, "memory planning" + Place(expr->span)), tensor->dtype);
    planned.defined_at = step;
    auto device = devices_.find(expr);
    if (device != devices_.end()) planned.device_type = device->second;
    planned.last_use = step;
    ids->push_back(static_cast<int>(program_.tensors.size()));
    program_.tensors.push_back(planned);
  }

  /// Memory lives as long as any of its names.
  void ExtendAliases() {
    for (size_t i = program_.tensors.size(); i-- > 0;) {
      const PlannedTensor& tensor = program_.tensors[i];
      if (tensor.alias_of < 0) continue;
      PlannedTensor& owner = program_.tensors[tensor.alias_of];
      owner.last_use = std::max(owner.last_use, tensor.last_use);
    }
  }

  bool Known(const Expr& expr) {
    if (program_.tensors_of.count(expr) != 0) return true;
    const auto* var = expr.as<relay::VarNode>();
    if (var == nullptr) return false;
    auto it = of_variable_.find(var->vid.get());
    if (it == of_variable_.end()) return false;
    program_.tensors_of[expr] = it->second;
    return true;
  }
  const std::vector<int>& TensorsOf(const Expr& expr) {
    TREADLE_ICHECK(Known(expr)) << "expression wasn't visited";
    return program_.tensors_of[expr];
  }
  void Define(const Expr& expr, std::vector<int> ids) {
    if (const auto* var = expr.as<relay::VarNode>()) of_variable_[var->vid.get()] = ids;
    program_.tensors_of[expr] = std::move(ids);
  }

  bool share_reshapes_;
  relay::DeviceMap devices_;
  MemoryProgram program_;
  std::unordered_map<const Object*, std::vector<int>> of_variable_;
};

bool EqualShapes(const TensorTypeNode* a, const TensorTypeNode* b) {
  if (a->shape.size() != b->shape.size()) return false;
  for (size_t i = 0; i < a->shape.size(); ++i) {
    const int64_t* x = AsConstInt(a->shape[i]);
    const int64_t* y = AsConstInt(b->shape[i]);
    if (x == nullptr || y == nullptr || *x != *y) return false;
  }
  return true;
}

/// Whether the body consists of element-wise and broadcast operators only.
bool IsElementWise(const FunctionNode* func) {
  bool result = true;
  relay::PostOrderVisit(func->body, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) {
      const auto* op = call->op.as<OpNode>();
      result = result && op != nullptr &&
               GetRef<Op>(op).GetAttr(kOpPattern, OpPatternKind::kOpaque) <= OpPatternKind::kBroadcast;
    } else if (!e.as<relay::VarNode>() && !e.as<relay::ConstantNode>() && !e.as<OpNode>()) {
      result = false;
    }
  });
  return result;
}

/// Whether all dimensions before `axis` are 1: pieces along it are contiguous.
bool IsOutermost(const TensorTypeNode* type, int axis) {
  const int rank = static_cast<int>(type->shape.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return false;
  for (int d = 0; d < axis; ++d) {
    const int64_t* extent = AsConstInt(type->shape[static_cast<size_t>(d)]);
    if (extent == nullptr || *extent != 1) return false;
  }
  return true;
}

/// The call of `op_name` that is all that the primitive function of a step does, or null.
const CallNode* OnlyCall(const PlannedStep& step, const char* op_name) {
  if (step.call == nullptr) return nullptr;
  const auto* func = step.call->op.as<FunctionNode>();
  if (func == nullptr || !func->is_primitive() || func->GetAttr<ObjectRef>(attr::kCompiler)) return nullptr;
  const auto* call = func->body.as<CallNode>();
  if (call == nullptr || call->op.as<OpNode>() == nullptr || call->op.as<OpNode>()->name != op_name) return nullptr;
  return call;
}

/// Whether the operand of `call` is all parameters of `func`, in order.
bool TakesAllParams(const FunctionNode* func, const CallNode* call) {
  if (call->args.size() != 1) return false;
  if (func->params.size() == 1 && call->args[0].same_as(func->params[0])) return true;
  const auto* tuple = call->args[0].as<relay::TupleNode>();
  if (tuple == nullptr || tuple->fields.size() != func->params.size()) return false;
  for (size_t i = 0; i < func->params.size(); ++i) {
    if (!tuple->fields[i].same_as(func->params[i])) return false;
  }
  return true;
}

bool OnCpu(const PlannedTensor& tensor) { return tensor.device_type == 0 || tensor.device_type == kDLCPU; }

/// Offsets of `pieces`, which together are `whole`; nothing where one can't begin at an aligned place.
std::vector<int64_t> OffsetsOf(const MemoryProgram& program, const std::vector<int>& pieces, int whole) {
  std::vector<int64_t> offsets;
  int64_t offset = 0;
  for (int piece : pieces) {
    const PlannedTensor& tensor = program.tensors[piece];
    if (offset % kArenaAlignment != 0 || tensor.bytes == 0 || !OnCpu(tensor)) return {};
    offsets.push_back(offset);
    offset += tensor.bytes;
  }
  if (offset != program.tensors[whole].bytes || !OnCpu(program.tensors[whole])) return {};
  return offsets;
}

}  // namespace

std::vector<int64_t> PiecesOfJoin(const MemoryProgram& program, const PlannedStep& step) {
  const CallNode* call = OnlyCall(step, "concatenate");
  if (call == nullptr || step.outputs.size() != 1 || !TakesAllParams(step.call->op.as<FunctionNode>(), call)) return {};
  const auto* type = call->type_as<TensorTypeNode>();
  if (type == nullptr || !IsOutermost(type, call->attrs_as<ops::ConcatenateAttrs>()->axis)) return {};
  return OffsetsOf(program, step.inputs, step.outputs[0]);
}

std::vector<int64_t> PiecesOfSplit(const MemoryProgram& program, const PlannedStep& step) {
  const CallNode* call = OnlyCall(step, "split");
  if (call == nullptr || step.inputs.size() != 1 || !TakesAllParams(step.call->op.as<FunctionNode>(), call)) return {};
  const auto* type = call->args[0]->type_as<TensorTypeNode>();
  if (type == nullptr || !IsOutermost(type, call->attrs_as<ops::SplitAttrs>()->axis)) return {};
  return OffsetsOf(program, step.outputs, step.inputs[0]);
}

MemoryProgram LinearizeForMemory(const relay::Function& func, bool share_reshapes) {
  return Linearizer(share_reshapes).Run(func);
}

bool MayWriteInPlace(const MemoryProgram& program, const PlannedStep& step, int input, const InPlaceRule& rule) {
  if (step.call == nullptr || step.outputs.size() != 1) return false;
  const auto* func = step.call->op.as<FunctionNode>();
  if (func == nullptr || !func->is_primitive() || func->GetAttr<ObjectRef>(attr::kCompiler)) return false;
  // Element i of the result depends on element i of the operand only if both have one shape: what lies between can't
  // be smaller than the operand nor larger than the result.
  const auto* result = func->body->type_as<TensorTypeNode>();
  if (result == nullptr || func->params.size() != step.inputs.size()) return false;
  const PlannedTensor& tensor = program.tensors[input];
  if (tensor.bytes != program.tensors[step.outputs[0]].bytes) return false;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] != input) continue;
    const auto* type = func->params[i]->type_as<TensorTypeNode>();
    if (type == nullptr || !EqualShapes(type, result)) return false;
    if (runtime::ElementBytes(type->dtype) != runtime::ElementBytes(result->dtype)) return false;
    if (rule && !rule(step.call, i)) return false;
  }
  return rule || IsElementWise(func);
}

std::vector<const CallNode*> InPlaceCandidates(const MemoryProgram& program) {
  std::vector<const CallNode*> calls;
  const InPlaceRule any = [](const CallNode*, size_t) { return true; };
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const PlannedStep& step = program.steps[s];
    const bool candidate = !step.outputs.empty() && std::any_of(step.inputs.begin(), step.inputs.end(), [&](int input) {
      const PlannedTensor& tensor = program.tensors[input];
      return !tensor.persistent && tensor.last_use == static_cast<int>(s) && OnCpu(tensor) &&
             OnCpu(program.tensors[step.outputs[0]]) && MayWriteInPlace(program, step, input, any);
    });
    if (candidate) calls.push_back(step.call);
  }
  return calls;
}

}  // namespace treadle::driver
