// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/proto_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "frontend/onnx_builder.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

using namespace ::treadle::onnx::testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

template <typename F>
std::string FormatErrorOf(F&& f) {
  try {
    f();
  } catch (const ModelFormatError& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "no error";
}
std::string ErrorOf(const Message& model, const ReadLimits& limits = {}) {
  return FormatErrorOf([&] { ReadMessage(model, limits); });
}
std::string ErrorOfBytes(const std::string& bytes) {
  return FormatErrorOf([&] { ReadBytes(bytes); });
}

GraphParts ReluParts() {
  return {{NodeMessage("Relu", {"x"}, {"y"}, {}, "relu1")},
          {},
          {ValueMessage("x", ElemType::kFloat, {"batch", 3})},
          {ValueMessage("y", ElemType::kFloat, {"batch", 3})}};
}

/// A directory that disappears at the end of the test.
class Directory {
 public:
  Directory() {
    std::string pattern = (fs::temp_directory_path() / "treadle_onnx_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Directory() { fs::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    fs::path path = fs::path(path_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Message ExternalTensor(const std::string& location, const std::string& offset, const std::string& length) {
  Message m;
  m.Int(1, 2).Int(2, 1).Bytes(8, "w").Int(14, 1);
  auto entry = [&](const char* key, const std::string& value) {
    m.Sub(13, Message().Bytes(1, std::string(key)).Bytes(2, value));
  };
  entry("location", location);
  if (!offset.empty()) entry("offset", offset);
  if (!length.empty()) entry("length", length);
  return m;
}

Message AddModel(const Message& weight) {
  return ModelMessage(GraphMessage({{NodeMessage("Add", {"x", "w"}, {"y"})},
                                    {weight},
                                    {ValueMessage("x", ElemType::kFloat, {2})},
                                    {ValueMessage("y", ElemType::kFloat, {2})}}));
}

TEST(ProtoReader, ReadsNodesValuesAndOpsets) {
  Model model = ReadMessage(ModelMessage(GraphMessage(ReluParts())));
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  EXPECT_EQ(model.opset_imports.at(""), 13);
  EXPECT_EQ(model.graph.nodes[0].DisplayName(), "relu1");
  EXPECT_THAT(model.graph.nodes[0].inputs, ElementsAre("x"));
  const auto& shape = *model.graph.inputs[0].type.shape;
  EXPECT_EQ(shape[0].symbol, "batch");
  EXPECT_EQ(shape[1].value, 3);
}

TEST(ProtoReader, ReadsAttributesOfAllScalarTypes) {
  GraphParts parts = ReluParts();
  parts.nodes = {NodeMessage("Foo", {"x"}, {"y"},
                             {IntAttr("i", -2), FloatAttr("f", 0.5f), StringAttr("s", "text"), IntsAttr("is", {1, -1}),
                              TensorAttr("t", Int64Tensor("", {2}, {7, 8}))})};
  Model model = ReadMessage(ModelMessage(GraphMessage(parts)));
  const Node& node = model.graph.nodes[0];
  EXPECT_EQ(node.DisplayName(), "Foo#0");
  EXPECT_EQ(node.FindAttribute("i")->i, -2);
  EXPECT_EQ(node.FindAttribute("f")->f, 0.5f);
  EXPECT_EQ(node.FindAttribute("s")->s, "text");
  EXPECT_THAT(node.FindAttribute("is")->ints, ElementsAre(1, -1));
  EXPECT_EQ(node.FindAttribute("t")->t->raw.value_or("").size(), 16u);
}

TEST(ProtoReader, InfersAttributeTypesOfOldModels) {
  GraphParts parts = ReluParts();
  parts.nodes = {NodeMessage("Foo", {"x"}, {"y"}, {Message().Bytes(1, "axis").Int(3, 0)})};
  Model model = ReadMessage(ModelMessage(GraphMessage(parts)));
  EXPECT_EQ(model.graph.nodes[0].attributes[0].type, Attribute::Type::kInt);
}

TEST(ProtoReader, ReadsUnpackedAndPackedTensorData) {
  Message unpacked;
  unpacked.Int(1, 2).Int(2, 1).Float(4, 1.5f).Float(4, 2.5f).Bytes(8, "w");
  EXPECT_THAT(ReadMessage(AddModel(unpacked)).graph.initializers[0]->float_data, ElementsAre(1.5f, 2.5f));
  Message packed;
  packed.Ints(1, {2}).Int(2, 1).Floats(4, {1.5f, 2.5f}).Bytes(8, "w");
  EXPECT_THAT(ReadMessage(AddModel(packed)).graph.initializers[0]->float_data, ElementsAre(1.5f, 2.5f));
}

TEST(ProtoReader, NamesFilesOfOtherFormats) {
  EXPECT_EQ(ErrorOfBytes(""), "m.onnx: the file is empty");
  EXPECT_THAT(ErrorOfBytes("hello, this is not a model\n"), HasSubstr("the file is text"));
  EXPECT_THAT(ErrorOfBytes("PK\x03\x04zzzzz"), HasSubstr("a ZIP archive"));
  EXPECT_THAT(ErrorOfBytes("\n<!DOCTYPE html><html></html>"), HasSubstr("an HTML page"));
  EXPECT_THAT(ErrorOfBytes("version https://git-lfs.github.com/spec/v1\noid"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(ErrorOfBytes(std::string("\x7f") + "ELF\x02\x01"), HasSubstr("an ELF binary"));
}

TEST(ProtoReader, RefusesEveryTruncation) {
  std::string bytes = AddModel(FloatTensor("w", {2}, {1, 2})).data();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(ErrorOfBytes(bytes.substr(0, length)), "no error") << length;
  }
}

TEST(ProtoReader, RefusesNumbersThatDoNotFit) {
  const std::string good = ModelMessage(GraphMessage(ReluParts())).data();
  EXPECT_EQ(ErrorOfBytes(good), "no error");
  const std::string nines(9, '\x80'), unknown = "\x98\x06";  // field 99, a varint
  EXPECT_EQ(ErrorOfBytes(good + unknown + nines + "\x01"), "no error");
  for (const std::string& field : {std::string("\x08"), unknown}) {
    EXPECT_THAT(ErrorOfBytes(good + field + nines + "\x02"), HasSubstr("a number that doesn't fit into 64 bits"));
  }
  // A tag of 2^32 + 0x98, and a length of 2^32 + 1.
  EXPECT_THAT(ErrorOfBytes(good + "\x98\x86\x80\x80\x10\x01"), HasSubstr("doesn't fit into 32 bits"));
  EXPECT_THAT(ErrorOfBytes(good + "\x9a\x06\x81\x80\x80\x80\x10x"), HasSubstr("doesn't fit into 32 bits"));
  EXPECT_EQ(ErrorOfBytes(good + "\x9a\x06\x81\x80\x80\x80" + std::string(1, '\0') + "x"), "no error")
      << "longer than needed";
  // Packed.
  Message weight;
  weight.Int(1, 1).Int(2, 7).Bytes(7, nines + "\x7f").Bytes(8, "w");
  EXPECT_THAT(ErrorOf(AddModel(weight)), HasSubstr("a number that doesn't fit into 64 bits"));
}

TEST(ProtoReader, SaysWhereTheDataEnd) {
  std::string bytes = ModelMessage(GraphMessage(ReluParts())).data();
  EXPECT_THAT(ErrorOfBytes(bytes.substr(0, bytes.size() - 3)), HasSubstr("truncated"));
}

TEST(ProtoReader, RefusesModelsWithoutGraphVersionOrOpset) {
  Message graph = GraphMessage(ReluParts());
  EXPECT_THAT(ErrorOf(Message().Int(1, 8)), HasSubstr("no graph"));
  EXPECT_THAT(ErrorOf(Message().Sub(7, graph)), HasSubstr("no ir_version"));
  EXPECT_THAT(ErrorOf(Message().Int(1, 8).Sub(7, graph)), HasSubstr("imports no operator set"));
  EXPECT_THAT(ErrorOf(ModelMessage(graph, 13, 99)), HasSubstr("IR version 99 is newer than 14"));
  EXPECT_THAT(ErrorOf(ModelMessage(graph, 0)), HasSubstr("version 0"));
}

TEST(ProtoReader, RefusesPayloadsOfTheWrongSize) {
  EXPECT_THAT(ErrorOf(AddModel(TensorMessage("w", ElemType::kFloat, {2}, "1234567"))),
              HasSubstr("graph.initializer[0] 'w': raw_data has 7 bytes, but float of shape [2] has 8"));
  Message missing;
  missing.Int(1, 2).Int(2, 1).Bytes(8, "w");
  EXPECT_THAT(ErrorOf(AddModel(missing)), HasSubstr("float_data has 0 values, but float of shape [2] has 2"));
  Message wrong_field;
  wrong_field.Int(1, 2).Int(2, 1).Ints(7, {1, 2}).Bytes(8, "w");
  EXPECT_NE(ErrorOf(AddModel(wrong_field)), "no error");
}

TEST(ProtoReader, RefusesBadTypesAndShapes) {
  auto tensor = [](ElemType type, const std::vector<int64_t>& dims) {
    return AddModel(TensorMessage("w", type, dims, "12345678"));
  };
  EXPECT_THAT(ErrorOf(tensor(static_cast<ElemType>(77), {2})), HasSubstr("element type 77"));
  EXPECT_THAT(ErrorOf(tensor(ElemType::kFloat, {-1})), HasSubstr("negative dimension"));
  EXPECT_THAT(ErrorOf(tensor(ElemType::kFloat, {int64_t{1} << 32, int64_t{1} << 32, 4})),
              HasSubstr("too many elements"));
  EXPECT_THAT(ErrorOf(tensor(ElemType::kFloat, std::vector<int64_t>(65, 1))), HasSubstr("rank 65; the limit is 64"));
  EXPECT_THAT(ErrorOf(tensor(ElemType::kString, {1})), HasSubstr("strings can't be raw_data"));
}

TEST(ProtoReader, AcceptsEmptyTensors) {
  Model model = ReadMessage(AddModel(TensorMessage("w", ElemType::kFloat, {0}, "")));
  EXPECT_EQ(model.graph.initializers[0]->NumElements(), 0);
}

TEST(ProtoReader, ChecksAttributeTypes) {
  GraphParts parts = ReluParts();
  parts.nodes = {NodeMessage("Foo", {"x"}, {"y"}, {Message().Bytes(1, "a").Float(2, 1.0f).Int(20, 2)}, "n")};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))),
              HasSubstr("node[0] 'n'.attribute[0] 'a': the attribute is of type INT, but has a value of type FLOAT"));
  parts.nodes = {NodeMessage("Foo", {"x"}, {"y"}, {IntAttr("a", 1), IntAttr("a", 2)})};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))), HasSubstr("attribute 'a' is given twice"));
  parts.nodes = {NodeMessage("Foo", {"x"}, {"y"}, {Message().Bytes(1, "a").Int(20, 4)})};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))), HasSubstr("of type TENSOR, but has no value"));
}

TEST(ProtoReader, LimitsNestingOfSubgraphs) {
  auto nested = [](int depth) {
    Message body = GraphMessage({{}, {FloatTensor("c", {}, {1})}, {}, {ValueMessage("c", ElemType::kFloat, {})}});
    for (int i = 0; i < depth; ++i) {
      body = GraphMessage({{NodeMessage("Foo", {}, {"y"}, {GraphAttr("body", body)})},
                           {},
                           {},
                           {ValueMessage("y", ElemType::kFloat, {})}});
    }
    return ModelMessage(body);
  };
  EXPECT_EQ(ErrorOf(nested(20)), "no error");
  EXPECT_NE(ErrorOf(nested(33)), "no error");
  ReadLimits limits;
  limits.max_subgraph_depth = 3;
  EXPECT_EQ(ErrorOf(nested(3), limits), "no error");
  EXPECT_THAT(ErrorOf(nested(4), limits), HasSubstr("subgraphs are nested more than 3 deep"));
}

TEST(ProtoReader, LimitsNestingOfTypes) {
  Message type = Message().Sub(1, Message().Int(1, 1));
  for (int i = 0; i < 60; ++i) type = Message().Sub(4, Message().Sub(1, type));
  GraphParts parts = ReluParts();
  parts.inputs = {Message().Bytes(1, "x").Sub(2, type)};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))), HasSubstr("messages are nested more than 100 deep"));
}

TEST(ProtoReader, ReadsSequenceAndOptionalTypes) {
  Message tensor = Message().Sub(1, Message().Int(1, 1));
  Message sequence = Message().Sub(4, Message().Sub(1, tensor));
  GraphParts parts = ReluParts();
  parts.inputs = {Message().Bytes(1, "x").Sub(2, Message().Sub(9, Message().Sub(1, sequence)))};
  Model model = ReadMessage(ModelMessage(GraphMessage(parts)));
  const TypeProto& type = model.graph.inputs[0].type;
  EXPECT_EQ(type.kind, TypeProto::Kind::kOptional);
  EXPECT_EQ(type.element->kind, TypeProto::Kind::kSequence);
  EXPECT_EQ(type.element->element->elem_type, ElemType::kFloat);
  EXPECT_FALSE(type.element->element->shape.has_value());
}

TEST(ProtoReader, LimitsNodesNamesAndOperands) {
  Message model = ModelMessage(GraphMessage(ReluParts()));
  ReadLimits limits;
  limits.max_nodes = 0;
  EXPECT_THAT(ErrorOf(model, limits), HasSubstr("more than 0 nodes"));
  limits = {};
  limits.max_name_bytes = 3;
  EXPECT_THAT(ErrorOf(model, limits), HasSubstr("a name of 5 bytes; the limit is 3"));
  limits = {};
  limits.max_node_operands = 0;
  EXPECT_THAT(ErrorOf(model, limits), HasSubstr("the limit is 0"));
}

TEST(ProtoReader, ChecksSparseTensors) {
  auto model = [](const std::vector<int64_t>& indices, const std::vector<int64_t>& index_dims) {
    Message sparse;
    sparse.Sub(1, FloatTensor("w", {2}, {1, 2})).Sub(2, Int64Tensor("", index_dims, indices)).Ints(3, {2, 3});
    Message graph = GraphMessage(ReluParts());
    graph.Sub(15, sparse);
    return ModelMessage(graph);
  };
  EXPECT_EQ(ErrorOf(model({1, 5}, {2})), "no error");
  EXPECT_EQ(ErrorOf(model({0, 1, 1, 0}, {2, 2})), "no error");
  EXPECT_THAT(ErrorOf(model({1, 6}, {2})), HasSubstr("index 6 is out of range [0, 6)"));
  EXPECT_THAT(ErrorOf(model({5, 1}, {2})), HasSubstr("increasing order"));
  EXPECT_THAT(ErrorOf(model({1, 2, 3}, {3})), HasSubstr("indices have shape [3]"));
}

TEST(GraphChecks, SortsNodes) {
  GraphParts parts = ReluParts();
  parts.nodes = {NodeMessage("C", {"b"}, {"y"}), NodeMessage("A", {"x"}, {"a"}), NodeMessage("B", {"a"}, {"b"})};
  Model model = ReadMessage(ModelMessage(GraphMessage(parts)));
  std::vector<std::string> order;
  for (const Node& node : model.graph.nodes) order.push_back(node.op_type);
  EXPECT_THAT(order, ElementsAre("A", "B", "C"));
}

TEST(GraphChecks, RefusesCyclesByName) {
  GraphParts parts = ReluParts();
  parts.nodes = {NodeMessage("Add", {"x", "b"}, {"a"}, {}, "first"), NodeMessage("Relu", {"a"}, {"b"}, {}, "second"),
                 NodeMessage("Relu", {"b"}, {"y"})};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))),
              HasSubstr("form a cycle: 'first' reads from 'second' reads from 'first'"));
}

TEST(GraphChecks, RefusesUndefinedAndTwiceDefinedValues) {
  GraphParts parts = ReluParts();
  parts.nodes = {NodeMessage("Add", {"x", "nowhere"}, {"y"}, {}, "n")};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))),
              HasSubstr("node 'n' (Add) reads 'nowhere', which nothing defines"));
  parts.nodes = {NodeMessage("Relu", {"x"}, {"y"}, {}, "a"), NodeMessage("Relu", {"x"}, {"y"}, {}, "b")};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))),
              HasSubstr("node 'b' (Relu) writes 'y', which is already defined by node 'a' (Relu)"));
  parts.nodes = {NodeMessage("Relu", {"x"}, {"z"})};
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))), HasSubstr("an output of the graph reads 'y'"));
}

TEST(GraphChecks, SubgraphsReadOuterValues) {
  Message branch =
      GraphMessage({{NodeMessage("Neg", {"late"}, {"z"})}, {}, {}, {ValueMessage("z", ElemType::kFloat, {3})}});
  GraphParts parts = ReluParts();
  parts.nodes = {NodeMessage("Foo", {"x"}, {"y"}, {GraphAttr("body", branch)}), NodeMessage("Relu", {"x"}, {"late"})};
  Model model = ReadMessage(ModelMessage(GraphMessage(parts)));
  EXPECT_EQ(model.graph.nodes[0].op_type, "Relu");
  parts.nodes.pop_back();
  EXPECT_THAT(ErrorOf(ModelMessage(GraphMessage(parts))), HasSubstr("node 'Neg#0' (Neg) reads 'late'"));
}

TEST(GraphChecks, SortsLongChainsWithoutRecursion) {
  constexpr int kLength = 100000;
  GraphParts parts = ReluParts();
  parts.nodes.clear();
  auto name = [](int i) { return i == 0 ? std::string("x") : i == kLength ? std::string("y") : StrCat("v", i); };
  for (int i = kLength; i > 0; --i) parts.nodes.push_back(NodeMessage("Relu", {name(i - 1)}, {name(i)}));
  Model model = ReadMessage(ModelMessage(GraphMessage(parts)));
  EXPECT_EQ(model.graph.nodes.front().inputs[0], "x");
  EXPECT_EQ(model.graph.nodes.back().outputs[0], "y");
}

TEST(ModelFiles, MapsFilesWithoutCopyingWeights) {
  Directory directory;
  std::string path = directory.Write("m.onnx", AddModel(FloatTensor("w", {2}, {1, 2})).data());
  std::shared_ptr<const Tensor> weight;
  {
    Model model = ReadModelFile(path);
    weight = model.graph.initializers[0];
  }
  float values[2];
  std::memcpy(values, weight->raw.value_or("").data(), sizeof(values));
  EXPECT_EQ(values[1], 2.0f);
}

TEST(ModelFiles, NamesFilesThatCannotBeRead) {
  Directory directory;
  try {
    ReadModelFile(directory.path() + "/none.onnx");
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("none.onnx: No such file"));
    EXPECT_EQ(e.code(), ExitCode::kUsage);
  }
  EXPECT_EQ(FormatErrorOf([&] { ReadModelFile(directory.path()); }),
            "can't read " + directory.path() + ": it is a directory");
  EXPECT_THAT(FormatErrorOf([&] { ReadModelFile("/dev/zero"); }), HasSubstr("isn't a regular file"));
}

TEST(ExternalData, ReadsOffsetAndLength) {
  Directory directory;
  directory.Write("sub/w.bin", RawOf<float>({9, 1, 2}));
  std::string path = directory.Write("m.onnx", AddModel(ExternalTensor("sub/w.bin", "4", "8")).data());
  Model model = ReadModelFile(path);
  float values[2];
  std::memcpy(values, model.graph.initializers[0]->raw.value_or("").data(), sizeof(values));
  EXPECT_EQ(values[0], 1.0f);
}

TEST(ExternalData, RefusesBadOffsetsAndLengths) {
  Directory directory;
  directory.Write("w.bin", RawOf<float>({1, 2}));
  auto error = [&](const std::string& offset, const std::string& length) {
    std::string path = directory.Write("m.onnx", AddModel(ExternalTensor("w.bin", offset, length)).data());
    return FormatErrorOf([&] { ReadModelFile(path); });
  };
  EXPECT_THAT(error("4", ""), HasSubstr("which has 8"));
  EXPECT_THAT(error("9", "8"), HasSubstr("begin at byte 9"));
  EXPECT_THAT(error("9223372036854775807", "8"), HasSubstr("begin at byte"));
  EXPECT_THAT(error("18446744073709551615", "8"), HasSubstr("expected a number of bytes"));
  EXPECT_THAT(error("-4", "8"), HasSubstr("expected a number of bytes"));
  EXPECT_THAT(error("0x4", "8"), HasSubstr("expected a number of bytes"));
  EXPECT_THAT(error("0", "4"), HasSubstr("external data have 4 bytes, but float of shape [2] has 8"));
}

TEST(ExternalData, StaysInTheModelsDirectory) {
  Directory directory;
  directory.Write("outside.bin", RawOf<float>({1, 2}));
  directory.Write("model/inside.bin", RawOf<float>({1, 2}));
  fs::create_symlink("inside.bin", directory.path() + "/model/link.bin");
  fs::create_symlink("../outside.bin", directory.path() + "/model/escape.bin");
  fs::create_directory(directory.path() + "/model/d");
  auto error = [&](const std::string& location) {
    std::string path = directory.Write("model/m.onnx", AddModel(ExternalTensor(location, "", "")).data());
    return FormatErrorOf([&] { ReadModelFile(path); });
  };
  EXPECT_EQ(error("inside.bin"), "no error");
  EXPECT_EQ(error("d/../inside.bin"), "no error");
  EXPECT_EQ(error("link.bin"), "no error");
  EXPECT_THAT(error("../outside.bin"), HasSubstr("outside the model's directory"));
  EXPECT_THAT(error("d/../../model/inside.bin"), HasSubstr("outside the model's directory"));
  EXPECT_THAT(error("escape.bin"), HasSubstr("outside the model's directory"));
  EXPECT_THAT(error(directory.path() + "/model/inside.bin"), HasSubstr("absolute path"));
  EXPECT_THAT(error(""), HasSubstr("without a location"));
  EXPECT_THAT(error("d"), HasSubstr("is a directory"));
  EXPECT_THAT(error("none.bin"), HasSubstr("can't be opened"));
}

TEST(ExternalData, RefusesPipesAndHardLinks) {
  Directory directory;
  directory.Write("outside.bin", RawOf<float>({1, 2}));
  fs::create_directory(directory.path() + "/model");
  fs::create_hard_link(directory.path() + "/outside.bin", directory.path() + "/model/hard.bin");
  ASSERT_EQ(mkfifo((directory.path() + "/model/pipe").c_str(), 0600), 0);
  auto error = [&](const std::string& location) {
    std::string path = directory.Write("model/m.onnx", AddModel(ExternalTensor(location, "", "")).data());
    return FormatErrorOf([&] { ReadModelFile(path); });
  };
  EXPECT_THAT(error("hard.bin"), HasSubstr("hard links"));
  EXPECT_THAT(error("pipe"), HasSubstr("isn't a regular file"));
}

TEST(ExternalData, FollowsTheLinkOfTheModelItself) {
  Directory directory;  // as caches of downloaded models are laid out
  directory.Write("blobs/1", RawOf<float>({1, 2}));
  directory.Write("blobs/2", AddModel(ExternalTensor("w.bin", "", "")).data());
  fs::create_directory(directory.path() + "/snapshot");
  fs::create_symlink("../blobs/1", directory.path() + "/snapshot/w.bin");
  fs::create_symlink("../blobs/2", directory.path() + "/snapshot/m.onnx");
  EXPECT_EQ(ReadModelFile(directory.path() + "/snapshot/m.onnx").graph.initializers.size(), 1u);
}

TEST(ExternalData, NeedsADirectory) {
  EXPECT_THAT(ErrorOf(AddModel(ExternalTensor("w.bin", "", ""))), HasSubstr("given as bytes, without a directory"));
}

}  // namespace
}  // namespace treadle::onnx
