// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/device_code.h"

#include "tir/passes/split_host_device.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::driver {

bool IsDevice(const Target& target) { return targets::GetTargetSpec(target).form == targets::ModuleForm::kDevice; }

Target HostOf(const Target& target) {
  if (!IsDevice(target)) return target;
  return target->host.defined() ? Downcast<Target>(target->host) : targets::DefaultTarget(kDLCPU);
}

namespace {

/// Finds a buffer that is stored to in a loop, none of those around which is bound to threads or parallel.
class UnboundFinder : public tir::StmtVisitor {
 public:
  explicit UnboundFinder(bool has_threads) : has_threads_(has_threads) {}
  std::string loop;

 protected:
  using tir::StmtVisitor::VisitStmt_;
  void VisitStmt_(const tir::ForNode* op) override {
    if (op->kind == tir::ForKind::kParallel ||
        (op->kind == tir::ForKind::kThreadBinding && op->thread_binding->thread_tag.rfind("vthread", 0) != 0)) {
      return;
    }
    const std::string outer = loop;
    if (loop.empty() && !tir::is_const_int(op->extent, 1)) loop = op->loop_var->name_hint;
    VisitStmt(op->body);
    loop = outer;
  }
  void VisitStmt_(const tir::BufferStoreNode* op) override {
    if (loop.empty()) return;
    // Copies, such as of the first rows of a scan, may be made by one thread beside a grid of others.
    if (has_threads_ && op->value.as<tir::BufferLoadNode>() != nullptr) return;
    throw TargetError(
        StrCat("buffer ", op->buffer->name, " is computed in loop ", loop,
               ", which isn't bound to threads of the device. Did you forget to bind? Expected loops that "
               "are bound to blockIdx.x, threadIdx.x ..., such as s[C].bind(axis, "
               "te.thread_axis(\"blockIdx.x\")), or parallel"));
  }

 private:
  bool has_threads_;
};

}  // namespace

void CheckBound(const IRModule& module, const Target& target) {
  if (!IsDevice(target)) return;
  for (const auto& [var, func] : module->functions) {
    const auto* prim = func.as<tir::PrimFuncNode>();
    if (prim == nullptr) continue;
    try {
      bool has_threads = false;
      tir::PostOrderVisit(prim->body, [&](const ObjectRef& node) {
        const auto* loop = node.as<tir::ForNode>();
        has_threads |= loop != nullptr && loop->kind == tir::ForKind::kThreadBinding;
      });
      UnboundFinder{has_threads}(prim->body);
    } catch (const TargetError& error) {
      throw TargetError(StrCat("target ", target->kind, ": function ", var->name_hint, ": ", error.what()));
    }
  }
}

DeviceCode GenerateDeviceCode(const std::vector<tir::PrimFunc>& funcs, const Target& target) {
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  DeviceCode code;
  std::vector<tir::PrimFunc> kernels;
  for (const tir::PrimFunc& func : funcs) {
    tir::HostDevice split = tir::SplitHostDevice(func, spec.device_type);
    code.host.push_back(split.host);
    kernels.insert(kernels.end(), split.kernels.begin(), split.kernels.end());
  }
  targets::Artifact artifact = spec.codegen(kernels, target, {});
  code.source = std::move(artifact.code);
  const std::string loader = "runtime.module.loadbinary_" + spec.runtime;
  runtime::PackedFunc load = runtime::Registry::Get(loader);
  std::string problem = "it brings no loader";
  if (!load && runtime::LoadRuntimeOfKind(spec.runtime, &problem)) load = runtime::Registry::Get(loader);
  if (!load) {
    throw RuntimeError(
        StrCat("target ", target->kind, ": its run time libtreadle_", spec.runtime, ".so can't be used: ", problem));
  }
  TreadleByteArray bytes{artifact.module.data(), artifact.module.size()};
  code.module = load(&bytes).As<runtime::Module>();
  return code;
}

}  // namespace treadle::driver
