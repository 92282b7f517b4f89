// SPDX-License-Identifier: Apache-2.0
#include "python/api.h"

#include "treadle/ops/compute.h"
#include "treadle/relay/passes.h"

namespace treadle::python {

void RegisterApi() {
  ops::RegisterAllOps();
  relay::RegisterPasses();
  RegisterIrApi();
  RegisterTransformApi();
  RegisterRelayApi();
  RegisterPassesApi();
  RegisterFrontendApi();
  if (RegisterDriverApi != nullptr) RegisterDriverApi();
}

}  // namespace treadle::python
