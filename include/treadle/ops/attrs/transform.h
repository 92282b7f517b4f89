// SPDX-License-Identifier: Apache-2.0
// Attributes of operators that move, pick or create elements. Shapes are lists of integer expressions: constants, or
// symbolic dimensions of the enclosing function's types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class ReshapeAttrs : public AttrsNode {
 public:
  Array<PrimExpr> newshape;
  bool allowzero = false;
  TREADLE_DECLARE_NODE(ReshapeAttrs, AttrsNode, "relay.attrs.ReshapeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("newshape", &ReshapeAttrs::newshape)
        .Doc(
            "New dimensions. 0 copies the dimension of the input, -1 is inferred from the others, -2 copies all "
            "remaining ones, -3 multiplies the next two, -4 splits the next one into the two numbers that follow "
            "(one of them may be -1)")
        .Required();
    r.Field("allowzero", &ReshapeAttrs::allowzero).Doc("0 means an empty dimension instead (ONNX Reshape-14)");
  }
};

class TransposeAttrs : public AttrsNode {
 public:
  std::optional<std::vector<int64_t>> axes;
  TREADLE_DECLARE_NODE(TransposeAttrs, AttrsNode, "relay.attrs.TransposeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axes", &TransposeAttrs::axes)
        .Doc("Dimension of the input that each output dimension is; absent: reversed")
        .Required();
  }
};

class SqueezeAttrs : public AttrsNode {
 public:
  std::optional<std::vector<int64_t>> axis;
  TREADLE_DECLARE_NODE(SqueezeAttrs, AttrsNode, "relay.attrs.SqueezeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &SqueezeAttrs::axis).Doc("Dimensions of size 1 to remove; absent: all of them");
  }
};

class ExpandDimsAttrs : public AttrsNode {
 public:
  int axis = 0;
  int num_newaxis = 1;
  TREADLE_DECLARE_NODE(ExpandDimsAttrs, AttrsNode, "relay.attrs.ExpandDimsAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ExpandDimsAttrs::axis).Doc("Where to insert, from -rank - 1 to rank").Required();
    r.Field("num_newaxis", &ExpandDimsAttrs::num_newaxis).Doc("How many dimensions of size 1").AtLeast(0);
  }
};

class ConcatenateAttrs : public AttrsNode {
 public:
  int axis = 0;
  TREADLE_DECLARE_NODE(ConcatenateAttrs, AttrsNode, "relay.attrs.ConcatenateAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ConcatenateAttrs::axis).Doc("Dimension along which to join");
  }
};

class StackAttrs : public AttrsNode {
 public:
  int axis = 0;
  TREADLE_DECLARE_NODE(StackAttrs, AttrsNode, "relay.attrs.StackAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &StackAttrs::axis).Doc("Where the new dimension stands, from -rank - 1 to rank");
  }
};

class SplitAttrs : public AttrsNode {
 public:
  ObjectRef indices_or_sections;
  int axis = 0;
  TREADLE_DECLARE_NODE(SplitAttrs, AttrsNode, "relay.attrs.SplitAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("indices_or_sections", &SplitAttrs::indices_or_sections)
        .Doc("An integer: so many equal parts. A list: where parts two, three, .. begin")
        .Required();
    r.Field("axis", &SplitAttrs::axis).Doc("Dimension to cut");
  }
};

class StridedSliceAttrs : public AttrsNode {
 public:
  std::vector<int64_t> begin, end;
  std::vector<int64_t> strides;
  std::string slice_mode = "end";
  std::optional<std::vector<int64_t>> axes;
  TREADLE_DECLARE_NODE(StridedSliceAttrs, AttrsNode, "relay.attrs.StridedSliceAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("begin", &StridedSliceAttrs::begin).Doc("First index; negative counts from the end").Required();
    r.Field("end", &StridedSliceAttrs::end).Doc("Index to stop before, clamped to the dimension").Required();
    r.Field("strides", &StridedSliceAttrs::strides).Doc("Steps, not 0; missing ones are 1");
    r.Field("slice_mode", &StridedSliceAttrs::slice_mode)
        .Doc("end; or size: `end` holds sizes (-1: all that remains) and strides are ignored");
    r.Field("axes", &StridedSliceAttrs::axes)
        .Doc("Dimensions that the lists speak of; absent: the first ones")
        .Required();
  }
};

class SliceLikeAttrs : public AttrsNode {
 public:
  std::vector<int64_t> axes;
  TREADLE_DECLARE_NODE(SliceLikeAttrs, AttrsNode, "relay.attrs.SliceLikeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axes", &SliceLikeAttrs::axes).Doc("Dimensions to cut to the other tensor's size; empty: all");
  }
};

class TakeAttrs : public AttrsNode {
 public:
  int batch_dims = 0;
  std::optional<int64_t> axis;
  std::string mode = "clip";
  TREADLE_DECLARE_NODE(TakeAttrs, AttrsNode, "relay.attrs.TakeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch_dims", &TakeAttrs::batch_dims).Doc("Leading dimensions that data and indices share");
    r.Field("axis", &TakeAttrs::axis).Doc("Dimension to pick from; absent: the flattened tensor");
    r.Field("mode", &TakeAttrs::mode)
        .Doc(
            "Indices out of range: clip to the nearest, wrap around, or error (negative ones count from the end, "
            "others stop the model with an error)");
  }
};

class GatherAttrs : public AttrsNode {
 public:
  int axis = 0;
  TREADLE_DECLARE_NODE(GatherAttrs, AttrsNode, "relay.attrs.GatherAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &GatherAttrs::axis).Doc("Dimension that the indices address").Required();
  }
};

class GatherNDAttrs : public AttrsNode {
 public:
  int batch_dims = 0;
  std::optional<int64_t> index_rank;
  TREADLE_DECLARE_NODE(GatherNDAttrs, AttrsNode, "relay.attrs.GatherNDAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch_dims", &GatherNDAttrs::batch_dims).Doc("Leading dimensions that data and indices share").AtLeast(0);
    r.Field("index_rank", &GatherNDAttrs::index_rank).Doc("Length of an index, where the shape doesn't tell");
  }
};

class TileAttrs : public AttrsNode {
 public:
  std::vector<int64_t> reps;
  TREADLE_DECLARE_NODE(TileAttrs, AttrsNode, "relay.attrs.TileAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("reps", &TileAttrs::reps).Doc("Copies along each dimension, aligned at the last one").Required();
  }
};

class RepeatAttrs : public AttrsNode {
 public:
  int repeats = 1;
  int axis = 0;
  TREADLE_DECLARE_NODE(RepeatAttrs, AttrsNode, "relay.attrs.RepeatAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("repeats", &RepeatAttrs::repeats).Doc("Copies of each element").AtLeast(0).Required();
    r.Field("axis", &RepeatAttrs::axis).Doc("Dimension along which they stand");
  }
};

class ReverseAttrs : public AttrsNode {
 public:
  int axis = 0;
  TREADLE_DECLARE_NODE(ReverseAttrs, AttrsNode, "relay.attrs.ReverseAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &ReverseAttrs::axis).Doc("Dimension to reverse").Required();
  }
};

class ReverseSequenceAttrs : public AttrsNode {
 public:
  int seq_axis = 1;
  int batch_axis = 0;
  TREADLE_DECLARE_NODE(ReverseSequenceAttrs, AttrsNode, "relay.attrs.ReverseSequenceAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("seq_axis", &ReverseSequenceAttrs::seq_axis).Doc("Dimension whose first elements are reversed");
    r.Field("batch_axis", &ReverseSequenceAttrs::batch_axis).Doc("Dimension that the lengths run along");
  }
};

class SequenceMaskAttrs : public AttrsNode {
 public:
  double mask_value = 0;
  int axis = 0;
  TREADLE_DECLARE_NODE(SequenceMaskAttrs, AttrsNode, "relay.attrs.SequenceMaskAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mask_value", &SequenceMaskAttrs::mask_value).Doc("Value past the length");
    r.Field("axis", &SequenceMaskAttrs::axis).Doc("Dimension of time: 0 or 1; the other is the batch");
  }
};

class CastAttrs : public AttrsNode {
 public:
  DataType dtype;
  TREADLE_DECLARE_NODE(CastAttrs, AttrsNode, "relay.attrs.CastAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dtype", &CastAttrs::dtype).Doc("Type of the result").Required();
  }
};

class ClipAttrs : public AttrsNode {
 public:
  double a_min = 0;
  double a_max = 0;
  TREADLE_DECLARE_NODE(ClipAttrs, AttrsNode, "relay.attrs.ClipAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("a_min", &ClipAttrs::a_min).Doc("Lower bound").Required();
    r.Field("a_max", &ClipAttrs::a_max).Doc("Upper bound").Required();
  }
};

/// zeros, ones, full and broadcast_to.
class InitOpAttrs : public AttrsNode {
 public:
  Array<PrimExpr> shape;
  DataType dtype;
  TREADLE_DECLARE_NODE(InitOpAttrs, AttrsNode, "relay.attrs.InitOpAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("shape", &InitOpAttrs::shape).Doc("Shape of the result");
    r.Field("dtype", &InitOpAttrs::dtype).Doc("Type of the result; void: that of the operand");
  }
};

/// start, stop and step repeat the operands where they are constants: they decide the shape.
class ArangeAttrs : public AttrsNode {
 public:
  std::optional<double> start, stop, step;
  DataType dtype;
  TREADLE_DECLARE_NODE(ArangeAttrs, AttrsNode, "relay.attrs.ArangeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("start", &ArangeAttrs::start).Doc("First element, where constant");
    r.Field("stop", &ArangeAttrs::stop).Doc("Bound that is not included, where constant");
    r.Field("step", &ArangeAttrs::step).Doc("Distance of elements, where constant");
    r.Field("dtype", &ArangeAttrs::dtype).Doc("Type of the result; void: that of the operands");
  }
};

class OneHotAttrs : public AttrsNode {
 public:
  int depth = 0;
  int axis = -1;
  DataType dtype;
  TREADLE_DECLARE_NODE(OneHotAttrs, AttrsNode, "relay.attrs.OneHotAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("depth", &OneHotAttrs::depth).Doc("Size of the new dimension").AtLeast(0);
    r.Field("axis", &OneHotAttrs::axis).Doc("Where the new dimension stands, from -rank - 1 to rank");
    r.Field("dtype", &OneHotAttrs::dtype).Doc("Type of the result; void: that of the values");
  }
};

/// shape_of and ndarray_size.
class ShapeOfAttrs : public AttrsNode {
 public:
  DataType dtype = DataType::Int(32);
  TREADLE_DECLARE_NODE(ShapeOfAttrs, AttrsNode, "relay.attrs.ShapeOfAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dtype", &ShapeOfAttrs::dtype).Doc("Type of the result");
  }
};
class NdarraySizeAttrs : public AttrsNode {
 public:
  DataType dtype = DataType::Int(32);
  TREADLE_DECLARE_NODE(NdarraySizeAttrs, AttrsNode, "relay.attrs.NdarraySizeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dtype", &NdarraySizeAttrs::dtype).Doc("Type of the result");
  }
};

class LayoutTransformAttrs : public AttrsNode {
 public:
  std::string src_layout;
  std::string dst_layout;
  TREADLE_DECLARE_NODE(LayoutTransformAttrs, AttrsNode, "relay.attrs.LayoutTransformAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("src_layout", &LayoutTransformAttrs::src_layout).Doc("Layout of the input, such as NCHW").Required();
    r.Field("dst_layout", &LayoutTransformAttrs::dst_layout).Doc("Layout of the result, such as NCHW16c").Required();
  }
};

class MeshgridAttrs : public AttrsNode {
 public:
  std::string indexing = "ij";
  TREADLE_DECLARE_NODE(MeshgridAttrs, AttrsNode, "relay.attrs.MeshgridAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("indexing", &MeshgridAttrs::indexing).Doc("ij or xy (the first two dimensions swapped)");
  }
};

class MatrixSetDiagAttrs : public AttrsNode {
 public:
  int k1 = 0;
  int k2 = 0;
  bool super_diag_right_align = true;
  bool sub_diag_right_align = false;
  TREADLE_DECLARE_NODE(MatrixSetDiagAttrs, AttrsNode, "relay.attrs.MatrixSetDiagAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("k1", &MatrixSetDiagAttrs::k1).Doc("Lowest diagonal");
    r.Field("k2", &MatrixSetDiagAttrs::k2).Doc("Highest diagonal");
    r.Field("super_diag_right_align", &MatrixSetDiagAttrs::super_diag_right_align).Doc("Alignment above the main one");
    r.Field("sub_diag_right_align", &MatrixSetDiagAttrs::sub_diag_right_align).Doc("Alignment below the main one");
  }
};

class EinsumAttrs : public AttrsNode {
 public:
  std::string equation;
  TREADLE_DECLARE_NODE(EinsumAttrs, AttrsNode, "relay.attrs.EinsumAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("equation", &EinsumAttrs::equation).Doc("Such as ij,jk->ik").Required();
  }
};

class FixedPointMultiplyAttrs : public AttrsNode {
 public:
  int multiplier = 0;
  int shift = 0;
  TREADLE_DECLARE_NODE(FixedPointMultiplyAttrs, AttrsNode, "relay.attrs.FixedPointMultiplyAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("multiplier", &FixedPointMultiplyAttrs::multiplier).Doc("Q31 factor");
    r.Field("shift", &FixedPointMultiplyAttrs::shift).Doc("Power of two");
  }
};

class TriluAttrs : public AttrsNode {
 public:
  bool upper = true;
  TREADLE_DECLARE_NODE(TriluAttrs, AttrsNode, "relay.attrs.TriluAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("upper", &TriluAttrs::upper).Doc("Keep the upper triangle rather than the lower");
  }
};

}  // namespace treadle::ops
