// SPDX-License-Identifier: Apache-2.0
// Tensorize: a nest of loops is replaced by an intrinsic that computes the same.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tir/block_access.h"
#include "tir/buffer_replacer.h"
#include "tir/schedule/primitives.h"
#include "treadle/tir/tensor_intrin.h"
#include "treadle/tir/text.h"

namespace treadle::tir {

TREADLE_DEFINE_NODE(TensorIntrinNode);

namespace {

/// The block of a description.
const BlockRealizeNode* DescribedBlock(const PrimFunc& desc) {
  const auto* root = desc->body.as<BlockRealizeNode>();
  Stmt at = root != nullptr ? root->block->body : Stmt();
  while (at.defined() && at.as<ForNode>()) at = at.as<ForNode>()->body;
  return at.defined() ? at.as<BlockRealizeNode>() : nullptr;
}

}  // namespace

TensorIntrin::TensorIntrin(std::string name, PrimFunc desc, PrimFunc body, PrimFunc update) {
  const auto* realize = DescribedBlock(desc);
  if (realize == nullptr || !realize->block->body.as<BufferStoreNode>()) {
    throw ScheduleError(StrCat("intrinsic '", name, "': the description must be one computation of one store"));
  }
  for (const PrimFunc& impl : {body, update}) {
    if (impl.defined() && impl->params.size() != desc->params.size()) {
      throw ScheduleError(StrCat("intrinsic '", name, "': the description has ", desc->params.size(),
                                 " parameters, an implementation ", impl->params.size()));
    }
  }
  auto node = MakeObject<TensorIntrinNode>();
  node->name = std::move(name);
  node->desc = std::move(desc);
  node->body = std::move(body);
  node->update = std::move(update);
  data_ = std::move(node);
}

namespace primitive {

namespace {

/// Loads in order, and the expression with all their indices in normal form.
class Normalizer : public ExprMutator {
 public:
  using Rewrite = std::function<PrimExpr(const BufferLoadNode*)>;
  explicit Normalizer(Rewrite rewrite) : rewrite_(std::move(rewrite)) {}
  PrimExpr Run(const PrimExpr& e) { return VisitExpr(e); }

 protected:
  PrimExpr VisitExpr_(const BufferLoadNode* op) override { return rewrite_(op); }

 private:
  Rewrite rewrite_;
};

/// Puts another expression in the place of one comparison.
class LimitReplacer : public ExprMutator {
 public:
  LimitReplacer(const LTNode* from, PrimExpr to) : from_(from), to_(std::move(to)) {}
  PrimExpr Run(const PrimExpr& e) { return VisitExpr(e); }

 protected:
  using ExprMutator::VisitExpr_;
  PrimExpr VisitExpr_(const LTNode* op) override { return op == from_ ? to_ : ExprMutator::VisitExpr_(op); }

 private:
  const LTNode* from_;
  PrimExpr to_;
};

/// Where a buffer of the description lies in one of the function.
struct Place {
  Buffer buffer;
  std::vector<PrimExpr> begin;  ///< one per dimension of `buffer`
  std::vector<PrimExpr> extent;
};

class Matcher {
 public:
  Matcher(const TensorIntrin& intrin, const std::string& block) : intrin_(intrin), block_(block) {}
  std::unordered_map<const Object*, Place> places;  ///< by pointer of the buffer of the description
  Map<Var, PrimExpr> numbers;                       ///< by parameter of the description that is no buffer

  /// `inner` has its axes bound to outer + inner parts; `outer_axes` are the axes of the block around.
  void Run(const BlockRealizeNode* inner, const std::vector<For>& loops) {
    const BlockRealizeNode* desc = DescribedBlock(intrin_->desc);
    MatchAxes(desc, inner, loops);
    const auto* expected = desc->block->body.as<BufferStoreNode>();
    const auto* found = inner->block->body.as<BufferStoreNode>();
    if (found == nullptr) Refuse("its body isn't one store");
    Access(expected->buffer, expected->indices, found->buffer, Rewritten(found->indices));
    // Loads pair up in order; then both sides must be the same expression.
    std::vector<const BufferLoadNode*> wanted;
    Normalizer([&](const BufferLoadNode* op) {
      wanted.push_back(op);
      return GetRef<PrimExpr>(op);
    }).Run(expected->value);
    size_t next = 0;
    std::vector<Array<PrimExpr>> read;
    PrimExpr actual = Normalizer([&](const BufferLoadNode* op) -> PrimExpr {
                        Array<PrimExpr> indices = Rewritten(op->indices);
                        if (next >= wanted.size()) Refuse("it reads more than the intrinsic");
                        const BufferLoadNode* load = wanted[next++];
                        Access(load->buffer, load->indices, op->buffer, indices);
                        read.push_back(indices);
                        return BufferLoad(op->buffer, indices);
                      }).Run(found->value);
    actual = WithLimits(expected->value, Substitute(actual, axes_));
    next = 0;
    PrimExpr described = Normalizer([&](const BufferLoadNode* op) -> PrimExpr {
                           auto it = places.find(op->buffer->data.get());
                           if (it == places.end())
                             Refuse(StrCat("it doesn't read what the intrinsic calls ", op->buffer->name));
                           const Place& place = it->second;
                           Array<PrimExpr> indices;
                           if (next >= read.size()) Refuse("it reads less than the intrinsic");
                           const Array<PrimExpr>& same = read[next++];
                           const size_t skip = place.begin.size() - op->indices.size();
                           for (size_t d = 0; d < place.begin.size(); ++d) {
                             PrimExpr index = place.begin[d];
                             if (d >= skip) index = index + cast(index.dtype(), op->indices[d - skip]);
                             // Equal ones may be written in another order.
                             const bool equal = d < same.size() && analyzer_.CanProveEqual(index, same[d]);
                             indices.push_back(equal ? same[d] : analyzer_.Simplify(index));
                           }
                           return BufferLoad(place.buffer, indices);
                         }).Run(Substitute(expected->value, numbers));
    if (!arith::ExprDeepEqual(actual, described)) {
      Refuse(StrCat("it computes ", AsText(actual, false), ", the intrinsic ", AsText(described, false)));
    }
  }

  [[noreturn]] void Refuse(const std::string& why) const {
    throw ScheduleError(
        StrCat("tensorize: block '", block_, "' isn't what intrinsic '", intrin_->name, "' computes: ", why));
  }

 private:
  /// Axes of the block become what stands outside plus an axis of the description.
  void MatchAxes(const BlockRealizeNode* desc, const BlockRealizeNode* inner, const std::vector<For>& loops) {
    std::vector<IterVar> wanted;
    for (const IterVar& iv : desc->block->iter_vars) {
      analyzer_.Bind(iv->var, iv->dom);
      described_.insert(iv->var.get());
      if (is_const_int(iv->dom->extent, 1))
        units_.Set(iv->var, iv->dom->min);
      else
        wanted.push_back(iv);
    }
    Map<Var, PrimExpr> at_start;
    for (const For& loop : loops) at_start.Set(loop->loop_var, loop->min);
    size_t next = 0;
    for (size_t i = 0; i < inner->iter_values.size(); ++i) {
      const IterVar& iv = inner->block->iter_vars[i];
      PrimExpr base = analyzer_.Simplify(Substitute(inner->iter_values[i], at_start));
      PrimExpr extent(int64_t{1});
      for (const For& loop : loops) {
        if (UsesLoopVar(inner->iter_values[i], loop->loop_var)) extent = extent * cast(extent.dtype(), loop->extent);
      }
      extent = analyzer_.Simplify(extent);
      if (is_one(extent)) {
        axes_.Set(iv->var, base);
        continue;
      }
      const std::string axis = iv->var->name_hint;
      if (next >= wanted.size()) {
        Refuse(StrCat("it has the further axis '", axis, "' of extent ", SizeText(extent)));
      }
      const IterVar& match = wanted[next++];
      if (match->iter_type != iv->iter_type) {
        Refuse(StrCat("axis '", axis, "' is ", Kind(iv), ", axis '", match->var->name_hint, "' of the intrinsic ",
                      Kind(match)));
      }
      MatchExtent(axis, extent, match);
      axes_.Set(iv->var, base + cast(base.dtype(), match->var));
    }
    if (next < wanted.size()) {
      Refuse(StrCat("it lacks axis '", wanted[next]->var->name_hint, "' of the intrinsic, of extent ",
                    AsText(wanted[next]->dom->extent, false)));
    }
  }
  static std::string SizeText(const PrimExpr& size) {
    const int64_t* known = AsConstInt(size);
    return known != nullptr ? StrCat(*known) : AsText(size, false);
  }
  /// The extent of an axis is that of the description's, or one that becomes its parameter.
  void MatchExtent(const std::string& axis, const PrimExpr& extent, const IterVar& match) {
    PrimExpr wanted = match->dom->extent;
    if (IsNumber(wanted)) {
      const auto number = Downcast<Var>(wanted);
      if (!numbers.Get(number)) numbers.Set(number, cast(number->dtype, extent));
      wanted = *numbers.Get(number);
    }
    if (analyzer_.CanProveEqual(wanted, cast(wanted.dtype(), extent))) return;
    Refuse(StrCat("axis '", axis, "' has extent ", SizeText(extent), ", axis '", match->var->name_hint,
                  "' of the intrinsic ", AsText(match->dom->extent, false)));
  }
  static const char* Kind(const IterVar& iv) {
    return iv->iter_type == IterVarType::kCommReduce ? "a reduction" : "data-parallel";
  }

  /// `actual`, its comparison of an axis written as in the description, whose limit becomes known by it.
  PrimExpr WithLimits(const PrimExpr& wanted, const PrimExpr& actual) {
    const LTNode* limit = nullptr;
    PostOrderVisit(wanted, [&](const ObjectRef& node) {
      const auto* less = node.as<LTNode>();
      if (less != nullptr && IsNumber(less->b)) limit = less;
    });
    if (limit == nullptr) return actual;
    const auto& number = *limit->b.as<VarNode>();
    const LTNode* found = nullptr;
    PostOrderVisit(actual, [&](const ObjectRef& node) {
      if (const auto* less = node.as<LTNode>(); less != nullptr && found == nullptr) found = less;
    });
    if (found == nullptr) Refuse(StrCat("it compares no axis with a limit, which the intrinsic does"));
    const DataType type = number.dtype;
    const PrimExpr most = analyzer_.Simplify(cast(type, found->b) - cast(type, found->a) + cast(type, limit->a));
    if (arith::UsesVar(most, [&](const VarNode* v) { return described_.count(v) != 0; })) {
      Refuse(StrCat("what it compares, ", AsText(GetRef<PrimExpr>(found), false), ", isn't an axis of the intrinsic"));
    }
    numbers.Set(GetRef<Var>(&number), most);
    const PrimExpr same = limit->a < most;
    return LimitReplacer(found, same).Run(actual);
  }
  /// Whether it is a parameter of the description that is no buffer.
  bool IsNumber(const PrimExpr& e) const {
    const auto* var = e.as<VarNode>();
    const Array<Var>& params = intrin_->desc->params;
    return var != nullptr && std::any_of(params.begin(), params.end(), [&](const Var& p) { return p.get() == var; });
  }

  Array<PrimExpr> Rewritten(const Array<PrimExpr>& indices) {
    return indices.Map([&](const PrimExpr& e) { return analyzer_.Simplify(Substitute(e, axes_)); });
  }

  void Access(const Buffer& described, const Array<PrimExpr>& wanted, const Buffer& buffer,
              const Array<PrimExpr>& indices) {
    if (described->dtype != buffer->dtype) {
      Refuse(StrCat("buffer '", buffer->name, "' has dtype ", buffer->dtype, ", ", described->name,
                    " of the intrinsic ", described->dtype));
    }
    if (indices.size() < wanted.size()) {
      Refuse(StrCat("buffer '", buffer->name, "' has ", indices.size(), " dimensions, ", described->name,
                    " of the intrinsic ", wanted.size()));
    }
    Place place{buffer, {}, {}};
    const size_t skip = indices.size() - wanted.size();
    for (size_t d = 0; d < indices.size(); ++d) {
      PrimExpr begin = indices[d];
      PrimExpr extent = make_const(begin.dtype(), 1);
      if (d >= skip) {
        begin = analyzer_.Simplify(begin - cast(begin.dtype(), Substitute(wanted[d - skip], units_)));
        extent = cast(begin.dtype(), Substitute(described->shape[d - skip], numbers));
      }
      const bool inside = arith::UsesVar(begin, [&](const VarNode* v) { return described_.count(v) != 0; });
      if (inside) {
        Refuse(StrCat("dimension ", d, " of buffer '", buffer->name, "' is indexed otherwise than ", described->name,
                      " of the intrinsic"));
      }
      place.begin.push_back(begin);
      place.extent.push_back(extent);
    }
    auto [it, first] = places.emplace(described->data.get(), place);
    bool same = it->second.buffer.same_as(buffer);
    for (size_t d = 0; same && d < place.begin.size(); ++d) {
      same = analyzer_.CanProveEqual(it->second.begin[d], place.begin[d]);
    }
    if (!same) Refuse(StrCat(described->name, " of the intrinsic would be two places"));
  }

  const TensorIntrin& intrin_;
  const std::string& block_;
  arith::Analyzer analyzer_;
  Map<Var, PrimExpr> axes_, units_;
  std::unordered_set<const Object*> described_;
};

/// Gives blocks of an implementation names of their own.
class BlockRenamer : public StmtMutator {
 public:
  explicit BlockRenamer(const ScheduleState& state) : state_(state) {}

 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const BlockNode* op) override {
    Block block = Downcast<Block>(StmtMutator::VisitStmt_(op));
    std::string name = state_.UniqueBlockName(op->name_hint);
    for (int i = 1; !used_.insert(name).second; ++i) name = state_.UniqueBlockName(StrCat(op->name_hint, "_", i));
    if (name != op->name_hint) block.CopyOnWrite()->name_hint = name;
    return block;
  }

 private:
  const ScheduleState& state_;
  std::unordered_set<std::string> used_;
};

bool TakesAddress(const Stmt& stmt, const Buffer& buffer) {
  bool found = false;
  PostOrderVisit(stmt, [&](const ObjectRef& node) {
    if (node.get() == buffer->data.get()) found = true;
    const auto* call = node.as<CallNode>();
    if (call == nullptr || !IsCallTo(call, "tir.address_of")) return;
    const auto* load = call->args[0].as<BufferLoadNode>();
    found |= load != nullptr && load->buffer.same_as(buffer);
  });
  return found;
}

/// Strides of a buffer in elements.
std::vector<PrimExpr> StridesOf(const Buffer& buffer) {
  if (!buffer->strides.empty()) return buffer->strides.ToVector();
  std::vector<PrimExpr> strides(buffer->shape.size());
  PrimExpr product = make_const(DataType::Int(32), 1);
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = product;
    product = product * cast(DataType::Int(32), buffer->shape[d]);
  }
  return strides;
}

/// The implementation on the places that were matched, as body of `outer`.
Block Implement(const ScheduleState& state, Block outer, const TensorIntrin& intrin, const PrimFunc& given,
                const Matcher& matcher) {
  PrimFunc impl = ParsePrimFunc(AsText(given), intrin->name);  // with variables of its own
  Stmt body = impl->body;
  Array<Buffer> allocs;
  if (const auto* root = body.as<BlockRealizeNode>(); root != nullptr && root->block->iter_vars.empty()) {
    allocs = root->block->alloc_buffers;
    body = BlockRenamer(state)(root->block->body);
  }
  Array<MatchBufferRegion> views;
  Map<Var, PrimExpr> values, numbers;
  for (size_t i = 0; i < intrin->desc->params.size(); ++i) {
    if (const auto number = matcher.numbers.Get(intrin->desc->params[i])) numbers.Set(impl->params[i], *number);
  }
  for (const auto& [param, number] : numbers) values.Set(param, number);
  for (size_t i = 0; i < intrin->desc->params.size(); ++i) {
    if (numbers.Get(impl->params[i])) continue;
    auto described = intrin->desc->buffer_map.Get(intrin->desc->params[i]);
    auto view = impl->buffer_map.Get(impl->params[i]);
    auto it = described ? matcher.places.find((*described)->data.get()) : matcher.places.end();
    if (!view || it == matcher.places.end()) matcher.Refuse(StrCat("parameter ", i, " of the intrinsic isn't used"));
    const Place& place = it->second;
    const size_t rank = (*view)->shape.size(), skip = place.begin.size() - rank;
    std::vector<PrimExpr> strides = StridesOf(place.buffer);
    const bool address = TakesAddress(body, *view);
    if ((*view)->strides.empty() && address) {
      // Dimensions after the first that isn't 1 must be whole.
      bool inner = false;
      for (size_t d = 0; d < place.begin.size(); ++d) {
        if (inner && !arith::Analyzer().CanProveEqual(place.extent[d], place.buffer->shape[d])) {
          matcher.Refuse(StrCat("parameter ", (*view)->name, " must be compact, but is a part of rows of buffer '",
                                place.buffer->name, "'; declare it with strides"));
        }
        inner |= !is_const_int(place.extent[d], 1);
      }
    }
    for (size_t d = 0; d < (*view)->strides.size(); ++d) {
      const PrimExpr& stride = (*view)->strides[d];
      if (const auto* var = stride.as<VarNode>()) {
        values.Set(GetRef<Var>(var), cast(var->dtype, strides[skip + d]));
      } else if (!arith::Analyzer().CanProveEqual(cast(strides[skip + d].dtype(), stride), strides[skip + d])) {
        matcher.Refuse(StrCat("stride ", d, " of parameter ", (*view)->name, " must be ", AsText(stride, false),
                              "; that of buffer '", place.buffer->name, "' is ", AsText(strides[skip + d], false)));
      }
    }
    if ((*view)->elem_offset.defined()) {
      if (const auto* var = (*view)->elem_offset.as<VarNode>()) {
        PrimExpr offset = make_zero(var->dtype);
        for (size_t d = 0; d < place.begin.size(); ++d) {
          offset = offset + cast(var->dtype, place.begin[d]) * cast(var->dtype, strides[d]);
        }
        values.Set(GetRef<Var>(var), offset);
      }
    }
    Array<Range> region;
    for (size_t d = 0; d < place.begin.size(); ++d) {
      region.push_back(Range::FromMinExtent(place.begin[d], place.extent[d]));
    }
    // As a view it is addressed through its source.
    const Array<PrimExpr> shape = (*view)->shape.Map([&](const PrimExpr& e) { return Substitute(e, numbers); });
    Buffer plain((*view)->data, (*view)->dtype, shape, {}, PrimExpr(ObjectPtr<Object>()), (*view)->name);
    Map<Buffer, Buffer> replacement;
    replacement.Set(*view, plain);
    body = ReplaceBuffers(body, replacement);
    views.push_back(MatchBufferRegion(plain, BufferRegion(place.buffer, region)));
  }
  BlockNode* node = outer.CopyOnWrite();
  node->body = Substitute(body, values);
  node->match_buffers = views;
  node->alloc_buffers = allocs;
  return outer;
}

}  // namespace

void Tensorize(ScheduleState& state, const Var& loop_var, const TensorIntrin& intrin) {
  ScheduleState work = state;
  const std::string name = Blockize(work, loop_var);
  PlacedBlock placed = work.FindBlock(name);
  const Block outer = placed.realize->block;
  std::vector<For> loops;
  Stmt at = outer->body;
  while (at.as<ForNode>()) {
    loops.push_back(Downcast<For>(at));
    at = loops.back()->body;
  }
  const auto* inner = at.as<BlockRealizeNode>();
  TREADLE_ICHECK(inner != nullptr) << "blockize gave no block";
  Matcher matcher(intrin, inner->block->name_hint);
  const Block desc = DescribedBlock(intrin->desc)->block;
  if (desc->init.defined() != (inner->block->init.defined() || outer->init.defined()) && desc->init.defined() &&
      !intrin->update.defined()) {
    matcher.Refuse("its initialisation stands elsewhere, and the intrinsic has no form that updates");
  }
  if (!desc->init.defined() && (inner->block->init.defined() || outer->init.defined())) {
    matcher.Refuse("the intrinsic only updates; move the initialisation out with decompose_reduction");
  }
  if (desc->init.defined() && inner->block->init.defined()) {
    const auto* wanted = desc->init.as<BufferStoreNode>();
    const auto* found = inner->block->init.as<BufferStoreNode>();
    if (wanted == nullptr || found == nullptr || !arith::ExprDeepEqual(wanted->value, found->value)) {
      matcher.Refuse("its initial value differs");
    }
  }
  matcher.Run(inner, loops);
  const bool whole = inner->block->init.defined() || !desc->init.defined();
  PrimFunc impl = whole && intrin->body.defined() ? intrin->body : intrin->update;
  if (!impl.defined() || (whole && !intrin->body.defined() && inner->block->init.defined())) {
    throw ScheduleError(
        StrCat("tensorize: intrinsic '", intrin->name, "' has no form that ",
               whole ? "computes the whole result"
                     : "updates a result, which loops around block '" + inner->block->name_hint + "' need"));
  }
  Block replaced = Implement(work, outer, intrin, impl, matcher);
  // What is asked of the results' storage stays.
  if (const auto align = inner->block->annotations.Get(attr::kStorageAlignment)) {
    replaced.CopyOnWrite()->annotations.Set(attr::kStorageAlignment, *align);
  }
  work.Replace(placed.path, BlockRealize(placed.realize->iter_values, placed.realize->predicate, replaced));
  state = work;
}

}  // namespace primitive

}  // namespace treadle::tir
