// SPDX-License-Identifier: Apache-2.0
// The meaning of programs of the graph IR: an interpreter of the whole language, which tests of passes and `verify`
// compare with. Operators run one by one in the interpreter of loop-level code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "treadle/ir/module.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {

/// What expressions evaluate to: an NDArray, or one of the nodes below.
using Value = ObjectRef;

class TupleValueNode : public Object {
 public:
  Array<Value> fields;
  TREADLE_DECLARE_NODE(TupleValueNode, Object, "relay.TupleValue");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("fields", &TupleValueNode::fields);
  }
};
class TupleValue : public ObjectRef {
 public:
  explicit TupleValue(Array<Value> fields);
  TREADLE_REF(TupleValue, ObjectRef, TupleValueNode);
};

/// A value of an algebraic data type.
class ConstructorValueNode : public Object {
 public:
  int tag = -1;
  Array<Value> fields;
  Constructor constructor;
  TREADLE_DECLARE_NODE(ConstructorValueNode, Object, "relay.ConstructorValue");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("tag", &ConstructorValueNode::tag);
    r.Field("fields", &ConstructorValueNode::fields);
    r.Field("constructor", &ConstructorValueNode::constructor);
  }
};
class ConstructorValue : public ObjectRef {
 public:
  ConstructorValue(Constructor constructor, Array<Value> fields);
  TREADLE_REF(ConstructorValue, ObjectRef, ConstructorValueNode);
};

/// A mutable cell. One that holds itself (through a closure, say) is never freed.
class RefValueNode : public Object {
 public:
  mutable Value value;
  TREADLE_DECLARE_NODE(RefValueNode, Object, "relay.RefValue");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &RefValueNode::value);
  }
};
class RefValue : public ObjectRef {
 public:
  explicit RefValue(Value value);
  TREADLE_REF(RefValue, ObjectRef, RefValueNode);
};

/// A function with what it captured; also operators, constructors and global functions used as values. Belongs to the
/// interpreter that made it.
class ClosureValueNode : public Object {
 public:
  std::vector<Value> captured;
  int code = -1;       ///< of the interpreter; -1: `callee` stands for itself
  relay::Expr callee;  ///< function literal, operator, constructor or global function
  TREADLE_DECLARE_NODE(ClosureValueNode, Object, "relay.Closure");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("callee", &ClosureValueNode::callee);
  }
};
class ClosureValue : public ObjectRef {
 public:
  ClosureValue(relay::Expr callee, int code, std::vector<Value> captured);
  TREADLE_REF(ClosureValue, ObjectRef, ClosureValueNode);
};

struct InterpreterLimits {
  int64_t max_steps = int64_t{1} << 40;  ///< expressions evaluated in one call of Evaluate or Invoke
  int64_t max_depth = int64_t{1} << 22;  ///< calls and branches within each other; calls in tail position don't count
};

/// Evaluates eagerly, arguments from left to right; values shared in the graph are computed once, in the innermost
/// scope that contains all their uses. Neither deep programs nor deep recursion use the machine's stack.
class Interpreter {
 public:
  /// The module is typed first (TypeInferError).
  explicit Interpreter(IRModule module, InterpreterLimits limits = {});
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// The value of an expression that may use the module's functions and types; it has no free variables.
  /// Throws RuntimeError for an incomplete match without a clause for the value, for bad indices and when a limit is
  /// exceeded; what EvaluateOp throws for operators.
  Value Evaluate(const relay::Expr& expr);
  /// Calls a value that is a function. Arguments are checked against the parameters: number, dtypes, constant
  /// dimensions (Error, DTypeError, ShapeError that names the parameter).
  Value Invoke(const Value& function, const std::vector<Value>& args);
  /// Calls a global function.
  Value Run(const std::string& function, const std::vector<Value>& args);

  class Machine;

 private:
  std::unique_ptr<Machine> machine_;
};

/// A value as text, for messages: "(Tensor(2, 3) float32, Cons(.., ..))".
std::string DescribeValue(const Value& value);

}  // namespace treadle::driver
