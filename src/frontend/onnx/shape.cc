// SPDX-License-Identifier: Apache-2.0
// Shape, order and extent of tensors: reshape, transpose, concat, split, slice, ...
#include <algorithm>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/symbolic_dims.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// A dimension list with -1 for symbolic dimensions, as Reshape understands it; refuses more than one.
Expr ReshapeTo(NodeImport& n, const Expr& x, const Array<PrimExpr>& shape) {
  return n.Call("reshape", {x}, {{"newshape", ObjectRef(shape)}, {"allowzero", true}});
}

Expr ImportReshape(NodeImport& n) {
  if (n.version() > 1 && !n.IsKnown(1)) return ImportDynamicReshape(n);
  Ints shape = n.version() == 1 ? n.Ints("shape") : n.ConstantInts(1, "shape");
  if (n.version() == 1) n.Ignore({"consumed_inputs"});
  bool allow_zero = n.Flag("allowzero", false);
  bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  auto unknown = std::count(shape.begin(), shape.end(), -1);
  for (int64_t dim : shape) {
    if (dim < -1) n.Invalid(StrCat("the new shape has a dimension of ", dim));
  }
  if (unknown > 1) n.Invalid("the new shape has more than one -1");
  if (allow_zero && has_zero && unknown > 0) n.Invalid("the new shape has both 0 and -1, and allowzero is 1");
  for (size_t i = 0; !allow_zero && i < shape.size(); ++i) {
    if (shape[i] == 0 && static_cast<int>(i) >= n.Rank(0)) {
      n.Invalid(StrCat("the new shape copies dimension ", i, ", the operand has rank ", n.Rank(0)));
    }
  }
  return n.Call("reshape", {n.In(0)}, {{"newshape", shape}, {"allowzero", allow_zero}});
}

Expr ImportFlatten(NodeImport& n) {
  int rank = n.Rank(0);
  int64_t axis = n.Int("axis", 1);
  if (axis < -rank || axis > rank) n.Invalid(StrCat("axis ", axis, " is out of range for rank ", rank));
  if (axis < 0) axis += rank;
  PrimExpr rows(int64_t{1}), columns(int64_t{1});
  const Array<PrimExpr>& shape = TypeOf(n.In(0))->shape;
  // -1 stands for nothing in particular next to a dimension of 0.
  const bool empty =
      std::any_of(shape.begin(), shape.end(), [](const PrimExpr& dim) { return tir::is_const_int(dim, 0); });
  if (axis == 1 && !empty) return n.Call("reshape", {n.In(0)}, {{"newshape", Ints{rank == 0 ? 1 : 0, -1}}});
  if (!IsStatic(TypeOf(n.In(0)))) return ImportDynamicFlatten(n, static_cast<int>(axis));
  for (int i = 0; i < rank; ++i) {
    PrimExpr& side = i < axis ? rows : columns;
    side = PrimExpr(*AsConstInt(side) * n.StaticDim(n.In(0), i));
  }
  return ReshapeTo(n, n.In(0), {rows, columns});
}

Expr ImportTranspose(NodeImport& n) {
  int rank = n.Rank(0);
  Ints reversed;
  for (int i = rank; i-- > 0;) reversed.push_back(i);
  Ints perm = n.Ints("perm", reversed);
  if (static_cast<int>(perm.size()) != rank) n.Invalid(StrCat("'perm' has ", perm.size(), " entries for rank ", rank));
  for (int64_t axis : perm) {
    if (axis < 0) n.Invalid(StrCat("'perm' has an entry ", axis));
  }
  return n.Transpose(n.In(0), n.Axes(perm, rank));
}

/// Without the dimensions `axes`, and without those of `unknown`, which may be 1, that are: as many as a choice for
/// each number of them says.
[[noreturn]] void SqueezeUnknown(NodeImport& n, const Ints& axes, const Ints& unknown) {
  const Term x = In(n, 0);
  Ints kept, all = axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) kept.push_back(i);
  }
  all.insert(all.end(), unknown.begin(), unknown.end());
  const Term sizes = ShapeOf(x).Take(IntVec(n, kept)), is_one = sizes == IntNum(n, 1);
  const Term count = is_one.As(DataType::Int(64)).Sum({0}), order = MaskedLast(is_one).order;
  auto without = [&](size_t ones) -> Expr {
    if (ones == 0) return n.Squeeze(x, axes);
    if (ones == unknown.size()) return n.Squeeze(x, all);
    return ReshapeTo(x, sizes.Take(order.Slice(0, 0, static_cast<int64_t>(kept.size() - ones))));
  };
  ForkSide rest{{without(0)}, nullptr, ""};
  for (size_t ones = 1; ones <= unknown.size(); ++ones) {
    const RankFork fork{
        count == IntNum(n, static_cast<int64_t>(ones)), {{without(ones)}, nullptr, ""}, rest, {n.IsText(0)}};
    rest = ForkSide{{}, std::make_shared<RankFork>(fork), ""};
  }
  throw RankFork(*rest.further);
}

/// Removes all dimensions of 1. Where one that isn't known may be 1, what follows is imported for either rank.
Expr SqueezeAll(NodeImport& n) {
  Expr x = n.In(0);
  Ints axes, unknown;
  for (int i = 0; i < RankOf(x); ++i) {
    const int64_t* dim = AsConstInt(TypeOf(x)->shape[static_cast<size_t>(i)]);
    if (dim == nullptr) unknown.push_back(i);
    if (dim != nullptr && *dim == 1) axes.push_back(i);
  }
  if (unknown.empty()) return n.Squeeze(x, axes);
  SqueezeUnknown(n, axes, unknown);
}

Expr ImportSqueeze(NodeImport& n) {
  if (n.version() >= 13 && n.Has(1) && !n.IsKnown(1)) return ImportRunTimeSqueeze(n);
  int rank = n.Rank(0);
  std::optional<Ints> axes = n.version() < 13 ? n.OptInts("axes") : n.OptionalInts(1, "axes");
  if (!axes) return SqueezeAll(n);
  return n.Squeeze(n.In(0), n.Axes(*axes, rank));
}

Expr ImportUnsqueeze(NodeImport& n) {
  if (n.version() >= 13 && !n.IsKnown(1)) return ImportRunTimeUnsqueeze(n);
  Ints axes = n.version() < 13 ? n.Ints("axes") : n.ConstantInts(1, "axes");
  axes = n.Axes(axes, n.Rank(0) + static_cast<int>(axes.size()));
  std::sort(axes.begin(), axes.end());
  Expr x = n.In(0);
  for (size_t i = 0; i < axes.size();) {
    size_t run = 1;
    while (i + run < axes.size() && axes[i + run] == axes[i] + static_cast<int64_t>(run)) ++run;
    x = n.ExpandDims(x, static_cast<int>(axes[i]), static_cast<int>(run));
    i += run;
  }
  return x;
}

Expr ImportConcat(NodeImport& n) {
  Array<Expr> parts = n.AllInputs();
  if (parts.empty()) n.Invalid("there are no inputs");
  std::optional<int64_t> default_axis;
  if (n.version() == 1) default_axis = 1;
  int axis = n.Axis(n.Int("axis", default_axis), RankOf(parts[0]));
  return parts.size() == 1 ? parts[0] : n.Concat(parts, axis);
}

/// Sizes of the parts: given, or equal (the last one smaller since version 18).
Ints SplitSizes(NodeImport& n, int64_t extent) {
  std::optional<Ints> sizes;
  if (n.version() >= 13 || (n.version() == 1 && n.Has(1))) {
    sizes = n.OptionalInts(1, "split");
  } else {
    sizes = n.OptInts("split");
  }
  auto outputs = static_cast<int64_t>(n.node().outputs.size());
  if (!sizes) {
    int64_t count = n.Int("num_outputs", outputs);
    if (count < 1 || count != outputs) n.Invalid(StrCat("'num_outputs' is ", count, ", the node has ", outputs));
    if (extent % count != 0 && n.version() < 18)
      n.Invalid(StrCat(extent, " can't be split into ", count, " equal parts"));
    int64_t size = CeilDiv(extent, count);
    sizes.emplace();
    if (extent < (count - 1) * size) n.Invalid(StrCat(extent, " elements don't make ", count, " parts of ", size));
    for (int64_t i = 0; i < count; ++i) sizes->push_back(std::min(extent - i * size, size));
  }
  int64_t sum = 0;
  for (int64_t size : *sizes) {
    if (size < 0 || __builtin_add_overflow(sum, size, &sum)) n.Invalid(StrCat("a part has the size ", size));
  }
  if (sum != extent) n.Invalid(StrCat("the parts' sizes add up to ", sum, ", the dimension has ", extent));
  if (static_cast<int64_t>(sizes->size()) != outputs) {
    n.Invalid(StrCat("there are ", sizes->size(), " sizes for ", outputs, " outputs"));
  }
  return *sizes;
}

std::vector<Expr> ImportSplit(NodeImport& n) {
  Expr x = n.In(0);
  int axis = n.Axis(n.Int("axis", 0), n.Rank(0));
  if (AsConstInt(TypeOf(x)->shape[static_cast<size_t>(axis)]) == nullptr ||
      (n.version() >= 13 && n.Has(1) && !n.IsKnown(1))) {
    return ImportDynamicSplit(n, axis);
  }
  Ints sizes = SplitSizes(n, n.StaticDim(x, axis));
  if (sizes.size() == 1) return {x};
  Array<PrimExpr> begins;
  int64_t begin = 0;
  std::vector<Expr> parts;
  bool known = KnownValue(x) != nullptr;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) begins.push_back(PrimExpr(begin));
    if (known) parts.push_back(n.Slice(x, axis, begin, begin + sizes[i]));
    begin += sizes[i];
  }
  if (known) return parts;
  Expr tuple = n.Call("split", {x}, {{"indices_or_sections", ObjectRef(begins)}, {"axis", int64_t{axis}}});
  for (size_t i = 0; i < sizes.size(); ++i) parts.push_back(n.Item(tuple, static_cast<int>(i)));
  return parts;
}

/// Bounds of one sliced axis for strided_slice, given its size: clamped as the standard says.
void ClampSlice(int64_t size, int64_t step, int64_t& begin, int64_t& end) {
  auto from_start = [size](int64_t i) { return i < 0 ? i + size : i; };
  if (step > 0) {
    begin = std::clamp<int64_t>(from_start(begin), 0, size);
    end = std::clamp<int64_t>(from_start(end), 0, size);
    end = std::max(begin, end);
    return;
  }
  begin = std::clamp<int64_t>(from_start(begin), size > 0 ? 0 : -1, size - 1);  // what is before the first is the first
  end = std::clamp<int64_t>(from_start(end), -1, size - 1);
  end = std::min(begin, end);
  if (begin < 0) begin = end = 0;  // nothing
  if (end < 0) end = -size - 1;    // down to the first element
}

Expr ImportSlice(NodeImport& n) {
  int rank = n.Rank(0);
  bool attributes = n.version() == 1;
  if (!attributes && SliceIsDynamic(n)) return ImportDynamicSlice(n);
  Ints begin = attributes ? n.Ints("starts") : n.ConstantInts(1, "starts");
  Ints end = attributes ? n.Ints("ends") : n.ConstantInts(2, "ends");
  std::optional<Ints> axes = attributes ? n.OptInts("axes") : n.OptionalInts(3, "axes");
  Ints steps = attributes ? Ints(begin.size(), 1) : n.OptionalInts(4, "steps").value_or(Ints(begin.size(), 1));
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < begin.size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (begin.size() != end.size() || begin.size() != axes->size() || begin.size() != steps.size()) {
    n.Invalid("'starts', 'ends', 'axes' and 'steps' have different lengths");
  }
  *axes = n.Axes(*axes, rank);
  for (size_t i = 0; i < begin.size(); ++i) {
    if (steps[i] == 0) n.Invalid("a step is 0");
    const int64_t* size = AsConstInt(TypeOf(n.In(0))->shape[static_cast<size_t>((*axes)[i])]);
    if (size == nullptr && steps[i] < 0) n.StaticDim(n.In(0), static_cast<int>((*axes)[i]));
    if (size != nullptr) ClampSlice(*size, steps[i], begin[i], end[i]);
  }
  if (begin.empty()) return n.In(0);
  return n.Call("strided_slice", {n.In(0)},
                {{"begin", begin}, {"end", end}, {"strides", steps}, {"axes", *axes}, {"slice_mode", "end"}});
}

Expr ImportShape(NodeImport& n) {
  int64_t rank = n.Rank(0);
  auto bound = [&](const char* name, int64_t otherwise) {
    int64_t value = n.Int(name, otherwise);
    return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank);
  };
  int64_t begin = bound("start", 0);
  int64_t end = std::max(begin, bound("end", rank));
  Ints dims;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t* dim = AsConstInt(TypeOf(n.In(0))->shape[static_cast<size_t>(i)]);
    if (dim != nullptr) dims.push_back(*dim);
  }
  if (static_cast<int64_t>(dims.size()) == end - begin) return n.IntVector(dims);
  Expr shape = n.Call("shape_of", {n.In(0)}, {{"dtype", DataType::Int(64)}});
  return begin == 0 && end == rank ? shape : n.Slice(shape, 0, begin, end);
}

Expr ImportSize(NodeImport& n) {
  if (!IsStatic(TypeOf(n.In(0)))) return n.Call("ndarray_size", {n.In(0)}, {{"dtype", DataType::Int(64)}});
  int64_t count = 1;
  for (int64_t dim : n.StaticShape(0)) {
    if (__builtin_mul_overflow(count, dim, &count)) n.Invalid("the operand has too many elements");
  }
  return n.Const(ArrayOf(Ints{count}, Ints{}, DataType::Int(64)));
}

/// The result's shape is what the operand's and the given one broadcast to.
Expr ImportExpand(NodeImport& n) {
  if (!n.IsKnown(1) || !IsStatic(TypeOf(n.In(0)))) return ImportDynamicExpand(n);
  Ints given = n.ConstantInts(1, "shape");
  Expr x = n.In(0);
  const Array<PrimExpr>& shape = TypeOf(x)->shape;
  size_t rank = std::max(given.size(), shape.size());
  Array<PrimExpr> target;
  for (size_t i = 0; i < rank; ++i) {
    size_t from_end = rank - i;
    int64_t wanted = from_end <= given.size() ? given[given.size() - from_end] : 1;
    if (wanted < 0) n.Invalid(StrCat("the shape has a dimension of ", wanted));
    if (from_end > shape.size()) {
      target.push_back(PrimExpr(wanted));
      continue;
    }
    PrimExpr dim = shape[shape.size() - from_end];
    const int64_t* size = AsConstInt(dim);
    if (size != nullptr && *size != wanted && *size != 1 && wanted != 1) {
      n.Invalid(StrCat("dimension ", *size, " can't be expanded to ", wanted));
    }
    bool keep = wanted == 1 || (size == nullptr && wanted != 1);
    if (size == nullptr && wanted != 1) n.StaticDim(x, static_cast<int>(shape.size() - from_end));
    target.push_back(keep ? dim : PrimExpr(wanted));
  }
  return n.Call("broadcast_to", {x}, {{"shape", ObjectRef(target)}});
}

/// Of a number of copies that only a run knows; it may know some of them, and so some dimensions of the result.
Expr ImportDynamicTile(NodeImport& n, int rank) {
  const int64_t* entries = n.Rank(1) == 1 ? AsConstInt(TypeOf(n.In(1))->shape[0]) : nullptr;
  if (entries != nullptr && *entries != rank) n.Invalid(StrCat(*entries, " repeats for rank ", rank));
  if (n.Rank(1) != 1) n.Invalid("'repeats' isn't a vector");
  // As many as the operand has dimensions: checked when it runs.
  Expr tiled = n.Call("dyn.tile", {n.In(0), entries != nullptr ? n.In(1) : n.Reshape(n.In(1), {rank})});
  auto sizes = n.ShapeElements(n.In(1));
  if (!sizes || static_cast<int>(sizes->size()) != rank) return tiled;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const PrimExpr &dim = TypeOf(n.In(0))->shape[i], &copies = (*sizes)[i];
    (*sizes)[i] = copies.defined() && !IsAnyDim(copies) && !IsAnyDim(dim) ? copies * dim : AnyDim();
  }
  return WithDims(n, tiled, SizeHints(sizes, rank));
}

Expr ImportTile(NodeImport& n) {
  int rank = n.Rank(0);
  Ints reps;
  if (n.version() == 1) {
    reps.assign(static_cast<size_t>(rank), 1);
    reps[static_cast<size_t>(n.Axis(n.ConstantInt(2, "axis"), rank))] = n.ConstantInt(1, "tiles");
  } else {
    if (!n.IsKnown(1)) return ImportDynamicTile(n, rank);
    reps = n.ConstantInts(1, "repeats");
  }
  if (static_cast<int>(reps.size()) != rank) n.Invalid(StrCat(reps.size(), " repeats for rank ", rank));
  for (int64_t rep : reps) {
    if (rep < 0) n.Invalid(StrCat("a repeat is ", rep));
  }
  return n.Call("tile", {n.In(0)}, {{"reps", reps}});
}

Expr ImportIdentity(NodeImport& n) { return n.In(0); }

/// Dimension `axis` over a number that has to divide it; nothing where only the run knows the dimension.
std::optional<Term> DimOver(NodeImport& n, const Term& x, int axis, int64_t divisor) {
  const int64_t* size = AsConstInt(x.shape()[static_cast<size_t>(axis)]);
  if (size == nullptr) return std::nullopt;
  if (*size % divisor != 0) n.Invalid(StrCat("'blocksize' doesn't divide dimension ", axis, ", which is ", *size));
  return IntNum(n, *size / divisor);
}

/// nn.depth_to_space or nn.space_to_depth, whose rules check in a run that the block divides the dimensions: reshapes
/// of operands without elements would take any.
Expr MoveBlocks(NodeImport& n, const char* op, int64_t block, const std::string& mode) {
  return n.Call(op, {n.In(0)}, {{"block_size", block}, {"mode", mode}});
}

int64_t BlockSize(NodeImport& n) {
  const int64_t block = n.Int("blocksize");
  if (n.Rank(0) != 4) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected 4"));
  if (block < 1 || block > (1 << 15)) n.Invalid(StrCat("'blocksize' is ", block));
  return block;
}

/// Moves channels into blocks of pixels (`to_space`) or back, by reshaping to 6 dimensions.
Expr ImportDepthToSpace(NodeImport& n) {
  const int64_t block = BlockSize(n);
  std::string mode = n.Str("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
  Term x = In(n, 0), b = IntNum(n, block), batch = DimOf(x, 0), height = DimOf(x, 2), width = DimOf(x, 3);
  const std::optional<Term> depth = DimOver(n, x, 1, block * block);
  if (!depth) return MoveBlocks(n, "nn.depth_to_space", block, mode);
  Term y = mode == "DCR" ? ReshapeTo(x, {batch, b, b, *depth, height, width}).Permute({0, 3, 4, 1, 5, 2})
                         : ReshapeTo(x, {batch, *depth, b, b, height, width}).Permute({0, 1, 4, 2, 5, 3});
  return ReshapeTo(y, {batch, *depth, height * b, width * b});
}

Expr ImportSpaceToDepth(NodeImport& n) {
  const int64_t block = BlockSize(n);
  std::string mode = n.version() < 28 ? "DCR" : n.Str("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
  Term x = In(n, 0), b = IntNum(n, block), batch = DimOf(x, 0), depth = DimOf(x, 1);
  const std::optional<Term> height = DimOver(n, x, 2, block), width = DimOver(n, x, 3, block);
  if (!height || !width) return MoveBlocks(n, "nn.space_to_depth", block, mode);
  Term y = ReshapeTo(x, {batch, depth, *height, b, *width, b});
  y = y.Permute(mode == "DCR" ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4});
  return ReshapeTo(y, {batch, depth * b * b, *height, *width});
}

/// Cuts from or adds to both ends of the axes until they have the given sizes.
Expr ImportCenterCropPad(NodeImport& n) {
  if (!n.IsKnown(1) || !IsStatic(TypeOf(n.In(0)))) return ImportRunTimeCenterCropPad(n);
  int rank = n.Rank(0);
  Ints target = n.ConstantInts(1, "shape");
  Ints axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (n.HasAttr("axes")) axes = n.Axes(n.Ints("axes"), rank);
  if (axes.size() != target.size()) n.Invalid(StrCat(target.size(), " sizes for ", axes.size(), " axes"));
  Expr x = n.In(0);
  Ints before(static_cast<size_t>(rank), 0), after(static_cast<size_t>(rank), 0);
  bool pads = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = static_cast<int>(axes[i]);
    int64_t size = n.StaticDim(x, axis);
    if (target[i] < 0 || target[i] > INT32_MAX) n.Invalid(StrCat("a size is ", target[i]));
    if (target[i] < size) {
      int64_t begin = (size - target[i]) / 2;
      x = n.Slice(x, axis, begin, begin + target[i]);
    } else if (target[i] > size) {
      before[static_cast<size_t>(axis)] = (target[i] - size) / 2;
      after[static_cast<size_t>(axis)] = target[i] - size - (target[i] - size) / 2;
      pads = true;
    }
  }
  return pads ? n.Pad(x, before, after, n.Scalar(n.DType(0), 0), "constant") : x;
}

/// The same bits as another type of the same size.
Expr ImportBitCast(NodeImport& n) {
  DataType dtype = n.TypeAttr("to");
  if (dtype.is_bool() && n.DType(0).bits() == 8) {
    n.Unsupported("bytes as bools aren't implemented: only 0 and 1 are bools");
  }
  if (n.DType(0).is_bool() && dtype.bits() == 8) return n.Cast(n.In(0), dtype);
  if (dtype.bits() != n.DType(0).bits()) n.Invalid(StrCat("bits of ", n.DType(0), " as ", dtype));
  if (dtype == n.DType(0)) return n.In(0);
  return n.Call("reinterpret", {n.In(0)}, {{"dtype", dtype}});
}

}  // namespace

void RegisterShapeRules(RuleTable& table) {
  table.Add1("Reshape", {1, 5, 13, 14, 19, 21, 23, 24, 25}, ImportReshape);
  table.Add1("Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, ImportFlatten);
  table.Add1("Transpose", {1, 13, 21, 23, 24, 25}, ImportTranspose);
  table.Add1("Squeeze", {1, 11, 13, 21, 23, 24, 25}, ImportSqueeze);
  table.Add1("Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, ImportUnsqueeze);
  table.Add1("Concat", {1, 4, 11, 13}, ImportConcat);
  table.Add("Split", {1, 2, 11, 13, 18}, ImportSplit);
  table.Add1("Slice", {1, 10, 11, 13}, ImportSlice);
  table.Add1("Shape", {1, 13, 15, 19, 21, 23, 24, 25}, ImportShape);
  table.Add1("Size", {1, 13, 19, 21, 23, 24, 25}, ImportSize);
  table.Add1("Expand", {8, 13}, ImportExpand);
  table.Add1("Tile", {1, 6, 13}, ImportTile);
  table.Add1("Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, ImportIdentity);
  table.Add1("CenterCropPad", {18}, ImportCenterCropPad);
  table.Add1("BitCast", {26}, ImportBitCast);
  table.Add1("DepthToSpace", {1, 11, 13, 28}, ImportDepthToSpace);
  table.Add1("SpaceToDepth", {1, 13, 28}, ImportSpaceToDepth);
}

}  // namespace treadle::onnx
