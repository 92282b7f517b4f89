// SPDX-License-Identifier: Apache-2.0
// MergeCompilerRegions: joins neighbouring regions of one compiler unless that would make regions depend on each other
// in a cycle.
#include <algorithm>
#include <numeric>
#include <set>

#include "passes/byoc/annotated_regions.h"
#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

/// The graph of regions: an edge from each region to those that read its results.
class RegionGraph {
 public:
  explicit RegionGraph(const AnnotatedRegions& regions) : regions_(regions), group_(regions.regions.size()) {
    size_t count = regions.regions.size();
    parents_.resize(count);
    children_.resize(count);
    std::iota(group_.begin(), group_.end(), 0);
    for (size_t i = 0; i < count; ++i) {
      for (const Expr& begin : regions.regions[i].begins) CollectParents(begin, static_cast<int>(i));
    }
    for (size_t i = 0; i < count; ++i) {
      for (int parent : parents_[i]) children_[parent].insert(static_cast<int>(i));
    }
    SortTopologically();
  }

  void MergeAll() {
    for (int i : order_) {
      bool changed = true;
      while (changed) {
        changed = false;
        int region = Group(i);
        std::vector<int> candidates(parents_[region].rbegin(), parents_[region].rend());
        for (int parent : candidates) {
          if (Compiler(parent) != Compiler(region) || ReachesThroughOthers(parent, region)) continue;
          Merge(parent, region);
          changed = true;
          break;
        }
      }
    }
  }
  /// The region that a region was merged into, itself at first.
  int Group(int region) const {
    while (group_[region] != region) region = group_[region] = group_[group_[region]];
    return region;
  }

 private:
  const std::string& Compiler(int region) const { return regions_.regions[region].compiler; }

  /// Producers first. The regions' numbers don't tell: they follow the first annotation that a walk meets.
  void SortTopologically() {
    const size_t count = group_.size();
    std::vector<size_t> waiting(count);
    for (size_t i = 0; i < count; ++i) {
      waiting[i] = parents_[i].size();
      if (waiting[i] == 0) order_.push_back(static_cast<int>(i));
    }
    for (size_t next = 0; next < order_.size(); ++next) {
      for (int child : children_[order_[next]]) {
        if (--waiting[child] == 0) order_.push_back(child);
      }
    }
    if (order_.size() != count) ThrowCycle(waiting);
    first_.resize(count);
    for (size_t k = 0; k < count; ++k) first_[order_[k]] = static_cast<int>(k);
    last_ = first_;
  }

  [[noreturn]] void ThrowCycle(const std::vector<size_t>& waiting) const {
    std::string names;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i] > 0)
        names += StrCat(names.empty() ? "" : ", ", "region ", i, " (", Compiler(static_cast<int>(i)), ")");
    }
    throw Error(StrCat("annotated regions depend on each other in a cycle, or on regions of one: ", names,
                       "; a region's inputs must not depend on its results"));
  }

  /// What `begin` reads may come from several regions, through tuples and lets outside of all.
  void CollectParents(const Expr& begin, int region) {
    std::vector<Expr> stack{begin.as<CallNode>()->args[0]}, children;
    std::set<const Object*> seen;
    while (!stack.empty()) {
      Expr expr = stack.back();
      stack.pop_back();
      if (!seen.insert(expr.get()).second) continue;
      int found = regions_.Find(expr);
      if (found >= 0) {
        if (found != region) parents_[region].insert(found);
        continue;
      }
      children.clear();
      CollectChildren(expr, &children);
      stack.insert(stack.end(), children.begin(), children.end());
    }
  }

  /// Whether there is a path from `from` to `to` through another region: merging both would close a cycle.
  bool ReachesThroughOthers(int from, int to) const {
    std::vector<int> stack;
    std::set<int> seen;
    for (int parent : parents_[to]) {
      if (parent != from) stack.push_back(parent);
    }
    int limit = first_[from];  // what comes before all of its regions can't depend on it
    while (!stack.empty()) {
      int region = stack.back();
      stack.pop_back();
      if (region == from) return true;
      if (!seen.insert(region).second || last_[region] < limit) continue;
      stack.insert(stack.end(), parents_[region].begin(), parents_[region].end());
    }
    return false;
  }

  void Merge(int from, int into) {
    group_[from] = into;
    first_[into] = std::min(first_[into], first_[from]);
    last_[into] = std::max(last_[into], last_[from]);
    for (int parent : parents_[from]) {
      children_[parent].erase(from);
      if (parent == into) continue;
      children_[parent].insert(into);
      parents_[into].insert(parent);
    }
    for (int child : children_[from]) {
      parents_[child].erase(from);
      if (child == into) continue;
      parents_[child].insert(into);
      children_[into].insert(child);
    }
    parents_[from].clear();
    children_[from].clear();
  }

  const AnnotatedRegions& regions_;
  mutable std::vector<int> group_;  ///< a forest
  std::vector<std::set<int>> parents_, children_;
  std::vector<int> order_;         ///< of the regions, topological
  std::vector<int> first_, last_;  ///< positions in it of the regions that a group consists of
};

/// Removes the annotations between regions that were merged.
class AnnotationRemover : public ExprMutator {
 public:
  AnnotationRemover(const AnnotatedRegions& regions, const RegionGraph& graph) : regions_(regions), graph_(graph) {}
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const CallNode* call) override {
    Expr self = GetRef<Expr>(call);
    if (IsCompilerBegin(self)) {
      const Expr& end = call->args[0];
      if (IsCompilerEnd(end) && CompilerOf(end) == CompilerOf(self)) {
        if (graph_.Group(regions_.Find(self)) == graph_.Group(regions_.Find(end))) {
          return Mutate(end.as<CallNode>()->args[0]);
        }
      }
    }
    return ExprMutator::VisitExpr_(call);
  }

 private:
  const AnnotatedRegions& regions_;
  const RegionGraph& graph_;
};

}  // namespace

namespace transform {

Pass MergeCompilerRegions() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        AnnotatedRegions regions(func);
        RegionGraph graph(regions);
        graph.MergeAll();
        return Downcast<Function>(AnnotationRemover(regions, graph).Mutate(func));
      },
      {"MergeCompilerRegions", 0, {"InferType"}, "Joins neighbouring regions of one external code generator"});
}

}  // namespace transform
}  // namespace treadle::relay
