// SPDX-License-Identifier: Apache-2.0
// The messages of onnx.proto. Fields that say nothing about the computation (documentation of nodes, their metadata,
// quantisation annotations, device configurations, training information) are skipped.
#include "frontend/onnx/proto_reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "frontend/onnx/checks.h"
#include "frontend/onnx/mapped_file.h"
#include "frontend/onnx/wire.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

constexpr int64_t kNewestIrVersion = 14;

/// Memory that a model's parts may take where no limit is given: what any file may, and times the file's size (numbers
/// of 8 bytes can be 1 byte in a file).
constexpr int64_t kFreeMemory = int64_t{384} << 20;
constexpr int64_t kMostMemoryOfFile = 9;

template <typename T>
int64_t Size(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size());
}

/// Reads messages of one file. Tensors are collected: what their payload is gets checked at the end.
class ProtoReader {
 public:
  explicit ProtoReader(ReadContext& context, ExternalFiles& files) : context_(context), files_(files) {}

  void ReadModel(std::string_view bytes, Model& model);
  void ReadTensor(std::string_view bytes, Tensor& tensor);
  void Finish(Tensor& tensor) {
    FinishTensor(tensor, context_.Where(), files_, context_.limits);
    tensor.views = context_.storage == WeightStorage::kViews;
  }

 private:
  using StringPair = std::pair<std::string, std::string>;
  std::pair<std::string, int64_t> ReadOpset(std::string_view bytes);
  StringPair ReadStringPair(std::string_view bytes);
  void ReadGraph(std::string_view bytes, Graph& graph);
  void ReadNode(std::string_view bytes, Node& node);
  void ReadAttribute(std::string_view bytes, Attribute& attribute);
  bool ReadAttributeMessage(MessageReader& r, Attribute& attribute);
  void CheckAttribute(Attribute& attribute);
  void ReadSparseTensor(std::string_view bytes, SparseTensor& tensor);
  void ReadValueInfo(std::string_view bytes, ValueInfo& info);
  void ReadType(std::string_view bytes, TypeProto& type);
  void ReadTensorType(std::string_view bytes, TypeProto& type);
  void ReadElementType(std::string_view bytes, TypeProto& type, uint32_t element_tag);
  void ReadShape(std::string_view bytes, std::vector<Dimension>& shape);
  void ReadFunction(std::string_view bytes, Function& function);
  void CountNode();
  void CountOperand(int64_t count, const char* what);
  void AddName(MessageReader& r, std::vector<std::string>& names, const char* what) {
    CountOperand(Size(names), what);
    context_.ChargeElement<std::string>();
    names.push_back(r.Name());
  }

  template <typename T, typename Read>
  std::shared_ptr<const T> Shared(MessageReader& r, const char* field, int64_t index, Read&& read) {
    context_.ChargeObject<T>();
    context_.ChargeElement<std::shared_ptr<const T>>();
    auto value = std::make_shared<T>();
    r.Nested(field, index, nullptr, [&](std::string_view bytes) { read(bytes, *value); });
    return value;
  }
  std::shared_ptr<const Tensor> SharedTensor(MessageReader& r, const char* field, int64_t index) {
    return Shared<Tensor>(r, field, index, [&](std::string_view bytes, Tensor& tensor) {
      context_.path.back().name = &tensor.name;
      ReadTensor(bytes, tensor);
      Finish(tensor);
    });
  }
  std::shared_ptr<const SparseTensor> SharedSparseTensor(MessageReader& r, const char* field, int64_t index) {
    return Shared<SparseTensor>(r, field, index, [&](std::string_view bytes, SparseTensor& tensor) {
      context_.path.back().name = &tensor.values.name;
      ReadSparseTensor(bytes, tensor);
    });
  }
  std::shared_ptr<const Graph> SharedGraph(MessageReader& r, const char* field, int64_t index) {
    return Shared<Graph>(r, field, index, [&](std::string_view bytes, Graph& graph) { ReadGraph(bytes, graph); });
  }
  std::shared_ptr<const TypeProto> SharedType(MessageReader& r, const char* field, int64_t index) {
    return Shared<TypeProto>(r, field, index, [&](std::string_view bytes, TypeProto& type) { ReadType(bytes, type); });
  }

  ReadContext& context_;
  ExternalFiles& files_;
};

std::string CanonicalDomain(std::string domain) { return domain == "ai.onnx" ? "" : domain; }

/// One more of a repeated field.
void ProtoReader::CountOperand(int64_t count, const char* what) {
  if (count < context_.limits.max_node_operands) return;
  const int64_t limit = context_.limits.max_node_operands;
  context_.Fail(StrCat("there are more than ", limit, " ", what, "; the limit is ", limit));
}

void ProtoReader::CountNode() {
  context_.ChargeElement<Node>();
  if (++context_.node_count > context_.limits.max_nodes) {
    context_.Fail(StrCat("the model has more than ", context_.limits.max_nodes, " nodes"));
  }
}

void ProtoReader::ReadModel(std::string_view bytes, Model& model) {
  bool has_graph = false;
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        model.ir_version = r.Int64();
        break;
      case 2:
        model.producer_name = r.String();
        break;
      case 3:
        model.producer_version = r.String();
        break;
      case 4:
        model.domain = r.String();
        break;
      case 5:
        model.model_version = r.Int64();
        break;
      case 6:
        model.doc_string = r.String();
        break;
      case 7:
        has_graph = true;
        r.Nested("graph", -1, nullptr, [&](std::string_view b) { ReadGraph(b, model.graph); });
        break;
      case 8:
        r.Nested("opset_import", static_cast<int64_t>(model.opset_imports.size()), nullptr, [&](std::string_view b) {
          auto [domain, version] = ReadOpset(b);
          context_.ChargeObject<std::pair<StringPair, StringPair>>();
          auto [it, inserted] = model.opset_imports.emplace(domain, version);
          if (!inserted && it->second != version) {
            context_.Fail(StrCat("operator set ", QuoteName(domain), " is imported as version ", it->second,
                                 " and as version ", version));
          }
        });
        break;
      case 14:
        context_.ChargeObject<std::pair<StringPair, StringPair>>();
        r.Nested("metadata_props", -1, nullptr, [&](std::string_view b) { model.metadata.insert(ReadStringPair(b)); });
        break;
      case 25:
        r.Nested("functions", Size(model.functions), nullptr, [&](std::string_view b) {
          context_.ChargeElement<Function>();
          Function function;
          context_.path.back().name = &function.name;
          ReadFunction(b, function);
          model.functions.push_back(std::move(function));
        });
        break;
      default:
        r.Skip();
    }
  }
  if (!has_graph) context_.Fail("there is no graph in the file: not an ONNX model, or truncated");
  if (model.ir_version < 1) context_.Fail("there is no ir_version in the file: not an ONNX model");
  if (model.ir_version > kNewestIrVersion) {
    context_.Fail(StrCat("IR version ", model.ir_version, " is newer than ", kNewestIrVersion, ", the newest known"));
  }
  if (model.opset_imports.empty()) {
    if (model.ir_version >= 3) context_.Fail("the model imports no operator set");
    model.opset_imports[""] = 1;  // models older than IR version 3 don't say
  }
}

std::pair<std::string, int64_t> ProtoReader::ReadOpset(std::string_view bytes) {
  std::pair<std::string, int64_t> result{"", 0};
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        result.first = CanonicalDomain(r.Name());
        break;
      case 2:
        result.second = r.Int64();
        break;
      default:
        r.Skip();
    }
  }
  if (result.second < 1) {
    context_.Fail(StrCat("operator set ", QuoteName(result.first), " has version ", result.second));
  }
  return result;
}

ProtoReader::StringPair ProtoReader::ReadStringPair(std::string_view bytes) {
  StringPair result;
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        result.first = r.String();
        break;
      case 2:
        result.second = r.String();
        break;
      default:
        r.Skip();
    }
  }
  return result;
}

void ProtoReader::ReadGraph(std::string_view bytes, Graph& graph) {
  if (++context_.subgraph_depth > context_.limits.max_subgraph_depth + 1) {
    context_.Fail(StrCat("subgraphs are nested more than ", context_.limits.max_subgraph_depth, " deep"));
  }
  auto read_infos = [this](MessageReader& r, const char* field, std::vector<ValueInfo>& infos) {
    context_.ChargeElement<ValueInfo>();
    ValueInfo info;
    r.Nested(field, Size(infos), &info.name, [&](std::string_view b) { ReadValueInfo(b, info); });
    if (info.name.empty()) context_.Fail(StrCat(field, "[", Size(infos), "] has no name"));
    infos.push_back(std::move(info));
  };
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1: {
        CountNode();
        Node node;
        node.index = Size(graph.nodes);
        r.Nested("node", node.index, &node.name, [&](std::string_view b) { ReadNode(b, node); });
        graph.nodes.push_back(std::move(node));
        break;
      }
      case 2:
        graph.name = r.Name();
        break;
      case 5:
        graph.initializers.push_back(SharedTensor(r, "initializer", Size(graph.initializers)));
        break;
      case 10:
        graph.doc_string = r.String();
        break;
      case 15:
        graph.sparse_initializers.push_back(
            SharedSparseTensor(r, "sparse_initializer", Size(graph.sparse_initializers)));
        break;
      case 11:
        read_infos(r, "input", graph.inputs);
        break;
      case 12:
        read_infos(r, "output", graph.outputs);
        break;
      case 13:
        read_infos(r, "value_info", graph.value_info);
        break;
      default:
        r.Skip();
    }
  }
  --context_.subgraph_depth;
}

void ProtoReader::ReadNode(std::string_view bytes, Node& node) {
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        AddName(r, node.inputs, "inputs of a node");
        break;
      case 2:
        AddName(r, node.outputs, "outputs of a node");
        break;
      case 3:
        node.name = r.Name();
        break;
      case 4:
        node.op_type = r.Name();
        break;
      case 5: {
        CountOperand(Size(node.attributes), "attributes of a node");
        context_.ChargeElement<Attribute>();
        Attribute attribute;
        r.Nested("attribute", Size(node.attributes), &attribute.name,
                 [&](std::string_view b) { ReadAttribute(b, attribute); });
        node.attributes.push_back(std::move(attribute));
        break;
      }
      case 7:
        node.domain = CanonicalDomain(r.Name());
        break;
      case 8:
        node.overload = r.Name();
        break;
      default:
        r.Skip();
    }
  }
  if (node.op_type.empty()) context_.Fail("the node has no op_type");
  std::vector<std::string_view> names;
  for (const Attribute& attribute : node.attributes) names.push_back(attribute.name);
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) context_.Fail(StrCat("attribute ", QuoteName(*twice), " is given twice"));
}

void ProtoReader::ReadAttribute(std::string_view bytes, Attribute& attribute) {
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        attribute.name = r.Name();
        break;
      case 2:
        attribute.f = r.Float();
        if (attribute.type == Attribute::Type::kUndefined) attribute.type = Attribute::Type::kFloat;
        break;
      case 3:
        attribute.i = r.Int64();
        if (attribute.type == Attribute::Type::kUndefined) attribute.type = Attribute::Type::kInt;
        break;
      case 4:
        attribute.s = r.String();
        if (attribute.type == Attribute::Type::kUndefined) attribute.type = Attribute::Type::kString;
        break;
      case 7:
        r.AppendFloats(attribute.floats);
        break;
      case 8:
        r.AppendInts(attribute.ints);
        break;
      case 9:
        context_.ChargeElement<std::string>();
        attribute.strings.push_back(r.String());
        break;
      case 20:
        attribute.type = static_cast<Attribute::Type>(r.Int32());
        break;
      case 21:
        attribute.ref_attr_name = r.Name();
        break;
      default:
        if (!ReadAttributeMessage(r, attribute)) r.Skip();
    }
  }
  CheckAttribute(attribute);
}

bool ProtoReader::ReadAttributeMessage(MessageReader& r, Attribute& attribute) {
  switch (r.tag()) {
    case 5:
      attribute.t = SharedTensor(r, "t", -1);
      return true;
    case 6:
      attribute.g = SharedGraph(r, "g", -1);
      return true;
    case 10:
      attribute.tensors.push_back(SharedTensor(r, "tensors", Size(attribute.tensors)));
      return true;
    case 11:
      attribute.graphs.push_back(SharedGraph(r, "graphs", Size(attribute.graphs)));
      return true;
    case 14:
      attribute.tp = SharedType(r, "tp", -1);
      return true;
    case 15:
      attribute.type_protos.push_back(SharedType(r, "type_protos", Size(attribute.type_protos)));
      return true;
    case 22:
      attribute.sparse_tensor = SharedSparseTensor(r, "sparse_tensor", -1);
      return true;
    case 23:
      attribute.sparse_tensors.push_back(SharedSparseTensor(r, "sparse_tensors", Size(attribute.sparse_tensors)));
      return true;
    default:
      return false;
  }
}

/// The value has to be in the field that the type says. A number or a string may be missing: it is 0 or empty then, as
/// writers that don't store such values have it.
void ProtoReader::CheckAttribute(Attribute& attribute) {
  using Type = Attribute::Type;
  if (attribute.name.empty()) context_.Fail("the attribute has no name");
  const std::pair<Type, bool> present[] = {
      {Type::kFloat, attribute.f != 0},
      {Type::kInt, attribute.i != 0},
      {Type::kString, !attribute.s.empty()},
      {Type::kTensor, attribute.t != nullptr},
      {Type::kGraph, attribute.g != nullptr},
      {Type::kFloats, !attribute.floats.empty()},
      {Type::kInts, !attribute.ints.empty()},
      {Type::kStrings, !attribute.strings.empty()},
      {Type::kTensors, !attribute.tensors.empty()},
      {Type::kGraphs, !attribute.graphs.empty()},
      {Type::kSparseTensor, attribute.sparse_tensor != nullptr},
      {Type::kSparseTensors, !attribute.sparse_tensors.empty()},
      {Type::kTypeProto, attribute.tp != nullptr},
      {Type::kTypeProtos, !attribute.type_protos.empty()},
  };
  Type found = Type::kUndefined;
  for (const auto& [type, has] : present) {
    if (!has) continue;
    if (found != Type::kUndefined) {
      context_.Fail(
          StrCat("the attribute has values of types ", AttributeTypeName(found), " and ", AttributeTypeName(type)));
    }
    found = type;
  }
  if (!attribute.ref_attr_name.empty()) {
    if (found != Type::kUndefined) context_.Fail("the attribute refers to another and has a value too");
    return;
  }
  if (attribute.type == Type::kUndefined) attribute.type = found;
  if (attribute.type == Type::kUndefined) context_.Fail("the attribute has neither type nor value");
  if (attribute.type < Type::kUndefined || attribute.type > Type::kTypeProtos) {
    context_.Fail(StrCat("attribute type ", static_cast<int32_t>(attribute.type), " isn't one of ONNX's"));
  }
  bool needs_value = attribute.type == Type::kTensor || attribute.type == Type::kGraph ||
                     attribute.type == Type::kSparseTensor || attribute.type == Type::kTypeProto;
  if (found == Type::kUndefined ? needs_value : found != attribute.type) {
    context_.Fail(
        StrCat("the attribute is of type ", AttributeTypeName(attribute.type), ", but ",
               found == Type::kUndefined ? "has no value" : StrCat("has a value of type ", AttributeTypeName(found))));
  }
}

void ProtoReader::ReadTensor(std::string_view bytes, Tensor& tensor) {
  tensor.owner = context_.owner;
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        r.AppendInts(tensor.dims);
        break;
      case 2:
        tensor.data_type = static_cast<ElemType>(r.Int32());
        break;
      case 3:
        context_.Fail("the tensor is a segment of another, which isn't supported");
      case 4:
        r.AppendFloats(tensor.float_data);
        break;
      case 5:
        r.AppendInts(tensor.int32_data);
        break;
      case 6:
        context_.ChargeElement<std::string_view>();
        tensor.string_data.push_back(r.Bytes());
        break;
      case 7:
        r.AppendInts(tensor.int64_data);
        break;
      case 8:
        tensor.name = r.Name();
        break;
      case 9:
        tensor.raw = r.Bytes();
        break;
      case 10:
        r.AppendDoubles(tensor.double_data);
        break;
      case 11:
        r.AppendInts(tensor.uint64_data);
        break;
      case 13:
        CountOperand(Size(tensor.external_data), "entries of external data");
        context_.ChargeElement<StringPair>();
        r.Nested("external_data", Size(tensor.external_data), nullptr,
                 [&](std::string_view b) { tensor.external_data.push_back(ReadStringPair(b)); });
        break;
      case 14: {
        int32_t location = r.Int32();
        if (location != 0 && location != 1) context_.Fail(StrCat("data_location ", location, " isn't one of ONNX's"));
        tensor.external = location == 1;
        break;
      }
      default:
        r.Skip();
    }
  }
}

void ProtoReader::ReadSparseTensor(std::string_view bytes, SparseTensor& tensor) {
  auto read = [this](MessageReader& r, const char* field, Tensor& part) {
    r.Nested(field, -1, nullptr, [&](std::string_view b) {
      ReadTensor(b, part);
      Finish(part);
    });
  };
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        read(r, "values", tensor.values);
        break;
      case 2:
        read(r, "indices", tensor.indices);
        break;
      case 3:
        r.AppendInts(tensor.dims);
        break;
      default:
        r.Skip();
    }
  }
  CheckSparseTensor(tensor, context_.Where(), context_.limits);
}

void ProtoReader::ReadValueInfo(std::string_view bytes, ValueInfo& info) {
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        info.name = r.Name();
        break;
      case 2:
        r.Nested("type", -1, nullptr, [&](std::string_view b) { ReadType(b, info.type); });
        break;
      default:
        r.Skip();
    }
  }
}

void ProtoReader::ReadType(std::string_view bytes, TypeProto& type) {
  using Kind = TypeProto::Kind;
  for (MessageReader r(context_, bytes); r.Next();) {
    auto element = [&](Kind kind, const char* field, uint32_t element_tag) {
      type = TypeProto();
      type.kind = kind;
      r.Nested(field, -1, nullptr, [&](std::string_view b) { ReadElementType(b, type, element_tag); });
    };
    switch (r.tag()) {
      case 1:
      case 8:
        type = TypeProto();
        type.kind = r.tag() == 1 ? Kind::kTensor : Kind::kSparseTensor;
        r.Nested("tensor_type", -1, nullptr, [&](std::string_view b) { ReadTensorType(b, type); });
        break;
      case 4:
        element(Kind::kSequence, "sequence_type", 1);
        break;
      case 5:
        element(Kind::kMap, "map_type", 2);
        break;
      case 9:
        element(Kind::kOptional, "optional_type", 1);
        break;
      case 7:
        type = TypeProto();
        type.kind = Kind::kOpaque;
        r.Skip();
        break;
      default:
        r.Skip();
    }
  }
}

void ProtoReader::ReadTensorType(std::string_view bytes, TypeProto& type) {
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        type.elem_type = static_cast<ElemType>(r.Int32());
        break;
      case 2:
        type.shape.emplace();
        r.Nested("shape", -1, nullptr, [&](std::string_view b) { ReadShape(b, *type.shape); });
        break;
      default:
        r.Skip();
    }
  }
  if (type.elem_type != ElemType::kUndefined && !IsKnownElemType(type.elem_type)) {
    context_.Fail(StrCat("element type ", static_cast<int32_t>(type.elem_type), " isn't one of ONNX's"));
  }
}

void ProtoReader::ReadElementType(std::string_view bytes, TypeProto& type, uint32_t element_tag) {
  for (MessageReader r(context_, bytes); r.Next();) {
    if (r.tag() == element_tag) {
      type.element = SharedType(r, "elem_type", -1);
    } else if (r.tag() == 1) {
      type.elem_type = static_cast<ElemType>(r.Int32());
    } else {
      r.Skip();
    }
  }
}

void ProtoReader::ReadShape(std::string_view bytes, std::vector<Dimension>& shape) {
  for (MessageReader r(context_, bytes); r.Next();) {
    if (r.tag() != 1) {
      r.Skip();
      continue;
    }
    if (Size(shape) >= context_.limits.max_rank) {
      context_.Fail(StrCat("rank ", shape.size() + 1, " or more; the limit is ", context_.limits.max_rank));
    }
    context_.ChargeElement<Dimension>();
    Dimension dim;
    r.Nested("dim", Size(shape), nullptr, [&](std::string_view b) {
      for (MessageReader d(context_, b); d.Next();) {
        switch (d.tag()) {
          case 1:
            dim = {d.Int64(), ""};
            break;
          case 2:
            dim = {std::nullopt, d.Name()};
            break;
          default:
            d.Skip();
        }
      }
    });
    // Some exporters write -1 where they mean that the dimension isn't known.
    if (dim.value == -1) dim.value.reset();
    if (dim.value.value_or(0) < 0) context_.Fail(StrCat("dimension ", *dim.value, " is negative"));
    shape.push_back(std::move(dim));
  }
}

void ProtoReader::ReadFunction(std::string_view bytes, Function& function) {
  for (MessageReader r(context_, bytes); r.Next();) {
    switch (r.tag()) {
      case 1:
        function.name = r.Name();
        break;
      case 4:
        AddName(r, function.inputs, "inputs of a function");
        break;
      case 5:
        AddName(r, function.outputs, "outputs of a function");
        break;
      case 6:
        AddName(r, function.attributes, "attributes of a function");
        break;
      case 7: {
        CountNode();
        Node node;
        node.index = Size(function.nodes);
        r.Nested("node", node.index, &node.name, [&](std::string_view b) { ReadNode(b, node); });
        function.nodes.push_back(std::move(node));
        break;
      }
      case 9:
        context_.ChargeObject<std::pair<StringPair, StringPair>>();
        r.Nested("opset_import", -1, nullptr, [&](std::string_view b) { function.opset_imports.insert(ReadOpset(b)); });
        break;
      case 10:
        function.domain = CanonicalDomain(r.Name());
        break;
      case 11: {
        CountOperand(Size(function.attributes_with_default), "attributes of a function");
        context_.ChargeElement<Attribute>();
        Attribute attribute;
        r.Nested("attribute_proto", Size(function.attributes_with_default), &attribute.name,
                 [&](std::string_view b) { ReadAttribute(b, attribute); });
        function.attributes_with_default.push_back(std::move(attribute));
        break;
      }
      case 13:
        function.overload = r.Name();
        break;
      default:
        r.Skip();
    }
  }
  if (function.name.empty()) context_.Fail("the function has no name");
}

bool StartsWith(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

/// What the bytes are when they are obviously no protocol buffer; empty when they may be one.
std::string OtherFormat(std::string_view bytes) {
  constexpr size_t kSample = 512;
  if (bytes.empty()) return "the file is empty";
  static constexpr std::pair<std::string_view, const char*> kMagics[] = {
      {"PK\x03\x04", "a ZIP archive"},
      {"\x1f\x8b", "gzip-compressed"},
      {"\x7f"
       "ELF",
       "an ELF binary (a compiled model?)"},
      {"\x89PNG", "a PNG picture"},
      {"\xff\xd8\xff", "a JPEG picture"},
      {"GIF8", "a GIF picture"},
      {"%PDF", "a PDF document"},
      {"GGUF", "a GGUF file"},
      {"\x80\x02", "a Python pickle (a PyTorch checkpoint?)"},
      {"\x89HDF", "an HDF5 file"},
      {"\x93NUMPY", "a NumPy array"},
      {"\x28\xb5\x2f\xfd", "zstd-compressed"},
      {"version https://git-lfs", "a Git LFS pointer (run git lfs pull)"},
  };
  for (const auto& [magic, text] : kMagics) {
    if (StartsWith(bytes, magic)) return StrCat("the file is ", text, ", not an ONNX model");
  }
  if (StartsWith(bytes.substr(std::min<size_t>(4, bytes.size())), "ORTM"))
    return "the file is an ORT-format model; convert it from the ONNX original";
  if (StartsWith(bytes.substr(std::min<size_t>(4, bytes.size())), "TFL3"))
    return "the file is a TensorFlow Lite model, not an ONNX model";
  std::string_view sample = bytes.substr(0, kSample);
  std::string_view trimmed = sample.substr(std::min(sample.find_first_not_of(" \t\r\n\xef\xbb\xbf"), sample.size()));
  if (StartsWith(trimmed, "<!DOCTYPE") || StartsWith(trimmed, "<!doctype") || StartsWith(trimmed, "<html") ||
      StartsWith(trimmed, "<HTML")) {
    return "the file is an HTML page, not an ONNX model (a failed download?)";
  }
  auto is_text = [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t' || c < 0; };
  if (static_cast<unsigned char>(bytes[0]) >= 0x20 && std::all_of(sample.begin(), sample.end(), is_text)) {
    return "the file is text, not an ONNX model";
  }
  if (trimmed.empty()) return "the file is blank, not an ONNX model";
  return "";
}

std::string ParentDirectory(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Model ReadModelImpl(const MappedBytes& mapped, const std::string& source, ExternalFiles& files,
                    const ReadLimits& limits, WeightStorage storage) {
  std::string other = OtherFormat(mapped.bytes);
  if (!other.empty()) throw ModelFormatError(StrCat(source, ": ", other));
  ReadContext context{source, mapped.bytes, mapped.owner, limits, storage, {}};
  const auto size = static_cast<int64_t>(mapped.bytes.size());
  context.max_memory = limits.max_memory != 0 ? limits.max_memory : std::max(kFreeMemory, size * kMostMemoryOfFile);
  Model model;
  model.source = source;
  model.owners.push_back(mapped.owner);
  ProtoReader(context, files).ReadModel(mapped.bytes, model);
  CheckGraph(model);
  return model;
}

}  // namespace

Model ReadModelFile(const std::string& path, const ReadLimits& limits, WeightStorage storage) {
  MappedBytes mapped = MapFile(path, limits.max_message_bytes);
  ExternalFiles files(path, ParentDirectory(path));
  return ReadModelImpl(mapped, path, files, limits, storage);
}

Model ReadModelBytes(std::string_view bytes, std::shared_ptr<const void> owner, const std::string& source,
                     const std::string& base_dir, const ReadLimits& limits) {
  if (static_cast<int64_t>(bytes.size()) > limits.max_message_bytes) {
    throw ModelFormatError(
        StrCat(source, ": the model has ", bytes.size(), " bytes; the limit is ", limits.max_message_bytes));
  }
  ExternalFiles files("", base_dir);
  return ReadModelImpl({bytes, std::move(owner)}, source, files, limits, WeightStorage::kViews);
}

}  // namespace treadle::onnx
