// SPDX-License-Identifier: Apache-2.0
#include "cli/input_shapes.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "cli/color.h"
#include "cli/picture.h"
#include "cli/session.h"
#include "treadle/base/error.h"
#include "treadle/base/suggest.h"

namespace treadle::cli {
namespace {

constexpr int64_t kUnknown = -1;

/// What texts of --input give.
struct Given {
  std::map<std::string, std::vector<int64_t>> shapes;  ///< of tensors in files, by input
  std::map<std::string, std::string> pictures;         ///< resized to the input's size, where it has one
  std::set<std::string> filled;
  bool fills_all = false;
};

const DeclaredInput& FindInput(const std::vector<DeclaredInput>& declared, const std::string& name) {
  std::vector<std::string> names;
  std::string text;
  for (const DeclaredInput& input : declared) {
    if (input.name == name) return input;
    names.push_back(input.name);
    text += (text.empty() ? "" : ", ") + input.name;
  }
  throw Error(StrCat("the model has no input '", name, "'; its inputs are: ", text, DidYouMean(name, names)));
}

Given ReadGiven(const std::vector<DeclaredInput>& declared, const std::vector<std::string>& inputs) {
  Given given;
  for (const std::string& text : inputs) {
    const InputText input = ParseInput(text);
    if (!input.name.empty()) FindInput(declared, input.name);
    if (input.fill) {
      input.name.empty() ? void(given.fills_all = true) : void(given.filled.insert(input.name));
      continue;
    }
    if (IsPicture(input.source)) {
      if (!input.name.empty() || declared.size() == 1)
        given.pictures[input.name.empty() ? declared[0].name : input.name] = input.source;
      continue;
    }
    const NamedTensors tensors = ReadTensors(input.source);
    if (!input.name.empty() && tensors.size() == 1) CheckMeant(input.source, tensors[0].first, input.name);
    for (const auto& [inside, tensor] : tensors) {
      if (!input.name.empty()) {
        given.shapes[input.name] = tensor.shape();
      } else if (!inside.empty()) {
        given.shapes[FindInput(declared, inside).name] = tensor.shape();
      } else if (declared.size() == 1) {
        given.shapes[declared[0].name] = tensor.shape();
      }
    }
  }
  return given;
}

/// The shape of a tensor is that of its input, and says the sizes that dimensions of the same names have elsewhere.
void UseShape(const DeclaredInput& input, const std::vector<int64_t>& shape, CompileRequest* request) {
  if (input.has_shape && input.shape.size() != shape.size()) return;  // refused when the model is imported or runs
  for (size_t i = 0; i < input.shape.size(); ++i) {
    if (input.shape[i] < 0 && !input.dim_names[i].empty() && shape[i] >= 0) {
      request->dims.emplace(input.dim_names[i], shape[i]);
    }
  }
}

/// What an input leaves open of the height and width of a picture is the picture's.
void UsePicture(const DeclaredInput& input, const std::string& path, CompileRequest* request) {
  if (!input.has_shape) return;
  runtime::TensorInfo info;
  info.name = input.name;
  info.shape = input.shape;
  info.dim_names = input.dim_names;
  const std::vector<int64_t> shape = ShapeForPicture(path, info);
  UseShape(input, shape, request);
  std::vector<int64_t> unnamed(shape.size(), kUnknown);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (input.shape[i] < 0 && input.dim_names[i].empty()) unnamed[i] = shape[i];
  }
  if (std::any_of(unnamed.begin(), unnamed.end(), [](int64_t size) { return size >= 0; }))
    request->input_shapes[input.name] = unnamed;
}

std::string ShapeTemplate(const DeclaredInput& input) {
  std::string text = input.name + ":[";
  for (size_t i = 0; i < input.shape.size(); ++i) {
    const std::string& name = input.dim_names[i];
    text += StrCat(i == 0 ? "" : ",", input.shape[i] >= 0 ? std::to_string(input.shape[i]) : name.empty() ? "?" : name);
  }
  return text + "]";
}

/// Sets the sizes of one input, or adds what isn't known of it to `unknown`.
void Complete(const DeclaredInput& input, CompileRequest* request, std::vector<std::string>* unknown) {
  auto given = request->input_shapes.find(input.name);
  if (!input.has_shape) {
    if (given == request->input_shapes.end())
      unknown->push_back(StrCat("input '", input.name, "' (rank not declared)"));
    return;
  }
  std::vector<int64_t> shape =
      given == request->input_shapes.end() ? std::vector<int64_t>(input.shape.size(), kUnknown) : given->second;
  if (shape.size() != input.shape.size()) return;  // the importer says what is wrong
  bool changed = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string& name = input.dim_names[i];
    if (shape[i] >= 0 || input.shape[i] >= 0 || (!name.empty() && request->dims.count(name) != 0)) continue;
    if (!IsBatch(i, input.shape.size(), name)) {
      unknown->push_back(
          StrCat("dimension ", i, name.empty() ? "" : " (" + name + ")", " of input ", ShapeTemplate(input)));
      continue;
    }
    if (request->verbosity != Verbosity::kQuiet)
      std::cerr << PaintedMessage(
          StrCat("note: input '", input.name, "': ", name.empty() ? "dimension 0" : name, " = 1 (assumed)\n"));
    if (name.empty()) {
      shape[i] = 1;
      changed = true;
    } else {
      request->dims[name] = 1;
    }
  }
  if (changed) request->input_shapes[input.name] = shape;
}

/// What gives the sizes of the first input of which some aren't known.
std::string HelpOf(const std::vector<DeclaredInput>& declared, const CompileRequest& request) {
  std::string help;
  for (const DeclaredInput& input : declared) {
    std::vector<std::string> open;
    CompileRequest quiet = request;
    quiet.verbosity = Verbosity::kQuiet;
    Complete(input, &quiet, &open);
    if (open.empty()) continue;
    if (input.has_shape) return SizesHelp(input.name, input.shape, input.dim_names);
    help = SizesHelp(input.name, {1, 3, -1, -1}, {});
  }
  return help;
}

/// Sizes by name are of dimensions that there are, and ranges can be read.
void CheckDims(const std::vector<DeclaredInput>& declared, const CompileRequest& request) {
  std::set<std::string> known;
  for (const DeclaredInput& input : declared) {
    for (const std::string& name : input.dim_names) {
      if (!name.empty()) known.insert(name);
    }
  }
  const auto check = [&](const std::string& name) {
    // A model without any: the importer says more.
    if (known.empty() || known.count(name) != 0) return;
    std::string names;
    for (const std::string& other : known) names += StrCat(names.empty() ? "'" : ", '", other, "'");
    throw Error(StrCat("no input has a dimension called '", name, "'; there are: ", names,
                       DidYouMean(name, {known.begin(), known.end()})));
  };
  for (const auto& [name, size] : request.dims) check(name);
  for (const auto& [name, range] : request.dim_ranges) {
    check(name);
    Compiler().check_range(name, range);
  }
}

}  // namespace

CompileRequest WithInputShapes(CompileRequest request, const std::vector<std::string>& inputs, bool fills) {
  if (!IsOnnx(request.model)) return request;
  CheckExists(request.model);
  const std::vector<DeclaredInput> declared = Compiler().declared_inputs(request.model);
  CheckDims(declared, request);
  const Given given = ReadGiven(declared, inputs);
  std::string missing;
  for (const DeclaredInput& input : declared) {
    if (given.shapes.count(input.name) == 0 && given.filled.count(input.name) == 0 &&
        given.pictures.count(input.name) == 0 && !given.fills_all && !fills) {
      missing += (missing.empty() ? "" : ", ") + ShapeTemplate(input);
    }
  }
  if (!missing.empty()) {
    throw Error(StrCat("no value for input ", missing, "\nhelp: give it with -i name=file, or -i random"));
  }
  for (const DeclaredInput& input : declared) {
    auto flag = request.input_shapes.find(input.name);
    auto file = given.shapes.find(input.name);
    auto picture = given.pictures.find(input.name);
    if (flag != request.input_shapes.end()) {
      UseShape(input, flag->second, &request);
    } else if (picture != given.pictures.end()) {
      UsePicture(input, picture->second, &request);
    } else if (file != given.shapes.end()) {
      UseShape(input, file->second, &request);
      const bool fits = !input.has_shape || input.shape.size() == file->second.size();
      std::vector<int64_t> shape = file->second;
      for (size_t i = 0; fits && i < input.shape.size(); ++i)
        shape[i] = input.shape[i] >= 0 ? input.shape[i] : shape[i];
      if (fits) request.input_shapes[input.name] = shape;
    }
  }
  std::vector<std::string> unknown;
  for (const DeclaredInput& input : declared) Complete(input, &request, &unknown);
  if (unknown.empty()) return request;
  std::string message = StrCat(request.model, ": sizes aren't known: ");
  for (size_t i = 0; i < unknown.size(); ++i) message += (i == 0 ? "" : "; ") + unknown[i];
  throw Error(message + HelpOf(declared, request));
}

}  // namespace treadle::cli
