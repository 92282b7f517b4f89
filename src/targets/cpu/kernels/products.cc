// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/products.h"

#include <optional>
#include <unordered_map>

#include "targets/cpu/kernels/matmul_plan.h"
#include "targets/cpu/kernels/packing.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"
#include "treadle/schedule/problems.h"
#include "treadle/schedule/stage.h"
#include "treadle/te/stage.h"

namespace treadle::ops::cpu {
namespace {

using schedule::Problem;
using te::ComputeOpNode;
using te::Tensor;
using tir::ProducerLoadNode;

/// A product of two tensors.
struct Product {
  Tensor a, b;
  bool transpose_b = false;
};

bool IsVar(const PrimExpr& e, const tir::Var& var) { return e.same_as(var); }

/// Whether the indices are those of leading axes (batch, or rows), and then `first` and `second`.
bool AreIndices(const ProducerLoadNode* load, const Array<tir::IterVar>& axis, size_t leading, const tir::Var& first,
                const tir::Var& second) {
  if (load->indices.size() != leading + 2) return false;
  for (size_t i = 0; i < leading; ++i) {
    if (!IsVar(load->indices[i], axis[i]->var)) return false;
  }
  return IsVar(load->indices[leading], first) && IsVar(load->indices[leading + 1], second);
}

const tir::ReduceNode* PlainSum(const ComputeOpNode* op) {
  if (op->body.size() != 1 || op->reduce_axis.size() != 1) return nullptr;
  const auto* reduce = op->body[0].as<tir::ReduceNode>();
  if (reduce == nullptr || reduce->source.size() != 1 || !reduce->init.empty()) return nullptr;
  if (reduce->condition.defined() && !tir::is_one(reduce->condition)) return nullptr;
  const tir::CommReducer& combiner = reduce->combiner;
  const auto* sum = combiner->result.size() == 1 ? combiner->result[0].as<tir::AddNode>() : nullptr;
  const auto* zero = combiner->identity_element[0].as<FloatImmNode>();
  return sum != nullptr && zero != nullptr && zero->value == 0 ? reduce : nullptr;
}

std::optional<Product> FindProduct(const ComputeOpNode* op) {
  constexpr int64_t kLeastRows = 8, kLeastColumns = 8, kLeastDepth = 8;
  const tir::ReduceNode* sum = PlainSum(op);
  const size_t rank = op->axis.size();
  if (sum == nullptr || rank < 2 || op->output_dtype(0) != DataType::Float(32)) return std::nullopt;
  const auto* product = sum->source[0].as<tir::MulNode>();
  if (product == nullptr) return std::nullopt;
  const auto* left = product->a.as<ProducerLoadNode>();
  const auto* right = product->b.as<ProducerLoadNode>();
  if (left == nullptr || right == nullptr) return std::nullopt;
  for (const tir::IterVar& axis : op->axis) {
    if (AsConstInt(axis->dom->extent) == nullptr || !tir::is_const_int(axis->dom->min, 0)) return std::nullopt;
  }
  const tir::Var &row = op->axis[rank - 2]->var, &column = op->axis[rank - 1]->var, &k = op->reduce_axis[0]->var;
  const int64_t* steps = AsConstInt(op->reduce_axis[0]->dom->extent);
  if (!tir::is_const_int(op->reduce_axis[0]->dom->min, 0)) return std::nullopt;
  if (steps == nullptr || *steps < kLeastDepth) return std::nullopt;
  if (*AsConstInt(op->axis[rank - 2]->dom->extent) < kLeastRows) return std::nullopt;
  if (*AsConstInt(op->axis[rank - 1]->dom->extent) < kLeastColumns) return std::nullopt;
  for (int swapped = 0; swapped < 2; ++swapped, std::swap(left, right)) {
    if (!AreIndices(left, op->axis, rank - 2, row, k)) continue;
    // The right operand may have no batch: all rows meet the same columns.
    for (size_t batch : {rank - 2, size_t{0}}) {
      const bool plain = AreIndices(right, op->axis, batch, k, column);
      if (!plain && !AreIndices(right, op->axis, batch, column, k)) continue;
      Product found{Downcast<Tensor>(left->producer), Downcast<Tensor>(right->producer), !plain};
      // What is read must be all of it.
      const PrimExpr &depth = op->reduce_axis[0]->dom->extent, &columns = op->axis[rank - 1]->dom->extent;
      const int64_t *has_k = AsConstInt(found.b->shape[batch + (plain ? 0 : 1)]),
                    *has_n = AsConstInt(found.b->shape[batch + (plain ? 1 : 0)]), *wants_k = AsConstInt(depth),
                    *wants_n = AsConstInt(columns);
      const bool whole = has_k && has_n && wants_k && wants_n && *has_k == *wants_k && *has_n == *wants_n;
      const bool floats = found.a->dtype == DataType::Float(32) && found.b->dtype == DataType::Float(32);
      if (whole && floats) return found;
    }
  }
  return std::nullopt;
}

/// Computations with other tensors in the place of some.
class Replacer : public tir::ExprMutator {
 public:
  std::unordered_map<const Object*, te::Operation> operations;
  Tensor Replaced(const Tensor& tensor) const {
    auto it = operations.find(tensor->op.get());
    return it == operations.end() ? tensor : Tensor(tensor->shape, tensor->dtype, it->second, tensor->value_index);
  }
  PrimExpr operator()(const PrimExpr& e) { return VisitExpr(e); }

 private:
  using tir::ExprMutator::VisitExpr_;
  PrimExpr VisitExpr_(const ProducerLoadNode* op) override {
    const PrimExpr visited = ExprMutator::VisitExpr_(op);
    const auto* load = visited.as<ProducerLoadNode>();
    const auto* tensor = load->producer.as<te::TensorNode>();
    if (tensor == nullptr || operations.count(tensor->op.get()) == 0) return visited;
    return tir::ProducerLoad(Replaced(GetRef<Tensor>(tensor)), load->indices);
  }
};

/// The product as the kernel matmul.packed wants it: columns of `b` in panels, which it packs as it goes, and their
/// sum. Indices have the type that they have in `op`: of mixed ones regions aren't narrowed.
te::Operation Packed(const Product& product, const ComputeOpNode* op, const Replacer& replacer) {
  constexpr const char* kKernel = "matmul.packed";
  const Tensor a = replacer.Replaced(product.a), b = replacer.Replaced(product.b);
  const DataType index = op->axis[0]->var.dtype();
  auto number = [index](int64_t value) { return tir::make_const(index, value); };
  const size_t rank = op->axis.size(), batch = b.ndim() - 2;
  const PrimExpr k = op->reduce_axis[0]->dom->extent, n = op->axis[rank - 1]->dom->extent;
  const int64_t columns = *AsConstInt(n), panels = CeilDiv(columns, kPackedColumns);
  Array<PrimExpr> packed_shape(b->shape.begin(), b->shape.begin() + static_cast<std::ptrdiff_t>(batch));
  for (const PrimExpr& dim : {number(panels), k, number(kPackedColumns)}) packed_shape.push_back(dim);
  const Tensor packed = te::ComputeStage(
      packed_shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr unit = i[batch] * number(kPackedColumns) + i[batch + 2];
        Array<PrimExpr> at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch));
        at.push_back(product.transpose_b ? unit : i[batch + 1]);
        at.push_back(product.transpose_b ? i[batch + 1] : unit);
        if (columns % kPackedColumns == 0) return b(at);
        return tir::if_then_else(unit < n, b(at), tir::make_zero(b->dtype));
      },
      "packed_columns", te::StageAttrs(kKernel, "pack_b"));
  const Problem problem = schedule::Make<Problem, schedule::MatmulProblemNode>([&](auto& p) {
    for (size_t i = 0; i + 2 < rank; ++i) p.batch *= *AsConstInt(op->axis[i]->dom->extent);
    p.m = *AsConstInt(op->axis[rank - 2]->dom->extent);
    p.n = columns;
    p.k = *AsConstInt(k);
    p.n_block = kPackedColumns;
    p.packs_b = true;
  });
  const te::IterVar depth = te::ReduceAxis(tir::Range(k), "k");
  Array<PrimExpr> padded = op->output_shape(0);
  padded.Set(rank - 1, number(panels * kPackedColumns));
  const Tensor sum = te::Compute(
      padded,
      [&](const Array<te::Var>& i) {
        Array<PrimExpr> from(i.begin(), i.end()), at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch));
        const PrimExpr unit = from.back();
        from.Set(rank - 1, depth->var);
        at.push_back(tir::floordiv(unit, number(kPackedColumns)));
        at.push_back(depth->var);
        at.push_back(tir::floormod(unit, number(kPackedColumns)));
        return te::Sum(a(from) * packed(at), {depth});
      },
      op->name, "packed_dense", schedule::AnchorAttrs(kKernel, "sum", problem));
  if (columns % kPackedColumns == 0) return sum->op;
  // Columns that only fill the last panel are left behind.
  return te::Compute(
             op->output_shape(0), [&](const Array<te::Var>& i) { return sum(Array<PrimExpr>(i.begin(), i.end())); },
             op->name + "_result", tag::kInjective)
      ->op;
}

}  // namespace

Array<Tensor> WithPackedProducts(const Array<Tensor>& tensors) {
  const Array<te::Operation> order = te::PostOrder(tensors);
  for (const te::Operation& op : order) {
    if (op.as<ComputeOpNode>() == nullptr && op.as<te::PlaceholderOpNode>() == nullptr) return tensors;
  }
  Replacer replacer;
  for (const te::Operation& operation : order) {
    const auto* op = operation.as<ComputeOpNode>();
    if (op == nullptr) continue;
    if (const auto product = FindProduct(op)) {
      replacer.operations[op] = Packed(*product, op, replacer);
      continue;
    }
    if (replacer.operations.empty()) continue;
    Array<PrimExpr> body;
    bool changed = false;
    for (const PrimExpr& e : op->body) {
      body.push_back(replacer(e));
      changed |= !body.back().same_as(e);
    }
    if (!changed) continue;
    replacer.operations[op] = te::MakeComputeOp(op->name, op->tag, op->attrs, op->axis, body);
  }
  Array<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(replacer.Replaced(tensor));
  return result;
}

}  // namespace treadle::ops::cpu
