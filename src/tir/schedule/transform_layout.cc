// SPDX-License-Identifier: Apache-2.0
// Transform layout: an intermediate buffer's elements are stored in another order, or with other dimensions.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "tir/block_access.h"
#include "tir/schedule/primitives.h"
#include "treadle/tir/text.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "transform_layout";
/// Maps are tried out on up to this many elements.
constexpr int64_t kMaxElements = 1 << 20;

/// Value of an index expression; null where it has other parts than index arithmetic.
std::optional<int64_t> Evaluate(const PrimExpr& e, const std::unordered_map<const Object*, int64_t>& values) {
  if (const int64_t* constant = AsConstInt(e)) return *constant;
  if (const auto* var = e.as<VarNode>()) {
    auto it = values.find(var);
    return it == values.end() ? std::nullopt : std::optional<int64_t>(it->second);
  }
  if (const auto* op = e.as<CastNode>()) return Evaluate(op->value, values);
  auto binary = [&](const auto* op, auto apply) -> std::optional<int64_t> {
    std::optional<int64_t> a = Evaluate(op->a, values), b = Evaluate(op->b, values);
    if (!a || !b) return std::nullopt;
    return apply(*a, *b);
  };
  using Result = std::optional<int64_t>;
  auto floor_quotient = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); };
  if (const auto* op = e.as<AddNode>()) return binary(op, [](int64_t a, int64_t b) -> Result { return a + b; });
  if (const auto* op = e.as<SubNode>()) return binary(op, [](int64_t a, int64_t b) -> Result { return a - b; });
  if (const auto* op = e.as<MulNode>()) return binary(op, [](int64_t a, int64_t b) -> Result { return a * b; });
  if (const auto* op = e.as<FloorDivNode>()) {
    return binary(op, [&](int64_t a, int64_t b) { return b == 0 ? Result() : Result(floor_quotient(a, b)); });
  }
  if (const auto* op = e.as<FloorModNode>()) {
    return binary(op, [&](int64_t a, int64_t b) { return b == 0 ? Result() : Result(a - floor_quotient(a, b) * b); });
  }
  if (const auto* op = e.as<DivNode>()) {
    return binary(op, [](int64_t a, int64_t b) { return b == 0 ? Result() : Result(a / b); });
  }
  if (const auto* op = e.as<ModNode>()) {
    return binary(op, [](int64_t a, int64_t b) { return b == 0 ? Result() : Result(a % b); });
  }
  return std::nullopt;
}

class LayoutChange {
 public:
  LayoutChange(const Buffer& buffer, std::vector<Var> vars, std::vector<PrimExpr> indices)
      : buffer_(buffer), vars_(std::move(vars)), indices_(std::move(indices)) {}

  /// The new buffer. Throws where two elements would share a place, or that can't be told.
  Buffer Check() {
    if (vars_.size() != buffer_->shape.size()) {
      throw ScheduleError(StrCat(kName, ": the map takes ", vars_.size(), " indices; buffer '", buffer_->name, "' has ",
                                 buffer_->shape.size(), " dimensions"));
    }
    if (indices_.empty()) throw ScheduleError(StrCat(kName, ": the map of buffer '", buffer_->name, "' is empty"));
    arith::Analyzer analyzer;
    for (size_t i = 0; i < vars_.size(); ++i) analyzer.Bind(vars_[i], Range(cast(vars_[i].dtype(), buffer_->shape[i])));
    Array<PrimExpr> shape;
    auto domain = [&](const Var& var) -> std::optional<arith::IntSet> {
      for (size_t i = 0; i < vars_.size(); ++i) {
        if (vars_[i].same_as(var)) return arith::IntSet::FromRange(Range(cast(var.dtype(), buffer_->shape[i])));
      }
      return std::nullopt;
    };
    for (size_t d = 0; d < indices_.size(); ++d) {
      if (!indices_[d].dtype().is_integral()) {
        throw ScheduleError(StrCat(kName, ": index ", d, " of the map has dtype ", indices_[d].dtype()));
      }
      arith::IntSet set = analyzer.EvalSet(indices_[d], domain);
      if (!set.is_bounded() || !analyzer.CanProveNonNegative(set.min)) {
        throw ScheduleError(StrCat(kName, ": index ", d, " of the map, ", AsText(indices_[d], false), ", of buffer '",
                                   buffer_->name, "' may be negative or has no bound"));
      }
      shape.push_back(analyzer.Simplify(set.max + 1));
    }
    CheckOneToOne();
    return DeclBuffer(shape, buffer_->dtype, buffer_->name, buffer_.scope());
  }

  Array<PrimExpr> Map(const Array<PrimExpr>& indices) const {
    treadle::Map<Var, PrimExpr> vmap;
    for (size_t i = 0; i < vars_.size(); ++i) vmap.Set(vars_[i], cast(vars_[i].dtype(), indices[i]));
    arith::Analyzer analyzer;
    Array<PrimExpr> result;
    for (const PrimExpr& e : indices_) result.push_back(analyzer.Simplify(Substitute(e, vmap)));
    return result;
  }

 private:
  /// Dimensions that no new index mixes are looked at apart.
  void CheckOneToOne() const {
    std::vector<size_t> group(vars_.size());
    for (size_t i = 0; i < group.size(); ++i) group[i] = i;
    auto uses = [&](size_t d, size_t i) { return UsesLoopVar(indices_[d], vars_[i]); };
    for (size_t d = 0; d < indices_.size(); ++d) {
      size_t first = vars_.size();
      for (size_t i = 0; i < vars_.size(); ++i) {
        if (!uses(d, i)) continue;
        if (first == vars_.size()) {
          first = i;
          continue;
        }
        const size_t from = group[i], to = group[first];
        for (size_t& g : group) {
          if (g == from) g = to;
        }
      }
    }
    for (size_t g = 0; g < vars_.size(); ++g) {
      std::vector<size_t> members, outputs;
      for (size_t i = 0; i < vars_.size(); ++i) {
        if (group[i] == g) members.push_back(i);
      }
      if (members.empty()) continue;
      for (size_t d = 0; d < indices_.size(); ++d) {
        bool used = false;
        for (size_t i : members) used |= uses(d, i);
        if (used) outputs.push_back(d);
      }
      CheckGroup(members, outputs);
    }
  }

  /// Whether quotient and remainder of a variable by one constant are among the indices: they tell its value, however
  /// many it has.
  bool HasTileAndPlace(const Var& var, const std::vector<size_t>& outputs) const {
    std::set<int64_t> quotients, remainders;
    auto add = [&](const auto* op, std::set<int64_t>* divisors) {
      if (op == nullptr || !op->a.same_as(var)) return;
      if (const int64_t* c = AsConstInt(op->b); c != nullptr && *c > 0) divisors->insert(*c);
    };
    for (size_t d : outputs) {
      add(indices_[d].as<FloorDivNode>(), &quotients);
      add(indices_[d].as<FloorModNode>(), &remainders);
    }
    return std::any_of(quotients.begin(), quotients.end(), [&](int64_t c) { return remainders.count(c) != 0; });
  }

  void CheckGroup(const std::vector<size_t>& members, const std::vector<size_t>& outputs) const {
    if (members.size() == 1) {
      if (is_const_int(buffer_->shape[members[0]], 1)) return;
      for (size_t d : outputs) {
        if (indices_[d].same_as(vars_[members[0]])) return;
      }
      if (HasTileAndPlace(vars_[members[0]], outputs)) return;
    }
    int64_t count = 1;
    for (size_t i : members) {
      const int64_t* extent = AsConstInt(buffer_->shape[i]);
      if (extent == nullptr || *extent < 0 || __builtin_mul_overflow(count, *extent, &count) || count > kMaxElements) {
        throw ScheduleError(StrCat(kName, ": can't tell whether the map keeps elements of buffer '", buffer_->name,
                                   "' apart along dimension ", i, ", whose extent is ",
                                   AsText(buffer_->shape[i], false)));
      }
    }
    std::set<std::vector<int64_t>> places;
    std::unordered_map<const Object*, int64_t> values;
    for (int64_t n = 0; n < count; ++n) {
      int64_t rest = n;
      for (size_t k = members.size(); k-- > 0;) {
        const int64_t extent = *AsConstInt(buffer_->shape[members[k]]);
        values[vars_[members[k]].get()] = rest % extent;
        rest /= extent;
      }
      std::vector<int64_t> place;
      for (size_t d : outputs) {
        std::optional<int64_t> value = Evaluate(indices_[d], values);
        if (!value) {
          throw ScheduleError(
              StrCat(kName, ": index ", d, " of the map, ", AsText(indices_[d], false), ", isn't index arithmetic"));
        }
        place.push_back(*value);
      }
      if (!places.insert(place).second) {
        throw ScheduleError(StrCat(kName, ": the map puts several elements of buffer '", buffer_->name,
                                   "' in one place; it must keep them apart"));
      }
    }
  }

  const Buffer& buffer_;
  std::vector<Var> vars_;
  std::vector<PrimExpr> indices_;
};

class LayoutRewriter : public StmtExprMutator {
 public:
  LayoutRewriter(const Buffer& from, const Buffer& to, const LayoutChange& change)
      : from_(from), to_(to), change_(change) {}
  Stmt Run(const Stmt& stmt) { return VisitStmt(stmt); }

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr_(const VarNode* op) override {
    if (op == from_->data.get()) Refuse("its pointer is used");
    return GetRef<PrimExpr>(op);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr load = StmtExprMutator::VisitExpr_(op);
    if (!op->buffer.same_as(from_)) return load;
    return BufferLoad(to_, change_.Map(load.as<BufferLoadNode>()->indices), op->span);
  }
  PrimExpr VisitExpr_(const CallNode* op) override {
    for (const PrimExpr& arg : op->args) {
      const auto* load = arg.as<BufferLoadNode>();
      if (load != nullptr && load->buffer.same_as(from_) && IsCallTo(op, "tir.address_of")) {
        Refuse("the address of an element is taken");
      }
    }
    return StmtExprMutator::VisitExpr_(op);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    if (!op->buffer.same_as(from_)) return stmt;
    const auto* store = stmt.as<BufferStoreNode>();
    return BufferStore(to_, store->value, change_.Map(store->indices), op->span);
  }
  Stmt VisitStmt_(const BlockNode* op) override {
    for (const MatchBufferRegion& match : op->match_buffers) {
      if (match->source->buffer.same_as(from_)) Refuse(StrCat("block '", op->name_hint, "' has a view of it"));
    }
    Array<Buffer> allocs = op->alloc_buffers.Map([&](const Buffer& b) { return b.same_as(from_) ? to_ : b; });
    Stmt body = VisitStmt(op->body);
    Stmt init = op->init.defined() ? VisitStmt(op->init) : Stmt();
    if (body.same_as(op->body) && init.same_as(op->init) && allocs.same_as(op->alloc_buffers)) return GetRef<Stmt>(op);
    Block block = GetRef<Block>(op);
    BlockNode* node = block.CopyOnWrite();
    node->alloc_buffers = allocs;
    node->body = body;
    node->init = init;
    if (op->iter_vars.empty() && op->reads.empty() && op->writes.empty()) return block;  // the root
    return WithDetectedAccess(block);
  }

 private:
  [[noreturn]] void Refuse(const std::string& why) const {
    throw ScheduleError(StrCat(kName, ": buffer '", from_->name, "': ", why, ", which needs the layout as it is"));
  }
  const Buffer& from_;
  const Buffer& to_;
  const LayoutChange& change_;
};

}  // namespace

void TransformLayout(ScheduleState& state, const std::string& name, bool is_write, int index,
                     const std::vector<Var>& vars, const std::vector<PrimExpr>& indices) {
  PlacedBlock placed = state.FindBlock(name);
  Buffer buffer = BufferAt(placed.block(), is_write, index, kName);
  if (state.IsParameter(buffer)) {
    throw ScheduleError(StrCat(kName, ": buffer '", buffer->name, "' of block '", name,
                               "' is a parameter of the function, whose layout is the caller's; cache it first"));
  }
  LayoutChange change(buffer, vars, indices);
  Buffer changed = change.Check();
  state.SetBody(LayoutRewriter(buffer, changed, change).Run(state.func()->body));
}

}  // namespace treadle::tir::primitive
