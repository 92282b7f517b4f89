// SPDX-License-Identifier: Apache-2.0
// The operator families; RegisterAllOps calls each.
#pragma once

namespace treadle::ops {

void RegisterActivationOps();
void RegisterAnnotationOps();
void RegisterBlockOps();
void RegisterBroadcastOps();
void RegisterColumnsToImageOps();
void RegisterCombineOps();
void RegisterConvOps();
void RegisterConvTransposeOps();
void RegisterDenseOps();
void RegisterDynamicOps();
void RegisterElementwiseOps();
void RegisterFillOps();
void RegisterGridOps();
void RegisterIndexOps();
void RegisterJoinOps();
void RegisterLossOps();
void RegisterNormOps();
void RegisterPadOps();
void RegisterPoolOps();
void RegisterQnnOps();
void RegisterQnnArithmeticOps();
void RegisterQnnProductOps();
void RegisterBlockWeightOps();
void RegisterRecurrentOps();
void RegisterReduceOps();
void RegisterReshapeOps();
void RegisterResizeOps();
void RegisterScanOps();
void RegisterScatterOps();
void RegisterWriteRowsOps();
void RegisterShapeOps();
void RegisterSliceOps();
void RegisterSoftmaxOps();
void RegisterSortOps();
void RegisterThreefryOps();
void RegisterTreeOps();
void RegisterVisionOps();
/// Of dyn.* operators, which have to be there.
void RegisterStaticForms();

}  // namespace treadle::ops
