// SPDX-License-Identifier: Apache-2.0
// Problems of the operators that several kernels compute. Sizes are in elements; -1 stands for a dynamic dimension.
// What a graph has decided before loops are scheduled (blocks of channels, the points of a transformed weight) is part
// of the problem then; 0 says that it is still open.
#pragma once

#include <string>

#include "treadle/relay/layout.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/schedule/plan.h"

namespace treadle::schedule {

/// Two-dimensional convolution. Channels include those that pad the last block.
class ConvProblemNode : public ProblemNode {
 public:
  int64_t batch = 1, ic = 0, ih = 0, iw = 0, oc = 0, oh = 0, ow = 0, kh = 1, kw = 1;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t pad_t = 0, pad_l = 0, pad_b = 0, pad_r = 0, groups = 1;
  DataType dtype = DataType::Float(32), weight_dtype = DataType::Float(32), out_dtype = DataType::Float(32);
  int64_t ic_block = 0, oc_block = 0;  ///< 0: open, or the plain layout NCHW
  int64_t winograd_side = 0;           ///< inputs per side of a tile; 0: open, or direct
  bool constant_weight = true;
  bool indexed_ic = false;  ///< where each input channel lies in the data is looked up
  int64_t data_ic = 0;      ///< channels of the data, more than ic where some aren't read; 0: ic

  // What isn't part of the key; set while a graph is laid out.
  std::string not_blocked;                                 ///< why it can't run on blocked activations at all, or ""
  std::string not_pairs = "the operands aren't bfloat16";  ///< why it can't be computed by pairs of bfloat16, or ""
  bool of_bytes = false;                                   ///< int16 data hold what fits uint8
  relay::ChannelLayout in_layout, out_layout;
  runtime::NDArray weight;         ///< OIHW, with output channels that pad the last block; null where unknown
  runtime::NDArray padded_weight;  ///< with input channels as they are in in_layout, too

  bool is_static() const { return ih >= 0 && iw >= 0 && oh >= 0 && ow >= 0; }
  bool is_depthwise() const { return groups > 1 && groups == ic && oc == ic; }
  TREADLE_DECLARE_NODE(ConvProblemNode, ProblemNode, "schedule.ConvProblem");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch", &ConvProblemNode::batch);
    r.Field("ic", &ConvProblemNode::ic);
    r.Field("ih", &ConvProblemNode::ih);
    r.Field("iw", &ConvProblemNode::iw);
    r.Field("oc", &ConvProblemNode::oc);
    r.Field("oh", &ConvProblemNode::oh);
    r.Field("ow", &ConvProblemNode::ow);
    r.Field("kh", &ConvProblemNode::kh);
    r.Field("kw", &ConvProblemNode::kw);
    r.Field("stride_h", &ConvProblemNode::stride_h);
    r.Field("stride_w", &ConvProblemNode::stride_w);
    r.Field("dilation_h", &ConvProblemNode::dilation_h);
    r.Field("dilation_w", &ConvProblemNode::dilation_w);
    r.Field("pad_t", &ConvProblemNode::pad_t);
    r.Field("pad_l", &ConvProblemNode::pad_l);
    r.Field("pad_b", &ConvProblemNode::pad_b);
    r.Field("pad_r", &ConvProblemNode::pad_r);
    r.Field("groups", &ConvProblemNode::groups);
    r.Field("dtype", &ConvProblemNode::dtype);
    r.Field("weight_dtype", &ConvProblemNode::weight_dtype);
    r.Field("out_dtype", &ConvProblemNode::out_dtype);
    r.Field("ic_block", &ConvProblemNode::ic_block);
    r.Field("oc_block", &ConvProblemNode::oc_block);
    r.Field("winograd_side", &ConvProblemNode::winograd_side);
    r.Field("constant_weight", &ConvProblemNode::constant_weight);
    r.Field("indexed_ic", &ConvProblemNode::indexed_ic);
    r.Field("data_ic", &ConvProblemNode::data_ic);
  }
};

/// Matrix products (batch, m, k) x (batch, k, n).
class MatmulProblemNode : public ProblemNode {
 public:
  int64_t batch = 1, m = 0, n = 0, k = 0;
  DataType dtype = DataType::Float(32), weight_dtype = DataType::Float(32), out_dtype = DataType::Float(32);
  bool transpose_b = false;     ///< the right operand is (batch, n, k)
  bool constant_b = false;      ///< the right operand is constant
  int64_t n_block = 0;          ///< columns that are packed together; 0: open, or not packed
  bool packs_b = false;         ///< the kernel itself packs the right operand
  bool b_is_parameter = false;  ///< nothing in the model computes the right operand
  std::string not_packed;       ///< why the right operand can't be packed, or ""; not part of the key
  runtime::NDArray weight;      ///< a constant right operand; null where unknown; not part of the key
  TREADLE_DECLARE_NODE(MatmulProblemNode, ProblemNode, "schedule.MatmulProblem");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch", &MatmulProblemNode::batch);
    r.Field("m", &MatmulProblemNode::m);
    r.Field("n", &MatmulProblemNode::n);
    r.Field("k", &MatmulProblemNode::k);
    r.Field("dtype", &MatmulProblemNode::dtype);
    r.Field("weight_dtype", &MatmulProblemNode::weight_dtype);
    r.Field("out_dtype", &MatmulProblemNode::out_dtype);
    r.Field("transpose_b", &MatmulProblemNode::transpose_b);
    r.Field("constant_b", &MatmulProblemNode::constant_b);
    r.Field("n_block", &MatmulProblemNode::n_block);
    r.Field("packs_b", &MatmulProblemNode::packs_b);
    r.Field("b_is_parameter", &MatmulProblemNode::b_is_parameter);
  }
};

/// softmax(scale * query key^T + mask) value: query (batch, m, s), key (batch, n, s), value (batch, n, d).
class AttentionProblemNode : public ProblemNode {
 public:
  int64_t batch = 1, m = 0, n = 0, s = 0, d = 0;
  DataType dtype = DataType::Float(32);
  std::string not_packed;  ///< why keys and values can't be packed, or ""; not part of the key
  int64_t n_block = 0;     ///< keys, and columns of values, that are packed together; 0: open, or not packed
  int64_t key_block = 0;   ///< of packed ones, keys whose softmax is taken at a time; 0: all
  TREADLE_DECLARE_NODE(AttentionProblemNode, ProblemNode, "schedule.AttentionProblem");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch", &AttentionProblemNode::batch);
    r.Field("m", &AttentionProblemNode::m);
    r.Field("n", &AttentionProblemNode::n);
    r.Field("s", &AttentionProblemNode::s);
    r.Field("d", &AttentionProblemNode::d);
    r.Field("dtype", &AttentionProblemNode::dtype);
    r.Field("n_block", &AttentionProblemNode::n_block);
    r.Field("key_block", &AttentionProblemNode::key_block);
  }
};

}  // namespace treadle::schedule
