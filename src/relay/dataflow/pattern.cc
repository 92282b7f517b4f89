// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/dataflow_pattern.h"

namespace treadle::relay {

TREADLE_DEFINE_NODE(DFPatternNode);
TREADLE_DEFINE_NODE(ExprPatternNode);
TREADLE_DEFINE_NODE(VarPatternNode);
TREADLE_DEFINE_NODE(ConstantPatternNode);
TREADLE_DEFINE_NODE(WildcardPatternNode);
TREADLE_DEFINE_NODE(CallPatternNode);
TREADLE_DEFINE_NODE(FunctionPatternNode);
TREADLE_DEFINE_NODE(LetPatternNode);
TREADLE_DEFINE_NODE(IfPatternNode);
TREADLE_DEFINE_NODE(TuplePatternNode);
TREADLE_DEFINE_NODE(TupleGetItemPatternNode);
TREADLE_DEFINE_NODE(AltPatternNode);
TREADLE_DEFINE_NODE(TypePatternNode);
TREADLE_DEFINE_NODE(ShapePatternNode);
TREADLE_DEFINE_NODE(DataTypePatternNode);
TREADLE_DEFINE_NODE(AttrPatternNode);
TREADLE_DEFINE_NODE(DominatorPatternNode);

namespace {

/// A pattern node that `init` fills.
template <typename Node, typename Init>
DFPattern Make(Init&& init) {
  auto node = MakeObject<Node>();
  init(*node);
  return DFPattern(ObjectPtr<Object>(node));
}

DFPattern Require(const DFPattern& pattern) {
  if (!pattern.defined()) throw Error("a part of a pattern is missing");
  return pattern;
}

DFPattern Binary(const char* op, const DFPattern& a, const DFPattern& b) { return IsOp(op)({a, b}); }

}  // namespace

DFPattern DFPattern::operator()(const std::vector<DFPattern>& args) const {
  return Make<CallPatternNode>([&](auto& node) {
    node.op = *this;
    for (const DFPattern& arg : args) node.args.push_back(Require(arg));
  });
}
DFPattern DFPattern::operator|(const DFPattern& other) const {
  return Make<AltPatternNode>([&](auto& node) {
    node.left = *this;
    node.right = Require(other);
  });
}
DFPattern DFPattern::operator+(const DFPattern& other) const { return Binary("add", *this, other); }
DFPattern DFPattern::operator-(const DFPattern& other) const { return Binary("subtract", *this, other); }
DFPattern DFPattern::operator*(const DFPattern& other) const { return Binary("multiply", *this, other); }
DFPattern DFPattern::operator/(const DFPattern& other) const { return Binary("divide", *this, other); }

DFPattern DFPattern::Optional(const std::function<DFPattern(const DFPattern&)>& option) const {
  return *this | option(*this);
}
DFPattern DFPattern::HasAttr(const Map<String, ObjectRef>& attrs) const {
  return Make<AttrPatternNode>([&](auto& node) {
    node.pattern = *this;
    node.attrs = attrs;
  });
}
DFPattern DFPattern::HasType(const Type& type) const {
  return Make<TypePatternNode>([&](auto& node) {
    node.pattern = *this;
    node.type = type;
  });
}
DFPattern DFPattern::HasDtype(DataType dtype) const {
  return Make<DataTypePatternNode>([&](auto& node) {
    node.pattern = *this;
    node.dtype = dtype;
  });
}
DFPattern DFPattern::HasShape(const Array<PrimExpr>& shape) const {
  return Make<ShapePatternNode>([&](auto& node) {
    node.pattern = *this;
    node.shape = shape;
  });
}

DFPattern Wildcard() {
  return Make<WildcardPatternNode>([](auto&) {});
}
DFPattern IsVar(std::string name) {
  return Make<VarPatternNode>([&](auto& node) { node.name = std::move(name); });
}
DFPattern IsConstant() {
  return Make<ConstantPatternNode>([](auto&) {});
}
DFPattern IsExpr(Expr expr) {
  if (!expr.defined()) throw Error("a part of a pattern is missing");
  return Make<ExprPatternNode>([&](auto& node) { node.expr = std::move(expr); });
}
DFPattern IsOp(const std::string& name) { return IsExpr(Op::Get(name)); }
DFPattern IsTuple(const std::vector<DFPattern>& fields) {
  return Make<TuplePatternNode>([&](auto& node) {
    for (const DFPattern& field : fields) node.fields.push_back(Require(field));
  });
}
DFPattern IsAnyTuple() {
  return Make<TuplePatternNode>([](auto& node) { node.any_fields = true; });
}
DFPattern IsTupleGetItem(DFPattern tuple, int index) {
  return Make<TupleGetItemPatternNode>([&](auto& node) {
    node.tuple = Require(tuple);
    node.index = index;
  });
}
DFPattern IsIf(DFPattern cond, DFPattern true_branch, DFPattern false_branch) {
  return Make<IfPatternNode>([&](auto& node) {
    node.cond = Require(cond);
    node.true_branch = Require(true_branch);
    node.false_branch = Require(false_branch);
  });
}
DFPattern IsLet(DFPattern var, DFPattern value, DFPattern body) {
  return Make<LetPatternNode>([&](auto& node) {
    node.var = Require(var);
    node.value = Require(value);
    node.body = Require(body);
  });
}
DFPattern IsFunction(const std::vector<DFPattern>& params, DFPattern body) {
  return Make<FunctionPatternNode>([&](auto& node) {
    for (const DFPattern& param : params) node.params.push_back(Require(param));
    node.body = Require(body);
  });
}
DFPattern IsFunctionOfAny(DFPattern body) {
  return Make<FunctionPatternNode>([&](auto& node) {
    node.any_params = true;
    node.body = Require(body);
  });
}
DFPattern CallOfAny(DFPattern op) {
  return Make<CallPatternNode>([&](auto& node) {
    node.op = Require(op);
    node.any_args = true;
  });
}
DFPattern Dominates(DFPattern parent, DFPattern path, DFPattern child) {
  return Make<DominatorPatternNode>([&](auto& node) {
    node.parent = Require(parent);
    node.path = Require(path);
    node.child = Require(child);
  });
}

}  // namespace treadle::relay
