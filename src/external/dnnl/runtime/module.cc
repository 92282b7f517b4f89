// SPDX-License-Identifier: Apache-2.0
// Modules of type "dnnl": a region run by oneDNN's primitives, one plan per number of threads.
#include <dlfcn.h>

#include <map>
#include <mutex>

#include "external/dnnl/runtime/plan.h"
#include "treadle/external/region_module.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/thread_pool.h"

namespace treadle::external {

using runtime::NDArray;

namespace {

/// Sets the number of threads of the OpenMP library that oneDNN uses, for the calling thread, if it uses one.
void SetLibraryThreads(int threads) {
  using SetThreads = void (*)(int);
  static const SetThreads set = [] {
    // The library that the linker gave us, whatever its version; OpenMP's is searched among what it needs.
    Dl_info info{};
    void* handle = nullptr;
    if (dladdr(reinterpret_cast<void*>(&dnnl_engine_create), &info) != 0) {
      handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    return handle == nullptr ? nullptr : reinterpret_cast<SetThreads>(dlsym(handle, "omp_set_num_threads"));
  }();
  if (set != nullptr) set(threads);
}

class DnnlModule final : public RegionModule {
 public:
  explicit DnnlModule(RegionParts parts)
      : RegionModule("dnnl", std::move(parts)), steps_(Steps::FromJson(text(), "dnnl region " + symbol())) {
    for (const Steps::Value& value : steps_.values) {
      if (value.dtype != DataType::Float(32)) throw ModelFormatError(StrCat("dnnl region ", symbol(), ": not float32"));
    }
  }

  void Init(const std::vector<NDArray>& constants) override {
    if (constants.size() != steps_.constants) throw Error(StrCat(symbol(), ": wrong number of constants"));
    for (size_t i = 0; i < constants.size(); ++i) {
      const Steps::Value& value = steps_.values[steps_.inputs + i];
      if (constants[i].shape() != value.shape || constants[i].dtype() != value.dtype) {
        throw ModelFormatError(StrCat("dnnl region ", symbol(), ": constant ", i, " isn't of its type"));
      }
    }
    constants_ = constants;
  }

  void Run(const std::vector<const DLTensor*>& args) const override {
    std::vector<void*> inputs, outputs;
    auto argument = [&](size_t i, size_t value) {
      return CheckArgument(args, i, steps_.values[value].shape, steps_.values[value].dtype);
    };
    for (size_t i = 0; i < steps_.inputs; ++i) inputs.push_back(argument(i, i));
    for (size_t k = 0; k < steps_.outputs.size(); ++k) {
      outputs.push_back(argument(steps_.inputs + k, steps_.outputs[k]));
    }
    const int threads = runtime::MaxConcurrency();
    SetLibraryThreads(threads);
    ForThreads& own = PlanFor(threads);
    std::unique_ptr<PlanState> state = own.Take();
    own.plan->Run(state.get(), inputs, outputs);
    own.Give(std::move(state));
  }

 private:
  struct ForThreads {
    std::once_flag once;
    std::unique_ptr<Plan> plan;
    std::mutex mutex;
    std::vector<std::unique_ptr<PlanState>> idle;

    std::unique_ptr<PlanState> Take() {
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (!idle.empty()) {
          auto state = std::move(idle.back());
          idle.pop_back();
          return state;
        }
      }
      return plan->NewState();
    }
    void Give(std::unique_ptr<PlanState> state) {
      std::lock_guard<std::mutex> lock(mutex);
      idle.push_back(std::move(state));
    }
  };

  /// Makes the plan when that number of threads is used for the first time.
  ForThreads& PlanFor(int threads) const {
    ForThreads* own;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto& slot = plans_[threads];
      if (slot == nullptr) slot = std::make_unique<ForThreads>();
      own = slot.get();
    }
    std::call_once(own->once, [&] {
      try {
        own->plan = std::make_unique<Plan>(steps_, constants_);
      } catch (const dnnl::error& error) {
        throw RuntimeError(StrCat("dnnl region ", symbol(), ": ", error.what()));
      } catch (const JsonError& error) {
        throw ModelFormatError(StrCat("dnnl region ", symbol(), ": ", error.what()));
      }
    });
    return *own;
  }

  const Steps steps_;
  std::vector<NDArray> constants_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::unique_ptr<ForThreads>> plans_;
};

void RegisterDnnl() { RegisterRegionModule<DnnlModule>("dnnl"); }

}  // namespace
}  // namespace treadle::external

TREADLE_PLUGIN("dnnl", treadle::external::RegisterDnnl)
