// SPDX-License-Identifier: Apache-2.0
// Operators: one registered object per name, shared by the graph IR ("nn.conv2d") and loop-level code ("tir.exp").
#pragma once

#include <any>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/ir/attrs.h"
#include "treadle/ir/expr.h"
#include "treadle/ir/type.h"

namespace treadle {

/// How an operator may be fused; the numeric order matters.
enum class OpPatternKind : int {
  kElemWise = 0,         ///< output element depends on the input element at the same index
  kBroadcast = 1,        ///< indices kept in order, dimensions may be broadcast
  kInjective = 2,        ///< each output element reads one element of each input at a computed index
  kCommReduce = 3,       ///< reduction; fuses what comes before
  kOutEWiseFusable = 4,  ///< complex; element-wise operators fuse onto its output
  kTuple = 7,
  kOpaque = 8,
};

struct OpArgument {
  std::string name;
  std::string type;
  std::string description;
};

/// Typed key of a property that some layer attaches to operators: its tensor compute, its layout rule, ...
/// Define it once, in the header of the layer that owns it:
/// `inline constexpr OpAttrKey<OpPatternKind> kOpPattern{"TOpPattern"};`
template <typename T>
struct OpAttrKey {
  const char* name;
};

class OpNode : public RelayExprNode {
 public:
  std::string name;
  std::string description;
  std::vector<OpArgument> arguments;
  int num_inputs = -1;  ///< -1: any number
  int support_level = 10;
  const TypeInfo* attrs_type = nullptr;  ///< class of the attributes; null: takes none
  TypeRelationFn type_relation = nullptr;
  std::unordered_map<std::string, std::any> attr_map;
  TREADLE_DECLARE_NODE(OpNode, RelayExprNode, "Op");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &OpNode::name);
  }
};

class Op : public RelayExpr {
 public:
  TREADLE_BASE_REF(Op, RelayExpr, OpNode);
  /// The operator of that name; throws Error with the nearest known names otherwise.
  static const Op& Get(const std::string& name);
  /// The operator of that name, or null.
  static Op Find(const std::string& name);
  /// Names of all registered operators, sorted.
  static std::vector<std::string> ListNames();

  template <typename T>
  const T* GetAttr(const OpAttrKey<T>& key) const {
    auto it = get()->attr_map.find(key.name);
    return it == get()->attr_map.end() ? nullptr : std::any_cast<T>(&it->second);
  }
  template <typename T>
  T GetAttr(const OpAttrKey<T>& key, T otherwise) const {
    const T* value = GetAttr(key);
    return value ? *value : otherwise;
  }
};

/// Registers an operator, or adds properties to a registered one:
/// `OpRegistration("nn.relu").Describe("...").Arguments({{"data", "Tensor", "..."}}).Relation(IdentityRel)`.
class OpRegistration {
 public:
  explicit OpRegistration(const std::string& name);
  OpRegistration& Describe(std::string text);
  /// Also sets the number of inputs.
  OpRegistration& Arguments(std::vector<OpArgument> arguments);
  OpRegistration& NumInputs(int n);
  OpRegistration& SupportLevel(int level);
  template <typename T>
  OpRegistration& AttrsType() {
    node_->attrs_type = T::StaticTypeInfo();
    return *this;
  }
  OpRegistration& Relation(TypeRelationFn relation);
  template <typename T>
  OpRegistration& Set(const OpAttrKey<T>& key, T value) {
    node_->attr_map[key.name] = std::move(value);
    return *this;
  }

 private:
  OpNode* node_;
};

/// Properties of graph operators that passes of several layers ask for.
inline constexpr OpAttrKey<OpPatternKind> kOpPattern{"TOpPattern"};
inline constexpr OpAttrKey<bool> kOpIsStateful{"TOpIsStateful"};          ///< may not be duplicated or removed
inline constexpr OpAttrKey<bool> kNonComputational{"TNonComputational"};  ///< handled by a pass, never lowered
inline constexpr OpAttrKey<bool> kReshapeOp{"TReshapeOp"};                ///< only relabels the shape
inline constexpr OpAttrKey<bool> kDataDependentShape{"TDataDependent"};   ///< result shape depends on values

}  // namespace treadle
