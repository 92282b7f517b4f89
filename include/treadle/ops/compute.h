// SPDX-License-Identifier: Apache-2.0
// What operators have beyond the graph IR's own properties (ir/op.h): their tensor computation and layout rule.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/ir/op.h"
#include "treadle/te/tag.h"
#include "treadle/te/tensor.h"

namespace treadle::ops {

/// The operator as a tensor expression. Tuple operands come flattened; a tuple result is one tensor per field.
/// `out_type` is the inferred type of the call. Input shapes may be symbolic.
using FTECompute =
    std::function<Array<te::Tensor>(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type)>;
inline constexpr OpAttrKey<FTECompute> kCompute{"FTECompute"};

namespace tag = te::tag;

/// Registers all operators of the graph IR. Idempotent and thread-safe.
void RegisterAllOps();

}  // namespace treadle::ops
