// SPDX-License-Identifier: Apache-2.0
// Writes small ONNX models for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/model.h"
#include "frontend/onnx/proto_reader.h"

namespace treadle::onnx::testing {

/// A protocol buffer message under construction.
class Message {
 public:
  Message& Int(uint32_t field, int64_t value) {
    protozero::pbf_writer(data_).add_int64(field, value);
    return *this;
  }
  Message& Float(uint32_t field, float value) {
    protozero::pbf_writer(data_).add_float(field, value);
    return *this;
  }
  Message& Bytes(uint32_t field, const std::string& value) {
    protozero::pbf_writer(data_).add_bytes(field, value);
    return *this;
  }
  Message& Sub(uint32_t field, const Message& message) { return Bytes(field, message.data_); }
  Message& Ints(uint32_t field, const std::vector<int64_t>& values) {
    protozero::pbf_writer(data_).add_packed_int64(field, values.begin(), values.end());
    return *this;
  }
  Message& Floats(uint32_t field, const std::vector<float>& values) {
    protozero::pbf_writer(data_).add_packed_float(field, values.begin(), values.end());
    return *this;
  }
  const std::string& data() const { return data_; }

 private:
  std::string data_;
};

inline Message TensorMessage(const std::string& name, ElemType type, const std::vector<int64_t>& dims,
                             const std::string& raw) {
  Message m;
  for (int64_t dim : dims) m.Int(1, dim);
  return m.Int(2, static_cast<int64_t>(type)).Bytes(8, name).Bytes(9, raw);
}

template <typename T>
std::string RawOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline Message FloatTensor(const std::string& name, const std::vector<int64_t>& dims,
                           const std::vector<float>& values) {
  return TensorMessage(name, ElemType::kFloat, dims, RawOf(values));
}

inline Message Int64Tensor(const std::string& name, const std::vector<int64_t>& dims,
                           const std::vector<int64_t>& values) {
  return TensorMessage(name, ElemType::kInt64, dims, RawOf(values));
}

inline Message IntAttr(const std::string& name, int64_t value) {
  return Message().Bytes(1, name).Int(3, value).Int(20, 2);
}
inline Message FloatAttr(const std::string& name, float value) {
  return Message().Bytes(1, name).Float(2, value).Int(20, 1);
}
inline Message StringAttr(const std::string& name, const std::string& value) {
  return Message().Bytes(1, name).Bytes(4, value).Int(20, 3);
}
inline Message IntsAttr(const std::string& name, const std::vector<int64_t>& values) {
  Message m;
  m.Bytes(1, name);
  for (int64_t value : values) m.Int(8, value);
  return m.Int(20, 7);
}
inline Message TensorAttr(const std::string& name, const Message& tensor) {
  return Message().Bytes(1, name).Sub(5, tensor).Int(20, 4);
}
inline Message GraphAttr(const std::string& name, const Message& graph) {
  return Message().Bytes(1, name).Sub(6, graph).Int(20, 5);
}

inline Message NodeMessage(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {},
                           const std::string& name = "", const std::string& domain = "") {
  Message m;
  for (const std::string& input : inputs) m.Bytes(1, input);
  for (const std::string& output : outputs) m.Bytes(2, output);
  if (!name.empty()) m.Bytes(3, name);
  m.Bytes(4, op);
  for (const Message& attribute : attributes) m.Sub(5, attribute);
  if (!domain.empty()) m.Bytes(7, domain);
  return m;
}

/// A dimension of a declared shape: a number or a symbol.
struct Dim {
  Dim(int64_t v) : message(Message().Int(1, v)) {}                               // NOLINT(google-explicit-constructor)
  Dim(int v) : Dim(int64_t{v}) {}                                                // NOLINT(google-explicit-constructor)
  Dim(const char* symbol) : message(Message().Bytes(2, std::string(symbol))) {}  // NOLINT(google-explicit-constructor)
  Message message;
};

inline Message ValueMessage(const std::string& name, ElemType type, const std::vector<Dim>& dims) {
  Message shape;
  for (const Dim& dim : dims) shape.Sub(1, dim.message);
  Message tensor_type;
  tensor_type.Int(1, static_cast<int64_t>(type)).Sub(2, shape);
  return Message().Bytes(1, name).Sub(2, Message().Sub(1, tensor_type));
}

struct GraphParts {
  std::vector<Message> nodes;
  std::vector<Message> initializers;
  std::vector<Message> inputs;
  std::vector<Message> outputs;
};

inline Message GraphMessage(const GraphParts& parts) {
  Message m;
  for (const Message& node : parts.nodes) m.Sub(1, node);
  m.Bytes(2, std::string("g"));
  for (const Message& tensor : parts.initializers) m.Sub(5, tensor);
  for (const Message& input : parts.inputs) m.Sub(11, input);
  for (const Message& output : parts.outputs) m.Sub(12, output);
  return m;
}

inline Message ModelMessage(const Message& graph, int64_t opset = 13, int64_t ir_version = 8) {
  return Message().Int(1, ir_version).Sub(8, Message().Int(2, opset)).Sub(7, graph);
}

/// Reads a model from bytes; errors call it "m.onnx".
inline Model ReadBytes(const std::string& bytes, const ReadLimits& limits = {}) {
  auto owner = std::make_shared<const std::string>(bytes);
  return ReadModelBytes(*owner, owner, "m.onnx", "", limits);
}
inline Model ReadMessage(const Message& model, const ReadLimits& limits = {}) {
  return ReadBytes(model.data(), limits);
}

}  // namespace treadle::onnx::testing
