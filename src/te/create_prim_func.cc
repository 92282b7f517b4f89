// SPDX-License-Identifier: Apache-2.0
// From a graph of tensor expressions to a function of blocks, one per operation.
#include "te/create_prim_func.h"

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tir/bind_shared.h"
#include "tir/block_access.h"
#include "tir/buffer_replacer.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/scan.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"

namespace treadle::te {

using namespace tir;  // NOLINT(google-build-using-namespace): this file builds TIR
using tir::Var;

namespace {

struct TensorKey {
  const Object* op;
  int index;
  bool operator==(const TensorKey& other) const = default;
};
struct TensorKeyHash {
  size_t operator()(const TensorKey& key) const { return std::hash<const Object*>()(key.op) * 31 + key.index; }
};

/// Turns a body over tensors and axes into one over buffers and block variables. Memoised: bodies may share nodes.
class BodyConverter : public ExprMutator {
 public:
  std::unordered_map<const VarNode*, Var> vars;
  BodyConverter(const std::unordered_map<TensorKey, Buffer, TensorKeyHash>& buffers) : buffers_(buffers) {}

  PrimExpr VisitExpr(const PrimExpr& e) override {
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second;
    PrimExpr result = ExprMutator::VisitExpr(e);
    memo_.emplace(e.get(), result);
    return result;
  }

 protected:
  PrimExpr VisitExpr_(const VarNode* op) override {
    auto it = vars.find(op);
    return it == vars.end() ? GetRef<PrimExpr>(op) : PrimExpr(it->second);
  }
  PrimExpr VisitExpr_(const ProducerLoadNode* op) override {
    Tensor tensor = Downcast<Tensor>(op->producer);
    auto it = buffers_.find({tensor->op.get(), tensor->value_index});
    TREADLE_ICHECK(it != buffers_.end()) << "tensor " << tensor->GetNameHint() << " has no buffer";
    Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
    return BufferLoad(it->second, indices);
  }

 private:
  const std::unordered_map<TensorKey, Buffer, TensorKeyHash>& buffers_;
  std::unordered_map<const Object*, PrimExpr> memo_;
};

class FunctionBuilder {
 public:
  std::unordered_map<const Object*, std::string> block_of_operation;

  PrimFunc Build(const std::vector<Parameter>& params, const std::string& name) {
    const Array<Tensor> args = DeclareArguments(params);
    Array<Operation> order = PostOrder(args);
    FindScans(order, args);
    Array<Stmt> stages;
    for (const Operation& op : order) {
      if (in_scan_.count(op.get()) != 0) continue;
      if (op.as<PlaceholderOpNode>()) {
        if (!buffers_.count({op.get(), 0})) {
          throw Error(StrCat("tensor ", op->name, " is an input of the computation but not among the arguments"));
        }
        continue;
      }
      Array<Buffer> outputs = OutputBuffers(op);
      if (const auto* compute = op.as<ComputeOpNode>()) {
        stages.push_back(ComputeStage(compute, outputs));
      } else if (const auto* scan = op.as<ScanOpNode>()) {
        stages.push_back(ScanStage(scan, outputs));
      } else if (const auto* external = op.as<ExternOpNode>()) {
        stages.push_back(ExternStage(external, outputs));
      } else {
        throw Error(StrCat("operation ", op->name, " of kind ", op->type_key(), " can't be lowered"));
      }
    }
    Block root({}, {}, {}, "root", SeqStmt::Flatten(stages), Stmt(), allocs_);
    Stmt body = BlockRealize({}, make_bool(true), root);
    Map<String, ObjectRef> attrs;
    attrs.Set(treadle::attr::kGlobalSymbol, String(name));
    attrs.Set(treadle::attr::kNoAlias, make_bool(true));
    return PrimFunc(params_, body, Type(), buffer_map_, DictAttrs(attrs));
  }

 private:
  /// The tensors among the parameters.
  Array<Tensor> DeclareArguments(const std::vector<Parameter>& params) {
    Array<Tensor> tensors;
    for (const Parameter& given : params) {
      if (!given.tensor.defined()) {
        names_.insert(given.scalar->name_hint);
        params_.push_back(given.scalar);
        continue;
      }
      const Tensor& tensor = given.tensor;
      TensorKey key{tensor->op.get(), tensor->value_index};
      if (buffers_.count(key)) throw Error(StrCat("tensor ", tensor->GetNameHint(), " is listed twice as an argument"));
      std::string name = Unique(tensor->GetNameHint());
      Var param(name, DataType::Handle());
      Buffer buffer =
          given.buffer.defined() ? Bound(tensor, given.buffer) : DeclBuffer(tensor->shape, tensor->dtype, name);
      params_.push_back(param);
      buffer_map_.Set(param, buffer);
      buffers_.emplace(key, buffer);
      tensors.push_back(tensor);
    }
    return tensors;
  }

  /// The caller's buffer of a tensor. One that may begin anywhere gets a variable for where.
  static Buffer Bound(const Tensor& tensor, const Buffer& buffer) {
    const std::string what = StrCat("buffer ", buffer->name, ", bound to tensor ", tensor->GetNameHint());
    if (buffer->dtype != tensor->dtype) {
      throw DTypeError(StrCat(what, ", has dtype ", buffer->dtype, "; expected ", tensor->dtype));
    }
    bool same = buffer->shape.size() == tensor->shape.size();
    for (size_t i = 0; same && i < buffer->shape.size(); ++i) {
      same = arith::Analyzer().CanProve(
          equal(cast(DataType::Int(64), buffer->shape[i]), cast(DataType::Int(64), tensor->shape[i])));
    }
    if (!same) throw ShapeError(StrCat(what, ", has shape ", Dims(buffer->shape), "; expected ", Dims(tensor->shape)));
    if (buffer->offset_factor == 0 || buffer->elem_offset.defined()) return buffer;
    Var offset(buffer->name + "_elem_offset", DataType::Int(32));
    return Buffer(buffer->data, buffer->dtype, buffer->shape, buffer->strides, offset, buffer->name,
                  buffer->data_alignment, buffer->offset_factor);
  }

  static std::string Dims(const Array<PrimExpr>& shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); ++i) text += StrCat(i == 0 ? "" : ", ", tir::AsText(shape[i]));
    return text + ")";
  }

  Array<Buffer> OutputBuffers(const Operation& op) {
    Array<Buffer> outputs;
    for (int i = 0; i < op->num_outputs(); ++i) {
      auto it = buffers_.find({op.get(), i});
      if (it == buffers_.end()) {
        std::string name = Unique(op->num_outputs() == 1 ? op->name : StrCat(op->name, ".v", i));
        Buffer buffer = DeclBuffer(op->output_shape(i), op->output_dtype(i), name);
        allocs_.push_back(buffer);
        it = buffers_.emplace(TensorKey{op.get(), i}, buffer).first;
      }
      outputs.push_back(it->second);
    }
    return outputs;
  }

  std::string Unique(const std::string& hint) { return UniqueIn(names_, hint); }
  static std::string UniqueIn(std::set<std::string>& used, const std::string& hint) {
    std::string base = hint.empty() ? "T" : hint, name = base;
    for (int i = 1; !used.insert(name).second; ++i) name = StrCat(base, "_", i);
    return name;
  }

  std::string BlockName(const OperationNode* op) { return block_of_operation[op] = UniqueIn(block_names_, op->name); }

  /// Operations and states that belong to the loop of a scan. They are nobody else's.
  void FindScans(const Array<Operation>& order, const Array<Tensor>& args) {
    std::unordered_map<const Object*, const ScanOpNode*> owner;
    for (const Operation& op : order) {
      const auto* scan = op.as<ScanOpNode>();
      if (scan == nullptr) continue;
      for (const Tensor& state : scan->state_placeholder) owner[state->op.get()] = scan;
      for (const Operation& inner : ScanBody(scan)) owner[inner.get()] = scan;
    }
    auto refuse = [&](const Tensor& tensor, const std::string& user) {
      const ScanOpNode* scan = owner.at(tensor->op.get());
      throw Error(StrCat("tensor ", tensor->GetNameHint(), " belongs to the steps of scan ", scan->name, "; ", user,
                         " must use the scan's result instead"));
    };
    for (const Operation& op : order) {
      for (const Tensor& input : InputTensors(op)) {
        auto it = owner.find(input->op.get());
        if (it == owner.end() || it->second == op.get()) continue;
        auto user = owner.find(op.get());
        if (user == owner.end() || user->second != it->second) refuse(input, "operation " + op->name);
      }
    }
    for (const Tensor& arg : args) {
      if (owner.count(arg->op.get()) != 0) refuse(arg, "the list of arguments");
    }
    for (const auto& [op, scan] : owner) in_scan_.insert(op);
  }

  /// The first rows copied from init, then a loop of steps around the blocks of the body.
  Stmt ScanStage(const ScanOpNode* scan, const Array<Buffer>& outputs) {
    Array<Stmt> parts;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor from = scan->init[i];
      std::vector<std::string> names;
      for (size_t d = 0; d < from.ndim(); ++d) names.push_back(StrCat("ax", d));
      Tensor copy = Compute(
          from->shape, [&](const Array<Var>& v) { return from(Array<PrimExpr>(v.begin(), v.end())); },
          scan->name + "_init", "", {}, names);
      parts.push_back(ComputeStage(copy->op.as<ComputeOpNode>(), {outputs[i]}));
      block_of_operation[scan] = block_of_operation.at(copy->op.get());
      block_of_operation.erase(copy->op.get());
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor state = scan->state_placeholder[i], update = scan->update[i];
      buffers_.emplace(TensorKey{state->op.get(), 0}, outputs[i]);
      if (!buffers_.emplace(TensorKey{update->op.get(), update->value_index}, outputs[i]).second) {
        throw Error(StrCat("scan ", scan->name, ": ", update->GetNameHint(), " updates several states"));
      }
    }
    Var time(scan->scan_axis->var->name_hint, scan->scan_axis->var.dtype());
    Array<Stmt> steps;
    for (const Operation& op : ScanBody(scan)) {
      Step step{time, scan->scan_axis->dom, IterVarType::kDataPar};
      for (const Tensor& update : scan->update) {
        if (update->op.same_as(op)) step.type = IterVarType::kOrdered;
      }
      steps.push_back(ComputeStage(op.as<ComputeOpNode>(), OutputBuffers(op), &step));
    }
    parts.push_back(
        For(time, scan->scan_axis->dom->min, scan->scan_axis->dom->extent, ForKind::kSerial, SeqStmt::Flatten(steps)));
    return SeqStmt::Flatten(parts);
  }

  /// The loop around a scan's body, which drives the first axis of its operations.
  struct Step {
    Var loop;
    Range dom;
    IterVarType type;
  };

  Stmt ComputeStage(const ComputeOpNode* op, const Array<Buffer>& outputs, const Step* step = nullptr) {
    // Bounds of reductions may depend on axes: those of the block on its variables, those of loops on loops around
    // them.
    BodyConverter convert(buffers_), convert_bounds(buffers_);
    Array<IterVar> iter_vars;
    std::vector<std::pair<Var, Range>> loops;
    auto converted = [](const Range& range, DataType dtype, BodyConverter& by) {
      return Range::FromMinExtent(cast(dtype, by(range->min)), cast(dtype, by(range->extent)));
    };
    auto declare = [&](const IterVar& axis, IterVarType type) {
      Var block_var("v" + axis->var->name_hint, axis->var.dtype());
      const bool is_step = step != nullptr && iter_vars.empty();
      Var loop_var = is_step ? step->loop : Var(axis->var->name_hint, axis->var.dtype());
      const Range& range = is_step ? step->dom : axis->dom;
      if (is_step) type = step->type;
      iter_vars.push_back(IterVar(converted(range, axis->var.dtype(), convert), block_var, type));
      loops.emplace_back(loop_var, converted(range, axis->var.dtype(), convert_bounds));
      convert.vars.emplace(axis->var.get(), block_var);
      convert_bounds.vars.emplace(axis->var.get(), loop_var);
    };
    for (const IterVar& axis : op->axis) declare(axis, IterVarType::kDataPar);
    for (const IterVar& axis : op->reduce_axis) declare(axis, IterVarType::kCommReduce);

    Array<PrimExpr> indices;
    for (size_t i = 0; i < op->axis.size(); ++i) indices.push_back(iter_vars[i]->var);
    Stmt init, body;
    if (const auto* reduce = op->body[0].as<ReduceNode>()) {
      std::tie(init, body) = ReduceBody(reduce, outputs, indices, convert);
    } else {
      Array<Stmt> stores;
      for (size_t i = 0; i < op->body.size(); ++i) {
        stores.push_back(BufferStore(outputs[i], BindShared(convert(op->body[i])), indices));
      }
      body = SeqStmt::Flatten(stores);
    }
    Map<String, ObjectRef> annotations = op->attrs;
    if (!op->tag.empty()) annotations.Set("tag", String(op->tag));
    BlockAccess access = DetectBlockAccess(body, init);
    Block block(iter_vars, access.reads, access.writes, BlockName(op), body, init, {}, {}, annotations);
    Array<PrimExpr> bindings;
    for (const auto& [var, dom] : loops) bindings.push_back(var);
    Stmt nest = BlockRealize(bindings, make_bool(true), block);
    for (size_t i = loops.size(); i-- > (step != nullptr ? 1U : 0U);) {
      nest = For(loops[i].first, loops[i].second->min, loops[i].second->extent, ForKind::kSerial, nest);
    }
    return nest;
  }

  std::pair<Stmt, Stmt> ReduceBody(const ReduceNode* reduce, const Array<Buffer>& outputs,
                                   const Array<PrimExpr>& indices, BodyConverter& convert) {
    const CommReducerNode* combiner = reduce->combiner.get();
    size_t n = reduce->source.size();
    Array<Stmt> inits;
    Map<Var, PrimExpr> operands;
    for (size_t i = 0; i < n; ++i) {
      PrimExpr initial = reduce->init.empty() ? combiner->identity_element[i] : convert(reduce->init[i]);
      inits.push_back(BufferStore(outputs[i], cast(outputs[i]->dtype, initial), indices));
      operands.Set(combiner->lhs[i], BufferLoad(outputs[i], indices));
      operands.Set(combiner->rhs[i], convert(reduce->source[i]));
    }
    Stmt update;
    if (n == 1) {
      PrimExpr value = BindShared(Substitute(combiner->result[0], operands));
      update = BufferStore(outputs[0], value, indices);
    } else {
      // Sources and results are named first: no store may happen before all are computed.
      std::vector<std::pair<Var, PrimExpr>> lets;
      for (size_t i = 0; i < n; ++i) {
        Var source(StrCat("x", i), outputs[i]->dtype);
        lets.emplace_back(source, BindShared(operands.at(combiner->rhs[i])));
        operands.Set(combiner->rhs[i], source);
      }
      Array<Stmt> stores;
      for (size_t i = 0; i < n; ++i) {
        Var result(StrCat("r", i), outputs[i]->dtype);
        lets.emplace_back(result, Substitute(combiner->result[i], operands));
        stores.push_back(BufferStore(outputs[i], result, indices));
      }
      update = SeqStmt::Flatten(stores);
      for (size_t i = lets.size(); i-- > 0;) update = LetStmt(lets[i].first, lets[i].second, update);
    }
    PrimExpr condition = convert(reduce->condition);
    if (!is_const_int(condition, 1)) update = IfThenElse(condition, update);
    return {SeqStmt::Flatten(inits), update};
  }

  Stmt ExternStage(const ExternOpNode* op, const Array<Buffer>& outputs) {
    Map<Buffer, Buffer> replacement;
    Array<BufferRegion> reads, writes;
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      const Tensor tensor = op->inputs[i];
      Buffer buffer = buffers_.at({tensor->op.get(), tensor->value_index});
      replacement.Set(op->input_placeholders[i], buffer);
      reads.push_back(BufferRegion::Full(buffer));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      replacement.Set(op->output_placeholders[i], outputs[i]);
      writes.push_back(BufferRegion::Full(outputs[i]));
    }
    Stmt body = ReplaceBuffers(op->body, replacement);
    Map<String, ObjectRef> annotations = op->attrs;
    if (!op->tag.empty()) annotations.Set("tag", String(op->tag));
    Block block({}, reads, writes, BlockName(op), body, Stmt(), {}, {}, annotations);
    return BlockRealize({}, make_bool(true), block);
  }

  std::unordered_map<TensorKey, Buffer, TensorKeyHash> buffers_;
  Array<Var> params_;
  Map<Var, Buffer> buffer_map_;
  Array<Buffer> allocs_;
  std::unordered_set<const Object*> in_scan_;  ///< operations and states of scans
  std::set<std::string> names_;
  std::set<std::string> block_names_{"root"};
};

}  // namespace

PrimFunc CreatePrimFunc(const Array<Tensor>& args, const std::string& name) {
  return MakePrimFunc(std::vector<Parameter>(args.begin(), args.end()), name);
}

PrimFunc MakePrimFunc(const std::vector<Parameter>& params, const std::string& name) {
  return FunctionBuilder().Build(params, name);
}

PrimFunc CreatePrimFunc(const std::vector<Parameter>& params, const std::string& name,
                        std::unordered_map<const Object*, std::string>* block_names) {
  FunctionBuilder builder;
  PrimFunc func = builder.Build(params, name);
  *block_names = builder.block_of_operation;
  return func;
}

}  // namespace treadle::te
