/* SPDX-License-Identifier: Apache-2.0
 * Runs a compiled model from C: main MODEL.so. Inputs are zeros; the first values of each float output are printed. */
#include <stdio.h>
#include <string.h>

#include "treadle/runtime/c_api.h"

#define CHECK(call) \
  if ((call) != 0) return fprintf(stderr, "%s\n", TreadleGetLastError()), TreadleGetLastErrorCode()

int main(int argc, char** argv) {
  TreadleModelHandle model;
  CHECK(TreadleModelLoad(argc > 1 ? argv[1] : "model.so", &model));
  for (int i = 0; i < TreadleModelNumInputs(model); ++i) {
    const char* name;
    const int64_t* shape;
    int rank;
    DLDataType type;
    DLTensor* input;
    CHECK(TreadleModelInputInfo(model, i, &name, &rank, &shape, &type));
    CHECK(TreadleTensorCreate(shape, rank, type, (DLDevice){kDLCPU, 0}, &input));
    memset(input->data, 0, TreadleTensorNumBytes(input));
    CHECK(TreadleModelSetInput(model, name, input));
    TreadleTensorFree(input);
  }
  CHECK(TreadleModelRun(model));
  for (int i = 0; i < TreadleModelNumOutputs(model); ++i) {
    DLTensor* output;
    CHECK(TreadleModelGetOutput(model, i, &output));
    const size_t bytes = TreadleTensorNumBytes(output);
    printf("output %d, %zu bytes:", i, bytes);
    for (size_t k = 0; k < bytes / 4 && k < 8 && output->dtype.code == kDLFloat && output->dtype.bits == 32; ++k)
      printf(" %g", ((float*)output->data)[k]);
    printf("\n");
    TreadleTensorFree(output);
  }
  TreadleModelFree(model);
  return 0;
}
