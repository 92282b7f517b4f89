// SPDX-License-Identifier: Apache-2.0
// Scalar expressions: what shapes, indices and kernels compute. (Namespace tir, as users of the field know them.)
#pragma once

#include <string>

#include "treadle/ir/expr.h"
#include "treadle/ir/op.h"
#include "treadle/ir/type.h"

namespace treadle::tir {

/// A variable. Identity is the object. Pointers have dtype handle and a PointerType annotation.
class VarNode : public PrimExprNode {
 public:
  std::string name_hint;
  Type type_annotation;  ///< PointerType for pointers; null or PrimType for scalars
  TREADLE_DECLARE_NODE(VarNode, PrimExprNode, "tir.Var");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &VarNode::name_hint).Ignored();
    r.Field("type_annotation", &VarNode::type_annotation);
  }
};
class Var : public PrimExpr {
 public:
  explicit Var(std::string name_hint, DataType dtype = DataType::Int(32), Span span = Span());
  Var(std::string name_hint, Type type_annotation, Span span = Span());
  TREADLE_REF(Var, PrimExpr, VarNode);
};

class StringImmNode : public PrimExprNode {
 public:
  std::string value;
  TREADLE_DECLARE_NODE(StringImmNode, PrimExprNode, "tir.StringImm");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &StringImmNode::value);
  }
};
class StringImm : public PrimExpr {
 public:
  explicit StringImm(std::string value, Span span = Span());
  TREADLE_REF(StringImm, PrimExpr, StringImmNode);
};

/// Conversion of value to `dtype` (same lanes). Float to int truncates toward zero and saturates.
class CastNode : public PrimExprNode {
 public:
  PrimExpr value;
  TREADLE_DECLARE_NODE(CastNode, PrimExprNode, "tir.Cast");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &CastNode::value);
  }
};
class Cast : public PrimExpr {
 public:
  Cast(DataType dtype, PrimExpr value, Span span = Span());
  TREADLE_REF(Cast, PrimExpr, CastNode);
};

/// Declares a binary operator: a node with operands `a`, `b` of one dtype. Constructors check the dtypes and don't
/// fold; the functions of prim_ops.h promote and fold.
#define TREADLE_BINARY_NODE(Name, text)                           \
  class Name##Node : public PrimExprNode {                        \
   public:                                                        \
    PrimExpr a, b;                                                \
    TREADLE_DECLARE_NODE(Name##Node, PrimExprNode, "tir." #Name); \
    template <typename R>                                         \
    static void Reflect(R& r) {                                   \
      r.Field("a", &Name##Node::a);                               \
      r.Field("b", &Name##Node::b);                               \
    }                                                             \
    static constexpr const char* kSymbol = text;                  \
  };                                                              \
  class Name : public PrimExpr {                                  \
   public:                                                        \
    Name(PrimExpr a, PrimExpr b, Span span = Span());             \
    TREADLE_REF(Name, PrimExpr, Name##Node);                      \
  }

TREADLE_BINARY_NODE(Add, "+");
TREADLE_BINARY_NODE(Sub, "-");
TREADLE_BINARY_NODE(Mul, "*");
TREADLE_BINARY_NODE(Div, "/");  ///< truncating on integers
TREADLE_BINARY_NODE(Mod, "%");  ///< remainder of truncating division
TREADLE_BINARY_NODE(FloorDiv, "floordiv");
TREADLE_BINARY_NODE(FloorMod, "floormod");
TREADLE_BINARY_NODE(Min, "min");  ///< of floats: a NaN operand gives NaN
TREADLE_BINARY_NODE(Max, "max");
// Comparisons and logic give bool of the operands' lanes.
TREADLE_BINARY_NODE(EQ, "==");
TREADLE_BINARY_NODE(NE, "!=");
TREADLE_BINARY_NODE(LT, "<");
TREADLE_BINARY_NODE(LE, "<=");
TREADLE_BINARY_NODE(GT, ">");
TREADLE_BINARY_NODE(GE, ">=");
TREADLE_BINARY_NODE(And, "&&");
TREADLE_BINARY_NODE(Or, "||");

class NotNode : public PrimExprNode {
 public:
  PrimExpr a;
  TREADLE_DECLARE_NODE(NotNode, PrimExprNode, "tir.Not");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("a", &NotNode::a);
  }
};
class Not : public PrimExpr {
 public:
  explicit Not(PrimExpr a, Span span = Span());
  TREADLE_REF(Not, PrimExpr, NotNode);
};

/// Both values are computed; use the intrinsic tir.if_then_else where one may trap.
class SelectNode : public PrimExprNode {
 public:
  PrimExpr condition, true_value, false_value;
  TREADLE_DECLARE_NODE(SelectNode, PrimExprNode, "tir.Select");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("condition", &SelectNode::condition);
    r.Field("true_value", &SelectNode::true_value);
    r.Field("false_value", &SelectNode::false_value);
  }
};
class Select : public PrimExpr {
 public:
  Select(PrimExpr condition, PrimExpr true_value, PrimExpr false_value, Span span = Span());
  TREADLE_REF(Select, PrimExpr, SelectNode);
};

/// The vector [base, base + stride, ..., base + (lanes - 1) * stride].
class RampNode : public PrimExprNode {
 public:
  PrimExpr base, stride;
  int lanes = 0;
  TREADLE_DECLARE_NODE(RampNode, PrimExprNode, "tir.Ramp");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("base", &RampNode::base);
    r.Field("stride", &RampNode::stride);
    r.Field("lanes", &RampNode::lanes);
  }
};
class Ramp : public PrimExpr {
 public:
  Ramp(PrimExpr base, PrimExpr stride, int lanes, Span span = Span());
  TREADLE_REF(Ramp, PrimExpr, RampNode);
};

class BroadcastNode : public PrimExprNode {
 public:
  PrimExpr value;
  int lanes = 0;
  TREADLE_DECLARE_NODE(BroadcastNode, PrimExprNode, "tir.Broadcast");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &BroadcastNode::value);
    r.Field("lanes", &BroadcastNode::lanes);
  }
};
class Broadcast : public PrimExpr {
 public:
  Broadcast(PrimExpr value, int lanes, Span span = Span());
  TREADLE_REF(Broadcast, PrimExpr, BroadcastNode);
};

/// Lanes picked by constant indices out of the concatenation of `vectors`.
class ShuffleNode : public PrimExprNode {
 public:
  Array<PrimExpr> vectors;
  Array<PrimExpr> indices;
  TREADLE_DECLARE_NODE(ShuffleNode, PrimExprNode, "tir.Shuffle");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("vectors", &ShuffleNode::vectors);
    r.Field("indices", &ShuffleNode::indices);
  }
};
class Shuffle : public PrimExpr {
 public:
  Shuffle(Array<PrimExpr> vectors, Array<PrimExpr> indices, Span span = Span());
  TREADLE_REF(Shuffle, PrimExpr, ShuffleNode);
};

/// `value` is computed once and named `var` in `body`.
class LetNode : public PrimExprNode {
 public:
  Var var;
  PrimExpr value, body;
  TREADLE_DECLARE_NODE(LetNode, PrimExprNode, "tir.Let");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &LetNode::value);
    r.Field("var", &LetNode::var).Defines();
    r.Field("body", &LetNode::body);
  }
};
class Let : public PrimExpr {
 public:
  Let(Var var, PrimExpr value, PrimExpr body, Span span = Span());
  TREADLE_REF(Let, PrimExpr, LetNode);
};

/// Call of an intrinsic (Op such as "tir.exp") or of a function of the module (GlobalVar).
class CallNode : public PrimExprNode {
 public:
  RelayExpr op;
  Array<PrimExpr> args;
  TREADLE_DECLARE_NODE(CallNode, PrimExprNode, "tir.Call");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("op", &CallNode::op);
    r.Field("args", &CallNode::args);
  }
};
class Call : public PrimExpr {
 public:
  Call(DataType dtype, RelayExpr op, Array<PrimExpr> args, Span span = Span());
  TREADLE_REF(Call, PrimExpr, CallNode);
};

/// A memory region seen as an n-dimensional array. Element (i0, i1, ..) lies at
/// data[elem_offset + i0*strides[0] + i1*strides[1] + ..]; empty strides: compact row-major.
class BufferNode : public Object {
 public:
  Var data;  ///< pointer; its PointerType holds the storage scope
  DataType dtype;
  Array<PrimExpr> shape;
  Array<PrimExpr> strides;
  PrimExpr elem_offset;  ///< in elements; null: 0
  std::string name;
  int data_alignment = 64;  ///< bytes
  int offset_factor = 0;    ///< elem_offset is a multiple of it (0: unknown)
  Span span;
  TREADLE_DECLARE_NODE(BufferNode, Object, "tir.Buffer");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("data", &BufferNode::data).Defines();
    r.Field("dtype", &BufferNode::dtype);
    r.Field("shape", &BufferNode::shape).Defines();
    r.Field("strides", &BufferNode::strides).Defines();
    r.Field("elem_offset", &BufferNode::elem_offset).Defines();
    r.Field("name", &BufferNode::name).Ignored();
    r.Field("data_alignment", &BufferNode::data_alignment);
    r.Field("offset_factor", &BufferNode::offset_factor);
    r.Field("span", &BufferNode::span).Ignored();
  }
};
class Buffer : public ObjectRef {
 public:
  Buffer(Var data, DataType dtype, Array<PrimExpr> shape, Array<PrimExpr> strides, PrimExpr elem_offset,
         std::string name, int data_alignment = 64, int offset_factor = 0, Span span = Span());
  TREADLE_REF(Buffer, ObjectRef, BufferNode);
  /// "global", "local", "shared", ...
  std::string scope() const;
};
/// A compact buffer with a fresh data pointer.
Buffer DeclBuffer(Array<PrimExpr> shape, DataType dtype, std::string name = "buffer", std::string scope = "global");

/// Element (or vector, where the last index is one) of a buffer. One index per dimension.
class BufferLoadNode : public PrimExprNode {
 public:
  Buffer buffer;
  Array<PrimExpr> indices;
  TREADLE_DECLARE_NODE(BufferLoadNode, PrimExprNode, "tir.BufferLoad");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("buffer", &BufferLoadNode::buffer);
    r.Field("indices", &BufferLoadNode::indices);
  }
};
class BufferLoad : public PrimExpr {
 public:
  BufferLoad(Buffer buffer, Array<PrimExpr> indices, Span span = Span());
  TREADLE_REF(BufferLoad, PrimExpr, BufferLoadNode);
};

/// A half-open interval of integers.
class RangeNode : public Object {
 public:
  PrimExpr min, extent;
  TREADLE_DECLARE_NODE(RangeNode, Object, "Range");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("min", &RangeNode::min);
    r.Field("extent", &RangeNode::extent);
  }
};
class Range : public ObjectRef {
 public:
  /// [0, end)
  explicit Range(PrimExpr end);
  static Range FromMinExtent(PrimExpr min, PrimExpr extent);
  TREADLE_REF(Range, ObjectRef, RangeNode);
};

enum class IterVarType : int {
  kDataPar = 0,
  kThreadIndex = 1,
  kCommReduce = 2,
  kOrdered = 3,
  kOpaque = 4,
  kUnrolled = 5,
  kVectorized = 6,
  kParallelized = 7,
  kTensorized = 8,
};

/// An axis of iteration. `dom` may be null for thread axes.
class IterVarNode : public PrimExprNode {
 public:
  Range dom;
  Var var;
  IterVarType iter_type = IterVarType::kDataPar;
  std::string thread_tag;
  TREADLE_DECLARE_NODE(IterVarNode, PrimExprNode, "tir.IterVar");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dom", &IterVarNode::dom);
    r.Field("var", &IterVarNode::var).Defines();
    r.Field("iter_type", &IterVarNode::iter_type);
    r.Field("thread_tag", &IterVarNode::thread_tag);
  }
};
/// Converts to its variable where an expression is expected.
class IterVar : public PrimExpr {
 public:
  IterVar(Range dom, Var var, IterVarType iter_type, std::string thread_tag = "", Span span = Span());
  TREADLE_REF(IterVar, PrimExpr, IterVarNode);
};

/// An associative, commutative reduction: result[i] combines lhs[i] and rhs[i]; identity_element[i] is neutral.
class CommReducerNode : public Object {
 public:
  Array<Var> lhs, rhs;
  Array<PrimExpr> result;
  Array<PrimExpr> identity_element;
  TREADLE_DECLARE_NODE(CommReducerNode, Object, "tir.CommReducer");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("lhs", &CommReducerNode::lhs).Defines();
    r.Field("rhs", &CommReducerNode::rhs).Defines();
    r.Field("result", &CommReducerNode::result);
    r.Field("identity_element", &CommReducerNode::identity_element);
  }
};
class CommReducer : public ObjectRef {
 public:
  CommReducer(Array<Var> lhs, Array<Var> rhs, Array<PrimExpr> result, Array<PrimExpr> identity_element);
  TREADLE_REF(CommReducer, ObjectRef, CommReducerNode);
};

/// Reduction of `source` over `axis`; only at the top of a te.compute body. Of several sources, `value_index` says
/// which result this expression is.
class ReduceNode : public PrimExprNode {
 public:
  CommReducer combiner;
  Array<PrimExpr> source;
  Array<PrimExpr> init;  ///< empty: identity_element
  Array<IterVar> axis;
  PrimExpr condition;  ///< elements where it is false are skipped
  int value_index = 0;
  TREADLE_DECLARE_NODE(ReduceNode, PrimExprNode, "tir.Reduce");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ReduceNode::axis).Defines();
    r.Field("combiner", &ReduceNode::combiner);
    r.Field("source", &ReduceNode::source);
    r.Field("init", &ReduceNode::init);
    r.Field("condition", &ReduceNode::condition);
    r.Field("value_index", &ReduceNode::value_index);
  }
};
class Reduce : public PrimExpr {
 public:
  Reduce(CommReducer combiner, Array<PrimExpr> source, Array<IterVar> axis, PrimExpr condition, int value_index,
         Array<PrimExpr> init = {}, Span span = Span());
  TREADLE_REF(Reduce, PrimExpr, ReduceNode);
};

/// What a tensor expression can read: te::Tensor derives from it.
class DataProducerNode : public Object {
 public:
  virtual Array<PrimExpr> GetShape() const = 0;
  virtual DataType GetDataType() const = 0;
  virtual std::string GetNameHint() const = 0;
  TREADLE_DECLARE_NODE(DataProducerNode, Object, "tir.DataProducer");
};
class DataProducer : public ObjectRef {
 public:
  TREADLE_BASE_REF(DataProducer, ObjectRef, DataProducerNode);
};

/// Element of a tensor, in te.compute bodies; conversion to TIR turns it into a BufferLoad.
class ProducerLoadNode : public PrimExprNode {
 public:
  DataProducer producer;
  Array<PrimExpr> indices;
  TREADLE_DECLARE_NODE(ProducerLoadNode, PrimExprNode, "tir.ProducerLoad");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("producer", &ProducerLoadNode::producer);
    r.Field("indices", &ProducerLoadNode::indices);
  }
};
class ProducerLoad : public PrimExpr {
 public:
  ProducerLoad(DataProducer producer, Array<PrimExpr> indices, Span span = Span());
  TREADLE_REF(ProducerLoad, PrimExpr, ProducerLoadNode);
};

}  // namespace treadle::tir
