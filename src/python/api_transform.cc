// SPDX-License-Identifier: Apache-2.0
// Passes and their context. Passes with parameters are registered beside them as relay._transform.<Name>.
#include "python/checked.h"
#include "treadle/ir/instrument.h"
#include "treadle/ir/transform.h"
#include "treadle/relay/instrument.h"

namespace treadle::python {
namespace {

using runtime::PackedFunc;
using runtime::Registry;
using treadle::transform::Pass;
using treadle::transform::PassContext;
using treadle::transform::PassContextNode;
using treadle::transform::PassInfo;
using treadle::transform::PassInstrument;

/// PassInfo as Python sees it.
class PassInfoNode : public Object {
 public:
  std::string name;
  int opt_level = 0;
  std::vector<std::string> required;
  std::string doc;
  TREADLE_NODE(PassInfoNode, Object, "transform.PassInfo")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &PassInfoNode::name);
    r.Field("opt_level", &PassInfoNode::opt_level);
    r.Field("required", &PassInfoNode::required);
    r.Field("doc", &PassInfoNode::doc);
  }
};

ObjectRef Wrap(const PassInfo& info) {
  auto node = MakeObject<PassInfoNode>();
  node->name = info.name;
  node->opt_level = info.opt_level;
  node->required = info.required;
  node->doc = info.doc;
  return ObjectRef(ObjectPtr<Object>(node));
}

PassInfo MakeInfo(const std::string& name, int opt_level, const Array<String>& required) {
  PassInfo info{name, opt_level, {}, ""};
  for (const String& pass : required) info.required.push_back(pass.str());
  return info;
}

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
    return should_run ? should_run(module, Wrap(info)).As<bool>() : true;
  }
  void RunBeforePass(const IRModule& module, const PassInfo& info) override {
    if (before) before(module, Wrap(info));
  }
  void RunAfterPass(const IRModule& module, const PassInfo& info) override {
    if (after) after(module, Wrap(info));
  }
  TREADLE_NODE(FunctionInstrument, PassInstrument, "instrument.FunctionInstrument")
};

class InstrumentRef : public ObjectRef {
 public:
  TREADLE_BASE_REF(InstrumentRef, ObjectRef, PassInstrument);
};

void SetInstruments(PassContextNode* node, const Array<InstrumentRef>& instruments) {
  node->instruments.clear();
  for (const InstrumentRef& instrument : instruments) {
    node->instruments.emplace_back(const_cast<PassInstrument*>(instrument.get()));
  }
}

/// Leaves the instruments of the innermost context and enters others in their place.
void OverrideInstruments(const PassContext& context, const Array<InstrumentRef>& instruments) {
  for (const auto& instrument : std::vector(context->instruments)) instrument->ExitPassContext();
  SetInstruments(const_cast<PassContextNode*>(context.get()), instruments);
  for (const auto& instrument : std::vector(context->instruments)) instrument->EnterPassContext();
}

PassContext MakeContext(int opt_level, Array<String> required, Array<String> disabled, Map<String, ObjectRef> config,
                        Array<InstrumentRef> instruments) {
  PassContext context = PassContext::Create();
  PassContextNode* node = context.CopyOnWrite();
  node->opt_level = opt_level;
  for (const String& name : required) node->required_pass.push_back(name.str());
  for (const String& name : disabled) node->disabled_pass.push_back(name.str());
  node->config = config;
  {
    // Entering checks the options: unknown ones are errors when the context is made.
    PassContext::Scope check(context);
  }
  SetInstruments(node, instruments);
  return context;
}

void RegisterInstruments() {
  RegisterChecked("instrument.PassInstrument",
                  [](std::string name, OrNull<PackedFunc> enter, OrNull<PackedFunc> exit, OrNull<PackedFunc> should_run,
                     OrNull<PackedFunc> before, OrNull<PackedFunc> after) {
                    auto node = MakeObject<FunctionInstrument>();
                    node->name_ = name;
                    node->enter = enter;
                    node->exit = exit;
                    node->should_run = should_run;
                    node->before = before;
                    node->after = after;
                    return InstrumentRef(ObjectPtr<Object>(node));
                  });
  RegisterChecked("instrument.PassTimingInstrument",
                  [] { return InstrumentRef(ObjectPtr<Object>(treadle::transform::MakePassTiming())); });
  RegisterChecked("instrument.RenderPassTiming", [](InstrumentRef instrument) {
    const auto* timing = instrument.as<treadle::transform::PassTiming>();
    if (timing == nullptr) throw Error("not an instrument that measures time");
    return timing->Render();
  });
  RegisterChecked("instrument.PassVerifier",
                  [] { return InstrumentRef(ObjectPtr<Object>(relay::MakePassVerifier())); });
}

}  // namespace

void RegisterTransformApi() {
  RegisterChecked("transform.PassContext", &MakeContext);
  RegisterChecked("transform.EnterPassContext", [](PassContext context) { context.Enter(); });
  RegisterChecked("transform.ExitPassContext", [](PassContext context) { context.Exit(); });
  RegisterChecked("transform.GetCurrentPassContext", [] { return PassContext::Current(); });
  RegisterChecked("transform.RunPass", [](Pass pass, IRModule module) { return pass(module); });
  RegisterChecked("transform.GetPass", [](std::string name) { return treadle::transform::GetPass(name); });
  RegisterChecked("transform.ListPassNames", [] {
    Array<String> names;
    for (const std::string& name : treadle::transform::ListPassNames()) names.push_back(name);
    return names;
  });
  RegisterChecked("transform.Info", [](Pass pass) { return Wrap(pass->info); });
  RegisterChecked("transform.PassInfo", [](int opt_level, std::string name, Array<String> required) {
    return Wrap(MakeInfo(name, opt_level, required));
  });
  RegisterChecked("transform.Sequential",
                  [](Array<Pass> passes, std::string name, int opt_level, Array<String> required) {
                    PassInfo info = MakeInfo(name, opt_level, required);
                    info.doc = "Runs the passes that the context enables, in order.";
                    return treadle::transform::Sequential(passes.ToVector(), std::move(info));
                  });
  RegisterChecked("transform.MakeModulePass",
                  [](PackedFunc run, std::string name, int opt_level, Array<String> required) {
                    return treadle::transform::CreateModulePass(
                        [run, name](IRModule module, const PassContext& context) {
                          IRModule result = run(module, context).As<IRModule>();
                          if (!result.defined())
                            throw DTypeError(StrCat("pass ", name, " returned nothing; expected an IRModule"));
                          return result;
                        },
                        MakeInfo(name, opt_level, required));
                  });
  RegisterChecked("transform.ListConfigs", [] {
    Map<String, ObjectRef> configs;
    for (const auto& info : treadle::transform::ListPassConfigs()) {
      configs.Set(info.key, Map<String, ObjectRef>({{"type", String(info.kind)}, {"doc", String(info.doc)}}));
    }
    return configs;
  });
  RegisterChecked("transform.ContextInstruments", [](PassContext context) {
    Array<ObjectRef> instruments;
    for (const auto& instrument : context->instruments) instruments.push_back(ObjectRef(ObjectPtr<Object>(instrument)));
    return instruments;
  });
  RegisterChecked("transform.OverrideInstruments", &OverrideInstruments);
  RegisterInstruments();
}

}  // namespace treadle::python
