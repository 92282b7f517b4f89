// SPDX-License-Identifier: Apache-2.0
// Statements of loop-level code.
//
// Two forms share these nodes. Schedulable form: nests of For around BlockRealize/Block, each block a computation
// with its own iteration variables, declared reads and writes, and init. Low-level form: loops, stores to flat
// buffers, allocations. Lowering (tir/passes) turns the first into the second.
#pragma once

#include <optional>
#include <string>

#include "treadle/ir/prim_expr.h"

namespace treadle::tir {

class StmtNode : public Object {
 public:
  Span span;
  TREADLE_DECLARE_NODE(StmtNode, Object, "tir.Stmt");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("span", &StmtNode::span).Ignored();
  }
};
class Stmt : public ObjectRef {
 public:
  TREADLE_BASE_REF(Stmt, ObjectRef, StmtNode);
};

class LetStmtNode : public StmtNode {
 public:
  Var var;
  PrimExpr value;
  Stmt body;
  TREADLE_DECLARE_NODE(LetStmtNode, StmtNode, "tir.LetStmt");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &LetStmtNode::value);
    r.Field("var", &LetStmtNode::var).Defines();
    r.Field("body", &LetStmtNode::body);
  }
};
class LetStmt : public Stmt {
 public:
  LetStmt(Var var, PrimExpr value, Stmt body, Span span = Span());
  TREADLE_REF(LetStmt, Stmt, LetStmtNode);
};

/// Attribute `attr_key` = `value` of `node` (a variable, buffer or axis; may be null) within `body`.
class AttrStmtNode : public StmtNode {
 public:
  ObjectRef node;
  std::string attr_key;
  PrimExpr value;
  Stmt body;
  TREADLE_DECLARE_NODE(AttrStmtNode, StmtNode, "tir.AttrStmt");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("node", &AttrStmtNode::node);
    r.Field("attr_key", &AttrStmtNode::attr_key);
    r.Field("value", &AttrStmtNode::value);
    r.Field("body", &AttrStmtNode::body);
  }
};
class AttrStmt : public Stmt {
 public:
  AttrStmt(ObjectRef node, std::string attr_key, PrimExpr value, Stmt body, Span span = Span());
  TREADLE_REF(AttrStmt, Stmt, AttrStmtNode);
};

/// Fails at run time with `message` (a StringImm) where `condition` is false.
class AssertStmtNode : public StmtNode {
 public:
  PrimExpr condition;
  PrimExpr message;
  Stmt body;
  TREADLE_DECLARE_NODE(AssertStmtNode, StmtNode, "tir.AssertStmt");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("condition", &AssertStmtNode::condition);
    r.Field("message", &AssertStmtNode::message);
    r.Field("body", &AssertStmtNode::body);
  }
};
class AssertStmt : public Stmt {
 public:
  AssertStmt(PrimExpr condition, PrimExpr message, Stmt body, Span span = Span());
  TREADLE_REF(AssertStmt, Stmt, AssertStmtNode);
};

class BufferStoreNode : public StmtNode {
 public:
  Buffer buffer;
  PrimExpr value;
  Array<PrimExpr> indices;
  TREADLE_DECLARE_NODE(BufferStoreNode, StmtNode, "tir.BufferStore");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("buffer", &BufferStoreNode::buffer);
    r.Field("value", &BufferStoreNode::value);
    r.Field("indices", &BufferStoreNode::indices);
  }
};
class BufferStore : public Stmt {
 public:
  BufferStore(Buffer buffer, PrimExpr value, Array<PrimExpr> indices, Span span = Span());
  TREADLE_REF(BufferStore, Stmt, BufferStoreNode);
};

/// Memory that lives during `body`. Low-level form.
class AllocateNode : public StmtNode {
 public:
  Buffer buffer;
  Stmt body;
  Map<String, ObjectRef> annotations;
  TREADLE_DECLARE_NODE(AllocateNode, StmtNode, "tir.Allocate");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("buffer", &AllocateNode::buffer).Defines();
    r.Field("body", &AllocateNode::body);
    r.Field("annotations", &AllocateNode::annotations);
  }
};
class Allocate : public Stmt {
 public:
  Allocate(Buffer buffer, Stmt body, Map<String, ObjectRef> annotations = {}, Span span = Span());
  TREADLE_REF(Allocate, Stmt, AllocateNode);
};

class SeqStmtNode : public StmtNode {
 public:
  Array<Stmt> seq;
  TREADLE_DECLARE_NODE(SeqStmtNode, StmtNode, "tir.SeqStmt");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("seq", &SeqStmtNode::seq);
  }
};
class SeqStmt : public Stmt {
 public:
  explicit SeqStmt(Array<Stmt> seq, Span span = Span());
  TREADLE_REF(SeqStmt, Stmt, SeqStmtNode);
  /// Concatenation without nesting, no-ops left out; a single statement is returned as it is.
  static Stmt Flatten(const Array<Stmt>& seq);
};

class IfThenElseNode : public StmtNode {
 public:
  PrimExpr condition;
  Stmt then_case;
  Stmt else_case;  ///< may be null
  TREADLE_DECLARE_NODE(IfThenElseNode, StmtNode, "tir.IfThenElse");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("condition", &IfThenElseNode::condition);
    r.Field("then_case", &IfThenElseNode::then_case);
    r.Field("else_case", &IfThenElseNode::else_case);
  }
};
class IfThenElse : public Stmt {
 public:
  IfThenElse(PrimExpr condition, Stmt then_case, Stmt else_case = Stmt(), Span span = Span());
  TREADLE_REF(IfThenElse, Stmt, IfThenElseNode);
};

/// A call for its effect. Evaluate(0) is the no-op.
class EvaluateNode : public StmtNode {
 public:
  PrimExpr value;
  TREADLE_DECLARE_NODE(EvaluateNode, StmtNode, "tir.Evaluate");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &EvaluateNode::value);
  }
};
class Evaluate : public Stmt {
 public:
  explicit Evaluate(PrimExpr value, Span span = Span());
  TREADLE_REF(Evaluate, Stmt, EvaluateNode);
};

enum class ForKind : int { kSerial = 0, kParallel = 1, kVectorized = 2, kUnrolled = 3, kThreadBinding = 4 };

/// loop_var takes min, min+1, .., min+extent-1.
class ForNode : public StmtNode {
 public:
  Var loop_var;
  PrimExpr min, extent;
  ForKind kind = ForKind::kSerial;
  Stmt body;
  IterVar thread_binding;  ///< of kThreadBinding, else null
  Map<String, ObjectRef> annotations;
  TREADLE_DECLARE_NODE(ForNode, StmtNode, "tir.For");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("min", &ForNode::min);
    r.Field("extent", &ForNode::extent);
    r.Field("loop_var", &ForNode::loop_var).Defines();
    r.Field("kind", &ForNode::kind);
    r.Field("thread_binding", &ForNode::thread_binding);
    r.Field("annotations", &ForNode::annotations);
    r.Field("body", &ForNode::body);
  }
};
class For : public Stmt {
 public:
  For(Var loop_var, PrimExpr min, PrimExpr extent, ForKind kind, Stmt body, IterVar thread_binding = IterVar(),
      Map<String, ObjectRef> annotations = {}, Span span = Span());
  TREADLE_REF(For, Stmt, ForNode);
};

class WhileNode : public StmtNode {
 public:
  PrimExpr condition;
  Stmt body;
  TREADLE_DECLARE_NODE(WhileNode, StmtNode, "tir.While");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("condition", &WhileNode::condition);
    r.Field("body", &WhileNode::body);
  }
};
class While : public Stmt {
 public:
  While(PrimExpr condition, Stmt body, Span span = Span());
  TREADLE_REF(While, Stmt, WhileNode);
};

/// A box of elements of a buffer.
class BufferRegionNode : public Object {
 public:
  Buffer buffer;
  Array<Range> region;
  TREADLE_DECLARE_NODE(BufferRegionNode, Object, "tir.BufferRegion");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("buffer", &BufferRegionNode::buffer);
    r.Field("region", &BufferRegionNode::region);
  }
};
class BufferRegion : public ObjectRef {
 public:
  BufferRegion(Buffer buffer, Array<Range> region);
  /// The whole buffer.
  static BufferRegion Full(const Buffer& buffer);
  TREADLE_REF(BufferRegion, ObjectRef, BufferRegionNode);
};

/// `buffer` is a view of `source` within a block.
class MatchBufferRegionNode : public Object {
 public:
  Buffer buffer;
  BufferRegion source;
  TREADLE_DECLARE_NODE(MatchBufferRegionNode, Object, "tir.MatchBufferRegion");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("source", &MatchBufferRegionNode::source);
    r.Field("buffer", &MatchBufferRegionNode::buffer).Defines();
  }
};
class MatchBufferRegion : public ObjectRef {
 public:
  MatchBufferRegion(Buffer buffer, BufferRegion source);
  TREADLE_REF(MatchBufferRegion, ObjectRef, MatchBufferRegionNode);
};

/// A unit of computation that schedules move around. `iter_vars` are the block's own axes; the BlockRealize around
/// it binds them to loop variables. `init` runs when all reduction axes are at their first value.
class BlockNode : public StmtNode {
 public:
  Array<IterVar> iter_vars;
  Array<BufferRegion> reads;
  Array<BufferRegion> writes;
  std::string name_hint;
  Stmt body;
  Stmt init;  ///< may be null
  Array<Buffer> alloc_buffers;
  Array<MatchBufferRegion> match_buffers;
  Map<String, ObjectRef> annotations;
  TREADLE_DECLARE_NODE(BlockNode, StmtNode, "tir.Block");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("iter_vars", &BlockNode::iter_vars).Defines();
    r.Field("alloc_buffers", &BlockNode::alloc_buffers).Defines();
    r.Field("match_buffers", &BlockNode::match_buffers).Defines();
    r.Field("name_hint", &BlockNode::name_hint).Ignored();
    r.Field("annotations", &BlockNode::annotations);
    r.Field("reads", &BlockNode::reads);
    r.Field("writes", &BlockNode::writes);
    r.Field("body", &BlockNode::body);
    r.Field("init", &BlockNode::init);
  }
};
class Block : public Stmt {
 public:
  Block(Array<IterVar> iter_vars, Array<BufferRegion> reads, Array<BufferRegion> writes, std::string name_hint,
        Stmt body, Stmt init = Stmt(), Array<Buffer> alloc_buffers = {}, Array<MatchBufferRegion> match_buffers = {},
        Map<String, ObjectRef> annotations = {}, Span span = Span());
  TREADLE_REF(Block, Stmt, BlockNode);
};

/// Runs `block` with its iteration variables bound to `iter_values`, where `predicate` holds.
class BlockRealizeNode : public StmtNode {
 public:
  Array<PrimExpr> iter_values;
  PrimExpr predicate;
  Block block;
  TREADLE_DECLARE_NODE(BlockRealizeNode, StmtNode, "tir.BlockRealize");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("iter_values", &BlockRealizeNode::iter_values);
    r.Field("predicate", &BlockRealizeNode::predicate);
    r.Field("block", &BlockRealizeNode::block);
  }
};
class BlockRealize : public Stmt {
 public:
  BlockRealize(Array<PrimExpr> iter_values, PrimExpr predicate, Block block, Span span = Span());
  TREADLE_REF(BlockRealize, Stmt, BlockRealizeNode);
};

/// Keys of AttrStmt and of loop and block annotations.
namespace attr {
inline constexpr const char* kThreadExtent = "thread_extent";
inline constexpr const char* kVirtualThread = "virtual_thread";
inline constexpr const char* kDoubleBufferScope = "double_buffer_scope";
inline constexpr const char* kStorageAlignment = "storage_alignment";
inline constexpr const char* kPragmaPrefix = "pragma_";
inline constexpr const char* kAutoUnrollMaxStep = "pragma_auto_unroll_max_step";
inline constexpr const char* kUnrollExplicit = "pragma_unroll_explicit";
}  // namespace attr

}  // namespace treadle::tir
