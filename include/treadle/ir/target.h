// SPDX-License-Identifier: Apache-2.0
// What code is generated for: a kind of backend with options, such as
//
//     llvm -mcpu=x86-64-v3 -mattr=+avx2,-avx512f -num-cores=4
//
// Options are -key=value or bare flags (-system-lib); those a kind doesn't know are an error that lists what it knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "treadle/ir/expr.h"
#include "treadle/runtime/container.h"

namespace treadle {

/// What schedules ask about the machine.
struct TargetFeatures {
  std::string arch;           ///< "x86_64", "aarch64"
  int vector_bits = 128;      ///< width of the widest vector register that is good to use
  int vector_registers = 16;  ///< architectural vector registers of that width
  bool fma = false;           ///< fused multiply-add instructions
  bool f16_convert = false;   ///< instructions between float16 and float32
  bool vnni = false;          ///< dot products of 8-bit integers
  bool native_code = false;   ///< code may have any instruction of the processor, not only what a language states
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;  ///< of one core
  int64_t l3_bytes = 8 << 20;    ///< shared
  int num_cores = 1;
  int vector_lanes(int bits) const { return vector_bits / bits; }
};

class TargetNode : public Object {
 public:
  std::string kind;               ///< "llvm", "c", "stackvm", "opencl", "null"
  std::vector<std::string> keys;  ///< such as "cpu": schedules are chosen by them
  Map<String, String> attrs;      ///< options without the leading dash; a bare flag has value "1"
  std::string tag;                ///< the name it was made from, if any
  ObjectRef host;                 ///< Target of the code that launches kernels; null: the same
  TREADLE_DECLARE_NODE(TargetNode, Object, "Target");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("kind", &TargetNode::kind);
    r.Field("keys", &TargetNode::keys);
    r.Field("attrs", &TargetNode::attrs);
    r.Field("tag", &TargetNode::tag);
    r.Field("host", &TargetNode::host);
  }
  /// The option's value, or nothing.
  std::optional<std::string> GetAttr(const std::string& key) const;
  std::string GetAttr(const std::string& key, const std::string& otherwise) const;
  /// The option as a number; TargetError where it isn't one.
  int64_t GetIntAttr(const std::string& key, int64_t otherwise) const;
  bool HasKey(const std::string& key) const;
  /// Canonical text: equal targets have equal texts, and parsing it gives this target.
  std::string str() const;
  /// Derived from -mtriple, -mcpu, -mattr and, for "native", from this machine.
  TargetFeatures Features() const;
};

class Target : public ObjectRef {
 public:
  /// Parses a target string or the name of a tag ("host"). Throws TargetError with the nearest known names.
  explicit Target(const std::string& text);
  /// `target` with another host; throws TargetError where it already has a different one.
  static Target WithHost(const Target& target, const Target& host);
  TREADLE_REF(Target, ObjectRef, TargetNode);
  std::string str() const { return get()->str(); }
  /// Names of all kinds, with one line each.
  static std::vector<std::pair<std::string, std::string>> ListKinds();
  /// Short names of targets (tags), with what they stand for.
  static std::vector<std::pair<std::string, std::string>> ListTags();
};

}  // namespace treadle
