// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/analysis.h"

#include <algorithm>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::schedule {
namespace {

using tir::BlockNode;
using tir::BlockRealizeNode;
using tir::BufferLoadNode;
using tir::IterVarType;
using tir::VarNode;

constexpr double kGuessedExtent = 64;

bool UsesVar(const PrimExpr& e, const VarNode* var) {
  bool found = false;
  tir::PostOrderVisit(e, [&](const ObjectRef& node) { found |= node.get() == var; });
  return found;
}

std::vector<tir::Buffer> Written(const tir::Block& node) {
  std::vector<tir::Buffer> buffers;
  for (const tir::BufferRegion& region : node->writes) buffers.push_back(region->buffer);
  return buffers;
}

size_t SpatialAxes(const tir::Block& node) {
  size_t count = 0;
  for (const tir::IterVar& axis : node->iter_vars) count += axis->iter_type == IterVarType::kDataPar;
  return count;
}

/// The realize node of the block with that name.
const BlockRealizeNode* FindRealize(Schedule& sch, const BlockRV& block) {
  const BlockRealizeNode* result = nullptr;
  std::string name = sch.Get(block)->name_hint;
  tir::PostOrderVisit(sch.func()->body, [&](const ObjectRef& node) {
    const auto* realize = node.as<BlockRealizeNode>();
    if (realize != nullptr && realize->block->name_hint == name) result = realize;
  });
  TREADLE_ICHECK(result != nullptr) << "block " << name << " isn't in the function";
  return result;
}

}  // namespace

te::Tag TagOf(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  auto tag = node->annotations.Get("tag");
  const auto* text = tag ? tag->as<StringNode>() : nullptr;
  return text != nullptr ? te::Tag::Parse(text->value) : te::Tag();
}

bool IsReduction(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  for (const tir::IterVar& axis : node->iter_vars) {
    if (axis->iter_type == IterVarType::kCommReduce) return true;
  }
  return false;
}

double Work(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  double work = 1;
  for (const tir::IterVar& axis : node->iter_vars) {
    const int64_t* extent = AsConstInt(axis->dom->extent);
    work *= extent ? static_cast<double>(*extent) : kGuessedExtent;
  }
  return work;
}

double ElementCost(Schedule& sch, const BlockRV& block) {
  constexpr double kSimple = 16, kCall = 32;
  double cost = 0;
  tir::PostOrderVisit(sch.Get(block)->body, [&](const ObjectRef& e) {
    if (e.as<VarNode>() || e.as<IntImmNode>() || e.as<FloatImmNode>() || !e.as<PrimExprNode>()) return;
    cost += e.as<tir::CallNode>() ? kCall : 1;
  });
  return std::max(1.0, cost / kSimple);
}

int64_t Extent(Schedule& sch, const LoopRV& loop) {
  tir::For node = sch.Get(loop);
  const int64_t* extent = AsConstInt(node->extent);
  return extent ? *extent : -1;
}

std::vector<LoopRV> AxisLoops(Schedule& sch, const BlockRV& block) {
  tir::PrimFunc keep = sch.func();
  const BlockRealizeNode* realize = FindRealize(sch, block);
  std::vector<LoopRV> loops = sch.GetLoops(block);
  std::vector<LoopRV> result;
  for (const PrimExpr& value : realize->iter_values) {
    LoopRV found;
    for (const LoopRV& loop : loops) {
      tir::For node = sch.Get(loop);
      if (UsesVar(value, node->loop_var.get())) found = loop;
    }
    result.push_back(found);
  }
  return result;
}

std::vector<LoopRV> LoopsUnder(Schedule& sch, const BlockRV& block, const LoopRV& under) {
  std::vector<LoopRV> nest = sch.GetLoops(block), axes = AxisLoops(sch, block);
  size_t first = 0;
  for (size_t i = 0; i < nest.size(); ++i) {
    if (under.defined() && nest[i]->var.same_as(under->var)) first = i + 1;
  }
  for (LoopRV& axis : axes) {
    bool below = false;
    for (size_t i = first; axis.defined() && i < nest.size(); ++i) below |= nest[i]->var.same_as(axis->var);
    if (!below) axis = LoopRV();
  }
  return axes;
}

namespace {

/// Whether an expression uses axes other than to say which element it reads.
bool UsesAxesOutsideIndices(const PrimExpr& e) {
  class OutsideIndices : public tir::ExprVisitor {
   public:
    bool found = false;
    using tir::ExprVisitor::VisitExpr_;
    void VisitExpr_(const VarNode* op) override { found |= op->dtype.is_int(); }
    void VisitExpr_(const BufferLoadNode*) override {}
  };
  OutsideIndices visitor;
  visitor(e);
  return visitor.found;
}

/// The number of elements before one of a buffer; undefined where sizes are dynamic.
PrimExpr OffsetOf(const tir::Buffer& buffer, const Array<PrimExpr>& indices) {
  PrimExpr offset(int64_t{0});
  for (size_t d = 0; d < indices.size(); ++d) {
    const int64_t* extent = AsConstInt(buffer->shape[d]);
    if (extent == nullptr) return {};
    offset = offset * PrimExpr(*extent) + tir::cast(DataType::Int(64), indices[d]);
  }
  return offset;
}

/// Whether a load, of an operand of another shape, reads the element at the offset that the block writes.
bool IsReshapedRead(const tir::Block& node, const tir::BufferStoreNode* store, const BufferLoadNode* load) {
  const PrimExpr from = OffsetOf(load->buffer, load->indices), to = OffsetOf(store->buffer, store->indices);
  if (!from.defined() || !to.defined()) return false;
  arith::Analyzer analyzer;
  for (const tir::IterVar& v : node->iter_vars)
    analyzer.Bind(v->var, tir::Range::FromMinExtent(v->dom->min, v->dom->extent));
  return tir::is_zero(analyzer.Simplify(from - to));
}

}  // namespace

bool IsFlatElementwise(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  const auto* store = node->body.as<tir::BufferStoreNode>();
  if (store == nullptr || node->init.defined()) return false;
  Array<PrimExpr> shape = store->buffer->shape;
  arith::Analyzer analyzer;
  auto identity = [&](const tir::Buffer& buffer, const Array<PrimExpr>& indices) {
    if (indices.size() != node->iter_vars.size() || buffer->shape.size() != shape.size()) return false;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!indices[i].same_as(node->iter_vars[i]->var)) return false;
      if (!analyzer.CanProveEqual(buffer->shape[i], shape[i])) return false;
    }
    return true;
  };
  bool flat = identity(store->buffer, store->indices);
  tir::PostOrderVisit(store->value, [&](const ObjectRef& e) {
    const auto* load = e.as<BufferLoadNode>();
    if (load == nullptr || identity(load->buffer, load->indices) || IsReshapedRead(node, store, load)) return;
    // One element for all is fine, and so is one of a table, that elements choose.
    for (const PrimExpr& index : load->indices) flat &= !UsesAxesOutsideIndices(index);
  });
  return flat && !UsesAxesOutsideIndices(store->value);
}

int ContiguousAxis(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  std::vector<const BufferLoadNode*> loads;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* load = e.as<BufferLoadNode>();
    if (load == nullptr || load->indices.empty()) return;
    for (const tir::Buffer& written : Written(node)) {
      if (load->buffer.same_as(written)) return;  // the sum so far
    }
    loads.push_back(load);
  });
  // Every load walks memory along the axis, or has the same element for all of it.
  auto fits = [&](const VarNode* axis) {
    bool walks = false;
    for (const BufferLoadNode* load : loads) {
      for (size_t d = 0; d < load->indices.size(); ++d) {
        if (!UsesVar(load->indices[d], axis)) continue;
        // Dimensions of one element don't count.
        for (size_t after = d + 1; after < load->indices.size(); ++after) {
          if (!tir::is_const_int(load->buffer->shape[after], 1)) return false;
        }
        walks = true;
      }
    }
    return walks;
  };
  int result = -1;
  for (size_t i = 0; i < node->iter_vars.size(); ++i) {
    if (tir::is_const_int(node->iter_vars[i]->dom->extent, 1)) continue;
    if (fits(node->iter_vars[i]->var.get())) result = static_cast<int>(i);
    bool spatial = node->iter_vars[i]->iter_type != IterVarType::kCommReduce;
    if (result == static_cast<int>(i) && spatial && i + 1 == SpatialAxes(node)) return result;
  }
  return result;
}

int TransposedAxis(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  if (node->iter_vars.size() < 2) return -1;
  const VarNode* last = node->iter_vars.back()->var.get();
  int result = -1;
  bool copies = true;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* load = e.as<BufferLoadNode>();
    if (load == nullptr || load->indices.empty()) return;
    bool uses_last = false;
    for (const PrimExpr& index : load->indices) uses_last |= UsesVar(index, last);
    if (!uses_last) return;
    if (UsesVar(load->indices.back(), last)) copies = false;  // read along it anyway
    for (size_t i = 0; i + 1 < node->iter_vars.size(); ++i) {
      if (UsesVar(load->indices.back(), node->iter_vars[i]->var.get())) result = static_cast<int>(i);
    }
  });
  return copies ? result : -1;
}

}  // namespace treadle::schedule
