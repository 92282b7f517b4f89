// SPDX-License-Identifier: Apache-2.0
// CombineParallelConv2D, -Dense, -BatchMatmul: several operators of one kind that read the same value become one with
// joined weights; what each branch does next with operands per channel is joined as well.
#include <map>

#include "passes/pass_util.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/conv.h"

namespace treadle::relay {
namespace {

using Branch = std::vector<const CallNode*>;  ///< the operator, then the element-wise calls that follow

Expr Replace(const Expr& root, const std::unordered_map<const Object*, Expr>& replacements) {
  class Replacer : public ExprMutator {
   public:
    explicit Replacer(const std::unordered_map<const Object*, Expr>& map) : map_(map) {}
    Expr VisitExpr(const Expr& e) override {
      auto it = map_.find(e.get());
      if (it == map_.end()) return ExprMutator::VisitExpr(e);
      // The replacement still refers to the old graph; its own nodes are new, so this ends.
      auto done = done_.find(e.get());
      if (done != done_.end()) return done->second;
      Expr result = ExprMutator::VisitExpr(it->second);
      done_[e.get()] = result;
      return result;
    }

   private:
    const std::unordered_map<const Object*, Expr>& map_;
    std::unordered_map<const Object*, Expr> done_;
  };
  return Replacer(replacements).Mutate(root);
}

/// Users of each node, in order of a depth-first walk.
using Users = std::unordered_map<const Object*, std::vector<const CallNode*>>;

/// Finds groups of parallel operators and joins them.
class Combiner {
 public:
  explicit Combiner(int min_branches) : min_branches_(static_cast<size_t>(std::max(2, min_branches))) {}
  virtual ~Combiner() = default;

  Expr Run(const Expr& root) {
    std::vector<const CallNode*> calls;
    uses_ = CountUses(root);
    PostOrderVisit(root, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      if (call == nullptr) return;
      for (const Expr& arg : call->args) users_[arg.get()].push_back(call);
      if (Supported(call)) calls.push_back(call);
    });
    std::vector<std::vector<const CallNode*>> groups;
    std::map<const Object*, std::vector<size_t>> by_input;
    for (const CallNode* call : calls) {
      auto& candidates = by_input[call->args[0].get()];
      bool placed = false;
      for (size_t g : candidates) {
        if (Compatible(groups[g].front(), call) && !DependsOnGroup(call, groups[g])) {
          groups[g].push_back(call);
          placed = true;
          break;
        }
      }
      if (!placed) {
        candidates.push_back(groups.size());
        groups.push_back({call});
      }
    }
    for (const auto& group : groups) {
      if (group.size() >= min_branches_) Combine(group);
    }
    return replacements_.empty() ? root : Replace(root, replacements_);
  }

 protected:
  virtual bool Supported(const CallNode* call) = 0;
  virtual bool Compatible(const CallNode* a, const CallNode* b) = 0;
  virtual void Combine(const std::vector<const CallNode*>& group) = 0;

  /// Weights that are computed from a branch would make the joined operator depend on itself.
  bool DependsOnGroup(const CallNode* call, const std::vector<const CallNode*>& group) const {
    (void)group;
    return call->args[1].as<ConstantNode>() == nullptr && call->args[1].as<VarNode>() == nullptr;
  }

  /// The calls after each operator that are the same in all branches: single uses, element-wise or broadcasting with
  /// an operand per channel.
  std::vector<Branch> Follow(const std::vector<const CallNode*>& group, int channel_axis) {
    std::vector<Branch> branches;
    for (const CallNode* call : group) branches.push_back({call});
    while (true) {
      std::vector<const CallNode*> next;
      for (const Branch& branch : branches) {
        const CallNode* last = branch.back();
        auto it = users_.find(last);
        if (uses_.at(last) != 1 || it == users_.end() || it->second.size() != 1) return branches;
        next.push_back(it->second[0]);
      }
      for (size_t i = 0; i < next.size(); ++i) {
        if (!SameNext(branches[0].back(), next[0], branches[i].back(), next[i], channel_axis)) return branches;
      }
      for (size_t i = 0; i < next.size(); ++i) branches[i].push_back(next[i]);
    }
  }

  std::unordered_map<const Object*, Expr> replacements_;

 private:
  static bool PerChannel(const Expr& operand, const TensorTypeNode* result, int axis) {
    const auto* type = TensorTypeOf(operand);
    if (type == nullptr || !IsStatic(type) || type->shape.size() > result->shape.size()) return false;
    if (operand.as<ConstantNode>() == nullptr && operand.as<VarNode>() == nullptr) return false;
    size_t offset = result->shape.size() - type->shape.size();
    bool spans = false;
    for (size_t i = 0; i < type->shape.size(); ++i) {
      int64_t dim = *AsConstInt(type->shape[i]);
      if (static_cast<int>(i + offset) == axis) {
        const int64_t* channels = AsConstInt(result->shape[i + offset]);
        spans = channels != nullptr && *channels == dim && dim != 1;
      } else if (dim != 1) {
        return false;
      }
    }
    return spans;
  }

  static bool SameNext(const CallNode* from_a, const CallNode* a, const CallNode* from_b, const CallNode* b, int axis) {
    const auto* op = a->op.as<OpNode>();
    if (op == nullptr || !a->op.same_as(b->op) || a->args.size() != b->args.size()) return false;
    if (GetRef<Op>(op).GetAttr(kOpPattern, OpPatternKind::kOpaque) > OpPatternKind::kBroadcast) return false;
    if (!StructuralEqual(a->attrs, b->attrs)) return false;
    const auto* ta = a->type_as<TensorTypeNode>();
    const auto* tb = b->type_as<TensorTypeNode>();
    const auto* source = from_a->type_as<TensorTypeNode>();
    if (ta == nullptr || tb == nullptr || source == nullptr || !ShapesEqual(source->shape, ta->shape)) return false;
    const auto* bias_attrs = a->attrs.as<ops::BiasAddAttrs>();
    const bool bias = bias_attrs != nullptr && PositiveAxis(bias_attrs->axis, ta->shape.size()) == axis;
    // Attributes of other operators may say which dimension an operand belongs to (nn.prelu).
    if (a->args.size() > 1 && op->attrs_type != nullptr && !bias) return false;
    for (size_t i = 0; i < a->args.size(); ++i) {
      bool flows_a = a->args[i].get() == from_a, flows_b = b->args[i].get() == from_b;
      if (flows_a != flows_b) return false;
      if (flows_a) continue;
      if (a->args[i].same_as(b->args[i]) && TensorTypeOf(a->args[i])->shape.empty()) continue;
      if (!bias && (!PerChannel(a->args[i], ta, axis) || !PerChannel(b->args[i], tb, axis))) return false;
      const auto* xa = TensorTypeOf(a->args[i]);
      const auto* xb = TensorTypeOf(b->args[i]);
      if (xa->shape.size() != xb->shape.size() || xa->dtype != xb->dtype) return false;
    }
    return true;
  }

  size_t min_branches_;
  std::unordered_map<const Object*, int> uses_;
  Users users_;
};

/// One wide operator, its result cut along the channels afterwards.
class WideCombiner : public Combiner {
 public:
  using Combiner::Combiner;

 protected:
  void CombineWide(const std::vector<const CallNode*>& group, int channel_axis, int weight_axis,
                   const std::function<Attrs(int64_t)>& attrs_of) {
    std::vector<Branch> branches = Follow(group, channel_axis);
    Array<Expr> weights;
    std::vector<int64_t> channels;
    int64_t total = 0;
    for (const CallNode* call : group) {
      weights.push_back(call->args[1]);
      channels.push_back(*AsConstInt(call->type_as<TensorTypeNode>()->shape[static_cast<size_t>(channel_axis)]));
      total += channels.back();
    }
    Expr value = ops::CallOp(OpName(group[0]), {group[0]->args[0], ops::MakeConcatenate(weights, weight_axis)},
                             attrs_of(total), group[0]->span);
    size_t rank = group[0]->type_as<TensorTypeNode>()->shape.size();
    for (size_t step = 1; step < branches[0].size(); ++step) {
      const CallNode* call = branches[0][step];
      Array<Expr> args;
      for (size_t i = 0; i < call->args.size(); ++i) {
        if (call->args[i].get() == branches[0][step - 1]) {
          args.push_back(value);
        } else if (TensorTypeOf(call->args[i])->shape.empty()) {
          args.push_back(call->args[i]);
        } else {
          Array<Expr> parts;
          for (const Branch& branch : branches) parts.push_back(branch[step]->args[i]);
          size_t part_rank = TensorTypeOf(call->args[i])->shape.size();
          int axis = OpName(call) == "nn.bias_add" ? 0 : channel_axis - static_cast<int>(rank - part_rank);
          args.push_back(ops::MakeConcatenate(parts, axis));
        }
      }
      value = Call(call->op, args, call->attrs, call->type_args, call->span);
    }
    int64_t begin = 0;
    for (size_t i = 0; i < branches.size(); ++i) {
      // Whole dimensions before the channels (size -1), none named after them.
      std::vector<int64_t> from(static_cast<size_t>(channel_axis) + 1, 0), size(from.size(), -1);
      from.back() = begin;
      size.back() = channels[i];
      replacements_[branches[i].back()] =
          ops::CallWith<ops::StridedSliceAttrs>("strided_slice", {value}, [&](ops::StridedSliceAttrs& a) {
            a.begin = from;
            a.end = size;
            a.strides = std::vector<int64_t>(from.size(), 1);
            a.slice_mode = "size";
          });
      begin += channels[i];
    }
  }
};

class Conv2DCombiner : public WideCombiner {
 public:
  using WideCombiner::WideCombiner;

 private:
  bool Supported(const CallNode* call) override {
    const auto* attrs = AsCallOf(GetRef<Expr>(call), "nn.conv2d") ? call->attrs.as<ops::ConvAttrs>() : nullptr;
    if (attrs == nullptr || attrs->groups != 1) return false;
    const auto* type = call->type_as<TensorTypeNode>();
    const auto* weight = call->args[1]->type_as<TensorTypeNode>();
    const Layout out = attrs->ParsedOutLayout();
    return type != nullptr && weight != nullptr && IsStatic(weight) && out.IsPlain() &&
           attrs->ParsedKernelLayout().IsPlain() &&
           AsConstInt(type->shape[static_cast<size_t>(out.IndexOf('C'))]) != nullptr;
  }
  bool Compatible(const CallNode* a, const CallNode* b) override {
    const auto* x = a->attrs_as<ops::ConvAttrs>();
    const auto* y = b->attrs_as<ops::ConvAttrs>();
    const auto* wa = a->args[1]->type_as<TensorTypeNode>();
    const auto* wb = b->args[1]->type_as<TensorTypeNode>();
    if (x->strides != y->strides || x->padding != y->padding || x->dilation != y->dilation ||
        x->data_layout != y->data_layout || x->kernel_layout != y->kernel_layout || x->out_layout != y->out_layout ||
        x->out_dtype != y->out_dtype || wa->dtype != wb->dtype) {
      return false;
    }
    const Layout kernel = x->ParsedKernelLayout();
    for (size_t i = 0; i < wa->shape.size(); ++i) {
      if (kernel[i].name != 'O' && *AsConstInt(wa->shape[i]) != *AsConstInt(wb->shape[i])) return false;
    }
    return true;
  }
  void Combine(const std::vector<const CallNode*>& group) override {
    const auto* attrs = group[0]->attrs_as<ops::ConvAttrs>();
    const int out_axis = attrs->ParsedOutLayout().IndexOf('C'), kernel_axis = attrs->ParsedKernelLayout().IndexOf('O');
    CombineWide(group, out_axis, kernel_axis, [&](int64_t channels) {
      auto copy = MakeObject<ops::Conv2DAttrs>(*static_cast<const ops::Conv2DAttrs*>(group[0]->attrs.get()));
      copy->channels = channels;
      return Attrs(ObjectPtr<Object>(copy));
    });
  }
};

bool IsDense(const CallNode* call) {
  if (OpName(call) != "nn.dense") return false;
  const auto* weight = call->args[1]->type_as<TensorTypeNode>();
  const auto* type = call->type_as<TensorTypeNode>();
  return weight != nullptr && type != nullptr && IsStatic(weight);
}

class WideDenseCombiner : public WideCombiner {
 public:
  using WideCombiner::WideCombiner;

 private:
  bool Supported(const CallNode* call) override { return IsDense(call); }
  bool Compatible(const CallNode* a, const CallNode* b) override {
    return a->attrs_as<ops::DenseAttrs>()->out_dtype == b->attrs_as<ops::DenseAttrs>()->out_dtype &&
           a->args[1]->type_as<TensorTypeNode>()->dtype == b->args[1]->type_as<TensorTypeNode>()->dtype;
  }
  void Combine(const std::vector<const CallNode*>& group) override {
    int axis = static_cast<int>(group[0]->type_as<TensorTypeNode>()->shape.size()) - 1;
    CombineWide(group, axis, 0, [&](int64_t units) {
      return MakeAttrs<ops::DenseAttrs>([&](auto& a) {
        a.units = units;
        a.out_dtype = group[0]->attrs_as<ops::DenseAttrs>()->out_dtype;
      });
    });
  }
};

/// Dense layers of equal shape, stacked into one batched product.
class BatchDenseCombiner : public Combiner {
 public:
  using Combiner::Combiner;

 private:
  bool Supported(const CallNode* call) override {
    return IsDense(call) && call->type_as<TensorTypeNode>()->shape.size() == 2;
  }
  bool Compatible(const CallNode* a, const CallNode* b) override {
    return TypesEqual(a->args[1]->checked_type(), b->args[1]->checked_type()) && StructuralEqual(a->attrs, b->attrs);
  }
  void Combine(const std::vector<const CallNode*>& group) override {
    Array<Expr> inputs, weights;
    for (const CallNode* call : group) {
      inputs.push_back(call->args[0]);
      weights.push_back(call->args[1]);
    }
    DataType out_dtype = group[0]->attrs_as<ops::DenseAttrs>()->out_dtype;
    Expr product =
        ops::CallWith<ops::BatchMatmulAttrs>("nn.batch_matmul", {ops::MakeStack(inputs, 0), ops::MakeStack(weights, 0)},
                                             [&](auto& a) { a.out_dtype = out_dtype; });
    Expr parts = ops::MakeSplit(product, static_cast<int64_t>(group.size()), 0);
    for (size_t i = 0; i < group.size(); ++i) {
      replacements_[group[i]] = ops::MakeSqueeze(TupleGetItem(parts, static_cast<int>(i)), {0});
    }
  }
};

class BatchMatmulCombiner : public WideCombiner {
 public:
  using WideCombiner::WideCombiner;

 private:
  bool Supported(const CallNode* call) override {
    if (OpName(call) != "nn.batch_matmul") return false;
    const auto* attrs = call->attrs_as<ops::BatchMatmulAttrs>();
    const auto* rhs = call->args[1]->type_as<TensorTypeNode>();
    return !attrs->transpose_a && attrs->transpose_b && rhs != nullptr && rhs->shape.size() == 3 && IsStatic(rhs);
  }
  bool Compatible(const CallNode* a, const CallNode* b) override {
    const auto* x = a->args[1]->type_as<TensorTypeNode>();
    const auto* y = b->args[1]->type_as<TensorTypeNode>();
    return StructuralEqual(a->attrs, b->attrs) && x->dtype == y->dtype &&
           *AsConstInt(x->shape[0]) == *AsConstInt(y->shape[0]) && *AsConstInt(x->shape[2]) == *AsConstInt(y->shape[2]);
  }
  void Combine(const std::vector<const CallNode*>& group) override {
    CombineWide(group, 2, 1, [&](int64_t) { return group[0]->attrs; });
  }
};

template <typename CombinerT>
transform::Pass CombinePass(const char* name, const char* doc, int min_num_branches) {
  return transform::CreateFunctionPass(
      [min_num_branches](const Function& func, const IRModule&, const transform::PassContext&) {
        return Downcast<Function>(CombinerT(min_num_branches).Run(func));
      },
      {name, 4, {"InferType"}, doc});
}

}  // namespace

namespace transform {

Pass CombineParallelConv2D(int min_num_branches) {
  return CombinePass<Conv2DCombiner>("CombineParallelConv2D", "Joins convolutions of one input", min_num_branches);
}
Pass CombineParallelDense(int min_num_branches, bool to_batch_matmul) {
  const char* doc = "Joins dense layers of one input";
  return to_batch_matmul ? CombinePass<BatchDenseCombiner>("CombineParallelDense", doc, min_num_branches)
                         : CombinePass<WideDenseCombiner>("CombineParallelDense", doc, min_num_branches);
}
Pass CombineParallelBatchMatmul(int min_num_branches) {
  return CombinePass<BatchMatmulCombiner>("CombineParallelBatchMatmul", "Joins matrix products of one left side",
                                          min_num_branches);
}

}  // namespace transform
}  // namespace treadle::relay
