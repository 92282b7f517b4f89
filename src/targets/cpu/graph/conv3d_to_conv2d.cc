// SPDX-License-Identifier: Apache-2.0
// Conv3DToConv2D: images of several depths become images of a batch, (N, C, D, H, W) -> (D * N, C, H, W), so that
// layouts and kernels are those of two-dimensional convolutions. The taps of a window along the depth are laid side by
// side as channels: a convolution sums over channels, so one two-dimensional convolution sums them too. What lies
// between (element-wise operators, pooling, concatenation) follows, so that nothing is moved there.
#include "targets/cpu/graph/passes.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "passes/pass_util.h"
#include "targets/cpu/graph/channel_axis.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/check.h"
#include "treadle/ops/attrs/transform.h"

namespace treadle::relay {
namespace {

using Ints = std::vector<int64_t>;

constexpr size_t kRank = 5;

/// All dimensions, or nothing where one is symbolic or 0, which isn't worth rearranging.
std::optional<Ints> StaticShape(const Expr& e) {
  const auto* type = TensorTypeOf(e);
  std::optional<Ints> shape = type == nullptr ? std::nullopt : ops::ConstInts(type->shape);
  if (shape && std::find(shape->begin(), shape->end(), 0) != shape->end()) return std::nullopt;
  return shape;
}

/// Begins, then ends, of three dimensions.
Ints SixPads(const Ints& padding) {
  if (padding.size() == 1) return Ints(6, padding[0]);
  if (padding.size() != 3) return padding;
  Ints both = padding;
  both.insert(both.end(), padding.begin(), padding.end());
  return both;
}

/// A window along the depth.
struct DepthWindow {
  int64_t taps = 1, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t out = 0;  ///< results
  bool trivial() const { return taps == 1 && stride == 1 && before == 0 && after == 0; }
};

class Flattener : public MixedModeMutator {
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return post;
    auto shape = StaticShape(GetRef<Expr>(pre));
    if (!shape) {
      const Expr open = Open(pre, call);
      return open.defined() ? open : post;
    }
    if (shape->size() != kRank) return post;
    Expr flat = Flat(pre, call, *shape);
    if (!flat.defined()) return post;
    const Ints& s = *shape;
    Expr deep = ops::MakeTranspose(ops::MakeReshape(flat, Ints{s[2], s[0], s[1], s[3], s[4]}), {1, 2, 0, 3, 4});
    flat_[deep.get()] = {deep, flat};
    return deep;
  }

  Expr Flat(const CallNode* pre, const CallNode* call, const Ints& shape) {
    const std::string& name = OpName(call);
    if (name == "nn.conv3d") return Convolution(pre, call, shape);
    if (name == "nn.conv3d_transpose") return Transposed(pre, call, shape);
    if (name == "concatenate") return Concatenation(pre, call);
    if (call->args.empty() || !Known(call->args[0]).defined()) return ElementWise(pre, call, shape);
    if (name == "nn.max_pool3d") return MaxPool(pre, call, shape);
    if (name == "nn.avg_pool3d") return AvgPool(pre, call, shape);
    if (name == "nn.global_avg_pool3d") return GlobalAvgPool(pre, call, shape);
    return ElementWise(pre, call, shape);
  }

  /// The flat form of an expression that has one already.
  Expr Known(const Expr& e) const {
    auto it = flat_.find(e.get());
    return it == flat_.end() ? Expr() : it->second.second;
  }
  /// The flat form of `e` of that shape.
  Expr FlatForm(const Expr& e, const Ints& s) const {
    Expr known = Known(e);
    if (known.defined()) return known;
    return ops::MakeReshape(ops::MakeTranspose(e, {2, 0, 1, 3, 4}), Ints{s[2] * s[0], s[1], s[3], s[4]});
  }

  /// What each tap of the window meets; `s` is the shape of the tensor that `flat` is the flat form of.
  static std::vector<Expr> Taps(const Expr& flat, const Ints& s, const DepthWindow& w, const Expr& padding) {
    if (w.trivial()) return {flat};
    const int64_t batch = s[0];
    Expr from = flat;
    if (w.before != 0 || w.after != 0) {
      from = ops::MakePad(flat, {{w.before * batch, w.after * batch}, {0, 0}, {0, 0}, {0, 0}}, padding);
    }
    std::vector<Expr> taps;
    for (int64_t k = 0; k < w.taps; ++k) {
      const int64_t first = k * w.dilation, last = first + (w.out - 1) * w.stride + 1;
      if (w.stride == 1 || batch == 1) {
        taps.push_back(ops::MakeStridedSlice(from, {first * batch}, {last * batch}, {w.stride}, Ints{0}));
        continue;
      }
      const Ints split{s[2] + w.before + w.after, batch, s[1], s[3], s[4]};
      Expr chosen = ops::MakeStridedSlice(ops::MakeReshape(from, split), {first}, {last}, {w.stride}, Ints{0});
      taps.push_back(ops::MakeReshape(chosen, Ints{w.out * batch, s[1], s[3], s[4]}));
    }
    return taps;
  }

  // ---- Dimensions that only a run knows: each convolution by itself ----

  Expr Open(const CallNode* pre, const CallNode* call) {
    const auto *data = pre->args.empty() ? nullptr : TensorTypeOf(pre->args[0]),
               *type = TensorTypeOf(GetRef<Expr>(pre));
    if (data == nullptr || type == nullptr || type->shape.size() != kRank || type->dtype != DataType::Float(32)) {
      return Expr();
    }
    if (OpName(call) == "nn.conv3d") return OpenConvolution(pre, call, type);
    if (OpName(call) == "nn.conv3d_transpose") return OpenTransposed(pre, call, data);
    return OpenElementWise(pre, call);
  }

  /// What is computed of each element by itself, with one operand for each channel at most, before the planes of a
  /// convolution's result are put together.
  Expr OpenElementWise(const CallNode* pre, const CallNode* call) {
    const auto found = open_.find(call->args[0].get());
    const OpPatternKind pattern = Downcast<Op>(call->op).GetAttr(kOpPattern, OpPatternKind::kOpaque);
    if (found == open_.end() || pattern > OpPatternKind::kBroadcast || call->args.size() > 2) return Expr();
    if ((call->args.size() == 1 && pattern != OpPatternKind::kElemWise) || !NamesChannelsOnly(pre)) return Expr();
    const OpenForm from = found->second;
    Array<Expr> args{from.flat};
    if (call->args.size() == 2) {
      const auto own = StaticShape(pre->args[1]);
      if (!own) return Expr();
      const int64_t channels = own->size() + 1 < kRank ? 1 : (*own)[own->size() + 1 - kRank];
      int64_t elements = 1;
      for (const int64_t size : *own) elements *= size;
      if (elements != channels || own->size() > kRank) return Expr();
      // Some operators take nothing but scalars.
      args.push_back(own->empty() ? call->args[1] : ops::MakeReshape(call->args[1], Ints{channels, 1, 1}));
    }
    return Opened(Call(call->op, args, call->attrs, call->type_args, call->span), from.deep);
  }

  /// The planes `flat`, put together by `deep`.
  Expr Opened(const Expr& flat, const std::function<Expr(const Expr&)>& deep) {
    const Expr whole = deep(flat);
    if (whole.defined()) open_[whole.get()] = {whole, flat, deep};
    return whole;
  }

  /// The sizes of dimensions, read in the run.
  static Expr SizesOf(const Expr& e, int64_t begin, int64_t end) {
    Expr all = ops::CallWith<ops::ShapeOfAttrs>("shape_of", {e}, [](auto& attrs) { attrs.dtype = DataType::Int(64); });
    return ops::MakeStridedSlice(all, {begin}, {end}, {1}, Ints{0});
  }

  /// (D * N, C, H, W) as (D, N, C, H, W), for sizes of a result (N, C, D, H, W). Where neither D nor N is known, those
  /// of `like` (D, N, ..) are read in the run; where `depth` is given, it is D. Null where one is 0.
  static Expr Apart(const Expr& flat, const Array<PrimExpr>& result, const Expr& like, const Expr& depth = Expr()) {
    constexpr int64_t kSplit = -4;
    const int64_t *d = AsConstInt(result[2]), *n = AsConstInt(result[0]);
    if ((d != nullptr && *d == 0) || (n != nullptr && *n == 0)) return Expr();
    if (!depth.defined() && (d != nullptr || n != nullptr)) {
      return ops::MakeReshape(flat, Ints{kSplit, n != nullptr ? -1 : *d, n != nullptr ? *n : -1, 0, 0, 0});
    }
    const Expr outer = depth.defined() ? ops::MakeConcatenate({depth, SizesOf(like, 1, 2)}, 0) : SizesOf(like, 0, 2);
    const Expr shape = ops::MakeConcatenate({outer, SizesOf(flat, 1, 4)}, 0);
    return ops::CallWith<ops::ReshapeAttrs>("dyn.reshape", {flat, shape}, [&](auto& attrs) {
      attrs.allowzero = true;
      for (const size_t i : {2, 0, 1, 3, 4}) {
        attrs.newshape.push_back(IsAnyDim(result[i]) ? PrimExpr(int64_t{-1}) : result[i]);
      }
    });
  }

  /// (D, N, ..) as (D * N, ..).
  static Expr Joined(const Expr& deep) {
    constexpr int64_t kMerge = -3;
    return ops::MakeReshape(deep, Ints{kMerge, 0, 0, 0});
  }

  /// The number of results along a depth of which a run needs at least `least` images: else slices of it, none long
  /// enough for a window, would be a convolution of no images.
  static Expr ResultDepth(const CallNode* call, int64_t least, int64_t stride) {
    auto number = [](int64_t value) { return ops::ScalarConstant(DataType::Int(64), static_cast<double>(value)); };
    const Expr images = ops::CallWith<ops::CheckValuesAttrs>(
        "check_values", {SizesOf(call->args[0], 2, 3), number(least)}, [&](auto& attrs) {
          attrs.rule = "at_least";
          attrs.where = call->span.defined() ? call->span->source_name : "";
          attrs.what = "depth of a convolution's input";
        });
    Expr last = ops::CallOp("subtract", {images, number(least)});
    if (stride != 1) last = ops::CallOp("floor_divide", {last, number(stride)});
    return ops::CallOp("add", {last, number(1)});
  }

  /// A convolution of single elements: a volume is an image of one row, so that nothing is moved. Null where one of its
  /// dimensions is 0.
  Expr OpenPointwise(const CallNode* call, const Array<PrimExpr>& result, const Expr& kernel, const Attrs& plane) {
    if (std::any_of(result.begin(), result.end(), [](const PrimExpr& dim) { return tir::is_zero(dim); })) return Expr();
    const Expr data = call->args[0], row = ops::MakeReshape(data, Ints{0, 0, 1, -1});
    return Opened(ops::CallOp("nn.conv2d", {row, kernel}, plane, call->span),
                  [data, result](const Expr& flat) { return VolumeOf(flat, data, result); });
  }
  /// (N, C, 1, D * H * W) as `result`, (N, C, D, H, W), of the volume of `data`.
  static Expr VolumeOf(const Expr& flat, const Expr& data, const Array<PrimExpr>& result) {
    Ints sizes{0, 0};
    for (size_t i = 2; i < kRank; ++i) {
      const int64_t* size = AsConstInt(result[i]);
      sizes.push_back(size == nullptr ? -1 : *size);
    }
    if (std::count(sizes.begin(), sizes.end(), -1) <= 1) return ops::MakeReshape(flat, sizes);
    const Expr shape = ops::MakeConcatenate({SizesOf(flat, 0, 2), SizesOf(data, 2, 5)}, 0);
    return ops::CallWith<ops::ReshapeAttrs>("dyn.reshape", {flat, shape}, [&](auto& attrs) {
      attrs.allowzero = true;
      for (const PrimExpr& dim : result) attrs.newshape.push_back(IsAnyDim(dim) ? PrimExpr(int64_t{-1}) : dim);
    });
  }

  Expr OpenConvolution(const CallNode* pre, const CallNode* call, const TensorTypeNode* type) {
    const auto* a = call->attrs_as<ops::Conv3DAttrs>();
    const auto weight = StaticShape(pre->args[1]);
    if (!weight || !a->IsIn("NCDHW", "OIDHW") || a->groups != 1) return Expr();
    const Ints pads = SixPads(a->padding), &w = *weight;
    const int64_t taps = w[2], dilation = a->dilation[0], reach = (taps - 1) * dilation;
    const int64_t least = reach + 1 - pads[0] - pads[3];
    const PrimExpr& depth = TensorTypeOf(pre->args[0])->shape[2];
    const int64_t* images = AsConstInt(depth);
    if (images != nullptr && *images < std::max<int64_t>(least, 1)) return Expr();
    const auto is = [](const Ints& values, int64_t value) {
      return std::all_of(values.begin(), values.end(), [value](int64_t v) { return v == value; });
    };
    if (is(Ints(w.begin() + 2, w.end()), 1) && is(a->strides, 1) && is(pads, 0)) {
      const Expr kernel = ops::MakeReshape(call->args[1], Ints{w[0], w[1], 1, 1});
      return OpenPointwise(call, type->shape, kernel, PlaneAttrs(a, pads, w));
    }
    const Expr results = images == nullptr && least > 0 ? ResultDepth(call, least, a->strides[0]) : Expr();
    Expr deep = ops::MakeTranspose(call->args[0], {2, 0, 1, 3, 4});
    if (pads[0] != 0 || pads[3] != 0) {
      deep = ops::MakePad(deep, {{pads[0], pads[3]}, {0, 0}, {0, 0}, {0, 0}, {0, 0}},
                          ops::ScalarConstant(DataType::Float(32), 0.0));
    }
    Array<Expr> parts;
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t end = k + 1 == taps ? std::numeric_limits<int32_t>::max() : k * dilation - reach;
      const bool whole = taps == 1 && a->strides[0] == 1;
      parts.push_back(whole ? deep : ops::MakeStridedSlice(deep, {k * dilation}, {end}, {a->strides[0]}, Ints{0}));
    }
    Expr kernel =
        ops::MakeReshape(ops::MakeTranspose(call->args[1], {0, 2, 1, 3, 4}), Ints{w[0], w[1] * w[2], w[3], w[4]});
    const Expr joined = Joined(taps == 1 ? parts[0] : ops::MakeConcatenate(parts, 2));
    return Opened(ops::CallOp("nn.conv2d", {joined, kernel}, PlaneAttrs(a, pads, w), call->span),
                  [result = type->shape, like = parts[0], results](const Expr& flat) {
                    const Expr apart = Apart(flat, result, like, results);
                    return apart.defined() ? ops::MakeTranspose(apart, {1, 2, 0, 3, 4}) : Expr();
                  });
  }

  Expr OpenTransposed(const CallNode* pre, const CallNode* call, const TensorTypeNode* data) {
    const auto* a = call->attrs_as<ops::Conv3DTransposeAttrs>();
    const auto weight = StaticShape(pre->args[1]);
    if (!weight || call->args[1].as<ConstantNode>() == nullptr) return Expr();
    const Ints& w = *weight;
    const auto phases = PhasesOf(a, w);
    if (!phases) return Expr();
    const int64_t more = phases->taps - 1;
    Expr deep = ops::MakeTranspose(call->args[0], {2, 0, 1, 3, 4});
    Array<Expr> parts{deep};
    if (more != 0) {
      deep = ops::MakePad(deep, {{more, more}, {0, 0}, {0, 0}, {0, 0}, {0, 0}},
                          ops::ScalarConstant(DataType::Float(32), 0.0));
      parts = {};
      for (int64_t k = 0; k <= more; ++k) parts.push_back(Within(deep, 0, k, more - k));
    }
    const Expr all = Phases(call, w, *phases, [&](int64_t taps) {
      const Array<Expr> last(parts.end() - taps, parts.end());
      return Joined(taps == 1 ? last[0] : ops::MakeConcatenate(last, 2));
    });
    const PrimExpr depth = IsAnyDim(data->shape[2]) ? AnyDim() : data->shape[2] + more;
    const Array<PrimExpr> planes{data->shape[0], w[1] * phases->count, depth, AnyDim(), AnyDim()};
    Expr apart = Apart(all, planes, parts[0]);
    if (!apart.defined()) return Expr();
    constexpr int64_t kSplit = -4, kMerge = -3;
    apart = ops::MakeReshape(apart, Ints{0, 0, kSplit, phases->count, w[1], 0, 0});
    apart = ops::MakeReshape(ops::MakeTranspose(apart, {1, 3, 0, 2, 4, 5}), Ints{0, 0, kMerge, 0, 0});
    if (phases->before == 0 && phases->after == 0) return apart;
    return ops::MakeCrop(apart, kRank, 2, {phases->before, phases->after}, call->span);
  }

  /// `e` without the first and last elements along an axis.
  static Expr Within(const Expr& e, int64_t axis, int64_t before, int64_t after) {
    if (before == 0 && after == 0) return e;
    const int64_t end = after == 0 ? std::numeric_limits<int32_t>::max() : -after;
    return ops::MakeStridedSlice(e, {before}, {end}, {1}, Ints{axis});
  }

  /// The convolution of rows and columns.
  static Attrs PlaneAttrs(const ops::Conv3DAttrs* a, const Ints& pads, const Ints& weight) {
    return MakeAttrs<ops::Conv2DAttrs>([&](auto& c) {
      c.strides = {a->strides[1], a->strides[2]};
      c.dilation = {a->dilation[1], a->dilation[2]};
      c.padding = {pads[1], pads[2], pads[4], pads[5]};
      c.groups = a->groups;
      c.channels = weight[0];
      c.kernel_size = Ints{weight[3], weight[4]};
      c.out_dtype = a->out_dtype;
    });
  }

  static Ints OutputPadding(const ops::Conv3DTransposeAttrs* a) {
    Ints more = a->output_padding;
    if (more.size() == 1) more.resize(3, more[0]);
    return more;
  }

  /// A transposed convolution along the depth. Its results at each phase of the stride are those of a convolution of
  /// stride 1: out[i * count + p] = sum over j of in[i - j] * kernel[j * count + p].
  struct DepthPhases {
    int64_t count = 1;              ///< phases, the stride
    int64_t taps = 1;               ///< of the phases that have most
    int64_t before = 0, after = 0;  ///< results that aren't wanted
  };

  /// The kernel (I, O, D, H, W) of planes whose channels are the taps, and whose results are the phases [first, last).
  static Expr PhaseKernel(const Expr& kernel, const Ints& w, const DepthPhases& d, int64_t first, int64_t last,
                          int64_t taps) {
    const Expr whole = ops::MakePad(kernel, {{0, 0}, {0, 0}, {0, d.count * d.taps - w[2]}, {0, 0}, {0, 0}},
                                    ops::ScalarConstant(DataType::Float(32), 0.0));
    Expr apart = ops::MakeReshape(whole, Ints{w[0], w[1], d.taps, d.count, w[3], w[4]});
    apart = ops::MakeStridedSlice(apart, {0, first}, {taps, last}, {1, 1}, Ints{2, 3});
    apart = ops::CallWith<ops::ReverseAttrs>("reverse", {apart}, [](auto& attrs) { attrs.axis = 2; });
    return ops::MakeReshape(ops::MakeTranspose(apart, {2, 0, 3, 1, 4, 5}),
                            Ints{taps * w[0], (last - first) * w[1], w[3], w[4]});
  }

  /// All phases as channels of planes, those of one number of taps at a time: 0 times infinity isn't 0. `joined`: the
  /// planes that the last taps meet, as channels.
  static Expr Phases(const CallNode* call, const Ints& w, const DepthPhases& d,
                     const std::function<Expr(int64_t taps)>& joined) {
    const auto* a = call->attrs_as<ops::Conv3DTransposeAttrs>();
    const int64_t longer = w[2] % d.count, fewest = w[2] / d.count;
    Array<Expr> groups;
    auto add = [&](int64_t first, int64_t last, int64_t taps) {
      const Expr kernel = PhaseKernel(call->args[1], w, d, first, last, taps);
      groups.push_back(ops::CallOp("nn.conv2d_transpose", {joined(taps), kernel},
                                   PlaneAttrs(a, w, (last - first) * w[1]), call->span));
    };
    if (longer > 0) add(0, longer, fewest + 1);
    if (fewest > 0) add(longer, d.count, fewest);
    if (groups.size() > 1) return ops::MakeConcatenate(groups, 1);
    if (fewest > 0) return groups[0];
    return ops::MakePad(groups[0], {{0, 0}, {0, (d.count - longer) * w[1]}, {0, 0}, {0, 0}},
                        ops::ScalarConstant(DataType::Float(32), 0.0));
  }

  static std::optional<DepthPhases> PhasesOf(const ops::Conv3DTransposeAttrs* a, const Ints& w) {
    const Ints pads = SixPads(a->padding);
    if (a->groups != 1 || (a->dilation[0] != 1 && w[2] != 1)) return std::nullopt;
    if (!a->IsIn("NCDHW", "IODHW") && !a->IsIn("NCDHW", "OIDHW")) return std::nullopt;
    DepthPhases phases;
    phases.count = a->strides[0];
    phases.taps = CeilDiv(w[2], phases.count);
    phases.before = pads[0];
    phases.after = phases.count * phases.taps - w[2] + pads[3] - OutputPadding(a)[0];
    return phases.after < 0 ? std::nullopt : std::optional(phases);
  }

  static Attrs PlaneAttrs(const ops::Conv3DTransposeAttrs* a, const Ints& weight, int64_t channels) {
    const Ints pads = SixPads(a->padding), more = OutputPadding(a);
    return MakeAttrs<ops::Conv2DTransposeAttrs>([&](auto& c) {
      c.strides = {a->strides[1], a->strides[2]};
      c.dilation = {a->dilation[1], a->dilation[2]};
      c.padding = {pads[1], pads[2], pads[4], pads[5]};
      c.output_padding = {more[1], more[2]};
      c.channels = channels;
      c.kernel_size = Ints{weight[3], weight[4]};
      c.out_dtype = a->out_dtype;
    });
  }

  // ---- Known dimensions ----

  Expr Convolution(const CallNode* pre, const CallNode* call, const Ints& shape) {
    const auto* a = call->attrs_as<ops::Conv3DAttrs>();
    auto data = StaticShape(pre->args[0]), weight = StaticShape(pre->args[1]);
    if (!data || !weight || !a->IsIn("NCDHW", "OIDHW")) return Expr();
    const bool depthwise = a->groups > 1 && a->groups == (*data)[1] && (*weight)[1] == 1;
    if ((a->groups > 1 && !depthwise) || TensorTypeOf(GetRef<Expr>(pre))->dtype != DataType::Float(32)) return Expr();
    const Ints pads = SixPads(a->padding), &w = *weight;
    DepthWindow window{w[2], a->strides[0], a->dilation[0], pads[0], pads[3], shape[2]};
    const Attrs attrs = PlaneAttrs(a, pads, w);
    Expr zero = ops::ScalarConstant(DataType::Float(32), 0.0);
    std::vector<Expr> taps = Taps(FlatForm(call->args[0], *data), *data, window, zero);
    Expr kernel = ops::MakeTranspose(call->args[1], {0, 2, 1, 3, 4});
    if (!depthwise || taps.size() == 1) {
      kernel = ops::MakeReshape(kernel, Ints{w[0], w[1] * w[2], w[3], w[4]});
      Expr joined = taps.size() == 1 ? taps[0] : ops::MakeConcatenate(Array<Expr>(taps.begin(), taps.end()), 1);
      return ops::CallOp("nn.conv2d", {joined, kernel}, attrs, call->span);
    }
    Expr sum;
    for (size_t k = 0; k < taps.size(); ++k) {
      const auto at = static_cast<int64_t>(k);
      Expr own =
          ops::MakeReshape(ops::MakeStridedSlice(kernel, {at}, {at + 1}, {1}, Ints{1}), Ints{w[0], w[1], w[3], w[4]});
      Expr part = ops::CallOp("nn.conv2d", {taps[k], own}, attrs, call->span);
      sum = sum.defined() ? ops::CallOp("add", {sum, part}, Attrs(), call->span) : part;
    }
    return sum;
  }

  Expr Transposed(const CallNode* pre, const CallNode* call, const Ints& shape) {
    const auto* a = call->attrs_as<ops::Conv3DTransposeAttrs>();
    auto data = StaticShape(pre->args[0]), weight = StaticShape(pre->args[1]);
    if (!data || !weight || call->args[1].as<ConstantNode>() == nullptr) return Expr();
    const Ints& w = *weight;
    const auto phases = PhasesOf(a, w);
    if (!phases) return Expr();
    const int64_t more = phases->taps - 1, batch = (*data)[0];
    const DepthWindow window{phases->taps, 1, 1, more, more, (*data)[2] + more};
    const std::vector<Expr> taps =
        Taps(FlatForm(call->args[0], *data), *data, window, ops::ScalarConstant(DataType::Float(32), 0.0));
    Expr all = Phases(call, w, *phases, [&](int64_t of) {
      const Array<Expr> last(taps.end() - of, taps.end());
      return of == 1 ? last[0] : ops::MakeConcatenate(last, 1);
    });
    if (batch > 1) {
      all = ops::MakeReshape(all, Ints{window.out, batch, phases->count, w[1], shape[3], shape[4]});
      all = ops::MakeTranspose(all, {0, 2, 1, 3, 4, 5});
    }
    all = ops::MakeReshape(all, Ints{window.out * phases->count * batch, w[1], shape[3], shape[4]});
    return Within(all, 0, phases->before * batch, phases->after * batch);
  }

  /// The pool of rows and columns; `more` sets what `To` has besides.
  template <typename To, typename More>
  static Attrs PlanePool(const ops::PoolAttrs* a, const Ints& pads, const More& more) {
    return MakeAttrs<To>([&](To& p) {
      p.pool_size = {a->pool_size[1], a->pool_size[2]};
      p.strides = {a->strides[1], a->strides[2]};
      p.dilation = {a->dilation[1], a->dilation[2]};
      p.padding = {pads[1], pads[2], pads[4], pads[5]};
      p.ceil_mode = a->ceil_mode;
      more(p);
    });
  }

  /// The window along the depth; rounding up adds padding at the end.
  static DepthWindow WindowOf(const ops::PoolAttrs* a, const Ints& pads, int64_t size, int64_t out) {
    DepthWindow w{a->pool_size[0], a->strides[0], a->dilation[0], pads[0], pads[3], out};
    w.after = std::max(w.after, (out - 1) * w.stride + (w.taps - 1) * w.dilation + 1 - size - w.before);
    return w;
  }

  static bool IsPlain(const ops::PoolAttrs* a) { return a->IsIn("NCDHW"); }

  Expr MaxPool(const CallNode* pre, const CallNode* call, const Ints& shape) {
    const auto* a = call->attrs_as<ops::MaxPool3DAttrs>();
    const DataType dtype = TensorTypeOf(GetRef<Expr>(pre))->dtype;
    auto data = StaticShape(pre->args[0]);
    if (!data || !IsPlain(a) || dtype != DataType::Float(32)) return Expr();
    const Ints pads = SixPads(a->padding);
    Expr least = ops::ScalarConstant(dtype, -std::numeric_limits<double>::infinity());
    Expr best;
    for (const Expr& tap : Taps(Known(call->args[0]), *data, WindowOf(a, pads, (*data)[2], shape[2]), least)) {
      best = best.defined() ? ops::CallOp("maximum", {best, tap}, Attrs(), call->span) : tap;
    }
    return ops::CallOp("nn.max_pool2d", {best}, PlanePool<ops::MaxPool2DAttrs>(a, pads, [](auto&) {}), call->span);
  }

  Expr AvgPool(const CallNode* pre, const CallNode* call, const Ints& shape) {
    const auto* a = call->attrs_as<ops::AvgPool3DAttrs>();
    const DataType dtype = TensorTypeOf(GetRef<Expr>(pre))->dtype;
    auto data = StaticShape(pre->args[0]);
    if (!data || !IsPlain(a) || dtype != DataType::Float(32)) return Expr();
    const Ints pads = SixPads(a->padding);
    const DepthWindow window = WindowOf(a, pads, (*data)[2], shape[2]);
    // Every window counts all of its taps along the depth.
    if (window.after != pads[3] || ((pads[0] != 0 || pads[3] != 0) && !a->count_include_pad)) return Expr();
    Expr zero = ops::ScalarConstant(dtype, 0.0), sum;
    for (const Expr& tap : Taps(Known(call->args[0]), *data, window, zero)) {
      sum = sum.defined() ? ops::CallOp("add", {sum, tap}, Attrs(), call->span) : tap;
    }
    Attrs attrs = PlanePool<ops::AvgPool2DAttrs>(a, pads, [&](auto& p) { p.count_include_pad = a->count_include_pad; });
    Expr mean = ops::CallOp("nn.avg_pool2d", {sum}, attrs, call->span);
    if (window.taps == 1) return mean;
    return ops::CallOp("multiply", {mean, ops::ScalarConstant(dtype, 1.0 / static_cast<double>(window.taps))}, Attrs(),
                       call->span);
  }

  Expr GlobalAvgPool(const CallNode* pre, const CallNode* call, const Ints& shape) {
    auto data = StaticShape(pre->args[0]);
    const auto* a = call->attrs_as<ops::GlobalPool3DAttrs>();
    if (!data || !a->IsIn("NCDHW")) return Expr();
    Expr planes = ops::CallOp("nn.global_avg_pool2d", {Known(call->args[0])}, Attrs(), call->span);
    Expr apart = ops::MakeReshape(planes, Ints{(*data)[2], shape[0], shape[1]});
    return ops::MakeReshape(ops::MakeReduce("mean", apart, Ints{0}), Ints{shape[0], shape[1], 1, 1});
  }

  Expr Concatenation(const CallNode* pre, const CallNode* call) {
    const auto* fields = call->args[0].as<TupleNode>();
    const auto* before = pre->args[0].as<TupleNode>();
    if (fields == nullptr || before == nullptr ||
        PositiveAxis(call->attrs_as<ops::ConcatenateAttrs>()->axis, kRank) != 1 ||
        std::none_of(fields->fields.begin(), fields->fields.end(), [&](const Expr& e) { return Known(e).defined(); })) {
      return Expr();
    }
    Array<Expr> parts;
    for (size_t i = 0; i < fields->fields.size(); ++i) {
      auto shape = StaticShape(before->fields[i]);
      if (!shape) return Expr();
      parts.push_back(FlatForm(fields->fields[i], *shape));
    }
    return ops::MakeConcatenate(parts, 1);
  }

  /// An operand without a flat form that lines up with flat ones, or null: the same for all depths and batches.
  static Expr Aligned(const Expr& e, const Ints& shape) {
    if (shape.size() <= 2) return e;  // rows and columns are the last dimensions as before
    Ints full(kRank - shape.size(), 1);
    full.insert(full.end(), shape.begin(), shape.end());
    if (full[0] != 1 || full[2] != 1) return Expr();
    return ops::MakeReshape(e, Ints{full[1], full[3], full[4]});
  }

  /// The operator on flat operands, where one of them has that form.
  Expr ElementWise(const CallNode* pre, const CallNode* call, const Ints& shape) {
    OpPatternKind pattern = Downcast<Op>(call->op).GetAttr(kOpPattern, OpPatternKind::kOpaque);
    if (pattern > OpPatternKind::kBroadcast || call->args.empty() || call->args.size() > 2) return Expr();
    if (call->args.size() == 1 && pattern != OpPatternKind::kElemWise) return Expr();
    if (!NamesChannelsOnly(pre)) return Expr();
    if (std::none_of(call->args.begin(), call->args.end(), [&](const Expr& e) { return Known(e).defined(); })) {
      return Expr();
    }
    Array<Expr> args;
    for (size_t i = 0; i < call->args.size(); ++i) {
      auto own = StaticShape(pre->args[i]);
      if (!own) return Expr();
      Expr operand = *own == shape ? FlatForm(call->args[i], *own) : Aligned(call->args[i], *own);
      if (!operand.defined()) return Expr();
      args.push_back(operand);
    }
    return Call(call->op, args, call->attrs, call->type_args, call->span);
  }

  /// What is put together from planes whose sizes only a run knows.
  struct OpenForm {
    Expr whole, flat;
    std::function<Expr(const Expr&)> deep;  ///< puts planes together
  };
  std::unordered_map<const Object*, OpenForm> open_;
  /// By deep form, which is kept alive.
  std::unordered_map<const Object*, std::pair<Expr, Expr>> flat_;
};

}  // namespace

namespace transform {

Pass Conv3DToConv2D() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        bool any = false;
        PostOrderVisit(func, [&](const Expr& e) {
          any |= AsCallOf(e, "nn.conv3d") != nullptr || AsCallOf(e, "nn.conv3d_transpose") != nullptr;
        });
        return any ? Downcast<Function>(Flattener().Mutate(func)) : func;
      },
      {"Conv3DToConv2D", 3, {"InferType"}, "Runs three-dimensional convolutions as two-dimensional"});
}

}  // namespace transform
}  // namespace treadle::relay
