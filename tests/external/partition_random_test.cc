// SPDX-License-Identifier: Apache-2.0
// What partitioning keeps true of any graph.
#include <map>
#include <random>
#include <set>

#include "external/external_test_util.h"
#include "external/partition.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::testing {
namespace {

using relay::CallNode;
using relay::Expr;
using relay::FunctionNode;

/// A graph of `size` operators on tensors of 4; "first" takes sums and exponentials, "second" products and roots.
std::string RandomGraph(uint32_t seed, int size) {
  std::mt19937 random(seed);
  std::string text = "fn (%x: Tensor[(4), float32], %y: Tensor[(4), float32]) {\n";
  std::vector<std::string> values{"%x", "%y"};
  for (int i = 0; i < size; ++i) {
    auto pick = [&] { return values[values.size() - 1 - random() % std::min<size_t>(6, values.size())]; };
    std::string a = pick(), b = pick(), call;
    switch (random() % 6) {
      case 0:
        call = "add(" + a + ", " + b + ")";
        break;
      case 1:
        call = "multiply(" + a + ", " + b + ")";
        break;
      case 2:
        call = "tanh(" + a + ")";
        break;
      case 3:
        call = "sigmoid(" + a + ")";
        break;
      case 4:
        call = "subtract(" + a + ", " + b + ")";
        break;
      default:
        call = "abs(" + a + ")";
        break;
    }
    values.push_back("%" + std::to_string(i));
    text += values.back() + " = " + call + ";\n";
  }
  std::string last = values[values.size() - 1], before = values[values.size() - 2];
  return text + "(" + last + ", " + before + ", " + values[2 + random() % static_cast<size_t>(size)] + ")\n}";
}

void RegisterRandomCodegens() {
  driver::RegisterAll();
  relay::RegisterExternalOp("first", "add");
  relay::RegisterExternalOp("first", "tanh");
  relay::RegisterExternalOp("second", "multiply");
  relay::RegisterExternalOp("second", "sigmoid");
  relay::RegisterExternalOp("second", "subtract");
}

IRModule PartitionText(const std::string& text) {
  RegisterRandomCodegens();
  IRModule module = relay::transform::InferType()(ParseGraph(text));
  module = relay::transform::AnnotateTarget({"first", "second"})(module);
  module = relay::transform::MergeCompilerRegions()(module);
  return relay::transform::PartitionGraph()(module);
}

std::multiset<std::string> OpsOf(const IRModule& module) {
  std::multiset<std::string> ops;
  for (const auto& [var, func] : module->functions) {
    relay::PostOrderVisit(Downcast<relay::Function>(func)->body, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      if (call != nullptr && call->op.as<OpNode>() != nullptr) ops.insert(call->op.as<OpNode>()->name);
    });
  }
  return ops;
}

/// The nodes of main after partitioning, with an edge from each to those that it reads; what isn't a call is passed
/// through.
struct CallGraph {
  std::vector<const CallNode*> calls;
  std::map<const CallNode*, std::set<const CallNode*>> reads;

  explicit CallGraph(const Expr& body) {
    relay::PostOrderVisit(body, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      if (call == nullptr) return;
      calls.push_back(call);
      for (const Expr& arg : call->args) Collect(arg, &reads[call]);
    });
  }
  static void Collect(const Expr& e, std::set<const CallNode*>* into) {
    if (const auto* call = e.as<CallNode>()) into->insert(call);
    if (const auto* item = e.as<relay::TupleGetItemNode>()) Collect(item->tuple, into);
    if (const auto* tuple = e.as<relay::TupleNode>()) {
      for (const Expr& field : tuple->fields) Collect(field, into);
    }
  }
  bool Reaches(const CallNode* from, const CallNode* to) {
    if (from == to) return true;
    for (const CallNode* next : reads[from]) {
      if (Reaches(next, to)) return true;
    }
    return false;
  }
};

std::string CompilerOf(const IRModule& module, const CallNode* call) {
  const auto* var = call->op.as<GlobalVarNode>();
  if (var == nullptr) return "";
  auto compiler = module->Lookup(var->name_hint)->GetAttr<String>(attr::kCompiler);
  return compiler ? compiler->str() : "";
}

TEST(RandomPartition, EveryOperatorOnceTypesKeptNoCycles) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::string text = RandomGraph(seed, 14);
    IRModule before = relay::transform::InferType()(ParseGraph(text)), after = PartitionText(text);
    ASSERT_EQ(OpsOf(before), OpsOf(after)) << text;
    auto type = [](const IRModule& m) { return relay::AsText(Downcast<relay::Function>(m->Lookup("main"))->ret_type); };
    ASSERT_EQ(type(before), type(after));
    for (const auto& [var, func] : after->functions) {
      std::string message;
      ASSERT_TRUE(relay::WellFormed(func, &message)) << message;
    }
  }
}

TEST(RandomPartition, RegionsAreAsLargeAsIsLegal) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    IRModule module = PartitionText(RandomGraph(seed, 14));
    CallGraph graph(Downcast<relay::Function>(module->Lookup("main"))->body);
    for (const CallNode* reader : graph.calls) {
      const std::string compiler = CompilerOf(module, reader);
      if (compiler.empty()) continue;
      for (const CallNode* producer : graph.reads[reader]) {
        if (CompilerOf(module, producer) != compiler) continue;
        // They may stay apart only where another way leads from one to the other.
        bool detour = false;
        for (const CallNode* other : graph.reads[reader]) detour |= other != producer && graph.Reaches(other, producer);
        ASSERT_TRUE(detour) << "seed " << seed;
      }
    }
  }
}

TEST(RandomPartition, TakingBackRestoresTheGraph) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const std::string text = RandomGraph(seed, 14);
    IRModule module = PartitionText(text);
    std::vector<std::string> symbols;
    for (const auto& [var, func] : module->functions) {
      if (var->name_hint != "main") symbols.push_back(var->name_hint);
    }
    module = external::TakeBack(module, symbols);
    ASSERT_EQ(module->functions.size(), 1u);
    ASSERT_EQ(OpsOf(module), OpsOf(relay::transform::InferType()(ParseGraph(text))));
  }
}

TEST(RandomPartition, SameResults) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    ExpectSameResults(RandomGraph(seed, 12),
                      seed % 2 == 0 ? std::vector<std::string>{"json", "c"} : std::vector<std::string>{"json"}, 1e-4f);
  }
}

TEST(Partition, LongChainsTakeLinearTime) {
  RegisterRandomCodegens();
  relay::Var x("x", TensorType(std::vector<int64_t>{4}, DataType::Float(32)));
  Expr e = x;
  for (int i = 0; i < 20000; ++i) e = relay::Call(Op::Get(i % 50 == 0 ? "abs" : "tanh"), {e});
  IRModule module = relay::transform::InferType()(IRModule::FromExpr(relay::Function({x}, e)));
  module = relay::transform::AnnotateTarget({"first"})(module);
  module = relay::transform::MergeCompilerRegions()(module);
  module = relay::transform::PartitionGraph()(module);
  EXPECT_EQ(module->functions.size(), 401u);
}

}  // namespace
}  // namespace treadle::testing
