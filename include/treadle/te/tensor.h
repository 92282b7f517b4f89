// SPDX-License-Identifier: Apache-2.0
// Tensor expressions: what to compute, without how.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/ir/prim_expr.h"
#include "treadle/tir/function.h"

namespace treadle::te {

using tir::IterVar;
using tir::Range;
using tir::Var;

class Operation;

/// What produces tensors.
class OperationNode : public Object {
 public:
  std::string name;
  std::string tag;
  Map<String, ObjectRef> attrs;
  virtual int num_outputs() const = 0;
  virtual DataType output_dtype(int i) const = 0;
  virtual Array<PrimExpr> output_shape(int i) const = 0;
  TREADLE_DECLARE_NODE(OperationNode, Object, "te.Operation");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &OperationNode::name);
    r.Field("tag", &OperationNode::tag);
    r.Field("attrs", &OperationNode::attrs);
  }
};
class Operation : public ObjectRef {
 public:
  TREADLE_BASE_REF(Operation, ObjectRef, OperationNode);
};

/// One output of an operation.
class TensorNode : public tir::DataProducerNode {
 public:
  Array<PrimExpr> shape;
  DataType dtype;
  Operation op;
  int value_index = 0;
  Array<PrimExpr> GetShape() const override { return shape; }
  DataType GetDataType() const override { return dtype; }
  std::string GetNameHint() const override;
  TREADLE_DECLARE_NODE(TensorNode, tir::DataProducerNode, "te.Tensor");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("shape", &TensorNode::shape);
    r.Field("dtype", &TensorNode::dtype);
    r.Field("op", &TensorNode::op);
    r.Field("value_index", &TensorNode::value_index);
  }
};
class Tensor : public tir::DataProducer {
 public:
  Tensor(Array<PrimExpr> shape, DataType dtype, Operation op, int value_index);
  TREADLE_REF(Tensor, tir::DataProducer, TensorNode);
  /// The element at `indices`. Throws ShapeError unless there is one per dimension.
  PrimExpr operator()(const Array<PrimExpr>& indices) const;
  template <typename... Indices>
  PrimExpr operator()(const PrimExpr& first, const Indices&... rest) const {
    return (*this)(Array<PrimExpr>{first, PrimExpr(rest)...});
  }
  size_t ndim() const { return get()->shape.size(); }
  /// Same output of the same operation.
  bool operator==(const Tensor& other) const {
    return get()->op.same_as(other->op) && get()->value_index == other->value_index;
  }
};

class PlaceholderOpNode : public OperationNode {
 public:
  Array<PrimExpr> shape;
  DataType dtype;
  int num_outputs() const override { return 1; }
  DataType output_dtype(int) const override { return dtype; }
  Array<PrimExpr> output_shape(int) const override { return shape; }
  TREADLE_DECLARE_NODE(PlaceholderOpNode, OperationNode, "te.PlaceholderOp");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("shape", &PlaceholderOpNode::shape);
    r.Field("dtype", &PlaceholderOpNode::dtype);
  }
};

/// Each output element computed by an expression of the axes. With several outputs, all bodies are Reduce nodes of
/// one reduction (value_index 0, 1, ..), or none is.
class ComputeOpNode : public OperationNode {
 public:
  Array<IterVar> axis;  ///< data-parallel
  Array<IterVar> reduce_axis;
  Array<PrimExpr> body;
  int num_outputs() const override { return static_cast<int>(body.size()); }
  DataType output_dtype(int i) const override { return body[i].dtype(); }
  Array<PrimExpr> output_shape(int) const override;
  TREADLE_DECLARE_NODE(ComputeOpNode, OperationNode, "te.ComputeOp");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ComputeOpNode::axis).Defines();
    r.Field("reduce_axis", &ComputeOpNode::reduce_axis).Defines();
    r.Field("body", &ComputeOpNode::body);
  }
};

/// Computation given as a TIR statement over buffers: for what index expressions can't say (sort, scan, NMS).
class ExternOpNode : public OperationNode {
 public:
  Array<Tensor> inputs;
  Array<tir::Buffer> input_placeholders;
  Array<tir::Buffer> output_placeholders;
  tir::Stmt body;
  int num_outputs() const override { return static_cast<int>(output_placeholders.size()); }
  DataType output_dtype(int i) const override { return output_placeholders[i]->dtype; }
  Array<PrimExpr> output_shape(int i) const override { return output_placeholders[i]->shape; }
  TREADLE_DECLARE_NODE(ExternOpNode, OperationNode, "te.ExternOp");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("inputs", &ExternOpNode::inputs);
    r.Field("input_placeholders", &ExternOpNode::input_placeholders).Defines();
    r.Field("output_placeholders", &ExternOpNode::output_placeholders).Defines();
    r.Field("body", &ExternOpNode::body);
  }
};

Tensor Placeholder(Array<PrimExpr> shape, DataType dtype = DataType::Float(32), std::string name = "placeholder");

using FCompute = std::function<PrimExpr(const Array<Var>& indices)>;
using FBatchCompute = std::function<Array<PrimExpr>(const Array<Var>& indices)>;
/// Axes are named i0, i1, .. unless `axis_names` gives names.
Tensor Compute(Array<PrimExpr> shape, const FCompute& fcompute, std::string name = "compute", std::string tag = "",
               Map<String, ObjectRef> attrs = {}, const std::vector<std::string>& axis_names = {});
/// Several outputs `name.v0`, `name.v1`, ..
Array<Tensor> BatchCompute(Array<PrimExpr> shape, const FBatchCompute& fcompute, std::string name = "compute",
                           std::string tag = "", Map<String, ObjectRef> attrs = {},
                           const std::vector<std::string>& axis_names = {});

/// An operation from axes and bodies made beforehand (as Python does): checked like those of Compute.
Operation MakeComputeOp(std::string name, std::string tag, Map<String, ObjectRef> attrs, Array<IterVar> axis,
                        Array<PrimExpr> body);

/// `fextern` writes the statement, given input and output buffers.
using FExtern = std::function<tir::Stmt(const Array<tir::Buffer>& inputs, const Array<tir::Buffer>& outputs)>;
Array<Tensor> Extern(const std::vector<Array<PrimExpr>>& out_shapes, const std::vector<DataType>& out_dtypes,
                     const Array<Tensor>& inputs, const FExtern& fextern, std::string name = "extern",
                     std::string tag = "", Map<String, ObjectRef> attrs = {});

IterVar ReduceAxis(Range dom, std::string name = "rv");
PrimExpr Sum(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init = {});
PrimExpr Prod(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init = {});
PrimExpr MaxReduce(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init = {});
PrimExpr MinReduce(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init = {});
/// A reduction of one or more sources by a combiner. Returns one Reduce per source, for BatchCompute (or Compute, if
/// there is one). `condition` may be null: elements where it is false are skipped.
Array<PrimExpr> CommReduce(const tir::CommReducer& combiner, Array<PrimExpr> sources, Array<IterVar> axis,
                           PrimExpr condition = PrimExpr(ObjectPtr<Object>()), Array<PrimExpr> init = {});
/// Combiner of (index, value) pairs that keeps the pair with the greatest (least) value; of equal values the one with
/// the lower index, or the higher if `select_last_index`.
tir::CommReducer ArgMaxReducer(DataType index_dtype, DataType value_dtype, bool select_last_index = false);
tir::CommReducer ArgMinReducer(DataType index_dtype, DataType value_dtype, bool select_last_index = false);

/// Operations that `outputs` need, inputs first.
Array<Operation> PostOrder(const Array<Tensor>& outputs);
/// Tensors that the operation reads, in order of first use.
Array<Tensor> InputTensors(const Operation& op);

/// A schedulable function (one block per operation) whose parameters are `args` (placeholders and outputs).
tir::PrimFunc CreatePrimFunc(const Array<Tensor>& args, const std::string& name = "main");

}  // namespace treadle::te
