// SPDX-License-Identifier: Apache-2.0
// The functions of libOpenCL.so.1, found when they are first needed, so that nothing depends on that library.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

namespace treadle::runtime::opencl {

// Each function of OpenCL that this runtime calls.
#define TREADLE_OPENCL_FUNCTIONS(F) \
  F(clGetPlatformIDs)               \
  F(clGetPlatformInfo)              \
  F(clGetDeviceIDs)                 \
  F(clGetDeviceInfo)                \
  F(clCreateContext)                \
  F(clReleaseContext)               \
  F(clCreateCommandQueue)           \
  F(clReleaseCommandQueue)          \
  F(clCreateBuffer)                 \
  F(clReleaseMemObject)             \
  F(clEnqueueReadBuffer)            \
  F(clEnqueueWriteBuffer)           \
  F(clEnqueueCopyBuffer)            \
  F(clEnqueueNDRangeKernel)         \
  F(clFlush)                        \
  F(clFinish)                       \
  F(clCreateProgramWithSource)      \
  F(clBuildProgram)                 \
  F(clGetProgramBuildInfo)          \
  F(clReleaseProgram)               \
  F(clCreateKernel)                 \
  F(clReleaseKernel)                \
  F(clSetKernelArg)                 \
  F(clGetKernelWorkGroupInfo)

struct Library {
#define TREADLE_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  TREADLE_OPENCL_FUNCTIONS(TREADLE_OPENCL_MEMBER)
#undef TREADLE_OPENCL_MEMBER
};

/// The functions, or null with the reason in `why` where there is no OpenCL on this machine.
const Library* FindLibrary(std::string* why = nullptr);
/// As FindLibrary; a RuntimeError with the reason and what to install.
const Library& RequireLibrary();

/// "CL_OUT_OF_RESOURCES" for -5 and so on.
std::string ErrorName(cl_int code);
/// Throws a RuntimeError that names the function and what went wrong, unless `code` is CL_SUCCESS.
void Check(cl_int code, const char* function);

}  // namespace treadle::runtime::opencl
