// SPDX-License-Identifier: Apache-2.0
// WidenBytes: where the machine multiplies pairs of 16-bit integers (vpmaddwd) but not bytes, operands of products are
// widened where they are made: weights when compiling, activations in the kernel before. Sums stay exact, and the loops
// of products have nothing left to do but to multiply and add.
#include "passes/pass_util.h"
#include "targets/cpu/graph/passes.h"
#include "targets/cpu/kernels/listed_window.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "targets/cpu/kernels/words.h"
#include "targets/cpu/machine.h"
#include "treadle/ops/attrs/nn.h"

namespace treadle::relay {
namespace {

const DataType kShort = DataType::Int(16);

class ByteWidener : public MixedModeMutator {
 public:
  /// `lanes`: floats of a vector of a machine that has products of lists of bytes, else 0.
  explicit ByteWidener(int lanes) : lanes_(lanes) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr || call->args.size() < 2) return post;
    const std::string& name = OpName(call);
    const bool conv = name == "qnn.contrib_conv2d";
    if (!conv && name != "nn.dense" && name != "nn.matmul" && name != "nn.batch_matmul") return post;
    const auto *data = TensorTypeOf(pre->args[0]), *weight = TensorTypeOf(pre->args[1]);
    if (data == nullptr || weight == nullptr || data->dtype != DataType::UInt(8) || weight->dtype != DataType::Int(8) ||
        TensorTypeOf(GetRef<Expr>(pre))->dtype != DataType::Int(32)) {
      return post;
    }
    if (conv && (call->args[1].as<ConstantNode>() == nullptr || IsDepthwise(call, data))) return post;
    if (conv ? ConvHasLists(pre, call) : HasLists(data, call)) return post;
    Array<Expr> args = call->args.Map([this](const Expr& arg) { return Widened(arg); });
    return Call(call->op, args, call->attrs, call->type_args, call->span);
  }

  /// These have few products for each element: they read bytes.
  static bool IsDepthwise(const CallNode* call, const TensorTypeNode* data) {
    const auto* channels = AsConstInt(data->shape[1]);
    return channels != nullptr && *channels > 1 && call->attrs_as<ops::Conv2DAttrs>()->groups == *channels;
  }

  /// Whether bytes are multiplied as they are: a product of a constant matrix whose weights fit 16-bit sums.
  bool HasLists(const TensorTypeNode* data, const CallNode* call) const {
    const auto* weight = call->args[1].as<ConstantNode>();
    const bool known_depth = !data->shape.empty() && AsConstInt(data->shape[data->shape.size() - 1]) != nullptr;
    if (lanes_ == 0 || weight == nullptr || !known_depth) return false;
    const auto* matmul = call->attrs.as<ops::MatmulAttrs>();
    if (matmul != nullptr && matmul->transpose_a) return false;
    return ops::cpu::ListsOfMatrix(weight->data, matmul != nullptr && !matmul->transpose_b) != nullptr;
  }

  bool ConvHasLists(const CallNode* typed, const CallNode* call) const {
    const auto* attrs = call->attrs.as<ops::Conv2DAttrs>();
    if (lanes_ == 0 || attrs == nullptr || !attrs->IsIn("NCHW", "OIHW")) return false;
    const runtime::NDArray& weight = call->args[1].as<ConstantNode>()->data;
    return ops::cpu::ListsOfConv(ops::cpu::ByteConvSizes(typed), weight, lanes_) != nullptr;
  }

  Expr Widened(const Expr& e) {
    Expr& known = widened_[e.get()];
    if (known.defined()) return known;
    kept_.push_back(e);
    const auto* constant = e.as<ConstantNode>();
    if (constant == nullptr || !constant->data.IsCompact()) return known = ops::MakeCast(e, kShort);
    runtime::NDArray wide = runtime::NDArray::Empty(constant->data.shape(), kShort);
    auto* to = wide.Data<int16_t>();
    if (constant->data.dtype().is_int()) {
      std::copy_n(constant->data.Data<int8_t>(), wide.size(), to);
    } else {
      std::copy_n(constant->data.Data<uint8_t>(), wide.size(), to);
    }
    return known = Constant(wide, constant->span);
  }

  std::unordered_map<const Object*, Expr> widened_;
  int lanes_;
  std::vector<Expr> kept_;  ///< keys of the above stay alive
};

/// Whether `target` has vpmaddwd and no products of bytes.
bool MultipliesPairs(const Target& target) {
  if (!target.defined()) return true;
  const TargetFeatures features = target->Features();
  return target->kind == "llvm" && features.arch == "x86_64" && !features.vnni &&
         !targets::TilesOf(*target.get()).bytes;
}

}  // namespace

namespace transform {

Pass WidenBytes(const Target& target) {
  const bool widens = MultipliesPairs(target);
  constexpr int kFloat = 32;
  const bool has_lists = target.defined() && ops::cpu::HasByteLists(target->Features());
  const int lanes = has_lists ? target->Features().vector_lanes(kFloat) : 0;
  return CreateFunctionPass(
      [widens, lanes](const Function& func, const IRModule&, const PassContext&) {
        const ops::cpu::WeightForms forms;
        return widens ? Downcast<Function>(ByteWidener(lanes).Mutate(func)) : func;
      },
      {"WidenBytes", 0, {"InferType"}, "widens operands of products to 16 bits where the machine multiplies those"});
}

}  // namespace transform
}  // namespace treadle::relay
