// SPDX-License-Identifier: Apache-2.0
#include "passes/lookup_tables.h"

#include <numeric>
#include <set>
#include <unordered_map>

#include "treadle/ops/attrs/qnn.h"

namespace treadle::relay {
namespace {

/// What takes longer than reading a table.
bool IsExpensive(const std::string& name) {
  static const std::set<std::string> kExpensive = {"exp",     "log",      "erf",  "tanh", "sigmoid", "power",
                                                   "sqrt",    "rsqrt",    "sinh", "cosh", "atan",    "nn.gelu",
                                                   "nn.mish", "softsign", "tan",  "sin",  "cos",     "nn.softplus"};
  return kExpensive.count(name) != 0;
}

bool IsNumber(const Expr& e) {
  const auto* constant = e.as<ConstantNode>();
  return constant != nullptr && constant->data.size() == 1 && constant->data.shape().size() <= 1;
}

/// The element-wise functions of one tensor that a value is made of.
class Chain {
 public:
  /// Whether `e` is such a chain, ending at one call of qnn.dequantize.
  bool Follow(const Expr& e) {
    constexpr size_t kLongest = 64;
    std::vector<Expr> open{e};
    while (!open.empty()) {
      const Expr next = open.back();
      open.pop_back();
      if (IsNumber(next) || !seen_.insert(next.get()).second) continue;
      if (seen_.size() > kLongest) return false;
      const auto* call = next.as<CallNode>();
      if (call == nullptr || call->op.as<OpNode>() == nullptr) return false;
      if (OpName(call) == "qnn.dequantize") {
        if (source_ != nullptr && source_ != call) return false;
        source_ = call;
        continue;
      }
      const Op op = Downcast<Op>(call->op);
      if (op.GetAttr(kOpPattern, OpPatternKind::kOpaque) > OpPatternKind::kBroadcast) return false;
      expensive_ = expensive_ || IsExpensive(OpName(call));
      for (const Expr& arg : call->args) open.push_back(arg);
    }
    return source_ != nullptr && expensive_;
  }
  const CallNode* source() const { return source_; }

  /// The chain with `value` in place of where it ends.
  Expr With(const Expr& e, const Expr& value) {
    if (IsNumber(e)) return e;
    if (e.get() == source_) return value;
    Expr& known = made_[e.get()];
    if (!known.defined()) {
      const auto* call = e.as<CallNode>();
      Array<Expr> args = call->args.Map([&](const Expr& arg) { return With(arg, value); });
      known = Call(call->op, args, call->attrs, call->type_args, call->span);
    }
    return made_[e.get()];
  }

 private:
  const CallNode* source_ = nullptr;
  bool expensive_ = false;
  std::set<const Object*> seen_;
  std::unordered_map<const Object*, Expr> made_;
};

}  // namespace

Expr AsLookup(const CallNode* quantize, const Expr& real, const std::function<DataType(const CallNode*)>& integers) {
  Chain chain;
  if (!chain.Follow(real)) return Expr();
  const CallNode* source = chain.source();
  const DataType dtype = integers(source);
  if (dtype != DataType::UInt(8) && dtype != DataType::Int(8)) return Expr();
  for (size_t i = 1; i < 3; ++i) {
    for (const CallNode* call : {source, quantize}) {
      const auto* parameter = call->args[i].as<ConstantNode>();
      if (parameter == nullptr || !parameter->data.shape().empty()) return Expr();
    }
  }
  // What becomes of each byte, in the order of their bits.
  runtime::NDArray all = runtime::NDArray::Empty({256}, dtype);
  std::iota(all.Data<uint8_t>(), all.Data<uint8_t>() + 256, uint8_t{0});
  Expr value = Call(source->op, {Constant(all), source->args[1], source->args[2]}, source->attrs, {}, source->span);
  Expr table = Call(quantize->op, {chain.With(real, value), quantize->args[1], quantize->args[2]}, quantize->attrs, {},
                    quantize->span);
  return ops::CallOp("qnn.contrib_lookup", {source->args[0], table});
}

}  // namespace treadle::relay
