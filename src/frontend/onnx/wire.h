// SPDX-License-Identifier: Apache-2.0
// Protocol buffer wire format for proto_reader.cc: protozero with checked wire types, limits, and errors that say
// where in the message they are.
#pragma once

#include <cstdint>
#include <exception>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/model.h"
#include "frontend/onnx/proto_reader.h"
#include "treadle/base/error.h"

namespace treadle::onnx {

/// Where in the file the reader is, and what is counted over the whole file.
struct ReadContext {
  struct Level {
    const char* field;
    int64_t index;            ///< of repeated fields, else -1
    const std::string* name;  ///< name of the thing being read, once known; may be null
  };
  std::string source;
  std::string_view bytes;             ///< the whole file
  std::shared_ptr<const void> owner;  ///< of `bytes`
  ReadLimits limits;
  WeightStorage storage;
  std::vector<Level> path;  ///< from the outermost message inwards; left as it is when an error is thrown
  int64_t node_count = 0;
  int subgraph_depth = 0;
  int64_t memory = 0;      ///< bytes that what was read takes
  int64_t max_memory = 0;  ///< what it may take

  /// "m.onnx: graph.node[3] 'conv1'.attribute[0]".
  std::string Where() const;
  [[noreturn]] void Fail(const std::string& message) const;
  /// Counts memory before it is taken: a file of two bytes for each of its parts must not fill the machine's.
  void Charge(int64_t bytes) {
    memory += bytes;
    if (memory > max_memory) FailMemory();
  }
  /// For one more element of a vector, which grows by doubling.
  template <typename T>
  void ChargeElement() {
    Charge(static_cast<int64_t>(2 * sizeof(T)));
  }
  /// For an object of its own.
  template <typename T>
  void ChargeObject() {
    Charge(static_cast<int64_t>(sizeof(T) + kAllocation));
  }
  static constexpr int64_t kAllocation = 32;  ///< what an allocation takes besides its bytes

 private:
  [[noreturn]] void FailMemory() const;
};

/// Reads one message field by field.
///
///     for (MessageReader r(context, bytes); r.Next();) {
///       switch (r.tag()) { case 1: x = r.Int64(); break; default: r.Skip(); }
///     }
class MessageReader {
 public:
  MessageReader(ReadContext& context, std::string_view bytes)
      : context_(context), reader_(bytes.data(), bytes.size()) {}

  bool Next();
  uint32_t tag() const { return reader_.tag(); }
  void Skip();

  int64_t Int64();
  int32_t Int32() { return static_cast<int32_t>(Int64()); }
  float Float();
  /// Bytes of a nested message, of a string or of raw data.
  std::string_view Bytes();
  std::string String() { return Copied(Bytes()); }
  /// A string that names something: at most `max_name_bytes` long, without NUL.
  std::string Name();

  // Repeated numbers, packed or one by one: appended to `out`.
  void AppendInts(std::vector<int64_t>& out);
  void AppendInts(std::vector<int32_t>& out);
  void AppendInts(std::vector<uint64_t>& out);
  void AppendFloats(std::vector<float>& out);
  void AppendDoubles(std::vector<double>& out);

  /// Reads a nested message: calls `read(bytes)` with the place pushed onto the context's path.
  template <typename Read>
  void Nested(const char* field, int64_t index, const std::string* name, Read&& read) {
    Nest(Bytes(), field, index, name, read);
  }
  ReadContext& context() { return context_; }

 private:
  /// What a string holds itself costs nothing more.
  std::string Copied(std::string_view bytes) {
    if (bytes.size() > 15) context_.Charge(static_cast<int64_t>(bytes.size()) + ReadContext::kAllocation);
    return std::string(bytes);
  }
  template <typename Read>
  void Nest(std::string_view bytes, const char* field, int64_t index, const std::string* name, Read& read) {
    context_.path.push_back({field, index, name});
    if (static_cast<int>(context_.path.size()) > context_.limits.max_message_depth) {
      context_.Fail(StrCat("messages are nested more than ", context_.limits.max_message_depth, " deep"));
    }
    read(bytes);
    context_.path.pop_back();  // not on an exception: the path says where it happened
  }
  void Expect(protozero::pbf_wire_type type, const char* expected);
  void CheckVarint(const char* begin, const char* end, int bits) const;
  template <typename T>
  void AppendVarints(std::vector<T>& out);
  template <typename T>
  void AppendFixed(std::vector<T>& out, protozero::pbf_wire_type single);

  ReadContext& context_;
  protozero::pbf_reader reader_;
};

}  // namespace treadle::onnx
