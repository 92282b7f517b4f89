// SPDX-License-Identifier: Apache-2.0
#include "tir/schedule/reducer_match.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tir/schedule/tree.h"

namespace treadle::tir {

namespace {

using Binary = PrimExpr (*)(PrimExpr, PrimExpr);

/// One comparison of an order of tuples, `op(earlier[component], later[component])`; ties go on to the next one.
struct Comparison {
  size_t component;
  Binary op;
};

class Matcher {
 public:
  Matcher(const BlockNode* block, const char* primitive) : block_(block), primitive_(primitive) {}

  Reducer Match() {
    // Values that are named before all are stored.
    Stmt body = block_->body;
    const auto* where = body.as<IfThenElseNode>();
    if (where != nullptr && !where->else_case.defined() && !ReadsResults(where->condition)) body = where->then_case;
    while (const auto* let = body.as<LetStmtNode>()) {
      PrimExpr value = Substitute(let->value, named_);
      (ReadsResults(value) ? named_ : new_names_).Set(let->var, value);
      body = let->body;
    }
    stores_ = StoresOf(body);
    if (stores_.empty()) Refuse("does more than to store its results");
    std::vector<PrimExpr> values;
    for (const BufferStoreNode* store : stores_) {
      PrimExpr value = Substitute(store->value, named_);
      while (const auto* let = value.as<LetNode>()) {
        Map<Var, PrimExpr> named;
        named.Set(let->var, let->value);
        value = Substitute(let->body, named);
      }
      values.push_back(value);
    }
    return SelectionOf(values[0]).has_value() ? Choice(values) : EachByItself(values);
  }

 private:
  struct Selection {
    PrimExpr condition, kept, taken;
  };

  [[noreturn]] void Refuse(const std::string& why) const {
    throw ScheduleError(StrCat(primitive_, ": the reduction of block '", block_->name_hint, "' ", why));
  }

  bool ReadsResults(const PrimExpr& e) const {
    bool found = false;
    PostOrderVisit(e, [&](const ObjectRef& node) {
      const auto* load = node.as<BufferLoadNode>();
      found |= load != nullptr && WritesBuffer(block_, load->buffer);
    });
    return found;
  }

  /// Whether `e` is what result `i` was before.
  bool IsResult(const PrimExpr& e, size_t i) const {
    const auto* load = e.as<BufferLoadNode>();
    return load != nullptr && load->buffer.same_as(stores_[i]->buffer) &&
           std::equal(load->indices.begin(), load->indices.end(), stores_[i]->indices.begin(),
                      stores_[i]->indices.end(),
                      [](const PrimExpr& a, const PrimExpr& b) { return arith::ExprDeepEqual(a, b); });
  }

  /// The operation, where `e` is Node(result i, new) or, if that is the same, Node(new, result i).
  template <typename Node>
  bool Combines(const PrimExpr& e, size_t i) const {
    const auto* op = e.as<Node>();
    return op != nullptr &&
           ((IsResult(op->a, i) && !ReadsResults(op->b)) || (IsResult(op->b, i) && !ReadsResults(op->a)));
  }

  Reducer EachByItself(const std::vector<PrimExpr>& values) const {
    std::vector<Binary> operations;
    std::vector<PrimExpr> identities(values.size(), PrimExpr(ObjectPtr<Object>()));
    for (size_t i = 0; i < values.size(); ++i) {
      if (Combines<AddNode>(values[i], i)) {
        operations.push_back(add);
        identities[i] = make_zero(values[i].dtype());
      } else if (Combines<MulNode>(values[i], i)) {
        operations.push_back(mul);
        identities[i] = make_const(values[i].dtype(), 1);
      } else if (Combines<MinNode>(values[i], i)) {
        operations.push_back(min);
      } else if (Combines<MaxNode>(values[i], i)) {
        operations.push_back(max);
      } else if (Combines<AndNode>(values[i], i)) {
        operations.push_back([](PrimExpr a, PrimExpr b) { return a && b; });
        identities[i] = make_bool(true);
      } else if (Combines<OrNode>(values[i], i)) {
        operations.push_back([](PrimExpr a, PrimExpr b) { return a || b; });
        identities[i] = make_bool(false);
      } else {
        Refuse(
            "isn't a sum, product, minimum, maximum, conjunction or disjunction, nor a selection of one of two tuples");
      }
    }
    auto combine = [operations](const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
      Array<PrimExpr> result;
      for (size_t i = 0; i < operations.size(); ++i) result.push_back(operations[i](a[i], b[i]));
      return result;
    };
    return {stores_, identities, combine};
  }

  static std::optional<Selection> SelectionOf(const PrimExpr& e) {
    if (const auto* op = e.as<SelectNode>()) return Selection{op->condition, op->true_value, op->false_value};
    if (const auto* op = e.as<CallNode>(); op != nullptr && IsCallTo(op, "tir.if_then_else")) {
      return Selection{op->args[0], op->args[1], op->args[2]};
    }
    return std::nullopt;
  }

  Reducer Choice(const std::vector<PrimExpr>& values) {
    const Selection first = *SelectionOf(values[0]);
    for (size_t i = 0; i < values.size(); ++i) {
      std::optional<Selection> s = SelectionOf(values[i]);
      const bool fits = s.has_value() && IsResult(s->kept, i) && !ReadsResults(s->taken) &&
                        arith::ExprDeepEqual(s->condition, first.condition);
      if (!fits) Refuse("doesn't select all of its results, from before or new ones, by one condition");
      new_.push_back(s->taken);
    }
    std::vector<Comparison> order = OrderOf(first.condition);
    const bool any_order = DecideTies(&order);
    auto combine = [order](const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
      PrimExpr keep;
      for (size_t k = order.size(); k-- > 0;) {
        const auto& [i, op] = order[k];
        PrimExpr here = op(a[i], b[i]);
        keep = k + 1 == order.size() ? here : logical_or(here, logical_and(equal(a[i], b[i]), keep));
      }
      Array<PrimExpr> result;
      for (size_t i = 0; i < a.size(); ++i) result.push_back(select(keep, a[i], b[i]));
      return result;
    };
    return {stores_, std::vector<PrimExpr>(stores_.size(), PrimExpr(ObjectPtr<Object>())), combine, any_order};
  }

  /// Ties that go to the earlier tuple do so in any order of parts where the position along the reduced axis is among
  /// the results. (What all of them start from has no position, but ties with it alone then.) Whether no tie is open.
  bool DecideTies(std::vector<Comparison>* order) const {
    size_t position = new_.size();
    for (size_t i = 0; i < new_.size(); ++i) {
      if (IsPosition(new_[i])) position = i;
    }
    Comparison& last = order->back();
    if (last.component == position) return true;
    if (new_.size() == 1 && order->size() == 1) return true;  // of equal values either is the result
    const bool at_least = last.op == Binary{greater_equal}, at_most = last.op == Binary{less_equal};
    if (position == new_.size() || !(at_least || at_most)) return false;
    last.op = at_least ? Binary{greater} : Binary{less};
    order->push_back({position, less_equal});
    return true;
  }

  /// Whether `e` is the axis that the block reduces, which is the only one.
  bool IsPosition(PrimExpr e) const {
    const tir::IterVarNode* axis = nullptr;
    for (const IterVar& v : block_->iter_vars) {
      if (v->iter_type != IterVarType::kCommReduce) continue;
      if (axis != nullptr) return false;
      axis = v.get();
    }
    e = Substitute(e, new_names_);
    while (const auto* cast = e.as<CastNode>()) {
      if (!cast->dtype.is_int() || cast->dtype.bits() < cast->value.dtype().bits()) return false;
      e = cast->value;
    }
    return axis != nullptr && e.same_as(axis->var);
  }

  /// `here || (equal && rest)` gives the comparison `here` and goes on with `rest`.
  std::vector<Comparison> OrderOf(PrimExpr condition) const {
    std::vector<Comparison> order;
    while (const auto* either = condition.as<OrNode>()) {
      const auto* tie = either->b.as<AndNode>();
      std::optional<Comparison> here = ComparisonOf(either->a), same;
      if (tie != nullptr) same = ComparisonOf(tie->a);
      const bool fits = here.has_value() && same.has_value() && here->component == same->component &&
                        same->op == Binary{equal} && (here->op == Binary{greater} || here->op == Binary{less});
      if (!fits) RefuseOrder();
      order.push_back(*here);
      condition = tie->b;
    }
    std::optional<Comparison> last = ComparisonOf(condition);
    if (!last.has_value() || last->op == Binary{equal}) RefuseOrder();
    order.push_back(*last);
    return order;
  }

  [[noreturn]] void RefuseOrder() const {
    Refuse("selects by a condition that isn't an order of tuples (a[i] > b[i] || (a[i] == b[i] && ...))");
  }

  std::optional<Comparison> ComparisonOf(const PrimExpr& e) const {
    std::optional<Comparison> result;
    auto match = [&](const auto* op, Binary forward, Binary backward) {
      for (size_t i = 0; op != nullptr && i < stores_.size(); ++i) {
        if (IsResult(op->a, i) && arith::ExprDeepEqual(op->b, new_[i])) result = Comparison{i, forward};
        if (IsResult(op->b, i) && arith::ExprDeepEqual(op->a, new_[i])) result = Comparison{i, backward};
      }
    };
    match(e.as<GTNode>(), greater, less);
    match(e.as<LTNode>(), less, greater);
    match(e.as<GENode>(), greater_equal, less_equal);
    match(e.as<LENode>(), less_equal, greater_equal);
    match(e.as<EQNode>(), equal, equal);
    return result;
  }

  const BlockNode* block_;
  const char* primitive_;
  Map<Var, PrimExpr> named_, new_names_;  ///< names of values that read results, and of others
  std::vector<const BufferStoreNode*> stores_;
  std::vector<PrimExpr> new_;  ///< what each result is selected from, besides itself
};

}  // namespace

std::vector<const BufferStoreNode*> StoresOf(const Stmt& stmt) {
  std::vector<const BufferStoreNode*> result;
  const auto* seq = stmt.as<SeqStmtNode>();
  for (size_t i = 0; i < (seq == nullptr ? 1 : seq->seq.size()); ++i) {
    const auto* store = (seq == nullptr ? stmt : seq->seq[i]).as<BufferStoreNode>();
    if (store == nullptr) return {};
    result.push_back(store);
  }
  return result;
}

Reducer MatchReducer(const BlockNode* block, const char* primitive) { return Matcher(block, primitive).Match(); }

}  // namespace treadle::tir
