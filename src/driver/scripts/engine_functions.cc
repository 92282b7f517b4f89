// SPDX-License-Identifier: Apache-2.0
#include "driver/scripts/engine_functions.h"

#include <mutex>
#include <unordered_map>

#include "driver/lower/compile_engine.h"
#include "driver/lower/kernel_cache.h"
#include "driver/lower/lower_te.h"
#include "driver/package/model_cache.h"
#include "treadle/driver/build_module.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/registry.h"
#include "treadle/schedule/implementation.h"

namespace treadle::driver {
namespace {

using runtime::PackedFunc;
using runtime::Registry;

/// The engine that scripts use. Builds have engines of their own.
class GlobalEngine {
 public:
  static GlobalEngine& Get() {
    static auto* engine = new GlobalEngine();
    return *engine;
  }

  CachedFunc Lower(const CCacheKey& key) {
    std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (auto compiler = key->source_func->GetAttr<String>(attr::kCompiler)) return External(key);
    Kernel& kernel = engine_.Declare(key->source_func, key->target);
    engine_.Lower(&kernel);
    auto [it, inserted] = items_.emplace(kernel.symbol, items_.size());
    if (inserted) {
      list_.push_back({key, MakeValue(kernel)});
    }
    auto* value = list_[it->second].second.get();
    value->use_count = kernel.uses;
    return value->cached_func;
  }

  PackedFunc Jit(const CCacheKey& key) {
    CachedFunc func = Lower(key);
    return BuildModule(func->funcs, key->target).GetFunction(func->func_name);
  }

  void Clear() {
    std::lock_guard<std::recursive_mutex> lock(mutex_);
    engine_.Clear();
    items_.clear();
    list_.clear();
  }

  Array<ObjectRef> Items() {
    std::lock_guard<std::recursive_mutex> lock(mutex_);
    Array<ObjectRef> items;
    for (const auto& [key, value] : list_) {
      items.push_back(key);
      items.push_back(ObjectRef(ObjectPtr<Object>(value)));
    }
    return items;
  }

 private:
  static CachedFunc External(const CCacheKey& key) {
    auto symbol = key->source_func->GetAttr<String>(attr::kGlobalSymbol);
    if (!symbol) throw Error("an external function has no name: the attribute global_symbol is missing");
    auto node = MakeObject<CachedFuncNode>();
    node->target = key->target;
    node->func_name = symbol->str();
    node->funcs = IRModule::Empty();
    node->funcs.CopyOnWrite()->Add(GlobalVar(symbol->str()), key->source_func);
    return CachedFunc(ObjectPtr<Object>(node));
  }

  static ObjectPtr<CCacheValueNode> MakeValue(const Kernel& kernel) {
    TensorFunction tensors = LowerToTensors(kernel.source, kernel.target);
    auto node = MakeObject<CachedFuncNode>();
    node->target = kernel.target;
    node->func_name = kernel.symbol;
    node->inputs = tensors.inputs;
    node->outputs = tensors.outputs;
    Array<te::Operation> operations;
    for (const te::Tensor& output : tensors.outputs) operations.push_back(output->op);
    node->schedule = te::CreateSchedule(operations);
    node->funcs = IRModule::Empty();
    node->funcs.CopyOnWrite()->Add(GlobalVar(kernel.symbol), kernel.lowered);
    auto value = MakeObject<CCacheValueNode>();
    value->cached_func = CachedFunc(ObjectPtr<Object>(node));
    return value;
  }

  std::recursive_mutex mutex_;  // a hook may lower other functions
  CompileEngine engine_;
  std::unordered_map<std::string, size_t> items_;  ///< by symbol
  std::vector<std::pair<CCacheKey, ObjectPtr<CCacheValueNode>>> list_;
};

ops::FTECompute Computes(const PackedFunc& compute) {
  return [compute](const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
    auto result = compute(attrs, inputs, out_type).As<ObjectRef>();
    if (result.as<te::TensorNode>() != nullptr) return Array<te::Tensor>{Downcast<te::Tensor>(result)};
    return Downcast<Array<te::Tensor>>(result);
  };
}

/// A strategy that is a packed function: (attrs, inputs, out_type, target) -> array of (name, level, why not or "",
/// compute).
void SetPackedStrategy(std::string op_name, PackedFunc strategy) {
  if (!strategy) return schedule::SetStrategy(op_name, nullptr);
  schedule::SetStrategy(op_name, [strategy](const schedule::CallContext& context) {
    std::vector<schedule::Implementation> found;
    auto rows = strategy(context.attrs, context.inputs, context.out_type, context.target).As<Array<Array<ObjectRef>>>();
    for (const Array<ObjectRef>& row : rows) {
      const std::string why_not = Downcast<String>(row[2]).str();
      found.push_back({Downcast<String>(row[0]).str(), static_cast<int>(Downcast<IntImm>(row[1])->value),
                       [why_not](const schedule::CallContext&) { return why_not; },
                       Computes(PackedFunc(row[3].data()))});
    }
    return found;
  });
}

/// An implementation whose parts are packed functions: why_not(attrs, inputs, out_type, target) -> text or null, and
/// compute(attrs, inputs, out_type) -> a tensor or an array of tensors.
void AddPackedImplementation(std::string op_name, std::string name, int plevel, PackedFunc why_not,
                             PackedFunc compute) {
  schedule::Implementation implementation;
  implementation.name = std::move(name);
  implementation.plevel = plevel;
  if (why_not) {
    implementation.why_not = [why_not](const schedule::CallContext& context) {
      runtime::RetValue reason = why_not(context.attrs, context.inputs, context.out_type, context.target);
      return reason.is_null() ? std::string() : reason.As<std::string>();
    };
  }
  implementation.compute = Computes(compute);
  schedule::AddImplementation(op_name, std::move(implementation));
}

KernelCache& Cache() {
  KernelCache* cache = KernelCache::Default();
  if (cache == nullptr) throw Error("the kernel cache is off (TREADLE_CACHE=0), or there is no directory for it");
  return *cache;
}

const CCacheKey& Defined(const CCacheKey& key) {
  if (!key.defined()) throw DTypeError("expected a CCacheKey but got null");
  return key;
}

}  // namespace

CCacheKey::CCacheKey(const relay::Function& source_func, const Target& target) {
  if (!source_func.defined() || !target.defined()) throw DTypeError("a key of the cache needs a function and a target");
  auto node = MakeObject<CCacheKeyNode>();
  node->source_func = source_func;
  if (!source_func->body->checked_type_.defined()) {
    IRModule module = transform::GetPass("InferType")(IRModule::FromExpr(source_func));
    node->source_func = Downcast<relay::Function>(module->Lookup("main"));
  }
  node->target = target;
  data_ = node;
}

void RegisterEngineFunctions() {
  Registry::RegisterTyped("relay.backend._make_CCacheKey",
                          [](relay::Function func, Target target) { return CCacheKey(func, target); });
  Registry::RegisterTyped("relay.backend._CompileEngineLower",
                          [](CCacheKey key) { return GlobalEngine::Get().Lower(Defined(key)); });
  Registry::RegisterTyped("relay.backend._CompileEngineJIT",
                          [](CCacheKey key) { return GlobalEngine::Get().Jit(Defined(key)); });
  Registry::RegisterTyped("relay.backend._CompileEngineClear", [] { GlobalEngine::Get().Clear(); });
  Registry::RegisterTyped("relay.backend._CompileEngineListItems", [] { return GlobalEngine::Get().Items(); });
  Registry::RegisterTyped("relay.backend.ExplainImplementations", [](relay::Function func, Target target) {
    return ExplainImplementations(CCacheKey(func, target)->source_func, target);
  });
  Registry::RegisterTyped("relay.backend.AddImplementation", &AddPackedImplementation);
  Registry::RegisterTyped("relay.backend.SetStrategy", &SetPackedStrategy);
  Registry::RegisterTyped("relay.backend.RemoveImplementation",
                          [](std::string op_name, std::string name) { return schedule::RemoveKernel(op_name, name); });
  Registry::RegisterTyped("driver.KernelCacheStats", [] {
    const KernelCache::Stats stats = Cache().GetStats();
    Map<String, ObjectRef> map;
    map.Set("directory", String(stats.directory));
    auto number = [](uint64_t value) { return IntImm(DataType::Int(64), static_cast<int64_t>(value)); };
    map.Set("entries", number(stats.kernels + stats.models));
    map.Set("models", number(stats.models));
    map.Set("bytes", number(stats.bytes));
    map.Set("limit", number(stats.limit));
    map.Set("hits", number(stats.hits));
    map.Set("misses", number(stats.misses));
    return map;
  });
  Registry::RegisterTyped("driver.KernelCacheClear", [] { return static_cast<int64_t>(Cache().Clear()); });
  Registry::RegisterTyped("driver.KernelCacheSetLimit", [](int64_t bytes) {
    if (bytes < 0) throw Error(StrCat("the limit of the kernel cache is a number of bytes, not ", bytes));
    Cache().SetLimit(static_cast<uint64_t>(bytes));
    Cache().Trim();
  });
  Registry::RegisterTyped("driver.ModelCacheKey",
                          [](const std::string& model, std::string target, std::string options) {
                            return ModelCacheKey(model, target, options);
                          });
  Registry::RegisterTyped("driver.ModelCacheFind", &FindModel);
  Registry::RegisterTyped("driver.ModelCacheKeep", &KeepModel);
}

}  // namespace treadle::driver
