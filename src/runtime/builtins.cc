// SPDX-License-Identifier: Apache-2.0
#include "runtime/builtins.h"

#include "runtime/current_device.h"
#include "runtime/time_evaluator.h"
#include "treadle/base/error.h"
#include "treadle/base/int_math.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/registry.h"
#include "treadle/runtime/thread_pool.h"

namespace treadle::runtime {
namespace {

const Module& Defined(const Module& module) {
  if (!module.defined()) throw DTypeError("expected a Module but got null");
  return module;
}

void AddRegistryFunctions(const AddBuiltin& add) {
  add("runtime.ListGlobalFuncNames", PackedFunc::FromTyped([] {
        Array<String> names;
        for (const std::string& name : Registry::ListNames()) names.push_back(name);
        return names;
      }));
  add("runtime.RemoveGlobalFunc", PackedFunc::FromTyped([](std::string name) { return Registry::Remove(name); }));
}

void AddThreadFunctions(const AddBuiltin& add) {
  // (mode of affinity, threads): launches take at most so many threads; 0: the default. Workers aren't bound to cores.
  add("runtime.config_threadpool", PackedFunc::FromTyped([](int, int threads) { SetMaxConcurrency(threads); }));
}

void AddModuleFunctions(const AddBuiltin& add) {
  add("runtime.ModuleLoadFromFile",
      PackedFunc::FromTyped([](std::string path, std::string format) { return Module::LoadFromFile(path, format); }));
  add("runtime.ModuleGetFunction", PackedFunc::FromTyped([](Module module, std::string name, bool query_imports) {
        return module.GetFunction(name, query_imports);
      }));
  add("runtime.ModuleImport", PackedFunc::FromTyped([](Module module, Module other) { module.Import(other); }));
  add("runtime.ModuleImports", PackedFunc::FromTyped([](Module module) {
        const auto& imports = Defined(module).imports();
        return Array<Module>(imports.begin(), imports.end());
      }));
  add("runtime.ModuleGetTypeKey", PackedFunc::FromTyped([](Module module) { return Defined(module).module_type(); }));
  add("runtime.ModuleGetSource",
      PackedFunc::FromTyped([](Module module, std::string format) { return Defined(module)->GetSource(format); }));
  // (module, function, device, number, repeat, min_repeat_ms): a function that times calls of that function with its
  // own arguments and returns the seconds of each repetition as doubles in bytes.
  add("runtime.ModuleTimeEvaluator", PackedFunc::FromTyped([](Module module, std::string name, Device device,
                                                              int number, int repeat, int min_repeat_ms) {
        PackedFunc function = module.GetFunction(name, true);
        if (!function) throw Error(StrCat("no function \"", name, "\" in this ", module.module_type(), " module"));
        return PackedFunc([=](Args args, RetValue* ret) {
          auto call = [&] {
            RetValue ignored;
            function.CallPacked(args, &ignored);
            DeviceAPI::Get(device)->StreamSync(device, nullptr);
          };
          std::vector<double> seconds = TimeRuns(call, number, repeat, min_repeat_ms);
          ret->SetString(std::string(reinterpret_cast<const char*>(seconds.data()), seconds.size() * sizeof(double)),
                         kTreadleBytes);
        });
      }));
  add("runtime.ModuleSaveToFile", PackedFunc::FromTyped([](Module module, std::string path, std::string format) {
        module->SaveToFile(path, format);
      }));
}

void CopyWithDevice(const DLTensor* host, Device device, void* data, bool to_host) {
  auto bytes = static_cast<size_t>(CeilDiv(host->dtype.bits * host->dtype.lanes, 8));
  for (int i = 0; i < host->ndim; ++i) bytes *= static_cast<size_t>(host->shape[i]);
  if (bytes == 0) return;
  const Device cpu{kDLCPU, 0};
  void *from = to_host ? data : host->data, *to = to_host ? host->data : data;
  DeviceAPI* api = DeviceAPI::Get(device);
  api->CopyDataFromTo(from, 0, to, 0, bytes, to_host ? device : cpu, to_host ? cpu : device, nullptr);
  api->StreamSync(device, nullptr);  // the host's memory is used next, or gone
}

void AddDeviceFunctions(const AddBuiltin& add) {
  // What code for devices calls before it launches: later launches and allocations of this thread go there.
  add("__tvm_set_device",
      PackedFunc::FromTyped([](int type, int id) { SetCurrentDevice({static_cast<DLDeviceType>(type), id}); }));
  // What such code runs on the host works on copies: a tensor there, the memory on the thread's current device.
  add("runtime.CopyFromDevice", PackedFunc::FromTyped([](DLTensor* host, int type, void* data) {
        CopyWithDevice(host, {static_cast<DLDeviceType>(type), CurrentDeviceId(type)}, data, /*to_host=*/true);
      }));
  add("runtime.CopyToDevice", PackedFunc::FromTyped([](DLTensor* host, int type, void* data) {
        CopyWithDevice(host, {static_cast<DLDeviceType>(type), CurrentDeviceId(type)}, data, /*to_host=*/false);
      }));
}

/// Called by check_values (src/ops/check.cc) for a value that breaks its rule.
void ReportValue(const std::string& rule, const std::string& where, const std::string& what, int64_t value,
                 int64_t limit) {
  std::string text = StrCat(where, where.empty() ? "" : ": ", what, " ", value);
  if (rule == "index") {
    const std::string of = what == "axis" ? StrCat("rank ", limit) : StrCat(limit, " elements");
    text += StrCat(" is out of range for ", of, "; expected ", -limit, " to ", limit - 1);
  } else if (rule == "at_most") {
    text += StrCat(" is out of range; expected 0 to ", limit);
  } else if (rule == "at_least") {
    text += StrCat(" is out of range; expected at least ", limit);
  } else if (rule == "not_zero") {
    text += "; expected anything else";
  } else if (rule == "total") {
    text += StrCat(" in all; expected ", limit);
  } else if (rule == "equal") {
    text += StrCat("; expected ", limit);
  } else {
    text += StrCat("; expected 1 or ", limit);
  }
  if (where.empty()) throw RuntimeError(text);
  throw PlacedRuntimeError(text);
}

/// The same for a number that isn't from 0 to its limit.
void ReportReal(const std::string& where, const std::string& what, double value, double limit) {
  const std::string text =
      StrCat(where, where.empty() ? "" : ": ", what, " ", value, " is out of range; expected 0 to ", limit);
  if (where.empty()) throw RuntimeError(text);
  throw PlacedRuntimeError(text);
}

void AddCheckFunctions(const AddBuiltin& add) {
  add("runtime.ReportValue", PackedFunc::FromTyped(&ReportValue));
  add("runtime.ReportReal", PackedFunc::FromTyped(&ReportReal));
}

}  // namespace

void ForEachBuiltin(const AddBuiltin& add) {
  AddRegistryFunctions(add);
  AddThreadFunctions(add);
  AddModuleFunctions(add);
  AddDeviceFunctions(add);
  AddCheckFunctions(add);
  AddGraphExecutorFunctions(add);
  AddLibraryFunctions(add);
  AddDeviceCallFunctions(add);
  AddSystemLibFunctions(add);
  AddMetadataFunctions(add);
  AddCustomDatatypeFunctions(add);
}

}  // namespace treadle::runtime
