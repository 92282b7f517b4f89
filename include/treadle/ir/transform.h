// SPDX-License-Identifier: Apache-2.0
// Passes over modules, the context they run in, and instruments that watch them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "treadle/ir/module.h"

namespace treadle::transform {

struct PassInfo {
  std::string name;
  int opt_level = 0;                  ///< runs in a Sequential when the context's level is at least this
  std::vector<std::string> required;  ///< passes that Sequential runs before
  std::string doc;                    ///< one line
};

/// Watches passes. Hooks may throw; see PassContext.
class PassInstrument : public Object {
 public:
  virtual std::string name() const = 0;
  virtual void EnterPassContext() {}
  virtual void ExitPassContext() {}
  /// A veto; not asked for required passes.
  virtual bool ShouldRun(const IRModule&, const PassInfo&) { return true; }
  virtual void RunBeforePass(const IRModule&, const PassInfo&) {}
  virtual void RunAfterPass(const IRModule&, const PassInfo&) {}
  TREADLE_DECLARE_NODE(PassInstrument, Object, "instrument.PassInstrument");
};

/// Options of a compilation. Scoped per thread with PassContext::Scope.
class PassContextNode : public Object {
 public:
  int opt_level = 2;
  std::vector<std::string> required_pass;
  std::vector<std::string> disabled_pass;
  Map<String, ObjectRef> config;  ///< keys and classes are those of RegisterPassConfig
  std::vector<ObjectPtr<PassInstrument>> instruments;
  TREADLE_DECLARE_NODE(PassContextNode, Object, "transform.PassContext");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("opt_level", &PassContextNode::opt_level);
    r.Field("required_pass", &PassContextNode::required_pass);
    r.Field("disabled_pass", &PassContextNode::disabled_pass);
    r.Field("config", &PassContextNode::config);
  }
  /// Value of an option, or `otherwise`.
  int64_t GetConfigInt(const std::string& key, int64_t otherwise) const;
  std::string GetConfigString(const std::string& key, const std::string& otherwise) const;
  bool GetConfigBool(const std::string& key, bool otherwise) const { return GetConfigInt(key, otherwise) != 0; }
  /// Not disabled, and (required or of a level that is switched on).
  bool PassEnabled(const PassInfo& info) const;
};
class PassContext : public ObjectRef {
 public:
  /// Default options.
  static PassContext Create();
  /// The innermost context of this thread, or default options.
  static PassContext Current();
  TREADLE_REF(PassContext, ObjectRef, PassContextNode);
  class Scope;
  void Enter() const;
  void Exit() const;
};

/// Enters a context on construction (after checking its config), leaves it on destruction.
class PassContext::Scope {
 public:
  explicit Scope(PassContext context);
  ~Scope() noexcept(false);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  PassContext context_;
};

/// Declares an option. `kind`: "int", "bool", "string", "object"; an unknown key in a context is an error that
/// names near matches and lists the known ones.
void RegisterPassConfig(const std::string& key, const std::string& kind, const std::string& doc);
struct PassConfigInfo {
  std::string key, kind, doc;
};
/// All declared options, sorted by key.
std::vector<PassConfigInfo> ListPassConfigs();

class PassNode : public Object {
 public:
  PassInfo info;
  virtual IRModule Run(IRModule module, const PassContext& context) const = 0;
  TREADLE_DECLARE_NODE(PassNode, Object, "transform.Pass");
};
class Pass : public ObjectRef {
 public:
  TREADLE_BASE_REF(Pass, ObjectRef, PassNode);
  /// Runs the pass with the instruments of the current context (whatever opt_level and disabled_pass say).
  IRModule operator()(IRModule module) const;
  IRModule operator()(IRModule module, const PassContext& context) const;
};

Pass CreateModulePass(std::function<IRModule(IRModule, const PassContext&)> run, PassInfo info);
/// Runs the passes that the context enables, in order, each after those it requires.
Pass Sequential(std::vector<Pass> passes, std::string name = "sequential");
Pass Sequential(std::vector<Pass> passes, PassInfo info);

/// Passes known by name, for `required`, the command line and Python.
void RegisterPass(const std::string& name, std::function<Pass()> create);
Pass GetPass(const std::string& name);
std::vector<std::string> ListPassNames();

}  // namespace treadle::transform
