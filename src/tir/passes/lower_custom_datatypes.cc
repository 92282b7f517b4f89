// SPDX-License-Identifier: Apache-2.0
// Element types that users define (treadle/runtime/custom_datatype.h) disappear: their values become unsigned integers
// of the same width, and what is computed with them becomes what the functions give that users registered:
//   tvm.datatype.lower.<target>.<node>.<type>                 Add, Max, LT, FloatImm ...
//   tvm.datatype.lower.<target>.Cast.<to>.<from>              the last two are names of types: float, int, uint,
//   myfloat tvm.datatype.lower.<target>.Call.intrin.<intrinsic>.<type>
// Each is given the node, whose operands are lowered already, and returns an expression.
#include "tir/passes/pass_util.h"
#include "treadle/runtime/custom_datatype.h"
#include "treadle/runtime/registry.h"

namespace treadle::tir {
namespace {

using runtime::IsCustomDatatype;

DataType Stored(DataType dtype) {
  return IsCustomDatatype(dtype) ? DataType::UInt(dtype.bits(), dtype.lanes()) : dtype;
}

/// "float", or the name of a user's type.
std::string TypeName(DataType dtype) {
  if (auto name = runtime::CustomDatatypeName(dtype.code())) return *name;
  if (dtype.is_int()) return "int";
  if (dtype.is_uint()) return "uint";
  if (dtype.is_bfloat16()) return "bfloat";
  return dtype.is_float() ? "float" : dtype.element_of().str();
}

class Lowerer : public StmtExprMutator {
 public:
  explicit Lowerer(std::string target) : target_(std::move(target)) {}

  Stmt Lower(const Stmt& stmt) { return VisitStmt(stmt); }

  /// The buffer that takes the place of one with elements of a user's type.
  Buffer Mapped(const Buffer& buffer) {
    if (!IsCustomDatatype(buffer->dtype)) return buffer;
    auto found = buffers_.find(buffer.get());
    if (found != buffers_.end()) return found->second.second;
    const DataType dtype = Stored(buffer->dtype);
    const auto* pointer = buffer->data->type_annotation.as<PointerTypeNode>();
    const std::string scope = pointer != nullptr ? pointer->storage_scope : "";
    auto data = pointers_.find(buffer->data.get());
    if (data == pointers_.end()) {
      const Var var(buffer->data->name_hint, PointerType(PrimType(dtype), scope));
      data = pointers_.emplace(buffer->data.get(), std::make_pair(buffer->data, var)).first;
    }
    Buffer mapped = buffer;
    BufferNode* node = mapped.CopyOnWrite();
    node->dtype = dtype;
    node->data = data->second.second;
    buffers_.emplace(buffer.get(), std::make_pair(buffer, mapped));
    return mapped;
  }

 protected:
  using StmtExprMutator::VisitExpr;
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  PrimExpr VisitExpr_(const VarNode* op) override {
    auto pointer = pointers_.find(op);
    if (pointer != pointers_.end()) return pointer->second.second;
    if (!IsCustomDatatype(op->dtype)) return GetRef<PrimExpr>(op);
    return MappedVar(GetRef<Var>(op));
  }
  PrimExpr VisitExpr_(const FloatImmNode* op) override {
    if (!IsCustomDatatype(op->dtype)) return GetRef<PrimExpr>(op);
    return Ask(StrCat("FloatImm.", TypeName(op->dtype)), "FloatImm", op->dtype, GetRef<PrimExpr>(op));
  }
  PrimExpr VisitExpr_(const CastNode* op) override {
    const DataType from = op->value.dtype(), to = op->dtype;
    PrimExpr lowered = StmtExprMutator::VisitExpr_(op);
    if (!IsCustomDatatype(from) && !IsCustomDatatype(to)) return lowered;
    return Ask(StrCat("Cast.", TypeName(to), ".", TypeName(from)), StrCat("Cast from ", from), to, lowered);
  }

  template <typename Node>
  PrimExpr Binary(const Node* op, const char* name) {
    const DataType operand = op->a.dtype(), result = op->dtype;
    PrimExpr lowered = StmtExprMutator::VisitExpr_(op);
    if (!IsCustomDatatype(operand)) return lowered;
    return Ask(StrCat(name, ".", TypeName(operand)), StrCat(name, " of ", operand), result, lowered);
  }
#define TREADLE_LOWER_BINARY(Name) \
  PrimExpr VisitExpr_(const Name##Node* op) override { return Binary(op, #Name); }
  TREADLE_LOWER_BINARY(Add)
  TREADLE_LOWER_BINARY(Sub)
  TREADLE_LOWER_BINARY(Mul)
  TREADLE_LOWER_BINARY(Div)
  TREADLE_LOWER_BINARY(Mod)
  TREADLE_LOWER_BINARY(Min)
  TREADLE_LOWER_BINARY(Max)
  TREADLE_LOWER_BINARY(EQ)
  TREADLE_LOWER_BINARY(NE)
  TREADLE_LOWER_BINARY(LT)
  TREADLE_LOWER_BINARY(LE)
  TREADLE_LOWER_BINARY(GT)
  TREADLE_LOWER_BINARY(GE)
#undef TREADLE_LOWER_BINARY

  PrimExpr VisitExpr_(const CallNode* op) override {
    DataType custom = op->dtype;
    for (const PrimExpr& arg : op->args) {
      if (!IsCustomDatatype(custom)) custom = arg.dtype();
    }
    PrimExpr lowered = StmtExprMutator::VisitExpr_(op);
    const auto* intrinsic = op->op.as<OpNode>();
    if (!IsCustomDatatype(custom) || intrinsic == nullptr) return lowered;
    const std::string name = StrCat("Call.intrin.", intrinsic->name, ".", TypeName(custom));
    // Calls of functions in C, choices and bit patterns are the same for any type.
    const bool any_type = intrinsic->name == "tir.if_then_else" || intrinsic->name == "tir.call_pure_extern" ||
                          intrinsic->name == "tir.call_extern" || intrinsic->name == "tir.reinterpret";
    if (any_type && !Find(name)) {
      const auto* call = lowered.as<CallNode>();
      return Call(Stored(op->dtype), call->op, call->args, op->span);
    }
    return Ask(name, StrCat(intrinsic->name, " of ", custom), op->dtype, lowered);
  }
  PrimExpr VisitExpr_(const LetNode* op) override {
    if (!IsCustomDatatype(op->var.dtype())) return StmtExprMutator::VisitExpr_(op);
    PrimExpr value = VisitExpr(op->value);
    PrimExpr body = VisitExpr(op->body);
    return Let(MappedVar(op->var), value, body, op->span);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr load = StmtExprMutator::VisitExpr_(op);
    if (!IsCustomDatatype(op->buffer->dtype)) return load;
    return BufferLoad(Mapped(op->buffer), load.as<BufferLoadNode>()->indices, op->span);
  }

  Stmt VisitStmt_(const LetStmtNode* op) override {
    if (!IsCustomDatatype(op->var.dtype())) return StmtExprMutator::VisitStmt_(op);
    PrimExpr value = VisitExpr(op->value);
    Stmt body = VisitStmt(op->body);
    return LetStmt(MappedVar(op->var), value, body, op->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    if (!IsCustomDatatype(op->buffer->dtype)) return StmtExprMutator::VisitStmt_(op);
    PrimExpr value = VisitExpr(op->value);
    Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
    return BufferStore(Mapped(op->buffer), value, indices, op->span);
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    if (!IsCustomDatatype(op->buffer->dtype)) return StmtExprMutator::VisitStmt_(op);
    const Buffer buffer = Mapped(op->buffer);  // before its uses
    return Allocate(buffer, VisitStmt(op->body), op->annotations, op->span);
  }
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    ObjectRef node = op->node;
    if (const auto* buffer = node.as<BufferNode>()) node = Mapped(GetRef<Buffer>(buffer));
    if (const auto* var = node.as<VarNode>()) node = VisitExpr_(var);
    if (node.same_as(op->node)) return StmtExprMutator::VisitStmt_(op);
    return AttrStmt(node, op->attr_key, VisitExpr(op->value), VisitStmt(op->body), op->span);
  }
  Stmt VisitStmt_(const BlockNode* op) override {
    auto mapped = [this](const Buffer& buffer) { return Mapped(buffer); };
    const Array<Buffer> allocated = op->alloc_buffers.Map(mapped);
    const Array<MatchBufferRegion> matches = op->match_buffers.Map([this](const MatchBufferRegion& match) {
      const bool custom = IsCustomDatatype(match->buffer->dtype) || IsCustomDatatype(match->source->buffer->dtype);
      if (!custom) return match;
      return MatchBufferRegion(Mapped(match->buffer), MappedRegion(match->source));
    });
    const Block block = Downcast<Block>(StmtExprMutator::VisitStmt_(op));
    auto region = [this](const BufferRegion& r) { return MappedRegion(r); };
    const Array<BufferRegion> reads = block->reads.Map(region), writes = block->writes.Map(region);
    if (allocated.same_as(op->alloc_buffers) && matches.same_as(op->match_buffers) && reads.same_as(block->reads) &&
        writes.same_as(block->writes)) {
      return block;
    }
    Block changed = block;
    BlockNode* node = changed.CopyOnWrite();
    node->alloc_buffers = allocated;
    node->match_buffers = matches;
    node->reads = reads;
    node->writes = writes;
    return changed;
  }

 private:
  BufferRegion MappedRegion(const BufferRegion& region) {
    return IsCustomDatatype(region->buffer->dtype) ? BufferRegion(Mapped(region->buffer), region->region) : region;
  }

  Var MappedVar(const Var& var) {
    if (!IsCustomDatatype(var.dtype())) return var;
    auto [entry, added] = scalars_.try_emplace(var.get(), std::make_pair(var, var));
    if (added) entry->second.second = Var(var->name_hint, Stored(var.dtype()));
    return entry->second.second;
  }

  runtime::PackedFunc Find(const std::string& name) const {
    return runtime::Registry::Get(StrCat("tvm.datatype.lower.", target_, ".", name));
  }

  /// What the function registered as `name` makes of `node`; `what` computes a value of type `result`.
  PrimExpr Ask(const std::string& name, const std::string& what, DataType result, const PrimExpr& node) const {
    runtime::PackedFunc lower = Find(name);
    if (!lower) {
      throw DTypeError(StrCat(what, " to ", result, " isn't lowered for target ", target_,
                              ": no function is registered as tvm.datatype.lower.", target_, ".", name,
                              " (see target.datatype.register_op)"));
    }
    const PrimExpr lowered = lower(node).As<PrimExpr>();
    if (lowered.dtype() == Stored(result)) return lowered;
    throw DTypeError(StrCat("tvm.datatype.lower.", target_, ".", name, " returned a value of ", lowered.dtype(),
                            "; expected ", Stored(result)));
  }

  std::string target_;
  // By identity; the first of each pair keeps the key alive.
  std::unordered_map<const Object*, std::pair<Buffer, Buffer>> buffers_;
  std::unordered_map<const Object*, std::pair<Var, Var>> pointers_, scalars_;
};

}  // namespace

PrimFunc LowerCustomDatatypes(PrimFunc func, const LowerConfig& config) {
  if (!runtime::HasCustomDatatypes()) return func;
  Lowerer lowerer(config.target_kind);
  Map<Var, Buffer> buffers;
  Map<Var, String> types;  // what arguments are checked for
  for (const auto& [param, buffer] : func->buffer_map) {
    buffers.Set(param, lowerer.Mapped(buffer));
    if (IsCustomDatatype(buffer->dtype)) types.Set(param, String(buffer->dtype.str()));
  }
  for (const Var& param : func->params) {
    if (IsCustomDatatype(param.dtype())) {
      throw DTypeError(StrCat("parameter ", param->name_hint, " is a scalar of ", param.dtype(),
                              ": values of custom data types are given in tensors"));
    }
  }
  const Stmt body = lowerer.Lower(func->body);
  if (body.same_as(func->body) && types.empty()) return func;
  PrimFuncNode* node = func.CopyOnWrite();
  node->buffer_map = buffers;
  node->body = body;
  return types.empty() ? func : WithAttr(std::move(func), kCustomTypes, types);
}

}  // namespace treadle::tir
