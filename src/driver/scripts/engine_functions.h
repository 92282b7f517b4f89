// SPDX-License-Identifier: Apache-2.0
// The compile engine of the process, for scripts that lower functions themselves.
#pragma once

#include <string>

#include "treadle/ir/module.h"
#include "treadle/ir/target.h"
#include "treadle/relay/expr.h"
#include "treadle/te/schedule.h"

namespace treadle::driver {

/// What makes two kernels one.
class CCacheKeyNode : public Object {
 public:
  relay::Function source_func;
  Target target;
  TREADLE_NODE(CCacheKeyNode, Object, "relay.CCacheKey")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("source_func", &CCacheKeyNode::source_func);
    r.Field("target", &CCacheKeyNode::target);
  }
};
class CCacheKey : public ObjectRef {
 public:
  /// The function's types are inferred when they aren't yet.
  CCacheKey(const relay::Function& source_func, const Target& target);
  TREADLE_REF(CCacheKey, ObjectRef, CCacheKeyNode);
};

/// A lowered function.
class CachedFuncNode : public Object {
 public:
  Target target;
  std::string func_name;
  Array<te::Tensor> inputs, outputs;
  ObjectRef schedule;  ///< of the tensors; null for external functions
  IRModule funcs;
  TREADLE_NODE(CachedFuncNode, Object, "relay.CachedFunc")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("target", &CachedFuncNode::target);
    r.Field("func_name", &CachedFuncNode::func_name);
    r.Field("inputs", &CachedFuncNode::inputs);
    r.Field("outputs", &CachedFuncNode::outputs);
    r.Field("schedule", &CachedFuncNode::schedule);
    r.Field("funcs", &CachedFuncNode::funcs);
  }
};
class CachedFunc : public ObjectRef {
 public:
  TREADLE_REF(CachedFunc, ObjectRef, CachedFuncNode);
};

/// A lowered function in the engine.
class CCacheValueNode : public Object {
 public:
  CachedFunc cached_func;
  int use_count = 0;
  TREADLE_NODE(CCacheValueNode, Object, "relay.CCacheValue")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("cached_func", &CCacheValueNode::cached_func);
    r.Field("use_count", &CCacheValueNode::use_count);
  }
};

/// Registers relay.backend._make_CCacheKey, _CompileEngineLower, _CompileEngineJIT, _CompileEngineClear,
/// _CompileEngineListItems (keys and values, alternating), ExplainImplementations, AddImplementation and
/// RemoveImplementation, and driver.KernelCacheStats, KernelCacheClear and KernelCacheSetLimit.
void RegisterEngineFunctions();

}  // namespace treadle::driver
