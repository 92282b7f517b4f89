// SPDX-License-Identifier: Apache-2.0
// ShareKernels: fused functions that differ only in numbers become one.
//
// The layers of a quantised network have scales and zero points of their own, which would make a kernel of each layer.
// A number of which all functions of one form have the same value stays where it is: it may simplify the kernel.
#include "passes/share_kernels.h"

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "passes/pass_util.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::relay {
namespace {

/// Numbers of a function in the order in which it's walked through.
using Numbers = std::vector<Constant>;

bool IsKernelCall(const CallNode* call) {
  const auto* func = call->op.as<FunctionNode>();
  return func != nullptr && func->is_primitive() && !func->GetAttr<ObjectRef>(attr::kCompiler) &&
         !func->GetAttr<ObjectRef>(attr::kReshapeOnly);
}

/// Whether the code for a number isn't better for its being known, and the operator takes it as any other operand.
bool TakesNumbers(const std::string& name) {
  static const std::set<std::string> kArithmetic = {"add", "subtract", "multiply", "divide", "maximum", "minimum"};
  return kArithmetic.count(name) != 0;
}

/// A scalar that isn't an integer divisor.
bool IsNumber(const CallNode* call, const Expr& arg) {
  const auto* constant = arg.as<ConstantNode>();
  if (constant == nullptr || !constant->is_scalar()) return false;
  return constant->data.dtype().is_float() || OpName(call) != "divide";
}

/// Takes numbers out of a fused function: all of them into new parameters, or those that `place` has a parameter for.
class NumberLifter : public MixedModeMutator {
 public:
  /// The parameter in place of the n-th number; null where the number stays.
  using Place = std::function<Var(const Numbers& met)>;
  explicit NumberLifter(Place place) : place_(std::move(place)) {}

  Numbers numbers;  ///< those met

 private:
  Expr Rewrite_(const CallNode*, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    const std::string& name = OpName(call);
    if (name == "qnn.contrib_round_clip") return RoundClip(call);
    if (!TakesNumbers(name)) return post;
    Array<Expr> args = call->args.Map([&](const Expr& arg) {
      if (!IsNumber(call, arg)) return arg;
      const Var var = Next(Downcast<Constant>(arg));
      return var.defined() ? Expr(var) : arg;
    });
    if (args.same_as(call->args)) return post;
    return WithTypeOf(Call(call->op, args, call->attrs, call->type_args, call->span), call);
  }

  Expr RoundClip(const CallNode* call) {
    const auto* attrs = call->attrs_as<ops::RoundClipAttrs>();
    auto number = [](double value) { return ops::ScalarConstant(DataType::Float(32), value); };
    const Constant low = number(attrs->a_min), high = number(attrs->a_max), divisor = number(attrs->divisor);
    // Another divisor is a reason for a kernel of its own: only by those within bounds are divisions quick.
    const bool is_scale = attrs->divisor >= tir::kLeastScale && attrs->divisor <= tir::kLargestScale;
    const Var low_var = Next(low), high_var = Next(high), divisor_var = is_scale ? Next(divisor) : Var();
    if (!low_var.defined() && !high_var.defined() && !divisor_var.defined()) return GetRef<Expr>(call);
    Expr data = call->args[0];
    auto or_number = [](const Var& var, const Constant& value) { return var.defined() ? Expr(var) : Expr(value); };
    if (divisor_var.defined() || attrs->divisor != 1) {
      const char* divide = is_scale ? "qnn.contrib_divide_by_scale" : "divide";
      data = WithTypeOf(ops::CallOp(divide, {data, or_number(divisor_var, divisor)}), data.get());
    }
    Expr rounded = ops::CallOp("qnn.contrib_round_clamp", {data, or_number(low_var, low), or_number(high_var, high)},
                               Attrs(), call->span);
    return WithTypeOf(rounded, call);
  }

  Var Next(const Constant& number) {
    numbers.push_back(number);
    return place_(numbers);
  }

  Place place_;
};

Var NumberParam(size_t index, const Constant& number) {
  Var var(StrCat("p", index), number->tensor_type(), number->span);
  const_cast<VarNode*>(var.as<VarNode>())->checked_type_ = number->tensor_type();
  return var;
}

Function WithParams(const FunctionNode* func, const Array<Var>& params, const Expr& body) {
  return Function(params, body, func->ret_type, func->type_params, func->attrs, func->span);
}

/// Functions of one form, and which of their numbers differ.
struct Form {
  std::vector<const FunctionNode*> functions;
  std::vector<Numbers> numbers;

  bool Differs(size_t i) const {
    return std::any_of(numbers.begin() + 1, numbers.end(),
                       [&](const Numbers& other) { return !StructuralEqual(other[i], numbers[0][i]); });
  }
  /// For each number, that whose parameter it shares: the first that is equal in each function; -1 where it stays.
  std::vector<int> Sources() const {
    std::vector<int> sources(numbers[0].size(), -1);
    std::vector<size_t> lifted;
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!Differs(i)) continue;
      auto same = std::find_if(lifted.begin(), lifted.end(), [&](size_t j) {
        return std::all_of(numbers.begin(), numbers.end(),
                           [&](const Numbers& of) { return StructuralEqual(of[i], of[j]); });
      });
      sources[i] = static_cast<int>(same == lifted.end() ? i : *same);
      if (same == lifted.end()) lifted.push_back(i);
    }
    return sources;
  }
};

class KernelSharer : public MixedModeMutator {
 public:
  explicit KernelSharer(size_t most_params) : most_params_(most_params) {}

  Function Transform(const Function& func) {
    Collect(func);
    for (const auto& [params, forms] : forms_) {
      for (const auto& [general, form] : forms) Share(form);
    }
    return shared_.empty() ? func : Downcast<Function>(Mutate(func));
  }

 private:
  struct Shared {
    Function func;
    Array<Expr> numbers;  ///< further arguments
  };

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    auto found = shared_.find(pre->op.get());
    if (found == shared_.end()) return post;
    const auto* call = post.as<CallNode>();
    Array<Expr> args = call->args;
    for (const Expr& number : found->second.numbers) args.push_back(number);
    return Call(found->second.func, args, call->attrs, call->type_args, call->span);
  }

  /// Sorts the fused functions by what remains when all numbers are taken out.
  void Collect(const Function& func) {
    std::set<const Object*> met;
    PostOrderVisit(func, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      if (call == nullptr || !IsKernelCall(call) || !met.insert(call->op.get()).second) return;
      const auto* kernel = call->op.as<FunctionNode>();
      Array<Var> params = kernel->params;
      NumberLifter lifter([&](const Numbers& found) {
        params.push_back(NumberParam(params.size(), found.back()));
        return params.back();
      });
      const Expr body = lifter.Mutate(kernel->body);
      if (lifter.numbers.empty()) return;
      Form& form = forms_[kernel->params.size()][WithParams(kernel, params, body)];
      form.functions.push_back(kernel);
      form.numbers.push_back(std::move(lifter.numbers));
    });
  }

  void Share(const Form& form) {
    const std::vector<int> sources = form.Sources();
    const auto lifted =
        static_cast<size_t>(std::count_if(sources.begin(), sources.end(), [](int s) { return s >= 0; }));
    const FunctionNode* first = form.functions[0];
    if (lifted == 0 || (most_params_ > 0 && first->params.size() + lifted >= most_params_)) return;
    for (size_t f = 0; f < form.functions.size(); ++f) {
      const FunctionNode* kernel = form.functions[f];
      Array<Var> params = kernel->params;
      Array<Expr> numbers;
      std::map<int, Var> param_of;
      NumberLifter lifter([&](const Numbers& met) {
        const int source = sources[met.size() - 1];
        if (source < 0) return Var();
        Var& param = param_of[source];
        if (!param.defined()) {
          param = NumberParam(params.size(), met.back());
          params.push_back(param);
          numbers.push_back(met.back());
        }
        return param;
      });
      const Expr body = lifter.Mutate(kernel->body);
      shared_[kernel] = {WithParams(kernel, params, body), numbers};
    }
  }

  size_t most_params_;
  /// By the number of parameters that the functions have of their own: an operand of one may stand where another has a
  /// number.
  std::map<size_t, std::unordered_map<Function, Form, StructuralHashFn, StructuralEqualFn>> forms_;
  std::unordered_map<const Object*, Shared> shared_;
};

}  // namespace

namespace transform {

Pass ShareKernels() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext& context) {
        const int64_t most = context->GetConfigInt(kFuseMaxArgs, 0);
        return KernelSharer(most > 0 ? static_cast<size_t>(most) : 0).Transform(func);
      },
      {"ShareKernels", 1, {"InferType"}, "Makes fused functions that differ only in numbers one, with arguments"});
}

}  // namespace transform
}  // namespace treadle::relay
