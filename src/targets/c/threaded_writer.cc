// SPDX-License-Identifier: Apache-2.0
#include "targets/c/threaded_writer.h"

#include "targets/free_vars.h"

namespace treadle::targets {

using tir::Var;

std::string ThreadedCWriter::Declare(const Var& v, bool restrict_pointer) {
  if (restrict_pointer) restrict_.insert(v.get());
  return CWriter::Declare(v, restrict_pointer);
}

void ThreadedCWriter::VisitStmt_(const tir::ForNode* op) {
  if (op->kind != tir::ForKind::kParallel || tir::is_const_int(op->extent, 1)) return CWriter::VisitStmt_(op);
  const DataType t = op->loop_var.dtype();
  const Var begin("begin", t), end("end", t);
  std::vector<Var> params = {begin, end};
  for (const Var& v : FreeVars(op->body)) {
    if (!v.same_as(op->loop_var)) params.push_back(v);
  }
  // The iterations of one task.
  CWriter task;
  const std::string name = StrCat(name_, "__loop", loops_++), type = CValueType(t);
  std::string declarations, fields, values, arguments;
  for (size_t i = 0; i < params.size(); ++i) {
    const Var& v = params[i];
    declarations += StrCat(i == 0 ? "" : ", ", task.Declare(v, restrict_.count(v.get()) != 0));
    if (i < 2) continue;
    fields += StrCat("  ", task.Declare(v, false), ";\n");
    values += ", " + Name(v);
    arguments += ", all->" + task.NameOf(v);
  }
  const tir::For range(op->loop_var, begin, end - begin, tir::ForKind::kSerial, op->body, tir::IterVar(),
                       op->annotations);
  const std::string body = task.Body(params, range);
  functions_ << "\n" << task.qualifiers() << " int32_t " << name << "(" << declarations << ") {\n" << body << "}\n";
  externs_.insert(task.externs().begin(), task.externs().end());
  calls_packed_ |= task.calls_packed();
  // What the runtime calls.
  functions_ << "\ntypedef struct {\n  " << type << " treadle_begin, treadle_extent;\n"
             << fields << "} " << name << "_data;\n\nstatic int " << name
             << "_task(int id, TreadleParallelGroup* group, void* data) {\n  const " << name << "_data* all = data;\n  "
             << "const int64_t extent = (int64_t)all->treadle_extent;\n  return " << name << "(all->treadle_begin + ("
             << type << ")(extent * id / group->num_task), all->treadle_begin + (" << type
             << ")(extent * (id + 1) / group->num_task)" << arguments << ");\n}\n";
  Line("{");
  Indented([&] {
    ++in_index_;
    const std::string min = VisitExpr(op->min), extent = VisitExpr(op->extent);
    --in_index_;
    Line(StrCat(name, "_data treadle_all = {", min, ", ", extent, values, "};"));
    Line(StrCat("if (treadle_parallel(", name, "_task, &treadle_all, (int64_t)treadle_all.treadle_extent) != 0) {"));
    Indented([&] { Return("-1"); });
    Line("}");
  });
  Line("}");
}

}  // namespace treadle::targets
