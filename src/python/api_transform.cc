// SPDX-License-Identifier: Apache-2.0
// Passes and their context. Passes with parameters are registered beside them as relay._transform.<Name>.
#include "python/api.h"
#include "treadle/ir/transform.h"

namespace treadle::python {
namespace {

using runtime::PackedFunc;
using runtime::Registry;
using treadle::transform::Pass;
using treadle::transform::PassContext;
using treadle::transform::PassContextNode;
using treadle::transform::PassInfo;
using treadle::transform::PassInstrument;

/// An instrument whose hooks are functions; null ones do nothing.
class FunctionInstrument : public PassInstrument {
 public:
  std::string name_;
  PackedFunc enter, exit, should_run, before, after;

  std::string name() const override { return name_; }
  void EnterPassContext() override {
    if (enter) enter();
  }
  void ExitPassContext() override {
    if (exit) exit();
  }
  bool ShouldRun(const IRModule& module, const PassInfo& info) override {
    return should_run ? should_run(module, Info(info)).As<bool>() : true;
  }
  void RunBeforePass(const IRModule& module, const PassInfo& info) override {
    if (before) before(module, Info(info));
  }
  void RunAfterPass(const IRModule& module, const PassInfo& info) override {
    if (after) after(module, Info(info));
  }
  TREADLE_NODE(FunctionInstrument, PassInstrument, "instrument.FunctionInstrument")

 private:
  static Map<String, ObjectRef> Info(const PassInfo& info) {
    Array<String> required;
    for (const std::string& name : info.required) required.push_back(name);
    return {
        {"name", String(info.name)}, {"opt_level", IntImm(DataType::Int(32), info.opt_level)}, {"required", required}};
  }
};

class InstrumentRef : public ObjectRef {
 public:
  TREADLE_BASE_REF(InstrumentRef, ObjectRef, PassInstrument);
};

PassContext MakeContext(int opt_level, Array<String> required, Array<String> disabled, Map<String, ObjectRef> config,
                        Array<InstrumentRef> instruments) {
  PassContext context = PassContext::Create();
  PassContextNode* node = context.CopyOnWrite();
  node->opt_level = opt_level;
  for (const String& name : required) node->required_pass.push_back(name.str());
  for (const String& name : disabled) node->disabled_pass.push_back(name.str());
  node->config = config;
  for (const InstrumentRef& instrument : instruments) {
    node->instruments.emplace_back(const_cast<PassInstrument*>(instrument.get()));
  }
  return context;
}

}  // namespace

void RegisterTransformApi() {
  Registry::RegisterTyped("transform.PassContext", &MakeContext);
  Registry::RegisterTyped("transform.EnterPassContext", [](PassContext context) { context.Enter(); });
  Registry::RegisterTyped("transform.ExitPassContext", [](PassContext context) { context.Exit(); });
  Registry::RegisterTyped("transform.GetCurrentPassContext", [] { return PassContext::Current(); });
  Registry::RegisterTyped("transform.RunPass", [](Pass pass, IRModule module) { return pass(module); });
  Registry::RegisterTyped("transform.GetPass", [](std::string name) { return treadle::transform::GetPass(name); });
  Registry::RegisterTyped("transform.ListPassNames", [] {
    Array<String> names;
    for (const std::string& name : treadle::transform::ListPassNames()) names.push_back(name);
    return names;
  });
  Registry::RegisterTyped("transform.PassName", [](Pass pass) { return pass->info.name; });
  Registry::RegisterTyped("transform.Sequential", [](Array<Pass> passes, std::string name) {
    return treadle::transform::Sequential(passes.ToVector(), name);
  });
  Registry::RegisterTyped(
      "transform.MakeModulePass", [](PackedFunc run, std::string name, int opt_level, Array<String> required) {
        PassInfo info{name, opt_level, {}, ""};
        for (const String& pass : required) info.required.push_back(pass.str());
        return treadle::transform::CreateModulePass(
            [run](IRModule module, const PassContext& context) { return run(module, context).As<IRModule>(); }, info);
      });
  Registry::RegisterTyped("instrument.PassInstrument", [](std::string name, PackedFunc enter, PackedFunc exit,
                                                          PackedFunc should_run, PackedFunc before, PackedFunc after) {
    auto node = MakeObject<FunctionInstrument>();
    node->name_ = name;
    node->enter = enter;
    node->exit = exit;
    node->should_run = should_run;
    node->before = before;
    node->after = after;
    return InstrumentRef(ObjectPtr<Object>(node));
  });
}

}  // namespace treadle::python
