// SPDX-License-Identifier: Apache-2.0
// Constructors of statements, buffers and functions of loop-level code, and scans and externs of tensor expressions.
#include <unordered_set>

#include "python/checked.h"
#include "tir/block_access.h"
#include "tir/passes/specialize.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/scan.h"
#include "treadle/tir/function.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"
#include "treadle/tir/verify.h"

namespace treadle::python {
namespace {

using runtime::Registry;
using tir::Buffer;
using tir::Stmt;
using tir::Var;

template <typename F>
void Reg(const std::string& name, F function) {
  RegisterChecked(name, std::move(function));
}

/// Expressions are evaluated where a statement is expected.
Stmt StmtOf(const ObjectRef& value) {
  if (!value.defined()) throw DTypeError("expected a statement but got null");
  if (value->IsInstance<PrimExprNode>()) return tir::Evaluate(Expect<PrimExpr>(value));
  return Expect<Stmt>(value);
}

Stmt StmtOrNull(const ObjectRef& value) { return value.defined() ? StmtOf(value) : Stmt(); }

/// Vector expressions, checked as a user's.
void RegisterVectors() {
  auto lanes_of = [](const char* what, const PrimExpr& value, int lanes) {
    if (value.dtype().is_scalar() && lanes > 1) return lanes;
    throw DTypeError(
        StrCat("a ", what, " of ", lanes, " lanes of ", value.dtype(), "; expected a scalar and two lanes or more"));
  };
  Reg("tir.Ramp", [=](PrimExpr base, PrimExpr stride, int lanes) {
    return tir::Ramp(base, tir::cast(base.dtype(), stride), lanes_of("ramp", base, lanes));
  });
  Reg("tir.Broadcast",
      [=](PrimExpr value, int lanes) { return tir::Broadcast(value, lanes_of("broadcast", value, lanes)); });
  Reg("tir.Shuffle", [](Array<PrimExpr> vectors, Array<PrimExpr> indices) {
    if (vectors.empty() || indices.empty()) throw DTypeError("a shuffle needs vectors and indices");
    return tir::Shuffle(vectors, indices);
  });
  Reg("tir.Let",
      [](Var var, PrimExpr value, PrimExpr body) { return tir::Let(var, tir::cast(var.dtype(), value), body); });
  Reg("ir.RegisterIntrinsic", [](std::string name, bool pure) {
    if (name.rfind("tir.", 0) != 0) throw Error(StrCat("an intrinsic is called \"tir.<name>\", not \"", name, "\""));
    tir::RegisterTirOps();
    if (Op::Find(name).defined()) return;
    OpRegistration(name)
        .Describe("an intrinsic of the user's")
        .NumInputs(-1)
        .Set(tir::kCallEffect, pure ? tir::CallEffect::kPure : tir::CallEffect::kOpaque);
  });
}

/// Checked as a user's statement: the constructors' own checks are for our mistakes.
void RequireBool(const PrimExpr& condition, const char* what) {
  if (condition.dtype().is_bool()) return;
  throw DTypeError(StrCat("the condition of ", what, " has dtype ", condition.dtype(), "; expected bool"));
}

void RegisterStatements() {
  Reg("tir.PointerVar", [](std::string name, DataType element, std::string scope) {
    return Var(name, PointerType(PrimType(element), scope));
  });
  Reg("tir.Evaluate", [](PrimExpr value) { return tir::Evaluate(value); });
  Reg("tir.SeqStmt", [](Array<ObjectRef> seq) {
    Array<Stmt> stmts;
    for (const ObjectRef& s : seq) stmts.push_back(StmtOf(s));
    return tir::SeqStmt::Flatten(stmts);
  });
  Reg("tir.IfThenElse", [](PrimExpr condition, ObjectRef then_case, ObjectRef else_case) {
    RequireBool(condition, "if");
    return tir::IfThenElse(condition, StmtOf(then_case), StmtOrNull(else_case));
  });
  Reg("tir.While", [](PrimExpr condition, ObjectRef body) {
    RequireBool(condition, "while");
    return tir::While(condition, StmtOf(body));
  });
  Reg("tir.LetStmt", [](Var var, PrimExpr value, ObjectRef body) {
    return tir::LetStmt(var, tir::cast(var.dtype(), value), StmtOf(body));
  });
  Reg("tir.AttrStmt", [](ObjectRef node, std::string key, PrimExpr value, ObjectRef body) {
    return tir::AttrStmt(node, key, value, StmtOf(body));
  });
  Reg("tir.AssertStmt", [](PrimExpr condition, std::string message, ObjectRef body) {
    RequireBool(condition, "assert");
    return tir::AssertStmt(condition, tir::StringImm(message), StmtOf(body));
  });
  Reg("tir.For", [](Var var, PrimExpr min, PrimExpr extent, int kind, ObjectRef body) {
    if (kind < 0 || kind > 3) throw Error(StrCat("there is no kind of loop ", kind));
    if (!min.dtype().is_integral() || !extent.dtype().is_integral()) {
      throw DTypeError(
          StrCat("the range of loop ", var->name_hint, " has dtype ", extent.dtype(), "; expected integers"));
    }
    return tir::For(var, min, extent, static_cast<tir::ForKind>(kind), StmtOf(body));
  });
  Reg("tir.BufferLoad", [](Buffer buffer, Array<PrimExpr> indices) {
    if (indices.size() != buffer->shape.size()) {
      throw ShapeError(StrCat("buffer ", buffer->name, " has ", buffer->shape.size(), " dimensions but is read with ",
                              indices.size(), " indices"));
    }
    return tir::BufferLoad(buffer, indices);
  });
  Reg("tir.BufferStore", [](Buffer buffer, PrimExpr value, Array<PrimExpr> indices) {
    if (indices.size() != buffer->shape.size()) {
      throw ShapeError(StrCat("buffer ", buffer->name, " has ", buffer->shape.size(),
                              " dimensions but is written with ", indices.size(), " indices"));
    }
    return tir::BufferStore(buffer, value, indices);
  });
  Reg("tir.Allocate", [](Buffer buffer, ObjectRef body) { return tir::Allocate(buffer, StmtOf(body)); });
}

/// Regions in which what a view shows stands for the view.
Array<tir::BufferRegion> BehindView(const Array<tir::BufferRegion>& regions, const tir::MatchBufferRegion& match) {
  Array<tir::BufferRegion> result;
  for (const tir::BufferRegion& region : regions) {
    result.push_back(region->buffer.same_as(match->buffer) ? match->source : region);
  }
  return result;
}

/// What schedulable functions are made of, for those who write them down.
void RegisterBlocks() {
  Reg("tir.BufferRegion", [](Buffer buffer, Array<tir::Range> region) {
    if (region.size() != buffer->shape.size()) {
      throw ShapeError(StrCat("buffer ", buffer->name, " has ", buffer->shape.size(), " dimensions but the region has ",
                              region.size()));
    }
    return tir::BufferRegion(buffer, region);
  });
  Reg("tir.MatchBufferRegion",
      [](Buffer buffer, tir::BufferRegion source) { return tir::MatchBufferRegion(buffer, source); });
  // Null reads and writes are found in the body.
  Reg("tir.Block",
      [](Array<tir::IterVar> axes, ObjectRef reads, ObjectRef writes, std::string name, ObjectRef body, ObjectRef init,
         Array<Buffer> allocated, Array<tir::MatchBufferRegion> matched, Map<String, ObjectRef> annotations) {
        const Stmt inner = StmtOf(body);
        const Stmt first = StmtOrNull(init);
        tir::BlockAccess found = tir::DetectBlockAccess(inner, first, allocated);
        for (const tir::MatchBufferRegion& match : matched) {
          found.reads = BehindView(found.reads, match);
          found.writes = BehindView(found.writes, match);
        }
        return tir::Block(axes, reads.defined() ? Expect<Array<tir::BufferRegion>>(reads) : found.reads,
                          writes.defined() ? Expect<Array<tir::BufferRegion>>(writes) : found.writes, name, inner,
                          first, allocated, matched, annotations);
      });
  Reg("tir.BlockRealize", [](Array<PrimExpr> values, PrimExpr predicate, Stmt block) {
    RequireBool(predicate, "a block");
    const tir::Block realized = Expect<tir::Block>(block);
    if (values.size() != realized->iter_vars.size()) {
      throw Error(StrCat("block '", realized->name_hint, "' has ", realized->iter_vars.size(), " axes, which ",
                         values.size(), " values are bound to"));
    }
    return tir::BlockRealize(values, predicate, realized);
  });
  Reg("tir.AnnotatedFor", [](Var var, PrimExpr min, PrimExpr extent, int kind, ObjectRef body, ObjectRef thread,
                             Map<String, ObjectRef> annotations) {
    if (kind < 0 || kind > 4) throw Error(StrCat("there is no kind of loop ", kind));
    if (!min.dtype().is_integral() || !extent.dtype().is_integral()) {
      throw DTypeError(
          StrCat("the range of loop ", var->name_hint, " has dtype ", extent.dtype(), "; expected integers"));
    }
    return tir::For(var, min, extent, static_cast<tir::ForKind>(kind), StmtOf(body),
                    thread.defined() ? Expect<tir::IterVar>(thread) : tir::IterVar(), annotations);
  });
  Reg("tir.BufferOver", [](Var data, Array<PrimExpr> shape, DataType dtype, std::string name, Array<PrimExpr> strides,
                           ObjectRef elem_offset, int align, int offset_factor) {
    if (data->type_annotation.as<PointerTypeNode>() == nullptr) {
      throw DTypeError(StrCat("the data of buffer ", name, " is '", data->name_hint, "' of dtype ", data.dtype(),
                              "; expected a pointer, such as the data of another buffer"));
    }
    return Buffer(data, dtype, shape, strides,
                  elem_offset.defined() ? Expect<PrimExpr>(elem_offset) : PrimExpr(ObjectPtr<Object>()), name,
                  align <= 0 ? 64 : align, offset_factor);
  });
}

void RegisterBuffers() {
  Reg("tir.decl_buffer", [](Array<PrimExpr> shape, DataType dtype, std::string name, std::string scope,
                            Array<PrimExpr> strides, ObjectRef elem_offset, int align, int offset_factor) {
    Buffer plain = tir::DeclBuffer(shape, dtype, name, scope);
    if (strides.empty() && !elem_offset.defined() && align <= 0 && offset_factor == 0) return plain;
    return Buffer(plain->data, dtype, shape, strides, Expect<PrimExpr>(elem_offset), name, align <= 0 ? 64 : align,
                  offset_factor);
  });
  Reg("tir.BufferScope", [](Buffer buffer) { return buffer.scope(); });
  Reg("tir.AddressOf", [](PrimExpr load) { return tir::AddressOf(Expect<tir::BufferLoad>(load)); });
  Reg("tir.StringImm", [](std::string value) { return tir::StringImm(value); });
  Reg("tir.PrimFunc", [](Array<Var> params, ObjectRef body, Map<Var, Buffer> buffer_map, Map<String, ObjectRef> attrs) {
    return tir::PrimFunc(params, StmtOf(body), Type(), buffer_map, DictAttrs(attrs));
  });
  Reg("tir.ParsePrimFunc", [](std::string text, std::string name) { return tir::ParsePrimFunc(text, name); });
  Reg("tir.ParseModule", [](std::string text, std::string name) { return tir::ParseModule(text, name); });
  Reg("tir.FindFault", [](tir::PrimFunc func) { return tir::FindFault(func); });
  Reg("tir.Specialize",
      [](tir::PrimFunc func, Map<tir::Var, ObjectRef> values) { return tir::Specialize(std::move(func), values); });
  Reg("tir.FuncWithAttr",
      [](tir::PrimFunc func, std::string key, ObjectRef value) { return WithAttr(func, key, value); });
}

void RegisterOperations() {
  using te::Tensor;
  Reg("te.ScanOp", [](std::string name, std::string tag, Map<String, ObjectRef> attrs, Array<Tensor> init,
                      Array<Tensor> update, Array<Tensor> state,
                      Array<Tensor> inputs) { return te::Scan(init, update, state, inputs, name, tag, attrs); });
  Reg("te.ExternOp", [](std::string name, std::string tag, Map<String, ObjectRef> attrs, Array<Tensor> inputs,
                        Array<Buffer> in_buffers, Array<Buffer> out_buffers, ObjectRef body) {
    if (inputs.size() != in_buffers.size()) {
      throw Error(StrCat("extern ", name, ": ", inputs.size(), " inputs but ", in_buffers.size(), " buffers for them"));
    }
    if (out_buffers.empty()) throw Error(StrCat("extern ", name, " has no outputs"));
    auto node = MakeObject<te::ExternOpNode>();
    node->name = name;
    node->tag = tag;
    node->attrs = attrs;
    node->inputs = inputs;
    node->input_placeholders = in_buffers;
    node->output_placeholders = out_buffers;
    node->body = StmtOf(body);
    te::Operation op{ObjectPtr<Object>(node)};
    Array<Tensor> outputs;
    for (int i = 0; i < op->num_outputs(); ++i) {
      outputs.push_back(Tensor(op->output_shape(i), op->output_dtype(i), op, i));
    }
    return outputs;
  });
}

/// Calls `pre` before and `post` after the children of each statement or expression of the kinds that are wanted;
/// what they return (if not null) takes its place.
class CallbackTransform : public tir::StmtExprMutator {
 public:
  CallbackTransform(runtime::PackedFunc pre, runtime::PackedFunc post, const Array<String>& kinds)
      : pre_(std::move(pre)), post_(std::move(post)) {
    for (const String& kind : kinds) kinds_.insert(kind.str());
  }
  Stmt Run(const Stmt& stmt) { return VisitStmt(stmt); }

 protected:
  Stmt VisitStmt(const Stmt& stmt) override {
    return Around(stmt, [&] { return tir::StmtExprMutator::VisitStmt(stmt); });
  }
  PrimExpr VisitExpr(const PrimExpr& e) override {
    return Around(e, [&] { return tir::StmtExprMutator::VisitExpr(e); });
  }

 private:
  template <typename Ref, typename F>
  Ref Around(const Ref& node, F&& children) {
    const bool wanted = kinds_.empty() || kinds_.count(node->type_key()) != 0;
    if (wanted && pre_.defined()) {
      ObjectRef result = pre_(node).template As<ObjectRef>();
      if (result.defined()) return Expect<Ref>(result);
    }
    Ref changed = children();
    if (wanted && post_.defined()) {
      ObjectRef result = post_(changed).template As<ObjectRef>();
      if (result.defined()) return Expect<Ref>(result);
    }
    return changed;
  }
  runtime::PackedFunc pre_, post_;
  std::unordered_set<std::string> kinds_;
};

void RegisterFunctors() {
  Reg("tir.PostOrderVisit", [](AnyValue node, runtime::PackedFunc visit) {
    if (node.as<PrimExprNode>() == nullptr && node.as<tir::PrimFuncNode>() == nullptr) Expect<Stmt>(node);
    tir::PostOrderVisit(node, [&](const ObjectRef& n) { visit(n); });
  });
  Reg("tir.IRTransform", [](Stmt stmt, OrNull<runtime::PackedFunc> pre, OrNull<runtime::PackedFunc> post,
                            Array<String> kinds) { return CallbackTransform(pre, post, kinds).Run(stmt); });
  Reg("tir.Substitute", [](AnyValue node, Map<Var, PrimExpr> vmap) -> ObjectRef {
    if (node.as<PrimExprNode>()) return tir::Substitute(Expect<PrimExpr>(node), vmap);
    return tir::Substitute(Expect<Stmt>(node), vmap);
  });
  Reg("tir.FuncWithBody", [](tir::PrimFunc func, Stmt body) {
    func.CopyOnWrite()->body = body;
    return func;
  });
}

}  // namespace

void RegisterTirApi() {
  RegisterFunctors();
  RegisterVectors();
  RegisterStatements();
  RegisterBlocks();
  RegisterBuffers();
  RegisterOperations();
}

}  // namespace treadle::python
