// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/transform.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "treadle/base/suggest.h"

namespace treadle::transform {

TREADLE_DEFINE_NODE(PassInstrument);
TREADLE_DEFINE_NODE(PassContextNode);
TREADLE_DEFINE_NODE(PassNode);

namespace {

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct ConfigOption {
  std::string kind;
  std::string doc;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, ConfigOption> options;
  std::map<std::string, std::function<Pass()>> passes;

  static Registry& Global() {
    static auto* registry = new Registry();
    return *registry;
  }
};

std::vector<PassContext>& ContextStack() {
  thread_local std::vector<PassContext> stack;
  return stack;
}

template <typename T>
std::string Names(const std::map<std::string, T>& table) {
  std::string names;
  for (const auto& [name, unused] : table) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

template <typename T>
std::string Suggest(const std::string& name, const std::map<std::string, T>& table) {
  std::vector<std::string> names;
  for (const auto& [known, unused] : table) names.push_back(known);
  return DidYouMean(name, names);
}

/// Of options also "; did you mean 'relay.FuseOps.max_depth'?" for 'max_depth'.
std::string SuggestOption(const std::string& name, const std::map<std::string, ConfigOption>& table) {
  std::string only;
  for (const auto& [known, unused] : table) {
    if (!known.ends_with("." + name)) continue;
    if (!only.empty()) return "";
    only = known;
  }
  return only.empty() ? Suggest(name, table) : StrCat("; did you mean '", only, "'?");
}

std::string ValueText(const ObjectRef& value) {
  if (!value.defined()) return "nothing";
  if (const auto* text = value.as<StringNode>()) return StrCat("the string '", text->value, "'");
  return StrCat("a value of type ", value->type_key());
}

bool HasKind(const ObjectRef& value, const std::string& kind) {
  if (kind == "int" || kind == "bool") return value.as<IntImmNode>() != nullptr;
  if (kind == "string") return value.as<StringNode>() != nullptr;
  if (kind == "map") return value.as<MapNode>() != nullptr;
  return value.defined();
}

void CheckConfig(const PassContext& context) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& [key, value] : context->config) {
    auto it = registry.options.find(key.str());
    if (it == registry.options.end()) {
      throw Error(StrCat("unknown option '", key.str(), "' in the pass context",
                         SuggestOption(key.str(), registry.options), "; candidates are: ", Names(registry.options)));
    }
    if (!HasKind(value, it->second.kind)) {
      throw Error(StrCat("option '", key.str(), "' of the pass context must be of type ", it->second.kind, ", got ",
                         ValueText(value)));
    }
  }
}

/// A context whose instruments failed keeps none: what they would report is no longer consistent.
void DropInstruments(const PassContext& context) { const_cast<PassContextNode*>(context.get())->instruments.clear(); }

}  // namespace

int64_t PassContextNode::GetConfigInt(const std::string& key, int64_t otherwise) const {
  auto value = config.Get(key);
  if (!value) return otherwise;
  const auto* imm = value->as<IntImmNode>();
  if (imm == nullptr) throw Error(StrCat("option '", key, "' of the pass context isn't an integer"));
  return imm->value;
}

std::string PassContextNode::GetConfigString(const std::string& key, const std::string& otherwise) const {
  auto value = config.Get(key);
  if (!value) return otherwise;
  const auto* text = value->as<StringNode>();
  if (text == nullptr) throw Error(StrCat("option '", key, "' of the pass context isn't a string"));
  return text->value;
}

bool PassContextNode::PassEnabled(const PassInfo& info) const {
  if (Contains(disabled_pass, info.name)) return false;
  return Contains(required_pass, info.name) || opt_level >= info.opt_level;
}

PassContext PassContext::Create() { return PassContext(ObjectPtr<Object>(MakeObject<PassContextNode>())); }

PassContext PassContext::Current() {
  auto& stack = ContextStack();
  if (!stack.empty()) return stack.back();
  // Outside of all contexts a thread has one that lasts: what is set in it (override_instruments) stays.
  thread_local const PassContext outermost = Create();
  return outermost;
}

void PassContext::Enter() const {
  CheckConfig(*this);
  size_t entered = 0;
  try {
    for (const auto& instrument : get()->instruments) {
      instrument->EnterPassContext();
      ++entered;
    }
  } catch (...) {
    auto instruments = get()->instruments;
    DropInstruments(*this);
    for (size_t i = 0; i < entered; ++i) instruments[i]->ExitPassContext();
    throw;
  }
  ContextStack().push_back(*this);
}

void PassContext::Exit() const {
  auto& stack = ContextStack();
  TREADLE_ICHECK(!stack.empty() && stack.back().same_as(*this)) << "pass contexts must be left in reverse order";
  PassContext self = *this;
  stack.pop_back();
  try {
    for (const auto& instrument : self->instruments) instrument->ExitPassContext();
  } catch (...) {
    DropInstruments(self);
    throw;
  }
}

PassContext::Scope::Scope(PassContext context) : context_(std::move(context)) { context_.Enter(); }

PassContext::Scope::~Scope() noexcept(false) {
  if (std::uncaught_exceptions() == 0) {
    context_.Exit();
    return;
  }
  try {
    context_.Exit();
  } catch (...) {  // the exception under way is the one to report
  }
}

void RegisterPassConfig(const std::string& key, const std::string& kind, const std::string& doc) {
  TREADLE_ICHECK(kind == "int" || kind == "bool" || kind == "string" || kind == "map" || kind == "object")
      << "kind " << kind;
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.options[key] = {kind, doc};
}

std::vector<PassConfigInfo> ListPassConfigs() {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<PassConfigInfo> infos;
  for (const auto& [key, option] : registry.options) infos.push_back({key, option.kind, option.doc});
  return infos;
}

IRModule Pass::operator()(IRModule module) const { return (*this)(std::move(module), PassContext::Current()); }

IRModule Pass::operator()(IRModule module, const PassContext& context) const {
  TREADLE_ICHECK(defined()) << "null pass";
  TREADLE_ICHECK(module.defined()) << "pass " << get()->info.name << " got a null module";
  const PassInfo& info = get()->info;
  // Copied: a hook that fails empties the context's list.
  auto instruments = context->instruments;
  if (!Contains(context->required_pass, info.name)) {
    bool should_run = true;
    for (const auto& instrument : instruments) should_run &= instrument->ShouldRun(module, info);
    if (!should_run) return module;
  }
  for (const auto& instrument : instruments) instrument->RunBeforePass(module, info);
  IRModule result = get()->Run(std::move(module), context);
  TREADLE_ICHECK(result.defined()) << "pass " << info.name << " returned null";
  for (const auto& instrument : instruments) instrument->RunAfterPass(result, info);
  return result;
}

namespace {

class ModulePassNode : public PassNode {
 public:
  std::function<IRModule(IRModule, const PassContext&)> run;
  IRModule Run(IRModule module, const PassContext& context) const final { return run(std::move(module), context); }
  TREADLE_NODE(ModulePassNode, PassNode, "transform.ModulePass")
};

class SequentialNode : public PassNode {
 public:
  std::vector<Pass> passes;
  IRModule Run(IRModule module, const PassContext& context) const final {
    for (const Pass& pass : passes) {
      if (!context->PassEnabled(pass->info)) continue;
      for (const std::string& name : pass->info.required) module = GetPass(name)(std::move(module), context);
      module = pass(std::move(module), context);
    }
    return module;
  }
  TREADLE_NODE(SequentialNode, PassNode, "transform.Sequential")
};

}  // namespace

Pass CreateModulePass(std::function<IRModule(IRModule, const PassContext&)> run, PassInfo info) {
  auto node = MakeObject<ModulePassNode>();
  node->run = std::move(run);
  node->info = std::move(info);
  return Pass(ObjectPtr<Object>(node));
}

Pass Sequential(std::vector<Pass> passes, PassInfo info) {
  auto node = MakeObject<SequentialNode>();
  node->passes = std::move(passes);
  node->info = std::move(info);
  return Pass(ObjectPtr<Object>(node));
}

Pass Sequential(std::vector<Pass> passes, std::string name) {
  return Sequential(std::move(passes),
                    PassInfo{std::move(name), 0, {}, "Runs the passes that the context enables, in order."});
}

void RegisterPass(const std::string& name, std::function<Pass()> create) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.passes[name] = std::move(create);
}

Pass GetPass(const std::string& name) {
  std::function<Pass()> create;
  {
    Registry& registry = Registry::Global();
    std::lock_guard<std::mutex> lock(registry.mutex);
    auto it = registry.passes.find(name);
    if (it == registry.passes.end()) {
      throw Error(StrCat("no pass is called '", name, "'", Suggest(name, registry.passes),
                         "; known passes: ", Names(registry.passes)));
    }
    create = it->second;
  }
  return create();
}

std::vector<std::string> ListPassNames() {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, create] : registry.passes) names.push_back(name);
  return names;
}

}  // namespace treadle::transform
