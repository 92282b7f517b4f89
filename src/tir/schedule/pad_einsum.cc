// SPDX-License-Identifier: Apache-2.0
// Pad einsum: a sum of products runs over axes rounded up, on operands padded with zeros; what is too much is cut off.
#include <unordered_map>
#include <utility>

#include "tir/block_access.h"
#include "tir/buffer_replacer.h"
#include "tir/schedule/primitives.h"
#include "treadle/base/int_math.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "pad_einsum";

struct Axis {
  IterVar iv;
  int64_t extent = 0, padded = 0;
};

/// Loops and a block that store, at each element of `to`, what `value` gives for it.
Stmt ElementNest(const Buffer& to, const Array<PrimExpr>& shape, const std::string& name,
                 const std::function<PrimExpr(const Array<PrimExpr>&)>& value) {
  Array<IterVar> axes;
  Array<PrimExpr> indices, bindings;
  std::vector<Var> loops;
  for (size_t d = 0; d < shape.size(); ++d) {
    Var loop(StrCat("ax", d), shape[d].dtype()), axis(StrCat("v", d), shape[d].dtype());
    axes.push_back(IterVar(Range(shape[d]), axis, IterVarType::kDataPar));
    indices.push_back(axis);
    bindings.push_back(loop);
    loops.push_back(loop);
  }
  Stmt body = BufferStore(to, value(indices), indices);
  BlockAccess access = DetectBlockAccess(body, Stmt());
  Stmt nest = BlockRealize(bindings, make_bool(true), Block(axes, access.reads, access.writes, name, body));
  for (size_t d = loops.size(); d-- > 0;) {
    nest = For(loops[d], make_zero(loops[d].dtype()), shape[d], ForKind::kSerial, nest);
  }
  return nest;
}

class Einsum {
 public:
  Einsum(ScheduleState& state, PlacedBlock placed) : state_(state), placed_(std::move(placed)) {}

  void Run(const std::vector<int64_t>& padding) {
    ReadAxes(padding);
    const auto* store = placed_.block()->body.as<BufferStoreNode>();
    const auto* sum = store != nullptr ? store->value.as<AddNode>() : nullptr;
    const auto* self = sum != nullptr ? sum->a.as<BufferLoadNode>() : nullptr;
    if (self == nullptr || !self->buffer.same_as(store->buffer) || !placed_.block()->init.defined()) {
      Refuse("must add products to its result, with an initial value");
    }
    const auto* init = placed_.block()->init.as<BufferStoreNode>();
    if (init == nullptr) Refuse("must have a constant initial value");
    CollectOperands(sum->b);
    Array<Stmt> before, after;
    Map<Buffer, Buffer> replacement;
    for (const BufferLoadNode* load : operands_) {
      if (replacement.Get(load->buffer)) Refuse(StrCat("reads '", load->buffer->name, "' twice"));
      Buffer padded = Padded(load->buffer, load->indices);
      if (padded.same_as(load->buffer)) continue;
      replacement.Set(load->buffer, padded);
      Buffer source = load->buffer;
      before.push_back(ElementNest(padded, padded->shape, state_.UniqueBlockName(padded->name),
                                   [&](const Array<PrimExpr>& i) { return Guarded(source, padded, i); }));
      allocs_.push_back(padded);
    }
    Buffer result = Padded(store->buffer, store->indices);
    if (!result.same_as(store->buffer)) {
      replacement.Set(store->buffer, result);
      Buffer original = store->buffer;
      after.push_back(ElementNest(original, original->shape, state_.UniqueBlockName(original->name + "_crop"),
                                  [&](const Array<PrimExpr>& i) { return BufferLoad(result, i); }));
      allocs_.push_back(result);
    }
    Array<IterVar> axes;
    Array<PrimExpr> bindings;
    std::vector<std::pair<Var, PrimExpr>> loops;
    Map<Var, PrimExpr> vmap;
    for (const Axis& axis : axes_) {
      DataType dtype = axis.iv->var.dtype();
      PrimExpr extent = make_const(dtype, axis.padded);
      Var fresh(axis.iv->var->name_hint, dtype), loop(axis.iv->var->name_hint + "_p", dtype);
      vmap.Set(axis.iv->var, fresh);
      axes.push_back(IterVar(Range(extent), fresh, axis.iv->iter_type));
      bindings.push_back(loop);
      loops.emplace_back(loop, extent);
    }
    Block block = placed_.realize->block;
    BlockNode* node = block.CopyOnWrite();
    node->iter_vars = axes;
    node->body = ReplaceBuffers(Substitute(node->body, vmap), replacement);
    node->init = ReplaceBuffers(Substitute(node->init, vmap), replacement);
    Stmt nest = BlockRealize(bindings, make_bool(true), WithDetectedAccess(block));
    for (size_t i = loops.size(); i-- > 0;) {
      nest = For(loops[i].first, make_zero(loops[i].first.dtype()), loops[i].second, ForKind::kSerial, nest);
    }
    Array<Stmt> all = before;
    all.push_back(nest);
    for (const Stmt& s : after) all.push_back(s);
    Path prefix(placed_.path.begin(), placed_.path.begin() + static_cast<std::ptrdiff_t>(outermost_) + 1);
    state_.Replace(prefix, SeqStmt::Flatten(all));
    for (const Buffer& b : allocs_) state_.AddAlloc(b);
  }

 private:
  [[noreturn]] void Refuse(const std::string& why) const {
    throw ScheduleError(StrCat(kName, ": block '", placed_.name(), "' ", why));
  }

  /// What loop `i` must hold: the next one, or the block.
  Stmt InLoop(const std::vector<For>& loops, size_t i) const {
    return i + 1 < loops.size() ? Stmt(loops[i + 1]) : Stmt(placed_.realize);
  }
  /// Each axis must be one loop of a nest of the block's own.
  void ReadAxes(const std::vector<int64_t>& padding) {
    const BlockNode* block = placed_.block();
    RequireTopLevel(placed_, kName);
    if (padding.size() != block->iter_vars.size()) {
      Refuse(StrCat("has ", block->iter_vars.size(), " axes; ", padding.size(), " paddings are given"));
    }
    std::vector<For> loops = placed_.Loops();
    if (!is_const_int(placed_.realize->predicate, 1) || loops.size() != block->iter_vars.size()) {
      Refuse("must have the loops it was made with; pad before splitting or moving it");
    }
    for (size_t i = 0; i < loops.size(); ++i) {
      const int64_t* extent = AsConstInt(loops[i]->extent);
      const IterVar& iv = block->iter_vars[i];
      const bool plain = placed_.realize->iter_values[i].same_as(loops[i]->loop_var) &&
                         is_const_int(loops[i]->min, 0) && loops[i]->body.same_as(InLoop(loops, i));
      if (!plain || extent == nullptr) {
        Refuse(StrCat("must be driven by plain loops of constant extent that hold nothing else; axis '",
                      iv->var->name_hint, "' isn't"));
      }
      if (padding[i] < 1) Refuse(StrCat("can't pad axis '", iv->var->name_hint, "' to a multiple of ", padding[i]));
      RequirePlainLoop(loops[i].get(), kName);
      axes_.push_back({iv, *extent, RoundUp(*extent, padding[i])});
    }
    if (loops.empty()) Refuse("has no loops to pad");
    for (outermost_ = 0; !placed_.path[outermost_].same_as(loops[0]); ++outermost_) {
    }
  }

  void CollectOperands(const PrimExpr& e) {
    if (const auto* op = e.as<MulNode>()) {
      CollectOperands(op->a);
      CollectOperands(op->b);
    } else if (const auto* op = e.as<CastNode>()) {
      CollectOperands(op->value);
    } else if (const auto* op = e.as<BufferLoadNode>()) {
      operands_.push_back(op);
      // A padded step must add 0 times 0: an operand that doesn't know the axis could be infinite.
      for (const Axis& axis : axes_) {
        if (axis.padded == axis.extent || axis.iv->iter_type != IterVarType::kCommReduce) continue;
        bool indexed = false;
        for (const PrimExpr& index : op->indices) indexed |= index.same_as(axis.iv->var);
        if (!indexed && e.dtype().is_floating()) {
          Refuse(StrCat("reads '", op->buffer->name, "' without the padded reduction axis '", axis.iv->var->name_hint,
                        "', so padding could change the sum where it holds infinities"));
        }
      }
    } else {
      Refuse("must multiply elements of buffers only");
    }
  }

  Buffer Padded(const Buffer& buffer, const Array<PrimExpr>& indices) {
    Array<PrimExpr> shape;
    bool same = true;
    for (size_t d = 0; d < indices.size(); ++d) {
      PrimExpr extent = buffer->shape[d];
      const Axis* found = nullptr;
      for (const Axis& axis : axes_) {
        if (indices[d].same_as(axis.iv->var)) found = &axis;
      }
      if (found == nullptr) Refuse(StrCat("must index '", buffer->name, "' with its axes; index ", d, " is another"));
      if (!is_const_int(extent, found->extent)) {
        Refuse(StrCat("runs over a part of dimension ", d, " of '", buffer->name, "' only"));
      }
      if (found->padded != found->extent) {
        same = false;
        extent = make_const(extent.dtype(), found->padded);
      }
      shape.push_back(extent);
    }
    if (same) return buffer;
    return DeclBuffer(shape, buffer->dtype, state_.UniqueBufferName(buffer->name + "_pad"), "global");
  }

  static PrimExpr Guarded(const Buffer& source, const Buffer& padded, const Array<PrimExpr>& indices) {
    PrimExpr inside = make_bool(true);
    for (size_t d = 0; d < indices.size(); ++d) {
      if (*AsConstInt(padded->shape[d]) == *AsConstInt(source->shape[d])) continue;
      inside = inside && indices[d] < source->shape[d];
    }
    return if_then_else(inside, BufferLoad(source, indices), make_zero(source->dtype));
  }

  ScheduleState& state_;
  PlacedBlock placed_;
  std::vector<Axis> axes_;
  std::vector<const BufferLoadNode*> operands_;
  std::vector<Buffer> allocs_;
  size_t outermost_ = 0;
};

}  // namespace

void PadEinsum(ScheduleState& state, const std::string& block, const std::vector<int64_t>& padding) {
  ScheduleState work = state;
  Einsum(work, work.FindBlock(block)).Run(padding);
  state = work;
}

}  // namespace treadle::tir::primitive
