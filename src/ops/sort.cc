// SPDX-License-Identifier: Apache-2.0
// Sorting. Semantics: NumPy; ONNX TopK-11. Sorting is stable; NaN sorts as the greatest.
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/heap.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ArgsortAttrs);
TREADLE_DEFINE_NODE(TopKAttrs);

namespace {

Type SortInfer(const InferContext& context) {
  NormalizeAxis(context.attrs<ArgsortAttrs>()->axis, context.Tensor(0, "data")->shape.size());
  return context.type(0);
}

Type ArgsortInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ArgsortAttrs>();
  NormalizeAxis(attrs->axis, data->shape.size());
  return TensorType(data->shape, attrs->dtype);
}

Type TopKInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<TopKAttrs>();
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, data->shape.size()));
  Array<PrimExpr> out = data->shape;
  if (!attrs->k.has_value()) {
    out.Set(axis, AnyDim());
  } else if (*attrs->k >= 1) {
    if (AsConstInt(out[axis]) != nullptr && *attrs->k > DimValue(out[axis])) {
      throw ShapeError(StrCat("k ", *attrs->k, " exceeds dimension ", axis, " of ", TypeText(data)));
    }
    RequireAtLeast(context, out[axis], Dim(*attrs->k));
    out.Set(axis, Dim(*attrs->k));
  }
  TensorType values(out, data->dtype);
  TensorType indices(out, attrs->dtype);
  if (attrs->ret_type == "both") return TupleType(Array<Type>{values, indices});
  if (attrs->ret_type == "values") return values;
  if (attrs->ret_type == "indices") return indices;
  throw ShapeError(StrCat("ret_type must be both, values or indices, not \"", attrs->ret_type, "\""));
}

/// Whether key a comes before key b; equal keys keep their order.
PrimExpr Before(const PrimExpr& a, const PrimExpr& b, const PrimExpr& a_index, const PrimExpr& b_index, bool ascend) {
  const PrimExpr& low = ascend ? a : b;
  const PrimExpr& high = ascend ? b : a;
  PrimExpr less = low < high;
  PrimExpr equal = tir::equal(a, b);
  if (a.dtype().is_floating()) {
    less = less || (tir::isnan(high) && !tir::isnan(low));
    equal = equal || (tir::isnan(a) && tir::isnan(b));
  }
  return less || (equal && a_index < b_index);
}

const DataType kInt64 = DataType::Int(64);
constexpr int64_t kIndices = int64_t{1} << 32;

/// Elements along an axis, of which the first are chosen.
struct Keys {
  PrimExpr count;  ///< along the axis
  DataType dtype;
  bool ascend;

  /// Whether a key and its index are one number: the greater the earlier, so that comparing is one instruction and
  /// reads no key.
  bool packed() const { return dtype.bits() <= 32; }
  DataType entry() const {
    const bool small = DimValue(count) >= 0 && DimValue(count) <= INT32_MAX;
    return packed() || !small ? kInt64 : DataType::Int(32);
  }
  PrimExpr Entry(const PrimExpr& key, const PrimExpr& index) const {
    if (!packed()) return tir::cast(entry(), index);
    PrimExpr order = Ordered(key);
    if (ascend) order = tir::make_const(kInt64, -1) - order;
    return order * tir::make_const(kInt64, kIndices) + (tir::make_const(kInt64, kIndices - 1) - index);
  }
  PrimExpr IndexOf(const PrimExpr& value) const {
    if (!packed()) return value;
    const PrimExpr last = tir::make_const(kInt64, kIndices - 1);
    return last - tir::bitwise_and(value, last);
  }

 private:
  /// An int64 within 32 bits of the order of keys: NaN is the greatest, 0 and -0 are the same.
  static PrimExpr Ordered(const PrimExpr& key) {
    if (!key.dtype().is_floating()) return tir::cast(kInt64, key) - (key.dtype().is_uint() ? int64_t{1} << 31 : 0);
    const DataType word = DataType::Int(32), real = DataType::Float(32);
    const PrimExpr x = tir::cast(real, key), zero = tir::make_zero(real);
    const PrimExpr bits = tir::reinterpret(word, tir::select(tir::equal(x, zero), zero, x));
    return tir::cast(kInt64, tir::select(tir::isnan(x), tir::make_const(word, INT32_MAX), OrderOfBits(bits)));
  }
};

/// Entries (Keys) of the first `count` elements of `x` along `axis`, in order: a heap of as many keeps the best so far
/// (heapsort where all are wanted).
Tensor FirstEntries(const Tensor& x, size_t axis, const Keys& keys, const PrimExpr& count) {
  PrimExpr n = x->shape[axis];
  Array<PrimExpr> rows = x->shape, shape = x->shape, cursors = x->shape;
  rows.erase(axis);
  shape.Set(axis, count);
  cursors.Set(axis, Index(1));
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    tir::Stmt sort = LoopNest(
        rows, "row",
        [&](const Array<PrimExpr>& row) -> tir::Stmt {
          auto at = [&](const PrimExpr& i) {
            Array<PrimExpr> index = row;
            index.insert(axis, i);
            return index;
          };
          auto key = [&](const PrimExpr& i) { return Load(in[0], at(tir::cast(kInt64, i))); };
          // The root comes last of those chosen.
          const Heap heap{[&](const PrimExpr& place) { return Load(out[0], at(place)); },
                          [&](const PrimExpr& value, const PrimExpr& place) { return Store(out[0], value, at(place)); },
                          [&](const PrimExpr& a, const PrimExpr& b) {
                            return keys.packed() ? a < b : Before(key(b), key(a), b, a, keys.ascend);
                          },
                          out[1], at(Index(0))};
          tir::Stmt init = Loop(count, "i", [&](const PrimExpr& i) { return heap.set(keys.Entry(key(i), i), i); });
          // Few elements enter: most aren't better than the root's key, which is at hand.
          const tir::Buffer limit = tir::DeclBuffer({Index(1)}, x->dtype, "limit", "local");
          const PrimExpr worst = Load(limit, {Index(0)});
          const tir::Stmt note = Store(limit, key(keys.IndexOf(heap.element(Index(0)))), {Index(0)});
          tir::Stmt choose = Loop(tir::max(n - count, Index(0)), "i", [&](const PrimExpr& i) -> tir::Stmt {
            const PrimExpr index = i + count, beyond = keys.ascend ? key(index) >= worst : key(index) <= worst;
            return tir::IfThenElse(
                !beyond, LetIn("own", keys.Entry(key(index), index), [&](const PrimExpr& own) -> tir::Stmt {
                  tir::Stmt enter =
                      tir::SeqStmt(Array<tir::Stmt>{heap.set(own, Index(0)), heap.Sink(Index(0), count), note});
                  return LetIn("root", heap.element(Index(0)), [&](const PrimExpr& root) -> tir::Stmt {
                    return tir::IfThenElse(heap.above(root, own), enter);
                  });
                }));
          });
          choose = tir::Allocate(limit, tir::SeqStmt(Array<tir::Stmt>{note, choose}));
          tir::Stmt order = Loop(count, "i", [&](const PrimExpr& i) -> tir::Stmt {
            PrimExpr end = count - 1 - i;
            return LetIn("root", heap.element(Index(0)), [&](const PrimExpr& root) -> tir::Stmt {
              return LetIn("last", heap.element(end), [&](const PrimExpr& last) -> tir::Stmt {
                return tir::SeqStmt(
                    Array<tir::Stmt>{heap.set(last, Index(0)), heap.set(root, end), heap.Sink(Index(0), end)});
              });
            });
          });
          // Without elements to choose there is no root.
          tir::Stmt all = tir::SeqStmt(Array<tir::Stmt>{init, heap.Build(count), choose, order});
          return AsConstInt(count) != nullptr && DimValue(count) > 0 ? all : tir::IfThenElse(count > Index(0), all);
        },
        true);
    if (!keys.packed() || DimValue(n) >= 0) return sort;
    return tir::AssertStmt(n <= Index(kIndices), tir::StringImm("more than 2^32 elements are sorted"), sort);
  };
  return te::Extern({shape, cursors}, {keys.entry(), kInt64}, {x}, body, "sort_indices", "sort")[0];
}

/// The elements along `axis` of `x` that entries stand for.
Tensor TakeSorted(const Tensor& x, const Tensor& entries, const Keys& keys, size_t axis, const Array<PrimExpr>& shape) {
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.Set(axis, tir::cast(kInt64, keys.IndexOf(entries(i))));
        return x(at);
      },
      "sorted", tag::kInjective);
}

Tensor IndicesAs(const Tensor& entries, const Keys& keys, DataType dtype, const Array<PrimExpr>& shape) {
  return Compute(
      shape, [&](const Array<PrimExpr>& i) { return tir::cast(dtype, keys.IndexOf(entries(i))); }, "indices",
      tag::kInjective);
}

Array<Tensor> SortCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ArgsortAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  const Keys keys{x->shape[axis], x->dtype, a->is_ascend};
  return {TakeSorted(x, FirstEntries(x, axis, keys, keys.count), keys, axis, x->shape)};
}

Array<Tensor> ArgsortCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ArgsortAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  const Keys keys{x->shape[axis], x->dtype, a->is_ascend};
  return {IndicesAs(FirstEntries(x, axis, keys, keys.count), keys, a->dtype, x->shape)};
}

Array<Tensor> TopKCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<TopKAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  const Keys keys{x->shape[axis], x->dtype, a->is_ascend};
  Tensor entries = FirstEntries(x, axis, keys, shape[axis]);
  Array<Tensor> results;
  if (a->ret_type != "indices") results.push_back(TakeSorted(x, entries, keys, axis, shape));
  if (a->ret_type != "values") results.push_back(IndicesAs(entries, keys, a->dtype, shape));
  return results;
}

OpRegistration Opaque(const char* name, const char* text, TypeRelationFn relation, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(6)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterSortOps() {
  Opaque("sort", "Sorted along a dimension.", Rule<SortInfer>, SortCompute).AttrsType<ArgsortAttrs>();
  Opaque("argsort", "Indices that sort along a dimension.", Rule<ArgsortInfer>, ArgsortCompute)
      .AttrsType<ArgsortAttrs>()
      .Set(kGradient, FGradient(gradient::None));
  Opaque("topk", "The greatest elements along a dimension and their indices.", Rule<TopKInfer>, TopKCompute)
      .AttrsType<TopKAttrs>()
      .Set(kNumResults,
           FNumResults([](const Attrs& attrs) { return attrs.as<TopKAttrs>()->ret_type == "both" ? 2 : 0; }));
}

}  // namespace treadle::ops
