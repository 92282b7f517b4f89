// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/lower_tir.h"

#include <algorithm>
#include <map>
#include <vector>

#include "tir/passes/passes.h"
#include "treadle/ir/transform.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::driver {

namespace {

constexpr const char* kUnrollOption = "tir.UnrollLoop";
constexpr const char* kUserPasses = "tir.add_lower_pass";

constexpr const char* kPartitionOption = "tir.LoopPartition";
constexpr const char* kHoistOption = "tir.HoistIfThenElse";
constexpr const char* kDoubleBufferOption = "tir.InjectDoubleBuffer";
constexpr const char* kGlobalBarrierOption = "tir.detect_global_barrier";

/// An integer (or bool) of an option that is a map, such as tir.UnrollLoop, which takes the given names.
int MapOption(const transform::PassContext& context, const char* option, const std::vector<std::string>& names,
              const std::string& name, int otherwise) {
  auto options = context->config.Get(option);
  if (!options) return otherwise;
  if (!(*options)->IsInstance<MapNode>()) throw Error(StrCat("option ", option, " must be a dict"));
  int found = otherwise;
  for (const auto& [key, value] : Downcast<Map<String, ObjectRef>>(*options)) {
    const bool known = std::find(names.begin(), names.end(), key.str()) != names.end();
    const auto* number = value.as<IntImmNode>();
    if (!known || number == nullptr) {
      std::string all;
      for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
      throw Error(StrCat(option, " has no integer option '", key.str(), "'; it has: ", all));
    }
    if (key.str() == name) found = static_cast<int>(number->value);
  }
  return found;
}

int UnrollOption(const transform::PassContext& context, const std::string& name, int otherwise) {
  return MapOption(context, kUnrollOption, {"auto_max_step", "auto_max_depth", "auto_max_extent", "explicit_unroll"},
                   name, otherwise);
}

/// Options that the original has for what is done here in one way.
void CheckFixedOptions(const transform::PassContext& context) {
  if (MapOption(context, kHoistOption, {"support_block_scope_hosting"}, "support_block_scope_hosting", 0) != 0) {
    throw Error(StrCat(kHoistOption,
                       ": support_block_scope_hosting must be false: conditions stay within loops bound to ",
                       "threads, which all have to reach the barriers"));
  }
  if (context->GetConfigBool(kGlobalBarrierOption, false)) {
    throw Error(StrCat(kGlobalBarrierOption,
                       " must be false: no target has a barrier across all blocks of a kernel; "
                       "split the computation into several kernels"));
  }
  const int split = MapOption(context, kDoubleBufferOption, {"split_loop"}, "split_loop", 1);
  if (split < 0 || split > 1) {
    throw Error(StrCat(kDoubleBufferOption, ": split_loop is ", split, "; expected 1: the loop around a double buffer ",
                       "isn't split here, do it in the schedule and unroll the inner loop"));
  }
}

/// Leaves out assertions.
class AssertRemover : public tir::StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;
  tir::Stmt VisitStmt_(const tir::AssertStmtNode* op) override { return VisitStmt(op->body); }
};

}  // namespace

void RegisterLowerOptions() {
  transform::RegisterPassConfig("tir.disable_vectorize", "bool", "vectorized loops become serial ones (false)");
  transform::RegisterPassConfig("tir.instrument_bound_checkers", "bool", "each access is checked at run time (false)");
  transform::RegisterPassConfig("tir.disable_assert", "bool", "assertions written in functions are left out (false)");
  transform::RegisterPassConfig(
      kHoistOption, "map", "support_block_scope_hosting (false): must be false; conditions leave other loops always");
  transform::RegisterPassConfig(kGlobalBarrierOption, "bool", "must be false: kernels have no barrier across blocks");
  transform::RegisterPassConfig(kDoubleBufferOption, "map", "split_loop (1): must be 1; loops are split in schedules");
  transform::RegisterPassConfig("relay.backend.disable_compile_engine_cache", "bool",
                                "the cache of kernels on disk isn't used (false)");
  transform::RegisterPassConfig("tir.noalias", "bool", "parameters of functions don't overlap (true)");
  transform::RegisterPassConfig(kUserPasses, "object",
                                "[phase, pass] pairs: run before lowering (0), once buffers are flat (1), once loops "
                                "are vectorised and unrolled (2), at the end (3)");
  transform::RegisterPassConfig(
      kUnrollOption, "map",
      "auto_max_step (0), auto_max_depth (8), auto_max_extent (0): which serial loops are "
      "unrolled; explicit_unroll (true): they are written out, which is how it is done always");
  transform::RegisterPassConfig(kPartitionOption, "map",
                                "partition_const_loop, no_unroll_loop_with_extent_one: accepted; loops are partitioned "
                                "where that pays");
}

LowerOptions LowerOptions::FromContext() {
  const auto context = transform::PassContext::Current();
  LowerOptions options;
  options.disable_vectorize = context->GetConfigBool("tir.disable_vectorize", false);
  options.bounds_check = context->GetConfigBool("tir.instrument_bound_checkers", false);
  options.noalias = context->GetConfigBool("tir.noalias", true);
  options.disable_assert = context->GetConfigBool("tir.disable_assert", false);
  CheckFixedOptions(context);
  MapOption(context, kPartitionOption,
            {"partition_const_loop", "no_unroll_loop_with_extent_one", "unroll_loop_with_partition_hint_no_interval"},
            "", 0);
  options.unroll_max_step = UnrollOption(context, "auto_max_step", 0);
  options.unroll_max_depth = UnrollOption(context, "auto_max_depth", 8);
  options.unroll_max_extent = UnrollOption(context, "auto_max_extent", 0);
  return options;
}

tir::LowerConfig ConfigFor(const Target& target, const LowerOptions& options) {
  tir::LowerConfig config;
  config.target_kind = target->kind;
  config.features = target->Features();
  config.simple_mode = options.simple_mode;
  const targets::LoweringTraits& traits = targets::GetTargetSpec(target).lowering;
  config.disable_vectorize = options.disable_vectorize || !traits.vectors;
  config.has_threads = traits.threads;
  config.native_float16 = traits.native_float16;
  config.bounds_check = options.bounds_check;
  config.unroll_max_step = options.unroll_max_step;
  config.unroll_max_depth = options.unroll_max_depth;
  config.unroll_max_extent = options.unroll_max_extent;
  return config;
}

namespace {

const std::string kImport = std::string(tir::attr::kPragmaPrefix) + "import_";

/// The targets that import texts in a language, for messages.
std::string WhoImports(const std::string& language) {
  std::string kinds;
  for (const std::string& kind : targets::ListTargets()) {
    const std::vector<std::string>& imports = targets::GetTargetSpec(kind).imports;
    if (std::find(imports.begin(), imports.end(), language) == imports.end()) continue;
    kinds += (kinds.empty() ? "" : ", ") + kind;
  }
  return kinds.empty() ? "no target imports that" : StrCat("\"import_", language, "\" works with target ", kinds);
}

/// Pragmas on loops that bring code along, which outlives the loops.
tir::PrimFunc WithImports(tir::PrimFunc func, const Target& target) {
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  std::map<std::string, Array<String>> texts;  // by language
  tir::PostOrderVisit(func->body, [&](const ObjectRef& node) {
    const auto* loop = node.as<tir::ForNode>();
    if (loop == nullptr) return;
    for (const auto& [key, value] : loop->annotations) {
      const std::string name = key.str();
      if (name.rfind(kImport, 0) != 0) continue;
      const std::string language = name.substr(kImport.size());
      const std::string where = StrCat("loop '", loop->loop_var->name_hint, "' has the pragma import_", language);
      if (std::find(spec.imports.begin(), spec.imports.end(), language) == spec.imports.end()) {
        throw TargetError(StrCat(where, ", which target ", target->kind, " can't import; ", WhoImports(language)));
      }
      if (const auto* text = value.as<tir::StringImmNode>()) {
        texts[language].push_back(String(text->value));
      } else if (value.as<StringNode>()) {
        texts[language].push_back(Downcast<String>(value));
      } else {
        throw Error(StrCat(where, "; expected a text"));
      }
    }
  });
  for (const auto& [language, list] : texts) func = WithAttr(std::move(func), "tir.import_" + language, list);
  return func;
}

/// The function after the passes of that phase which the context adds (option tir.add_lower_pass).
tir::PrimFunc WithUserPasses(tir::PrimFunc func, int phase) {
  auto added = transform::PassContext::Current()->config.Get(kUserPasses);
  if (!added) return func;
  if (!(*added)->IsInstance<ArrayNode>()) throw Error(StrCat("option ", kUserPasses, " must be a list"));
  for (const ObjectRef& entry : Downcast<Array<ObjectRef>>(*added)) {
    const auto* pair = entry.as<ArrayNode>();
    const auto* number = pair != nullptr && pair->items.size() == 2 ? pair->items[0].as<IntImmNode>() : nullptr;
    if (number == nullptr || !pair->items[1]->IsInstance<transform::PassNode>()) {
      throw Error(StrCat("option ", kUserPasses, ": each entry must be a pair [phase, pass]"));
    }
    if (number->value != phase) continue;
    const auto name = func->GetAttr<String>(attr::kGlobalSymbol);
    IRModule module = IRModule::Empty();
    module.CopyOnWrite()->Add(GlobalVar(name ? (*name).str() : "main"), func);
    module = Downcast<transform::Pass>(pair->items[1])(module);
    TREADLE_ICHECK(module->functions.size() == 1) << "a pass added to lowering changed the number of functions";
    for (const auto& [var, changed] : module->functions) func = Downcast<tir::PrimFunc>(changed);
  }
  return func;
}

}  // namespace

tir::PrimFunc WithoutAsserts(tir::PrimFunc func) {
  func.CopyOnWrite()->body = AssertRemover()(func->body);
  return func;
}

tir::PrimFunc LowerPrimFunc(tir::PrimFunc func, const Target& target, const LowerOptions& options) {
  const tir::LowerConfig config = ConfigFor(target, options);
  func = WithImports(std::move(func), target);
  if (!func->attrs->dict.contains(attr::kNoAlias)) {
    func = WithAttr(func, attr::kNoAlias, IntImm(DataType::Bool(), options.noalias ? 1 : 0));
  }
  if (options.disable_assert) func = WithoutAsserts(std::move(func));
  func = WithUserPasses(std::move(func), 0);
  for (const tir::LoweringPass& pass : tir::LoweringPasses()) {
    func = pass.run(std::move(func), config);
    if (options.after_pass) options.after_pass(pass.name, func);
    if (std::string(pass.name) == "FlattenBuffer") func = WithUserPasses(std::move(func), 1);
    if (std::string(pass.name) == "UnrollLoop") func = WithUserPasses(std::move(func), 2);
  }
  return WithUserPasses(std::move(func), 3);
}

}  // namespace treadle::driver
