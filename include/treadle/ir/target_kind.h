// SPDX-License-Identifier: Apache-2.0
// The kinds of targets, as far as parsing target strings and schedules ask: names, options, machine models. Targets
// bring the rest (treadle/targets/target_spec.h), and register their kinds here when they are registered themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "treadle/ir/target.h"

namespace treadle {

/// An option of a target: -name=value.
struct TargetOption {
  enum class Type {
    kText,
    kInteger,  ///< from `min` to `max`
    kFlag,     ///< 0 or 1; without a value 1
    kList,     ///< words separated by commas
    kTarget,   ///< a target string, in quotes
  };
  std::string name;
  Type type = Type::kText;
  std::string doc;
  int64_t min = std::numeric_limits<int64_t>::min(), max = std::numeric_limits<int64_t>::max();
  std::vector<std::string> values = {};  ///< those allowed; empty: any

  /// "text", "integer", ...
  std::string TypeName() const;
  /// What values it takes: "an integer from 0 to 3", "soft or hard", ...
  std::string Expected() const;
};

/// A name that stands for a target string, such as "host".
struct TargetTag {
  std::string name, text;
};

struct TargetKind {
  std::string name;
  std::string doc;                    ///< one line
  std::vector<std::string> keys;      ///< default keys of its targets: families of schedules, such as "cpu"
  std::vector<TargetOption> options;  ///< besides CommonTargetOptions()
  std::vector<TargetTag> tags;
  /// What TargetNode::Features() gives; null: a machine of which nothing is known.
  std::function<TargetFeatures(const TargetNode& target)> features;
};

/// Throws TargetError where there is a kind or a tag of that name already.
void RegisterTargetKind(TargetKind kind);
/// Throws TargetError that lists the kinds there are.
const TargetKind& GetTargetKind(const std::string& name);
/// What targets of every kind take.
const std::vector<TargetOption>& CommonTargetOptions();

}  // namespace treadle
