// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/schedule/block_reads.h"

#include <algorithm>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops::cpu {

std::vector<const tir::BufferLoadNode*> LoadsOf(const tir::Block& node) {
  std::vector<const tir::BufferLoadNode*> loads;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    const bool written = load != nullptr && std::any_of(node->writes.begin(), node->writes.end(),
                                                        [&](const auto& w) { return w->buffer.same_as(load->buffer); });
    if (load != nullptr && !written) loads.push_back(load);
  });
  return loads;
}

size_t SpatialAxesOf(const tir::Block& node) {
  size_t count = 0;
  for (const tir::IterVar& v : node->iter_vars) count += v->iter_type == tir::IterVarType::kDataPar;
  return count;
}

int64_t ExtentOf(const tir::Block& node, size_t axis) {
  const int64_t* extent = AsConstInt(node->iter_vars[axis]->dom->extent);
  return extent == nullptr ? -1 : *extent;
}

std::optional<int64_t> StrideAlong(const tir::Block& node, const tir::BufferLoadNode* load, const tir::Var& axis) {
  arith::Analyzer analyzer;
  for (const tir::IterVar& v : node->iter_vars) {
    const int64_t* extent = AsConstInt(v->dom->extent);
    // There is none after the last.
    const bool moves = v->var.same_as(axis);
    if (extent != nullptr && *extent > 1) {
      analyzer.Bind(v->var, tir::Range::FromMinExtent(v->dom->min, v->dom->extent - PrimExpr(int64_t{moves ? 1 : 0})));
    }
  }
  int64_t stride = 0, elements = 1;
  Map<tir::Var, PrimExpr> next;
  next.Set(axis, axis + tir::make_const(axis.dtype(), 1));
  for (size_t d = load->indices.size(); d-- > 0;) {
    const PrimExpr step = analyzer.Simplify(tir::Substitute(load->indices[d], next) - load->indices[d]);
    const int64_t* value = AsConstInt(step);
    if (value == nullptr) return std::nullopt;
    if (*value != 0 && elements == kFarApart) return kFarApart;
    stride += *value * elements;
    const int64_t* extent = AsConstInt(load->buffer->shape[d]);
    elements = extent == nullptr || elements == kFarApart ? kFarApart : elements * *extent;
  }
  return stride;
}

int InnermostAxisOf(const tir::Block& node, size_t count, const std::vector<const tir::BufferLoadNode*>& loads) {
  for (size_t i = count; i-- > 0;) {
    const bool same = std::all_of(loads.begin(), loads.end(), [&](const tir::BufferLoadNode* load) {
      return StrideAlong(node, load, node->iter_vars[i]->var) == 0;
    });
    const int64_t extent = ExtentOf(node, i);
    if (same && (extent > 1 || extent < 0)) return static_cast<int>(i);
  }
  return -1;
}

namespace {

/// Whether a load reads the same along each `part` neighbours of an axis, as those of a group do.
bool IsSameWithin(const tir::Block& node, const tir::BufferLoadNode* load, const tir::Var& axis, int64_t part) {
  arith::Analyzer analyzer;
  for (const tir::IterVar& v : node->iter_vars) {
    const int64_t* extent = AsConstInt(v->dom->extent);
    if (extent != nullptr && *extent > 1) analyzer.Bind(v->var, tir::Range::FromMinExtent(v->dom->min, v->dom->extent));
  }
  const tir::Var first("part", axis.dtype()), at("at", axis.dtype());
  analyzer.Bind(at, tir::Range::FromMinExtent(tir::make_zero(axis.dtype()), tir::make_const(axis.dtype(), part)));
  const PrimExpr begin = first * tir::make_const(axis.dtype(), part);
  Map<tir::Var, PrimExpr> here, start;
  here.Set(axis, begin + at);
  start.Set(axis, begin);
  return std::all_of(load->indices.begin(), load->indices.end(), [&](const PrimExpr& index) {
    const PrimExpr step = analyzer.Simplify(tir::Substitute(index, here) - tir::Substitute(index, start));
    const int64_t* value = AsConstInt(step);
    return value != nullptr && *value == 0;
  });
}

}  // namespace

std::pair<int, int64_t> InnermostAxisInParts(const tir::Block& node, size_t count,
                                             const std::vector<const tir::BufferLoadNode*>& loads) {
  for (const int64_t part : {16, 12, 8, 6, 4, 3, 2}) {
    for (size_t i = count; i-- > 0;) {
      const int64_t extent = ExtentOf(node, i);
      if (extent <= 0 || extent % part != 0) continue;
      const bool same = std::all_of(loads.begin(), loads.end(), [&](const tir::BufferLoadNode* load) {
        return IsSameWithin(node, load, node->iter_vars[i]->var, part);
      });
      if (same) return {static_cast<int>(i), part};
    }
  }
  return {-1, 0};
}

namespace {

/// Whether what a load reads along two axes is one row in memory: two dimensions that a reshape has joined.
bool IsOneRowInMemory(const tir::Block& node, const tir::BufferLoadNode* load, size_t outer, size_t inner) {
  const int64_t extent = ExtentOf(node, inner);
  if (extent < 0 || ExtentOf(node, outer) < 0) return false;
  const std::optional<int64_t> far = StrideAlong(node, load, node->iter_vars[outer]->var);
  const std::optional<int64_t> near = StrideAlong(node, load, node->iter_vars[inner]->var);
  return far && near && *far != kFarApart && *near != kFarApart && *far == extent * *near;
}

/// Whether an index contains one of the axes, loads that it depends on aside.
bool DirectlyUses(const PrimExpr& index, const tir::Var& outer, const tir::Var& inner) {
  class Finder : public tir::ExprVisitor {
   public:
    Finder(const tir::Var& outer, const tir::Var& inner) : outer_(outer), inner_(inner) {}
    bool found = false;

   private:
    using ExprVisitor::VisitExpr_;
    void VisitExpr_(const tir::VarNode* var) override { found |= var == outer_.get() || var == inner_.get(); }
    void VisitExpr_(const tir::BufferLoadNode*) override {}
    const tir::Var &outer_, &inner_;
  };
  Finder finder(outer, inner);
  finder.VisitExpr(index);
  return finder.found;
}

}  // namespace

bool AreOneRow(const tir::Block& node, int first) {
  const tir::Var outer = node->iter_vars[static_cast<size_t>(first)]->var;
  const tir::Var inner = node->iter_vars[static_cast<size_t>(first) + 1]->var;
  const PrimExpr& extent = node->iter_vars[static_cast<size_t>(first) + 1]->dom->extent;
  arith::Analyzer analyzer;
  bool fits = true;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    if (load == nullptr || !fits) return;
    const auto axis = static_cast<size_t>(first);
    if (IsOneRowInMemory(node, load, axis, axis + 1)) return;
    for (size_t d = 0; d < load->indices.size(); ++d) {
      if (!DirectlyUses(load->indices[d], outer, inner)) continue;
      const bool begins =
          load->indices[d].same_as(outer) && d + 1 < load->indices.size() && load->indices[d + 1].same_as(inner);
      const bool ends = load->indices[d].same_as(inner) && d > 0 && load->indices[d - 1].same_as(outer);
      const size_t row = begins ? d + 1 : d;
      fits = fits && (begins || ends) && analyzer.CanProveEqual(load->buffer->shape[row], extent);
    }
  });
  return fits;
}

size_t SharedLoops(tir::Schedule& sch, const tir::BlockRV& block) {
  const std::vector<tir::LoopRV> loops = sch.GetLoops(block);
  size_t shared = 0;
  while (shared < loops.size() && sch.GetChildBlocks(loops[shared]).size() > 1) ++shared;
  return shared;
}

}  // namespace treadle::ops::cpu
