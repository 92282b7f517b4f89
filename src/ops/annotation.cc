// SPDX-License-Identifier: Apache-2.0
// Annotations, which passes read and remove, and copies between devices.
#include "treadle/ops/attrs/annotation.h"

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(OnDeviceAttrs);
TREADLE_DEFINE_NODE(DeviceCopyAttrs);
TREADLE_DEFINE_NODE(CompilerAttrs);
TREADLE_DEFINE_NODE(CastHintAttrs);

namespace {

/// Any type: annotations stand on tuples too.
Type SameTypeInfer(const InferContext& context) { return context.type(0); }

OpRegistration Annotation(const char* name, const char* text) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The value."}})
      .SupportLevel(10)
      .Relation(Rule<SameTypeInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kNonComputational, true);
}

}  // namespace

void RegisterAnnotationOps() {
  Annotation("annotation.stop_fusion", "Keeps FuseOps from joining what is before with what is after.")
      .Set(kGradient, FGradient(gradient::Unchanged));
  Annotation("annotation.compiler_begin", "An input of a region for an external code generator.")
      .AttrsType<CompilerAttrs>();
  Annotation("annotation.compiler_end", "An output of a region for an external code generator.")
      .AttrsType<CompilerAttrs>();
  Annotation("annotation.checkpoint", "Values that the gradient keeps instead of computing them again.")
      .Set(kInferenceForm,
           FInferenceForm([](const relay::CallNode* call, const TensorTypeNode*) { return call->args[0]; }))
      .Set(kGradient, FGradient(gradient::Unchanged));
  Annotation("annotation.cast_hint", "The values fit the given type.").AttrsType<CastHintAttrs>();
  Annotation("on_device", "Computed on the given device.").AttrsType<OnDeviceAttrs>();
  OpRegistration("device_copy")
      .Describe("A copy on another device.")
      .Arguments({{"data", "Tensor", "The value."}})
      .AttrsType<DeviceCopyAttrs>()
      .SupportLevel(10)
      .Relation(Rule<IdentityInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque);
}

}  // namespace treadle::ops
