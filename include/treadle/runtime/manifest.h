// SPDX-License-Identifier: Apache-2.0
// What a compiled model says about itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "treadle/runtime/data_type.h"

namespace treadle::runtime {

/// Name, shape and type of a model's input or output.
struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;          ///< -1 for a dimension that is only known when the model runs
  std::vector<std::string> dim_names;  ///< empty, or one per dimension: the symbol of a dynamic one, else ""
  DataType dtype;
  /// Not empty for what isn't a tensor of numbers: its type as ONNX Runtime writes it, such as "tensor(string)" or
  /// "seq(tensor(float))". It passes as a vector of bytes (src/runtime/vm/host/values.cc says which).
  std::string value_type;

  /// "float32 (batch, 3, 224, 224)".
  std::string str() const;
};

/// The "manifest" section of an artifact; see artifact.h. As JSON:
///   {"treadle_version":"0.1.0","name":"resnet50","executor":"graph","target":"llvm -mcpu=...",
///    "cpu_features":["avx2"],"source_hash":"hex","inputs":[{"name":"x","shape":[1,"width"],"dtype":"float32"}],
///    "outputs":[...]}
struct Manifest {
  std::string treadle_version;
  std::string name;
  std::string executor = "graph";         ///< "graph", "vm", or "none" for kernels alone
  std::string module_name = "default";    ///< name of the executor factory
  std::string target;                     ///< as given to the compiler
  std::vector<std::string> cpu_features;  ///< instruction sets that the code uses, by LLVM's names
  std::string source_hash;                ///< of what was compiled: "blake3:" and 64 hexadecimal digits
  /// How it was made, by name: "source" (file), "command" (a command line that compiles the same), "cpu" (-mcpu=native
  /// resolved), "weights" (bytes of the model's weights before packing), "winograd" (bytes of transformed ones).
  std::map<std::string, std::string> provenance;
  std::vector<TensorInfo> inputs, outputs;

  std::string ToJson() const;
  /// Throws ModelFormatError; `what` is named in errors. Unknown keys are ignored.
  static Manifest FromJson(std::string_view text, const std::string& what);
};

/// Treadle's version, such as "0.1.0".
const char* VersionString();

}  // namespace treadle::runtime
