// SPDX-License-Identifier: Apache-2.0
#include "tir/schedule/move.h"

#include <algorithm>
#include <utility>

namespace treadle::tir::primitive {

std::vector<AxisDomain> FullDomains(const BlockNode* block) {
  std::vector<AxisDomain> domains;
  for (const IterVar& iv : block->iter_vars) {
    domains.push_back({iv->dom->min, iv->dom->min + iv->dom->extent - 1});
  }
  return domains;
}

namespace {

struct NewLoop {
  Var var;
  PrimExpr extent;
};

}  // namespace

Stmt BuildNest(const Block& block, const std::vector<AxisDomain>& domains, bool may_do_more, bool keep_unit_loops,
               arith::Analyzer& analyzer) {
  std::vector<NewLoop> data_loops, reduce_loops;
  Array<PrimExpr> bindings;
  PrimExpr predicate = make_bool(true);
  Map<Var, PrimExpr> placed;  // axes that bounds of later ones may depend on
  for (size_t i = 0; i < domains.size(); ++i) {
    const IterVar& iv = block->iter_vars[i];
    DataType dtype = iv->var.dtype();
    if (i > 0) placed.Set(block->iter_vars[i - 1]->var, bindings.back());
    auto here = [&](const PrimExpr& e) { return analyzer.Simplify(Substitute(e, placed)); };
    PrimExpr low = here(cast(dtype, domains[i].min)), high = here(cast(dtype, domains[i].max));
    PrimExpr dom_low = here(iv->dom->min), dom_high = here(iv->dom->min + iv->dom->extent - 1);
    PrimExpr extent = analyzer.Simplify(high - low + 1);
    bool below = !analyzer.CanProveLessEqual(dom_low, low), above = !analyzer.CanProveLessEqual(high, dom_high);
    bool beyond = false;  // the loop may run past `high`
    const int64_t* full = AsConstInt(iv->dom->extent);
    if (!is_const_int(extent)) {
      arith::ConstIntBound bound = analyzer.Bound(extent);
      if (bound.max != arith::ConstIntBound::kPosInf && (full == nullptr || bound.max < *full)) {
        // A constant extent keeps loops simple; the predicate cuts what is too much.
        extent = make_const(dtype, std::max<int64_t>(bound.max, 0));
        above = true;
        beyond = !may_do_more;
      } else if (may_do_more) {
        // Not smaller than the whole axis: take that.
        low = dom_low;
        extent = here(iv->dom->extent);
        below = above = false;
      }
    } else if (full && *AsConstInt(extent) >= *full &&
               (may_do_more ||
                (analyzer.CanProveLessEqual(low, dom_low) && analyzer.CanProveLessEqual(dom_high, high)))) {
      low = dom_low;
      extent = here(iv->dom->extent);
      below = above = false;
    }
    if (is_const_int(extent, 1) && iv->iter_type == IterVarType::kDataPar && !keep_unit_loops) {
      bindings.push_back(low);
      if (below) predicate = predicate && (dom_low <= low);
      if (above) predicate = predicate && (low <= dom_high);
      continue;
    }
    bool is_data = iv->iter_type == IterVarType::kDataPar;
    std::string base = iv->var->name_hint;
    if (base.size() > 1 && base[0] == 'v') base = base.substr(1);
    Var var(is_data ? StrCat("ax", data_loops.size()) : base, dtype);
    analyzer.Bind(var, Range(extent));
    PrimExpr value = analyzer.Simplify(low + var);
    bindings.push_back(value);
    if (below) predicate = predicate && (dom_low <= value);
    if (above) predicate = predicate && (value <= dom_high);
    if (beyond) predicate = predicate && (value <= high);
    (is_data ? data_loops : reduce_loops).push_back({var, extent});
  }
  Stmt nest = BlockRealize(bindings, predicate, block);
  data_loops.insert(data_loops.end(), reduce_loops.begin(), reduce_loops.end());
  for (size_t i = data_loops.size(); i-- > 0;) {
    const NewLoop& loop = data_loops[i];
    nest = For(loop.var, make_zero(loop.var.dtype()), loop.extent, ForKind::kSerial, nest);
  }
  return nest;
}

void MoveTo(ScheduleState& state, const PlacedBlock& placed, const ForNode* old_loop, const Stmt& new_loop) {
  std::unordered_map<const Object*, Stmt> replacements;
  replacements[placed.realize.get()] = Stmt();
  replacements[old_loop] = new_loop;
  state.ReplaceMany(replacements);
}

}  // namespace treadle::tir::primitive
