// SPDX-License-Identifier: Apache-2.0
// Element-wise, broadcasting and data-moving computations: what is vectorised, what is parallel, and transpositions.
#include <algorithm>
#include <optional>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "tir/shared_conditions.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/node_count.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops::cpu {
namespace {

/// Neighbours that lowering reads as one row and transposes in registers (tir/passes/transpose_loads.cc).
constexpr int64_t kRow = 4;
constexpr int kVectorBits = 512;

/// Whether a condition of the block depends on an axis.
bool IsInCondition(const tir::Block& node, size_t axis) {
  bool found = false;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* call = e.as<tir::CallNode>();
    if (call == nullptr || !tir::IsCallTo(call, "tir.if_then_else")) return;
    tir::PostOrderVisit(call->args[0],
                        [&](const ObjectRef& v) { found |= v.get() == node->iter_vars[axis]->var.get(); });
  });
  return found;
}

/// Whether `e`, an index, takes whole vectors of neighbours along `axis` to where they can be loaded together: not
/// where it is read from memory, chosen for each of them, or wraps around within a vector.
bool KeepsVectors(const PrimExpr& e, const tir::Var& axis, int64_t lanes) {
  const auto uses_axis = [&](const PrimExpr& part) {
    return arith::UsesVar(part, [&](const tir::VarNode* var) { return var == axis.get(); });
  };
  // Of two ways of which a run takes one, the better counts.
  if (const PrimExpr condition = tir::SharedConditionIn(e, uses_axis); condition.defined()) {
    return KeepsVectors(tir::TakeSide(e, condition, true), axis, lanes) ||
           KeepsVectors(tir::TakeSide(e, condition, false), axis, lanes);
  }
  Map<tir::Var, PrimExpr> vector_start;
  vector_start.Set(axis, axis * tir::make_const(axis.dtype(), lanes));
  arith::Analyzer analyzer;
  auto wraps = [&](const PrimExpr& from, const PrimExpr& period) {
    const int64_t* size = AsConstInt(period);
    if (size == nullptr || *size <= 0) return true;
    const int64_t whole = std::min(lanes, *size);
    if (lanes % whole != 0 || *size % whole != 0) return true;
    const arith::ModularSet start = analyzer.Modular(analyzer.Simplify(tir::Substitute(from, vector_start)));
    return start.coeff % whole != 0 || start.base % whole != 0;
  };
  bool keeps = true;
  tir::PostOrderVisit(e, [&](const ObjectRef& node) {
    const auto* part = node.as<PrimExprNode>();
    if (part == nullptr || !keeps || !uses_axis(GetRef<PrimExpr>(part))) return;
    if (node.as<tir::BufferLoadNode>() || node.as<tir::SelectNode>() || node.as<tir::CallNode>()) keeps = false;
    if (const auto* mod = node.as<tir::FloorModNode>()) keeps &= !wraps(mod->a, mod->b);
    if (const auto* div = node.as<tir::FloorDivNode>()) keeps &= !wraps(div->a, div->b);
  });
  return keeps;
}

/// Whether a vector of results would be read element by element, and little is computed with it: the loop is left to
/// LLVM then.
bool IsScattered(Schedule& sch, const BlockRV& block, int64_t lanes) {
  const tir::Block node = sch.Get(block);
  bool calls = false;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* call = e.as<tir::CallNode>();
    calls |= call != nullptr && tir::CostOf(call) != tir::CallCost::kCast;
  });
  // Where lanes of a vector differ in a condition, they are computed one by one.
  if (calls && !IsInCondition(node, node->iter_vars.size() - 1)) return false;
  const tir::Var last = node->iter_vars.back()->var;
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  return std::any_of(loads.begin(), loads.end(), [&](const tir::BufferLoadNode* load) {
    return std::any_of(load->indices.begin(), load->indices.end(),
                       [&](const PrimExpr& index) { return !KeepsVectors(index, last, lanes); });
  });
}

/// The most lanes, from `most` down to a row of four, whose operands are loaded as whole vectors; 1 where there are
/// none.
int64_t LoadableLanes(Schedule& sch, const BlockRV& block, int64_t most) {
  for (int64_t lanes = most; lanes >= kRow; lanes /= 2) {
    if (!IsScattered(sch, block, lanes)) return lanes;
  }
  return 1;
}

/// Bits of the widest value that the block computes with.
int WidestBits(const tir::Block& node) {
  /// Other than in indices: a table is read by bytes.
  class Widest : public tir::StmtExprVisitor {
   public:
    int bits = 8;

   private:
    using tir::StmtExprVisitor::VisitExpr_;
    void Meet(const PrimExprNode* e) { bits = std::max(bits, e->dtype.bits()); }
    void VisitExpr_(const tir::BufferLoadNode* op) override {
      Meet(op);
      for (const PrimExpr& index : op->indices) {
        const auto* cast = index.as<tir::CastNode>();
        VisitExpr(cast != nullptr ? cast->value : index);
      }
    }
    void VisitExpr_(const tir::CastNode* op) override {
      Meet(op);
      StmtExprVisitor::VisitExpr_(op);
    }
    void VisitExpr_(const tir::CallNode* op) override {
      Meet(op);
      StmtExprVisitor::VisitExpr_(op);
    }
  };
  Widest widest;
  for (const tir::BufferRegion& written : node->writes)
    widest.bits = std::max(widest.bits, written->buffer->dtype.bits());
  widest(node->body);
  return widest.bits;
}

constexpr int kRowBits = 128;  ///< what rows of smaller elements fill
constexpr int64_t kLine = 16;  ///< elements of 32 bits in a cache line

/// The loops of results that are read across: neighbours in a row of the results lie far apart in what they are read
/// from, and neighbours there belong to different rows.
struct TransposedLoops {
  std::vector<LoopRV> loops;  ///< null where a loop was fused with the one after it
  size_t across = 0;          ///< the loop along which elements that are read are neighbours
  size_t along = 0;           ///< the loop along which results are neighbours, the innermost
  int64_t rows = 0, row = 0;  ///< extents of the two; dynamic ones are taken for long, their ends are tails

  std::vector<size_t> Others() const {
    std::vector<size_t> others;
    for (size_t i = 0; i < loops.size(); ++i) {
      if (i != across && i != along && loops[i].defined()) others.push_back(i);
    }
    return others;
  }
};

/// Nothing where results are read as they are written. Rows of an image are fused where that is the same.
std::optional<TransposedLoops> FindTransposedLoops(Schedule& sch, const BlockRV& block) {
  const tir::Block node = sch.Get(block);
  const int axis = TransposedAxis(sch, block);
  TransposedLoops t;
  t.loops = sch.GetLoops(block);
  if (axis < 0 || t.loops.size() != node->iter_vars.size()) return std::nullopt;
  t.across = static_cast<size_t>(axis);
  t.along = t.loops.size() - 1;
  const auto extent_of = [&](const LoopRV& loop) {
    const int64_t extent = Extent(sch, loop);
    return extent < 0 ? kSymbolicWidth : extent;
  };
  const auto fuse_with_outer = [&](size_t i) {
    if (i == 0 || i - 1 == t.across || i - 1 == t.along || extent_of(t.loops[i]) % kLine == 0) return;
    if (!AreOneRow(node, static_cast<int>(i) - 1)) return;
    t.loops[i] = sch.Fuse({t.loops[i - 1], t.loops[i]});
    t.loops[i - 1] = LoopRV();
  };
  fuse_with_outer(t.along);
  fuse_with_outer(t.across);
  t.rows = extent_of(t.loops[t.across]);
  t.row = extent_of(t.loops[t.along]);
  return t;
}

/// Whether rows are the few channels of a pixel, of less than 32 bits each: too little for tiles that are transposed.
bool IsFewChannels(const tir::Block& node, const TransposedLoops& t) {
  return (t.row == 2 || t.row == 4) && t.rows >= kLine && node->writes.size() == 1 &&
         node->writes[0]->buffer->dtype.bits() < 32;
}

/// A vector of each channel; the vectors are stored as one (tir/passes/interleave_stores.cc).
void InterleaveChannels(Schedule& sch, const TransposedLoops& t, double work) {
  const std::vector<LoopRV> vectors = sch.Split(t.loops[t.across], {kRest, PrimExpr(kLine)});
  std::vector<LoopRV> outer;
  for (const size_t i : t.Others()) outer.push_back(t.loops[i]);
  outer.push_back(vectors[0]);
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), {t.loops[t.along], vectors[1]});
  sch.Reorder(order);
  sch.Vectorize(vectors[1]);
  sch.Unroll(t.loops[t.along]);
  FuseParallel(sch, outer, work);
}

/// A tile of elements that lowering transposes in registers.
struct MovedTile {
  int64_t row = kRow, lanes = 0;
};

/// The tile for elements of less than 32 bits; of no lanes where one isn't right for them. `dynamic`: what is left of
/// rows is only known in the run, of few lanes it is little.
MovedTile TileOfSmall(const tir::Block& node, const TransposedLoops& t, bool dynamic) {
  constexpr int64_t kMostLeft = 16;  // parts of the elements that no tile takes
  const int bits = WidestBits(node);
  if (bits != 8 && bits != 16) return {};
  const int64_t row = kRowBits / bits, least = 4 * row;
  if (t.rows < least || t.row < least || t.rows % row * kMostLeft > t.rows) return {};
  MovedTile tile{row, row};  // elements that are left take many times as long
  for (int64_t lanes = 2 * row; !dynamic && lanes <= kVectorBits / bits; lanes *= 2) {
    if (t.row % lanes <= t.row % tile.lanes) tile.lanes = lanes;
  }
  return t.row % tile.lanes * kMostLeft > t.row ? MovedTile() : tile;
}

/// Results that are read across, in tiles of four by a vector, which lowering reads as rows and transposes in
/// registers. Whether that was done.
bool ScheduleTransposed(Schedule& sch, const BlockRV& block, double work) {
  constexpr int64_t kEnough = 16;
  const tir::Block node = sch.Get(block);
  Schedule before = sch.Copy();
  const std::optional<TransposedLoops> found = FindTransposedLoops(sch, block);
  if (!found) return false;
  const TransposedLoops& t = *found;
  if (IsFewChannels(node, t)) {
    InterleaveChannels(sch, t, work);
    return true;
  }
  int64_t lanes = VectorLanes(t.row);
  if (lanes < kRow * 2) lanes = t.row > kLine ? kRow * 2 : kRow;  // the tail is split off
  if (t.rows < kRow || t.row < lanes) {
    sch = std::move(before);  // loops were fused, which others choose for themselves
    return false;
  }
  // Rows of one vector, as of blocks of channels, are stored one after another whatever is left of the tiles.
  // Where a run tells how many there are, lines are read whole too: what is left goes by rows of four anyway.
  const bool dynamic = Extent(sch, t.loops[t.across]) < 0;
  const bool many = dynamic || t.rows % kLine == 0 || (t.row == lanes && t.rows >= 2 * kLine);
  int64_t tiles = many ? kLine / kRow : t.rows % (2 * kRow) == 0 ? 2 : 1, row = kRow;
  const MovedTile small = TileOfSmall(node, t, Extent(sch, t.loops[t.along]) < 0);
  if (small.lanes != 0) {
    row = small.row;
    lanes = small.lanes;
    tiles = 1;
  }
  const std::vector<LoopRV> u = sch.Split(t.loops[t.across], {kRest, PrimExpr(tiles), PrimExpr(row)});
  const std::vector<LoopRV> v = sch.Split(t.loops[t.along], {kRest, PrimExpr(lanes)});
  // A loop over blocks whose last one lanes only partly fill isn't fused: its last iteration is split off.
  std::vector<LoopRV> outer, filled;
  for (const size_t i : t.Others()) {
    const bool fills = IsInCondition(node, t.along) && IsInCondition(node, i);
    (fills ? filled : outer).push_back(t.loops[i]);
  }
  outer.push_back(u[0]);
  // An index of several loops would be divided by dynamic extents.
  int64_t others = 1;
  for (const LoopRV& loop : outer) others *= Extent(sch, loop) < 0 ? kEnough : std::max<int64_t>(1, Extent(sch, loop));
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), filled.begin(), filled.end());
  order.insert(order.end(), {v[0], u[1], u[2], v[1]});
  sch.Reorder(order);
  sch.Vectorize(v[1]);
  sch.Unroll(u[2]);
  if (others < kEnough && filled.empty()) outer.push_back(v[0]);
  FuseParallel(sch, outer, work);
  return true;
}

/// A divisor of indices along an axis.
struct AxisDivisor {
  PrimExpr by;         ///< undefined: there is none
  bool wraps = false;  ///< only what remains is used: the axis repeats one of that many elements
};

/// What elements along an axis are first divided by where they are taken apart into indices of dimensions that the axis
/// joins, or wrapped around; none of constants unless `constants`.
AxisDivisor DivisorOf(const tir::Block& node, const tir::Var& axis, bool constants) {
  const auto uses_axis = [&](const PrimExpr& e) {
    return arith::UsesVar(e, [&](const tir::VarNode* var) { return var == axis.get(); });
  };
  AxisDivisor divisor;
  bool divides = false;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* div = e.as<tir::FloorDivNode>();
    const auto* mod = e.as<tir::FloorModNode>();
    if (div == nullptr && mod == nullptr) return;
    const PrimExpr& by = div != nullptr ? div->b : mod->b;
    if (!uses_axis(div != nullptr ? div->a : mod->a)) return;
    divides |= div != nullptr || !mod->a.same_as(axis);
    if (divisor.by.defined()) return;  // the innermost one is visited first
    if ((constants || AsConstInt(by) == nullptr) && !arith::ReadsData(by)) divisor.by = by;
  });
  divisor.wraps = divisor.by.defined() && !divides;
  return divisor;
}

/// Loops over several dynamic dimensions that a reshape has joined become one loop for each again: an index of all
/// would be divided for each element. So does a loop over rows that are repeated, which are copied whole then: whether
/// there are any.
bool SplitJoinedDimensions(Schedule& sch, const BlockRV& block) {
  constexpr int64_t kRepeated = 8;
  const tir::Block node = sch.Get(block);
  const std::vector<LoopRV> loops = sch.GetLoops(block);
  if (loops.size() != node->iter_vars.size()) return false;
  arith::Analyzer analyzer;
  bool rows = false;
  for (size_t i = 0; i < loops.size(); ++i) {
    const bool last = i + 1 == loops.size();
    if (Extent(sch, loops[i]) >= 0 && (!last || LoadableLanes(sch, block, kLine) > 1)) continue;
    const AxisDivisor divisor = DivisorOf(node, node->iter_vars[i]->var, last);
    const PrimExpr& by = divisor.by;
    const PrimExpr extent = node->iter_vars[i]->dom->extent;
    if (!by.defined() || arith::UsesVar(by, [&](const tir::VarNode* var) {
          return std::any_of(node->iter_vars.begin(), node->iter_vars.end(),
                             [&](const tir::IterVar& axis) { return axis->var.get() == var; });
        })) {
      continue;
    }
    if (const int64_t* period = AsConstInt(by); period != nullptr && (!divisor.wraps || *period < kRepeated)) continue;
    const PrimExpr others = analyzer.Simplify(tir::floordiv(extent, by));
    if (tir::is_one(others)) continue;
    const bool exact = analyzer.CanProveEqual(others * by, extent), repeated = divisor.wraps && last;
    if (!exact && !repeated) continue;
    sch.Split(loops[i], {exact ? others : PrimExpr(kRest), by});
    rows |= repeated;
  }
  return rows;
}

/// Whether a loop has fewer iterations than dividing an index is worth.
bool IsShort(Schedule& sch, const LoopRV& loop) {
  constexpr int64_t kFew = 8;
  const int64_t extent = Extent(sch, loop);
  return extent >= 0 && extent <= kFew;
}

/// Lanes for rows of `extent` elements that `lanes` are right for: as many as fill a register where elements are small,
/// next to each other in what is read, and what is left over of a row is little of it.
int64_t LanesOfLongRow(Schedule& sch, const BlockRV& block, int64_t extent, int64_t lanes) {
  constexpr int64_t kManyVectors = 8;
  const tir::Block node = sch.Get(block);
  for (const tir::BufferLoadNode* load : LoadsOf(node)) {
    if (StrideAlong(node, load, node->iter_vars.back()->var).value_or(0) > 1) return lanes;
  }
  for (int64_t more = kVectorBits / WidestBits(sch.Get(block)); more > lanes; more /= 2) {
    if (extent >= kManyVectors * more && !IsScattered(sch, block, more)) return more;
  }
  return lanes;
}

/// Results in blocks of channels that begin amid blocks of what is read, as where numbers of channels that don't divide
/// by 16 are concatenated: which lanes come from which operand is known for each block once blocks are written out.
bool ScheduleMixedBlocks(Schedule& sch, const BlockRV& block, double work) {
  constexpr size_t kBlockedRank = 5;
  constexpr int64_t kLeastLanes = 8, kLeastPixels = 64, kMostBlocks = 32, kMostNodes = 16384;
  const std::vector<LoopRV> loops = sch.GetLoops(block);  // n, c, h, w, ci
  const tir::Block node = sch.Get(block);
  if (loops.size() != kBlockedRank || node->iter_vars.size() != kBlockedRank) return false;
  const int64_t blocks = Extent(sch, loops[1]), lanes = Extent(sch, loops[4]);
  const int64_t height = Extent(sch, loops[2]), width = Extent(sch, loops[3]);
  if (lanes < kLeastLanes || blocks < 2 || blocks > kMostBlocks) return false;
  if (height < 1 || height * width < kLeastPixels || LoadableLanes(sch, block, lanes) >= kLeastLanes) return false;
  if (tir::CountNodes(node->body, kMostNodes) * blocks > kMostNodes) return false;  // each block is a copy
  sch.Reorder({loops[0], loops[2], loops[1], loops[3], loops[4]});
  sch.Unroll(loops[1]);
  FuseParallel(sch, {loops[0], loops[2]}, work);
  return true;
}

}  // namespace

void TransposeTile(Schedule& sch, const LoopRV& contiguous, const LoopRV& last) {
  // A cache line of what is read; lanes are so many lines at once, which all may fall into one set of the cache.
  constexpr int64_t kLanes = 8;
  std::vector<LoopRV> lines = sch.Split(contiguous, {kRest, PrimExpr(kLine / kRow), PrimExpr(kRow)});
  std::vector<LoopRV> lanes = sch.Split(last, {kRest, PrimExpr(kLanes)});
  sch.Reorder({lines[0], lanes[0], lines[1], lines[2], lanes[1]});
  sch.Vectorize(lanes[1]);
  sch.Unroll(lines[2]);
}

void ScheduleInjective(Schedule& sch, const BlockRV& block) {
  std::vector<LoopRV> loops = sch.GetLoops(block);
  if (loops.empty()) return;
  double work = Work(sch, block) * ElementCost(sch, block);
  if (IsFlatElementwise(sch, block)) {
    LoopRV all = loops.size() == 1 ? loops[0] : sch.Fuse(loops);
    int64_t extent = Extent(sch, all);
    // Of many elements what is left of whole vectors is split off.
    constexpr int64_t kMany = 256;
    const bool ragged = extent < 0 || (extent >= kMany && VectorLanes(extent) < kDynamicLanes);
    int lanes = ragged ? kDynamicLanes : VectorLanes(extent);
    // Of small elements more fill a register.
    for (int more = kVectorBits / WidestBits(sch.Get(block)); more > lanes && lanes != 0; more /= 2) {
      if (ragged || extent % more == 0) lanes = more;
    }
    if (lanes == 0 || extent == lanes) {
      if (lanes != 0) sch.Vectorize(all);
      return;
    }
    // Chunks of some kilobytes for threads to share: the loop over vectors stays tight, the parallel loop has few
    // iterations.
    constexpr int64_t kChunk = 256;
    const int64_t vectors = extent < 0 ? kChunk : extent / lanes;
    int64_t chunk = std::min(vectors, kChunk);
    while (!ragged && vectors % chunk != 0) --chunk;
    const bool parallel = work >= kParallelWork && (extent < 0 || vectors > chunk);
    std::vector<PrimExpr> factors{kRest, PrimExpr(chunk), PrimExpr(int64_t{lanes})};
    if (!parallel) factors.erase(factors.begin() + 1);
    std::vector<LoopRV> parts = sch.Split(all, factors);
    sch.Vectorize(parts.back());
    if (parallel) sch.Parallel(parts[0]);
    return;
  }
  if (ScheduleTransposed(sch, block, work)) return;
  if (ScheduleMixedBlocks(sch, block, work)) return;
  const bool whole_rows = SplitJoinedDimensions(sch, block);
  loops = sch.GetLoops(block);
  // Short rows of an image are one where that is the same, for vectors and for LLVM, which loops without are left to.
  constexpr int64_t kWhole = 16, kLong = 17;
  tir::Block node = sch.Get(block);
  const bool per_axis = loops.size() == node->iter_vars.size();
  const int64_t loadable = per_axis ? LoadableLanes(sch, block, kWhole) : kWhole;
  const int64_t width = Extent(sch, loops.back());
  if (per_axis && loops.size() > 1 && (width < 0 || (width > 0 && width % kWhole != 0)) &&
      (loadable == kWhole || loadable == 1) && AreOneRow(node, static_cast<int>(loops.size()) - 2)) {
    LoopRV row = sch.Fuse({loops[loops.size() - 2], loops.back()});
    loops.resize(loops.size() - 2);
    loops.push_back(row);
  }
  // The last loop becomes vectors where its extent divides or little is left; otherwise LLVM's loop vectoriser deals
  // with the rest.
  LoopRV last = loops.back();
  const bool short_rows = IsShort(sch, last);
  int64_t lanes = VectorLanes(Extent(sch, last));
  if (lanes < kWhole && Extent(sch, last) >= kLong) lanes = kWhole;
  if (Extent(sch, last) < 0 && per_axis && loadable == kWhole) lanes = kDynamicLanes;
  // Channels that move between blocks go in the vectors that both sides have whole: 4 where 28 follow others.
  if (loadable < lanes) lanes = Extent(sch, last) % loadable == 0 ? loadable : 1;
  if (per_axis && lanes == kWhole && loadable == kWhole) lanes = LanesOfLongRow(sch, block, Extent(sch, last), lanes);
  if (lanes > 1) {
    if (Extent(sch, last) == lanes) {
      sch.Vectorize(last);
    } else {
      sch.Vectorize(sch.Split(last, {PrimExpr(ObjectPtr<Object>()), PrimExpr(lanes)})[1]);
    }
  }
  // The loop around stays one of its own if enough others remain: what its iterations share is computed once.
  constexpr int64_t kEnough = 16;
  std::vector<LoopRV> outer(loops.begin(), loops.end() - 1);
  // Of dynamic extents, too: a fused index is divided by them for each iteration. The first is often a batch of one.
  auto usual = [&](const LoopRV& loop) { return Extent(sch, loop) < 0 ? kEnough : Extent(sch, loop); };
  int64_t others = 1;
  for (size_t i = 0; i + 1 < outer.size(); ++i) {
    if (i > 0 || Extent(sch, outer[i]) > 0) others *= std::max<int64_t>(1, usual(outer[i]));
  }
  if (outer.size() > 1 && (whole_rows || (others >= kEnough && usual(outer.back()) > 2))) {
    outer.pop_back();
  } else if (outer.size() > 1 && Extent(sch, outer.back()) < 0 && short_rows) {
    // The index of a fused loop is divided for each of its iterations: for many of short rows together.
    constexpr int64_t kRows = 256;
    outer.back() = sch.Split(outer.back(), {kRest, PrimExpr(kRows)})[0];
  }
  if (!outer.empty()) FuseParallel(sch, outer, work);
}

}  // namespace treadle::ops::cpu
