// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/rules.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/structural.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

Expr Scaled(NodeImport& n, const Expr& x, double factor) {
  if (factor == 1) return x;
  return n.Call("multiply", {x, n.Scalar(TypeOf(x)->dtype, factor)});
}

/// x [.., M, K] times y [K, N] (or [N, K] with `y_transposed`). nn.dense wants the latter; a constant is transposed
/// when compiling.
Expr Dense(NodeImport& n, const ProductRule& rule, const Expr& x, const Expr& y, bool y_transposed) {
  if (y_transposed) return rule("nn.dense", x, y, {});
  if (y.as<relay::ConstantNode>() != nullptr) return rule("nn.dense", x, n.Transpose(y, {1, 0}), {});
  return rule("nn.matmul", x, y, {{"transpose_a", false}, {"transpose_b", false}});
}

ProductRule PlainProduct(NodeImport& n) {
  return
      [&n](const char* op, const Expr& a, const Expr& b, const AttrList& attrs) { return n.Call(op, {a, b}, attrs); };
}

/// alpha * A' * B' + beta * C. Version 1 and 6 broadcast C only when `broadcast` is 1.
Expr ImportGemm(NodeImport& n) {
  if (n.Rank(0) != 2 || n.Rank(1) != 2) n.Invalid("A and B have to be matrices");
  n.Ignore({"broadcast"});
  double alpha = n.Float("alpha", 1.0);
  double beta = n.Float("beta", 1.0);
  Expr a = n.Flag("transA", false) ? n.Transpose(n.In(0), {1, 0}) : n.In(0);
  Expr product = Scaled(n, Dense(n, PlainProduct(n), a, n.In(1), n.Flag("transB", false)), alpha);
  if (!n.Has(2)) return product;
  if (n.Rank(2) > 2) n.Invalid("C has to broadcast to a matrix");
  if (beta == 0) {
    n.IgnoreInput(2);
    return product;
  }
  return n.Call("add", {product, Scaled(n, WithinShape(In(n, 2), Term(n, product), "C"), beta)});
}

std::vector<int64_t> BroadcastBatch(NodeImport& n, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) n.Invalid(StrCat("batch dimensions ", x, " and ", y, " don't broadcast"));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

int64_t Product(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

/// To that shape, in which 0 is a size.
Expr ReshapeTo(NodeImport& n, const Expr& x, const std::vector<int64_t>& shape) {
  return n.Call("reshape", {x}, {{"newshape", shape}, {"allowzero", true}});
}

/// x with its batch dimensions broadcast to `batch` and made one: [B, rows, columns].
Expr ToBatches(NodeImport& n, Expr x, const std::vector<int64_t>& batch) {
  std::vector<int64_t> shape = n.StaticShapeOf(x);
  std::vector<int64_t> target = batch;
  target.insert(target.end(), shape.end() - 2, shape.end());
  if (shape != target) x = n.Call("broadcast_to", {x}, {{"shape", target}});
  if (batch.size() == 1) return x;
  return ReshapeTo(n, x, {Product(batch), shape[shape.size() - 2], shape.back()});
}

/// A dimension as an attribute repeats it: -1 where it isn't known.
PrimExpr Hint(const PrimExpr& dim) { return IsAnyDim(dim) ? PrimExpr(int64_t{-1}) : dim; }

/// a [.., M, K] times b [K, N], of shapes that aren't known when compiling. All of b is read for the rows of each
/// batch: where those are few, or those of images, the rows of all batches are those of one matrix.
Expr RowsByMatrix(NodeImport& n, const Expr& a, const Expr& b, const ProductRule& rule) {
  constexpr int64_t kFewRows = 128;
  const Array<PrimExpr>& dims = TypeOf(a)->shape;
  const size_t rank = dims.size();
  std::vector<int64_t> shape;  // -1: unknown
  for (const PrimExpr& dim : dims) shape.push_back(AsConstInt(dim) == nullptr ? -1 : *AsConstInt(dim));
  const int64_t *columns = AsConstInt(TypeOf(b)->shape[1]), rows = shape[rank - 2], k = shape.back();
  const auto unknown = std::count(shape.begin(), shape.end(), -1);
  const bool empty = columns == nullptr || *columns == 0 || k < 1 || std::count(shape.begin(), shape.end(), 0) > 0;
  const bool one_batch = std::all_of(shape.begin(), shape.end() - 2, [](int64_t size) { return size == 1; });
  if (empty || one_batch || (rows < 0 ? rank < 4 : rows >= kFewRows)) return Dense(n, rule, a, b, false);
  const Expr product = Dense(n, rule, n.Reshape(a, {-1, k}), b, false);
  shape.back() = *columns;
  if (unknown == 1) return n.Reshape(product, shape);
  Array<Expr> sizes;
  Array<PrimExpr> hints;
  for (size_t d = 0; d + 1 < rank; ++d) {
    sizes.push_back(n.Reshape(DimOf(n, a, static_cast<int>(d)), {1}));
    hints.push_back(Hint(dims[d]));
  }
  sizes.push_back(n.Const(ArrayOf(std::vector<int64_t>{*columns}, {1}, DataType::Int(64))));
  hints.push_back(PrimExpr(*columns));
  return n.Call("dyn.reshape", {product, n.Concat(sizes, 0)}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
}

/// Whether two dimensions that only a run knows are known to be the same.
bool SameSize(const PrimExpr& a, const PrimExpr& b) {
  return !IsAnyDim(a) && !IsAnyDim(b) && (StructuralEqual(a, b) || arith::Analyzer().CanProveEqual(a, b));
}

/// As MatMul, of shapes that aren't known when compiling. Of batch dimensions that neither operand knows, and that may
/// differ, one may turn out to be 1: both operands are broadcast, which moves them once more.
Expr DynamicMatMul(NodeImport& n, Expr a, Expr b, const ProductRule& rule) {
  if (RankOf(b) == 2) return RowsByMatrix(n, a, b, rule);
  const int rank = std::max(RankOf(a), RankOf(b));
  if (RankOf(a) < rank) a = n.ExpandDims(a, 0, rank - RankOf(a));
  if (RankOf(b) < rank) b = n.ExpandDims(b, 0, rank - RankOf(b));
  auto dim = [](const Expr& x, int i) { return AsConstInt(TypeOf(x)->shape[static_cast<size_t>(i)]); };
  Array<Expr> sizes;
  Array<PrimExpr> hints;
  bool expand_a = false, expand_b = false;
  for (int i = 0; i + 2 < rank; ++i) {
    const int64_t* x = dim(a, i);
    const int64_t* y = dim(b, i);
    if (x != nullptr && y != nullptr && *x != *y && *x != 1 && *y != 1) {
      n.Invalid(StrCat("batch dimensions ", *x, " and ", *y, " don't broadcast"));
    }
    const PrimExpr of_x = TypeOf(a)->shape[static_cast<size_t>(i)], of_y = TypeOf(b)->shape[static_cast<size_t>(i)];
    if (x == nullptr && y == nullptr && !SameSize(of_x, of_y)) {
      expand_a = expand_b = true;
      Expr rows = DimOf(n, a, i), one = n.Const(ArrayOf(std::vector<int64_t>{1}, {}, DataType::Int(64)));
      Expr size = n.Call("where", {n.Call("equal", {rows, one}), DimOf(n, b, i), rows});
      sizes.push_back(n.Reshape(size, {1}));
      hints.push_back(PrimExpr(int64_t{-1}));
      continue;
    }
    // A size that only the run knows beside one that is known, and isn't 1, is that one or 1.
    const bool of_b = x == nullptr ? y != nullptr && *y != 1 : *x == 1;
    expand_a = expand_a || (of_b && !(x != nullptr && y != nullptr && *y == 1));
    expand_b = expand_b || (!of_b && (x == nullptr || y == nullptr || *y == 1) && !(x == nullptr && y == nullptr));
    sizes.push_back(n.Reshape(DimOf(n, of_b ? b : a, i), {1}));
    hints.push_back(Hint(of_b ? of_y : of_x));
  }
  auto shape_with = [&](const Expr& rows, int row_axis, const Expr& columns, int column_axis) {
    Array<Expr> all = sizes;
    all.push_back(n.Reshape(DimOf(n, rows, row_axis), {1}));
    all.push_back(n.Reshape(DimOf(n, columns, column_axis), {1}));
    return n.Concat(all, 0);
  };
  auto hints_with = [&](const Expr& rows, int row_axis, const Expr& columns, int column_axis) {
    Array<PrimExpr> all = hints;
    all.push_back(Hint(TypeOf(rows)->shape[static_cast<size_t>(row_axis)]));
    all.push_back(Hint(TypeOf(columns)->shape[static_cast<size_t>(column_axis)]));
    return ObjectRef(all);
  };
  auto prepare = [&](Expr x, bool expand) {
    if (expand) {
      x = n.Call("dyn.broadcast_to", {x, shape_with(x, rank - 2, x, rank - 1)},
                 {{"shape", hints_with(x, rank - 2, x, rank - 1)}, {"dtype", TypeOf(x)->dtype}});
    }
    if (expand_a && expand_b) {  // one expression for the batch of both: it is seen to be the same
      Expr batch = sizes[0];
      for (size_t i = 1; i < sizes.size(); ++i) batch = n.Call("multiply", {batch, sizes[i]});
      Expr rows = n.Reshape(DimOf(n, x, rank - 2), {1}), columns = n.Reshape(DimOf(n, x, rank - 1), {1});
      Array<PrimExpr> known{PrimExpr(int64_t{-1})};
      for (int d : {rank - 2, rank - 1}) known.push_back(Hint(TypeOf(x)->shape[static_cast<size_t>(d)]));
      return n.Call("dyn.reshape", {x, n.Concat({batch, rows, columns}, 0)},
                    {{"newshape", ObjectRef(known)}, {"allowzero", true}});
    }
    for (int i = rank; i > 3; --i) x = n.Reshape(x, {-3, -2});
    return x;
  };
  Expr product = rule("nn.batch_matmul", prepare(a, expand_a), prepare(b, expand_b),
                      {{"transpose_a", false}, {"transpose_b", false}});
  if (rank == 3) return product;
  // A batch of which one of two dimensions is known is divided without computing its shape.
  if (rank == 4 && !expand_a && !expand_b) {
    const int64_t *first = dim(a, 0), *second = dim(a, 1);
    if (second != nullptr && *second > 0) return n.Reshape(product, {-4, -1, *second, -2});
    if (first != nullptr && *first > 0) return n.Reshape(product, {-4, *first, -1, -2});
  }
  return n.Call("dyn.reshape", {product, shape_with(a, rank - 2, b, rank - 1)},
                {{"newshape", hints_with(a, rank - 2, b, rank - 1)}, {"allowzero", true}});
}

/// NumPy's matmul of operands of rank 2 and more.
Expr MatMul(NodeImport& n, const Expr& a, const Expr& b, const ProductRule& rule) {
  int rank_a = RankOf(a);
  int rank_b = RankOf(b);
  if (rank_a == 2 && rank_b == 2) return Dense(n, rule, a, b, false);
  if (!IsStatic(TypeOf(a)) || !IsStatic(TypeOf(b))) return DynamicMatMul(n, a, b, rule);
  int64_t k = n.StaticDim(b, rank_b - 2);
  if (n.StaticDim(a, rank_a - 1) != k) {
    n.Invalid(StrCat("inner dimensions ", n.StaticDim(a, rank_a - 1), " and ", k, " differ"));
  }
  if (rank_b == 2) {
    // What follows the product fuses with it where no reshape stands between.
    bool one_batch = true;
    for (int i = 0; i < rank_a - 2; ++i) {
      const int64_t* dim = AsConstInt(TypeOf(a)->shape[static_cast<size_t>(i)]);
      one_batch &= dim != nullptr && *dim == 1;
    }
    if (one_batch) return Dense(n, rule, a, b, false);
    // Rows of all batches are rows of one matrix.
    std::vector<int64_t> shape = n.StaticShapeOf(a);
    shape.pop_back();
    Expr rows = ReshapeTo(n, a, {Product(shape), k});
    shape.push_back(n.StaticDim(b, 1));
    return ReshapeTo(n, Dense(n, rule, rows, b, false), shape);
  }
  if (rank_a == 3 && rank_b == 3) {
    const int64_t* x = AsConstInt(TypeOf(a)->shape[0]);
    const int64_t* y = AsConstInt(TypeOf(b)->shape[0]);
    bool same = x != nullptr && y != nullptr ? *x == *y : TypeOf(a)->shape[0].same_as(TypeOf(b)->shape[0]);
    if (same) return rule("nn.batch_matmul", a, b, {{"transpose_a", false}, {"transpose_b", false}});
  }
  std::vector<int64_t> shape_a = n.StaticShapeOf(a);
  std::vector<int64_t> shape_b = n.StaticShapeOf(b);
  std::vector<int64_t> batch =
      BroadcastBatch(n, {shape_a.begin(), shape_a.end() - 2}, {shape_b.begin(), shape_b.end() - 2});
  Expr product = rule("nn.batch_matmul", ToBatches(n, a, batch), ToBatches(n, b, batch),
                      {{"transpose_a", false}, {"transpose_b", false}});
  if (batch.size() == 1) return product;
  batch.push_back(shape_a[shape_a.size() - 2]);
  batch.push_back(shape_b.back());
  return ReshapeTo(n, product, batch);
}

Expr ImportMatMul(NodeImport& n) { return MatMulAnyRank(n, n.In(0), n.In(1)); }

}  // namespace

Expr MatMulAnyRank(NodeImport& n, Expr a, Expr b) {
  return MatMulAnyRank(n, std::move(a), std::move(b), PlainProduct(n));
}

Expr MatMulAnyRank(NodeImport& n, Expr a, Expr b, const ProductRule& rule) {
  int rank_a = RankOf(a);
  int rank_b = RankOf(b);
  if (rank_a == 0 || rank_b == 0) n.Invalid("the operands can't be scalars");
  if (rank_a == 1) a = n.ExpandDims(a, 0);
  if (rank_b == 1) b = n.ExpandDims(b, 1);
  Expr product = MatMul(n, a, b, rule);
  if (rank_b == 1) product = n.Squeeze(product, {RankOf(product) - 1});
  if (rank_a == 1) product = n.Squeeze(product, {RankOf(product) - (rank_b == 1 ? 1 : 2)});
  return product;
}

void RegisterMatrixRules(RuleTable& table) {
  table.Add1("Gemm", {1, 6, 7, 9, 11, 13}, ImportGemm);
  table.Add1("MatMul", {1, 9, 13}, ImportMatMul);
}

}  // namespace treadle::onnx
