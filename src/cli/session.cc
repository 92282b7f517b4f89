// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "cli/meant.h"
#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/scalar.h"

namespace treadle::cli {

using runtime::Model;
using runtime::TensorInfo;

bool IsOnnx(const std::string& path) { return std::filesystem::path(path).extension() == ".onnx"; }

bool IsSource(const std::string& path) { return IsOnnx(path) || path.ends_with(".relay"); }

void CheckExists(const std::string& path) {
  if (path.empty()) throw Error("the model's path is empty");
  std::error_code failure;
  if (std::filesystem::exists(path, failure)) return;
  std::string help;
  if (path == "-") {
    help = "\nhelp: models are read from files, not from standard input";
  } else if (path.find("://") != std::string::npos) {
    help = "\nhelp: this is a URL; download the model first";
  } else if (path.starts_with("~")) {
    help = "\nhelp: shells do not expand ~ in quotes; use $HOME";
  }
  throw Error(StrCat("can't open ", path, ": ", failure ? failure.message() : "no such file", MeantFile(path), help));
}

void CheckNotDash(const std::string& path) {
  if (path != "-") return;
  throw Error("can't write '-': results go to files, not to standard output\nhelp: ./- is a file of that name");
}

void CheckTextOutputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
  std::set<std::filesystem::path> met;
  for (const std::string& path : outputs) {
    if (path.empty()) continue;
    runtime::CheckOutputPath(path, runtime::FileKind::kText, inputs);
    if (!met.insert(std::filesystem::absolute(path).lexically_normal()).second)
      throw Error(StrCat("two outputs go to '", path, "'"));
  }
}

InputText ParseInput(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {"", text, ParseFill(text)};
  const std::string source = text.substr(equals + 1);
  if (equals == 0)
    throw Error(StrCat("-i ", text, ": the name of the input is empty\nhelp: -i name=file.npy, or -i random"));
  return {text.substr(0, equals), source, ParseFill(source)};
}

void CheckMeant(const std::string& source, const std::string& inside, const std::string& name) {
  if (!source.ends_with(".npz") || inside == name || inside.starts_with("arr_")) return;
  throw Error(StrCat(source, " holds '", inside, "', not '", name,
                     "'\nhelp: arrays of .npz files are matched to inputs by name; a .npy file fits any input"));
}

namespace {

/// Shapes that were given and have other sizes than the model says; "" where there are none.
std::string OtherSizes(const CompileRequest& request) {
  std::string text;
  if (request.input_shapes.empty() || !request.model.ends_with(".onnx")) return text;
  for (const DeclaredInput& input : Compiler().declared_inputs(request.model)) {
    const auto given = request.input_shapes.find(input.name);
    if (given == request.input_shapes.end() || given->second.size() != input.shape.size()) continue;
    bool other = false;
    std::string declared;
    for (size_t i = 0; i < input.shape.size(); ++i) {
      const bool fixed = input.shape[i] >= 0;
      other = other || (fixed && given->second[i] >= 0 && given->second[i] != input.shape[i]);
      declared += StrCat(i == 0 ? "" : ",", fixed                        ? StrCat(input.shape[i])
                                            : input.dim_names[i].empty() ? "?"
                                                                         : input.dim_names[i]);
    }
    if (other) text += StrCat("\nhelp: the model says ", input.name, ":[", declared, "], another shape was given");
  }
  return text;
}

}  // namespace

std::string CompileWatched(CompileRequest request) {
  ProgressLine line(request.verbosity);
  if (request.verbosity != Verbosity::kQuiet) {
    request.on_pass = [&](const std::string& pass) { line.Stage(pass); };
    request.on_kernel = [&](size_t done, size_t total, size_t cached) {
      line.Count("kernels", done, total, cached == 0 ? "" : StrCat(", ", cached, " of the cache"));
    };
  }
  try {
    return Compiler().compile(request);
  } catch (const Error& error) {
    const std::string help = OtherSizes(request);
    if (help.empty()) throw;
    throw Error(error.what() + help, error.code() == ExitCode::kFormat ? ExitCode::kUsage : error.code());
  }
}

std::string ExplainAndLoad(CompileRequest request, Model* model) {
  CheckExists(request.model);
  const runtime::TemporaryDirectory folder;
  request.output = folder.Path("model.so");
  request.dump = {"explain"};
  request.dump_dir = folder.Path("");
  CompileWatched(request);
  if (model != nullptr) *model = Model::Load(request.output);
  return ReadWholeFile(folder.Path("explain.txt"));
}

Model LoadOrCompile(const CompileRequest& request, Preparation* spent) {
  CheckExists(request.model);
  Preparation unused;
  Preparation& times = spent != nullptr ? *spent : unused;
  using Clock = std::chrono::steady_clock;
  const auto load = [&](const std::string& path) {
    const auto start = Clock::now();
    Model model = Model::Load(path);  // stays mapped after the file is gone
    times.load = std::chrono::duration<double>(Clock::now() - start).count();
    return model;
  };
  if (!IsSource(request.model)) {
    for (const std::string& plugin : request.plugins) runtime::LoadPluginFile(plugin);
    return load(request.model);
  }
  runtime::TemporaryDirectory folder;
  CompileRequest with_output = request;
  with_output.output = folder.Path("model.so");
  const auto start = Clock::now();
  CompileWatched(with_output);
  times.compile = std::chrono::duration<double>(Clock::now() - start).count();
  return load(with_output.output);
}

namespace {

std::string Names(const std::vector<TensorInfo>& infos) {
  std::string names;
  for (const TensorInfo& info : infos) names += StrCat(names.empty() ? "" : ", ", info.name);
  return names;
}

const TensorInfo& FindInput(const Model& model, const std::string& name) {
  for (const TensorInfo& info : model.inputs()) {
    if (info.name == name) return info;
  }
  std::vector<std::string> names;
  for (const TensorInfo& info : model.inputs()) names.push_back(info.name);
  throw Error(
      StrCat("the model has no input '", name, "'; its inputs are: ", Names(model.inputs()), DidYouMean(name, names)));
}

/// The input that a tensor without a name is for.
const std::string& OnlyInput(const Model& model, const std::string& what) {
  if (model.inputs().size() != 1) {
    throw Error(
        StrCat(what, " doesn't say which input it is for; write name=", what, " with one of: ", Names(model.inputs())));
  }
  return model.inputs()[0].name;
}

/// Throws Error for the name of an input where a file is expected.
void CheckNotInput(const Model& model, const std::string& source) {
  for (const TensorInfo& info : model.inputs()) {
    if (info.name == source)
      throw Error(
          StrCat("input '", source, "' has no value\nhelp: -i ", source, "=random, or -i ", source, "=file.npy"));
  }
}

/// Throws Error for sizes of dimensions that aren't dynamic.
void CheckDims(const Model& model, const DynamicSizes& sizes) {
  std::vector<std::string> open;
  for (const TensorInfo& info : model.inputs()) {
    for (size_t i = 0; i < info.dim_names.size(); ++i) {
      if (info.shape[i] < 0 && !info.dim_names[i].empty()) open.push_back(info.dim_names[i]);
    }
  }
  for (const auto& [name, size] : sizes.dims) {
    if (std::find(open.begin(), open.end(), name) != open.end()) continue;
    throw Error(StrCat("the compiled model has no dynamic dimension '", name, "'", DidYouMean(name, open)));
  }
  for (const auto& [name, shape] : sizes.shapes) FindInput(model, name);
}

}  // namespace

runtime::NamedTensors MakeInputs(const Model& model, const std::vector<std::string>& texts, const std::string& fill,
                                 const InputOptions& options) {
  runtime::NamedTensors inputs;
  CheckDims(model, options.sizes);
  constexpr unsigned kInputsOfSeed = 1000;
  const unsigned first = options.seed * kInputsOfSeed;
  std::optional<Fill> rest = ParseFill(fill);
  const auto put = [&](const std::string& name, const NDArray& tensor) {
    if (!inputs.emplace(FindInput(model, name).name, tensor).second)
      throw Error(StrCat("input '", name, "' is given twice"));
  };
  for (const std::string& text : texts) {
    const InputText given = ParseInput(text);
    const std::string &name = given.name, &source = given.source;
    if (given.fill && name.empty()) {
      rest = given.fill;
    } else if (given.fill) {
      put(name,
          MakeFilled(FindInput(model, name), *given.fill, first + static_cast<unsigned>(inputs.size()), options.sizes));
    } else if (IsPicture(source)) {
      const TensorInfo info =
          WithSizes(FindInput(model, name.empty() ? OnlyInput(model, source) : name), options.sizes);
      put(info.name, ReadPicture(source, info, options.pictures));
    } else {
      if (!name.empty()) FindInput(model, name);
      if (name.empty()) CheckNotInput(model, source);
      NamedTensors tensors = ReadTensors(source);
      if (!name.empty() && tensors.size() != 1) {
        throw Error(StrCat(source, " holds ", tensors.size(), " tensors; input '", name, "' needs one"));
      }
      if (!name.empty()) CheckMeant(source, tensors[0].first, name);
      for (const auto& [inside, tensor] : tensors) {
        const bool known = name.empty() && !inside.empty();
        put(!name.empty() ? name : known ? inside : OnlyInput(model, source), tensor);
      }
    }
  }
  std::string missing;
  unsigned of_input = first;
  for (const TensorInfo& info : model.inputs()) {
    ++of_input;
    if (inputs.count(info.name) != 0) continue;
    if (!rest) {
      missing += StrCat(missing.empty() ? "" : ", ", info.name, " ", info.str());
    } else {
      inputs.emplace(info.name, MakeFilled(info, *rest, of_input, options.sizes));
    }
  }
  if (!missing.empty())
    throw Error(StrCat("no value for input ", missing, "\nhelp: give it with -i name=file, or -i random"));
  return inputs;
}

NamedTensors NameOutputs(const Model& model, const std::vector<NDArray>& outputs) {
  NamedTensors named;
  for (size_t i = 0; i < outputs.size(); ++i) named.emplace_back(model.outputs()[i].name, outputs[i]);
  return named;
}

std::string Describe(const NDArray& tensor) {
  std::string text = StrCat(tensor.dtype(), " ", runtime::ShapeString(tensor.shape()));
  if (tensor.size() == 0) return text;
  const std::vector<double> values = runtime::ToDoubles(tensor);
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  size_t not_finite = 0;
  for (double value : values) {
    if (!std::isfinite(value)) {
      ++not_finite;
      continue;
    }
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  if (not_finite < values.size()) {
    text += StrCat(", min ", low, ", max ", high, ", mean ", sum / static_cast<double>(values.size() - not_finite));
  }
  if (not_finite > 0) text += StrCat(", ", not_finite, " not finite");
  return text;
}

}  // namespace treadle::cli
