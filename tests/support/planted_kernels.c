/* SPDX-License-Identifier: Apache-2.0
 * Candidates as a tuner meets them: y = 2 x, and what goes wrong in their place. PLANTED says which. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "treadle/runtime/c_backend_api.h"

TREADLE_API int planted(TreadleValue* args, int* codes, int num_args, TreadleValue* ret, int* ret_code, void* resource);
int planted(TreadleValue* args, int* codes, int num_args, TreadleValue* ret, int* ret_code, void* resource) {
  (void)codes, (void)num_args, (void)ret, (void)ret_code, (void)resource;
  const DLTensor *x = args[0].v_handle, *y = args[1].v_handle;
  const float* from = x->data;
  float* to = y->data;
  for (int64_t i = 0; i < x->shape[0]; ++i) to[i] = 2 * from[i];
#if PLANTED == 1 /* wrong */
  to[x->shape[0] / 2] += 1;
#elif PLANTED == 2 /* crashes */
  raise(SIGSEGV);
#elif PLANTED == 3 /* never ends */
  for (volatile int forever = 1; forever;) {
  }
#elif PLANTED == 4 /* wants 8 GiB */
  size_t bytes = (size_t)8 << 30;
  char* volatile huge = malloc(bytes);
  if (huge == NULL) abort();
  memset(huge, 1, bytes);
  to[0] += (float)huge[bytes / 2] - 1;
  free(huge);
#endif
  return 0;
}
