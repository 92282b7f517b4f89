// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/tensor.h"

#include <unordered_set>
#include <utility>

#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/scan.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::te {

TREADLE_DEFINE_NODE(OperationNode);
TREADLE_DEFINE_NODE(TensorNode);
TREADLE_DEFINE_NODE(PlaceholderOpNode);
TREADLE_DEFINE_NODE(ComputeOpNode);
TREADLE_DEFINE_NODE(ExternOpNode);

using tir::Buffer;
using tir::ProducerLoadNode;
using tir::ReduceNode;

Tensor::Tensor(Array<PrimExpr> shape, DataType dtype, Operation op, int value_index) {
  auto node = MakeObject<TensorNode>();
  node->shape = std::move(shape);
  node->dtype = dtype;
  node->op = std::move(op);
  node->value_index = value_index;
  data_ = std::move(node);
}

std::string TensorNode::GetNameHint() const {
  return op->num_outputs() == 1 ? op->name : StrCat(op->name, ".v", value_index);
}

PrimExpr Tensor::operator()(const Array<PrimExpr>& indices) const {
  if (indices.size() != ndim()) {
    throw ShapeError(StrCat("tensor ", get()->GetNameHint(), " has ", ndim(), " dimensions but is indexed with ",
                            indices.size(), " indices"));
  }
  Array<PrimExpr> stripped = indices.Map([&](const PrimExpr& index) -> PrimExpr {
    if (!index.dtype().is_integral()) {
      throw DTypeError(
          StrCat("index of tensor ", get()->GetNameHint(), " has dtype ", index.dtype(), "; an integer is needed"));
    }
    if (const auto* axis = index.as<tir::IterVarNode>()) return axis->var;
    return index;
  });
  return tir::ProducerLoad(*this, stripped);
}

Array<PrimExpr> ComputeOpNode::output_shape(int) const {
  Array<PrimExpr> shape;
  for (const IterVar& iv : axis) shape.push_back(iv->dom->extent);
  return shape;
}

Tensor Placeholder(Array<PrimExpr> shape, DataType dtype, std::string name) {
  auto op = MakeObject<PlaceholderOpNode>();
  op->name = std::move(name);
  op->shape = shape;
  op->dtype = dtype;
  return Tensor(std::move(shape), dtype, Operation(ObjectPtr<Object>(op)), 0);
}

namespace {

/// Reductions belong at the top of a body: this finds those that stand inside.
class NestedReduceCheck : public tir::ExprVisitor {
 public:
  explicit NestedReduceCheck(const std::string& name) : name_(name) {}

 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (visited_.insert(e.get()).second) ExprVisitor::VisitExpr(e);
  }
  void VisitExpr_(const ReduceNode*) override {
    throw Error(StrCat("compute ", name_,
                       ": a reduction may only stand at the top of the body; compute it as a "
                       "tensor of its own and use that tensor here"));
  }

 private:
  const std::string& name_;
  std::unordered_set<const Object*> visited_;
};

void CheckBodies(const std::string& name, const Array<PrimExpr>& body) {
  if (body.empty()) throw Error(StrCat("compute ", name, " has no body"));
  const auto* first = body[0].as<ReduceNode>();
  for (size_t i = 0; i < body.size(); ++i) {
    const auto* reduce = body[i].as<ReduceNode>();
    if ((reduce != nullptr) != (first != nullptr)) {
      throw Error(StrCat("compute ", name, ": either all outputs are reductions or none is"));
    }
    NestedReduceCheck check(name);
    if (reduce == nullptr) {
      check(body[i]);
      continue;
    }
    for (const PrimExpr& source : reduce->source) check(source);
    if (reduce->source.size() != body.size() || reduce->value_index != static_cast<int>(i) ||
        !reduce->combiner.same_as(first->combiner) || reduce->axis.size() != first->axis.size()) {
      throw Error(StrCat("compute ", name, ": outputs must be the values 0, 1, .. of one reduction"));
    }
  }
}

}  // namespace

Operation MakeComputeOp(std::string name, std::string tag, Map<String, ObjectRef> attrs, Array<IterVar> axis,
                        Array<PrimExpr> body) {
  auto op = MakeObject<ComputeOpNode>();
  op->name = std::move(name);
  op->tag = std::move(tag);
  op->attrs = std::move(attrs);
  op->axis = std::move(axis);
  op->body = body.Map([](const PrimExpr& e) -> PrimExpr {
    if (const auto* iv = e.as<tir::IterVarNode>()) return iv->var;
    return e;
  });
  CheckBodies(op->name, op->body);
  if (const auto* reduce = op->body[0].as<ReduceNode>()) op->reduce_axis = reduce->axis;
  return Operation(ObjectPtr<Object>(op));
}

Array<Tensor> BatchCompute(Array<PrimExpr> shape, const FBatchCompute& fcompute, std::string name, std::string tag,
                           Map<String, ObjectRef> attrs, const std::vector<std::string>& axis_names) {
  Array<IterVar> axis;
  Array<Var> vars;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].dtype().is_integral()) {
      throw DTypeError(StrCat("dimension ", i, " of compute ", name, " has dtype ", shape[i].dtype()));
    }
    Var var(i < axis_names.size() ? axis_names[i] : StrCat("i", i), shape[i].dtype());
    axis.push_back(IterVar(Range(shape[i]), var, tir::IterVarType::kDataPar));
    vars.push_back(var);
  }
  Operation op = MakeComputeOp(std::move(name), std::move(tag), std::move(attrs), axis, fcompute(vars));
  Array<Tensor> outputs;
  for (int i = 0; i < op->num_outputs(); ++i) outputs.push_back(Tensor(shape, op->output_dtype(i), op, i));
  return outputs;
}

Tensor Compute(Array<PrimExpr> shape, const FCompute& fcompute, std::string name, std::string tag,
               Map<String, ObjectRef> attrs, const std::vector<std::string>& axis_names) {
  auto batch = [&](const Array<Var>& vars) { return Array<PrimExpr>{fcompute(vars)}; };
  return BatchCompute(std::move(shape), batch, std::move(name), std::move(tag), std::move(attrs), axis_names)[0];
}

Array<Tensor> Extern(const std::vector<Array<PrimExpr>>& out_shapes, const std::vector<DataType>& out_dtypes,
                     const Array<Tensor>& inputs, const FExtern& fextern, std::string name, std::string tag,
                     Map<String, ObjectRef> attrs) {
  if (out_shapes.size() != out_dtypes.size() || out_shapes.empty()) {
    throw Error(StrCat("extern ", name, ": ", out_shapes.size(), " shapes for ", out_dtypes.size(), " dtypes"));
  }
  auto op = MakeObject<ExternOpNode>();
  op->name = std::move(name);
  op->tag = std::move(tag);
  op->attrs = std::move(attrs);
  op->inputs = inputs;
  for (const Tensor& input : inputs) {
    op->input_placeholders.push_back(tir::DeclBuffer(input->shape, input->dtype, input->GetNameHint()));
  }
  for (size_t i = 0; i < out_shapes.size(); ++i) {
    std::string buffer_name = out_shapes.size() == 1 ? op->name : StrCat(op->name, ".v", i);
    op->output_placeholders.push_back(tir::DeclBuffer(out_shapes[i], out_dtypes[i], buffer_name));
  }
  op->body = fextern(op->input_placeholders, op->output_placeholders);
  Array<Tensor> outputs;
  Operation operation{ObjectPtr<Object>(op)};
  for (int i = 0; i < op->num_outputs(); ++i) {
    outputs.push_back(Tensor(out_shapes[i], out_dtypes[i], operation, i));
  }
  return outputs;
}

namespace {

class ProducerCollector : public tir::ExprVisitor {
 public:
  Array<Tensor> tensors;

 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (visited_.insert(e.get()).second) ExprVisitor::VisitExpr(e);
  }
  void VisitExpr_(const ProducerLoadNode* op) override {
    Tensor tensor = Downcast<Tensor>(op->producer);
    bool known = false;
    for (const Tensor& t : tensors) known |= t == tensor;
    if (!known) tensors.push_back(tensor);
    ExprVisitor::VisitExpr_(op);
  }

 private:
  std::unordered_set<const Object*> visited_;
};

}  // namespace

Array<Tensor> InputTensors(const Operation& op) {
  if (const auto* external = op.as<ExternOpNode>()) return external->inputs;
  if (const auto* scan = op.as<ScanOpNode>()) {
    Array<Tensor> tensors = scan->init;
    for (const Tensor& update : scan->update) tensors.push_back(update);
    return tensors;
  }
  const auto* compute = op.as<ComputeOpNode>();
  if (compute == nullptr) return {};
  ProducerCollector collector;
  for (const PrimExpr& body : compute->body) collector(body);
  return collector.tensors;
}

Array<Operation> PostOrder(const Array<Tensor>& outputs) {
  Array<Operation> order;
  std::unordered_set<const Object*> seen;
  struct Frame {
    Operation op;
    Array<Tensor> inputs;
    size_t next = 0;
  };
  std::vector<Frame> stack;
  auto push = [&](const Operation& op) {
    if (seen.insert(op.get()).second) stack.push_back({op, InputTensors(op)});
  };
  for (const Tensor& output : outputs) {
    push(output->op);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.inputs.size()) {
        Operation input = top.inputs[top.next++]->op;
        push(input);
      } else {
        order.push_back(top.op);
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace treadle::te
