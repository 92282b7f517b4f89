// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "tir/flat_buffer.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/serialization.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"

namespace treadle::tir {
namespace {

std::string Quote(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

/// "i64", "u8", "f32", "bf16", ..
std::string Suffix(DataType dtype) {
  if (dtype.is_bool()) return "b";
  if (dtype.is_int()) return StrCat("i", dtype.bits());
  if (dtype.is_uint()) return StrCat("u", dtype.bits());
  if (dtype.is_float()) return StrCat("f", dtype.bits());
  return "_" + dtype.str();
}

const char* KindName(ForKind kind) {
  switch (kind) {
    case ForKind::kParallel:
      return "parallel";
    case ForKind::kVectorized:
      return "vectorized";
    case ForKind::kUnrolled:
      return "unroll";
    case ForKind::kThreadBinding:
      return "thread_binding";
    default:
      return "";
  }
}

const char* IterName(IterVarType type) {
  static const char* const kNames[] = {"data",     "thread",     "reduce",       "ordered",   "opaque",
                                       "unrolled", "vectorized", "parallelized", "tensorized"};
  return kNames[static_cast<int>(type)];
}

class Printer : public ExprFunctor<std::string(const PrimExpr&)>, public StmtFunctor<void(const Stmt&)> {
 public:
  std::string Expr(const PrimExpr& e) { return ExprFunctor::VisitExpr(e); }

  std::string Function(const PrimFunc& func) {
    // Names: of parameters' buffers first, then of what the body uses without declaring.
    std::vector<Buffer> declared, flat;
    for (const auto& [param, buffer] : func->buffer_map) declared.push_back(buffer);
    const size_t of_params = declared.size();
    for (const Buffer& b : FreeBuffers(func)) {
      bool derived = false;
      for (size_t i = 0; i < of_params; ++i) derived |= IsFlatFormOf(b, declared[i]);
      (derived ? flat : declared).push_back(b);
    }
    for (const Buffer& b : declared) BufferName(b);
    std::string params;
    for (const Var& p : func->params) params += (params.empty() ? "" : ", ") + Define(p);
    std::string ret = "()";
    if (const auto* prim = func->ret_type.as<PrimTypeNode>()) ret = prim->dtype.str();
    std::string attrs;
    for (const auto& [key, value] : func->attrs->dict)
      attrs += (attrs.empty() ? "" : ", ") + Quote(key.str()) + ": " + Value(value);
    std::string buffers, map;
    for (size_t i = declared.size(); i-- > 0;) {
      buffers += (buffers.empty() ? "" : ",\n             ") + Declaration(declared[i]);
    }
    for (const auto& [param, buffer] : func->buffer_map) {
      map += (map.empty() ? "" : ", ") + Name(param.get()) + ": " + BufferName(buffer);
    }
    for (const Buffer& b : flat) UsePointer(b);
    indent_ = 1;
    StmtFunctor::VisitStmt(func->body);
    std::string head = StrCat("primfn(", params, ") -> ", ret, "\n  attr = {", attrs, "}\n");
    if (!buffers.empty()) head += StrCat("  buffers = {", buffers, "}\n");
    return StrCat(head, "  buffer_map = {", map, "} {\n", out_, "}\n");
  }

  std::string Statement(const Stmt& s) {
    StmtFunctor::VisitStmt(s);
    return out_;
  }

  std::string Declaration(const Buffer& b) {
    const auto* pointer = b->data->type_annotation.as<PointerTypeNode>();
    std::string type = pointer != nullptr ? PointerText(pointer, false) : "void";
    std::string data = names_.count(b->data.get())
                           ? Name(b->data.get())
                           : StrCat(NewName(b->data.get(), b->data->name_hint), ": Pointer(", type, ")");
    std::string text =
        StrCat(BufferName(b), ": Buffer(", data, ", ", b->dtype.str(), ", ", List(b->shape), ", ", List(b->strides));
    if (b->elem_offset.defined()) text += ", elem_offset=" + Expr(b->elem_offset);
    if (b->data_alignment != 64) text += StrCat(", align=", b->data_alignment);
    if (b->offset_factor != 0) text += StrCat(", offset_factor=", b->offset_factor);
    return text + ")";
  }

  std::string RangeText(const Range& r) { return StrCat("(", Expr(r->min), ", ", Expr(r->extent), ")"); }
  std::string IterText(const IterVar& iv) {
    std::string text = StrCat("IterVar(", Define(iv->var), ", ", iv->dom.defined() ? RangeText(iv->dom) : "null", ", ",
                              Quote(IterName(iv->iter_type)));
    return text + ", " + Quote(iv->thread_tag) + ")";
  }

 private:
  // ---- Names ----
  std::string NewName(const Object* object, const std::string& hint) {
    std::string base;
    for (char c : hint) base += (isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.') ? c : '_';
    if (base.empty() || isdigit(static_cast<unsigned char>(base[0])) || base[0] == '.') base = "v" + base;
    static const std::set<std::string> kReserved = {
        "for",     "if",    "else",   "while",   "let",    "attr", "assert",   "allocate", "block", "True",
        "False",   "null",  "select", "cast",    "min",    "max",  "floordiv", "floormod", "ramp",  "broadcast",
        "shuffle", "reads", "writes", "alloc",   "match",  "init", "evaluate", "where",    "in",    "annotations",
        "primfn",  "json",  "imm",    "IterVar", "Buffer", "nan",  "inf",      "root"};
    const bool number = base.rfind("inf", 0) == 0 || base.rfind("nan", 0) == 0;  // "inff32" is a constant
    if (kReserved.count(base) || number) base += "_";
    if (number) base = "v_" + base;
    std::string name = base;
    for (int i = 1; !used_.insert(name).second; ++i) name = StrCat(base, "_", i);
    names_[object] = name;
    return name;
  }
  std::string Name(const Object* object) { return names_.at(object); }
  std::string Define(const Var& var) {
    if (names_.count(var.get())) return Name(var.get());
    std::string name = NewName(var.get(), var->name_hint), type = var.dtype().str();
    if (const auto* pointer = var->type_annotation.as<PointerTypeNode>()) {
      type = StrCat("Pointer(", PointerText(pointer, false), ")");
    }
    return name + ": " + type;
  }
  std::string BufferName(const Buffer& b) {
    auto it = names_.find(b.get());
    return it != names_.end() ? it->second : NewName(b.get(), b->name);
  }

  /// Content of Pointer(..): "float32" in global memory, "local float32", "_ float32" without a scope.
  static std::string PointerText(const PointerTypeNode* pointer, bool with_global) {
    const auto* prim = pointer->element_type.as<PrimTypeNode>();
    std::string scope = pointer->storage_scope.empty() ? "_ " : pointer->storage_scope + " ";
    if (pointer->storage_scope == "global" && !with_global) scope = "";
    return scope + (prim != nullptr ? prim->dtype.str() : "void");
  }

  /// Flat forms go by the name of their pointer.
  void UsePointer(const Buffer& b) {
    names_[b.get()] = Name(b->data.get());
    by_pointer_.insert(b.get());
  }
  static bool IsFlatFormOf(const Buffer& b, const Buffer& declared) {
    if (!b->data.same_as(declared->data) || b.same_as(declared)) return false;
    const Buffer flat = FlatBuffer(declared);
    return b->dtype == flat->dtype && b->shape.size() == 1 && b->strides.empty() && !b->elem_offset.defined() &&
           b->data_alignment == flat->data_alignment && b->offset_factor == 0 &&
           b->shape[0].dtype() == flat->shape[0].dtype() && arith::ExprDeepEqual(b->shape[0], flat->shape[0]);
  }

  static std::vector<Buffer> FreeBuffers(const PrimFunc& func) {
    std::set<const Object*> known;
    for (const auto& [param, buffer] : func->buffer_map) known.insert(buffer.get());
    std::vector<Buffer> found;
    PostOrderVisit(func, [&](const ObjectRef& n) {
      if (const auto* block = n.as<BlockNode>()) {
        for (const Buffer& b : block->alloc_buffers) known.insert(b.get());
        for (const MatchBufferRegion& m : block->match_buffers) known.insert(m->buffer.get());
      }
      if (const auto* alloc = n.as<AllocateNode>()) known.insert(alloc->buffer.get());
    });
    PostOrderVisit(func, [&](const ObjectRef& n) {
      Buffer b;
      if (const auto* load = n.as<BufferLoadNode>()) b = load->buffer;
      if (const auto* store = n.as<BufferStoreNode>()) b = store->buffer;
      if (b.defined() && known.insert(b.get()).second) found.push_back(b);
    });
    return found;
  }

  // ---- Expressions ----
  std::string List(const Array<PrimExpr>& items) {
    std::string text;
    for (const PrimExpr& e : items) text += (text.empty() ? "" : ", ") + Expr(e);
    return "[" + text + "]";
  }
  std::string Value(const ObjectRef& value) {
    if (!value.defined()) return "null";
    if (const auto* s = value.as<StringNode>()) return Quote(s->value);
    if (const auto* s = value.as<StringImmNode>()) return "imm" + Quote(s->value);
    if (value->IsInstance<PrimExprNode>()) return Expr(Downcast<PrimExpr>(value));
    if (const auto* array = value.as<ArrayNode>()) {
      std::string text;
      for (const ObjectRef& item : array->items) text += (text.empty() ? "" : ", ") + Value(item);
      return "[" + text + "]";
    }
    if (const auto* map = value.as<MapNode>()) {
      std::string text;
      for (const auto& [k, v] : map->items) text += (text.empty() ? "" : ", ") + Value(k) + ": " + Value(v);
      return "{" + text + "}";
    }
    return "json" + Quote(SaveJson(value));
  }
  std::string VisitExpr_(const VarNode* op) override {
    if (names_.count(op)) return Name(op);
    return Define(GetRef<Var>(op));  // free: the type is shown at first sight
  }
  std::string VisitExpr_(const treadle::IntImmNode* op) override {
    if (op->dtype.is_bool()) return op->value ? "True" : "False";
    if (op->dtype == DataType::Int(32)) return StrCat(op->value);
    return StrCat(op->value, Suffix(op->dtype));
  }
  std::string VisitExpr_(const treadle::FloatImmNode* op) override {
    std::string sign = std::signbit(op->value) ? "-" : "";
    if (std::isnan(op->value)) return sign + "nan" + Suffix(op->dtype);
    if (std::isinf(op->value)) return sign + "inf" + Suffix(op->dtype);
    bool single = op->dtype == DataType::Float(32);
    char buffer[64];
    auto end = single ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(op->value)).ptr
                      : std::to_chars(buffer, buffer + sizeof buffer, op->value).ptr;
    return std::string(buffer, end) + Suffix(op->dtype);
  }
  std::string VisitExpr_(const StringImmNode* op) override { return Quote(op->value); }
  std::string VisitExpr_(const CastNode* op) override {
    return StrCat("cast(", op->dtype.str(), ", ", Expr(op->value), ")");
  }
#define TREADLE_PRINT_INFIX(Kind, symbol) \
  std::string VisitExpr_(const Kind##Node* op) override { return StrCat("(", Expr(op->a), symbol, Expr(op->b), ")"); }
#define TREADLE_PRINT_PREFIX(Kind, name)                          \
  std::string VisitExpr_(const Kind##Node* op) override {         \
    return StrCat(name "(", Expr(op->a), ", ", Expr(op->b), ")"); \
  }
  TREADLE_PRINT_INFIX(Add, " + ")
  TREADLE_PRINT_INFIX(Sub, " - ")
  TREADLE_PRINT_INFIX(Mul, "*")
  TREADLE_PRINT_INFIX(Div, " / ")
  TREADLE_PRINT_INFIX(Mod, " % ")
  TREADLE_PRINT_INFIX(EQ, " == ")
  TREADLE_PRINT_INFIX(NE, " != ")
  TREADLE_PRINT_INFIX(LT, " < ")
  TREADLE_PRINT_INFIX(LE, " <= ")
  TREADLE_PRINT_INFIX(GT, " > ")
  TREADLE_PRINT_INFIX(GE, " >= ")
  TREADLE_PRINT_INFIX(And, " && ")
  TREADLE_PRINT_INFIX(Or, " || ")
  TREADLE_PRINT_PREFIX(FloorDiv, "floordiv")
  TREADLE_PRINT_PREFIX(FloorMod, "floormod")
  TREADLE_PRINT_PREFIX(Min, "min")
  TREADLE_PRINT_PREFIX(Max, "max")
#undef TREADLE_PRINT_INFIX
#undef TREADLE_PRINT_PREFIX
  std::string VisitExpr_(const NotNode* op) override { return "!" + Expr(op->a); }
  std::string VisitExpr_(const SelectNode* op) override {
    return StrCat("select(", Expr(op->condition), ", ", Expr(op->true_value), ", ", Expr(op->false_value), ")");
  }
  std::string VisitExpr_(const RampNode* op) override {
    return StrCat("ramp(", Expr(op->base), ", ", Expr(op->stride), ", ", op->lanes, ")");
  }
  std::string VisitExpr_(const BroadcastNode* op) override {
    return StrCat("broadcast(", Expr(op->value), ", ", op->lanes, ")");
  }
  std::string VisitExpr_(const ShuffleNode* op) override {
    return StrCat("shuffle(", List(op->vectors), ", ", List(op->indices), ")");
  }
  std::string VisitExpr_(const LetNode* op) override {
    std::string value = Expr(op->value);
    return StrCat("(let ", Define(op->var), " = ", value, " in ", Expr(op->body), ")");
  }
  std::string VisitExpr_(const CallNode* op) override {
    std::string args;
    for (const PrimExpr& e : op->args) args += Expr(e) + ", ";
    std::string name = "?";
    if (const auto* o = op->op.as<OpNode>()) name = o->name;
    if (const auto* g = op->op.as<GlobalVarNode>()) name = "%" + g->name_hint;
    return StrCat("@", name, "(", args, "dtype=", op->dtype.str(), ")");
  }
  std::string VisitExpr_(const BufferLoadNode* op) override {
    std::string type = by_pointer_.count(op->buffer.get()) != 0 ? StrCat("(", op->dtype.str(), "*)") : "";
    return type + BufferName(op->buffer) + List(op->indices);
  }
  std::string VisitExpr_(const ProducerLoadNode* op) override {
    return op->producer->GetNameHint() + List(op->indices);
  }
  std::string VisitExpr_(const IterVarNode* op) override { return Expr(op->var); }
  std::string VisitExpr_(const ReduceNode* op) override {
    std::string axes;
    for (const IterVar& iv : op->axis) axes += (axes.empty() ? "" : ", ") + IterText(iv);
    std::string result;
    for (const Var& v : op->combiner->lhs) Define(v);
    for (const Var& v : op->combiner->rhs) Define(v);
    return StrCat("reduce(combiner=", List(op->combiner->result), ", identity=", List(op->combiner->identity_element),
                  ", source=", List(op->source), ", axis=[", axes, "], where=", Expr(op->condition),
                  ", value_index=", op->value_index, ")");
  }

  // ---- Statements ----
  void Line(const std::string& text) { out_ += std::string(static_cast<size_t>(indent_) * 2, ' ') + text + "\n"; }
  void Nested(const Stmt& body) {
    ++indent_;
    StmtFunctor::VisitStmt(body);
    --indent_;
  }
  std::string Annotations(const Map<String, ObjectRef>& annotations) {
    return annotations.empty() ? "" : " annotations " + Value(annotations);
  }
  /// Statements whose scope runs to the closing brace need braces of their own inside a sequence.
  static bool RunsToEnd(const Stmt& s) {
    return s.as<LetStmtNode>() || s.as<AttrStmtNode>() || s.as<AssertStmtNode>() || s.as<AllocateNode>() ||
           s.as<SeqStmtNode>();
  }
  void VisitStmt_(const LetStmtNode* op) override {
    std::string value = Expr(op->value);
    Line(StrCat("let ", Define(op->var), " = ", value, ";"));
    StmtFunctor::VisitStmt(op->body);
  }
  void VisitStmt_(const AttrStmtNode* op) override {
    std::string node = "null";
    if (const auto* b = op->node.as<BufferNode>())
      node = BufferName(GetRef<Buffer>(b));
    else if (const auto* iv = op->node.as<IterVarNode>())
      node = IterText(GetRef<IterVar>(iv));
    else if (op->node.defined())
      node = Value(op->node);
    Line(StrCat("attr [", node, "] ", Quote(op->attr_key), " = ", Expr(op->value), ";"));
    StmtFunctor::VisitStmt(op->body);
  }
  void VisitStmt_(const AssertStmtNode* op) override {
    Line(StrCat("assert(", Expr(op->condition), ", ", Expr(op->message), ");"));
    StmtFunctor::VisitStmt(op->body);
  }
  void VisitStmt_(const AllocateNode* op) override {
    const Buffer& b = op->buffer;
    const auto* pointer = b->data->type_annotation.as<PointerTypeNode>();
    const auto* element = pointer != nullptr ? pointer->element_type.as<PrimTypeNode>() : nullptr;
    const bool flat = b->shape.size() == 1 && b->strides.empty() && !b->elem_offset.defined() &&
                      b->data_alignment == 64 && b->offset_factor == 0 && names_.count(b->data.get()) == 0 &&
                      names_.count(b.get()) == 0 && element != nullptr && element->dtype == b->dtype;
    // Copies of a loop may allocate the same buffer again.
    const bool again = by_pointer_.count(b.get()) != 0 && pointer != nullptr;
    if (flat || again) {
      std::string name = again ? Name(b->data.get()) : NewName(b->data.get(), b->data->name_hint);
      std::string type = again ? "" : StrCat(": Pointer(", PointerText(pointer, true), ")");
      Line(StrCat("allocate(", name, type, ", ", b->dtype.str(), ", ", List(b->shape),
                  "), storage_scope = ", Quote(pointer->storage_scope), Annotations(op->annotations), ";"));
      UsePointer(b);
    } else {
      Line(StrCat("allocate ", Declaration(b), Annotations(op->annotations), ";"));
    }
    StmtFunctor::VisitStmt(op->body);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    std::string value = Expr(op->value);
    Line(StrCat(BufferName(op->buffer), List(op->indices), " = ", value));
  }
  void VisitStmt_(const SeqStmtNode* op) override {
    for (size_t i = 0; i < op->seq.size(); ++i) {
      Stmt s = op->seq[i];
      if (!RunsToEnd(s) || (i + 1 == op->seq.size() && !s.as<SeqStmtNode>())) {
        StmtFunctor::VisitStmt(s);
        continue;
      }
      Line("{");
      Nested(s);
      Line("}");
    }
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    Line(StrCat("if ", Expr(op->condition), " {"));
    Nested(op->then_case);
    if (op->else_case.defined()) {
      Line("} else {");
      Nested(op->else_case);
    }
    Line("}");
  }
  void VisitStmt_(const EvaluateNode* op) override { Line(StrCat("evaluate(", Expr(op->value), ")")); }
  void VisitStmt_(const ForNode* op) override {
    // The third entry is the end, which is the extent where the loop starts at 0.
    std::string min = Expr(op->min), extent = Expr(op->extent), kind = KindName(op->kind);
    if (op->thread_binding.defined()) {
      // The range is the loop's, unless the author gave one.
      const Range& range = op->thread_binding->dom;
      kind = StrCat(kind, "(", Quote(op->thread_binding->thread_tag),
                    range.defined() ? StrCat(", ", RangeText(range)) : "", ")");
    }
    Line(StrCat("for (", Define(op->loop_var), ", ", min, ", ", extent, ")", kind.empty() ? "" : " " + kind,
                Annotations(op->annotations), " {"));
    Nested(op->body);
    Line("}");
  }
  void VisitStmt_(const WhileNode* op) override {
    Line(StrCat("while ", Expr(op->condition), " {"));
    Nested(op->body);
    Line("}");
  }
  std::string Region(const BufferRegion& region) {
    std::string text;
    for (const Range& r : region->region) {
      text += text.empty() ? "" : ", ";
      text += is_const_int(r->extent, 1) && r->extent.dtype() == r->min.dtype()
                  ? Expr(r->min)
                  : StrCat(Expr(r->min), " +: ", Expr(r->extent));
    }
    return BufferName(region->buffer) + "[" + text + "]";
  }
  void VisitStmt_(const BlockNode* op) override { PrintBlock(op, nullptr); }
  void VisitStmt_(const BlockRealizeNode* op) override { PrintBlock(op->block.get(), op); }
  void PrintBlock(const BlockNode* block, const BlockRealizeNode* realize) {
    std::vector<std::string> values;
    if (realize) {
      for (const PrimExpr& v : realize->iter_values) values.push_back(Expr(v));
    }
    std::string where = realize && !is_const_int(realize->predicate, 1) ? " where " + Expr(realize->predicate) : "";
    std::string axes;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      const IterVar iv = block->iter_vars[i];
      std::string range = RangeText(iv->dom);
      axes += StrCat(i ? ", " : "", Define(iv->var), " ", IterName(iv->iter_type), " ", range);
      if (realize) axes += " = " + values[i];
    }
    Line(StrCat("block ", Quote(block->name_hint), "(", axes, ")", where, Annotations(block->annotations), " {"));
    ++indent_;
    for (const Buffer& b : block->alloc_buffers) Line(StrCat("alloc ", Declaration(b), ";"));
    for (const MatchBufferRegion& m : block->match_buffers) {
      std::string source = Region(m->source);
      Line(StrCat("match ", Declaration(m->buffer), " = ", source, ";"));
    }
    auto regions = [&](const char* word, const Array<BufferRegion>& list) {
      std::string text;
      for (const BufferRegion& r : list) text += (text.empty() ? "" : ", ") + Region(r);
      if (!list.empty()) Line(StrCat(word, " ", text, ";"));
    };
    regions("reads", block->reads);
    regions("writes", block->writes);
    if (block->init.defined()) {
      Line("init {");
      Nested(block->init);
      Line("}");
    }
    StmtFunctor::VisitStmt(block->body);
    --indent_;
    Line("}");
  }

  std::string out_;
  int indent_ = 0;
  std::unordered_map<const Object*, std::string> names_;
  std::set<const Object*> by_pointer_;  ///< buffers that go by the name of their pointer
  std::set<std::string> used_;
};

}  // namespace

std::string AsText(const ObjectRef& node, bool show_version) {
  if (!node.defined()) return "null";
  std::string version = show_version ? "#[version = \"0.0.5\"]\n" : "";
  if (node.as<PrimFuncNode>()) return version + Printer().Function(Downcast<PrimFunc>(node));
  if (const auto* module = node.as<IRModuleNode>()) {
    std::string text = version;
    for (const auto& [var, func] : module->functions) {
      if (module->functions.size() > 1) text += "// " + var->name_hint + "\n";
      text += func.as<PrimFuncNode>() ? Printer().Function(Downcast<PrimFunc>(func)) : "<" + func->type_key() + ">\n";
    }
    return text;
  }
  if (node->IsInstance<StmtNode>()) return Printer().Statement(Downcast<Stmt>(node));
  if (const auto* buffer = node.as<BufferNode>()) return Printer().Declaration(GetRef<Buffer>(buffer));
  if (const auto* range = node.as<RangeNode>()) return Printer().RangeText(GetRef<Range>(range));
  if (const auto* axis = node.as<IterVarNode>()) return Printer().IterText(GetRef<IterVar>(axis));
  if (node->IsInstance<PrimExprNode>()) return Printer().Expr(Downcast<PrimExpr>(node));
  return StrCat("<", node->type_key(), ">");
}

}  // namespace treadle::tir
