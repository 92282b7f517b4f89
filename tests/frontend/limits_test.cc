// SPDX-License-Identifier: Apache-2.0
// Files of a few bytes for each of very many parts: refused while they are read, before they take memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "frontend/onnx/proto_reader.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string Number(int field, uint64_t value) { return Varint(static_cast<uint64_t>(field) << 3) + Varint(value); }
std::string Message(int field, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(bytes.size()) + bytes;
}
std::string Repeat(const std::string& bytes, size_t total) {
  std::string all;
  while (all.size() < total) all += bytes;
  return all;
}

std::string ModelOf(const std::string& graph, const std::string& more = "") {
  return Number(1, 8) + Message(8, Number(2, 17)) + Message(7, graph) + more;
}
/// A node with one attribute "a" that has `content`.
std::string WithAttribute(const std::string& content) {
  return ModelOf(Message(1, Message(4, "Add") + Message(5, Message(1, "a") + content)));
}

struct Shape {
  const char* name;
  std::function<std::string(size_t bytes)> make;
};

const Shape kShapes[] = {
    {"Graphs", [](size_t n) { return WithAttribute(Repeat(Message(11, ""), n)); }},
    {"TypeProtos", [](size_t n) { return WithAttribute(Repeat(Message(15, ""), n)); }},
    {"Tensors", [](size_t n) { return WithAttribute(Repeat(Message(10, Number(2, 1) + Number(1, 0)), n)); }},
    {"Strings", [](size_t n) { return WithAttribute(Repeat(Message(9, ""), n)); }},
    {"Integers", [](size_t n) { return WithAttribute(Repeat(Number(8, 1), n)); }},
    {"Attributes",
     [](size_t n) { return ModelOf(Message(1, Repeat(Message(5, Message(1, "a") + Number(20, 2)), n))); }},
    {"Operands", [](size_t n) { return ModelOf(Message(1, Repeat(Message(1, ""), n))); }},
    {"Nodes", [](size_t n) { return ModelOf(Repeat(Message(1, Message(4, "A")), n)); }},
    {"EmptyInfos", [](size_t n) { return ModelOf(Repeat(Message(13, ""), n)); }},
    {"NamedInfos", [](size_t n) { return ModelOf(Repeat(Message(13, Message(1, "v")), n)); }},
    {"Inputs", [](size_t n) { return ModelOf(Repeat(Message(11, Message(1, "v") + Message(2, Message(1, ""))), n)); }},
    {"Dimensions",
     [](size_t n) {
       return ModelOf(Message(11, Message(1, "v") + Message(2, Message(1, Message(2, Repeat(Message(1, ""), n))))));
     }},
    {"Initializers",
     [](size_t n) { return ModelOf(Repeat(Message(5, Message(8, "w") + Number(2, 1) + Number(1, 0)), n)); }},
    {"ExternalData", [](size_t n) { return ModelOf(Message(5, Message(8, "w") + Repeat(Message(13, ""), n))); }},
    {"Functions", [](size_t n) { return ModelOf("", Repeat(Message(25, Message(1, "f")), n)); }},
    {"FunctionInputs", [](size_t n) { return ModelOf("", Message(25, Message(1, "f") + Repeat(Message(4, ""), n))); }},
};

class ManyParts : public ::testing::TestWithParam<Shape> {};

TEST_P(ManyParts, AreRefusedWhileTheyAreRead) {
  auto bytes = std::make_shared<std::string>(GetParam().make(2 << 20));
  ReadLimits limits;
  limits.max_memory = 4 << 20;
  try {
    ReadModelBytes(*bytes, bytes, "m", "", limits);
    FAIL() << "accepted";
  } catch (const ModelFormatError& error) {
    EXPECT_THAT(error.what(),
                AnyOf(HasSubstr("--max-model-memory"), HasSubstr("the limit is 6"), HasSubstr("has no name")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ManyParts, ::testing::ValuesIn(kShapes),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(ModelMemory, PackedNumbersOfOneByteAreWithinTheDefault) {
  // A tensor of 8 MB in 1 MB: what writers of small integers make.
  const std::string tensor = Message(8, "w") + Number(2, 7) + Number(1, 1 << 20) + Message(7, std::string(1 << 20, 1));
  auto bytes = std::make_shared<std::string>(ModelOf(Message(5, tensor) + Message(12, Message(1, "w"))));
  EXPECT_EQ(ReadModelBytes(*bytes, bytes, "m").graph.initializers[0]->int64_data.size(), size_t{1} << 20);
}

}  // namespace
}  // namespace treadle::onnx
