// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

/// check_values: integers of which a model's run depends, such as indices and sizes. Values that break the rule stop
/// the model with a RuntimeError that says where, what and what was expected.
class CheckValuesAttrs : public AttrsNode {
 public:
  std::string rule = "index";
  std::string where, what;
  std::optional<int64_t> exempt;
  TREADLE_DECLARE_NODE(CheckValuesAttrs, AttrsNode, "relay.attrs.CheckValuesAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("rule", &CheckValuesAttrs::rule)
        .Doc(
            "index: from -n to n - 1 for a limit of n, the result counts from the start; at_most: from 0 to the limit; "
            "at_least: the limit or more; not_zero; total: none negative, their sum is the limit; broadcast: 1 or the "
            "limit, or anything from 0 on where that is 1; equal: the limit");
    r.Field("where", &CheckValuesAttrs::where).Doc("What an error says of the place: the node's name");
    r.Field("what", &CheckValuesAttrs::what).Doc("What an error calls the value");
    r.Field("exempt", &CheckValuesAttrs::exempt).Doc("A value that the rule doesn't apply to");
  }
};

}  // namespace treadle::ops
