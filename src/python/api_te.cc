// SPDX-License-Identifier: Apache-2.0
// Scalar expressions, tensor expressions, schedules, lowering and building of loop-level functions.
#include "driver/lower/device_code.h"
#include "driver/lower/lower_te.h"
#include "driver/lower/lower_tir.h"
#include "python/checked.h"
#include "targets/llvm/codegen.h"
#include "tir/passes/narrow_types.h"
#include "tir/passes/passes.h"
#include "tir/passes/split_host_device.h"
#include "treadle/arith/analyzer.h"
#include "treadle/driver/build_module.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"
#include "treadle/targets/auto_schedule.h"
#include "treadle/targets/target_spec.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/text.h"

namespace treadle::python {
namespace {

using runtime::Registry;
using te::IterVar;
using te::Operation;
using te::Stage;
using te::Tensor;
using te::TeSchedule;
using tir::Range;
using tir::Var;

template <typename F>
void Reg(const std::string& name, F function) {
  RegisterChecked(name, std::move(function));
}

void RegisterOperators() {
  using Binary = PrimExpr (*)(PrimExpr, PrimExpr);
  using Unary = PrimExpr (*)(PrimExpr);
  const std::pair<const char*, Binary> binaries[] = {{"_OpAdd", tir::add},
                                                     {"_OpSub", tir::sub},
                                                     {"_OpMul", tir::mul},
                                                     {"_OpDiv", tir::div},
                                                     {"_OpMod", tir::truncmod},
                                                     {"_OpTruncDiv", tir::truncdiv},
                                                     {"_OpTruncMod", tir::truncmod},
                                                     {"_OpFloorDiv", tir::floordiv},
                                                     {"_OpFloorMod", tir::floormod},
                                                     {"_OpMin", tir::min},
                                                     {"_OpMax", tir::max},
                                                     {"_OpEQ", tir::equal},
                                                     {"_OpNE", tir::not_equal},
                                                     {"_OpLT", tir::less},
                                                     {"_OpLE", tir::less_equal},
                                                     {"_OpGT", tir::greater},
                                                     {"_OpGE", tir::greater_equal},
                                                     {"_OpAnd", tir::logical_and},
                                                     {"_OpOr", tir::logical_or},
                                                     {"_OpPow", tir::pow},
                                                     {"left_shift", tir::left_shift},
                                                     {"right_shift", tir::right_shift},
                                                     {"bitwise_and", tir::bitwise_and},
                                                     {"bitwise_or", tir::bitwise_or},
                                                     {"bitwise_xor", tir::bitwise_xor},
                                                     {"fmod", tir::fmod},
                                                     {"atan2", tir::atan2}};
  for (const auto& [name, f] : binaries) Reg(StrCat("tir.", name), f);
#define TREADLE_UNARY(name) {#name, tir::name},
  const std::pair<const char*, Unary> unaries[] = {TREADLE_TIR_UNARY_MATH(TREADLE_UNARY)
                                                       TREADLE_TIR_ROUNDING(TREADLE_UNARY){"abs", tir::abs},
                                                   {"isnan", tir::isnan},
                                                   {"isinf", tir::isinf},
                                                   {"isfinite", tir::isfinite},
                                                   {"_OpNot", tir::logical_not},
                                                   {"_OpNeg", tir::neg},
                                                   {"likely", tir::likely},
                                                   {"bitwise_not", tir::bitwise_not}};
#undef TREADLE_UNARY
  for (const auto& [name, f] : unaries) Reg(StrCat("tir.", name), f);
  Reg("tir._OpIfThenElse", [](PrimExpr c, PrimExpr t, PrimExpr f) { return tir::if_then_else(c, t, f); });
  Reg("tir.Select", [](PrimExpr c, PrimExpr t, PrimExpr f) { return tir::select(c, t, f); });
}

void RegisterNodes() {
  Reg("tir._cast", [](DataType dtype, PrimExpr x) { return tir::cast(dtype, x); });
  Reg("tir._const", [](PrimExpr value, DataType dtype) { return tir::cast(dtype, value); });
  Reg("tir.min_value", [](DataType dtype) { return tir::min_value(dtype); });
  Reg("tir.max_value", [](DataType dtype) { return tir::max_value(dtype); });
  Reg("tir.infinity", [](DataType dtype) { return tir::infinity(dtype); });
  Reg("tir.Var", [](std::string name, DataType dtype) { return Var(name, dtype); });
  Reg("tir.IterVar", [](ObjectRef dom, Var var, int type, std::string tag) {
    return IterVar(Expect<Range>(dom), var, static_cast<tir::IterVarType>(type), tag);
  });
  Reg("ir.Range", [](PrimExpr begin, PrimExpr end) { return Range::FromMinExtent(begin, end - begin); });
  Reg("ir.Range_from_min_extent", [](PrimExpr min, PrimExpr extent) { return Range::FromMinExtent(min, extent); });
  Reg("tir.CommReducer", [](Array<Var> lhs, Array<Var> rhs, Array<PrimExpr> result, Array<PrimExpr> identity) {
    return tir::CommReducer(lhs, rhs, result, identity);
  });
  Reg("tir.Reduce",
      [](tir::CommReducer combiner, Array<PrimExpr> source, Array<IterVar> axis, ObjectRef condition,
         Array<PrimExpr> init) { return te::CommReduce(combiner, source, axis, Expect<PrimExpr>(condition), init); });
  Reg("tir.Call",
      [](DataType dtype, std::string name, Array<PrimExpr> args) { return tir::CallIntrin(dtype, name, args); });
  Reg("tir.AsText", [](ObjectRef node, bool version) { return tir::AsText(node, version); });
  // One printer for all IRs: loop-level nodes and modules of loop-level functions here, the rest as graph IR.
  if (!Registry::Get("ir.AsText").defined()) {
    Reg("ir.AsText", [](ObjectRef node, bool show_meta_data) -> std::string {
      bool loops =
          node.defined() && (node->IsInstance<tir::StmtNode>() || node->IsInstance<PrimExprNode>() ||
                             node.as<tir::PrimFuncNode>() || node.as<tir::BufferNode>() || node.as<tir::RangeNode>());
      if (const auto* module = node.as<IRModuleNode>()) {
        loops = !module->functions.empty();
        for (const auto& [var, func] : module->functions) loops &= func.as<tir::PrimFuncNode>() != nullptr;
      }
      return loops ? tir::AsText(node) : relay::AsText(node, show_meta_data);
    });
  }
}

void RegisterArith() {
  Reg("arith.Simplify", [](PrimExpr e, Map<Var, Range> ranges) {
    arith::Analyzer analyzer;
    for (const auto& [var, range] : ranges) analyzer.Bind(var, range);
    return analyzer.Simplify(e);
  });
  Reg("arith.CanProve", [](PrimExpr e, Map<Var, Range> ranges) {
    arith::Analyzer analyzer;
    for (const auto& [var, range] : ranges) analyzer.Bind(var, range);
    return analyzer.CanProve(e);
  });
  Reg("arith.ConstIntBound", [](PrimExpr e, Map<Var, Range> ranges) {
    arith::Analyzer analyzer;
    for (const auto& [var, range] : ranges) analyzer.Bind(var, range);
    arith::ConstIntBound b = analyzer.Bound(e);
    return Array<PrimExpr>{PrimExpr(b.min), PrimExpr(b.max)};
  });
  Reg("arith.ModularSet", [](PrimExpr e, Map<Var, Range> ranges) {
    arith::Analyzer analyzer;
    for (const auto& [var, range] : ranges) analyzer.Bind(var, range);
    const arith::ModularSet m = analyzer.Modular(e);
    return Array<PrimExpr>{PrimExpr(m.coeff), PrimExpr(m.base)};
  });
  Reg("arith.DetectLinearEquation", [](PrimExpr e, Array<Var> vars) {
    const std::vector<PrimExpr> form = arith::Analyzer().DetectLinear(e, {vars.begin(), vars.end()});
    return Array<PrimExpr>(form.begin(), form.end());
  });
}

/// Tensors and variables, and the buffers (or null) that the tensors are to live in.
std::vector<te::Parameter> Parameters(const Array<ObjectRef>& params, const Array<ObjectRef>& buffers) {
  std::vector<te::Parameter> result;
  for (size_t i = 0; i < params.size(); ++i) {
    const ObjectRef param = params[i];
    if (param.as<te::TensorNode>()) {
      result.emplace_back(Expect<Tensor>(param), Expect<tir::Buffer>(i < buffers.size() ? buffers[i] : ObjectRef()));
    } else if (param.as<tir::VarNode>()) {
      result.emplace_back(Expect<Var>(param));
    } else {
      throw DTypeError(StrCat("argument ", i, " of the function: expected a tensor or a variable, not ",
                              param.defined() ? param->type_key() : "None"));
    }
  }
  return result;
}

void RegisterTensors() {
  Reg("te.Placeholder",
      [](Array<PrimExpr> shape, DataType dtype, std::string name) { return te::Placeholder(shape, dtype, name); });
  Reg("te.ComputeOp", [](std::string name, std::string tag, Map<String, ObjectRef> attrs, Array<IterVar> axis,
                         Array<PrimExpr> body) { return te::MakeComputeOp(name, tag, attrs, axis, body); });
  Reg("te.OpGetOutput", [](Operation op, int i) {
    if (i < 0 || i >= op->num_outputs()) throw Error(StrCat("operation ", op->name, " has no output ", i));
    return Tensor(op->output_shape(i), op->output_dtype(i), op, i);
  });
  Reg("te.OpNumOutputs", [](Operation op) { return op->num_outputs(); });
  Reg("te.OpInputTensors", [](Operation op) { return te::InputTensors(op); });
  Reg("te.TensorGetItem", [](Tensor tensor, Array<PrimExpr> indices) { return tensor(indices); });
  Reg("te.TensorName", [](Tensor tensor) { return tensor->GetNameHint(); });
  Reg("te.TensorEqual", [](Tensor a, Tensor b) { return a == b; });
  Reg("te.ReduceAxis", [](Range dom, std::string name) { return te::ReduceAxis(dom, name); });
  Reg("te.CreatePrimFunc", [](Array<ObjectRef> params, Array<ObjectRef> buffers, std::string name) {
    return te::MakePrimFunc(Parameters(params, buffers), name);
  });
  Reg("te.WithKernels", [](Array<Tensor> tensors, Target target) { return targets::WithKernels(tensors, target); });
  Reg("te.AutoSchedule", [](tir::PrimFunc func, Target target) { return targets::AutoSchedule(func, target); });
}

void RegisterTeSchedule() {
  Reg("te.CreateSchedule", [](Array<Operation> ops) { return te::CreateSchedule(ops); });
  Reg("te.ScheduleGetStage", [](TeSchedule s, Operation op) { return s[op]; });
  Reg("te.ScheduleCacheRead", [](TeSchedule s, Tensor t, std::string scope, Array<Operation> readers) {
    return s.CacheRead(t, scope, readers);
  });
  Reg("te.ScheduleCacheWrite", [](TeSchedule s, Array<Tensor> t, std::string scope) { return s.CacheWrite(t, scope); });
  Reg("te.StageSetStorePredicate", [](Stage s, PrimExpr p) { s.SetStorePredicate(p); });
  Reg("te.ScheduleRFactor",
      [](TeSchedule s, Tensor t, IterVar axis, int factor_axis) { return s.RFactor(t, axis, factor_axis); });
  Reg("te.ScheduleApply", [](TeSchedule s, Array<ObjectRef> params, Array<ObjectRef> buffers, std::string name) {
    return s.ApplyWith(Parameters(params, buffers), name);
  });
  const PrimExpr none{ObjectPtr<Object>()};
  Reg("te.StageSplitByFactor", [none](Stage s, IterVar axis, PrimExpr factor) {
    auto [outer, inner] = s.Split(axis, factor, none);
    return Array<IterVar>{outer, inner};
  });
  Reg("te.StageSplitByNParts", [none](Stage s, IterVar axis, PrimExpr nparts) {
    auto [outer, inner] = s.Split(axis, none, nparts);
    return Array<IterVar>{outer, inner};
  });
  // [axes before, axes after, factor, nparts] of each split and fuse; the last two are null of a fuse.
  Reg("te.StageSteps", [](Stage s) {
    Array<ObjectRef> steps;
    for (const te::StageStep& step : s->steps) {
      if (step.kind == te::StageStep::Kind::kReorder) continue;
      Array<tir::IterVar> before, after;
      for (const IterVar& axis : step.inputs) before.push_back(axis);
      for (const IterVar& axis : step.outputs) after.push_back(axis);
      steps.push_back(Array<ObjectRef>{before, after, step.factor, step.nparts});
    }
    return steps;
  });
  // [key, axis (may be null), text, value (may be null)] of each mark.
  Reg("te.StageMarks", [](Stage s) {
    Array<ObjectRef> marks;
    for (const te::StageMark& mark : s->marks) {
      marks.push_back(Array<ObjectRef>{String(mark.key), mark.axis, String(mark.text), mark.value});
    }
    return marks;
  });
  // [AttachType, stage, axis]; the last two are null where the stage isn't computed in a loop of another.
  Reg("te.StageAttachment", [](Stage s) {
    const auto type = IntImm(DataType::Int(32), static_cast<int>(s->attach_type));
    if (s->attach_stage == nullptr) return Array<ObjectRef>{type, ObjectRef(), ObjectRef()};
    return Array<ObjectRef>{type, GetRef<Stage>(s->attach_stage), s->attach_ivar};
  });
  Reg("te.StageFuse", [](Stage s, Array<IterVar> axes) { return s.Fuse(axes); });
  Reg("te.StageReorder", [](Stage s, Array<IterVar> order) { s.Reorder(order); });
  Reg("te.StageTile",
      [](Stage s, IterVar x, IterVar y, PrimExpr fx, PrimExpr fy) { return Array<IterVar>(s.Tile(x, y, fx, fy)); });
  Reg("te.StageComputeAt", [](Stage s, Stage consumer, IterVar axis) { s.ComputeAt(consumer, axis); });
  Reg("te.StageComputeInline", [](Stage s) { s.ComputeInline(); });
  Reg("te.StageComputeRoot", [](Stage s) { s.ComputeRoot(); });
  Reg("te.StageReverseComputeAt", [](Stage s, Stage producer, IterVar axis) { s.ReverseComputeAt(producer, axis); });
  Reg("te.StageReverseComputeInline", [](Stage s) { s.ReverseComputeInline(); });
  Reg("te.StageEnvThreads", [](Stage s, Array<IterVar> threads) { s.EnvThreads(threads); });
  Reg("te.StageSetScope", [](Stage s, std::string scope) { s.SetScope(scope); });
  Reg("te.StageVectorize", [](Stage s, IterVar axis) { s.Mark("vectorize", axis); });
  Reg("te.StageParallel", [](Stage s, IterVar axis) { s.Mark("parallel", axis); });
  Reg("te.StageTensorize", [](Stage s, IterVar axis, tir::TensorIntrin intrin) { s.Tensorize(axis, intrin); });
  Reg("te.StageUnroll", [](Stage s, IterVar axis) { s.Mark("unroll", axis); });
  Reg("te.StageBind", [](Stage s, IterVar axis, std::string thread) { s.Bind(axis, thread); });
  Reg("te.StagePragma", [](Stage s, IterVar axis, std::string key, ObjectRef value) { s.Pragma(axis, key, value); });
  Reg("te.StageStorageAlign",
      [](Stage s, IterVar axis, int factor, int offset) { s.StorageAlign(axis, factor, offset); });
  Reg("te.StageDoubleBuffer", [](Stage s) { s.DoubleBuffer(); });
  Reg("te.StagePrefetch", [](Stage s, Tensor t, IterVar axis, PrimExpr offset) { s.Prefetch(t, axis, offset); });
}

/// The Python object tir.Schedule holds one of these.
class ScheduleNode : public Object {
 public:
  tir::Schedule schedule;
  explicit ScheduleNode(tir::Schedule s) : schedule(std::move(s)) {}
  TREADLE_NODE(ScheduleNode, Object, "tir.Schedule")
};
class ScheduleRef : public ObjectRef {
 public:
  TREADLE_BASE_REF(ScheduleRef, ObjectRef, ScheduleNode);
  tir::Schedule& schedule() const { return const_cast<ScheduleNode*>(get())->schedule; }
};

std::vector<PrimExpr> Factors(const Array<ObjectRef>& factors) {
  std::vector<PrimExpr> result;
  for (const ObjectRef& f : factors) result.push_back(Expect<PrimExpr>(f));
  return result;
}

void RegisterTirSchedule() {
  using tir::BlockRV;
  using tir::LoopRV;
  Reg("tir.schedule.Schedule", [](AnyValue source) {
    if (source.as<tir::PrimFuncNode>()) {
      return ScheduleRef(ObjectPtr<Object>(MakeObject<ScheduleNode>(tir::Schedule(Expect<tir::PrimFunc>(source)))));
    }
    return ScheduleRef(ObjectPtr<Object>(MakeObject<ScheduleNode>(tir::Schedule(Expect<IRModule>(source)))));
  });
  Reg("tir.schedule.Copy",
      [](ScheduleRef s) { return ScheduleRef(ObjectPtr<Object>(MakeObject<ScheduleNode>(s.schedule().Copy()))); });
  Reg("tir.schedule.mod", [](ScheduleRef s) { return s.schedule().mod(); });
  Reg("tir.schedule.func", [](ScheduleRef s) { return s.schedule().func(); });
  Reg("tir.schedule.trace", [](ScheduleRef s) { return s.schedule().TraceText(); });
  Reg("tir.schedule.trace_json", [](ScheduleRef s) { return s.schedule().TraceJson(); });
  Reg("tir.schedule.replay", [](ScheduleRef s, std::string json) { s.schedule().Replay(json); });
  Reg("tir.schedule.get_block", [](ScheduleRef s, std::string name) { return s.schedule().GetBlock(name); });
  Reg("tir.schedule.get_blocks", [](ScheduleRef s) { return Array<BlockRV>(s.schedule().GetBlocks()); });
  Reg("tir.schedule.get_loops", [](ScheduleRef s, BlockRV b) { return Array<LoopRV>(s.schedule().GetLoops(b)); });
  Reg("tir.schedule.get_child_blocks",
      [](ScheduleRef s, BlockRV b) { return Array<BlockRV>(s.schedule().GetChildBlocks(b)); });
  Reg("tir.schedule.get_producers",
      [](ScheduleRef s, BlockRV b) { return Array<BlockRV>(s.schedule().GetProducers(b)); });
  Reg("tir.schedule.get_consumers",
      [](ScheduleRef s, BlockRV b) { return Array<BlockRV>(s.schedule().GetConsumers(b)); });
  Reg("tir.schedule.get_output_blocks", [](ScheduleRef s) { return Array<BlockRV>(s.schedule().GetOutputBlocks()); });
  Reg("tir.schedule.get_of_block", [](ScheduleRef s, BlockRV b) { return s.schedule().Get(b); });
  Reg("tir.schedule.get_of_loop", [](ScheduleRef s, LoopRV l) { return s.schedule().Get(l); });
  Reg("tir.schedule.split",
      [](ScheduleRef s, LoopRV l, Array<ObjectRef> f) { return Array<LoopRV>(s.schedule().Split(l, Factors(f))); });
  Reg("tir.schedule.fuse", [](ScheduleRef s, Array<LoopRV> l) { return s.schedule().Fuse(l.ToVector()); });
  Reg("tir.schedule.reorder", [](ScheduleRef s, Array<LoopRV> l) { s.schedule().Reorder(l.ToVector()); });
  Reg("tir.schedule.parallel", [](ScheduleRef s, LoopRV l) { s.schedule().Parallel(l); });
  Reg("tir.schedule.vectorize", [](ScheduleRef s, LoopRV l) { s.schedule().Vectorize(l); });
  Reg("tir.schedule.unroll", [](ScheduleRef s, LoopRV l) { s.schedule().Unroll(l); });
  Reg("tir.schedule.bind", [](ScheduleRef s, LoopRV l, std::string thread) { s.schedule().Bind(l, thread); });
  Reg("tir.schedule.add_unit_loop", [](ScheduleRef s, BlockRV b) { return s.schedule().AddUnitLoop(b); });
  Reg("tir.schedule.compute_at",
      [](ScheduleRef s, BlockRV b, LoopRV l, bool keep) { s.schedule().ComputeAt(b, l, keep); });
  Reg("tir.schedule.reverse_compute_at",
      [](ScheduleRef s, BlockRV b, LoopRV l, bool keep) { s.schedule().ReverseComputeAt(b, l, keep); });
  Reg("tir.schedule.compute_inline", [](ScheduleRef s, BlockRV b) { s.schedule().ComputeInline(b); });
  Reg("tir.schedule.reverse_compute_inline", [](ScheduleRef s, BlockRV b) { s.schedule().ReverseComputeInline(b); });
}

/// Steps that change blocks and what they read and write.
void RegisterTirBlocks() {
  using tir::BlockRV;
  using tir::LoopRV;
  Reg("tir.schedule.cache_read", [](ScheduleRef s, BlockRV b, int i, std::string scope, Array<BlockRV> readers) {
    return s.schedule().CacheRead(b, i, scope, readers.ToVector());
  });
  Reg("tir.schedule.cache_write",
      [](ScheduleRef s, BlockRV b, int i, std::string scope) { return s.schedule().CacheWrite(b, i, scope); });
  Reg("tir.schedule.set_scope",
      [](ScheduleRef s, BlockRV b, int i, std::string scope) { s.schedule().SetScope(b, i, scope); });
  Reg("tir.schedule.storage_align", [](ScheduleRef s, BlockRV b, int i, int axis, int factor, int offset) {
    s.schedule().StorageAlign(b, i, axis, factor, offset);
  });
  Reg("tir.schedule.double_buffer", [](ScheduleRef s, BlockRV b) { s.schedule().DoubleBuffer(b); });
  Reg("tir.schedule.prefetch",
      [](ScheduleRef s, BlockRV b, int i, LoopRV l, PrimExpr offset) { s.schedule().Prefetch(b, i, l, offset); });
  Reg("tir.schedule.prefetch_next", [](ScheduleRef s, BlockRV b, int i, LoopRV around, LoopRV at, int64_t within) {
    s.schedule().PrefetchNext(b, i, around, at, within);
  });
  Reg("tir.schedule.transform_layout",
      [](ScheduleRef s, BlockRV b, bool is_write, int index, Array<Var> vars, Array<PrimExpr> indices) {
        s.schedule().TransformLayout(b, is_write, index, vars.ToVector(), indices.ToVector());
      });
  Reg("tir.schedule.tensorize",
      [](ScheduleRef s, LoopRV l, tir::TensorIntrin intrin) { s.schedule().Tensorize(l, intrin); });
  Reg("tir.schedule.pad_einsum", [](ScheduleRef s, BlockRV b, Array<PrimExpr> padding) {
    std::vector<int64_t> values;
    for (const PrimExpr& e : padding) values.push_back(tir::as_int(e, "padding"));
    s.schedule().PadEinsum(b, values);
  });
  Reg("tir.TensorIntrin", [](std::string name, tir::PrimFunc desc, ObjectRef body, ObjectRef update) {
    return tir::TensorIntrin(name, desc, Expect<tir::PrimFunc>(body), Expect<tir::PrimFunc>(update));
  });
  Reg("tir.schedule.blockize", [](ScheduleRef s, LoopRV l) { return s.schedule().Blockize(l); });
  Reg("tir.schedule.decompose_reduction",
      [](ScheduleRef s, BlockRV b, LoopRV l) { return s.schedule().DecomposeReduction(b, l); });
  Reg("tir.schedule.rfactor", [](ScheduleRef s, LoopRV l, int axis) { return s.schedule().RFactor(l, axis); });
  Reg("tir.schedule.annotate", [](ScheduleRef s, ObjectRef target, std::string key, ObjectRef value) {
    if (target.as<tir::BlockRVNode>())
      s.schedule().Annotate(Expect<BlockRV>(target), key, value);
    else
      s.schedule().Annotate(Expect<LoopRV>(target), key, value);
  });
  Reg("tir.schedule.unannotate", [](ScheduleRef s, ObjectRef target, std::string key) {
    if (target.as<tir::BlockRVNode>())
      s.schedule().Unannotate(Expect<BlockRV>(target), key);
    else
      s.schedule().Unannotate(Expect<LoopRV>(target), key);
  });
}

}  // namespace

void RegisterTeApi() {
  Reg("topi.Compute", [](relay::Function func, Array<Tensor> inputs, std::string target) {
    const Array<relay::Var> free = relay::FreeVars(func);
    if (!free.empty()) {
      throw DTypeError(
          StrCat("the graph's variable ", free[0]->name_hint(), " is no tensor expression; expected a te.Tensor"));
    }
    func = Expect<relay::Function>(relay::InferType(func));
    return driver::ComputeOnTensors(func, inputs, Target(target));
  });
  RegisterOperators();
  RegisterNodes();
  RegisterArith();
  RegisterTensors();
  RegisterTeSchedule();
  RegisterTirSchedule();
  RegisterTirBlocks();
  Reg("tir.ListLoweringPasses", [] {
    Array<String> names;
    for (const tir::LoweringPass& pass : tir::LoweringPasses()) names.push_back(String(pass.name));
    return names;
  });
  Reg("tir.RunLoweringPass", [](std::string name, tir::PrimFunc func, std::string target) {
    for (const tir::LoweringPass& pass : tir::LoweringPasses()) {
      if (pass.name == name)
        return pass.run(func, driver::ConfigFor(Target(target), driver::LowerOptions::FromContext()));
    }
    throw Error(StrCat("there is no lowering pass ", name));
  });
  Reg("tir.NarrowDataType", [](tir::PrimFunc func, int bits) { return tir::NarrowIndexTypes(std::move(func), bits); });
  // [packed function, the one that it calls]
  Reg("tir.MakePackedAPI", [](tir::PrimFunc func) {
    const tir::SplitFunction split = tir::MakePackedApi(func);
    return Array<tir::PrimFunc>{split.packed, split.compute};
  });
  // [host function, kernels ..]
  Reg("tir.SplitHostDevice", [](tir::PrimFunc func, std::string target) {
    const tir::HostDevice split = tir::SplitHostDevice(func, targets::GetTargetSpec(Target(target)).device_type);
    Array<tir::PrimFunc> functions{split.host};
    for (const tir::PrimFunc& kernel : split.kernels) functions.push_back(kernel);
    return functions;
  });
  Reg("target.llvm_version_major", [] { return targets::LLVMVersionMajor(); });
  Reg("driver.LowerModule", [](IRModule module, std::string target, bool simple_mode) {
    return driver::LowerModule(module, Target(target), simple_mode);
  });
  Reg("driver.CheckBound", [](IRModule module, std::string target) { driver::CheckBound(module, Target(target)); });
  Reg("driver.BuildModule",
      [](IRModule module, std::string target) { return driver::BuildModule(module, Target(target)); });
}

}  // namespace treadle::python
