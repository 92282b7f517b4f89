// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/model_span.h"
#include "treadle/ir/prim_expr.h"
#include "treadle/relay/text.h"

namespace treadle::relay {
namespace {

template <typename... Nodes>
void Touch() {
  (Nodes::StaticTypeInfo(), ...);
}

}  // namespace

void RegisterNodeTypes() {
  Touch<StringNode, ArrayNode, MapNode, runtime::NDArrayNode, SpanNode, ModelSpanNode, IntImmNode, FloatImmNode,
        DictAttrsNode>();
  Touch<PrimTypeNode, PointerTypeNode, TensorTypeNode, TupleTypeNode, FuncTypeNode, TypeVarNode, GlobalTypeVarNode,
        TypeCallNode, TypeDataNode, RelayRefTypeNode, IncompleteTypeNode, TypeRelationNode>();
  Touch<IRModuleNode, GlobalVarNode, ConstructorNode, OpNode>();
  Touch<ConstantNode, TupleNode, IdNode, VarNode, CallNode, LetNode, IfNode, TupleGetItemNode, RefCreateNode,
        RefReadNode, RefWriteNode, PatternWildcardNode, PatternVarNode, PatternConstructorNode, PatternTupleNode,
        ClauseNode, MatchNode, FunctionNode>();
  Touch<tir::VarNode, tir::StringImmNode, tir::CastNode, tir::AddNode, tir::SubNode, tir::MulNode, tir::DivNode,
        tir::ModNode, tir::FloorDivNode, tir::FloorModNode, tir::MinNode, tir::MaxNode>();
}

}  // namespace treadle::relay
