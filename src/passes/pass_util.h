// SPDX-License-Identifier: Apache-2.0
// What several passes need: recognising calls, reading constants, counting uses.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "treadle/ops/constants.h"
#include "treadle/ops/make.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::ops {
class ConvAttrs;
}

namespace treadle::relay {

/// The call when `expr` calls the operator of that name, else null.
const CallNode* AsCallOf(const Expr& expr, const char* op_name);
/// The attributes of a convolution of one to three spatial dimensions (not transposed) whose layouts have no blocks;
/// null for other calls. ShapeError where a layout is malformed.
const ops::ConvAttrs* PlainConvAttrs(const CallNode* call);
/// The pattern of the operator that is called; kOpaque where it is none.
OpPatternKind PatternOf(const CallNode* call);
/// The operator's name when `call` is of an operator, else "".
const std::string& OpName(const CallNode* call);

/// The value of a constant that has the same number everywhere (rank 0, or all elements equal, at most 2^20 of
/// them); nothing for other expressions and for integers above 2^53.
std::optional<double> UniformValue(const Expr& expr);
using ops::ConstIntegers;

/// The inferred type as a tensor type, or null.
inline const TensorTypeNode* TensorTypeOf(const Expr& expr) { return expr->type_as<TensorTypeNode>(); }
/// Whether two shapes are equal as far as is known.
bool ShapesEqual(const Array<PrimExpr>& a, const Array<PrimExpr>& b);
bool TypesEqual(const Type& a, const Type& b);
/// `axis`, counted from the front.
inline int PositiveAxis(int axis, size_t rank) { return axis < 0 ? axis + static_cast<int>(rank) : axis; }

/// How often each node is used as a child of another (or as the root).
std::unordered_map<const Object*, int> CountUses(const Expr& expr);

/// Whether evaluating the call has no effect and gives the same value each time.
bool IsPureOp(const CallNode* call);
/// Whether evaluating `expr` may have an effect: reads or writes of cells, stateful operators, calls of unknown
/// functions. Looks at the whole expression but not into function literals that aren't called.
bool MayHaveEffect(const Expr& expr);
/// The same for many expressions that share parts: each node is looked at once.
class EffectFinder {
 public:
  bool MayHaveEffect(const Expr& expr);
  /// Whether taking field `index` of the tuple leaves out an effect of another field.
  bool OthersMayHaveEffect(const Array<Expr>& fields, size_t index);

 private:
  std::unordered_map<Expr, bool, ObjectPtrHash, ObjectPtrEqual> known_;
};

/// A let and what it binds now.
using LetWithValue = std::pair<const LetNode*, Expr>;
/// The chain of lets (outermost first) around `body`; those that don't change are the same objects.
Expr RebuildLets(const std::vector<LetWithValue>& lets, Expr body);
/// `replaced`, in which calls without a place get that of `original`, down to the arguments of that: errors of a run
/// and profiles name the model's node.
Expr WithPlaceOf(const Expr& replaced, const CallNode* original);
/// What a rule for calls of an operator (an attribute as kLegalize) makes of `post`, which was `pre`; `post` where
/// there is no rule or it does nothing.
template <typename Rule>
Expr ReplaceByRule(const Rule* rule, const CallNode* pre, const Expr& post) {
  if (rule == nullptr) return post;
  Array<Type> types;
  for (const Expr& arg : pre->args) types.push_back(arg->checked_type());
  types.push_back(pre->checked_type());
  const auto* call = static_cast<const CallNode*>(post.get());
  Expr replaced = (*rule)(call->attrs, call->args, types);
  return replaced.defined() ? WithPlaceOf(replaced, call) : post;
}

/// Whether a call is one of a function as FuseOps makes them, which says nothing of itself but that it is a kernel.
bool IsFusedCall(const CallNode* call);
/// A call of a function that becomes a kernel, or of one that only says what shape its operand has.
Call CallPrimitive(const Array<Var>& params, const Expr& body, const Array<Expr>& args, const Span& span,
                   bool reshape_only = false);
/// What calls of one operand each, the last first, make of `value`.
Expr ApplyAll(const std::vector<const CallNode*>& calls, Expr value);
/// `func` with another body; the same object when the body is the same.
Function WithBody(const Function& func, const Expr& body);
/// A copy in which each bound variable is a new one. (inline.cc)
Expr RenameBoundVars(const Expr& expr);
/// As RenameBoundVars, with types in place of the function's type parameters; null where their number differs.
Function Instantiate(const Function& func, const Array<Type>& type_args);
/// A new type-checked copy of `expr` isn't needed by most rewrites: this only copies the type over.
inline Expr WithTypeOf(const Expr& expr, const ExprNode* like) {
  auto* node = const_cast<ExprNode*>(expr.get());
  if (!node->checked_type_.defined()) node->checked_type_ = like->checked_type_;
  return expr;
}

namespace transform {

/// A pass that changes each function by a Mutator, which is made of the function where it takes one.
template <typename Mutator>
Pass MutatorPass(PassInfo info) {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        if constexpr (std::is_constructible_v<Mutator, const Function&>) {
          return Downcast<Function>(Mutator(func).Mutate(func));
        } else {
          return Downcast<Function>(Mutator().Mutate(func));
        }
      },
      std::move(info));
}

}  // namespace transform

}  // namespace treadle::relay
