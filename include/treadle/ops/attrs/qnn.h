// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators on quantised tensors (qnn.*): a real number is (q - zero_point) * scale.
#pragma once

#include <string>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class QuantizeAttrs : public AttrsNode {
 public:
  int axis = -1;
  DataType out_dtype = DataType::Int(8);
  TREADLE_DECLARE_NODE(QuantizeAttrs, AttrsNode, "relay.attrs.QuantizeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &QuantizeAttrs::axis).Doc("Dimension along which scales and zero points of rank 1 run");
    r.Field("out_dtype", &QuantizeAttrs::out_dtype).Doc("Integer type of the result, of at most 16 bits");
  }
};

class DequantizeAttrs : public AttrsNode {
 public:
  int axis = -1;
  TREADLE_DECLARE_NODE(DequantizeAttrs, AttrsNode, "relay.attrs.DequantizeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &DequantizeAttrs::axis).Doc("Dimension along which scales and zero points of rank 1 run");
  }
};

class RequantizeAttrs : public AttrsNode {
 public:
  int axis = -1;
  std::string rounding = "TONEVEN";
  std::string compute_dtype = "float32";
  DataType out_dtype = DataType::Int(8);
  TREADLE_DECLARE_NODE(RequantizeAttrs, AttrsNode, "relay.attrs.RequantizeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &RequantizeAttrs::axis).Doc("Dimension along which scales and zero points of rank 1 run");
    r.Field("rounding", &RequantizeAttrs::rounding)
        .Doc("To nearest; halves: TONEVEN to even, UPWARD up, TONEAREST away from zero");
    r.Field("compute_dtype", &RequantizeAttrs::compute_dtype).Doc("Type that the result is computed in: float32");
    r.Field("out_dtype", &RequantizeAttrs::out_dtype).Doc("Integer type of the result, of at most 16 bits");
  }
};

class RoundClipAttrs : public AttrsNode {
 public:
  double a_min = 0, a_max = 0, divisor = 1;
  TREADLE_DECLARE_NODE(RoundClipAttrs, AttrsNode, "relay.attrs.RoundClipAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("a_min", &RoundClipAttrs::a_min).Doc("Least result, an integer within +-2^23");
    r.Field("a_max", &RoundClipAttrs::a_max).Doc("Largest result, an integer within +-2^23");
    r.Field("divisor", &RoundClipAttrs::divisor).Doc("What data are divided by first, a float32");
  }
};

class BlockDenseAttrs : public AttrsNode {
 public:
  int64_t units = 0;
  int bits = 4;
  int digits = 1;
  bool symmetric = false;
  TREADLE_DECLARE_NODE(BlockDenseAttrs, AttrsNode, "relay.attrs.BlockDenseAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("units", &BlockDenseAttrs::units).Doc("Columns of the result");
    r.Field("bits", &BlockDenseAttrs::bits).Doc("Bits of a weight, 4 or 8");
    r.Field("digits", &BlockDenseAttrs::digits).Doc("Bytes of a number of the data, 1 or 2");
    r.Field("symmetric", &BlockDenseAttrs::symmetric)
        .Doc("Weights have one zero point, by which `sums` is multiplied already");
  }
};

class BlockProductAttrs : public AttrsNode {
 public:
  int64_t units = 0;
  int bits = 4;
  int digits = 1;
  bool symmetric = false;
  double zero_point = 0;
  TREADLE_DECLARE_NODE(BlockProductAttrs, AttrsNode, "relay.attrs.BlockProductAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("units", &BlockProductAttrs::units).Doc("Columns of the result");
    r.Field("bits", &BlockProductAttrs::bits).Doc("Bits of a weight, 4 or 8");
    r.Field("digits", &BlockProductAttrs::digits).Doc("Bytes that a number of the data is rounded to at most, 1 or 2");
    r.Field("symmetric", &BlockProductAttrs::symmetric).Doc("Weights have one zero point");
    r.Field("zero_point", &BlockProductAttrs::zero_point).Doc("That of symmetric weights");
  }
};

class ListedDenseAttrs : public AttrsNode {
 public:
  int64_t units = 0;
  int64_t forms = 1;
  TREADLE_DECLARE_NODE(ListedDenseAttrs, AttrsNode, "relay.attrs.ListedDenseAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("units", &ListedDenseAttrs::units).Doc("Columns of the result");
    r.Field("forms", &ListedDenseAttrs::forms)
        .Doc(
            "Forms of a row's words, one after the other, 1 or even: the words, the same with odd bytes x as 255 - x, "
            "then both with bytes in the order 0 2 1 3, then 1 2 3 0");
  }
};

}  // namespace treadle::ops
