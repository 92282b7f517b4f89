// SPDX-License-Identifier: Apache-2.0
// ComputePrecision: the number format in which products are computed. Those that the model states in 16 bits, and those
// that the user asks for (option relay.precision), become what the machine computes well: products of bfloat16 summed
// in float32 where it has an instruction for them that is faster than those of float32, else products of float32 whose
// constant operand stays in 16 bits in memory and is widened as it is read. Sums are float32 either way, and so is what
// follows them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "passes/pass_util.h"
#include "targets/cpu/graph/passes.h"
#include "targets/cpu/kernels/tile_intrin.h"
#include "targets/cpu/kernels/word_conv.h"
#include "targets/cpu/machine.h"
#include "treadle/base/half.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/traits.h"
#include "treadle/relay/layout.h"

namespace treadle::relay {
namespace {

const DataType kWide = DataType::Float(32);

/// What the user asks for.
struct Request {
  DataType narrow = kWide;  ///< of products that the model states in float32
  bool where_faster = false;
};

Request RequestOf(const transform::PassContext& context) {
  const std::string name = context->GetConfigString(kComputePrecision, "f32");
  if (name == "f32") return {};
  if (name == "bf16") return {DataType::BFloat(16), false};
  if (name == "f16") return {DataType::Float(16), false};
  if (name == "mixed") return {DataType::BFloat(16), true};
  throw Error(StrCat("precision '", name, "'; expected f32, bf16, f16 or mixed"));
}

/// Names of layers that keep float32, between newlines.
bool IsKept(const CallNode* call, const std::string& kept) {
  return !kept.empty() && call->span.defined() && kept.find(StrCat("\n", call->span.str(), "\n")) != std::string::npos;
}

runtime::NDArray Narrowed(const runtime::NDArray& from, DataType to) {
  runtime::NDArray result = runtime::NDArray::Empty(from.shape(), to);
  const auto* source = from.Data<float>();
  auto* codes = result.Data<uint16_t>();
  const int64_t size = from.size();
  if (!to.is_bfloat16()) {
    for (int64_t i = 0; i < size; ++i) codes[i] = FloatToHalf(source[i]);
    return result;
  }
  for (int64_t i = 0; i < size; ++i) {
    uint32_t bits;
    std::memcpy(&bits, source + i, sizeof bits);
    codes[i] =
        static_cast<uint16_t>(std::isnan(source[i]) ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  return result;
}

/// Whether every number of a constant is one of float16 that isn't infinite: weights beyond its range stay wide.
bool FitsHalf(const runtime::NDArray& values) {
  constexpr float kMost = 65504;
  const auto* data = values.Data<float>();
  return std::all_of(data, data + values.size(), [](float x) { return !(std::fabs(x) > kMost); });
}

bool IsNarrow(const TensorTypeNode* type) {
  return type != nullptr && (type->dtype.is_float16() || type->dtype.is_bfloat16());
}

/// How a machine multiplies bfloat16, where that is faster than products of float32.
struct PairProducts {
  bool dots = false;         ///< sums of two products in vector registers
  bool tiles = false;        ///< products of tile registers: of matrices, of attention, of windows over all channels
  bool of_few_rows = false;  ///< sums of two products where reading weights takes longer than they do
  bool any() const { return dots || tiles; }
};

PairProducts PairProductsOf(const Target& target) {
  if (!target.defined()) return {};
  const bool emulated = target->GetIntAttr("emulate-intrinsics", 0) != 0;
  const TargetNode& node = *target.get();
  return {emulated || targets::BFloat16DotPays(node), targets::TilesOf(node).pairs, targets::HasBFloat16Dot(node)};
}

class ProductNarrower : public MixedModeMutator {
 public:
  ProductNarrower(const Request& request, std::string kept, const PairProducts& pairs)
      : request_(request), kept_(std::move(kept)), pairs_(pairs) {}

  /// Names of the layers that were narrowed.
  const Array<String>& narrowed() const { return narrowed_; }

 private:
  using MixedModeMutator::Rewrite_;

  Expr Cast(const Expr& e, DataType dtype) {
    if (const auto* constant = e.as<ConstantNode>();
        constant != nullptr && constant->data.dtype() == kWide && constant->data.IsCompact()) {
      Expr& known = casts_[{e.get(), dtype.code()}];
      if (!known.defined()) known = Constant(Narrowed(constant->data, dtype), e->span);
      return known;
    }
    Expr& known = casts_[{e.get(), dtype.code()}];
    if (!known.defined()) known = MakeNarrower(e, dtype);
    kept_alive_.push_back(e);
    return known;
  }

  /// What isn't constant becomes bfloat16 only for products of pairs.
  static Expr MakeNarrower(const Expr& e, DataType dtype) {
    return dtype.is_bfloat16() ? ops::CallOp("nn.contrib_pair_cast", {e}) : ops::MakeCast(e, dtype);
  }

  template <typename AttrsT>
  static Expr WithSums(const CallNode* call, const Array<Expr>& args) {
    auto attrs = MakeObject<AttrsT>(*call->attrs.as<AttrsT>());
    attrs->out_dtype = kWide;
    return Call(call->op, args, Attrs(ObjectPtr<Object>(attrs)), {}, call->span);
  }
  /// The call, with sums in float32; null where it isn't a product of matrices.
  static Expr Product(const CallNode* call, const Array<Expr>& args) {
    if (call->attrs.as<ops::DenseAttrs>() != nullptr) return WithSums<ops::DenseAttrs>(call, args);
    if (call->attrs.as<ops::MatmulAttrs>() != nullptr) return WithSums<ops::MatmulAttrs>(call, args);
    if (call->attrs.as<ops::BatchMatmulAttrs>() != nullptr) return WithSums<ops::BatchMatmulAttrs>(call, args);
    return Expr();
  }
  static bool IsMatrixProduct(const std::string& name) {
    return name == "nn.dense" || name == "nn.matmul" || name == "nn.batch_matmul";
  }
  static bool IsConvolution(const std::string& name) {
    return name == "nn.conv1d" || name == "nn.conv2d" || name == "nn.conv3d" || name == "nn.conv2d_transpose";
  }

  static constexpr double kFewRows = 8, kRowsOfSlowDots = 4;
  static double RowsOf(const Expr& data) {
    double rows = 1;
    const auto* type = TensorTypeOf(data);
    for (size_t i = 0; i + 1 < type->shape.size(); ++i) {
      const int64_t* extent = AsConstInt(type->shape[i]);
      rows *= extent == nullptr ? kFewRows + 1 : static_cast<double>(*extent);
    }
    return rows;
  }

  /// Whether narrow operands make a product faster: enough arithmetic to make up for rounding the left one.
  bool Pays(const CallNode* pre) const {
    constexpr int64_t kLeastColumns = 32;
    // Widening weights pays where reading them is what takes time.
    if (!pairs_.any() && RowsOf(pre->args[0]) > kFewRows) return false;
    const auto* weight = TensorTypeOf(pre->args[1]);
    const int64_t* columns = AsConstInt(weight->shape[weight->shape.size() - 1]);
    const int64_t* rows = AsConstInt(weight->shape[weight->shape.size() - 2]);
    return columns != nullptr && rows != nullptr && std::min(*columns, *rows) >= kLeastColumns;
  }

  /// A product that the model states in float32, computed as asked.
  Expr Narrow(const CallNode* pre, const CallNode* call) {
    const Expr &data = call->args[0], &weight = call->args[1];
    const bool constant = weight.as<ConstantNode>() != nullptr;
    if (request_.narrow == kWide || IsKept(pre, kept_)) return Expr();
    if (request_.where_faster && !Pays(pre)) return Expr();
    const bool few = pairs_.of_few_rows && constant && RowsOf(pre->args[0]) <= kRowsOfSlowDots;
    if (request_.narrow.is_bfloat16() && (pairs_.any() || few)) {
      return Product(call, {Cast(data, request_.narrow), Cast(weight, request_.narrow)});
    }
    if (!constant || (request_.narrow.is_float16() && !FitsHalf(weight.as<ConstantNode>()->data))) return Expr();
    return Product(call, {data, Cast(weight, request_.narrow)});
  }

  /// A product that the model states in 16 bits.
  Expr Stated(const CallNode* pre, const CallNode* call) {
    Expr data = call->args[0], weight = call->args[1];
    const bool pairs = TensorTypeOf(pre->args[0])->dtype.is_bfloat16() &&
                       TensorTypeOf(pre->args[1])->dtype.is_bfloat16() && pairs_.any();
    if (!pairs) {
      data = Cast(data, kWide);
      if (weight.as<ConstantNode>() == nullptr) weight = Cast(weight, kWide);
    }
    Expr sum = Product(call, {data, weight});
    const DataType out = TensorTypeOf(GetRef<Expr>(pre))->dtype;
    return out == kWide ? sum : ops::MakeCast(sum, out);
  }

  static bool IsDepthwise(const ops::Conv2DAttrs& attrs, const TensorTypeNode* weight) {
    return attrs.groups > 1 && attrs.groups == *AsConstInt(weight->shape[0]) && *AsConstInt(weight->shape[1]) == 1;
  }

  /// Whether kernels compute a convolution of bfloat16: by pairs of channels, or each channel by itself.
  bool HasNarrowConv(const CallNode* call, const TensorTypeNode* data, const TensorTypeNode* weight) const {
    constexpr int64_t kLeastChannels = 16, kWholeGroup = 8, kHalfBytes = 2;
    const auto* attrs = call->attrs.as<ops::Conv2DAttrs>();
    if (!pairs_.any() || attrs == nullptr || !attrs->IsIn("NCHW", "OIHW") ||
        call->args[1].as<ConstantNode>() == nullptr) {
      return false;
    }
    const int64_t outputs = *AsConstInt(weight->shape[0]), inputs = *AsConstInt(weight->shape[1]);
    const int64_t groups = attrs->groups;
    if (outputs < kLeastChannels) return false;
    if (IsDepthwise(*attrs, weight)) return true;
    if (groups != 1 && pairs_.tiles && IsStatic(data)) {
      const int64_t merged = ops::cpu::GroupsOfTiles(groups, inputs, outputs / groups, kHalfBytes);
      if (merged == 1 || (merged > 1 && !ops::cpu::KeepsZerosApart(DataType::BFloat(16)))) return true;
    }
    if (groups != 1 && !pairs_.dots) return false;
    // Of one channel half of each word would be empty. Blocks that groups don't fill multiply zeros.
    return groups == 1 ? inputs >= 2 : inputs % kWholeGroup == 0 && outputs / groups % kWholeGroup == 0;
  }

  /// A convolution that the model states in float32 with operands in bfloat16, where that makes it faster; else null.
  Expr NarrowConv(const CallNode* pre, const CallNode* call, const TensorTypeNode* weight) {
    const auto* attrs = call->attrs.as<ops::Conv2DAttrs>();
    const bool narrow =
        request_.narrow.is_bfloat16() && !IsKept(pre, kept_) && HasNarrowConv(call, TensorTypeOf(pre->args[0]), weight);
    // Windows over one channel take the same time in either format, but where products between them are of tiles: there
    // the bytes that are read and written count.
    const bool same = IsDepthwise(*attrs, weight) && !pairs_.tiles;
    if (!narrow || !attrs->out_dtype.is_void() || same) return Expr();
    return WithSums<ops::Conv2DAttrs>(call,
                                      {Cast(call->args[0], request_.narrow), Cast(call->args[1], request_.narrow)});
  }

  /// A convolution that the model states in 16 bits.
  Expr StatedConv(const CallNode* pre, const CallNode* call, const TensorTypeNode* weight) {
    const DataType out = TensorTypeOf(GetRef<Expr>(pre))->dtype;
    if (out.is_bfloat16() && HasNarrowConv(call, TensorTypeOf(pre->args[0]), weight)) {
      return ops::MakeCast(WithSums<ops::Conv2DAttrs>(call, call->args), out);
    }
    Array<Expr> args = call->args.Map([&](const Expr& arg) { return Cast(arg, kWide); });
    return ops::MakeCast(Call(call->op, args, call->attrs, {}, call->span), out);
  }

  /// What is widened from bfloat16; null where `e` isn't.
  static Expr WidenedFrom(const Expr& e, const Expr& pre) {
    const auto *cast = AsCallOf(e, "cast"), *typed = AsCallOf(pre, "cast");
    if (cast == nullptr || typed == nullptr || !TensorTypeOf(typed->args[0])->dtype.is_bfloat16()) return Expr();
    return cast->args[0];
  }

  /// Attention with operands in bfloat16, as the model states them or the user asks for, where its products are those
  /// of pairs or tiles; else null.
  Expr NarrowAttention(const CallNode* pre, const CallNode* call) {
    const int64_t least_queries = pairs_.dots ? 8 : 16;  // those of a tile
    Array<Expr> stated;
    for (size_t i = 0; i < 3; ++i) {
      if (const Expr narrow = WidenedFrom(call->args[i], pre->args[i]); narrow.defined()) stated.push_back(narrow);
    }
    const bool asked = request_.narrow.is_bfloat16() && !IsKept(pre, kept_);
    if (!pairs_.any() || (!asked && stated.size() < 3)) return Expr();
    const auto* query = TensorTypeOf(pre->args[0]);
    const size_t rank = query->shape.size();
    const int64_t *queries = AsConstInt(query->shape[rank - 2]), *size = AsConstInt(query->shape[rank - 1]);
    const bool enough = queries == nullptr || *queries >= least_queries;
    const bool pays = enough && size != nullptr && (*size % 2 == 0 || pairs_.tiles);
    if (!pays || query->dtype != kWide || !HasNarrowAttention(pre)) return Expr();
    Array<Expr> args = call->args;
    for (size_t i = 0; i < 3; ++i) args.Set(i, stated.size() == 3 ? stated[i] : Cast(args[i], request_.narrow));
    return Call(call->op, args, call->attrs, {}, call->span);
  }

  /// Whether kernels compute attention of bfloat16: tiles whatever the numbers of samples, queries and keys are.
  bool HasNarrowAttention(const CallNode* call) const {
    auto is_static = [&](size_t arg) { return IsStatic(TensorTypeOf(call->args[arg])); };
    if (is_static(0) && is_static(1) && is_static(2) && is_static(3)) return true;
    auto rows = [&](size_t arg) { return AsConstInt(TensorTypeOf(call->args[arg])->shape.back()) != nullptr; };
    return pairs_.tiles && rows(0) && rows(2);
  }

  Expr Noted(const CallNode* pre, const Expr& result) {
    if (result.defined() && pre->span.defined()) narrowed_.push_back(pre->span.str());
    return result;
  }

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    const auto* op = pre->op.as<OpNode>();
    if (call == nullptr || op == nullptr || call->args.size() < 2) return post;
    if (op->name == "nn.attention") {
      const Expr narrow = Noted(pre, NarrowAttention(pre, call));
      return narrow.defined() ? narrow : post;
    }
    if (ops::MixedPrecisionRuleOf(GetRef<Op>(op)) != MixedPrecisionKind::kAlways) return post;
    const auto *data = TensorTypeOf(pre->args[0]), *weight = TensorTypeOf(pre->args[1]);
    const auto* out = TensorTypeOf(GetRef<Expr>(pre));
    if (data == nullptr || weight == nullptr || out == nullptr) return post;
    Expr result;
    if (IsMatrixProduct(op->name) && weight->shape.size() >= 2) {
      if (data->dtype == kWide && weight->dtype == kWide && out->dtype == kWide) {
        result = Noted(pre, Narrow(pre, call));
      } else if (IsNarrow(data) && data->dtype == weight->dtype) {
        result = Stated(pre, call);
      }
    } else if (op->name == "nn.conv2d" && data->dtype == kWide && weight->dtype == kWide && out->dtype == kWide) {
      result = Noted(pre, NarrowConv(pre, call, weight));
    } else if (IsConvolution(op->name) && IsNarrow(data) && data->dtype == weight->dtype && out->dtype == data->dtype) {
      result = StatedConv(pre, call, weight);
    }
    return result.defined() ? result : post;
  }

  const Request request_;
  const std::string kept_;
  const PairProducts pairs_;
  std::map<std::pair<const Object*, int>, Expr> casts_;
  std::vector<Expr> kept_alive_;
  Array<String> narrowed_;
};

}  // namespace

namespace transform {

void RegisterPrecisionOptions() {
  treadle::transform::RegisterPassConfig(kComputePrecision, "string",
                                         "number format of products: f32, bf16, f16, or mixed (bf16 where faster)");
  treadle::transform::RegisterPassConfig(kKeepPrecision, "string", "lines with names of layers that keep float32");
}

Pass ComputePrecision(const Target& target) {
  const PairProducts pairs = PairProductsOf(target);
  return CreateFunctionPass(
      [pairs](const Function& func, const IRModule&, const PassContext& context) {
        const std::string kept = context->GetConfigString(kKeepPrecision, "");
        ProductNarrower narrower(RequestOf(context), kept.empty() ? "" : StrCat("\n", kept, "\n"), pairs);
        auto result = Downcast<Function>(narrower.Mutate(func));
        return narrower.narrowed().empty() ? result : WithAttr(result, kNarrowedLayers, narrower.narrowed());
      },
      {"ComputePrecision", 0, {"InferType"}, "computes products in the number format that is asked for"});
}

}  // namespace transform
}  // namespace treadle::relay
