// SPDX-License-Identifier: Apache-2.0
#include "driver/graph/graph_codegen.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <unordered_map>

#include "driver/graph/origin.h"
#include "treadle/base/json.h"
#include "treadle/ops/write_rows.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/mac_count.h"
#include "treadle/runtime/graph_spec.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::Function;
using relay::FunctionNode;
using relay::LetNode;
using relay::TupleGetItemNode;
using relay::TupleNode;
using relay::VarNode;

/// One output of one node.
struct Entry {
  int node;
  int output;
};
using Entries = std::vector<Entry>;

class GraphGenerator : public relay::ExprFunctor<Entries(const Expr&)> {
 public:
  GraphGenerator(const MemoryPlan& plan, MemoryPlanner planner, int default_device, const KernelSymbol& kernel_symbol,
                 const BranchNames& branches)
      : plan_(plan),
        arena_(planner == MemoryPlanner::kArena),
        default_device_(default_device),
        kernel_symbol_(kernel_symbol),
        branches_(branches) {}

  ExecutorGraph Generate(const Function& main) {
    for (const relay::Var& param : main->params) {
      Json node;
      node["op"] = "null";
      node["name"] = UniqueName(param->name_hint(), &names_);
      node["inputs"] = Json::array();
      memo_[param] = AddNode(std::move(node), param);
      arg_nodes_.push_back(static_cast<int>(nodes_.size()) - 1);
    }
    Entries heads = VisitExpr(main->body);
    result_.json = Assemble(heads);
    return std::move(result_);
  }

  Entries VisitExpr(const Expr& e) override {
    auto it = memo_.find(e);
    if (it != memo_.end()) return it->second;
    Entries entries = ExprFunctor::VisitExpr(e);
    memo_[e] = entries;
    return entries;
  }

  Entries VisitExpr_(const VarNode* op) override {
    throw InternalError(StrCat("internal error: variable '", op->name_hint(), "' isn't bound in the graph"));
  }
  Entries VisitExpr_(const ConstantNode* op) override {
    std::string name = UniqueName("p" + std::to_string(result_.params.size()), &names_);
    result_.params.emplace_back(name, op->data);
    result_.param_storage[name] = plan_.at(GetRef<Expr>(op)).storage_ids.at(0);
    // Parameters that values were bound to, and constants of imported models, have their names for places.
    if (op->span.defined() && op->span->line == 0) param_names_[name] = op->span->source_name;
    Json node;
    node["op"] = "null";
    node["name"] = name;
    node["inputs"] = Json::array();
    arg_nodes_.push_back(static_cast<int>(nodes_.size()));
    return AddNode(std::move(node), GetRef<Expr>(op));
  }
  Entries VisitExpr_(const TupleNode* op) override {
    Entries entries;
    for (const Expr& field : op->fields) {
      for (Entry e : VisitExpr(field)) entries.push_back(e);
    }
    return entries;
  }
  Entries VisitExpr_(const TupleGetItemNode* op) override {
    Entries all = VisitExpr(op->tuple);
    TREADLE_ICHECK(op->index >= 0 && static_cast<size_t>(op->index) < all.size()) << "projection out of range";
    return {all[static_cast<size_t>(op->index)]};
  }
  Entries VisitExpr_(const LetNode* op) override {
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      memo_[let->var] = VisitExpr(let->value);
      rest = let->body;
    }
    return VisitExpr(rest);
  }
  Entries VisitExpr_(const CallNode* call) override {
    const auto* func = call->op.as<FunctionNode>();
    if (func == nullptr) {
      std::string what = call->op.as<OpNode>() ? "operator '" + call->op.as<OpNode>()->name + "'"
                                               : "a call of a " + call->op->type_key();
      throw Error(StrCat("the graph executor can't run ", what, Place(call->span),
                         ": operators should be fused into primitive functions first (pass FuseOps)"));
    }
    Function function = GetRef<Function>(func);
    bool external = func->attrs->dict.contains(treadle::attr::kCompiler);
    if (!func->is_primitive() && !external) {
      throw Error(StrCat("the graph executor only calls primitive functions, not closures", Place(call->span)));
    }
    Entries inputs;
    for (const Expr& arg : call->args) {
      for (Entry e : VisitExpr(arg)) inputs.push_back(e);
    }
    return AddCall(GetRef<Expr>(call), function, inputs);
  }
  Entries VisitExprDefault_(const Object* op) override {
    throw Error(StrCat("the graph executor can't hold ", op->type_key(), "; the VM executor can"));
  }

 private:
  static std::string Place(const Span& span) { return span.defined() ? " at '" + span.str() + "'" : ""; }

  /// `base` at its first use, then base1, base2, .. as far as those are free.
  static std::string UniqueName(const std::string& base, std::map<std::string, int>* names) {
    auto [it, inserted] = names->emplace(base, 1);
    if (inserted) return base;
    std::string name;
    do {
      name = base + std::to_string(it->second++);
    } while (!names->emplace(name, 1).second);
    return name;
  }

  Entries AddCall(const Expr& call, const Function& function, const Entries& inputs) {
    const StorageInfo& storage = plan_.at(call);
    bool aliases =
        storage.moves_nothing || (function->HasNonzeroAttr(treadle::attr::kReshapeOnly) && !inputs.empty() &&
                                  storage.storage_ids == std::vector<int64_t>{entry_storage_[Index(inputs[0])]});
    const auto* inner = function->body.as<CallNode>();
    bool copies = function->is_primitive() && inner != nullptr && inner->op.as<OpNode>() != nullptr &&
                  inner->op.as<OpNode>()->name == "device_copy";
    const std::vector<int>& devices = storage.device_types;
    std::string symbol = aliases  ? "__nop"
                         : copies ? "__copy"
                                  : kernel_symbol_(function, devices.empty() ? 0 : devices[0]);
    result_.plain &= !copies && !function->attrs->dict.contains(treadle::attr::kCompiler);
    if (!aliases) result_.calls.push_back({symbol, result_.num_call_args});
    if (!aliases) result_.num_call_args += static_cast<int64_t>(inputs.size() + storage.storage_ids.size());
    Json attrs;
    attrs["func_name"] = symbol;
    attrs["num_inputs"] = std::to_string(inputs.size());
    attrs["num_outputs"] = std::to_string(storage.storage_ids.size());
    attrs["flatten_data"] = "0";
    if (auto compiler = function->GetAttr<String>(treadle::attr::kCompiler)) attrs["Compiler"] = compiler->str();
    for (const auto& [key, value] : function->attrs->dict) {
      const auto* text = value.as<StringNode>();
      if (text != nullptr && (key == "hash" || key.str().find("layout") != std::string::npos)) {
        attrs[key.str()] = text->value;
      }
    }
    if (!aliases && UpdatesOperand(function)) attrs[runtime::kUpdatesOperand] = "1";
    if (auto branch = branches_.find(call.as<CallNode>()); branch != branches_.end() && !aliases) {
      attrs[runtime::kBranch] = branch->second;
      result_.has_branches = true;
    }
    if (double macs = TotalMacCount(function); macs > 0) attrs["macs"] = fmt::format("{:f}", macs);
    if (double share = MacShare(function); share < 1) attrs["mac_share"] = fmt::format("{:f}", share);
    if (std::string origin = OriginOf(function); !origin.empty()) attrs["origin"] = origin;
    Json node;
    node["op"] = "tvm_op";
    node["name"] = aliases ? UniqueName(storage.moves_nothing ? "in_place_nop" : "reshape_nop", &names_)
                           : UniqueName(symbol, &names_);
    node["attrs"] = std::move(attrs);
    Json in = Json::array();
    for (Entry e : inputs) in.push_back({e.node, e.output, 0});
    node["inputs"] = std::move(in);
    return AddNode(std::move(node), call);
  }

  size_t Index(Entry e) const { return static_cast<size_t>(row_ptr_[static_cast<size_t>(e.node)] + e.output); }

  static void CollectTypes(const Type& type, std::vector<const TensorTypeNode*>* out) {
    if (const auto* tuple = type.as<TupleTypeNode>()) {
      for (const Type& field : tuple->fields) CollectTypes(field, out);
    } else if (const auto* tensor = type.as<TensorTypeNode>()) {
      out->push_back(tensor);
    } else {
      throw Error(StrCat("the graph executor can't hold a value of type ", type->type_key()));
    }
  }

  Entries AddNode(Json node, const Expr& expr) {
    int id = static_cast<int>(nodes_.size());
    std::vector<const TensorTypeNode*> types;
    CollectTypes(expr->checked_type(), &types);
    const StorageInfo& storage = plan_.at(expr);
    TREADLE_ICHECK(storage.storage_ids.size() == types.size()) << "memory plan doesn't fit the expression";
    Entries entries;
    row_ptr_.push_back(static_cast<int>(entry_storage_.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      entries.push_back({id, static_cast<int>(i)});
      shapes_.push_back(StaticShape(types[i], node["name"].get<std::string>()));
      dtypes_.push_back(types[i]->dtype.str());
      entry_storage_.push_back(storage.storage_ids[i]);
      entry_end_.push_back(storage.offsets[i] + storage.sizes[i]);
      entry_offset_.push_back(storage.offsets[i]);
      int device = storage.device_types[i] == 0 ? default_device_ : storage.device_types[i];
      // Memory of other devices is a handle, not an address: it has no places inside.
      if (node["op"] == "null" || device != kDLCPU) outside_arena_.insert(storage.storage_ids[i]);
      devices_.push_back(device);
    }
    nodes_.push_back(std::move(node));
    return entries;
  }

  std::string Assemble(const Entries& heads) {
    row_ptr_.push_back(static_cast<int>(entry_storage_.size()));
    Json graph;
    graph["nodes"] = std::move(nodes_);
    graph["arg_nodes"] = arg_nodes_;
    Json head_list = Json::array();
    for (Entry e : heads) head_list.push_back({e.node, e.output, 0});
    graph["heads"] = std::move(head_list);
    Json attrs;
    attrs["dltype"] = {"list_str", dtypes_};
    attrs["device_index"] = {"list_int", devices_};
    attrs["storage_id"] = {"list_int", entry_storage_};
    attrs["shape"] = {"list_shape", shapes_};
    if (arena_) {
      int64_t arena_bytes = 0;
      for (size_t i = 0; i < entry_offset_.size(); ++i) {
        if (outside_arena_.count(entry_storage_[i]) != 0) {
          entry_offset_[i] = -1;
        } else {
          arena_bytes = std::max(arena_bytes, entry_end_[i]);
        }
      }
      attrs["storage_offset"] = {"list_int", entry_offset_};
      attrs["arena_bytes"] = {"size_t", arena_bytes};
    }
    graph["attrs"] = std::move(attrs);
    graph["node_row_ptr"] = row_ptr_;
    // Last: readers of the format stop at what they don't know.
    if (!param_names_.empty()) graph["metadata"]["param_names"] = param_names_;
    return graph.dump(1);
  }

  const MemoryPlan& plan_;
  const bool arena_;
  const int default_device_;
  std::map<std::string, std::string> param_names_;  ///< those that the model has for them
  const KernelSymbol& kernel_symbol_;
  const BranchNames& branches_;
  ExecutorGraph result_;
  std::vector<Json> nodes_;
  std::vector<int> arg_nodes_, row_ptr_, devices_;
  std::vector<int64_t> entry_storage_, entry_offset_, entry_end_;
  std::set<int64_t> outside_arena_;  ///< storages of inputs and parameters
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<std::string> dtypes_;
  std::map<std::string, int> names_;
  std::unordered_map<Expr, Entries, ObjectPtrHash, ObjectPtrEqual> memo_;
};

}  // namespace

bool UpdatesOperand(const Function& function) {
  const auto* call = function->body.as<CallNode>();
  return call != nullptr && call->op.as<OpNode>() != nullptr &&
         Downcast<Op>(call->op).GetAttr(ops::kUpdatesOperand, false);
}

ExecutorGraph GenerateGraph(const Function& main, const MemoryPlan& plan, MemoryPlanner planner, int default_device,
                            const KernelSymbol& kernel_symbol, const BranchNames& branches) {
  return GraphGenerator(plan, planner, default_device, kernel_symbol, branches).Generate(main);
}

}  // namespace treadle::driver
