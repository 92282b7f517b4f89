// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "ops/attention.h"
#include "ops/check.h"
#include "ops/families.h"
#include "ops/qnn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

void RegisterAllOps() {
  static std::once_flag once;
  std::call_once(once, [] {
    RegisterElementwiseOps();
    RegisterBroadcastOps();
    RegisterActivationOps();
    RegisterConvOps();
    RegisterConvTransposeOps();
    RegisterPoolOps();
    RegisterDenseOps();
    RegisterNormOps();
    RegisterSoftmaxOps();
    RegisterReduceOps();
    RegisterReshapeOps();
    RegisterJoinOps();
    RegisterSliceOps();
    RegisterIndexOps();
    RegisterFillOps();
    RegisterShapeOps();
    RegisterPadOps();
    RegisterResizeOps();
    RegisterSortOps();
    RegisterScanOps();
    RegisterScatterOps();
    RegisterWriteRowsOps();
    RegisterCheckOps();
    RegisterDynamicOps();
    RegisterGridOps();
    RegisterBlockOps();
    RegisterColumnsToImageOps();
    RegisterCombineOps();
    RegisterLossOps();
    RegisterThreefryOps();
    RegisterTreeOps();
    RegisterVisionOps();
    RegisterAnnotationOps();
    RegisterQnnOps();
    RegisterQnnArithmeticOps();
    RegisterBlockWeightOps();
    RegisterQnnProductOps();
    RegisterAttentionOps();
    RegisterRecurrentOps();
    RegisterStaticForms();
  });
}

}  // namespace treadle::ops
