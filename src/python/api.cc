// SPDX-License-Identifier: Apache-2.0
#include "python/api.h"

#include "python/api_vm.h"

namespace treadle::python {

void RegisterApi() {
  RegisterIrApi();
  RegisterOpAttrsApi();
  RegisterNewOpApi();
  RegisterTransformApi();
  RegisterRelayApi();
  RegisterTextApi();
  RegisterPassesApi();
  RegisterFrontendApi();
  RegisterTeApi();
  RegisterTirApi();
  RegisterDriverApi();
  RegisterExternalApi();
  RegisterInterpreterApi();
  RegisterDataflowApi();
  RegisterVmApi();
  RegisterTuneApi();
}

}  // namespace treadle::python
