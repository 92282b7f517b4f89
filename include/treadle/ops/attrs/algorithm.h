// SPDX-License-Identifier: Apache-2.0
// Attributes of sorting, scanning and scattering.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class ArgsortAttrs : public AttrsNode {
 public:
  int axis = -1;
  bool is_ascend = true;
  DataType dtype = DataType::Int(32);
  TREADLE_DECLARE_NODE(ArgsortAttrs, AttrsNode, "relay.attrs.ArgsortAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ArgsortAttrs::axis).Doc("Dimension to sort along");
    r.Field("is_ascend", &ArgsortAttrs::is_ascend).Doc("Smallest first");
    r.Field("dtype", &ArgsortAttrs::dtype).Doc("Type of the indices (argsort)");
  }
};

class TopKAttrs : public AttrsNode {
 public:
  std::optional<int64_t> k = 1;
  int axis = -1;
  std::string ret_type = "both";
  bool is_ascend = false;
  DataType dtype = DataType::Int(32);
  TREADLE_DECLARE_NODE(TopKAttrs, AttrsNode, "relay.attrs.TopKAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("k", &TopKAttrs::k).Doc("How many; below 1: all");
    r.Field("axis", &TopKAttrs::axis).Doc("Dimension to sort along");
    r.Field("ret_type", &TopKAttrs::ret_type).Doc("both, values or indices");
    r.Field("is_ascend", &TopKAttrs::is_ascend).Doc("Smallest first");
    r.Field("dtype", &TopKAttrs::dtype).Doc("Type of the indices");
  }
};

/// cumsum and cumprod.
class ScanopAttrs : public AttrsNode {
 public:
  std::optional<int64_t> axis;
  DataType dtype;
  bool exclusive = false;
  bool reverse = false;
  TREADLE_DECLARE_NODE(ScanopAttrs, AttrsNode, "relay.attrs.ScanopAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ScanopAttrs::axis).Doc("Dimension to scan; absent: the flattened tensor");
    r.Field("dtype", &ScanopAttrs::dtype).Doc("Type of the result; void: that of the input");
    r.Field("exclusive", &ScanopAttrs::exclusive).Doc("Element i combines those before i only");
    r.Field("reverse", &ScanopAttrs::reverse).Doc("Scan from the end");
  }
};

/// scatter (scatter_elements) and scatter_add.
class ScatterAttrs : public AttrsNode {
 public:
  int axis = 0;
  std::string reduction = "update";
  TREADLE_DECLARE_NODE(ScatterAttrs, AttrsNode, "relay.attrs.ScatterAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ScatterAttrs::axis).Doc("Dimension that the indices address");
    r.Field("reduction", &ScatterAttrs::reduction).Doc("update, add, mul, min or max");
  }
};

class ScatterNDAttrs : public AttrsNode {
 public:
  std::string mode = "update";
  TREADLE_DECLARE_NODE(ScatterNDAttrs, AttrsNode, "relay.attrs.ScatterNDAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mode", &ScatterNDAttrs::mode).Doc("update, add, mul, min or max");
  }
};

class SearchSortedAttrs : public AttrsNode {
 public:
  bool right = false;
  DataType dtype = DataType::Int(32);
  TREADLE_DECLARE_NODE(SearchSortedAttrs, AttrsNode, "relay.attrs.SearchSortedAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("right", &SearchSortedAttrs::right).Doc("After equal elements rather than before");
    r.Field("dtype", &SearchSortedAttrs::dtype).Doc("Type of the result");
  }
};

class UniqueAttrs : public AttrsNode {
 public:
  bool sorted = true;
  bool return_counts = false;
  TREADLE_DECLARE_NODE(UniqueAttrs, AttrsNode, "relay.attrs.UniqueAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("sorted", &UniqueAttrs::sorted).Doc("Ascending rather than in order of first appearance");
    r.Field("return_counts", &UniqueAttrs::return_counts).Doc("Also how often each element occurs");
  }
};

class SparseToDenseAttrs : public AttrsNode {
 public:
  std::vector<int64_t> output_shape;
  TREADLE_DECLARE_NODE(SparseToDenseAttrs, AttrsNode, "relay.attrs.SparseToDenseAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("output_shape", &SparseToDenseAttrs::output_shape).Doc("Shape of the result").Required();
  }
};

}  // namespace treadle::ops
