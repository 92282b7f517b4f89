// SPDX-License-Identifier: Apache-2.0
#include "tir/bind_shared.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::tir {
namespace {

/// Nodes below this many (counted as a tree, up to a cap) aren't worth a name.
constexpr int64_t kMinCost = 4;
constexpr int64_t kMinIntegerCost = 24;
constexpr int64_t kCostCap = 1 << 20;

/// A region of evaluation: the whole expression, the body of a Let, or an operand that may be skipped. Nodes are
/// bound in the innermost region that holds all their uses.
struct Region {
  int parent = -1;
  int depth = 0;
  int sibling = -1;  ///< where one of the two surely runs; itself where it surely runs
};

struct NodeInfo {
  int order = 0;    ///< position in post-order
  int uses = 0;     ///< edges from distinct parents and repeated edges
  int region = -1;  ///< innermost region that holds all uses
  int64_t cost = 1;
  bool loads = false;          ///< reads memory, which may only be there where it is read
  bool several = false;        ///< uses a variable that several Lets bind: no other place has the same value
  bool bound = false;          ///< gets a variable
  std::vector<int> used_in{};  ///< regions of the uses
};

class Children : public ExprVisitor {
 public:
  std::vector<PrimExpr> found;
  static std::vector<PrimExpr> Of(const PrimExpr& e) {
    Children c;
    c.top_ = e.get();
    c.ExprVisitor::VisitExpr(e);
    return std::move(c.found);
  }
  void VisitExpr(const PrimExpr& e) override { found.push_back(e); }

 private:
  const Object* top_ = nullptr;
};

/// Which children of `e` start a region of their own.
bool StartsRegion(const PrimExpr& e, size_t child) {
  if (const auto* call = e.as<CallNode>()) return IsCallTo(call, "tir.if_then_else") && child > 0;
  if (e.as<AndNode>() || e.as<OrNode>() || e.as<LetNode>()) return child == 1;
  if (e.as<ReduceNode>()) return true;
  return false;
}

class Binder {
 public:
  PrimExpr Run(const PrimExpr& root) {
    Collect(root);
    MarkSeveral();
    bool any = false;
    for (const PrimExpr& e : post_order_) any |= info_.at(e.get()).uses > 1 && e.get() != root.get() && Worth(e);
    if (!any) return root;
    AssignRegions(root);
    return Emit(root);
  }

 private:
  void Collect(const PrimExpr& root) {
    struct Frame {
      PrimExpr e;
      std::vector<PrimExpr> children;
      size_t next = 0;
    };
    std::vector<Frame> stack;
    auto push = [&](const PrimExpr& e) {
      NodeInfo& info = info_[e.get()];
      if (++info.uses == 1) stack.push_back({e, Children::Of(e), 0});
    };
    push(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.children.size()) {
        PrimExpr child = top.children[top.next++];
        push(child);
        continue;
      }
      NodeInfo& info = info_[top.e.get()];
      info.order = static_cast<int>(post_order_.size());
      for (const PrimExpr& child : top.children) {
        info.cost = std::min(kCostCap, info.cost + info_[child.get()].cost);
        info.loads |= info_[child.get()].loads;
      }
      const auto* call = top.e.as<CallNode>();
      info.loads |= top.e.as<BufferLoadNode>() || top.e.as<ProducerLoadNode>() ||
                    (call != nullptr && EffectOf(call) != CallEffect::kPure);
      post_order_.push_back(top.e);
      children_[top.e.get()] = std::move(top.children);
      stack.pop_back();
    }
  }

  /// Marks what depends on variables that more than one Let binds.
  void MarkSeveral() {
    std::unordered_set<const Object*> bound, several;
    for (const PrimExpr& e : post_order_) {
      const auto* let = e.as<LetNode>();
      if (let != nullptr && !bound.insert(let->var.get()).second) several.insert(let->var.get());
    }
    if (several.empty()) return;
    for (const PrimExpr& e : post_order_) {
      NodeInfo& info = info_[e.get()];
      info.several = several.count(e.get()) != 0;
      for (const PrimExpr& child : children_[e.get()]) info.several |= info_[child.get()].several;
    }
  }

  bool Worth(const PrimExpr& e) const {
    const NodeInfo& info = info_.at(e.get());
    if (!IsSharable(e) || info.several) return false;
    return info.cost >= (e.dtype().is_floating() ? kMinCost : kMinIntegerCost);
  }

  static bool IsSharable(const PrimExpr& e) {
    if (e.as<ReduceNode>() || e.dtype().is_handle()) return false;
    // What a masked load names as its element isn't loaded as such.
    if (const auto* load = e.as<BufferLoadNode>()) {
      for (const PrimExpr& index : load->indices) {
        if (index.dtype().is_vector()) return false;
      }
    }
    const auto* call = e.as<CallNode>();
    return call == nullptr || EffectOf(call) != CallEffect::kOpaque;
  }

  int Common(int a, int b) const {
    while (a != b) {
      if (regions_[a].depth < regions_[b].depth) std::swap(a, b);
      a = regions_[a].parent;
    }
    return a;
  }

  /// Parents before children: a node's region is the innermost common one of its uses.
  void AssignRegions(const PrimExpr& root) {
    regions_.push_back({-1, 0});
    info_[root.get()].region = 0;
    for (size_t i = post_order_.size(); i-- > 0;) {
      const PrimExpr& e = post_order_[i];
      int own = info_[e.get()].region;
      const auto& children = children_[e.get()];
      for (size_t c = 0; c < children.size(); ++c) {
        int region = own;
        if (StartsRegion(e, c)) {
          regions_.push_back({own, regions_[own].depth + 1});
          region = static_cast<int>(regions_.size()) - 1;
          region_of_edge_[{e.get(), c}] = region;
          // The body of a let always runs; of the two values of a condition, one does.
          if (e.as<LetNode>()) regions_.back().sibling = region;
          if (c == 2 && e.as<CallNode>()) {
            regions_.back().sibling = region - 1;
            regions_[static_cast<size_t>(region) - 1].sibling = region;
          }
        }
        NodeInfo& child = info_[children[c].get()];
        child.used_in.push_back(region);
        child.region = child.region < 0 ? region : Common(child.region, region);
      }
    }
    bound_in_.resize(regions_.size());
    for (const PrimExpr& e : post_order_) {
      NodeInfo& info = info_[e.get()];
      info.bound = info.uses > 1 && e.get() != root.get() && Worth(e) && (!info.loads || IsCertain(info));
      if (info.bound) bound_in_[info.region].push_back(e);
    }
  }

  /// Whether the node is evaluated whenever its region is.
  bool IsCertain(const NodeInfo& info) const {
    std::vector<int> todo = info.used_in;
    std::unordered_set<int> certain;
    while (!todo.empty()) {
      const int region = todo.back();
      todo.pop_back();
      if (region == info.region) return true;
      if (!certain.insert(region).second) continue;
      const int sibling = regions_[static_cast<size_t>(region)].sibling;
      if (sibling >= 0 && certain.count(sibling) != 0) todo.push_back(regions_[static_cast<size_t>(region)].parent);
    }
    return false;
  }

  /// Rebuilds bottom-up. A bound node is replaced by its variable; its definition is emitted in its region.
  PrimExpr Emit(const PrimExpr& root) {
    for (const PrimExpr& e : post_order_) {
      const auto& children = children_[e.get()];
      std::unordered_map<const Object*, PrimExpr> substitution;
      std::vector<PrimExpr> replaced;
      for (size_t c = 0; c < children.size(); ++c) {
        PrimExpr value = value_.at(children[c].get());
        auto edge = region_of_edge_.find({e.get(), c});
        if (edge != region_of_edge_.end()) value = Wrap(value, edge->second);
        replaced.push_back(value);
      }
      PrimExpr rebuilt = Rebuild(e, replaced);
      const NodeInfo& info = info_[e.get()];
      if (info.bound) {
        Var var("t", e.dtype());
        definition_.emplace(e.get(), std::pair(var, rebuilt));
        value_.emplace(e.get(), var);
      } else {
        value_.emplace(e.get(), rebuilt);
      }
    }
    return Wrap(value_.at(root.get()), 0);
  }

  PrimExpr Wrap(PrimExpr body, int region) const {
    const auto& bound = bound_in_[region];
    for (size_t i = bound.size(); i-- > 0;) {
      const auto& [var, value] = definition_.at(bound[i].get());
      body = Let(var, value, body);
    }
    return body;
  }

  /// `e` with its children, in visiting order, replaced.
  class Rebuilder : public ExprMutator {
   public:
    explicit Rebuilder(const std::vector<PrimExpr>& children) : children_(children) {}
    PrimExpr Top(const PrimExpr& e) { return ExprMutator::VisitExpr(e); }
    PrimExpr VisitExpr(const PrimExpr&) override { return children_[next_++]; }

   private:
    const std::vector<PrimExpr>& children_;
    size_t next_ = 0;
  };
  static PrimExpr Rebuild(const PrimExpr& e, const std::vector<PrimExpr>& children) {
    Rebuilder rebuilder(children);
    return rebuilder.Top(e);
  }

  struct EdgeHash {
    size_t operator()(const std::pair<const Object*, size_t>& edge) const {
      return std::hash<const Object*>()(edge.first) * 31 + edge.second;
    }
  };

  std::unordered_map<const Object*, NodeInfo> info_;
  std::unordered_map<const Object*, std::vector<PrimExpr>> children_;
  std::vector<PrimExpr> post_order_;
  std::vector<Region> regions_;
  std::unordered_map<std::pair<const Object*, size_t>, int, EdgeHash> region_of_edge_;
  std::vector<std::vector<PrimExpr>> bound_in_;
  std::unordered_map<const Object*, std::pair<Var, PrimExpr>> definition_;
  std::unordered_map<const Object*, PrimExpr> value_;
};

}  // namespace

PrimExpr BindShared(const PrimExpr& expr) { return Binder().Run(expr); }

}  // namespace treadle::tir
