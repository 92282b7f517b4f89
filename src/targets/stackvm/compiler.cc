// SPDX-License-Identifier: Apache-2.0
// From TIR, schedulable or low-level, to the interpreter's bytecode.
#include <algorithm>
#include <bit>
#include <utility>

#include "targets/stackvm/program.h"
#include "targets/stackvm/stackvm.h"
#include "tir/passes/argument_table.h"
#include "tir/passes/passes.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/byte_ops.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/tile_ops.h"

namespace treadle::targets {
namespace {

using tir::Buffer;
using tir::Stmt;
using tir::Var;

/// The registers of a value, one per lane.
using Lanes = std::vector<int32_t>;

class VmCompiler : public tir::ExprFunctor<Lanes(const PrimExpr&)>, public tir::StmtFunctor<void(const Stmt&)> {
 public:
  VmProgram Compile(const tir::PrimFunc& func);

 protected:
  using ExprBase = tir::ExprFunctor<Lanes(const PrimExpr&)>;
  using StmtBase = tir::StmtFunctor<void(const Stmt&)>;

  /// Values computed on the way to the present position, and those of Lets around it.
  using Memo = std::unordered_map<const Object*, Lanes>;

  struct View {
    Buffer source;
    std::vector<int32_t> begin;
    size_t skipped = 0;
  };

  Lanes VisitExpr(const PrimExpr& e) override {
    if (e.as<tir::VarNode>() || e->use_count() <= 1) return ExprBase::VisitExpr(e);
    for (auto memo = memos_.rbegin(); memo != memos_.rend(); ++memo) {
      if (auto it = memo->find(e.get()); it != memo->end()) return it->second;
    }
    Lanes value = ExprBase::VisitExpr(e);
    memos_.back()[e.get()] = value;
    known_.push_back(e);
    return value;
  }

  Lanes VisitExpr_(const tir::VarNode* op) override {
    auto it = vars_.find(op);
    if (it == vars_.end()) throw Error(StrCat("variable ", op->name_hint, " has no value in ", program_.name));
    return it->second;
  }
  Lanes VisitExpr_(const tir::IterVarNode* op) override { return VisitExpr(op->var); }
  Lanes VisitExpr_(const IntImmNode* op) override { return {Constant(static_cast<uint64_t>(op->value))}; }
  Lanes VisitExpr_(const FloatImmNode* op) override { return {Constant(std::bit_cast<uint64_t>(op->value))}; }
  Lanes VisitExpr_(const tir::CastNode* op) override {
    return Map1(op->value, [&](int32_t a) { return Convert(a, op->value.dtype(), op->dtype); });
  }

  template <typename Node>
  Lanes Arithmetic(const Node* op, VmOp int_op, VmOp float_op) {
    return Binary(op->a, op->b, op->a.dtype().is_floating() ? float_op : int_op, op->dtype);
  }
  Lanes VisitExpr_(const tir::AddNode* op) override { return Arithmetic(op, VmOp::kAddI, VmOp::kAddF); }
  Lanes VisitExpr_(const tir::SubNode* op) override { return Arithmetic(op, VmOp::kSubI, VmOp::kSubF); }
  Lanes VisitExpr_(const tir::MulNode* op) override { return Arithmetic(op, VmOp::kMulI, VmOp::kMulF); }
  Lanes VisitExpr_(const tir::DivNode* op) override { return Arithmetic(op, VmOp::kDivI, VmOp::kDivF); }
  Lanes VisitExpr_(const tir::ModNode* op) override { return Arithmetic(op, VmOp::kModI, VmOp::kModI); }
  Lanes VisitExpr_(const tir::FloorDivNode* op) override { return Arithmetic(op, VmOp::kFloorDivI, VmOp::kDivF); }
  Lanes VisitExpr_(const tir::FloorModNode* op) override { return Arithmetic(op, VmOp::kFloorModI, VmOp::kFloorModI); }
  Lanes VisitExpr_(const tir::MinNode* op) override { return Arithmetic(op, VmOp::kMinI, VmOp::kMinF); }
  Lanes VisitExpr_(const tir::MaxNode* op) override { return Arithmetic(op, VmOp::kMaxI, VmOp::kMaxF); }

  Lanes Compare(const PrimExpr& a, const PrimExpr& b, VmOp signed_op, VmOp unsigned_op, VmOp float_op) {
    const DataType t = a.dtype();
    return Binary(a, b, t.is_floating() ? float_op : t.is_uint() ? unsigned_op : signed_op, DataType::Bool());
  }
  Lanes VisitExpr_(const tir::EQNode* op) override { return Compare(op->a, op->b, VmOp::kEqI, VmOp::kEqI, VmOp::kEqF); }
  Lanes VisitExpr_(const tir::NENode* op) override { return Compare(op->a, op->b, VmOp::kNeI, VmOp::kNeI, VmOp::kNeF); }
  Lanes VisitExpr_(const tir::LTNode* op) override { return Compare(op->a, op->b, VmOp::kLtI, VmOp::kLtU, VmOp::kLtF); }
  Lanes VisitExpr_(const tir::LENode* op) override { return Compare(op->a, op->b, VmOp::kLeI, VmOp::kLeU, VmOp::kLeF); }
  Lanes VisitExpr_(const tir::GTNode* op) override { return Compare(op->b, op->a, VmOp::kLtI, VmOp::kLtU, VmOp::kLtF); }
  Lanes VisitExpr_(const tir::GENode* op) override { return Compare(op->b, op->a, VmOp::kLeI, VmOp::kLeU, VmOp::kLeF); }
  Lanes VisitExpr_(const tir::AndNode* op) override { return ShortCircuit(op->a, op->b, true); }
  Lanes VisitExpr_(const tir::OrNode* op) override { return ShortCircuit(op->a, op->b, false); }
  Lanes VisitExpr_(const tir::NotNode* op) override {
    return Map1(op->a, [&](int32_t a) { return Emit(VmOp::kNot, DataType::Bool(), a); });
  }
  Lanes VisitExpr_(const tir::SelectNode* op) override {
    Lanes c = VisitExpr(op->condition), x = VisitExpr(op->true_value), y = VisitExpr(op->false_value);
    Lanes result;
    for (size_t i = 0; i < x.size(); ++i) {
      result.push_back(Emit(VmOp::kSelect, op->dtype, c[c.size() == 1 ? 0 : i], x[i], y[i]));
    }
    return result;
  }
  Lanes VisitExpr_(const tir::RampNode* op) override {
    int32_t value = VisitExpr(op->base)[0];
    const int32_t stride = VisitExpr(op->stride)[0];
    Lanes result{value};
    while (static_cast<int>(result.size()) < op->lanes) {
      value = Emit(VmOp::kAddI, op->dtype, value, stride);
      result.push_back(value);
    }
    return result;
  }
  Lanes VisitExpr_(const tir::BroadcastNode* op) override {
    return Lanes(static_cast<size_t>(op->lanes), VisitExpr(op->value)[0]);
  }
  Lanes VisitExpr_(const tir::ShuffleNode* op) override {
    Lanes all, result;
    for (const PrimExpr& e : op->vectors) {
      Lanes lanes = VisitExpr(e);
      all.insert(all.end(), lanes.begin(), lanes.end());
    }
    for (const PrimExpr& e : op->indices)
      result.push_back(all.at(static_cast<size_t>(tir::as_int(e, "shuffle index"))));
    return result;
  }
  Lanes VisitExpr_(const tir::LetNode* op) override {
    Lanes value = VisitExpr(op->value);
    // What was computed under another Let of the variable in this statement is of no use here.
    const bool again = std::any_of(memos_.begin(), memos_.end(), [&](const Memo& m) { return m.count(op->var.get()); });
    std::vector<Memo> outer;
    if (again) outer = std::exchange(memos_, {{}});
    vars_[op->var.get()] = memos_.back()[op->var.get()] = std::move(value);
    Lanes result = VisitExpr(op->body);
    if (again) memos_ = std::move(outer);
    return result;
  }
  Lanes VisitExpr_(const tir::CallNode* op) override;
  Lanes VisitExpr_(const tir::BufferLoadNode* op) override {
    Lanes result;
    for (int32_t element : Elements(op->buffer, op->indices)) {
      result.push_back(Emit(VmOp::kLoad, op->dtype, BufferId(op->buffer), element));
    }
    return result;
  }

  void VisitStmt_(const tir::LetStmtNode* op) override {
    InScope([&] { vars_[op->var.get()] = Keep(VisitExpr(op->value)); });
    StmtBase::VisitStmt(op->body);
  }
  void VisitStmt_(const tir::AttrStmtNode* op) override { StmtBase::VisitStmt(op->body); }
  void VisitStmt_(const tir::AssertStmtNode* op) override {
    InScope([&] {
      const auto* text = op->message.as<tir::StringImmNode>();
      const int32_t condition = VisitExpr(op->condition)[0];
      Put({VmOp::kAssert, 0, 0, 0, 0, condition, Message(text != nullptr ? text->value : "assertion failed"), 0});
    });
    StmtBase::VisitStmt(op->body);
  }
  void VisitStmt_(const tir::BufferStoreNode* op) override {
    InScope([&] {
      Lanes value = VisitExpr(op->value);
      std::vector<int32_t> elements = Elements(op->buffer, op->indices);
      const int32_t id = BufferId(op->buffer);
      for (size_t i = 0; i < elements.size(); ++i) {
        Put({VmOp::kStore, 0, 0, 0, 0, id, elements[i], value[value.size() == 1 ? 0 : i]});
      }
    });
  }
  void VisitStmt_(const tir::AllocateNode* op) override {
    Allocate(op->buffer);
    StmtBase::VisitStmt(op->body);
  }
  void VisitStmt_(const tir::SeqStmtNode* op) override {
    for (const Stmt& stmt : op->seq) StmtBase::VisitStmt(stmt);
  }
  void VisitStmt_(const tir::IfThenElseNode* op) override {
    int32_t condition = 0;
    InScope([&] { condition = Keep(VisitExpr(op->condition))[0]; });
    const size_t to_else = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, condition, 0, 0});
    StmtBase::VisitStmt(op->then_case);
    if (!op->else_case.defined()) {
      code_->at(to_else).b = Here();
      return;
    }
    const size_t to_end = Put({VmOp::kJump, 0, 0, 0, 0, 0, 0, 0});
    code_->at(to_else).b = Here();
    StmtBase::VisitStmt(op->else_case);
    code_->at(to_end).a = Here();
  }
  void VisitStmt_(const tir::EvaluateNode* op) override {
    if (op->value.as<IntImmNode>()) return;
    if (const auto* call = op->value.as<tir::CallNode>()) {
      if (const auto tiles = tir::TileProductOf(call)) return StmtBase::VisitStmt(tir::ExpandTileProduct(*tiles));
    }
    InScope([&] { VisitExpr(op->value); });
  }
  void VisitStmt_(const tir::ForNode* op) override {
    int32_t index = NewRegister(), end = NewRegister(), one = NewRegister();
    pinned_ = next_;
    InScope([&] {
      const int32_t min = VisitExpr(op->min)[0];
      const int32_t extent = VisitExpr(op->extent)[0];
      Put({VmOp::kMove, 0, 0, 0, index, min, 0, 0});
      Put({VmOp::kAddI, DataType::kInt, 64, 0, end, min, extent, 0});
      Put({VmOp::kConst, 0, 0, 0, one, ConstantIndex(1), 0, 0});
    });
    vars_[op->loop_var.get()] = {index};
    const int32_t head = Here();
    const int32_t test = NewRegister();
    Put({VmOp::kLtI, 0, 1, 0, test, index, end, 0});
    const size_t leave = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, test, 0, 0});
    pinned_ = next_;
    StmtBase::VisitStmt(op->body);
    Put({VmOp::kAddI, DataType::kInt, 64, 0, index, index, one, 0});
    Put({VmOp::kJump, 0, 0, 0, 0, head, 0, 0});
    code_->at(leave).b = Here();
  }
  void VisitStmt_(const tir::WhileNode* op) override {
    const int32_t head = Here();
    int32_t condition = 0;
    InScope([&] { condition = Keep(VisitExpr(op->condition))[0]; });
    const size_t leave = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, condition, 0, 0});
    StmtBase::VisitStmt(op->body);
    Put({VmOp::kJump, 0, 0, 0, 0, head, 0, 0});
    code_->at(leave).b = Here();
  }
  void VisitStmt_(const tir::BlockRealizeNode* op) override;

 private:
  // ---- Emission ----
  int32_t NewRegister() {
    program_.registers = std::max(program_.registers, next_ + 1);
    return next_++;
  }
  size_t Put(VmInstruction in) {
    code_->push_back(in);
    return code_->size() - 1;
  }
  int32_t Here() const { return static_cast<int32_t>(code_->size()); }
  int32_t Emit(VmOp op, DataType t, int32_t a, int32_t b = 0, int32_t c = 0, int extra = 0) {
    const int32_t dst = NewRegister();
    Put({op, static_cast<uint8_t>(t.code()), static_cast<uint8_t>(t.bits()), static_cast<uint8_t>(extra), dst, a, b,
         c});
    return dst;
  }
  int32_t ConstantIndex(uint64_t value) {
    program_.constants.push_back(value);
    return static_cast<int32_t>(program_.constants.size() - 1);
  }
  int32_t Constant(uint64_t value) {
    const int32_t dst = NewRegister();
    Put({VmOp::kConst, 0, 0, 0, dst, ConstantIndex(value), 0, 0});
    return dst;
  }
  int32_t Message(const std::string& text) {
    program_.messages.push_back(text);
    return static_cast<int32_t>(program_.messages.size() - 1);
  }
  /// Registers that are used within `f` only may be used again after it.
  template <typename F>
  void InScope(F&& f) {
    memos_.emplace_back();
    f();
    memos_.pop_back();
    next_ = std::max(pinned_, 0);
  }
  /// Makes the registers survive the scope.
  Lanes Keep(const Lanes& lanes) {
    pinned_ = next_;
    return lanes;
  }

  template <typename F>
  Lanes Map1(const PrimExpr& e, F&& f) {
    Lanes result;
    for (int32_t a : VisitExpr(e)) result.push_back(f(a));
    return result;
  }
  Lanes Binary(const PrimExpr& ea, const PrimExpr& eb, VmOp op, DataType t, int extra = 0) {
    Lanes a = VisitExpr(ea), b = VisitExpr(eb), result;
    for (size_t i = 0; i < a.size(); ++i) result.push_back(Emit(op, t, a[i], b[i], 0, extra));
    return result;
  }
  int32_t Convert(int32_t a, DataType from, DataType to) {
    if (from.is_floating()) {
      if (to.is_bool()) return Emit(VmOp::kFloatToBool, to, a);
      return Emit(to.is_floating() ? VmOp::kRound : VmOp::kFloatToInt, to, a);
    }
    if (to.is_bool()) return Emit(VmOp::kNeI, to, a, Constant(0));
    if (to.is_floating()) return Emit(from.is_uint() ? VmOp::kUIntToFloat : VmOp::kIntToFloat, to, a);
    return Emit(VmOp::kRound, to, a);
  }
  Lanes ShortCircuit(const PrimExpr& a, const PrimExpr& b, bool is_and) {
    if (a.dtype().is_vector()) return Binary(a, b, is_and ? VmOp::kAnd : VmOp::kOr, DataType::Bool());
    const int32_t result = NewRegister();
    Put({VmOp::kMove, 0, 0, 0, result, VisitExpr(a)[0], 0, 0});
    int32_t test = result;
    if (!is_and) test = Emit(VmOp::kNot, DataType::Bool(), result);
    const size_t skip = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, test, 0, 0});
    memos_.emplace_back();
    Put({VmOp::kMove, 0, 0, 0, result, VisitExpr(b)[0], 0, 0});
    memos_.pop_back();
    code_->at(skip).b = Here();
    return {result};
  }
  Lanes PackedCall(const tir::CallNode* op) {
    // Values first: what computes them may be a call of its own.
    std::vector<std::vector<VmInstruction>> pushes;
    for (size_t i = 1; i < op->args.size(); ++i) {
      const PrimExpr& e = op->args[i];
      std::vector<VmInstruction> push;
      const auto* tensor = e.as<tir::CallNode>();
      if (const auto* text = e.as<tir::StringImmNode>()) {
        push.push_back({VmOp::kPushString, 0, 0, 0, 0, Message(text->value), 0, 0});
      } else if (tensor != nullptr && tir::IsCallTo(tensor, "tir.tvm_stack_make_array")) {
        const auto* address = tensor->args[0].as<tir::CallNode>();
        const auto* load = address != nullptr ? address->args[0].as<tir::BufferLoadNode>() : nullptr;
        if (load == nullptr) throw Error(StrCat("argument ", i, " of a packed call isn't a buffer"));
        for (size_t d = 2; d < tensor->args.size(); ++d) {
          push.push_back({VmOp::kPushExtent, 0, 0, 0, 0, VisitExpr(tensor->args[d])[0], 0, 0});
        }
        const int32_t element = Elements(load->buffer, load->indices)[0];
        push.push_back({VmOp::kPushTensor, 0, 0, 0, 0, BufferId(load->buffer), element, 0});
      } else {
        const VmOp code = e.dtype().is_floating() ? VmOp::kPushFloat : VmOp::kPushInt;
        if (e.dtype().is_handle()) throw Error("the interpreter can't hand pointers to packed functions");
        push.push_back({code, 0, 0, 0, 0, VisitExpr(e)[0], 0, 0});
      }
      pushes.push_back(std::move(push));
    }
    for (const auto& push : pushes) {
      for (const VmInstruction& in : push) Put(in);
    }
    const int32_t result = NewRegister();
    const auto is_float = static_cast<uint8_t>(op->dtype.is_floating());
    const std::string& callee = Downcast<tir::StringImm>(op->args[0])->value;
    Put({VmOp::kCallPacked, 0, 0, is_float, result, Message(callee), 0, 0});
    return {result};
  }

  /// Whether to compute the value where nobody asks for it could be an error.
  static bool MayTrap(const PrimExpr& e) {
    bool found = false;
    tir::PostOrderVisit(e, [&](const ObjectRef& node) {
      const auto* value = node.as<PrimExprNode>();
      const bool divides = node.as<tir::DivNode>() || node.as<tir::ModNode>() || node.as<tir::FloorDivNode>() ||
                           node.as<tir::FloorModNode>();
      found |= node.as<tir::BufferLoadNode>() != nullptr || (divides && !value->dtype.is_floating());
    });
    return found;
  }

  Lanes Conditional(const tir::CallNode* op) {
    Lanes condition = VisitExpr(op->args[0]);
    const size_t lanes = static_cast<size_t>(op->dtype.lanes());
    if (condition.size() > 1) {
      if (MayTrap(op->args[1]) || MayTrap(op->args[2])) {
        throw Error("if_then_else with a vector condition of values that may be read or divided only where it holds");
      }
      return VisitExpr(tir::Select(op->args[0], op->args[1], op->args[2]));
    }
    Lanes result;
    for (size_t i = 0; i < lanes; ++i) result.push_back(NewRegister());
    const size_t to_else = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, condition[0], 0, 0});
    auto arm = [&](const PrimExpr& e) {
      memos_.emplace_back();
      Lanes value = VisitExpr(e);
      for (size_t i = 0; i < lanes; ++i) Put({VmOp::kMove, 0, 0, 0, result[i], value[i], 0, 0});
      memos_.pop_back();
    };
    arm(op->args[1]);
    const size_t to_end = Put({VmOp::kJump, 0, 0, 0, 0, 0, 0, 0});
    code_->at(to_else).b = Here();
    arm(op->args[2]);
    code_->at(to_end).a = Here();
    return result;
  }

  // ---- Memory ----
  int32_t BufferId(const Buffer& buffer) {
    const Buffer& base = Base(buffer);
    auto it = buffer_ids_.find(base->data.get());
    if (it == buffer_ids_.end()) throw Error(StrCat("buffer ", buffer->name, " isn't allocated in ", program_.name));
    return it->second;
  }
  const Buffer& Base(const Buffer& buffer) const {
    auto it = views_.find(buffer.get());
    return it == views_.end() ? buffer : it->second.source;
  }
  void Allocate(const Buffer& buffer) {
    InScope([&] {
      int32_t count = Constant(static_cast<uint64_t>(buffer->dtype.lanes()));
      for (const PrimExpr& extent : buffer->shape)
        count = Emit(VmOp::kMulI, DataType::Int(64), count, VisitExpr(extent)[0]);
      auto it = buffer_ids_.find(buffer->data.get());
      if (it == buffer_ids_.end()) it = buffer_ids_.emplace(buffer->data.get(), NewBuffer(buffer, -1)).first;
      Put({VmOp::kAlloc, 0, 0, 0, 0, it->second, count, 0});
    });
  }
  int32_t NewBuffer(const Buffer& buffer, int32_t param) {
    program_.buffers.push_back({buffer->name, buffer->dtype.element_of(), param});
    return static_cast<int32_t>(program_.buffers.size() - 1);
  }
  /// Element numbers of an access, each index checked.
  std::vector<int32_t> Elements(const Buffer& given, const Array<PrimExpr>& given_indices) {
    std::vector<Lanes> indices;
    for (const PrimExpr& e : given_indices) indices.push_back(VisitExpr(e));
    Buffer buffer = given;
    if (auto it = views_.find(given.get()); it != views_.end()) {
      const View& view = it->second;
      std::vector<Lanes> shifted;
      for (size_t d = 0; d < view.begin.size(); ++d) {
        if (d < view.skipped) {
          shifted.push_back({view.begin[d]});
          continue;
        }
        Lanes lanes;
        for (int32_t i : indices[d - view.skipped])
          lanes.push_back(Emit(VmOp::kAddI, DataType::Int(64), view.begin[d], i));
        shifted.push_back(lanes);
      }
      indices = shifted;
      buffer = view.source;
    }
    const DataType i64 = DataType::Int(64);
    const int32_t id = BufferId(buffer);
    size_t lanes = 1;
    for (const Lanes& index : indices) lanes = std::max(lanes, index.size());
    std::vector<int32_t> result;
    for (size_t lane = 0; lane < lanes; ++lane) {
      int32_t element = Constant(0);
      for (size_t d = 0; d < indices.size(); ++d) {
        const int32_t extent = VisitExpr(buffer->shape[d])[0];
        const int32_t index = indices[d][indices[d].size() == 1 ? 0 : lane];
        Put({VmOp::kCheck, 0, 0, 0, static_cast<int32_t>(d), index, extent, id});
        if (buffer->strides.empty()) {
          element = Emit(VmOp::kAddI, i64, Emit(VmOp::kMulI, i64, element, extent), index);
        } else {
          element = Emit(VmOp::kAddI, i64, element, Emit(VmOp::kMulI, i64, index, VisitExpr(buffer->strides[d])[0]));
        }
      }
      if (buffer->elem_offset.defined()) element = Emit(VmOp::kAddI, i64, element, VisitExpr(buffer->elem_offset)[0]);
      const int unit = buffer->dtype.lanes();
      if (unit > 1) element = Emit(VmOp::kMulI, i64, element, Constant(static_cast<uint64_t>(unit)));
      for (int u = 0; u < unit; ++u) {
        result.push_back(u == 0 ? element : Emit(VmOp::kAddI, i64, element, Constant(static_cast<uint64_t>(u))));
      }
    }
    return result;
  }

  VmProgram program_;
  std::vector<VmInstruction>* code_ = nullptr;
  std::unordered_map<const Object*, Lanes> vars_;
  std::unordered_map<const Object*, int32_t> buffer_ids_;
  std::unordered_map<const Object*, View> views_;
  std::vector<Memo> memos_;
  std::vector<PrimExpr> known_;  ///< what memos know by address: some is made on the way
  int32_t next_ = 0;
  int32_t pinned_ = 0;
};

Lanes VmCompiler::VisitExpr_(const tir::CallNode* op) {
  const auto* intrinsic = op->op.as<OpNode>();
  if (intrinsic == nullptr) throw Error("the interpreter can't call functions of a module");
  const std::string name = intrinsic->name.substr(4);
  const DataType t = op->dtype;
  if (name == "if_then_else") return Conditional(op);
  if (name == "likely") return VisitExpr(op->args[0]);
  if (name == "assume" || name == "prefetch") return {Constant(0)};
  if (name == "ret") throw Error("target stackvm: functions have no value (tir.ret); those of llvm and c have");
  if (name == "reinterpret" && op->args[0].dtype().is_handle()) {
    const auto it = buffer_ids_.find(op->args[0].get());
    if (it == buffer_ids_.end()) throw Error("the interpreter knows no address of what isn't a buffer");
    return {Emit(VmOp::kAddress, t, it->second)};
  }
  if (name == "reinterpret") {
    const DataType from = op->args[0].dtype();
    return Map1(op->args[0], [&](int32_t a) { return Emit(VmOp::kReinterpret, t, a, from.code(), 0, from.bits()); });
  }
  if (name == "tvm_call_packed") return PackedCall(op);
  if (const PrimExpr plain = tir::ExpandByteOp(op); plain.defined()) return VisitExpr(plain);
  static const std::unordered_map<std::string, VmOp> binary = {
      {"shift_left", VmOp::kShl},   {"shift_right", VmOp::kShr},    {"bitwise_and", VmOp::kBitAnd},
      {"bitwise_or", VmOp::kBitOr}, {"bitwise_xor", VmOp::kBitXor},
  };
  if (auto it = binary.find(name); it != binary.end()) return Binary(op->args[0], op->args[1], it->second, t);
  if (name == "bitwise_not") return Map1(op->args[0], [&](int32_t a) { return Emit(VmOp::kBitNot, t, a); });
  if (name == "popcount" || name == "clz") {
    const VmOp code = name == "clz" ? VmOp::kClz : VmOp::kPopcount;
    return Map1(op->args[0], [&](int32_t a) { return Emit(code, t, a, 0, 0, op->args[0].dtype().bits()); });
  }
  if (name == "fabs" && t.is_integral()) return Map1(op->args[0], [&](int32_t a) { return Emit(VmOp::kAbsI, t, a); });
  if (name == "fma") {
    Lanes a = VisitExpr(op->args[0]), b = VisitExpr(op->args[1]), c = VisitExpr(op->args[2]), result;
    for (size_t i = 0; i < a.size(); ++i) result.push_back(Emit(VmOp::kFma, t, a[i], b[i], c[i]));
    return result;
  }
  if (name == "masked_load" || name == "masked_store") {
    const auto* element = op->args[0].as<tir::BufferLoadNode>();
    Lanes mask = VisitExpr(op->args[1]), value = VisitExpr(op->args[2]), result;
    if (element == nullptr || element->indices.size() != 1)
      throw Error(StrCat(name, " takes an element of a flat buffer"));
    Lanes index = VisitExpr(element->indices[0]);
    const int32_t id = BufferId(element->buffer);
    const int32_t extent = VisitExpr(element->buffer->shape[0])[0];
    for (size_t i = 0; i < mask.size(); ++i) {
      const int32_t dst = NewRegister();
      Put({VmOp::kMove, 0, 0, 0, dst, value[i], 0, 0});
      const size_t skip = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, mask[i], 0, 0});
      Put({VmOp::kCheck, 0, 0, 0, 0, index[i], extent, id});
      if (name == "masked_load") {
        Put({VmOp::kLoad, 0, 0, 0, dst, id, index[i], 0});
      } else {
        Put({VmOp::kStore, 0, 0, 0, 0, id, index[i], value[i]});
      }
      code_->at(skip).b = Here();
      result.push_back(dst);
    }
    return result;
  }
  const auto& functions = VmFunctionNames();
  const auto found = std::find(functions.begin(), functions.end(), name);
  if (found == functions.end()) throw Error(StrCat("the interpreter doesn't know the intrinsic tir.", name));
  const auto number = static_cast<int>(found - functions.begin());
  if (op->args.size() == 2) return Binary(op->args[0], op->args[1], VmOp::kMath2, t, number);
  return Map1(op->args[0], [&](int32_t a) { return Emit(VmOp::kMath1, t, a, 0, 0, number); });
}

void VmCompiler::VisitStmt_(const tir::BlockRealizeNode* op) {
  const tir::BlockNode* block = op->block.get();
  int32_t predicate = 0;
  InScope([&] {
    std::vector<Lanes> values;
    for (const PrimExpr& value : op->iter_values) values.push_back(VisitExpr(value));
    predicate = VisitExpr(op->predicate)[0];
    Keep({});
    for (size_t i = 0; i < values.size(); ++i) vars_[block->iter_vars[i]->var.get()] = values[i];
  });
  const size_t skip = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, predicate, 0, 0});
  for (const Buffer& buffer : block->alloc_buffers) Allocate(buffer);
  for (const tir::MatchBufferRegion& match : block->match_buffers) {
    View view;
    view.source = match->source->buffer;
    view.skipped = match->source->region.size() - match->buffer->shape.size();
    InScope([&] {
      for (const tir::Range& range : match->source->region) view.begin.push_back(VisitExpr(range->min)[0]);
      if (auto outer = views_.find(view.source.get()); outer != views_.end()) {
        for (size_t d = 0; d < view.begin.size(); ++d) {
          const int32_t base = outer->second.begin[d + outer->second.skipped];
          view.begin[d] = Emit(VmOp::kAddI, DataType::Int(64), base, view.begin[d]);
        }
        const auto& begin = outer->second.begin;
        view.begin.insert(view.begin.begin(), begin.begin(),
                          begin.begin() + static_cast<std::ptrdiff_t>(outer->second.skipped));
        view.skipped += outer->second.skipped;
        view.source = outer->second.source;
      }
      Keep({});
    });
    views_[match->buffer.get()] = view;
  }
  if (block->init.defined()) {
    int32_t first = 0;
    InScope([&] {
      first = Constant(1);
      for (const tir::IterVar& iv : block->iter_vars) {
        if (iv->iter_type != tir::IterVarType::kCommReduce) continue;
        const int32_t at_start = Emit(VmOp::kEqI, DataType::Bool(), VisitExpr(iv->var)[0], VisitExpr(iv->dom->min)[0]);
        first = Emit(VmOp::kAnd, DataType::Bool(), first, at_start);
      }
      Keep({});
    });
    const size_t no_init = Put({VmOp::kJumpIfZero, 0, 0, 0, 0, first, 0, 0});
    StmtBase::VisitStmt(block->init);
    code_->at(no_init).b = Here();
  }
  StmtBase::VisitStmt(block->body);
  code_->at(skip).b = Here();
}

VmProgram VmCompiler::Compile(const tir::PrimFunc& func) {
  program_ = VmProgram();
  auto name = func->GetAttr<String>(attr::kGlobalSymbol);
  program_.name = name ? name->str() : "main";
  memos_.emplace_back();
  code_ = &program_.prologue;
  std::vector<std::pair<size_t, PrimExpr>> computed;
  struct Dim {
    size_t param, dim;
    PrimExpr extent;
  };
  struct Multiple {
    const tir::VarNode* var;
    int64_t multiple;
    int32_t size;
  };
  std::vector<Dim> later;
  std::vector<Multiple> multiples;
  for (const Var& param : func->params) {
    auto buffer = func->buffer_map.Get(param);
    if (!buffer)
      throw Error(
          StrCat(program_.name, ": the interpreter takes tensors only, and parameter ", param->name_hint, " is none"));
    VmProgram::Param entry;
    entry.dtype = (*buffer)->dtype;
    entry.buffer = NewBuffer(*buffer, static_cast<int32_t>(program_.params.size()));
    buffer_ids_[(*buffer)->data.get()] = entry.buffer;
    for (size_t d = 0; d < (*buffer)->shape.size(); ++d) {
      const PrimExpr extent = (*buffer)->shape[d];
      const auto [var, multiple] = tir::MultipleOfVar(extent);
      const bool binds = var != nullptr && vars_.count(var) == 0;
      const int32_t size = binds ? NewRegister() : -1;
      if (binds) vars_[var] = {size};
      if (binds && multiple > 1) multiples.push_back({var, multiple, size});
      entry.binds.push_back(binds ? 1 : 0);
      entry.shape.push_back(size);
      if (!binds) later.push_back({program_.params.size(), d, extent});
    }
    program_.params.push_back(entry);
  }
  for (const Multiple& m : multiples) {
    vars_[m.var] = VisitExpr(tir::floordiv(GetRef<Var>(m.var), IntImm(m.var->dtype, m.multiple)));
    // What the dimension is compared with.
    Put({VmOp::kMove, 0, 0, 0, m.size, VisitExpr(GetRef<Var>(m.var) * IntImm(m.var->dtype, m.multiple))[0], 0, 0});
  }
  for (const Dim& dim : later) program_.params[dim.param].shape[dim.dim] = VisitExpr(dim.extent)[0];
  pinned_ = next_;
  memos_.clear();
  memos_.emplace_back();
  code_ = &program_.code;
  StmtBase::VisitStmt(func->body);
  Put({});
  return std::move(program_);
}

/// Whether there is a reduction whose axes may have no elements.
bool MayReduceNothing(const tir::Stmt& body) {
  bool found = false;
  tir::PostOrderVisit(body, [&](const ObjectRef& node) {
    const auto* block = node.as<tir::BlockNode>();
    if (block == nullptr || !block->init.defined()) return;
    for (const tir::IterVar& iv : block->iter_vars) {
      const int64_t* extent = AsConstInt(iv->dom->extent);
      found |= iv->iter_type == tir::IterVarType::kCommReduce && (extent == nullptr || *extent < 1);
    }
  });
  return found;
}

}  // namespace

VmProgram CompileToVm(const tir::PrimFunc& func) {
  // Blocks start their results with the first element; a result of no elements needs init before the loops.
  return VmCompiler().Compile(MayReduceNothing(func->body) ? tir::LowerInit(func, {}) : func);
}

void RunPrimFunc(const tir::PrimFunc& func, const std::vector<runtime::NDArray>& args) { CompileToVm(func).Run(args); }

}  // namespace treadle::targets
