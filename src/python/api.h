// SPDX-License-Identifier: Apache-2.0
// The compiler's API as registered functions, under TVM's names: what python/treadle calls.
#pragma once

#include "treadle/ir/attrs.h"
#include "treadle/ir/expr.h"
#include "treadle/runtime/registry.h"

namespace treadle::runtime {

/// Python numbers where scalar expressions are expected: int32 (int64 where it doesn't fit) and float32 constants.
template <>
struct ArgConverter<PrimExpr> {
  static PrimExpr From(const ArgValue& value);
};

}  // namespace treadle::runtime

namespace treadle::python {

/// Registers all of it. Once per process.
void RegisterApi();

void RegisterIrApi();
void RegisterOpAttrsApi();
void RegisterNewOpApi();
void RegisterTransformApi();
void RegisterRelayApi();
void RegisterTextApi();
void RegisterPassesApi();
void RegisterFrontendApi();
void RegisterTeApi();
void RegisterTirApi();
void RegisterDriverApi();
void RegisterTuneApi();
void RegisterExternalApi();
void RegisterInterpreterApi();
void RegisterDataflowApi();

/// A node of class `type` (one of attributes) with the given fields set and the others at their defaults. Throws
/// Error for unknown or missing fields, for values of the wrong kind and those out of range.
Attrs MakeAttrsFromMap(const TypeInfo* type, const Map<String, ObjectRef>& values, const std::string& what);

}  // namespace treadle::python
