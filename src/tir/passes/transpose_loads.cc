// SPDX-License-Identifier: Apache-2.0
// Loads of columns become loads of rows. Where four stores in a row need vectors of elements at the same distance, the
// first elements of which are neighbours, what they read are rows of four: those are loaded as they lie in memory and
// transposed in registers, two shuffles per vector. Layout transforms and transposes are made of such loads. Of smaller
// elements rows fill 128 bits where there are as many stores: of sixteen bytes, with four shuffles per vector.
#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tir/passes/pass_util.h"
#include "tir/passes/strided_access.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

constexpr int64_t kRow = 4;          // elements that are loaded at once
constexpr int kRowBits = 128;        // what rows of smaller elements fill
constexpr int64_t kLeastStride = 5;  // nearer ones: CoalesceStridedAccess

using Picked = std::array<int64_t, kRow>;

/// A load of elements at the same distance.
struct Column {
  const BufferLoadNode* load;
  const RampNode* ramp;
};

/// Such loads in an expression, but for those under masks and conditions, where there may be nothing to load, and for
/// those whose place only a Let around them knows.
class ColumnCollector : public SharedExprVisitor {
 public:
  std::vector<Column> found;
  void Collect(const PrimExpr& e) { VisitExpr(e); }

 protected:
  using SharedExprVisitor::VisitExpr;
  using SharedExprVisitor::VisitExpr_;
  void VisitExpr_(const CallNode* op) override {
    const bool masked = IsCallTo(op, "tir.if_then_else") || IsCallTo(op, "tir.masked_load") ||
                        IsCallTo(op, "tir.masked_store") || IsCallTo(op, "tir.address_of");
    if (!masked) SharedExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const LetNode* op) override {
    bound_.insert(op->var.get());
    SharedExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    const auto* ramp = op->indices.size() == 1 ? op->indices[0].as<RampNode>() : nullptr;
    const DataType t = op->buffer->dtype;
    const int bits = t.bits();
    if (ramp == nullptr || !t.is_scalar() || (bits != 32 && bits != 16 && bits != 8)) return;
    // A distance that only a run knows may be short, too: the same elements are read.
    const int64_t* stride = AsConstInt(ramp->stride);
    if (stride != nullptr && *stride < kLeastStride) return;
    if (arith::ReadsData(ramp->base) || arith::ReadsData(ramp->stride)) return;
    if (UsesAnyVar(ramp->base, bound_) || UsesAnyVar(ramp->stride, bound_)) return;
    constexpr int kVectorBits = 512;
    const int lanes = ramp->lanes, fewest = bits == 8 ? 8 : 4, most = kVectorBits / bits;
    if (lanes >= fewest && lanes <= most && (lanes & (lanes - 1)) == 0) found.push_back({op, ramp});
  }

 private:
  std::unordered_set<const Object*> bound_;
};

/// Columns of one buffer, their distances from the first.
struct Group {
  Column first;
  std::map<int64_t, std::vector<const BufferLoadNode*>> columns;
};

class LoadReplacer : public FoldingMutator {
 public:
  std::unordered_map<const Object*, Var> values;

 protected:
  using FoldingMutator::VisitExpr_;
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    auto it = values.find(op);
    return it != values.end() ? PrimExpr(it->second) : FoldingMutator::VisitExpr_(op);
  }
};

class LoadTransposer : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }
  Stmt VisitStmt_(const SeqStmtNode* op) override {
    std::vector<Group> groups;
    ColumnCollector collector;
    for (const Stmt& stmt : op->seq) {
      const auto* store = stmt.as<BufferStoreNode>();
      if (store == nullptr) return StmtExprMutator::VisitStmt_(op);
      collector.Collect(store->value);
    }
    for (const Column& column : collector.found) Add(column, &groups);
    bindings_.clear();
    LoadReplacer replacer;
    for (const Group& group : groups) {
      const bool written = std::any_of(op->seq.begin(), op->seq.end(), [&](const Stmt& stmt) {
        return stmt.as<BufferStoreNode>()->buffer->data.same_as(group.first.load->buffer->data);
      });
      if (!written) Replace(group, &replacer);
    }
    if (bindings_.empty()) return TransposedUnderCondition(op);
    Stmt body = replacer.Rewrite(GetRef<Stmt>(op));
    for (size_t i = bindings_.size(); i-- > 0;) body = LetStmt(bindings_[i].first, bindings_[i].second, body);
    return body;
  }

 private:
  static void Add(const Column& column, std::vector<Group>* groups) {
    for (Group& group : *groups) {
      const Column& first = group.first;
      if (!first.load->buffer->data.same_as(column.load->buffer->data) || first.ramp->lanes != column.ramp->lanes ||
          !arith::ExprDeepEqual(first.ramp->stride, column.ramp->stride)) {
        continue;
      }
      arith::Analyzer analyzer;
      if (auto distance = analyzer.ConstDifference(column.ramp->base, first.ramp->base)) {
        group.columns[*distance].push_back(column.load);
        return;
      }
    }
    groups->push_back({column, {{0, {column.load}}}});
  }

  /// Stores of values under one condition, as where operands are joined, as stores under it whose columns are rows.
  Stmt TransposedUnderCondition(const SeqStmtNode* op) {
    Stmt same = GetRef<Stmt>(op);
    PrimExpr condition{ObjectPtr<Object>()};
    Array<Stmt> yes, no;
    for (const Stmt& stmt : op->seq) {
      const auto* store = stmt.as<BufferStoreNode>();
      const auto* choice = store->value.as<CallNode>();
      if (choice == nullptr || !IsCallTo(choice, "tir.if_then_else") || choice->args[0].dtype().is_vector())
        return same;
      if (!condition.defined()) condition = choice->args[0];
      if (!arith::ExprDeepEqual(condition, choice->args[0])) return same;
      yes.push_back(BufferStore(store->buffer, choice->args[1], store->indices, store->span));
      no.push_back(BufferStore(store->buffer, choice->args[2], store->indices, store->span));
    }
    if (arith::ReadsData(condition)) return same;
    const Stmt given[] = {SeqStmt(yes), SeqStmt(no)};
    const Stmt made[] = {VisitStmt(given[0]), VisitStmt(given[1])};
    if (made[0].same_as(given[0]) && made[1].same_as(given[1])) return same;
    return IfThenElse(condition, made[0], made[1]);
  }

  Var Bind(const char* name, const PrimExpr& value) {
    Var var(name, value.dtype());
    bindings_.emplace_back(var, value);
    return var;
  }

  /// Columns in runs that fill 128 bits, or of four.
  void Replace(const Group& group, LoadReplacer* replacer) {
    std::vector<int64_t> run;
    const auto replace = [&](size_t begin, const std::vector<Var>& columns) {
      for (size_t i = 0; i < columns.size(); ++i) {
        for (const BufferLoadNode* load : group.columns.at(run[begin + i])) replacer->values.emplace(load, columns[i]);
      }
    };
    const auto finish = [&] {
      const int64_t* stride = AsConstInt(group.first.ramp->stride);
      const int64_t row = kRowBits / group.first.load->buffer->dtype.bits();
      const bool small = row > kRow && group.first.ramp->lanes % row == 0 && (stride == nullptr || *stride >= row);
      size_t done = 0;
      for (; small && done + row <= run.size(); done += row)
        replace(done, TransposedSmall(group.first, run[done], row));
      for (; done + kRow <= run.size(); done += kRow) replace(done, Transposed(group.first, run[done]));
      run.clear();
    };
    for (const auto& [distance, loads] : group.columns) {
      if (!run.empty() && distance != run.back() + 1) finish();
      run.push_back(distance);
    }
    finish();
  }

  static PrimExpr Pick(const PrimExpr& a, const PrimExpr& b, int64_t lanes, const Picked& of_four) {
    Array<PrimExpr> picked;
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t from = of_four[static_cast<size_t>(i % kRow)];
      picked.push_back(PrimExpr(static_cast<int32_t>(from / kRow * lanes + i / kRow * kRow + from % kRow)));
    }
    return Shuffle({a, b}, picked);
  }

  /// Rows `first`, `first` + `row`, .. of `row` elements below each other.
  PrimExpr Rows(const Column& column, int64_t begin, int64_t first, int64_t count, int64_t row) {
    if (count == 1) {
      const DataType type = column.ramp->base.dtype();
      const int64_t* stride = AsConstInt(column.ramp->stride);
      const PrimExpr below = stride != nullptr
                                 ? make_const(type, begin + first * *stride)
                                 : column.ramp->stride * make_const(type, first) + make_const(type, begin);
      const PrimExpr base = column.ramp->base + below;
      return BufferLoad(column.load->buffer, {Ramp(base, make_const(type, 1), static_cast<int>(row))},
                        column.load->span);
    }
    PrimExpr low = Rows(column, begin, first, count / 2, row),
             high = Rows(column, begin, first + row * count / 2, count / 2, row);
    Array<PrimExpr> all;
    for (int64_t i = 0; i < row * count; ++i) all.push_back(PrimExpr(static_cast<int32_t>(i)));
    return Shuffle({low, high}, all);
  }

  std::vector<Var> Transposed(const Column& column, int64_t begin) {
    const int64_t lanes = column.ramp->lanes;
    std::vector<Var> rows;
    for (int64_t k = 0; k < kRow; ++k) rows.push_back(Bind("rows", Rows(column, begin, k, lanes / kRow, kRow)));
    // Indices among four elements of one vector and four of another.
    const Picked low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5}, second = {2, 3, 6, 7};
    std::vector<Var> result;
    for (const Picked& half : {low, high}) {
      Var upper = Bind("pairs", Pick(rows[0], rows[1], lanes, half));
      Var lower = Bind("pairs", Pick(rows[2], rows[3], lanes, half));
      result.push_back(Bind("column", Pick(upper, lower, lanes, first)));
      result.push_back(Bind("column", Pick(upper, lower, lanes, second)));
    }
    return result;
  }

  /// Each step puts the elements of two vectors side by side, within 128 bits; in the end columns are together.
  std::vector<Var> TransposedSmall(const Column& column, int64_t begin, int64_t row) {
    const int64_t lanes = column.ramp->lanes, pairs = row / 2;
    std::vector<Var> vectors;
    for (int64_t k = 0; k < row; ++k) vectors.push_back(Bind("rows", Rows(column, begin, k, lanes / row, row)));
    for (int64_t step = 1; step < row; step *= 2) {
      std::vector<Var> next;
      for (int64_t i = 0; i < row; ++i) {  // the lower and the upper halves of each pair
        Array<PrimExpr> picked;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const int64_t within = lane % row, at = lane - within + i % 2 * pairs + within / 2;
          picked.push_back(PrimExpr(static_cast<int32_t>(within % 2 * lanes + at)));
        }
        const auto first = static_cast<size_t>(i / 2), second = static_cast<size_t>(i / 2 + pairs);
        next.push_back(Bind("column", Shuffle({vectors[first], vectors[second]}, picked)));
      }
      vectors = std::move(next);
    }
    return vectors;
  }

  std::vector<std::pair<Var, PrimExpr>> bindings_;
};

}  // namespace

PrimFunc TransposeLoads(PrimFunc func, const LowerConfig&) {
  Stmt body = LoadTransposer().Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
