// SPDX-License-Identifier: Apache-2.0
// CheckIndices: the one rule of operators that pick or write elements by index. From -n to n - 1 for a dimension of n,
// negative ones counting from the end; anything else is refused, with the node, the index and the size.
#include "passes/check_indices.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/pass_util.h"
#include "treadle/ir/model_span.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/check.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/make.h"
#include "treadle/relay/constant_operands.h"

namespace treadle::relay {
namespace {

/// Which dimensions of operand `of` the indices in operand `arg` speak of: one, or one per first index; none: all, as
/// one.
struct IndexUse {
  size_t arg = 1;
  std::vector<size_t> axes;
  bool by_row = false;
  std::optional<int64_t> exempt = std::nullopt;  ///< an index that picks nothing
  bool from_start = false;                       ///< negative ones are out of range, too
  size_t of = 0;
};

std::vector<size_t> Rows(const CallNode* call, size_t arg, int64_t first_axis) {
  const TensorTypeNode* indices = TensorTypeOf(call->args[arg]);
  const int64_t* length = indices->shape.empty() ? nullptr : AsConstInt(indices->shape[0]);
  std::vector<size_t> axes;
  for (int64_t i = 0; length != nullptr && i < *length; ++i) axes.push_back(static_cast<size_t>(first_axis + i));
  return axes;
}

std::vector<IndexUse> UsesOf(const CallNode* call) {
  const std::string& name = OpName(call);
  auto axis = [&](int64_t a) {
    return std::vector<size_t>{
        static_cast<size_t>(PositiveAxis(static_cast<int>(a), TensorTypeOf(call->args[0])->shape.size()))};
  };
  if (name == "take") {
    const auto* attrs = call->attrs_as<ops::TakeAttrs>();
    if (attrs->mode != "error") return {};
    return {{1, attrs->axis ? axis(*attrs->axis) : std::vector<size_t>(), false}};
  }
  if (name == "gather") return {{1, axis(call->attrs_as<ops::GatherAttrs>()->axis), false}};
  if (name == "gather_nd") return {{1, Rows(call, 1, call->attrs_as<ops::GatherNDAttrs>()->batch_dims), true}};
  if (name == "scatter" || name == "scatter_add") return {{1, axis(call->attrs_as<ops::ScatterAttrs>()->axis), false}};
  if (name == "nn.nll_loss") return {{1, {1}, false, call->attrs_as<ops::NLLLossAttrs>()->ignore_index, true}};
  if (name == "tree_leaves") {  // roots, features and children
    constexpr size_t kData = 0, kNodes = 4;
    return {{1, {0}, false, {}, true, kNodes}, {3, {1}, false, {}, true, kData}, {5, {0}, false, {}, true, kNodes}};
  }
  if (name == "scatter_nd") return {{1, Rows(call, 1, 0), true}};
  return {};
}

class IndexChecker : public MixedModeMutator {
 public:
  static Expr Check(const CallNode* pre, const Expr& post) {
    const auto* call = static_cast<const CallNode*>(post.get());
    if (OpName(pre) == "adv_index") return CheckFields(pre, call);
    const auto* op = pre->op.as<OpNode>();
    if (const FCheckConstants* check = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(kCheckConstants)) (*check)(pre);
    const std::vector<IndexUse> uses = UsesOf(pre);
    if (uses.empty()) return post;
    Array<Expr> args = call->args;
    for (const IndexUse& use : uses) {
      if (use.by_row && use.axes.empty()) continue;  // a dynamic number: those stay within the tensor
      args.Set(use.arg, Checked(pre, call->args[use.of], TensorTypeOf(pre->args[use.of]), use, args[use.arg]));
    }
    return args.same_as(call->args) ? post : Call(call->op, args, call->attrs, call->type_args, call->span);
  }

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override { return Check(pre, post); }

  /// The operand is a tuple: the data, and indices of each of its first dimensions.
  static Expr CheckFields(const CallNode* pre, const CallNode* call) {
    auto field = [](const Expr& tuple, size_t i) -> Expr {
      if (const auto* fields = tuple.as<TupleNode>()) return fields->fields[i];
      return TupleGetItem(tuple, static_cast<int>(i));
    };
    const Array<Type>& types = pre->args[0]->type_as<TupleTypeNode>()->fields;
    const Expr data = field(call->args[0], 0);
    Array<Expr> fields{data};
    for (size_t i = 1; i < types.size(); ++i) {
      const auto* type = types[0].as<TensorTypeNode>();
      fields.push_back(Checked(pre, data, type, {i, {i - 1}, false, {}, false}, field(call->args[0], i)));
    }
    return Call(call->op, {Tuple(fields)}, call->attrs, call->type_args, call->span);
  }

  /// Number of elements that an index of the use may pick from, by axis; empty where some size isn't known.
  static std::vector<int64_t> Sizes(const Array<PrimExpr>& shape, const IndexUse& use) {
    std::vector<int64_t> sizes;
    int64_t all = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t* size = AsConstInt(shape[d]);
      if (use.axes.empty() && (size == nullptr || __builtin_mul_overflow(all, *size, &all))) return {};
    }
    if (use.axes.empty()) return {all};
    for (size_t axis : use.axes) {
      const int64_t* size = axis < shape.size() ? AsConstInt(shape[axis]) : nullptr;
      if (size == nullptr) return {};
      sizes.push_back(*size);
    }
    return sizes;
  }

  static std::string Where(const CallNode* call) {
    const std::string place = call->span.defined() && !call->span.str().empty() ? DescribePlace(call->span) : "";
    if (place.empty()) return OpName(call);
    return call->span.as<ModelSpanNode>() != nullptr ? place : StrCat(place, " (", OpName(call), ")");
  }

  /// `picked`: the rewritten operand; `type` is that of what it replaces.
  static Expr Checked(const CallNode* call, const Expr& picked, const TensorTypeNode* type, const IndexUse& use,
                      const Expr& indices) {
    const std::vector<int64_t> sizes = Sizes(type->shape, use);
    if (const auto* constant = indices.as<ConstantNode>(); constant != nullptr && !sizes.empty()) {
      const NDArray& data = constant->data;
      if (auto values = ConstIntegers(Constant(data.CreateView({data.size()}, data.dtype())))) {
        CheckConstant(call, *values, use, sizes);
        return indices;
      }
    }
    Expr limits = Limits(picked, use, sizes);
    if (use.from_start)
      limits = Call(Op::Get("subtract"), {limits, ops::ScalarConstant(DataType::Int(64), int64_t{1})});
    return ops::CallWith<ops::CheckValuesAttrs>("check_values", {indices, limits}, [&](auto& attrs) {
      attrs.rule = use.from_start ? "at_most" : "index";
      attrs.where = Where(call);
      attrs.what = "index";
      attrs.exempt = use.exempt;
    });
  }

  static Expr Limits(const Expr& data, const IndexUse& use, const std::vector<int64_t>& sizes) {
    if (!sizes.empty()) {
      const std::vector<int64_t> shape =
          use.by_row ? std::vector{static_cast<int64_t>(sizes.size())} : std::vector<int64_t>();
      NDArray values = NDArray::Empty(shape, DataType::Int(64));
      std::copy(sizes.begin(), sizes.end(), values.Data<int64_t>());
      return Constant(values);
    }
    Expr shape =
        ops::CallWith<ops::ShapeOfAttrs>("shape_of", {data}, [](auto& attrs) { attrs.dtype = DataType::Int(64); });
    if (use.axes.empty()) return ops::MakeReduce("prod", shape, std::vector<int64_t>{0});
    NDArray axes = NDArray::Empty(
        use.by_row ? std::vector{static_cast<int64_t>(use.axes.size())} : std::vector<int64_t>(), DataType::Int(64));
    std::copy(use.axes.begin(), use.axes.end(), axes.Data<int64_t>());
    return ops::CallWith<ops::TakeAttrs>("take", {shape, Constant(axes)}, [](auto& attrs) {
      attrs.axis = 0;
      attrs.mode = "fast";
    });
  }

  static void CheckConstant(const CallNode* call, const std::vector<int64_t>& values, const IndexUse& use,
                            const std::vector<int64_t>& sizes) {
    const size_t per_row = values.size() / std::max<size_t>(sizes.size(), 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t size = use.by_row ? sizes[i / per_row] : sizes[0];
      const int64_t least = use.from_start ? 0 : -size;
      if ((values[i] >= least && values[i] < size) || (use.exempt && values[i] == *use.exempt)) continue;
      throw ShapeError(StrCat(Where(call), ": index ", values[i], " is out of range for ", size, " elements; expected ",
                              least, " to ", size - 1));
    }
  }
};

}  // namespace

void CheckConstantIndices(const CallNode* call) { IndexChecker::Check(call, GetRef<Expr>(call)); }

namespace transform {

Pass CheckIndices() {
  return MutatorPass<IndexChecker>(
      {"CheckIndices", 0, {"InferType"}, "Refuses indices out of range, when compiling or when running"});
}

}  // namespace transform
}  // namespace treadle::relay
