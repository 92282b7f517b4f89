// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/implementation.h"

#include <utility>

namespace treadle::schedule {

namespace {

Kernel KernelOf(const std::string& op_name, Implementation implementation) {
  Kernel kernel;
  kernel.name = std::move(implementation.name);
  kernel.op = op_name;
  kernel.level = implementation.plevel;
  kernel.why_not_call = std::move(implementation.why_not);
  kernel.compute = std::move(implementation.compute);
  return kernel;
}

}  // namespace

void AddImplementation(const std::string& op_name, Implementation implementation) {
  Op::Get(op_name);  // throws when there is no such operator
  if (!implementation.compute) throw Error(StrCat("implementation ", implementation.name, " has no computation"));
  RegisterKernel(KernelOf(op_name, std::move(implementation)));
}

void SetStrategy(const std::string& op_name, FStrategy strategy) {
  Op::Get(op_name);  // throws when there is no such operator
  if (!strategy) return SetKernelsOfCalls(op_name, nullptr);
  SetKernelsOfCalls(op_name, [op_name, strategy](const CallContext& call) {
    std::vector<Kernel> kernels;
    for (Implementation& implementation : strategy(call)) {
      kernels.push_back(KernelOf(op_name, std::move(implementation)));
    }
    return kernels;
  });
}

}  // namespace treadle::schedule
