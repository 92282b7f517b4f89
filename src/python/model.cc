// SPDX-License-Identifier: Apache-2.0
// Compiled models in Python: treadle._core.Model.
#include "treadle/runtime/model.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "python/convert.h"
#include "report/model_page.h"
#include "report/page.h"
#include "report/peaks.h"
#include "treadle/base/error.h"
#include "treadle/runtime/run_limits.h"

namespace treadle::python {
namespace {

using runtime::Model;
using runtime::ModelContext;
using runtime::TensorInfo;

nb::list Infos(const std::vector<TensorInfo>& infos) {
  nb::list list;
  for (const TensorInfo& info : infos) {
    nb::list shape;
    for (size_t i = 0; i < info.shape.size(); ++i) {
      const bool named = i < info.dim_names.size() && !info.dim_names[i].empty();
      shape.append(named ? nb::object(nb::str(info.dim_names[i].c_str())) : nb::object(nb::int_(info.shape[i])));
    }
    list.append(nb::make_tuple(info.name, nb::tuple(shape), info.dtype.str()));
  }
  return list;
}

NDArray TensorOf(nb::handle value) {
  const auto& handle = nb::cast<Handle&>(value);
  if (handle.ref.as<runtime::NDArrayNode>() == nullptr) throw DTypeError("expected an NDArray");
  return NDArray(handle.ref.data());
}

runtime::NamedTensors ToTensors(nb::dict values) {
  runtime::NamedTensors tensors;
  for (auto [name, value] : values) tensors.emplace(nb::cast<std::string>(name), TensorOf(value));
  return tensors;
}

nb::list FromTensors(const std::vector<NDArray>& tensors) {
  nb::list list;
  for (const NDArray& tensor : tensors) list.append(FromObjectRef(tensor));
  return list;
}

runtime::RunLimits Limits(double timeout, const runtime::CancelToken* cancel) {
  runtime::RunLimits limits;
  limits.timeout_s = timeout;
  if (cancel != nullptr) limits.cancel = *cancel;
  return limits;
}

/// Whether runs have to look after a limit at all: a graph then calls its kernels one by one.
bool IsLimited(double timeout, const runtime::CancelToken* cancel) { return timeout != 0 || cancel != nullptr; }

nb::list Run(const Model& model, nb::dict inputs, int threads, double timeout, const runtime::CancelToken* cancel) {
  const runtime::NamedTensors tensors = ToTensors(inputs);
  std::vector<NDArray> outputs;
  {
    nb::gil_scoped_release unlocked;
    std::optional<runtime::RunLimitScope> limits;
    if (IsLimited(timeout, cancel)) limits.emplace(Limits(timeout, cancel));
    outputs = model.Run(tensors, threads);
  }
  return FromTensors(outputs);
}

nb::dict Memory(const Model& model) {
  const runtime::MemoryReport report = model.Memory();
  nb::dict memory;
  memory["weights"] = report.params;
  memory["inputs"] = report.inputs;
  memory["activations"] = report.activations;
  return memory;
}

nb::list Profile(ModelContext& context) {
  std::vector<runtime::OpTiming> timings;
  {
    nb::gil_scoped_release unlocked;
    timings = context.RunProfiled();
  }
  nb::list list;
  for (const auto& timing : timings) {
    list.append(nb::make_tuple(timing.name, timing.func_name, timing.start, timing.seconds, timing.shapes, timing.macs,
                               timing.origin, timing.compiler, timing.macs_known, timing.site, timing.sources,
                               timing.outputs, timing.mac_share));
  }
  return list;
}

/// The page about a model. `timings`: tuples as Profile gives them.
void WritePage(const Model& model, const std::string& path, const std::string& title, const std::string& choices,
               double seconds, int threads, const nb::list& timings) {
  report::ModelRun run;
  run.title = title;
  run.model = model;
  run.seconds = seconds;
  run.threads = threads;
  run.choices = choices;
  for (nb::handle item : timings) {
    run.timings.push_back({nb::cast<std::string>(item[0]), nb::cast<std::string>(item[1]), nb::cast<double>(item[2]),
                           nb::cast<double>(item[3]), nb::cast<std::string>(item[4]), nb::cast<std::string>(item[7]),
                           nb::cast<double>(item[5]), nb::cast<std::string>(item[6]), nb::cast<bool>(item[8]),
                           nb::cast<int>(item[9]), nb::cast<std::vector<int>>(item[10]),
                           nb::cast<std::vector<int>>(item[11]), nb::cast<double>(item[12])});
  }
  report::WritePage(path, report::ModelPage(run, report::MeasurePeaks(model.manifest().target, threads)));
}

/// A dict for each row: of its values, as many as there are keys, by key. Classifiers give as many as samples.
nb::list ZipRows(const nb::list& keys, const nb::list& rows) {
  nb::list dicts;
  for (nb::handle row : rows) {
    const nb::list values = nb::cast<nb::list>(row);
    if (values.size() != keys.size()) throw RuntimeError("a row has other values than keys");
    nb::dict dict;
    for (size_t i = 0; i < keys.size(); ++i) dict[keys[i]] = values[i];
    dicts.append(dict);
  }
  return dicts;
}

}  // namespace

void BindModel(nb::module_& module) {
  nb::class_<ModelContext>(module, "ModelContext")
      .def("set_input",
           [](ModelContext& self, const std::string& name, nb::handle value) { self.SetInput(name, TensorOf(value)); })
      .def("bind_state", [](ModelContext& self, const std::string& input, const std::string& output,
                            nb::handle value) { return self.BindState(input, output, TensorOf(value)); })
      .def(
          "bind_output",
          [](ModelContext& self, size_t index, nb::handle value) {
            return self.BindOutput(index, value.is_none() ? runtime::NDArray() : TensorOf(value));
          },
          nb::arg("index"), nb::arg("value").none())
      .def("set_threads", &ModelContext::SetThreads)
      .def(
          "run",
          [](ModelContext& self, double timeout, const runtime::CancelToken* cancel) {
            std::optional<runtime::RunLimitScope> limits;
            if (IsLimited(timeout, cancel)) limits.emplace(Limits(timeout, cancel));
            self.Run();
          },
          nb::arg("timeout") = 0.0, nb::arg("cancel") = nb::none(), nb::call_guard<nb::gil_scoped_release>())
      .def("get_output", [](ModelContext& self, size_t i) { return FromObjectRef(self.GetOutput(i)); })
      .def("profile", &Profile);
  nb::class_<Model>(module, "Model")
      .def_static("load", &Model::Load, nb::call_guard<nb::gil_scoped_release>())
      .def("inputs", [](const Model& self) { return Infos(self.inputs()); })
      .def("outputs", [](const Model& self) { return Infos(self.outputs()); })
      .def("manifest", [](const Model& self) { return self.manifest().ToJson(); })
      .def("graph_json", [](const Model& self) { return self.graph_json(); })
      .def("library", [](const Model& self) { return FromObjectRef(self.library()); })
      .def("memory", &Memory)
      .def("create_context", &Model::CreateContext)
      .def("write_page", &WritePage)
      .def("run", &Run, nb::arg("inputs"), nb::arg("threads"), nb::arg("timeout") = 0.0,
           nb::arg("cancel") = nb::none());
  nb::class_<runtime::CancelToken>(module, "CancelToken",
                                   "A wish to end runs: given to Model.run(cancel=), set by another thread.")
      .def(nb::init<>())
      .def(
          "cancel", [](const runtime::CancelToken& self) { self.Cancel(); },
          "Ends runs under this token, those that begin later too, until reset is called.")
      .def(
          "reset", [](const runtime::CancelToken& self) { self.Cancel(false); }, "Takes the wish back.")
      .def_prop_ro("cancelled", &runtime::CancelToken::IsCancelled);
  module.def(
      "call_limited",
      [](const nb::callable& function, const nb::tuple& arguments, double timeout, const runtime::CancelToken* cancel) {
        const runtime::RunLimitScope limits(Limits(timeout, cancel));
        return function(*arguments);
      },
      nb::arg("function"), nb::arg("arguments"), nb::arg("timeout"), nb::arg("cancel").none());
  module.def("zip_rows", &ZipRows);
}

}  // namespace treadle::python
