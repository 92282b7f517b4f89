/* SPDX-License-Identifier: Apache-2.0
 * Runs a compiled model from C: main MODEL.so [INPUT... OUTPUT...]. Files hold the elements of one tensor each, in the
 * model's order; inputs without one are zeros. The first values of each float output are printed. */
#include <stdio.h>
#include <string.h>

#include "treadle/runtime/c_api.h"

#define CHECK(call) \
  if ((call) != 0) return fprintf(stderr, "%s\n", TreadleGetLastError()), TreadleGetLastErrorCode()

/* Reads or writes all elements; 0 on success. */
static int Transfer(const char* path, const char* mode, DLTensor* tensor) {
  const size_t bytes = TreadleTensorNumBytes(tensor);
  FILE* file = fopen(path, mode);
  if (file == NULL) return perror(path), 2;
  const size_t done = mode[0] == 'r' ? fread(tensor->data, 1, bytes, file) : fwrite(tensor->data, 1, bytes, file);
  if (fclose(file) != 0 || done != bytes) return fprintf(stderr, "%s: %zu of %zu bytes\n", path, done, bytes), 2;
  return 0;
}

int main(int argc, char** argv) {
  TreadleModelHandle model;
  CHECK(TreadleModelLoad(argc > 1 ? argv[1] : "model.so", &model));
  const int inputs = TreadleModelNumInputs(model);
  for (int i = 0; i < inputs; ++i) {
    const char* name;
    const int64_t* shape;
    int rank;
    DLDataType type;
    DLTensor* input;
    CHECK(TreadleModelInputInfo(model, i, &name, &rank, &shape, &type));
    CHECK(TreadleTensorCreate(shape, rank, type, (DLDevice){kDLCPU, 0}, &input));
    memset(input->data, 0, TreadleTensorNumBytes(input));
    if (argc > 2 + i && Transfer(argv[2 + i], "rb", input) != 0) return 2;
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
    if (argc > 2 + inputs + i && Transfer(argv[2 + inputs + i], "wb", output) != 0) return 2;
    TreadleTensorFree(output);
  }
  TreadleModelFree(model);
  return 0;
}
