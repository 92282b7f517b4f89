// SPDX-License-Identifier: Apache-2.0
// Writes the blob of the model that tests of the runtime load: make_test_blob OUTPUT VARIANT. The model computes
// y = 2 * (x + w), reshaped to 6 elements. Variant "cpu" asks for an instruction set that no processor has, "version"
// has a format version from the future, "executor" names an executor of its own.
#include <cstdio>
#include <fstream>
#include <string>

#include "treadle/base/error.h"
#include "treadle/runtime/artifact.h"
#include "treadle/runtime/manifest.h"

namespace rt = treadle::runtime;

namespace {

constexpr char kGraph[] = R"({
"nodes": [
  {"op":"null","name":"x","inputs":[]},
  {"op":"null","name":"w","inputs":[]},
  {"op":"tvm_op","name":"add","attrs":{"func_name":"test_add","num_inputs":"2","num_outputs":"1","flatten_data":"0",
   "hash":"0123456789abcdef"},"inputs":[[0,0,0],[1,0,0]]},
  {"op":"tvm_op","name":"double","attrs":{"func_name":"test_double","num_inputs":"1","num_outputs":"1",
   "flatten_data":"0"},"inputs":[[2,0,0]]},
  {"op":"tvm_op","name":"reshape_nop","attrs":{"func_name":"__nop","num_inputs":"1","num_outputs":"1",
   "flatten_data":"0"},"inputs":[[3,0,0]]}],
"arg_nodes": [0,1],
"heads": [[4,0,0]],
"attrs": {"shape":["list_shape",[[2,3],[2,3],[2,3],[2,3],[6]]],
  "dltype":["list_str",["float32","float32","float32","float32","float32"]],
  "storage_id":["list_int",[0,1,2,3,3]]},
"node_row_ptr": [0,1,2,3,4,5]})";

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string variant = argv[2];
  rt::Manifest manifest;
  manifest.treadle_version = rt::VersionString();
  manifest.name = "test";
  manifest.target = "llvm -mcpu=test";
  if (variant == "cpu") manifest.cpu_features = {"avx9000"};
  if (variant == "executor") manifest.executor = "test_executor";
  treadle::DataType f32 = treadle::DataType::Float(32);
  manifest.inputs = {{"x", {2, 3}, {}, f32, ""}};
  manifest.outputs = {{"y", {6}, {}, f32, ""}};
  rt::ArtifactWriter writer;
  writer.AddSection("manifest", manifest.ToJson());
  writer.AddSection("graph", kGraph);
  writer.AddParams({{"w", rt::NDArray::FromVector<float>({10, 20, 30, 40, 50, 60}, {2, 3}, f32)}});
  std::string blob = writer.Finish();
  if (variant == "version") blob[8] = 99;
  std::ofstream(argv[1], std::ios::binary) << blob;
  return 0;
}
