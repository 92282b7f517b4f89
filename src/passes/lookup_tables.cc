// SPDX-License-Identifier: Apache-2.0
#include "passes/lookup_tables.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

/// What reading a table takes, in operations on vectors of floats.
constexpr int kLookupCost = 15;

int CostOf(const CallNode* call) {
  if (Downcast<Op>(call->op).GetAttr(ops::kCostly, false)) return kLookupCost;
  const std::string& name = OpName(call);
  constexpr int kDivide = 4, kQuantize = 6, kDequantize = 3;
  if (name == "divide") return kDivide;
  if (name == "qnn.quantize") return kQuantize;
  return name == "qnn.dequantize" ? kDequantize : 1;
}

/// One number, quantised or not.
bool IsNumber(const Expr& e) {
  const CallNode* dequantize = AsCallOf(e, "qnn.dequantize");
  const auto* constant = (dequantize != nullptr ? dequantize->args[0] : e).as<ConstantNode>();
  return constant != nullptr && constant->data.size() == 1 && constant->data.shape().size() <= 1;
}

/// Whether scale and zero point of a call of qnn.quantize or qnn.dequantize are known numbers.
bool OfOneScale(const CallNode* call) {
  return std::all_of(call->args.begin() + 1, call->args.end(), [](const Expr& e) {
    const auto* parameter = e.as<ConstantNode>();
    return parameter != nullptr && parameter->data.shape().empty();
  });
}

bool IsByte(DataType dtype) { return dtype == DataType::UInt(8) || dtype == DataType::Int(8); }

/// The element-wise functions, of numbers and bytes, that a value is made of.
class Chain {
 public:
  Chain(const Expr& result, const std::function<DataType(const CallNode*)>& integers)
      : result_(result), integers_(integers) {}

  /// Whether the result depends on one tensor of bytes only, source(), and takes long enough.
  bool Find() {
    Collect();
    // In the order in which they were met: the first that all depends on is the nearest.
    for (const Expr& candidate : bytes_) {
      cost_ = 0;
      if (!DependsOnlyOn(candidate)) continue;
      source_ = candidate;
      // A table of a table is a table.
      while (const CallNode* lookup = AsCallOf(source_, "qnn.contrib_lookup")) {
        source_ = lookup->args[0];
        cost_ = kLookupCost;
      }
      return cost_ >= kLookupCost;
    }
    return false;
  }
  const Expr& source() const { return source_; }

  /// The table: the result for all bytes in place of the source, in the order of their bits.
  Expr Table() {
    // Tables are read by bits: where nothing else reads the source, its type doesn't matter.
    DataType dtype = DataType::UInt(8);
    for (const CallNode* dequantize : dequantized_) {
      if (dequantize->args[0].same_as(source_)) dtype = integers_(dequantize);
    }
    runtime::NDArray all = runtime::NDArray::Empty({256}, dtype);
    std::iota(all.Data<uint8_t>(), all.Data<uint8_t>() + 256, uint8_t{0});
    return With(result_, Constant(all));
  }

 private:
  /// The operands on which a value depends element by element; nothing where it isn't such a value.
  std::optional<std::vector<Expr>> Operands(const Expr& e) const {
    const auto* call = e.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return std::nullopt;
    const std::string& name = OpName(call);
    if (name == "qnn.contrib_lookup") return std::vector<Expr>{call->args[0]};
    if (name == "qnn.dequantize" || name == "qnn.quantize") {
      if (!OfOneScale(call)) return std::nullopt;
      if (name == "qnn.dequantize" && !IsByte(integers_(call))) return std::nullopt;
      return std::vector<Expr>{call->args[0]};
    }
    const Op op = Downcast<Op>(call->op);
    const auto pattern = op.GetAttr(kOpPattern, OpPatternKind::kOpaque);
    if (pattern > OpPatternKind::kBroadcast) return std::nullopt;
    // expand_dims and broadcast_to change the shape, which a table can't.
    if (pattern == OpPatternKind::kBroadcast && call->args.size() == 1) return std::nullopt;
    std::vector<Expr> operands;
    std::copy_if(call->args.begin(), call->args.end(), std::back_inserter(operands),
                 [](const Expr& arg) { return !IsNumber(arg); });
    return operands;
  }

  /// Finds the tensors of bytes, the nearest first.
  void Collect() {
    constexpr size_t kLongest = 64;
    std::vector<Expr> queue{result_};
    for (size_t i = 0; i < queue.size() && queue.size() < kLongest; ++i) {
      const Expr next = queue[i];
      const auto operands = Operands(next);
      if (!operands) continue;
      const CallNode* dequantize = AsCallOf(next, "qnn.dequantize");
      if (dequantize != nullptr) dequantized_.push_back(dequantize);
      if (dequantize != nullptr || AsCallOf(next, "qnn.contrib_lookup") != nullptr) bytes_.push_back((*operands)[0]);
      for (const Expr& operand : *operands) {
        if (seen_.insert(operand.get()).second) queue.push_back(operand);
      }
    }
  }

  bool DependsOnlyOn(const Expr& source) {
    std::vector<Expr> open{result_};
    std::set<const Object*> visited{source.get()};
    bool met = false;
    while (!open.empty()) {
      const Expr next = open.back();
      open.pop_back();
      met = met || next.same_as(source);
      if (!visited.insert(next.get()).second) continue;
      // What isn't among those collected is too far away.
      if (!next.same_as(result_) && seen_.count(next.get()) == 0) return false;
      const auto operands = Operands(next);
      if (!operands) return false;
      cost_ += AsCallOf(next, "qnn.contrib_lookup") != nullptr ? kLookupCost : CostOf(next.as<CallNode>());
      open.insert(open.end(), operands->begin(), operands->end());
    }
    return met;
  }

  Expr With(const Expr& e, const Expr& value) {
    if (e.same_as(source_)) return value;
    if (e.as<ConstantNode>() != nullptr) return e;
    if (Expr& known = made_[e.get()]; known.defined()) return known;
    const auto* call = e.as<CallNode>();
    Array<Expr> args = call->args;
    // Tables, scales and zero points stay.
    const bool first_only = OpName(call).starts_with("qnn.");
    for (size_t i = 0; i < (first_only ? 1 : args.size()); ++i) args.Set(i, With(args[i], value));
    return made_[e.get()] = Call(call->op, args, call->attrs, call->type_args, call->span);
  }

  Expr result_, source_;
  const std::function<DataType(const CallNode*)>& integers_;
  int cost_ = 0;
  std::vector<Expr> bytes_;
  std::vector<const CallNode*> dequantized_;
  std::set<const Object*> seen_;
  std::unordered_map<const Object*, Expr> made_;
};

}  // namespace

Expr AsLookup(const CallNode* quantize, const Expr& real, const std::function<DataType(const CallNode*)>& integers) {
  if (!OfOneScale(quantize)) return Expr();
  const Array<Expr> args{real, quantize->args[1], quantize->args[2]};
  Chain chain(Call(quantize->op, args, quantize->attrs, {}, quantize->span), integers);
  if (!chain.Find()) return Expr();
  // Numbers may be vectors of one element, which make one of a scalar.
  const auto* type = chain.source()->checked_type_.as<TensorTypeNode>();
  if (type != nullptr && type->shape.empty()) return Expr();
  return ops::CallOp("qnn.contrib_lookup", {chain.source(), chain.Table()});
}

}  // namespace treadle::relay
