// SPDX-License-Identifier: Apache-2.0
// Loops bound to virtual threads become copies of their body, one per thread, or a serial loop where they are many.
// Their iterations don't depend on each other (binding checks that), so that any order will do.
#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

bool IsVirtualThread(const ForNode* loop) {
  if (loop->kind != ForKind::kThreadBinding || !loop->thread_binding.defined()) return false;
  const std::string& tag = loop->thread_binding->thread_tag;
  return tag.rfind("vthread", 0) == 0 || tag.rfind("cthread", 0) == 0;
}

class VirtualThreadInjector : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const ForNode* op) override {
    Stmt result = StmtMutator::VisitStmt_(op);
    const auto* loop = result.as<ForNode>();
    if (!IsVirtualThread(loop)) return result;
    const int64_t* extent = AsConstInt(loop->extent);
    const ForKind kind = extent != nullptr && *extent <= kMaxCopies ? ForKind::kUnrolled : ForKind::kSerial;
    return For(loop->loop_var, loop->min, loop->extent, kind, loop->body, IterVar(), loop->annotations, loop->span);
  }

 private:
  static constexpr int64_t kMaxCopies = 16;
};

}  // namespace

PrimFunc InjectVirtualThread(PrimFunc func, const LowerConfig&) {
  Stmt body = VirtualThreadInjector()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
