// SPDX-License-Identifier: Apache-2.0
// Traces: what was done to a function, as text, as JSON, and once more.
#include <functional>

#include "tir/schedule/schedule_data.h"
#include "treadle/ir/serialization.h"
#include "treadle/tir/schedule.h"

namespace treadle::tir {

Json ScheduleData::Value(const ObjectRef& value) {
  if (const auto* i = value.as<IntImmNode>()) {
    if (i->dtype == DataType::Int(32)) return i->value;
    return {{"int", i->value}, {"dtype", i->dtype.str()}};
  }
  if (const auto* f = value.as<FloatImmNode>()) {
    if (f->dtype == DataType::Float(64)) return f->value;
    return {{"float", f->value}, {"dtype", f->dtype.str()}};
  }
  if (const auto* s = value.as<StringNode>()) return s->value;
  if (const auto* s = value.as<StringImmNode>()) return {{"text", s->value}};
  if (const auto* list = value.as<ArrayNode>()) {
    Json items = Json::array();
    for (const ObjectRef& item : list->items) {
      items.push_back(Value(item));
      if (items.back().is_null()) return nullptr;
    }
    return {{"list", items}};
  }
  return nullptr;
}

namespace {

std::string Text(const Json& value) {
  if (value.is_object() && value.contains("block")) return StrCat("b", value["block"].get<int>());
  if (value.is_object() && value.contains("loop")) return StrCat("l", value["loop"].get<int>());
  if (value.is_null()) return "None";
  for (const char* key : {"int", "float", "text", "list"}) {
    if (value.is_object() && value.contains(key)) return Text(value[key]);
  }
  if (value.is_array()) {
    std::string list;
    for (const Json& item : value) list += (list.empty() ? "" : ", ") + Text(item);
    return "[" + list + "]";
  }
  return value.dump();
}

}  // namespace

std::string Schedule::TraceText() const {
  std::string text;
  for (const ScheduleData::Step& step : data_->steps) {
    std::string outputs, inputs;
    for (const Json& o : step.outputs) outputs += (outputs.empty() ? "" : ", ") + Text(o);
    for (const Json& i : step.inputs) inputs += (inputs.empty() ? "" : ", ") + Text(i);
    text += (outputs.empty() ? "" : outputs + " = ") + "sch." + step.name + "(" + inputs + ")\n";
  }
  return text;
}

std::string Schedule::TraceJson() const {
  Json steps = Json::array();
  for (const ScheduleData::Step& step : data_->steps) steps.push_back({step.name, step.inputs, step.outputs});
  return Json{{"version", 1}, {"steps", steps}}.dump();
}

namespace {

/// Handles of the trace by their number there.
struct Replayed {
  std::map<int, BlockRV> blocks;
  std::map<int, LoopRV> loops;

  BlockRV Block(const Json& ref) const {
    auto it = blocks.find(ref.at("block").get<int>());
    if (it == blocks.end()) throw ScheduleError(StrCat("trace uses block ", ref.dump(), " before defining it"));
    return it->second;
  }
  LoopRV Loop(const Json& ref) const {
    auto it = loops.find(ref.at("loop").get<int>());
    if (it == loops.end()) throw ScheduleError(StrCat("trace uses loop ", ref.dump(), " before defining it"));
    return it->second;
  }
  std::vector<LoopRV> Loops(const Json& refs) const {
    std::vector<LoopRV> result;
    for (const Json& ref : refs) result.push_back(Loop(ref));
    return result;
  }
  std::vector<BlockRV> Blocks(const Json& refs) const {
    std::vector<BlockRV> result;
    for (const Json& ref : refs) result.push_back(Block(ref));
    return result;
  }
  void DefineLoops(const Json& outputs, const std::vector<LoopRV>& values) {
    if (outputs.size() != values.size()) {
      throw ScheduleError(
          StrCat("trace doesn't fit the function: a step gave ", values.size(), " loops instead of ", outputs.size()));
    }
    for (size_t i = 0; i < values.size(); ++i) loops[outputs[i].at("loop").get<int>()] = values[i];
  }
  void DefineBlock(const Json& outputs, const BlockRV& value) { blocks[outputs.at(0).at("block").get<int>()] = value; }
};

ObjectRef FromJson(const Json& value) {
  if (value.is_number_integer()) {
    auto v = value.get<int64_t>();
    return v == static_cast<int32_t>(v) ? PrimExpr(static_cast<int32_t>(v)) : PrimExpr(v);
  }
  if (value.is_number()) return FloatImm(DataType::Float(64), value.get<double>());
  if (value.is_string()) return String(value.get<std::string>());
  if (value.is_object() && value.contains("dtype")) {
    const DataType dtype = DataType::FromString(value.at("dtype").get<std::string>());
    if (value.contains("int")) return IntImm(dtype, value["int"].get<int64_t>());
    if (value.contains("float")) return FloatImm(dtype, value["float"].get<double>());
  }
  if (value.is_object() && value.contains("text")) return StringImm(value["text"].get<std::string>());
  if (value.is_object() && value.contains("list")) {
    Array<ObjectRef> items;
    for (const Json& item : value["list"]) items.push_back(FromJson(item));
    return items;
  }
  throw ScheduleError("a step of the trace has a value that can't be stored (a symbolic size or an object)");
}

PrimExpr ExprFromJson(const Json& value) {
  if (value.is_null()) return PrimExpr(ObjectPtr<Object>());
  return Downcast<PrimExpr>(FromJson(value));
}

using Apply = std::function<void(Schedule&, Replayed&, const Json& in, const Json& out)>;

const std::map<std::string, Apply>& Appliers() {
  static const std::map<std::string, Apply> table = {
      {"get_block",
       [](Schedule& s, Replayed& r, const Json& in, const Json& out) { r.DefineBlock(out, s.GetBlock(in.at(0))); }},
      {"get_loops", [](Schedule& s, Replayed& r, const Json& in,
                       const Json& out) { r.DefineLoops(out, s.GetLoops(r.Block(in.at(0)))); }},
      {"split",
       [](Schedule& s, Replayed& r, const Json& in, const Json& out) {
         std::vector<PrimExpr> factors;
         for (const Json& f : in.at(1)) factors.push_back(ExprFromJson(f));
         r.DefineLoops(out, s.Split(r.Loop(in.at(0)), factors));
       }},
      {"fuse", [](Schedule& s, Replayed& r, const Json& in,
                  const Json& out) { r.DefineLoops(out, {s.Fuse(r.Loops(in.at(0)))}); }},
      {"reorder", [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.Reorder(r.Loops(in.at(0))); }},
      {"parallel", [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.Parallel(r.Loop(in.at(0))); }},
      {"vectorize", [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.Vectorize(r.Loop(in.at(0))); }},
      {"unroll", [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.Unroll(r.Loop(in.at(0))); }},
      {"bind", [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.Bind(r.Loop(in.at(0)), in.at(1)); }},
      {"add_unit_loop", [](Schedule& s, Replayed& r, const Json& in,
                           const Json& out) { r.DefineLoops(out, {s.AddUnitLoop(r.Block(in.at(0)))}); }},
      {"compute_at", [](Schedule& s, Replayed& r, const Json& in,
                        const Json&) { s.ComputeAt(r.Block(in.at(0)), r.Loop(in.at(1)), in.at(2)); }},
      {"reverse_compute_at", [](Schedule& s, Replayed& r, const Json& in,
                                const Json&) { s.ReverseComputeAt(r.Block(in.at(0)), r.Loop(in.at(1)), in.at(2)); }},
      {"compute_inline",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.ComputeInline(r.Block(in.at(0))); }},
      {"reverse_compute_inline",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.ReverseComputeInline(r.Block(in.at(0))); }},
      {"cache_read",
       [](Schedule& s, Replayed& r, const Json& in, const Json& out) {
         r.DefineBlock(out, s.CacheRead(r.Block(in.at(0)), in.at(1), in.at(2), r.Blocks(in.at(3))));
       }},
      {"cache_write", [](Schedule& s, Replayed& r, const Json& in,
                         const Json& out) { r.DefineBlock(out, s.CacheWrite(r.Block(in.at(0)), in.at(1), in.at(2))); }},
      {"set_scope", [](Schedule& s, Replayed& r, const Json& in,
                       const Json&) { s.SetScope(r.Block(in.at(0)), in.at(1), in.at(2)); }},
      {"storage_align", [](Schedule& s, Replayed& r, const Json& in,
                           const Json&) { s.StorageAlign(r.Block(in.at(0)), in.at(1), in.at(2), in.at(3), in.at(4)); }},
      {"double_buffer",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) { s.DoubleBuffer(r.Block(in.at(0)), in.at(1)); }},
      {"prefetch",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) {
         s.Prefetch(r.Block(in.at(0)), in.at(1), r.Loop(in.at(2)), ExprFromJson(in.at(3)));
       }},
      {"prefetch_next",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) {
         const int64_t within = in.size() > 4 ? in.at(4).get<int64_t>() : 0;
         s.PrefetchNext(r.Block(in.at(0)), in.at(1), r.Loop(in.at(2)), r.Loop(in.at(3)), within);
       }},
      {"transform_layout",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) {
         auto map = Downcast<Array<ObjectRef>>(LoadJson(in.at(3).get<std::string>()));
         if (map.size() != 2) throw ScheduleError("a step transform_layout of the trace has a malformed map");
         auto vars = Downcast<Array<Var>>(map[0]);
         auto indices = Downcast<Array<PrimExpr>>(map[1]);
         s.TransformLayout(r.Block(in.at(0)), in.at(1), in.at(2), vars.ToVector(), indices.ToVector());
       }},
      {"tensorize",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) {
         s.Tensorize(r.Loop(in.at(0)), Downcast<TensorIntrin>(LoadJson(in.at(1).get<std::string>())));
       }},
      {"pad_einsum", [](Schedule& s, Replayed& r, const Json& in,
                        const Json&) { s.PadEinsum(r.Block(in.at(0)), in.at(1).get<std::vector<int64_t>>()); }},
      {"blockize", [](Schedule& s, Replayed& r, const Json& in,
                      const Json& out) { r.DefineBlock(out, s.Blockize(r.Loop(in.at(0)))); }},
      {"decompose_reduction",
       [](Schedule& s, Replayed& r, const Json& in, const Json& out) {
         r.DefineBlock(out, s.DecomposeReduction(r.Block(in.at(0)), r.Loop(in.at(1))));
       }},
      {"rfactor", [](Schedule& s, Replayed& r, const Json& in,
                     const Json& out) { r.DefineBlock(out, s.RFactor(r.Loop(in.at(0)), in.at(1))); }},
      {"annotate",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) {
         if (in.at(0).contains("block"))
           s.Annotate(r.Block(in.at(0)), in.at(1), FromJson(in.at(2)));
         else
           s.Annotate(r.Loop(in.at(0)), in.at(1), FromJson(in.at(2)));
       }},
      {"unannotate",
       [](Schedule& s, Replayed& r, const Json& in, const Json&) {
         if (in.at(0).contains("block"))
           s.Unannotate(r.Block(in.at(0)), in.at(1));
         else
           s.Unannotate(r.Loop(in.at(0)), in.at(1));
       }},
  };
  return table;
}

}  // namespace

void Schedule::Replay(const std::string& trace_json) {
  Schedule work = Copy();
  try {
    Json trace = Json::parse(trace_json);
    if (trace.at("version").get<int>() != 1)
      throw ScheduleError(StrCat("trace of unknown version ", trace.at("version").dump()));
    Replayed handles;
    for (const Json& step : trace.at("steps")) {
      std::string name = step.at(0);
      auto it = Appliers().find(name);
      if (it == Appliers().end()) throw ScheduleError(StrCat("trace has the unknown step '", name, "'"));
      it->second(work, handles, step.at(1), step.at(2));
    }
  } catch (const JsonError& e) {
    throw ModelFormatError(StrCat("not a schedule trace: ", e.what()));
  }
  *this = std::move(work);
}

}  // namespace treadle::tir
