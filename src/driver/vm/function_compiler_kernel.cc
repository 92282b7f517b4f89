// SPDX-License-Identifier: Apache-2.0
// Calls of kernels: shapes of results, memory, and what needs no kernel.
#include <algorithm>
#include <array>

#include "driver/graph/origin.h"
#include "driver/vm/equal_sizes.h"
#include "driver/vm/function_compiler.h"
#include "ops/infer.h"
#include "treadle/base/checked_math.h"
#include "treadle/external/region.h"
#include "treadle/ir/model_span.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/annotation.h"
#include "treadle/ops/attrs/dynamic.h"
#include "treadle/ops/attrs/host.h"
#include "treadle/ops/size_forms.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {

using namespace relay;  // NOLINT(google-build-using-namespace): this file is about graph IR
using runtime::vm::PackDType;

namespace {

/// The kernel's variables that are 1 in the form for one row or one column (`key`), where all of its operators that
/// have such a form fit with one; else none.
Array<tir::Var> VariablesOfOne(const SymbolicKernel& kernel, const OpAttrKey<ops::FFormForOne>& key) {
  Array<tir::Var> variables;
  bool fits = true;
  const auto add = [&](const PrimExpr& dim) {
    if (tir::is_one(dim)) return;
    const auto known = std::find_if(kernel.variables.begin(), kernel.variables.end(),
                                    [&](const tir::Var& var) { return var.same_as(dim); });
    fits = fits && known != kernel.variables.end();
    const bool is_new =
        fits && std::none_of(variables.begin(), variables.end(), [&](const tir::Var& var) { return var.same_as(dim); });
    if (is_new) variables.push_back(*known);
  };
  PostOrderVisit(kernel.func->body, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return;
    const Op op = Downcast<Op>(call->op);
    fits = fits && !op.GetAttr(kDataDependentShape, false);
    const auto* form = op.GetAttr(key);
    if (form == nullptr) return;
    Array<Type> operands;
    for (const Expr& arg : call->args) operands.push_back(arg->checked_type());
    const Array<PrimExpr> dims = (*form)(call->attrs, operands);
    fits = fits && !dims.empty();
    for (const PrimExpr& dim : dims) add(dim);
  });
  return fits ? variables : Array<tir::Var>();
}

/// The parameter that the kernel only reshapes; its others list sizes. -1: isn't known.
int ReshapedParam(const Function& func) {
  Expr e = func->body;
  while (const auto* call = e.as<CallNode>()) e = call->args[0];
  for (size_t i = 0; i < func->params.size(); ++i) {
    if (func->params[i]->type_annotation.as<TensorTypeNode>() == nullptr) return -1;
    if (func->params[i].get() == e.get()) return static_cast<int>(i);
  }
  return -1;
}

/// Whether the call leaves its operand as it is where the result has as many elements.
bool KeepsEqualSizes(const CallNode* call) {
  const std::string& name = call->op.as<OpNode>()->name;
  if (name == "dyn.broadcast_to") return true;
  const auto* attrs = name == "dyn.resize_axis" ? call->attrs_as<ops::ResizeAxisAttrs>() : nullptr;
  if (attrs == nullptr || !attrs->by_size) return false;
  // The other ones take elements from elsewhere, or may, by rounding.
  constexpr std::array kExact = {"half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"};
  return std::find(kExact.begin(), kExact.end(), attrs->transform) != kExact.end();
}

/// The parameter that the kernel does no more than expand or resample, and reshape; -1: it does more, or neither.
int ExpandedParam(const Function& func) {
  bool expands = false;
  Expr e = func->body;
  while (const auto* call = e.as<CallNode>()) {
    if (call->op.as<OpNode>() == nullptr) return -1;
    const Op op = Downcast<Op>(call->op);
    const bool expand = KeepsEqualSizes(call);
    if (!expand && !op.GetAttr(kReshapeOp, false)) return -1;
    expands = expands || expand;
    e = call->args[0];
  }
  int found = -1;
  for (size_t i = 0; expands && i < func->params.size(); ++i) {
    if (func->params[i]->type_annotation.as<TensorTypeNode>() == nullptr) return -1;
    if (func->params[i].get() == e.get()) found = static_cast<int>(i);
  }
  return found;
}

Type WithDims(const Type& type, const Array<tir::Var>& variables, const std::vector<PrimExpr>& values) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    return TupleType(tuple->fields.Map([&](const Type& field) { return WithDims(field, variables, values); }));
  }
  const auto* tensor = type.as<TensorTypeNode>();
  return TensorType(tensor->shape.Map([&](const PrimExpr& dim) { return SubstituteDims(dim, variables, values); }),
                    tensor->dtype);
}

}  // namespace

VmFunctionCompiler::OriginScope::OriginScope(VmFunctionCompiler* compiler, const std::string& nodes)
    : out_(&compiler->out_), before_(out_->SetOrigin(nodes.empty() ? -1 : compiler->program_->String(nodes))) {}

PrimExpr VmFunctionCompiler::ElementOf(const VmValuePtr& tensor, int64_t index) {
  if (tensor->has_elements) return tensor->elements.at(static_cast<size_t>(index));
  int source = HostRegister(tensor), reg = out_.NewInt();
  out_.Emit(Opcode::kReadInt, reg, source, -1, index);
  tir::Var var("v" + std::to_string(fresh_dims_++), DataType::Int(64));
  ints_[var] = reg;
  return var;
}

VmValuePtr VmFunctionCompiler::EmitReshape(const VmValuePtr& input, const TensorType& type) {
  if (input->has_elements && input->reg < 0 && IsStatic(type.get())) {
    auto value = std::make_shared<VmValue>();
    value->type = type;
    value->elements = input->elements;
    value->has_elements = true;
    return value;
  }
  int source = Register(input);
  std::vector<int> dims;
  for (const PrimExpr& dim : type->shape) dims.push_back(EmitInt(dim));
  int reg = out_.NewRegister();
  out_.Emit(Opcode::kReshape, reg, source, -1, 0, dims);
  VmValuePtr value = TensorValue(reg, type);
  value->elements = input->elements;
  value->has_elements = input->has_elements;
  value->device_type = input->device_type;
  return value;
}

VmValuePtr VmFunctionCompiler::EmitDeviceCopy(const VmValuePtr& input, int device_type) {
  if (!program_->has_devices || input->is_function) return input;
  if (input->is_tuple) {
    std::vector<VmValuePtr> fields;
    for (const VmValuePtr& field : input->fields) fields.push_back(EmitDeviceCopy(field, device_type));
    return MakeTuple(std::move(fields));
  }
  VmValuePtr value = TensorValue(RegisterOn(input, device_type), input->type);
  value->device_type = device_type;
  value->elements = input->elements;
  value->has_elements = input->has_elements;
  return value;
}

VmValuePtr VmFunctionCompiler::TryElements(const SymbolicKernel& kernel, const std::vector<VmValuePtr>& tensors) {
  auto elements = SymbolicElements(kernel, [&](size_t i, int64_t k) -> PrimExpr {
    const VmValuePtr& tensor = tensors[i];
    return tensor->has_elements ? tensor->elements.at(static_cast<size_t>(k)) : PrimExpr(ObjectPtr<Object>());
  });
  if (!elements) return nullptr;
  std::vector<VmValuePtr> results;
  for (size_t r = 0; r < elements->size(); ++r) {
    auto value = std::make_shared<VmValue>();
    value->type = kernel.results[r];
    value->has_elements = true;
    for (const PrimExpr& element : (*elements)[r]) {
      PrimExpr known = analyzer_.Simplify(SubstituteDims(element, kernel.variables, kernel.values));
      if (!CanEmit(known)) return nullptr;
      value->elements.push_back(known);
    }
    results.push_back(value);
  }
  size_t next = 0;
  return Unflatten(kernel.func->body->checked_type(), results, &next);
}

PrimExpr VmFunctionCompiler::SizeOfResult(const Function& func, const PrimExpr& dim,
                                          const std::vector<VmValuePtr>& operands) {
  const PrimExpr size = Shorten(dim);  // whatever that gives a name counts as a size, which isn't negative
  const bool is_operands = std::any_of(operands.begin(), operands.end(), [&](const VmValuePtr& operand) {
    const auto* type = operand->type.as<TensorTypeNode>();
    return type != nullptr && std::any_of(type->shape.begin(), type->shape.end(),
                                          [&](const PrimExpr& own) { return ops::SameDim(own, size); });
  });
  if (is_operands || analyzer_.Bound(dim).min >= 0) return size;
  const std::string nodes = DescribeOrigin(func);
  const auto* call = func->body.as<CallNode>();
  const bool reshapes = call != nullptr && Downcast<Op>(call->op).GetAttr(kReshapeOp, false);
  const char* what = reshapes ? "a dimension of the new shape can't be told" : "a dimension of the result is negative";
  const int text =
      program_->String(StrCat(nodes, nodes.empty() ? "" : ": ", what, ": it and the least that it may be"));
  const PrimExpr zero = PrimExpr(int64_t{0});
  out_.Emit(Opcode::kCheckEqual, -1, EmitInt(tir::min(dim, zero)), EmitInt(zero), text);
  return size;
}

VmValuePtr VmFunctionCompiler::CallKernel(const Function& func, const std::vector<VmValuePtr>& args) {
  const OriginScope origin(this, DescribeOrigin(func));
  const auto* body = func->body.as<CallNode>();
  const auto* op = body == nullptr ? nullptr : body->op.as<OpNode>();
  if (op != nullptr && op->name == "device_copy" && args.size() == 1) {
    return EmitDeviceCopy(args[0], body->attrs_as<ops::DeviceCopyAttrs>()->dst_dev_type);
  }
  std::vector<VmValuePtr> tensors;
  Array<Type> types;
  for (const VmValuePtr& arg : args) {
    FlattenTensors(arg, &tensors);
    types.push_back(arg->type);
  }
  bool external = func->attrs->dict.contains(treadle::attr::kCompiler);
  // Shapes of an external function's results follow from its operators, too.
  const Function plain = external ? external::DissolveComposites(func) : func;
  SymbolicKernel kernel =
      MakeSymbolicKernel(plain, types, [&](size_t i, int64_t k) { return ElementOf(tensors[i], k); }, &analyzer_);
  if (external) kernel.func = func;
  for (const auto& [found, expected, rule, span] : kernel.equalities) {
    PrimExpr x = analyzer_.Simplify(found), y = analyzer_.Simplify(expected);
    if (analyzer_.CanProveEqual(x, y)) continue;
    const std::string place = span.defined() ? DescribePlace(span) + ": " : "";
    int text = program_->String(StrCat(place, rule));
    out_.Emit(Opcode::kCheckEqual, -1, EmitInt(x), EmitInt(y), text);
  }
  std::vector<TensorType> results;
  for (const TensorType& result : kernel.results) {
    Array<PrimExpr> shape = result->shape.Map([&](const PrimExpr& dim) {
      return SizeOfResult(func, SubstituteDims(dim, kernel.variables, kernel.values), tensors);
    });
    results.push_back(TensorType(shape, result->dtype));
  }
  if (func->HasNonzeroAttr(treadle::attr::kReshapeOnly) && results.size() == 1 && !tensors.empty()) {
    if (const int data = ReshapedParam(func); data >= 0)
      return EmitReshape(tensors[static_cast<size_t>(data)], results[0]);
  }
  if (!external) {
    if (VmValuePtr known = TryElements(kernel, tensors)) return known;
  }
  const auto count = static_cast<uint32_t>(tensors.size() + results.size());
  const auto [index, device] = program_->Kernel(kernel.func, count, static_cast<uint32_t>(results.size()));
  std::vector<int> operands;
  for (const VmValuePtr& tensor : tensors) operands.push_back(RegisterOn(tensor, device));
  const int expanded = external || device != kDLCPU ? -1 : ExpandedParam(func);
  if (expanded >= 0) return EmitExpansion(kernel, tensors, operands, static_cast<size_t>(expanded), results[0]);
  std::vector<VmValuePtr> outputs;
  for (const TensorType& result : results) {
    std::vector<int> dims;
    for (const PrimExpr& dim : result->shape) dims.push_back(EmitInt(dim));
    int reg = out_.NewRegister();
    const int32_t place = device == kDLCPU ? runtime::vm::kOnCpu : device;
    out_.Emit(Opcode::kAllocTensor, reg, -1, place, PackDType(result->dtype), dims);
    outputs.push_back(TensorValue(reg, result));
    outputs.back()->device_type = device;
    operands.push_back(reg);
  }
  EmitKernel(kernel, operands, outputs.size());
  size_t next = 0;
  return Unflatten(kernel.func->body->checked_type(), outputs, &next);
}

/// What is expanded or resampled to the size that it has is a view; a kernel makes other ones.
VmValuePtr VmFunctionCompiler::EmitExpansion(const SymbolicKernel& kernel, const std::vector<VmValuePtr>& tensors,
                                             std::vector<int> operands, size_t expanded, const TensorType& result) {
  std::vector<int> dims;
  for (const PrimExpr& dim : result->shape) dims.push_back(EmitInt(dim));
  const TensorType own = Downcast<TensorType>(tensors[expanded]->type);
  const auto elements = [&](const TensorType& type) {
    return analyzer_.Simplify(ops::DimProduct(type->shape, 0, type->shape.size()));
  };
  const PrimExpr same = tir::equal(elements(own), elements(result));
  const int condition = EmitInt(analyzer_.Simplify(same)), source = operands[expanded], reg = out_.NewRegister();
  operands.push_back(reg);
  const size_t to_kernel = out_.EmitJumpIfZero(condition);
  const size_t begin = out_.position();
  out_.Emit(Opcode::kReshape, reg, source, -1, 0, dims);
  const size_t to_end = out_.EmitJump();
  out_.Land(to_kernel);
  out_.Emit(Opcode::kAllocTensor, reg, -1, runtime::vm::kOnCpu, PackDType(result->dtype), dims);
  EmitKernel(kernel, operands, 1);
  out_.Land(to_end);
  out_.EndConditional(begin);
  VmValuePtr value = TensorValue(reg, result);
  value->device_type = kDLCPU;
  return value;
}

/// The kernel for one row or one column, where the kernel is worth one and the operands fit with one; its condition
/// isn't defined otherwise.
SizeForm VmFunctionCompiler::FormForOne(const SymbolicKernel& kernel, const OpAttrKey<ops::FFormForOne>& key) {
  const Array<tir::Var> variables = VariablesOfOne(kernel, key);
  const std::vector<PrimExpr> ones(variables.size(), PrimExpr(int64_t{1}));
  SizeForm form;
  for (const tir::Var& var : variables) {
    const PrimExpr value = SubstituteDims(var, kernel.variables, kernel.values);
    if (analyzer_.Bound(value).min > 1) return {};
    const PrimExpr is_one = tir::equal(value, PrimExpr(int64_t{1}));
    form.condition = form.condition.defined() ? tir::And(form.condition, is_one) : is_one;
  }
  if (variables.empty()) return {};
  Array<Type> single;
  for (const relay::Var& param : kernel.func->params)
    single.push_back(WithDims(param->type_annotation, variables, ones));
  auto no_element = [](size_t, int64_t) -> PrimExpr {
    throw InternalError("internal error: the shape of a product depends on values");
  };
  try {
    form.kernel = MakeSymbolicKernel(kernel.func, single, no_element, &analyzer_);
  } catch (const ShapeError&) {
    return {};  // what counts the rows has to be another size as well: the run is checked for that
  }
  return form;
}

/// A kernel, or the first of its forms whose condition holds: for one row, for one column, for equal sizes.
void VmFunctionCompiler::EmitKernel(const SymbolicKernel& kernel, const std::vector<int>& operands, size_t outputs) {
  const std::string nodes = OriginOf(kernel.func);
  const int origin = nodes.empty() ? -1 : program_->String(nodes);
  auto emit = [&](const Function& func) {
    const auto count = static_cast<uint32_t>(operands.size());
    const int index = program_->Kernel(func, count, static_cast<uint32_t>(outputs)).index;
    // The builder wants to know how many operands are objects.
    out_.Emit(Opcode::kKernel, origin, -1, static_cast<int>(count), index, operands);
  };
  std::vector<SizeForm> forms;
  if (!kernel.func->attrs->dict.contains(treadle::attr::kCompiler)) {
    for (const auto& key : {ops::kFormForOneRow, ops::kFormForOneColumn}) {
      if (SizeForm one = FormForOne(kernel, key); one.condition.defined()) forms.push_back(std::move(one));
    }
    if (auto equal = FormForEqualSizes(kernel, &analyzer_)) forms.push_back(std::move(*equal));
  }
  // Before any jump: numbers are computed once, and used by what follows.
  std::vector<int> conditions;
  for (const SizeForm& form : forms) conditions.push_back(EmitInt(form.condition));
  std::vector<size_t> to_end, begins;
  for (size_t i = 0; i < forms.size(); ++i) {
    const size_t to_next = out_.EmitJumpIfZero(conditions[i]);
    begins.push_back(out_.position());
    emit(forms[i].kernel.func);
    to_end.push_back(out_.EmitJump());
    out_.Land(to_next);
  }
  emit(kernel.func);
  for (size_t i = to_end.size(); i-- > 0;) {
    out_.Land(to_end[i]);
    out_.EndConditional(begins[i]);
  }
}

/// Operators on the rows of a tensor, which the machine has instructions for.
VmValuePtr VmFunctionCompiler::CallRows(const CallNode* call, const std::vector<VmValuePtr>& args) {
  bool append = call->op.as<OpNode>()->name == "dyn.append";
  int rows = HostRegister(args[0]), reg = out_.NewRegister();
  if (append) {
    out_.Emit(Opcode::kAppend, reg, rows, HostRegister(args[1]), 0);
    return FromRegister(reg, call->checked_type());
  }
  int count = EmitInt(ElementOf(args[1], 0));
  out_.Emit(Opcode::kTakeRows, reg, rows, count, 0);
  const auto* type = args[0]->type.as<TensorTypeNode>();
  Array<PrimExpr> shape = type->shape;
  shape.Set(0, BindDim(count));
  return TensorValue(reg, TensorType(shape, type->dtype));
}

/// An operator outside a fused function: handled here, or a kernel of its own.
VmValuePtr VmFunctionCompiler::CallOperator(const CallNode* call, const std::vector<VmValuePtr>& args) {
  Op op = Downcast<Op>(call->op);
  const OriginScope origin(this, DescribePlace(call->span));
  if (op->name == "dyn.append" || op->name == "dyn.take_rows") return CallRows(call, args);
  if (op->name == "raise") {
    out_.Emit(Opcode::kFatal, -1, -1, -1, program_->String(call->attrs_as<ops::RaiseAttrs>()->message));
    return FromRegister(out_.NewRegister(), call->checked_type());
  }
  if (op->name == "vm.host_call") {
    std::vector<int> operands;
    for (const VmValuePtr& arg : args) operands.push_back(HostRegister(arg));
    int reg = out_.NewRegister();
    int name = program_->String(call->attrs_as<ops::HostCallAttrs>()->function);
    out_.Emit(Opcode::kCallHost, reg, -1, -1, name, operands);
    return FromRegister(reg, call->checked_type());
  }
  if (op->name == "device_copy" && args.size() == 1) {
    return EmitDeviceCopy(args[0], call->attrs_as<ops::DeviceCopyAttrs>()->dst_dev_type);
  }
  if (op.GetAttr(kNonComputational, false)) {
    if (args.size() == 1) return args[0];
    throw Error(StrCat("the VM can't run operator ", op->name));
  }
  Array<Var> params;
  Array<Expr> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    params.push_back(Var("p" + std::to_string(i), args[i]->type));
    operands.push_back(params.back());
  }
  Map<treadle::String, ObjectRef> attrs;
  attrs.Set(treadle::attr::kPrimitive, IntImm(DataType::Int(32), 1));
  if (op.GetAttr(kReshapeOp, false)) attrs.Set(treadle::attr::kReshapeOnly, IntImm(DataType::Int(32), 1));
  Call inner(call->op, operands, call->attrs, call->type_args, call->span);
  return CallKernel(Function(params, inner, Type(), {}, DictAttrs(attrs), call->span), args);
}

}  // namespace treadle::driver
