// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/compile_engine.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <unordered_set>

#include "driver/lower/kernel_cache.h"
#include "driver/lower/lower_te.h"
#include "driver/lower/lower_tir.h"
#include "tir/in_place.h"
#include "tir/passes/convert_ssa.h"
#include "tir/passes/passes.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/transform.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/custom_datatype.h"
#include "treadle/runtime/registry.h"
#include "treadle/schedule/kernel.h"
#include "treadle/te/schedule.h"
#include "treadle/te/stage.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/stmt.h"

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

/// Attribute of a kernel that has the default loops because its schedule can't be made for symbolic sizes: the reason.
constexpr const char* kUnscheduled = "unscheduled";

bool HasSymbolicDims(const Array<te::Tensor>& tensors) {
  for (const te::Tensor& tensor : tensors) {
    for (const PrimExpr& dim : tensor->shape) {
      if (AsConstInt(dim) == nullptr) return true;
    }
  }
  return false;
}

/// What a user's lowering returned, as one function called `symbol`.
tir::PrimFunc FromHook(const ObjectRef& result, const std::string& symbol) {
  tir::PrimFunc func;
  if (result.as<tir::PrimFuncNode>()) func = Downcast<tir::PrimFunc>(result);
  if (const auto* module = result.as<IRModuleNode>()) {
    for (const auto& [var, base] : module->functions) {
      if (!base.as<tir::PrimFuncNode>()) continue;
      if (func.defined()) throw Error(StrCat(kLowerHook, " returned a module of several functions; expected one"));
      func = Downcast<tir::PrimFunc>(base);
    }
  }
  if (!func.defined()) {
    throw DTypeError(StrCat(kLowerHook, " must return a tir.PrimFunc or an IRModule with one, not ",
                            result.defined() ? result->type_key() : "nothing"));
  }
  return WithAttr(func, attr::kGlobalSymbol, String(symbol));
}

Array<te::Tensor> AllTensors(const TensorFunction& tensors) {
  Array<te::Tensor> args = tensors.inputs;
  for (const te::Tensor& out : tensors.outputs) args.push_back(out);
  return args;
}

tir::PrimFunc Schedule(const tir::PrimFunc& func, const Target& target) {
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  return spec.schedule ? spec.schedule(func, target) : func;
}

/// `lowered`, or what a schedule for short dimensions makes of `func` where these are.
tir::PrimFunc WithShortForm(tir::PrimFunc lowered, const tir::PrimFunc& func, const Target& target,
                            const LowerOptions& options) {
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  const auto form = spec.schedule_short ? spec.schedule_short(func, target) : std::nullopt;
  if (!form) return lowered;
  const tir::PrimFunc other = LowerPrimFunc(form->func, target, options);
  lowered.CopyOnWrite()->body = tir::IfThenElse(form->condition, other->body, lowered->body);
  // What the schedules left as it is they have in common.
  return tir::ConvertSSA(lowered, ConfigFor(target, options));
}

/// What users' functions make of the kernel: the one that lowers everything, or the schedule of the implementation that
/// was chosen (null: it has none).
ObjectRef LowerByUser(const Kernel& kernel, const TensorFunction& tensors, const Array<te::Tensor>& args) {
  if (runtime::PackedFunc hook = runtime::Registry::Get(kLowerHook)) {
    Array<te::Operation> outputs;
    for (const te::Tensor& out : tensors.outputs) outputs.push_back(out->op);
    return hook(te::CreateSchedule(outputs), args, kernel.symbol, kernel.source);
  }
  if (!schedule::HasAddedKernels()) return ObjectRef();
  runtime::PackedFunc schedule = runtime::Registry::Get(kScheduleHook);
  return schedule ? schedule(tensors.outputs, args, kernel.symbol, kernel.target).As<ObjectRef>() : ObjectRef();
}

/// Whether no tensor has elements, by a dimension that is known: nothing is computed then, whatever the others are.
bool HaveNoElements(const Array<te::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const te::Tensor& tensor) {
    return std::any_of(tensor->shape.begin(), tensor->shape.end(), tir::is_zero);
  });
}

void LowerKernel(Kernel* kernel) {
  schedule::ChoiceLog log;
  TensorFunction tensors = LowerToTensors(kernel->source, kernel->target);
  Array<te::Tensor> args = AllTensors(tensors);
  const ObjectRef by_user = LowerByUser(*kernel, tensors, args);
  if (by_user.defined() || runtime::Registry::Get(kLowerHook)) {
    kernel->scheduled = FromHook(by_user, kernel->symbol);
    const bool lowered = kernel->scheduled->body.as<tir::BlockRealizeNode>() == nullptr;
    kernel->lowered =
        lowered ? kernel->scheduled : LowerPrimFunc(kernel->scheduled, kernel->target, LowerOptions::FromContext());
    return;
  }
  const LowerOptions options = LowerOptions::FromContext();
  const tir::PrimFunc created = te::CreatePrimFunc(args, kernel->symbol);
  if (HaveNoElements(tensors.outputs)) {
    tir::PrimFunc nothing = created;
    nothing.CopyOnWrite()->body = tir::Evaluate(PrimExpr(int32_t{0}));
    kernel->scheduled = kernel->lowered = nothing;
    return;
  }
  // First: schedules are made for what is computed in the end.
  const tir::PrimFunc func = tir::LowerCustomDatatypes(created, ConfigFor(kernel->target, options));
  try {
    kernel->scheduled = Schedule(func, kernel->target);
  } catch (const tir::ScheduleError& e) {
    // Schedules are made for constant sizes and for arithmetic: one that doesn't do for symbolic sizes or for what
    // users' element types call isn't a reason to fail, but slow.
    if (!HasSymbolicDims(args) && func.same_as(created)) throw;
    schedule::ChoiceLog::Note(StrCat("# not scheduled: ", e.what()));
    kernel->scheduled = WithAttr(func, kUnscheduled, String(e.what()));
  }
  kernel->lowered = LowerPrimFunc(kernel->scheduled, kernel->target, options);
  if (HasSymbolicDims(args)) kernel->lowered = WithShortForm(kernel->lowered, func, kernel->target, options);
  kernel->lowered = tir::WithInPlaceOperands(kernel->lowered);
  kernel->choices = log.text();
}

/// The recorded plans that the kernel's loops are made by. What is known of its lowered form (its code, which operands
/// it may write over) holds for these only.
std::string PlansOf(const Kernel& kernel) {
  if (!schedule::HasRecordedPlans()) return "";
  std::string plans;
  for (const te::Operation& op : te::PostOrder(LowerToTensors(kernel.source, kernel.target).outputs)) {
    auto problem = op->attrs.Get(te::kStageProblem);
    if (const auto* text = problem ? problem->as<StringNode>() : nullptr) {
      plans += schedule::RecordedPlan(schedule::ProblemFromJson(text->value));
    }
  }
  return plans;
}

bool UsesCustomDatatypes(const Kernel& kernel) {
  bool found = false;
  relay::PostOrderVisit(kernel.source, [&](const relay::Expr& e) {
    const auto* type = e->type_as<TensorTypeNode>();
    found = found || (type != nullptr && runtime::IsCustomDatatype(type->dtype));
  });
  return found;
}

/// What users add isn't known to the cache, and may be functions of an interpreter, which one thread at a time may
/// enter.
bool HasHooks(const std::vector<Kernel*>& kernels) {
  if (runtime::Registry::Get(kLowerHook) || schedule::HasAddedKernels()) return true;
  return runtime::HasCustomDatatypes() &&
         std::any_of(kernels.begin(), kernels.end(), [](const Kernel* kernel) { return UsesCustomDatatypes(*kernel); });
}

/// Calls `work`, whose errors then name the kernel.
template <typename F>
void WithSource(const Kernel& kernel, const F& work) {
  try {
    work();
  } catch (const InternalError& e) {
    throw InternalError(StrCat(e.what(), "\nwhile compiling ", DescribeSource(kernel.source)));
  } catch (const UnsupportedOpError&) {
    throw;
  } catch (const Error& e) {
    throw Error(StrCat(DescribeSource(kernel.source), ": ", e.what()), e.code());
  }
}

}  // namespace

bool IsKernel(const relay::FunctionNode* func) {
  return func->is_primitive() || func->attrs->dict.contains(attr::kCompiler);
}

void ParallelFor(size_t count, int threads, const std::function<void(size_t)>& work) {
  // Instruments watch the passes of the thread that compiles, not its helpers.
  transform::PassContext context = transform::PassContext::Current();
  if (!context->instruments.empty()) context.CopyOnWrite()->instruments.clear();
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  auto run = [&]() {
    for (size_t i = next++; i < count; i = next++) {
      try {
        transform::PassContext::Scope scope(context);
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        next = count;  // the others of lower number are being worked on: the first error stays the first
      }
    }
  };
  const size_t workers = std::min(count, static_cast<size_t>(threads < 1 ? 1 : threads));
  std::vector<std::thread> helpers;
  helpers.reserve(workers);  // before any of them runs: an exception would leave threads that nobody joins
  while (helpers.size() + 1 < workers) {
    try {
      helpers.emplace_back(run);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: work with those there are
    } catch (const std::bad_alloc&) {
      break;  // nor memory for them
    }
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

KernelKey::KernelKey(relay::Function func, const Target& for_target)
    : source(std::move(func)), target(for_target.str()), hash(StructuralHash(source)) {
  hash ^= std::hash<std::string>()(target) + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  if (hash == 0) hash = 1;
}

bool KernelKey::operator==(const KernelKey& other) const {
  return hash == other.hash && target == other.target && StructuralEqual(source, other.source);
}

bool MakesObjects(const Target& target) { return targets::GetTargetSpec(target).form == targets::ModuleForm::kObjects; }

CompileEngine::CompileEngine(std::string module_name)
    : prefix_(module_name.empty() ? "treadle_" : "treadle_" + module_name + "_") {
  for (char& c : prefix_) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
}

Kernel& CompileEngine::Find(const relay::Function& func, const Target& target) {
  auto& kernel = kernels_.try_emplace(KernelKey(func, target)).first->second;
  if (kernel == nullptr) {
    kernel = std::make_unique<Kernel>(func, target);
    kernel->symbol = prefix_ + FusedFunctionName(func);
  }
  return *kernel;
}

Kernel& CompileEngine::Declare(const relay::Function& func, const Target& target) {
  Kernel& kernel = Find(func, target);
  if (kernel.uses++ > 0) return kernel;
  if (const int before = names_[kernel.symbol]++; before > 0) kernel.symbol += "_" + std::to_string(before);
  for (tir::PrimFunc* lowered : {&kernel.scheduled, &kernel.lowered}) {
    if (lowered->defined()) *lowered = WithAttr(*lowered, attr::kGlobalSymbol, String(kernel.symbol));
  }
  declared_.push_back(&kernel);
  return kernel;
}

void CompileEngine::Clear() {
  declared_.clear();
  kernels_.clear();
  names_.clear();
}

void CompileEngine::Lower(Kernel* kernel) {
  if (kernel->lowered.defined()) return;
  WithSource(*kernel, [&] { LowerKernel(kernel); });
}

void CompileEngine::LowerAll(int threads) {
  ParallelFor(declared_.size(), HasHooks(declared_) ? 1 : threads, [this](size_t i) { Lower(declared_[i]); });
}

void CompileEngine::FindInPlace(const std::vector<Kernel*>& kernels, const EngineOptions& options) {
  if (HasHooks(kernels)) return;
  KernelCache* cache = options.use_cache ? KernelCache::Default() : nullptr;
  std::unordered_set<Kernel*> met;
  std::vector<Kernel*> distinct;
  for (Kernel* kernel : kernels) {
    if (met.insert(kernel).second) distinct.push_back(kernel);
  }
  ParallelFor(distinct.size(), options.threads, [&](size_t i) {
    Kernel* kernel = distinct[i];
    std::string key;
    if (cache != nullptr && MakesObjects(kernel->target)) {
      key = KernelCacheKey("in place", kernel->source, kernel->target, PlansOf(*kernel));
      if (auto found = cache->Find(key)) {
        for (const std::string& word : SplitWords(*found)) {
          if (auto operand = ParseInt(word)) kernel->in_place.push_back(static_cast<int>(*operand));
        }
        return;
      }
    }
    Lower(kernel);
    kernel->in_place = tir::InPlaceOperands(kernel->lowered);
    if (key.empty()) return;
    std::string text;
    for (int operand : kernel->in_place) text += std::to_string(operand) + " ";
    cache->Store(key, text);
  });
}

void CompileEngine::CompileAll(const EngineOptions& options) {
  const bool hooked = HasHooks(declared_);
  KernelCache* cache = options.use_cache && !hooked && options.texts.empty() ? KernelCache::Default() : nullptr;
  std::mutex watched;
  Progress progress;
  progress.total = declared_.size();
  const auto compile = [&](Kernel& kernel) {
    if (!MakesObjects(kernel.target)) return Lower(&kernel);
    if (!kernel.object.empty()) return;
    std::string key;
    if (cache != nullptr) {
      key = KernelCacheKey(kernel.symbol, kernel.source, kernel.target, PlansOf(kernel));
      if (auto found = cache->Find(key)) {
        kernel.object = std::move(*found);
        kernel.from_cache = true;
        return;
      }
    }
    Lower(&kernel);
    WithSource(kernel, [&] {
      targets::CodegenOptions codegen;
      codegen.module_name = kernel.symbol;
      codegen.opt_level = 3;
      codegen.texts = options.texts;
      targets::Artifact artifact =
          targets::GetTargetSpec(kernel.target).codegen({kernel.lowered}, kernel.target, codegen);
      kernel.object = targets::AssembleObject(artifact.code, kernel.target);
      kernel.texts = std::move(artifact.texts);
    });
    if (cache != nullptr) cache->Store(key, kernel.object);
  };
  ParallelFor(declared_.size(), hooked ? 1 : options.threads, [&](size_t i) {
    compile(*declared_[i]);
    if (options.progress == nullptr) return;
    const std::lock_guard<std::mutex> lock(watched);
    ++progress.done;
    progress.cached += declared_[i]->from_cache ? 1 : 0;
    options.progress(progress);
  });
  if (cache != nullptr) cache->Trim();
}

}  // namespace treadle::driver
