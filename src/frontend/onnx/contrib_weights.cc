// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators whose weights have 2, 4 or 8 bits and a scale per block.
#include <algorithm>
#include <optional>

#include "frontend/onnx/contrib.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Number `i` of numbers of `bits` bits packed in bytes, the first in the low bits.
int Unpacked(const uint8_t* bytes, int64_t i, int64_t bits) {
  const int64_t at = i * bits;
  return (bytes[at / 8] >> (at % 8)) & ((1 << bits) - 1);
}

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

/// Columns, rows and packing of the weight of MatMulNBits.
struct NBits {
  int64_t k, n, bits, block, blocks;
};

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
  const int64_t row = (w.blocks * w.bits + 7) / 8;
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
  Ints hints(shape.size(), -1);
  hints.back() = columns;
  return n.Call("dyn.reshape", {y, n.Concat({n.Slice(sizes, 0, 0, last), units}, 0)}, {{"newshape", hints}});
}

/// Weights in the order in which kernels read them, with their scales and scaled zero points.
struct PackedWeights {
  NDArray words, scales, zeros;
};

PackedWeights Pack(const NBits& w, const NDArray& packed, const std::vector<double>& scales,
                   const std::vector<double>& zeros) {
  constexpr int64_t kLanes = 16;
  const int64_t columns = (w.n + kLanes - 1) / kLanes, numbers = 32 / w.bits, padded = w.blocks * w.block;
  const int64_t words = padded / numbers, bytes = w.block * w.bits / 8;
  PackedWeights result{NDArray::Empty({columns, words, kLanes}, DataType::Int(32)),
                       NDArray::Empty({columns, w.blocks, kLanes}, DataType::Float(32)),
                       NDArray::Empty({columns, w.blocks, kLanes}, DataType::Float(32))};
  auto* to = result.words.Data<uint32_t>();
  std::fill(to, to + result.words.size(), 0U);
  std::fill(result.scales.Data<float>(), result.scales.Data<float>() + result.scales.size(), 0.0F);
  std::fill(result.zeros.Data<float>(), result.zeros.Data<float>() + result.zeros.size(), 0.0F);
  for (int64_t column = 0; column < w.n; ++column) {
    const uint8_t* from = packed.Data<uint8_t>() + column * w.blocks * bytes;
    for (int64_t i = 0; i < padded; ++i) {
      const auto value = static_cast<uint32_t>(Unpacked(from, i, w.bits));
      const int64_t in_word = i % numbers;
      // Of 8 numbers of 4 bits the first four are the low halves of bytes.
      const int64_t shift = w.bits == 8 ? 8 * in_word : in_word < 4 ? 8 * in_word : 8 * (in_word - 4) + 4;
      to[(column / kLanes * words + i / numbers) * kLanes + column % kLanes] |= value << shift;
    }
    for (int64_t b = 0; b < w.blocks; ++b) {
      const auto at = static_cast<size_t>(column * w.blocks + b);
      const int64_t place = (column / kLanes * w.blocks + b) * kLanes + column % kLanes;
      const auto scale = static_cast<float>(scales[at]);
      result.scales.Data<float>()[place] = scale;
      result.zeros.Data<float>()[place] = scale * static_cast<float>(zeros[at]);
    }
  }
  return result;
}

/// Rows of `x` (float32, k columns) as bytes with a scale for every block, times the weights. Two bytes for each number
/// unless one will do for `accuracy`, the level that the node allows.
Expr BlockProduct(NodeImport& n, Expr x, const NBits& w, const PackedWeights& weights, std::optional<double> zero_point,
                  int64_t accuracy) {
  constexpr int64_t kInt8Level = 4;
  const DataType f32 = DataType::Float(32), i32 = DataType::Int(32), i8 = DataType::Int(8);
  const int64_t padded = w.blocks * w.block;
  const int digits = accuracy == kInt8Level ? 1 : 2;
  const double most = digits == 1 ? 127 : 127 * 128;
  x = n.Reshape(x, {-1, w.k});
  if (padded > w.k) x = n.Pad(x, {0, 0}, {0, padded - w.k}, n.Scalar(f32, 0), "constant");
  Expr blocks = n.Reshape(x, {-1, w.blocks, w.block});
  const AttrList last{{"axis", Ints{2}}, {"keepdims", true}};
  Expr scale = n.Call("divide", {n.Call("max", {n.Call("abs", {blocks})}, last), n.Scalar(f32, most)});
  // Blocks of zeros have scale 0, and become whatever 0 / 0 becomes, times 0.
  Expr numbers =
      n.Call("qnn.contrib_round_clip", {n.Call("divide", {blocks, scale})}, {{"a_min", -most}, {"a_max", most}});
  Expr sums = n.Cast(n.Call("sum", {numbers}, {{"axis", Ints{2}}}), f32);
  Expr of_rows = n.Reshape(scale, {-1, w.blocks});
  sums = n.Call("multiply", {sums, of_rows});
  if (zero_point) sums = n.Call("multiply", {sums, n.Scalar(f32, *zero_point)});
  Expr high = numbers, low;
  if (digits == 2) {
    high = n.Call("right_shift", {n.Call("add", {numbers, n.Scalar(i32, 64)}), n.Scalar(i32, 7)});
    low = n.Call("subtract", {numbers, n.Call("left_shift", {high, n.Scalar(i32, 7)})});
  }
  auto rows = [&](const Expr& values) { return n.Reshape(n.Cast(values, i8), {-1, padded}); };
  Expr bytes = rows(high);
  return n.Call("qnn.contrib_block_dense",
                {bytes, low.defined() ? rows(low) : bytes, of_rows, sums, n.Const(weights.words),
                 n.Const(weights.scales), n.Const(zero_point ? weights.scales : weights.zeros)},
                {{"units", w.n}, {"bits", w.bits}, {"digits", int64_t{digits}}, {"symmetric", zero_point.has_value()}});
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

/// A, B (N, blocks, bytes of a block), scales (N, blocks), zero points, g_idx, bias: A times B', dequantised.
Expr ImportMatMulNBits(NodeImport& n) {
  NBits w{n.Int("K"), n.Int("N"), Bits(n), BlockSize(n, -1), 0};
  const int64_t accuracy = n.Int("accuracy_level", 0);
  if (n.Int("weight_prepacked", 0) != 0) n.Unsupported("weights packed for other devices aren't implemented");
  if (w.k < 1 || w.n < 1) n.Invalid(StrCat("'K' is ", w.k, ", 'N' is ", w.n));
  w.blocks = (w.k + w.block - 1) / w.block;
  const NDArray packed = n.Constant(1, "B");
  const std::vector<double> scales = n.ConstantFloats(2, "scales"), zeros = ZeroPoints(n, w);
  if (packed.dtype() != DataType::UInt(8) || packed.size() != w.n * w.blocks * w.block * w.bits / 8 ||
      scales.size() != static_cast<size_t>(w.n * w.blocks)) {
    n.Invalid("'B' or 'scales' has the wrong number of elements");
  }
  const DataType dtype = n.DType(0);
  if (n.StaticDim(n.In(0), n.Rank(0) - 1) != w.k) n.Invalid(StrCat("'K' is ", w.k, ", rows of A have another size"));
  // Sums of a block must stay within 24 bits to be exact.
  constexpr int64_t kLongestBlock = 256;
  Expr y;
  if (n.Has(4) || w.bits == 2 || w.block > kLongestBlock) {
    NDArray weight = Unfolded(w, packed, scales, zeros, BlockOfRow(n, w));
    y = n.Call("nn.dense", {n.In(0), n.Cast(n.Const(weight), dtype)}, {{"units", w.n}});
  } else {
    std::optional<double> zero_point = zeros[0];
    for (double zero : zeros) {
      if (zero != zeros[0]) zero_point.reset();
    }
    y = BlockProduct(n, n.Cast(n.In(0), DataType::Float(32)), w, Pack(w, packed, scales, zeros), zero_point, accuracy);
    if (n.Rank(0) != 2) y = Restored(n, y, n.In(0), w.n);
    y = n.Cast(y, dtype);
  }
  return n.Has(5) ? n.Call("add", {y, n.In(5)}) : y;
}

/// Rows of a table of bytes, dequantised after they are taken. Indices out of range give zeros.
Expr ImportGatherBlockQuantized(NodeImport& n) {
  n.AllowSubByte();  // int4 and uint4 come as a byte for each
  const int64_t bits = Bits(n), block = BlockSize(n, 128);
  const NDArray data = n.Constant(0, "data");
  const int rank = static_cast<int>(data.shape().size());
  const int64_t gather = n.Axis(n.Int("gather_axis", 0), rank), quantize = n.Axis(n.Int("quantize_axis", 1), rank);
  if (gather != 0 || quantize != rank - 1) n.Unsupported("other axes than the first and the last aren't implemented");
  // Numbers in bytes of several are fewer than the scales say.
  const bool bytes_of_several = (data.shape().back() + block - 1) / block != n.StaticDim(n.In(2), rank - 1);
  const bool packed = data.dtype() == DataType::UInt(8) && bits < 8 && bytes_of_several;
  Ints shape = data.shape();
  if (packed) shape.back() *= 8 / bits;
  NDArray table = NDArray::Empty(shape, packed ? DataType::UInt(8) : data.dtype());
  if (packed) {
    for (int64_t i = 0; i < table.size(); ++i) {
      table.Data<uint8_t>()[i] = static_cast<uint8_t>(Unpacked(data.Data<uint8_t>(), i, bits));
    }
  }
  const int64_t blocks = (shape.back() + block - 1) / block;
  const DataType real = n.DType(2);
  auto rows = [&](const Expr& values) {
    return n.Call("take", {values, n.In(1)}, {{"axis", int64_t{0}}, {"mode", "clip"}});
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
      const int64_t row = (blocks * bits + 7) / 8;
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
  const Expr index = n.Cast(n.In(1), DataType::Int(64)),
             size = n.Scalar(DataType::Int(64), static_cast<double>(shape[0]));
  Expr inside = n.Call("logical_and",
                       {n.Call("greater_equal", {index, n.Call("negative", {size})}), n.Call("less", {index, size})});
  inside = n.ExpandDims(inside, RankOf(inside), rank - 1);
  return n.Call("where", {inside, y, n.Scalar(real, 0)});
}

}  // namespace

void RegisterContribWeightRules(RuleTable& table) {
  AddContrib1(table, "MatMulNBits", ImportMatMulNBits);
  AddContrib1(table, "GatherBlockQuantized", ImportGatherBlockQuantized);
}

}  // namespace treadle::onnx
