// SPDX-License-Identifier: Apache-2.0
// MergeCompilerRegions: joins neighbouring regions of one compiler unless that would make regions wait for each other.
#include <algorithm>
#include <set>

#include "relay/passes/byoc/annotated_regions.h"
#include "relay/passes/pass_util.h"

namespace treadle::relay {
namespace {

/// The graph of regions: an edge from each region to those that read its results.
class RegionGraph {
 public:
  explicit RegionGraph(const AnnotatedRegions& regions) : regions_(regions), group_(regions.regions.size()) {
    size_t count = regions.regions.size();
    parents_.resize(count);
    members_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      group_[i] = static_cast<int>(i);
      members_[i] = {static_cast<int>(i)};
      for (const Expr& begin : regions.regions[i].begins) CollectParents(begin, static_cast<int>(i));
    }
  }

  /// Regions are numbered so that producers come first.
  void MergeAll() {
    for (int i = 0; i < static_cast<int>(group_.size()); ++i) {
      bool changed = true;
      while (changed) {
        changed = false;
        int region = group_[i];
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
  int Group(int region) const { return group_[region]; }

 private:
  const std::string& Compiler(int region) const { return regions_.regions[region].compiler; }

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
    int limit = members_[from].front();  // the first of its regions: those before can't depend on it
    while (!stack.empty()) {
      int region = stack.back();
      stack.pop_back();
      if (region == from) return true;
      if (!seen.insert(region).second || members_[region].back() < limit) continue;
      stack.insert(stack.end(), parents_[region].begin(), parents_[region].end());
    }
    return false;
  }

  void Merge(int from, int into) {
    for (int member : members_[from]) group_[member] = into;
    std::vector<int> all;
    std::merge(members_[from].begin(), members_[from].end(), members_[into].begin(), members_[into].end(),
               std::back_inserter(all));
    members_[into] = std::move(all);
    members_[from].clear();
    parents_[into].insert(parents_[from].begin(), parents_[from].end());
    parents_[into].erase(from);
    parents_[into].erase(into);
    parents_[from].clear();
    for (auto& parents : parents_) {
      if (parents.erase(from) != 0) parents.insert(into);
    }
    parents_[into].erase(into);
  }

  const AnnotatedRegions& regions_;
  std::vector<int> group_;
  std::vector<std::set<int>> parents_;
  std::vector<std::vector<int>> members_;  ///< sorted
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
