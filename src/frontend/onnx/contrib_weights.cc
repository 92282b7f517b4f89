// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators whose weights have 2, 4 or 8 bits and a scale per block.
#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/contrib.h"
#include "ir/accuracy.h"
#include "ops/block_weights.h"
#include "treadle/base/int_math.h"

namespace treadle::onnx {
namespace {

using ops::qnn::Unpacked;
using relay::Expr;
using Ints = std::vector<int64_t>;
using NBits = ops::qnn::BlockWeights;

int64_t BlockSize(NodeImport& n, int64_t otherwise) {
  const int64_t size = n.Int("block_size", otherwise);
  if (size < 16 || size > (1 << 20) || (size & (size - 1)) != 0) {
    n.Invalid(StrCat("'block_size' is ", size, ", expected a power of two from 16 on"));
  }
  return size;
}

int64_t Bits(NodeImport& n) {
  const int64_t bits = n.Int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) n.Unsupported(StrCat("'bits' of ", bits, " isn't implemented"));
  return bits;
}

/// Zero points (input 3): packed as the weights are, rows padded to whole bytes, or numbers of A's type.
std::vector<double> ZeroPoints(NodeImport& n, const NBits& w) {
  const auto count = static_cast<size_t>(w.n * w.blocks);
  if (!n.Has(3)) return std::vector<double>(count, static_cast<double>(int64_t{1} << (w.bits - 1)));
  const NDArray packed = n.Constant(3, "zero_points");
  if (packed.dtype() != DataType::UInt(8)) {
    std::vector<double> zeros = DoublesOf(packed);
    if (zeros.size() != count) n.Invalid("'zero_points' has the wrong number of elements");
    return zeros;
  }
  const int64_t row = CeilDiv(w.blocks * w.bits, 8);
  if (packed.size() != w.n * row) n.Invalid("'zero_points' has the wrong number of elements");
  std::vector<double> zeros(count);
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<int64_t>(i);
    zeros[i] = Unpacked(packed.Data<uint8_t>() + at / w.blocks * row, at % w.blocks, w.bits);
  }
  return zeros;
}

/// The block of each row of the weight (input 4, of models that order rows by their importance).
Ints BlockOfRow(NodeImport& n, const NBits& w) {
  Ints block(static_cast<size_t>(w.k));
  if (n.Has(4)) {
    block = n.ConstantInts(4, "g_idx");
    if (block.size() < static_cast<size_t>(w.k)) n.Invalid("'g_idx' has too few elements");
    for (int64_t b : block) {
      if (b < 0 || b >= w.blocks) n.Invalid(StrCat("'g_idx' names block ", b, " of ", w.blocks));
    }
    return block;
  }
  for (int64_t i = 0; i < w.k; ++i) block[static_cast<size_t>(i)] = i / w.block;
  return block;
}

/// Rows `y` (rows, columns) in the shape of `x`, which they were made of, but for its last dimension.
Expr Restored(NodeImport& n, const Expr& y, const Expr& x, int64_t columns) {
  Array<PrimExpr> shape = TypeOf(x)->shape;
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  shape.Set(shape.size() - 1, PrimExpr(columns));
  if (std::all_of(shape.begin(), shape.end(), [](const PrimExpr& d) { return AsConstInt(d) != nullptr; })) {
    return n.Call("reshape", {y}, {{"newshape", ObjectRef(shape)}});
  }
  // A kernel that is given rows only can't tell how they are divided: by what `x` has when the model runs.
  const DataType i64 = DataType::Int(64);
  const Expr sizes = n.Call("shape_of", {x}, {{"dtype", i64}});
  const Expr units = n.Reshape(n.Scalar(i64, static_cast<double>(columns)), {1});
  const Array<PrimExpr> hints = shape.Map([](const PrimExpr& d) { return IsAnyDim(d) ? PrimExpr(int64_t{-1}) : d; });
  return n.Call("dyn.reshape", {y, n.Concat({n.Slice(sizes, 0, 0, last), units}, 0)},
                {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
}

/// The weight as float32 (N, K).
NDArray Unfolded(const NBits& w, const NDArray& packed, const std::vector<double>& scales,
                 const std::vector<double>& zeros, const Ints& block) {
  NDArray weight = NDArray::Empty({w.n, w.k}, DataType::Float(32));
  auto* to = weight.Data<float>();
  const int64_t bytes = w.block * w.bits / 8;
  for (int64_t column = 0; column < w.n; ++column) {
    const uint8_t* from = packed.Data<uint8_t>() + column * w.blocks * bytes;
    for (int64_t i = 0; i < w.k; ++i) {
      const auto at = static_cast<size_t>(column * w.blocks + block[static_cast<size_t>(i)]);
      const auto centred = static_cast<float>(Unpacked(from, i, w.bits)) - static_cast<float>(zeros[at]);
      *to++ = centred * static_cast<float>(scales[at]);
    }
  }
  return weight;
}

/// Whether rows are rounded to a byte per element, where the model allows it or not; else to two.
bool RowsAsBytes(bool allowed) {
  switch (treadle::transform::CurrentAccuracy()) {
    case treadle::transform::Accuracy::kStrict:
      return false;
    case treadle::transform::Accuracy::kDefault:
      return allowed;
    case treadle::transform::Accuracy::kFast:
      break;
  }
  return true;
}

/// Operand 0, rows of K elements; if that can't be known before, the run checks it.
Expr RowsOfBlocks(NodeImport& n, const NBits& w) {
  Expr x = n.In(0);
  if (n.Rank(0) < 1) n.Invalid("A is a scalar");
  Array<PrimExpr> dims = TypeOf(x)->shape;
  const size_t last = dims.size() - 1;
  if (const int64_t* k = AsConstInt(dims[last])) {
    if (*k != w.k) n.Invalid(StrCat("'K' is ", w.k, ", rows of A have ", *k));
    return x;
  }
  for (size_t i = 0; i < last; ++i) {
    if (IsAnyDim(dims[i])) dims.Set(i, PrimExpr(int64_t{-1}));
  }
  dims.Set(last, PrimExpr(w.k));
  const Term shape = ShapeOf(Term(n, x)), limit = IntNum(n, w.k);
  const Term most(n,
                  CheckedValues(n, shape.Element(static_cast<int64_t>(last)), "at_most", limit, "size of a row of A"));
  const Term exactly = AtLeast(most, w.k, "size of a row of A");
  const Expr sizes = n.Concat({shape.Slice(0, 0, static_cast<int64_t>(last)), exactly.Reshape({1})}, 0);
  return n.Call("dyn.reshape", {x, sizes}, {{"newshape", ObjectRef(dims)}, {"allowzero", true}});
}

/// A, B (N, blocks, bytes of a block), scales (N, blocks), zero points, g_idx, bias: A times B', dequantised.
Expr ImportMatMulNBits(NodeImport& n) {
  NBits w{n.Int("K"), n.Int("N"), Bits(n), BlockSize(n, -1), 0};
  constexpr int64_t kInt8Level = 4;
  const bool bytes = RowsAsBytes(n.Int("accuracy_level", 0) == kInt8Level);
  if (n.Int("weight_prepacked", 0) != 0) n.Unsupported("weights packed for other devices aren't implemented");
  constexpr int64_t kMost = 1LL << 31;  // rows and columns, so that their product is a number
  if (w.k < 1 || w.n < 1 || w.k > kMost || w.n > kMost) n.Invalid(StrCat("'K' is ", w.k, ", 'N' is ", w.n));
  w.blocks = CeilDiv(w.k, w.block);
  const NDArray packed = n.Constant(1, "B");
  const std::vector<double> scales = n.ConstantFloats(2, "scales");
  if (packed.dtype() != DataType::UInt(8) || packed.size() != w.n * w.blocks * w.block * w.bits / 8 ||
      scales.size() != static_cast<size_t>(w.n * w.blocks)) {
    n.Invalid("'B' or 'scales' has the wrong number of elements");
  }
  const std::vector<double> zeros = ZeroPoints(n, w);
  const DataType dtype = n.DType(0);
  const Expr x = RowsOfBlocks(n, w);
  Expr y;
  if (n.Has(4) || w.bits == 2 || w.block > ops::qnn::kLongestBlock) {
    NDArray weight = Unfolded(w, packed, scales, zeros, BlockOfRow(n, w));
    y = n.Call("nn.dense", {x, n.Cast(n.Const(weight), dtype)}, {{"units", w.n}});
  } else {
    const Expr rows = n.Reshape(n.Cast(x, DataType::Float(32)), {-1, w.k});
    y = ops::qnn::BlockProduct(rows, w, packed, scales, zeros, bytes ? 1 : 2);
    const_cast<relay::ExprNode*>(y.get())->checked_type_ =
        TensorType({TypeOf(rows)->shape[0], PrimExpr(w.n)}, DataType::Float(32));
    if (n.Rank(0) != 2) y = Restored(n, y, x, w.n);
    y = n.Cast(y, dtype);
  }
  return n.Has(5) ? n.Call("add", {y, n.In(5)}) : y;
}

/// Rows of a table of bytes, dequantised after they are taken. Negative indices count from the end; those out of range
/// give zeros.
Expr ImportGatherBlockQuantized(NodeImport& n) {
  n.AllowSubByte();  // int4 and uint4 come as a byte for each
  const int64_t bits = Bits(n), block = BlockSize(n, 128);
  const NDArray data = n.Constant(0, "data");
  const int rank = static_cast<int>(data.shape().size());
  const int64_t gather = n.Axis(n.Int("gather_axis", 0), rank), quantize = n.Axis(n.Int("quantize_axis", 1), rank);
  if (gather != 0 || quantize != rank - 1) n.Unsupported("other axes than the first and the last aren't implemented");
  // Of uint8, a byte holds several numbers; int4 and uint4 come as a byte for each.
  const bool packed = data.dtype() == DataType::UInt(8) && bits < 8 && !n.SubByte(0).has_value();
  Ints shape = data.shape();
  if (packed) shape.back() *= 8 / bits;
  NDArray table = NDArray::Empty(shape, packed ? DataType::UInt(8) : data.dtype());
  if (packed) {
    for (int64_t i = 0; i < table.size(); ++i) {
      table.Data<uint8_t>()[i] = static_cast<uint8_t>(Unpacked(data.Data<uint8_t>(), i, bits));
    }
  }
  const int64_t blocks = CeilDiv(shape.back(), block);
  if (n.Rank(2) != rank || n.StaticDim(n.In(2), rank - 1) != blocks) {
    n.Invalid(StrCat("'scales' isn't of ", blocks, " blocks of ", block, " for rows of ", shape.back(), " numbers"));
  }
  const DataType real = n.DType(2);
  const Term index = In(n, 1).As(DataType::Int(64));
  const auto size = static_cast<double>(shape[0]);
  const Term from_start = (index < 0).Select(index + size, index);
  auto rows = [&](const Expr& values) {
    return n.Call("take", {values, from_start}, {{"axis", int64_t{0}}, {"mode", "clip"}});
  };
  Expr x = n.Cast(rows(n.Const(packed ? table : data)), real), scale = rows(n.In(2));
  auto spread = [&](const Expr& of_blocks) {
    Expr repeated = n.Call("repeat", {of_blocks}, {{"repeats", block}, {"axis", int64_t{RankOf(of_blocks) - 1}}});
    const int last = RankOf(repeated) - 1;
    return blocks * block == shape.back() ? repeated : n.Slice(repeated, last, 0, shape.back());
  };
  if (n.Has(3)) {
    NDArray zeros = n.Constant(3, "zero_points");
    if (packed) {
      Ints zero_shape = shape;
      zero_shape.back() = blocks;
      NDArray wide = NDArray::Empty(zero_shape, DataType::UInt(8));
      const int64_t row = CeilDiv(blocks * bits, 8);
      if (zeros.size() * blocks != wide.size() * row) n.Invalid("'zero_points' has the wrong number of elements");
      for (int64_t i = 0; i < wide.size(); ++i) {
        wide.Data<uint8_t>()[i] =
            static_cast<uint8_t>(Unpacked(zeros.Data<uint8_t>() + i / blocks * row, i % blocks, bits));
      }
      zeros = wide;
    }
    x = n.Call("subtract", {x, spread(n.Cast(rows(n.Const(zeros)), real))});
  } else if (data.dtype() == DataType::UInt(8)) {
    x = n.Call("subtract", {x, n.Scalar(real, static_cast<double>(int64_t{1} << (bits - 1)))});
  }
  Expr y = n.Call("multiply", {x, spread(scale)});
  Expr inside = from_start >= 0 && from_start < size;
  inside = n.ExpandDims(inside, RankOf(inside), rank - 1);
  return n.Call("where", {inside, y, n.Scalar(real, 0)});
}

}  // namespace

void RegisterContribWeightRules(RuleTable& table) {
  AddContrib1(table, "MatMulNBits", ImportMatMulNBits);
  AddContrib1(table, "GatherBlockQuantized", ImportGatherBlockQuantized);
}

}  // namespace treadle::onnx
