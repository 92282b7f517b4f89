// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/importer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "frontend/onnx/contrib.h"
#include "frontend/onnx/declared_types.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/input_types.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/model_info.h"
#include "frontend/onnx/moved_weights.h"
#include "frontend/onnx/node_import.h"
#include "frontend/onnx/op_versions.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/scope.h"
#include "frontend/onnx/tensor_data.h"
#include "frontend/onnx/text_operands.h"
#include "frontend/onnx/values.h"
#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/ir/model_span.h"
#include "treadle/ops/attrs/host.h"
#include "treadle/ops/compute.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

constexpr int kMaxFunctionDepth = 64;
constexpr int kMaxForks = 64;
constexpr int64_t kMaxInlinedNodes = 1000000;
constexpr int64_t kMaxInlinedWeight = 4096;  ///< elements of integer weights that become constants

using OpsetImports = std::map<std::string, int64_t>;

class Importer : public SubgraphImporter, public WeightSource {
 public:
  Importer(const Model& model, const ImportOptions& options)
      : model_(model), options_(options), declared_(model, options) {
    for (const Function& function : model.functions) {
      functions_[{function.domain, function.name, function.overload}] = &function;
    }
    constexpr size_t kLarge = size_t{256} << 20;
    size_t bytes = 0;
    for (const auto& tensor : model.graph.initializers) bytes += tensor->raw ? tensor->raw->size() : 0;
    has_large_weights_ = bytes >= kLarge;
  }
  ImportResult Run();

  /// Whether copies of weights are better kept out of memory: they are needed until their packed forms, which take as
  /// much again, are made.
  bool has_large_weights() const override { return has_large_weights_; }
  /// The weight as a constant or as a parameter of "main".
  Expr WeightExpr(const std::string& name, const NDArray& value) override;
  std::vector<Expr> ImportSubgraph(const Graph& graph, const std::vector<Expr>& inputs,
                                   const std::vector<bool>& text) override;
  const std::vector<bool>& text_results() const override { return text_results_; }
  GlobalVar OpenFunction(const std::string& hint) override;
  std::vector<std::pair<relay::Var, Expr>> CloseFunction() override;
  void DefineFunction(const GlobalVar& var, const relay::Function& function) override {
    defined_.emplace_back(var, function);
  }
  int64_t DeclaredSize(const std::string& value, size_t axis) override;
  int64_t DeclaredRank(const std::string& value) override;
  int64_t SizeOf(const ValueInfo& declared, size_t axis) override {
    return declared_.SizeOf(declared, axis, options_.dims);
  }

 private:
  void CheckOpsets() const;
  void DefineInitializers(const Graph& graph, Scope& scope, const std::set<std::string>& given = {});
  /// The initializers that callers or options replace. Throws Error for those that ONNX doesn't let them replace.
  std::set<std::string> ReplacedInitializers() const;
  void DefineInputs(Scope& scope);
  /// The nodes of a function, whose results the scope has then under their names.
  void ImportFunctionBody(const Graph& body, const OpsetImports& opsets, Scope& scope);
  /// Imports nodes from `begin` on; the values called `outputs`. Where an If gives other ranks in one branch than in
  /// the other, what follows is imported for both.
  std::vector<Expr> ImportBody(const Graph& graph, size_t begin, const OpsetImports& opsets, Scope& scope);
  /// The values called `outputs`, of nodes behind one that forks. Of functions and of graphs within the model's, throws
  /// a RankFork itself where their results differ in rank: what follows the node that they belong to forks, then.
  std::vector<Expr> Fork(const Graph& graph, size_t at, const OpsetImports& opsets, Scope& scope, const RankFork& fork);
  /// The same of what follows one side of a choice.
  Rest RestOf(const Graph& graph, size_t at, const OpsetImports& opsets, Scope& scope, const RankFork& fork);
  Rest RestOfSide(const Graph& graph, size_t at, const OpsetImports& opsets, Scope& scope, const ForkSide& side,
                  const std::vector<bool>& text);
  void ImportNode(const Node& node, const OpsetImports& opsets, Scope& scope);
  std::vector<Expr> RunRule(const Node& node, const OpsetImports& opsets, std::vector<NodeInput*> inputs,
                            bool check_only);
  std::vector<Expr> ApplyRule(const ImportRule& rule, const Node& node, int version, int64_t opset,
                              std::vector<NodeInput*> inputs);
  std::vector<Expr> EncodedOutputs(const std::vector<Expr>& outputs, Scope& scope);
  void InlineFunction(const Function& function, const Node& node, Scope& scope);
  void AddUnsupported(const Node& node, int64_t opset, const std::string& reason);
  [[noreturn]] void ThrowUnsupported() const;
  /// What the graph that is being imported declares for a value; null where it says nothing.
  const ValueInfo* Declared(const std::string& value);
  /// Compares the outputs of a node with what the graph that it stands in declares of them, and with what fits.
  void CheckDeclared(const Node& node, const std::vector<Expr>& outputs);

  const Model& model_;
  const ImportOptions& options_;
  DeclaredTypes declared_;
  const Graph* current_graph_ = nullptr;  ///< null within functions of the model
  std::map<std::tuple<std::string, std::string, std::string>, const Function*> functions_;
  ImportResult result_{IRModule::Empty(), {}, {}, {}, {}};
  Array<relay::Var> input_vars_, weight_vars_;
  std::vector<std::string> unsupported_;
  std::map<std::string, int> unsupported_ops_;
  bool has_large_weights_ = false;
  bool uses_data_ = false;  ///< values of the types of treadle/ops/attrs/host.h
  int function_depth_ = 0;
  int forks_ = 0;
  int functions_opened_ = 0;
  int64_t node_count_ = 0;
  Scope* current_scope_ = nullptr;
  std::set<size_t> text_outputs_;                        ///< of the node that was imported last
  std::vector<bool> text_results_;                       ///< of the subgraph that was imported last
  std::vector<bool> encoded_results_;                    ///< likewise: values of several ranks, as bytes
  std::vector<std::unique_ptr<Scope>> function_scopes_;  ///< of the functions that are open
  std::vector<std::pair<GlobalVar, relay::Function>> defined_;
  const OpsetImports* current_opsets_ = nullptr;
};

Expr Importer::WeightExpr(const std::string& name, const NDArray& value) {
  // What shapes are computed from has to be seen by the import; single numbers fuse into what uses them.
  bool small_integer = value.dtype().is_integral() && value.size() <= kMaxInlinedWeight;
  Span span(name);
  // A function's own are constants within it, as those that it captures are: it would have no such variable.
  const bool within = !function_scopes_.empty();
  if (options_.freeze_params || small_integer || value.size() == 1 || within) return MakeConstant(value, span);
  std::string unique = name;
  for (int i = 1; result_.params.count(unique) != 0; ++i) unique = StrCat(name, "_", i);
  relay::Var var = MakeVar(unique, TensorType(value.shape(), value.dtype()), span);
  result_.params.emplace(unique, value);
  weight_vars_.push_back(var);
  return var;
}

void Importer::CheckOpsets() const {
  auto standard = model_.opset_imports.find("");
  if (standard != model_.opset_imports.end() && standard->second > kNewestOpset) {
    std::string message = StrCat(model_.source, ": the model uses opset ", standard->second,
                                 " of ai.onnx; the newest that is known is ", kNewestOpset);
    throw UnsupportedOpError(message, {message});
  }
}

std::set<std::string> Importer::ReplacedInitializers() const {
  std::set<std::string> known, replaced;
  for (const ValueInfo* info : OverridableInitializers(model_)) known.insert(info->name);
  for (const std::string& name : options_.overridable) {
    if (known.count(name) != 0) {
      replaced.insert(name);
      continue;
    }
    std::string list;
    for (const std::string& other : known) list += StrCat(list.empty() ? "" : ", ", QuoteName(other));
    throw Error(StrCat(QuoteName(name), " isn't an initializer that callers may override, as those are that the graph ",
                       "lists as inputs, too; there ", list.empty() ? "is none" : StrCat("are: ", list),
                       DidYouMean(name, {known.begin(), known.end()})));
  }
  for (const auto& [name, value] : options_.constants) {
    if (known.count(name) != 0) replaced.insert(name);
  }
  return replaced;
}

void Importer::DefineInitializers(const Graph& graph, Scope& scope, const std::set<std::string>& given) {
  declared_.CheckInitializers(graph);
  for (const auto& tensor : graph.initializers) {
    if (given.count(tensor->name) == 0) scope.Define(tensor->name, this, tensor->name, tensor);
  }
  for (const auto& tensor : graph.sparse_initializers) {
    if (given.count(tensor->values.name) == 0) scope.Define(tensor->values.name, this, tensor->values.name, tensor);
  }
}

void Importer::DefineInputs(Scope& scope) {
  // An input that has an initializer is a weight, unless it is to be replaced.
  std::vector<const ValueInfo*> inputs;
  for (const ValueInfo& input : model_.graph.inputs) {
    if (scope.values.count(input.name) == 0) inputs.push_back(&input);
  }
  InputTypes types(inputs, options_);
  for (const ValueInfo* input : inputs) {
    try {
      if (PassesAsBytes(input->type)) {
        if (options_.constants.count(input->name) != 0 || options_.shapes.count(input->name) != 0) {
          throw Error(StrCat("input ", QuoteName(input->name), " is a ", TypeText(input->type),
                             ": neither its shape nor its value can be given when compiling"));
        }
        relay::Var var = MakeVar(input->name, TensorType({AnyDim()}, DataType::UInt(8)), Span(input->name));
        ExprBuilder builder{Span(input->name)};
        scope.Define(input->name, DecodeInput(builder, *input, var), HasText(input->type));
        input_vars_.push_back(var);
        result_.input_names.push_back(input->name);
        result_.value_types[input->name] = TypeText(input->type);
        continue;
      }
      auto constant = options_.constants.find(input->name);
      if (constant != options_.constants.end()) {
        InputTypes::CheckValue(*input, constant->second);
        scope.Define(input->name, MakeConstant(constant->second, Span(input->name)));
        continue;
      }
      relay::Var var = MakeVar(input->name, types.TypeOf(*input), Span(input->name));
      scope.Define(input->name, Expr(var));
      if (const ValueInfo* info = declared_.Find(model_.graph, input->name))
        declared_.Check(*info, var, false, "input");
      input_vars_.push_back(var);
      result_.input_names.push_back(input->name);
    } catch (const UnsupportedOpError& e) {
      unsupported_.emplace_back(e.what());
      ++unsupported_ops_[StrCat("type of input ", QuoteName(input->name))];
      scope.Define(input->name);
    }
  }
}

void Importer::AddUnsupported(const Node& node, int64_t opset, const std::string& reason) {
  unsupported_.push_back(StrCat(QuoteName(node.DisplayName()), " (", node.domain.empty() ? "" : node.domain + ".",
                                node.op_type, ", opset ", opset, "): ", reason));
  ++unsupported_ops_[node.domain.empty() ? node.op_type : StrCat(node.domain, ".", node.op_type)];
}

void Importer::ThrowUnsupported() const {
  constexpr size_t kMaxShown = 1000;
  std::string message = StrCat(model_.source, ": ");
  if (unsupported_.size() == 1) {
    message += StrCat("can't import ", unsupported_[0]);
  } else {
    std::string ops;
    for (const auto& [op, count] : unsupported_ops_) ops += StrCat(ops.empty() ? "" : ", ", op, " x ", count);
    message += StrCat("can't import ", unsupported_.size(), " nodes: ", ops);
    for (size_t i = 0; i < unsupported_.size() && i < kMaxShown; ++i) message += StrCat("\n  ", unsupported_[i]);
    if (unsupported_.size() > kMaxShown) message += StrCat("\n  ... and ", unsupported_.size() - kMaxShown, " more");
  }
  throw UnsupportedOpError(message, unsupported_);
}

/// The opset at which the operator of the node got its definition under `opset`. Throws UnsupportedNode.
int DefinitionOf(const Node& node, int64_t opset) {
  std::vector<int> versions = VersionsOfOp(FullOpName(node.domain, node.op_type));
  if (versions.empty()) {
    throw UnsupportedNode(node.domain.empty() ? "ONNX has no such operator"
                                              : StrCat("no such operator of ", node.domain, " is known"));
  }
  if (versions.front() > opset) {
    throw UnsupportedNode(StrCat("the operator exists since opset ", versions.front(), ", the model imports ", opset));
  }
  return *std::prev(std::upper_bound(versions.begin(), versions.end(), opset));
}

const ImportRule& RuleFor(const Node& node, int version) {
  const std::string name = FullOpName(node.domain, node.op_type);
  const ImportRule* rule = RuleTable::All().Find(name, version);
  if (rule != nullptr) return *rule;
  bool other_version = RuleTable::All().rules().count(name) != 0;
  throw UnsupportedNode(other_version ? StrCat("version ", version, " of the operator isn't implemented")
                                      : "the operator isn't implemented");
}

/// The opset of the standard's operators that the model imports; the newest where it imports none.
int64_t OpsetOf(const OpsetImports& opsets) {
  auto it = opsets.find("");
  return it == opsets.end() ? kNewestOpset : it->second;
}

std::vector<Expr> Importer::RunRule(const Node& node, const OpsetImports& opsets, std::vector<NodeInput*> inputs,
                                    bool check_only) {
  // ONNX Runtime's optimiser writes some of its own operators without their domain.
  const ImportRule* contrib = RuleTable::All().Find(ContribName(node.op_type), 1);
  if (node.domain == kContribDomain ||
      (contrib != nullptr && node.domain.empty() && VersionsOfOp(node.op_type).empty())) {
    if (contrib == nullptr) throw UnsupportedNode("the operator isn't implemented");
    return check_only ? std::vector<Expr>() : ApplyRule(*contrib, node, 1, OpsetOf(opsets), std::move(inputs));
  }
  if (!node.domain.empty() && VersionsOfOp(FullOpName(node.domain, node.op_type)).empty()) {
    throw UnsupportedNode(StrCat("no such operator of ", node.domain, " is known"));
  }
  auto opset = opsets.find(node.domain);
  if (opset == opsets.end()) {
    throw ModelFormatError(StrCat(model_.source, ": node ", QuoteName(node.DisplayName()), " (", node.op_type,
                                  "): the model doesn't import the operator set ",
                                  node.domain.empty() ? "ai.onnx" : node.domain));
  }
  int version = DefinitionOf(node, opset->second);
  const ImportRule& rule = RuleFor(node, version);
  if (check_only) return {};
  return ApplyRule(rule, node, version, opset->second, std::move(inputs));
}

std::vector<Expr> Importer::ApplyRule(const ImportRule& rule, const Node& node, int version, int64_t opset,
                                      std::vector<NodeInput*> inputs) {
  NodeImport n(node, version, opset, inputs, this);
  const TextOperands* text_operands = TextOperandsOf(FullOpName(node.domain, node.op_type));
  n.AllowText(text_operands);
  std::vector<Expr> outputs;
  try {
    outputs = rule(n);
  } catch (const UnknownLength& list) {
    auto apply = [&](const Expr& listed) {
      Value value(listed);
      std::vector<NodeInput*> replaced = inputs;
      replaced[list.input] = &value;
      std::vector<Expr> values = ApplyRule(rule, node, version, opset, replaced);
      std::vector<bool> text(values.size(), false);
      for (size_t i : text_outputs_) text.at(i) = true;
      return std::make_pair(std::move(values), std::move(text));
    };
    auto [values, text] = ForLengths(n, list, apply);
    text_outputs_.clear();
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i]) text_outputs_.insert(i);
    }
    return values;
  }
  n.CheckAllRead();
  text_outputs_ = n.text_outputs();
  const bool moves_text = text_operands != nullptr && MovesText(n, *text_operands);
  for (size_t i = 0; moves_text && i < n.num_outputs(); ++i) text_outputs_.insert(i);
  for (size_t i = 0; i < n.num_outputs(); ++i) {
    if (!n.WantsOutput(i) || (i < outputs.size() && outputs[i].defined())) continue;
    throw UnsupportedNode(StrCat("output ", i, " isn't implemented"));
  }
  return outputs;
}

template <typename E>
[[noreturn]] void Rethrow(const E& e, const Node& node) {
  std::string message = e.what();
  std::string where = StrCat("node ", QuoteName(node.DisplayName()), " (", node.op_type, "): ");
  throw E(message.compare(0, 5, "node ") == 0 ? message : where + message);
}

void Importer::ImportNode(const Node& node, const OpsetImports& opsets, Scope& scope) {
  if (++node_count_ > kMaxInlinedNodes) {
    throw ModelFormatError(StrCat(model_.source, ": functions expand to more than ", kMaxInlinedNodes, " nodes"));
  }
  auto function = functions_.find({node.domain, node.op_type, node.overload});
  if (function != functions_.end()) return InlineFunction(*function->second, node, scope);
  std::vector<NodeInput*> inputs;
  bool poisoned = false;
  for (const std::string& name : node.inputs) {
    Value* value = name.empty() ? nullptr : scope.Find(name);
    poisoned |= value != nullptr && value->poisoned();
    inputs.push_back(value);
  }
  std::vector<Expr> outputs;
  text_outputs_.clear();
  Scope* saved_scope = current_scope_;
  const OpsetImports* saved_opsets = current_opsets_;
  const size_t open_functions = function_scopes_.size();
  auto opset = opsets.find(node.domain);
  int64_t opset_version = opset == opsets.end() ? 0 : opset->second;
  try {
    outputs = RunRule(node, opsets, std::move(inputs), poisoned);
  } catch (const UnsupportedNode& e) {
    AddUnsupported(node, opset_version, e.what());
    outputs.clear();
  } catch (const UnsupportedOpError& e) {
    AddUnsupported(node, opset_version, e.what());
    outputs.clear();
  } catch (const ShapeError& e) {
    Rethrow(e, node);
  } catch (const DTypeError& e) {
    Rethrow(e, node);
  } catch (const ModelFormatError& e) {
    Rethrow(e, node);
  }
  CheckDeclared(node, outputs);
  // A rule that gave up may have left these open.
  function_scopes_.resize(open_functions);
  current_scope_ = saved_scope;
  current_opsets_ = saved_opsets;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const bool defined = i < outputs.size() && outputs[i].defined();
    uses_data_ = uses_data_ || (defined && outputs[i]->checked_type_.as<TypeCallNode>() != nullptr);
    scope.Define(node.outputs[i], i < outputs.size() ? outputs[i] : Expr(), text_outputs_.count(i) != 0);
  }
}

void Importer::ImportFunctionBody(const Graph& body, const OpsetImports& opsets, Scope& scope) {
  Scope* outer_scope = current_scope_;
  const OpsetImports* outer_opsets = current_opsets_;
  const Graph* outer_graph = current_graph_;
  const std::shared_ptr<void> restore(nullptr, [&](void*) {  // by exceptions too
    current_scope_ = outer_scope;
    current_opsets_ = outer_opsets;
    current_graph_ = outer_graph;
  });
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    current_scope_ = &scope;
    current_opsets_ = &opsets;
    current_graph_ = nullptr;
    if (!body.nodes[i].needed) continue;
    const size_t open_functions = function_scopes_.size();
    try {
      ImportNode(body.nodes[i], opsets, scope);
    } catch (const RankFork& fork) {
      function_scopes_.resize(open_functions);
      std::vector<Expr> results;
      try {
        results = Fork(body, i, opsets, scope, fork);
      } catch (const UnsupportedNode& e) {
        AddUnsupported(body.nodes[i], 0, e.what());
      }
      for (size_t k = 0; k < body.outputs.size(); ++k) {
        scope.Define(body.outputs[k].name, k < results.size() ? results[k] : Expr(),
                     k < results.size() && text_results_.at(k));
      }
      return;
    }
  }
}

GlobalVar Importer::OpenFunction(const std::string& hint) {
  auto scope = std::make_unique<Scope>();
  scope->outer = current_scope_;
  scope->is_function = true;
  current_scope_ = scope.get();
  function_scopes_.push_back(std::move(scope));
  return GlobalVar(StrCat(hint, functions_opened_++));
}

std::vector<std::pair<relay::Var, Expr>> Importer::CloseFunction() {
  std::vector<std::pair<relay::Var, Expr>> captured = std::move(function_scopes_.back()->captured);
  current_scope_ = function_scopes_.back()->outer;
  function_scopes_.pop_back();
  return captured;
}

Rest Importer::RestOfSide(const Graph& graph, size_t at, const OpsetImports& opsets, Scope& scope, const ForkSide& side,
                          const std::vector<bool>& text) {
  if (side.further != nullptr) return RestOf(graph, at, opsets, scope, *side.further);
  Rest rest;
  rest.results.why_not = side.why_not;
  if (!side.runs()) return rest;
  const Node& node = graph.nodes[at];
  const auto unsupported = unsupported_;
  const auto unsupported_ops = unsupported_ops_;
  Scope inner;
  inner.outer = &scope;
  for (size_t i = 0; i < node.outputs.size() && i < side.values.size(); ++i) {
    if (!node.outputs[i].empty()) inner.Define(node.outputs[i], side.values[i], text.at(i));
  }
  ForkSide& results = rest.results;
  try {
    results.values = ImportBody(graph, at + 1, opsets, inner);
    rest.encoded = encoded_results_;
    rest.text = text_results_;
  } catch (const RankFork& fork) {
    results.further = std::make_shared<RankFork>(fork);
    rest.text = fork.text;
  } catch (const UnsupportedNode& e) {
    results.why_not = e.what();
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    results.why_not = e.what();
  }
  if (unsupported_.size() > unsupported.size()) {
    if (results.why_not.empty()) results.why_not = unsupported_.back();
    results.values.clear();
    results.further = nullptr;
    unsupported_ = unsupported;
    unsupported_ops_ = unsupported_ops;
  }
  return rest;
}

Rest Importer::RestOf(const Graph& graph, size_t at, const OpsetImports& opsets, Scope& scope, const RankFork& fork) {
  if (++forks_ > kMaxForks) {
    throw UnsupportedNode(StrCat("there are more than ", kMaxForks, " branches whose results differ in rank"));
  }
  Rest rests[2] = {RestOfSide(graph, at, opsets, scope, fork.yes, fork.text),
                   RestOfSide(graph, at, opsets, scope, fork.no, fork.text)};
  const Node& node = graph.nodes[at];
  ExprBuilder builder{ModelSpan(node.DisplayName(), node.op_type)};
  return JoinRests(builder, fork.condition, rests, &graph == &model_.graph,
                   StrCat("node ", QuoteName(node.DisplayName()), " (", node.op_type, "): "));
}

std::vector<Expr> Importer::Fork(const Graph& graph, size_t at, const OpsetImports& opsets, Scope& scope,
                                 const RankFork& fork) {
  Rest rest = RestOf(graph, at, opsets, scope, fork);
  if (rest.results.further != nullptr) throw RankFork(*rest.results.further);
  if (!rest.results.runs()) throw UnsupportedNode(rest.results.why_not);
  encoded_results_ = rest.encoded;
  text_results_ = rest.text;
  return rest.results.values;
}

std::vector<Expr> Importer::ImportBody(const Graph& graph, size_t begin, const OpsetImports& opsets, Scope& scope) {
  Scope* outer_scope = std::exchange(current_scope_, &scope);
  const OpsetImports* outer_opsets = std::exchange(current_opsets_, &opsets);
  const Graph* outer_graph = std::exchange(current_graph_, &graph);
  auto restore = [&] {
    current_graph_ = outer_graph;
    current_scope_ = outer_scope;
    current_opsets_ = outer_opsets;
  };
  try {
    for (size_t i = begin; i < graph.nodes.size(); ++i) {
      if (!graph.nodes[i].needed) continue;  // neither compiled nor checked: what it would fail for may be its sizes
      const size_t open_functions = function_scopes_.size();
      try {
        ImportNode(graph.nodes[i], opsets, scope);
      } catch (const RankFork& fork) {
        function_scopes_.resize(open_functions);
        current_scope_ = &scope;
        current_opsets_ = &opsets;
        current_graph_ = &graph;
        std::vector<Expr> outputs = Fork(graph, i, opsets, scope, fork);
        restore();
        return outputs;
      }
    }
  } catch (...) {
    restore();
    throw;
  }
  restore();
  encoded_results_.assign(graph.outputs.size(), false);
  std::vector<Expr> outputs;
  std::vector<bool> text;
  for (const ValueInfo& output : graph.outputs) {
    Value* value = scope.Find(output.name);
    if (value == nullptr || value->poisoned()) throw UnsupportedNode("a node of its subgraph can't be imported");
    outputs.push_back(value->expr());
    text.push_back(value->is_text());
    declared_.CheckResult(output, outputs.back(), value->is_text(), StrCat("graph ", QuoteName(graph.name)));
  }
  text_results_ = std::move(text);
  return outputs;
}

void Importer::CheckDeclared(const Node& node, const std::vector<Expr>& outputs) {
  for (const Expr& output : outputs) {
    if (output.defined()) declared_.CheckSize(output, node);
  }
  if (current_graph_ == nullptr) return;
  for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i) {
    if (node.outputs[i].empty() || !outputs[i].defined()) continue;
    const ValueInfo* info = declared_.Find(*current_graph_, node.outputs[i]);
    if (info == nullptr) continue;
    declared_.Check(*info, outputs[i], text_outputs_.count(i) != 0,
                    StrCat("node ", QuoteName(node.DisplayName()), " (", node.op_type, ")"));
  }
}

const ValueInfo* Importer::Declared(const std::string& value) {
  if (current_graph_ == nullptr) return nullptr;
  const ValueInfo* info = declared_.Find(*current_graph_, value);
  for (const ValueInfo& output : current_graph_->outputs) {
    if (output.name == value) info = &output;
  }
  return info;
}

int64_t Importer::DeclaredSize(const std::string& value, size_t axis) {
  const ValueInfo* info = Declared(value);
  return info == nullptr ? -1 : declared_.SizeOf(*info, axis, options_.dims);
}

int64_t Importer::DeclaredRank(const std::string& value) {
  const ValueInfo* info = Declared(value);
  if (info == nullptr || info->type.kind != TypeProto::Kind::kTensor || !info->type.shape) return -1;
  return info->type.shape->empty() ? -1 : static_cast<int64_t>(info->type.shape->size());
}

/// Whether the type says what the elements are.
bool IsStated(const TypeProto& type) {
  if (type.kind == TypeProto::Kind::kTensor) return type.elem_type != ElemType::kUndefined;
  return type.element != nullptr && IsStated(*type.element);
}

std::vector<Expr> Importer::ImportSubgraph(const Graph& graph, const std::vector<Expr>& inputs,
                                           const std::vector<bool>& text) {
  Scope scope;
  scope.outer = current_scope_;
  DefineInitializers(graph, scope);
  if (inputs.size() != graph.inputs.size()) {
    throw ModelFormatError(
        StrCat("subgraph ", QuoteName(graph.name), " has ", graph.inputs.size(), " inputs, ", inputs.size(), " given"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_text = i < text.size() && text[i];
    const TypeProto& type = graph.inputs[i].type;
    if (is_text != HasText(type) && (!is_text || IsStated(type))) {
      throw ModelFormatError(StrCat(
          "subgraph ", QuoteName(graph.name), ": input ", QuoteName(graph.inputs[i].name),
          is_text ? " isn't declared as strings, but is given some" : " is declared as strings, but isn't given any"));
    }
    scope.Define(graph.inputs[i].name, inputs[i], is_text);
  }
  return ImportBody(graph, 0, *current_opsets_, scope);
}

/// Replaces attributes that refer to the function's by the values of the call; drops those that have none.
void BindAttributes(std::vector<Node>& nodes, const std::map<std::string, Attribute>& values) {
  for (Node& node : nodes) {
    std::vector<Attribute> bound;
    for (Attribute attribute : node.attributes) {
      if (!attribute.ref_attr_name.empty()) {
        auto value = values.find(attribute.ref_attr_name);
        if (value == values.end()) continue;
        std::string name = attribute.name;
        attribute = value->second;
        attribute.name = name;
      } else if (attribute.g) {
        auto graph = std::make_shared<Graph>(*attribute.g);
        BindAttributes(graph->nodes, values);
        attribute.g = graph;
      }
      bound.push_back(std::move(attribute));
    }
    node.attributes = std::move(bound);
  }
}

void Importer::InlineFunction(const Function& function, const Node& node, Scope& scope) {
  std::string what = StrCat("node ", QuoteName(node.DisplayName()), ": function ", QuoteName(function.name));
  ++function_depth_;
  const std::shared_ptr<void> leave(nullptr, [this](void*) { --function_depth_; });  // by exceptions too
  if (function_depth_ > kMaxFunctionDepth) {
    throw ModelFormatError(StrCat(what, ": calls are nested more than ", kMaxFunctionDepth, " deep (recursion?)"));
  }
  if (node.inputs.size() > function.inputs.size()) {
    throw ModelFormatError(StrCat(what, " has ", function.inputs.size(), " inputs, ", node.inputs.size(), " given"));
  }
  std::map<std::string, Attribute> attributes;
  for (const Attribute& attribute : function.attributes_with_default) attributes[attribute.name] = attribute;
  for (const Attribute& attribute : node.attributes) attributes[attribute.name] = attribute;
  Scope body;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    body.values[function.inputs[i]] = scope.Shared(node.inputs[i]);
  }
  Graph graph;
  graph.name = function.name;
  graph.nodes = function.nodes;
  for (size_t i = 0; i < node.outputs.size() && i < function.outputs.size(); ++i) {
    graph.outputs.push_back({function.outputs[i], {}});
  }
  BindAttributes(graph.nodes, attributes);
  for (Node& inner : graph.nodes) {
    // An input of the function that the call leaves out is left out inside as well.
    for (std::string& input : inner.inputs) {
      if (body.values.count(input) == 0 &&
          std::find(function.inputs.begin(), function.inputs.end(), input) != function.inputs.end()) {
        input.clear();
      }
    }
    inner.name = StrCat(node.DisplayName(), "/", inner.DisplayName());
  }
  ImportFunctionBody(graph, function.opset_imports.empty() ? model_.opset_imports : function.opset_imports, body);
  for (size_t i = 0; i < node.outputs.size() && i < function.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    scope.values[node.outputs[i]] = body.Shared(function.outputs[i]);
  }
}

/// What isn't a tensor of numbers passes as bytes.
std::vector<Expr> Importer::EncodedOutputs(const std::vector<Expr>& outputs, Scope& scope) {
  std::vector<Expr> encoded;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueInfo& declared = model_.graph.outputs[i];
    const Value* value = scope.Find(declared.name);
    const bool text = value != nullptr && value->is_text();
    const bool tensor = outputs[i]->type_as<TensorTypeNode>() != nullptr;
    if (encoded_results_[i] || (!text && tensor && !PassesAsBytes(declared.type))) {
      encoded.push_back(outputs[i]);
      if (encoded_results_[i]) result_.value_types[declared.name] = TypeText(declared.type);
      continue;
    }
    ExprBuilder builder{Span(declared.name)};
    encoded.push_back(EncodeOutput(builder, outputs[i], text || HasText(declared.type)));
    result_.value_types[declared.name] = text && !IsStated(declared.type) ? "tensor(string)" : TypeText(declared.type);
  }
  return encoded;
}

ImportResult Importer::Run() {
  CheckOpsets();
  Scope scope;
  DefineInitializers(model_.graph, scope, ReplacedInitializers());
  DefineInputs(scope);
  Array<Expr> outputs;
  try {
    std::vector<Expr> values = ImportBody(model_.graph, 0, model_.opset_imports, scope);
    for (const Expr& output : EncodedOutputs(values, scope)) outputs.push_back(output);
  } catch (const UnsupportedNode& e) {
    if (unsupported_.empty()) unsupported_.emplace_back(e.what());
  }
  if (!unsupported_.empty()) ThrowUnsupported();
  for (const ValueInfo& output : model_.graph.outputs) result_.output_names.push_back(output.name);
  Expr body = outputs.size() == 1 ? outputs[0] : ExprBuilder(Span(model_.graph.name)).MakeTuple(outputs);
  Array<relay::Var> params = input_vars_;
  for (const relay::Var& var : weight_vars_) params.push_back(var);
  result_.mod = IRModule::FromExpr(relay::Function(params, body));
  for (const auto& [var, function] : defined_) result_.mod.CopyOnWrite()->Add(var, function);
  if (uses_data_ || !result_.value_types.empty()) ops::DefineHostTypes(&result_.mod);
  return std::move(result_);
}

}  // namespace

ImportResult FromOnnx(const Model& model, const ImportOptions& options) {
  ops::RegisterAllOps();
  return Importer(model, options).Run();
}

}  // namespace treadle::onnx
