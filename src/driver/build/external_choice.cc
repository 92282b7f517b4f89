// SPDX-License-Identifier: Apache-2.0
#include "driver/build/external_choice.h"

#include <algorithm>
#include <chrono>

#include "runtime/unfinished.h"
#include "treadle/base/error.h"
#include "treadle/external/region.h"
#include "treadle/runtime/model.h"

namespace treadle::driver {
namespace {

using relay::Function;
using runtime::Model;

/// A module whose main is `region`, compiled by Treadle alone.
IRModule OwnModule(const Function& region) {
  Function plain = external::DissolveComposites(region);
  IRModule module = IRModule::Empty();
  module.CopyOnWrite()->Add(GlobalVar("main"), Function(plain->params, plain->body, plain->ret_type));
  return module;
}

/// A module whose main calls `region`.
IRModule ExternalModule(const Function& region) {
  GlobalVar callee(region->GetAttr<String>(attr::kGlobalSymbol)->str());
  Array<relay::Var> params;
  Array<relay::Expr> args;
  for (const relay::Var& param : region->params) {
    relay::Var own(param->name_hint(), param->type_annotation);
    params.push_back(own);
    args.push_back(own);
  }
  IRModule module = IRModule::Empty();
  module.CopyOnWrite()->Add(callee, region);
  module.CopyOnWrite()->Add(GlobalVar("main"), Function(params, relay::Call(callee, args), region->ret_type));
  return module;
}

Model Load(const CompiledModel& compiled) {
  runtime::TemporaryDirectory directory;
  const std::string path = directory.Path("choice.so");
  ExportLibrary(compiled, path);
  return Model::Load(path);  // stays mapped
}

/// Runs of one variant.
class Contender {
 public:
  explicit Contender(const CompiledModel& compiled) : model_(Load(compiled)), context_(model_.CreateContext()) {
    uint32_t state = 1;
    for (const runtime::TensorInfo& input : model_.inputs()) {
      NDArray value = NDArray::Empty(input.shape, input.dtype);
      if (input.dtype == DataType::Float(32)) {
        for (int64_t i = 0; i < value.size(); ++i) {
          state = state * 1664525u + 1013904223u;
          value.Data<float>()[i] = static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
        }
      } else {
        std::fill_n(value.Data<char>(), value.nbytes(), static_cast<char>(0));
      }
      context_.SetInput(input.name, value);
    }
    Run();  // the first run allocates
  }
  /// Seconds of one run.
  double Run() {
    const auto start = std::chrono::steady_clock::now();
    context_.Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Model model_;
  runtime::ModelContext context_;
};

std::string Milliseconds(double seconds) { return FixedText(seconds * 1e3, 3) + " ms"; }

/// Times of both, taken in turns so that neither has the quieter machine.
std::pair<double, double> Race(Contender* own, Contender* external) {
  double best_own = own->Run(), best_external = external->Run();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    best_own = std::min(best_own, own->Run());
    best_external = std::min(best_external, external->Run());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (i >= 4 && spent.count() > 0.5) break;
  }
  return {best_own, best_external};
}

}  // namespace

std::vector<std::string> AutoCodegens() {
  std::vector<std::string> names;
  for (const char* name : {"dnnl", "cblas"}) {
    const external::Codegen* codegen = external::FindCodegen(name);
    if (codegen == nullptr) continue;
    try {
      if (codegen->require) codegen->require();
      names.emplace_back(name);
    } catch (const Error&) {
      // Not on this machine.
    }
  }
  return names;
}

external::RegionJudge MeasuringJudge(const CompileOptions& options, std::string* report) {
  CompileOptions plain = options;
  plain.external.clear();
  plain.dump.stages.clear();
  plain.instruments.clear();
  plain.inherit_context = false;
  return [plain, report](const Function& region) -> std::string {
    const std::string name = region->GetAttr<String>(attr::kCompiler)->str();
    const std::string symbol = region->GetAttr<String>(attr::kGlobalSymbol)->str();
    std::unique_ptr<Contender> external;
    try {
      external = std::make_unique<Contender>(Build(ExternalModule(region), {}, plain));
    } catch (const Error& error) {
      return StrCat(name, " can't compile it: ", error.what());
    }
    std::unique_ptr<Contender> own;
    try {
      own = std::make_unique<Contender>(Build(OwnModule(region), {}, plain));
    } catch (const Error& error) {
      *report += StrCat("measured @", symbol, ": ", name, "; Treadle can't compile it: ", error.what(), "\n");
      return "";
    }
    auto [own_time, external_time] = Race(own.get(), external.get());
    const std::string times =
        StrCat(name, " takes ", Milliseconds(external_time), ", Treadle's own code ", Milliseconds(own_time));
    *report += StrCat("measured @", symbol, ": ", times, "\n");
    return external_time <= own_time ? "" : times;
  };
}

}  // namespace treadle::driver
