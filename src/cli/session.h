// SPDX-License-Identifier: Apache-2.0
// Models and their inputs as the command line names them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/compiler_api.h"
#include "cli/fill.h"
#include "cli/picture.h"
#include "cli/tensor_file.h"
#include "runtime/file_io.h"
#include "treadle/runtime/model.h"

namespace treadle::cli {

/// Whether the name ends in .onnx.
bool IsOnnx(const std::string& path);
/// Whether it is compiled before it runs: .onnx or .relay.
bool IsSource(const std::string& path);
/// Throws Error that names a file that doesn't exist.
void CheckExists(const std::string& path);

/// Throws Error for "-", which other programs take for standard output.
void CheckNotDash(const std::string& path);
/// Before anything is computed: throws Error for reports, tables and the like ("": none) that would replace something
/// else (runtime::CheckOutputPath), one of `inputs` included, and where two are the same file.
void CheckTextOutputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

/// A text of --input: "name=source" or "source", which is a file, or how to fill (cli/fill.h).
struct InputText {
  std::string name;  ///< empty: not given
  std::string source;
  std::optional<Fill> fill;
};
InputText ParseInput(const std::string& text);

/// Throws Error where the only array of an .npz file, `inside`, has another name than the input. NumPy calls arrays
/// that got no name arr_0, arr_1, ...; tensors of ONNX's test data (.pb) have names of their own.
void CheckMeant(const std::string& source, const std::string& inside, const std::string& name);

/// Compiles, showing progress according to `request.verbosity`. Returns the report that the request asks for.
std::string CompileWatched(CompileRequest request);

/// As CompileWatched, for a model whose output isn't kept; returns what `--dump kernels` says. `model`, if not null,
/// becomes the loaded model.
std::string ExplainAndLoad(CompileRequest request, runtime::Model* model);

/// How long it took until a model could run, in seconds.
struct Preparation {
  double compile = 0;  ///< 0 for a compiled model
  double load = 0;
};

/// Loads a compiled model, compiling `request.model` first when it is an ONNX file. A missing file is an Error that
/// names it. `spent` may be null.
runtime::Model LoadOrCompile(const CompileRequest& request, Preparation* spent = nullptr);

/// How inputs are made.
struct InputOptions {
  unsigned seed = 0;  ///< of random ones
  PictureScaling pictures;
  DynamicSizes sizes;  ///< of inputs that are filled, where the compiled model has dynamic dimensions
};

/// The inputs of `model` from texts of --input: "name=file", "file" (names inside, or the only input), "name=random"
/// and so on (cli/fill.h), "random" for the others. Inputs that no text gives are `fill`, or an Error that lists them
/// when `fill` is empty. Throws Error for names the model lacks.
runtime::NamedTensors MakeInputs(const runtime::Model& model, const std::vector<std::string>& texts,
                                 const std::string& fill = "", const InputOptions& options = {});

/// Pairs of outputs and their names.
NamedTensors NameOutputs(const runtime::Model& model, const std::vector<NDArray>& outputs);

/// "float32 (1, 1000), min 1.2e-08, max 0.91, mean 0.001".
std::string Describe(const NDArray& tensor);

}  // namespace treadle::cli
