// SPDX-License-Identifier: Apache-2.0
// PartitionGraph: each annotated region becomes a global function for its external code generator.
#include <cctype>
#include <map>

#include "passes/byoc/annotated_regions.h"
#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

/// Drops annotations for "default".
class DefaultRemover : public ExprMutator {
 public:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const CallNode* call) override {
    Expr self = GetRef<Expr>(call);
    if ((IsCompilerBegin(self) || IsCompilerEnd(self)) && CompilerOf(self) == "default") return Mutate(call->args[0]);
    Expr result = ExprMutator::VisitExpr_(call);
    return WithTypeOf(result, call);
  }
  Expr VisitExpr_(const TupleNode* op) override { return WithTypeOf(ExprMutator::VisitExpr_(op), op); }
  Expr VisitExpr_(const TupleGetItemNode* op) override { return WithTypeOf(ExprMutator::VisitExpr_(op), op); }
};

std::string Identifier(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class Partitioner : public ExprMutator {
 public:
  Partitioner(const Function& func, std::string name, std::string mod_name, IRModule* module)
      : regions_(func),
        outlined_(regions_.regions.size()),
        name_(std::move(name)),
        mod_name_(std::move(mod_name)),
        module_(module) {}

 private:
  struct Outlined {
    int id = -1;
    Array<Var> params;
    Array<Expr> args;
    std::unordered_map<const Object*, Var> param_of;
    Expr call;                                        ///< null until the region's function is made
    std::unordered_map<const Object*, Expr> results;  ///< per value that leaves the region
  };

  using ExprMutator::VisitExpr_;

  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->attrs->dict.contains(attr::kComposite) || func->is_primitive()) return GetRef<Expr>(func);
    return ExprMutator::VisitExpr_(func);
  }

  Expr VisitExpr_(const CallNode* call) override {
    Expr self = GetRef<Expr>(call);
    if (IsCompilerBegin(self)) return EnterRegion(call, regions_.Find(self));
    if (IsCompilerEnd(self)) return LeaveRegion(call, regions_.Find(self));
    return ExprMutator::VisitExpr_(call);
  }

  /// What stands for a value from outside in the region's function.
  Expr EnterRegion(const CallNode* begin, int region) {
    Outlined& outlined = outlined_[region];
    Expr outside = Mutate(begin->args[0]);
    if (outlined.id < 0) outlined.id = begins_seen_;
    ++begins_seen_;
    return ParameterFor(outside, begin->args[0]->checked_type(), begin->span, region);
  }

  /// The parameter for a tensor; of a tuple, that of its fields.
  Expr ParameterFor(const Expr& outside, const Type& type, const Span& span, int region) {
    if (outside.as<ConstantNode>()) return outside;
    if (const auto* tuple_type = type.as<TupleTypeNode>()) {
      const auto* tuple = outside.as<TupleNode>();
      Array<Expr> fields;
      for (size_t i = 0; i < tuple_type->fields.size(); ++i) {
        Expr field = tuple != nullptr ? tuple->fields[i] : ItemOf(outside, static_cast<int>(i));
        fields.push_back(ParameterFor(field, tuple_type->fields[i], span, region));
      }
      return Tuple(fields, span);
    }
    Outlined& outlined = outlined_[region];
    auto it = outlined.param_of.find(outside.get());
    if (it != outlined.param_of.end()) return it->second;
    Var param(StrCat(regions_.regions[region].compiler, "_", outlined.id, "_i", outlined.params.size()), type, span);
    outlined.params.push_back(param);
    outlined.args.push_back(outside);
    outlined.param_of.emplace(outside.get(), param);
    return param;
  }

  /// One projection object per tuple and index, so that each is one parameter.
  Expr ItemOf(const Expr& tuple, int index) {
    Expr& item = items_[{tuple.get(), index}];
    if (!item.defined()) item = TupleGetItem(tuple, index);
    return item;
  }

  /// What stands for a value of the region outside.
  Expr LeaveRegion(const CallNode* end, int region) {
    if (!outlined_[region].call.defined()) Outline(region);
    return outlined_[region].results.at(end->args[0].get());
  }

  void Outline(int region) {
    const AnnotatedRegion& annotated = regions_.regions[region];
    std::vector<Expr> values;  // distinct, of the original graph
    std::unordered_map<const Object*, bool> known;
    for (const Expr& end : annotated.ends) {
      const Expr& value = end.as<CallNode>()->args[0];
      if (known.emplace(value.get(), true).second) values.push_back(value);
    }
    Array<Expr> bodies;
    for (const Expr& value : values) bodies.push_back(Mutate(value));
    Outlined& outlined = outlined_[region];
    if (outlined.id < 0) outlined.id = begins_seen_++;
    std::string symbol =
        Identifier(StrCat("tvmgen_", mod_name_, "_", annotated.compiler, "_", name_, "_", outlined.id));
    if (values.size() == 1 && values[0]->type_as<TensorTypeNode>() != nullptr) {
      outlined.call = MakeCall(symbol, annotated.compiler, outlined, bodies[0], values[0]->checked_type());
      outlined.results[values[0].get()] = outlined.call;
      return;
    }
    // Several results, or a tuple: one flat tuple, and projections outside.
    Array<Expr> fields;
    Array<Type> types;
    std::vector<size_t> first;
    for (size_t i = 0; i < values.size(); ++i) {
      first.push_back(fields.size());
      Flatten(bodies[i], values[i]->checked_type(), &fields, &types);
    }
    outlined.call = MakeCall(symbol, annotated.compiler, outlined, Tuple(fields), TupleType(types));
    for (size_t i = 0; i < values.size(); ++i) {
      size_t next = first[i];
      outlined.results[values[i].get()] = Restore(outlined.call, values[i]->checked_type(), &next);
    }
  }

  static void Flatten(const Expr& value, const Type& type, Array<Expr>* fields, Array<Type>* types) {
    const auto* tuple_type = type.as<TupleTypeNode>();
    if (tuple_type == nullptr) {
      fields->push_back(value);
      types->push_back(type);
      return;
    }
    const auto* tuple = value.as<TupleNode>();
    for (size_t i = 0; i < tuple_type->fields.size(); ++i) {
      Expr field = tuple != nullptr ? tuple->fields[i] : TupleGetItem(value, static_cast<int>(i));
      Flatten(field, tuple_type->fields[i], fields, types);
    }
  }
  static Expr Restore(const Expr& call, const Type& type, size_t* next) {
    const auto* tuple_type = type.as<TupleTypeNode>();
    if (tuple_type == nullptr) return TupleGetItem(call, static_cast<int>((*next)++));
    Array<Expr> fields;
    for (const Type& field : tuple_type->fields) fields.push_back(Restore(call, field, next));
    return Tuple(fields);
  }

  Expr MakeCall(const std::string& symbol, const std::string& compiler, const Outlined& outlined, const Expr& body,
                const Type& result) {
    IntImm one(DataType::Int(32), 1);
    Map<String, ObjectRef> attrs{{attr::kPrimitive, one},
                                 {attr::kInline, one},
                                 {attr::kCompiler, String(compiler)},
                                 {attr::kGlobalSymbol, String(symbol)}};
    Function func(outlined.params, body, result, {}, DictAttrs(attrs), body->span);
    GlobalVar var(symbol);
    module_->CopyOnWrite()->Add(var, func);
    return Call(var, outlined.args, Attrs(), {}, body->span);
  }

  AnnotatedRegions regions_;
  std::vector<Outlined> outlined_;
  std::map<std::pair<const Object*, int>, Expr> items_;
  std::string name_, mod_name_;
  IRModule* module_;
  int begins_seen_ = 0;
};

}  // namespace

namespace transform {

Pass PartitionGraph(std::string mod_name) {
  return CreateModulePass(
      [mod_name](IRModule module, const PassContext& context) {
        const IRModule typed_module = InferType()(module, context);
        IRModule result = typed_module;
        for (const auto& [var, base] : typed_module->functions) {
          const auto* func = base.as<FunctionNode>();
          if (func == nullptr || func->attrs->dict.contains(attr::kCompiler)) continue;
          Function typed = Downcast<Function>(DefaultRemover().Mutate(base));
          Partitioner partitioner(typed, var->name_hint, mod_name, &result);
          result.CopyOnWrite()->Add(var, Downcast<Function>(partitioner.Mutate(typed)));
        }
        return InferType()(result, context);
      },
      {"PartitionGraph", 0, {"InferType"}, "Turns annotated regions into functions of external code generators"});
}

}  // namespace transform
}  // namespace treadle::relay
