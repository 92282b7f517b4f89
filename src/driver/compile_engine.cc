// SPDX-License-Identifier: Apache-2.0
#include "driver/compile_engine.h"

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

#include "driver/lower_te.h"
#include "driver/lower_tir.h"
#include "ops/schedule/schedule.h"
#include "treadle/ir/transform.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {
namespace {

/// The nodes that a kernel computes: "nn.conv2d (conv1), nn.relu (relu1)".
std::string DescribeSource(const relay::Function& func) {
  std::string text;
  relay::PostOrderVisit(func->body, [&](const relay::Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return;
    text += (text.empty() ? "" : ", ") + call->op.as<OpNode>()->name;
    if (call->span.defined()) text += " (" + call->span.str() + ")";
  });
  return text;
}

void LowerKernel(Kernel* kernel, const Target& target) {
  TensorFunction tensors = LowerToTensors(kernel->source);
  Array<te::Tensor> args = tensors.inputs;
  for (const te::Tensor& out : tensors.outputs) args.push_back(out);
  tir::PrimFunc func = te::CreatePrimFunc(args, kernel->symbol);
  kernel->scheduled = ops::SchedulePrimFunc(func, target);
  kernel->lowered = LowerPrimFunc(kernel->scheduled, target, LowerOptions::FromContext());
}

}  // namespace

void ParallelFor(size_t count, int threads, const std::function<void(size_t)>& work) {
  // Instruments watch the passes of the thread that compiles, not its helpers.
  transform::PassContext context = transform::PassContext::Current();
  if (!context->instruments.empty()) context.CopyOnWrite()->instruments.clear();
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  auto run = [&]() {
    transform::PassContext::Scope scope(context);
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  size_t workers = std::min(count, static_cast<size_t>(threads < 1 ? 1 : threads));
  if (workers <= 1) {
    run();
  } else {
    std::vector<std::thread> pool;
    for (size_t i = 0; i < workers; ++i) pool.emplace_back(run);
    for (std::thread& t : pool) t.join();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

CompileEngine::CompileEngine(Target target, std::string module_name)
    : target_(std::move(target)), prefix_(module_name.empty() ? "treadle_" : "treadle_" + module_name + "_") {}

const std::string& CompileEngine::Declare(const relay::Function& func) {
  auto [it, inserted] = index_.emplace(func, kernels_.size());
  if (inserted) {
    Kernel kernel;
    std::string base = prefix_ + FusedFunctionName(func);
    int& count = names_[base];
    kernel.symbol = count == 0 ? base : base + "_" + std::to_string(count);
    ++count;
    kernel.source = func;
    kernels_.push_back(std::move(kernel));
  }
  Kernel& kernel = kernels_[it->second];
  ++kernel.uses;
  return kernel.symbol;
}

void CompileEngine::LowerAll(int threads) {
  ParallelFor(kernels_.size(), threads, [this](size_t i) {
    try {
      LowerKernel(&kernels_[i], target_);
    } catch (const InternalError& e) {
      throw InternalError(StrCat(e.what(), "\nwhile compiling ", DescribeSource(kernels_[i].source)));
    } catch (const UnsupportedOpError&) {
      throw;
    } catch (const Error& e) {
      throw Error(StrCat(DescribeSource(kernels_[i].source), ": ", e.what()), e.code());
    }
  });
}

}  // namespace treadle::driver
