# SPDX-License-Identifier: Apache-2.0
"""Steps after a space: lowering has them."""
from .._refused import refused


def _of_lowering(name):
    return refused(f"meta_schedule.postproc.{name}", "schedules are checked step by step, and lowering vectorises, unrolls and "
                   "packs; what else is to be done belongs to the function of a ScheduleFn")


DisallowDynamicLoop, RewriteCooperativeFetch, RewriteLayout, RewriteParallelVectorizeUnroll = map(_of_lowering, (
    "DisallowDynamicLoop", "RewriteCooperativeFetch", "RewriteLayout", "RewriteParallelVectorizeUnroll"))
RewriteReductionBlock, RewriteTensorize, RewriteUnboundBlock, VerifyGPUCode = map(_of_lowering, (
    "RewriteReductionBlock", "RewriteTensorize", "RewriteUnboundBlock", "VerifyGPUCode"))
