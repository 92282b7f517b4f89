// SPDX-License-Identifier: Apache-2.0
// Portable C99 out of functions in low-level form without vectors. The text depends on nothing but the C library.
#include <cmath>
#include <cstdio>
#include <sstream>

#include "backends/backend.h"
#include "backends/c/prelude.h"
#include "backends/register.h"
#include "tir/passes/passes.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::backends {
namespace {

using tir::Buffer;
using tir::CallNode;
using tir::Stmt;
using tir::StructField;
using tir::Var;

/// Suffix of the prelude's functions for a dtype: "i32", "f64", ..
std::string Suffix(DataType t) {
  if (t.is_bool()) return "u8";
  const char* kind = t.is_float() ? "f" : t.is_bfloat16() ? "bf" : t.is_uint() ? "u" : "i";
  return StrCat(kind, t.bits() < 8 ? 8 : t.bits());
}
bool IsSmallFloat(DataType t) { return t.is_floating() && t.bits() < 32; }

/// Type of a value in an expression.
std::string ValueType(DataType t) {
  if (!t.is_scalar()) throw TargetError(StrCat("the c backend has no vectors (", t, "): lower for target c"));
  if (t.is_handle()) return "void*";
  if (t.is_bool()) return "bool";
  if (t.is_float() && t.bits() == 32) return "float";
  if (t.is_float() && t.bits() == 64) return "double";
  if (t.is_float16() || t.is_bfloat16()) return "uint16_t";
  if (t.is_integral()) return StrCat(t.is_uint() ? "u" : "", "int", t.bits() < 8 ? 8 : t.bits(), "_t");
  throw TargetError(StrCat("the c backend can't compute with dtype ", t));
}
std::string MemoryType(DataType t) { return t.is_bool() ? "uint8_t" : ValueType(t.element_of()); }

class CFunction : public tir::ExprFunctor<std::string(const PrimExpr&)>, public tir::StmtFunctor<void(const Stmt&)> {
 public:
  std::string Body(const std::vector<Var>& params, const Stmt& body) {
    memos_.emplace_back();
    for (const Var& v : params) Line(StrCat("(void)", Name(v), ";"));
    StmtBase::VisitStmt(body);
    Line("return 0;");
    return out_.str();
  }
  std::string Declare(const Var& v, bool restrict_pointer) {
    std::string type = ValueType(v.dtype());
    if (const auto* pointer = v->type_annotation.as<PointerTypeNode>()) {
      if (const auto* element = pointer->element_type.as<PrimTypeNode>()) {
        type = MemoryType(element->dtype) + "*" + (restrict_pointer ? " restrict" : "");
      }
    }
    return type + " " + Name(v);
  }

 protected:
  using ExprBase = tir::ExprFunctor<std::string(const PrimExpr&)>;
  using StmtBase = tir::StmtFunctor<void(const Stmt&)>;

  std::string VisitExpr(const PrimExpr& e) override {
    if (e.as<tir::VarNode>() || e.as<IntImmNode>() || e.as<FloatImmNode>() || e->use_count() <= 1) {
      return ExprBase::VisitExpr(e);
    }
    for (auto memo = memos_.rbegin(); memo != memos_.rend(); ++memo) {
      if (auto it = memo->find(e.get()); it != memo->end()) return it->second;
    }
    std::string name = Temporary(e.dtype(), ExprBase::VisitExpr(e));
    memos_.back()[e.get()] = name;
    return name;
  }

  std::string VisitExpr_(const tir::VarNode* op) override { return Name(GetRef<Var>(op)); }
  std::string VisitExpr_(const IntImmNode* op) override {
    if (op->dtype.is_bool()) return op->value != 0 ? "true" : "false";
    if (op->dtype.bits() == 64) {
      if (op->dtype.is_uint()) return StrCat("UINT64_C(", static_cast<uint64_t>(op->value), ")");
      if (op->value == INT64_MIN) return "INT64_MIN";
      return StrCat(op->value < 0 ? "(" : "", "INT64_C(", op->value, ")", op->value < 0 ? ")" : "");
    }
    if (op->dtype.is_uint()) return StrCat(op->value, "u");
    if (op->value == INT32_MIN) return "INT32_MIN";
    return op->value < 0 ? StrCat("(", op->value, ")") : StrCat(op->value);
  }
  std::string VisitExpr_(const FloatImmNode* op) override {
    if (IsSmallFloat(op->dtype)) return FromFloat(Float(op->value, "f"), op->dtype);
    return Float(op->value, op->dtype.bits() == 32 ? "f" : "");
  }
  std::string VisitExpr_(const tir::StringImmNode* op) override { return Quote(op->value); }
  std::string VisitExpr_(const tir::CastNode* op) override {
    return Convert(VisitExpr(op->value), op->value.dtype(), op->dtype);
  }

  template <typename Node>
  std::string Arithmetic(const Node* op, const char* symbol) {
    const DataType t = op->dtype;
    std::string a = VisitExpr(op->a), b = VisitExpr(op->b);
    if (IsSmallFloat(t)) return FromFloat(StrCat("(", ToFloat(a, t), " ", symbol, " ", ToFloat(b, t), ")"), t);
    if (t.is_floating() || in_index_ > 0) return StrCat("(", a, " ", symbol, " ", b, ")");
    // Signed overflow isn't defined in C; unsigned wraps.
    const char* u = t.bits() == 64 ? "uint64_t" : "uint32_t";
    return StrCat("(", ValueType(t), ")((", u, ")", a, " ", symbol, " (", u, ")", b, ")");
  }
  std::string VisitExpr_(const tir::AddNode* op) override { return Arithmetic(op, "+"); }
  std::string VisitExpr_(const tir::SubNode* op) override { return Arithmetic(op, "-"); }
  std::string VisitExpr_(const tir::MulNode* op) override { return Arithmetic(op, "*"); }
  std::string Helper(const char* name, DataType t, const PrimExpr& a, const PrimExpr& b) {
    std::string x = VisitExpr(a), y = VisitExpr(b);
    return StrCat("treadle_", name, "_", Suffix(t), "(", x, ", ", y, ")");
  }
  std::string VisitExpr_(const tir::DivNode* op) override {
    if (op->dtype.is_floating()) return Arithmetic(op, "/");
    return Helper("div", op->dtype, op->a, op->b);
  }
  std::string VisitExpr_(const tir::ModNode* op) override { return Helper("mod", op->dtype, op->a, op->b); }
  std::string VisitExpr_(const tir::FloorDivNode* op) override { return Helper("floordiv", op->dtype, op->a, op->b); }
  std::string VisitExpr_(const tir::FloorModNode* op) override { return Helper("floormod", op->dtype, op->a, op->b); }

  std::string MinMax(const PrimExpr& ea, const PrimExpr& eb, bool is_max) {
    const DataType t = ea.dtype();
    const char* name = is_max ? "max" : "min";
    if (t.is_float() && t.bits() >= 32) return Helper(name, t, ea, eb);
    std::string a = Temporary(t, VisitExpr(ea)), b = Temporary(t, VisitExpr(eb));
    if (IsSmallFloat(t)) {
      return FromFloat(StrCat("treadle_", name, "_f32(", ToFloat(a, t), ", ", ToFloat(b, t), ")"), t);
    }
    return StrCat("(", a, is_max ? " > " : " < ", b, " ? ", a, " : ", b, ")");
  }
  std::string VisitExpr_(const tir::MinNode* op) override { return MinMax(op->a, op->b, false); }
  std::string VisitExpr_(const tir::MaxNode* op) override { return MinMax(op->a, op->b, true); }

  template <typename Node>
  std::string Compare(const Node* op, const char* symbol) {
    const DataType t = op->a.dtype();
    std::string a = VisitExpr(op->a), b = VisitExpr(op->b);
    if (IsSmallFloat(t)) {
      a = ToFloat(a, t);
      b = ToFloat(b, t);
    }
    return StrCat("(", a, " ", symbol, " ", b, ")");
  }
  std::string VisitExpr_(const tir::EQNode* op) override { return Compare(op, "=="); }
  std::string VisitExpr_(const tir::NENode* op) override { return Compare(op, "!="); }
  std::string VisitExpr_(const tir::LTNode* op) override { return Compare(op, "<"); }
  std::string VisitExpr_(const tir::LENode* op) override { return Compare(op, "<="); }
  std::string VisitExpr_(const tir::GTNode* op) override { return Compare(op, ">"); }
  std::string VisitExpr_(const tir::GENode* op) override { return Compare(op, ">="); }
  std::string VisitExpr_(const tir::AndNode* op) override { return Logic(op->a, op->b, true); }
  std::string VisitExpr_(const tir::OrNode* op) override { return Logic(op->a, op->b, false); }
  std::string VisitExpr_(const tir::NotNode* op) override { return StrCat("(!", VisitExpr(op->a), ")"); }
  std::string VisitExpr_(const tir::SelectNode* op) override {
    std::string c = VisitExpr(op->condition), x = VisitExpr(op->true_value), y = VisitExpr(op->false_value);
    return StrCat("(", c, " ? ", x, " : ", y, ")");
  }
  std::string VisitExpr_(const tir::LetNode* op) override {
    std::string value = VisitExpr(op->value);
    Line(StrCat("const ", ValueType(op->var.dtype()), " ", Name(op->var), " = ", value, ";"));
    return VisitExpr(op->body);
  }
  std::string VisitExpr_(const tir::BufferLoadNode* op) override {
    std::string element = Element(op->buffer, op->indices);
    return op->dtype.is_bool() ? StrCat("(", element, " != 0)") : element;
  }
  std::string VisitExpr_(const CallNode* op) override;

  void VisitStmt_(const tir::LetStmtNode* op) override {
    Scoped([&] {
      std::string value = VisitExpr(op->value);
      Line(StrCat(Declare(op->var, false), " = ", value, ";"));
    });
    Line(StrCat("(void)", Name(op->var), ";"));
    StmtBase::VisitStmt(op->body);
  }
  void VisitStmt_(const tir::AttrStmtNode* op) override { StmtBase::VisitStmt(op->body); }
  void VisitStmt_(const tir::AssertStmtNode* op) override {
    const auto* text = op->message.as<tir::StringImmNode>();
    Scoped([&] {
      std::string condition = VisitExpr(op->condition);
      Line(StrCat("if (!", condition, ") {"));
      Indented(
          [&] { Return(StrCat("treadle_fail(", Quote(text != nullptr ? text->value : "assertion failed"), ")")); });
      Line("}");
    });
    StmtBase::VisitStmt(op->body);
  }
  void VisitStmt_(const tir::BufferStoreNode* op) override {
    Block([&] {
      std::string value = VisitExpr(op->value);
      std::string element = Element(op->buffer, op->indices);
      Line(StrCat(element, " = ", value, ";"));
    });
  }
  void VisitStmt_(const tir::AllocateNode* op) override {
    const Buffer& buffer = op->buffer;
    const std::string name = Name(buffer->data), type = MemoryType(buffer->dtype);
    int64_t count = buffer->dtype.lanes();
    bool constant = true;
    for (const PrimExpr& extent : buffer->shape) {
      const int64_t* n = AsConstInt(extent);
      constant = constant && n != nullptr && !__builtin_mul_overflow(count, *n, &count);
    }
    const bool on_stack = constant && count * std::max(1, buffer->dtype.bytes()) <= 4096;
    Line("{");
    ++indent_;
    if (on_stack) {
      Line(StrCat(type, " ", name, "[", std::max<int64_t>(count, 1), "];"));
      StmtBase::VisitStmt(op->body);
    } else {
      std::string size = StrCat("(size_t)", buffer->dtype.lanes());
      for (const PrimExpr& extent : buffer->shape) size += StrCat(" * (size_t)", VisitExpr(extent));
      Line(StrCat(type, "* ", name, " = (", type, "*)malloc(", size, " * sizeof(", type, "));"));
      Line(StrCat("if (!", name, ") {"));
      Indented([&] { Return("treadle_fail(\"out of memory\")"); });
      Line("}");
      allocated_.push_back(name);
      StmtBase::VisitStmt(op->body);
      allocated_.pop_back();
      Line(StrCat("free(", name, ");"));
    }
    --indent_;
    Line("}");
  }
  void VisitStmt_(const tir::SeqStmtNode* op) override {
    for (const Stmt& stmt : op->seq) StmtBase::VisitStmt(stmt);
  }
  void VisitStmt_(const tir::IfThenElseNode* op) override {
    Block([&] {
      std::string condition = VisitExpr(op->condition);
      Line(StrCat("if (", condition, ") {"));
      Indented([&] { StmtBase::VisitStmt(op->then_case); });
      if (op->else_case.defined()) {
        Line("} else {");
        Indented([&] { StmtBase::VisitStmt(op->else_case); });
      }
      Line("}");
    });
  }
  void VisitStmt_(const tir::EvaluateNode* op) override {
    if (op->value.as<IntImmNode>()) return;
    Block([&] {
      std::string value = VisitExpr(op->value);
      if (!value.empty()) Line(StrCat("(void)", value, ";"));
    });
  }
  void VisitStmt_(const tir::ForNode* op) override {
    if (op->kind == tir::ForKind::kThreadBinding) throw TargetError("the c backend has no threads of devices");
    Block([&] {
      const std::string type = ValueType(op->loop_var.dtype()), name = Name(op->loop_var);
      ++in_index_;
      std::string min = VisitExpr(op->min), extent = VisitExpr(op->extent);
      --in_index_;
      std::string end = is_zero(op->min) ? extent : StrCat(min, " + ", extent);
      Line(StrCat("for (", type, " ", name, " = ", min, "; ", name, " < ", end, "; ++", name, ") {"));
      Indented([&] { StmtBase::VisitStmt(op->body); });
      Line("}");
    });
  }
  void VisitStmt_(const tir::WhileNode* op) override {
    Line("for (;;) {");
    Indented([&] {
      std::string condition = VisitExpr(op->condition);
      Line(StrCat("if (!", condition, ") break;"));
      StmtBase::VisitStmt(op->body);
    });
    Line("}");
  }

 private:
  static bool is_zero(const PrimExpr& e) { return tir::is_zero(e); }

  // ---- Text ----
  void Line(const std::string& text) {
    out_ << std::string(static_cast<size_t>(2 * indent_), ' ') << text << "\n";
    ++lines_;
  }
  template <typename F>
  void Scoped(F&& f) {
    memos_.emplace_back();
    f();
    memos_.pop_back();
  }
  template <typename F>
  void Indented(F&& f) {
    ++indent_;
    Scoped(f);
    --indent_;
  }
  /// A statement; in braces if it needs temporaries.
  template <typename F>
  void Block(F&& f) {
    std::ostringstream outer;
    std::swap(outer, out_);
    const int outer_lines = std::exchange(temporaries_here_, 0);
    ++indent_;
    Scoped(f);
    --indent_;
    std::swap(outer, out_);
    const bool braces = temporaries_here_ > 0;
    temporaries_here_ = outer_lines;
    if (braces) Line("{");
    std::istringstream lines(outer.str());
    for (std::string line; std::getline(lines, line);) out_ << (braces ? line : line.substr(2)) << "\n";
    if (braces) Line("}");
  }
  std::string Temporary(DataType t, const std::string& value) {
    std::string name = StrCat("t", counter_++);
    Line(StrCat("const ", ValueType(t), " ", name, " = ", value, ";"));
    ++temporaries_here_;
    return name;
  }
  void Return(const std::string& value) {
    for (size_t i = allocated_.size(); i-- > 0;) Line(StrCat("free(", allocated_[i], ");"));
    Line(StrCat("return ", value, ";"));
  }
  static std::string Quote(const std::string& text) {
    std::string result = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      if (c == '\n') {
        result += "\\n";
      } else {
        result += c;
      }
    }
    return result + "\"";
  }
  static std::string Float(double value, const char* suffix) {
    if (std::isnan(value)) return "NAN";
    if (std::isinf(value)) return value > 0 ? "INFINITY" : "(-INFINITY)";
    char buffer[64];
    if (value == std::trunc(value) && std::fabs(value) < 1e6) {
      std::snprintf(buffer, sizeof(buffer), "%.1f%s", value, suffix);
    } else {
      std::snprintf(buffer, sizeof(buffer), "%a%s", value, suffix);
    }
    return std::signbit(value) ? StrCat("(", buffer, ")") : std::string(buffer);
  }
  std::string Name(const Var& v) {
    auto it = names_.find(v.get());
    if (it != names_.end()) return it->second;
    std::string base;
    for (char c : v->name_hint) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    // The prefix keeps clear of C's words and of temporaries.
    if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "v" + base;
    std::string name = StrCat(base, "_", names_.size());
    names_[v.get()] = name;
    return name;
  }

  // ---- Values ----
  static std::string ToFloat(const std::string& x, DataType t) {
    if (t.is_bfloat16()) return StrCat("treadle_from_bf16(", x, ")");
    if (t.is_float16()) return StrCat("treadle_from_f16(", x, ")");
    throw TargetError(StrCat("the c backend can't compute with dtype ", t));
  }
  static std::string FromFloat(const std::string& x, DataType t) {
    if (t.is_bfloat16()) return StrCat("treadle_to_bf16(", x, ")");
    if (t.is_float16()) return StrCat("treadle_to_f16(", x, ")");
    throw TargetError(StrCat("the c backend can't compute with dtype ", t));
  }
  std::string Convert(const std::string& x, DataType from, DataType to) {
    if (from == to) return x;
    if (IsSmallFloat(from)) return Convert(ToFloat(x, from), DataType::Float(32), to);
    if (IsSmallFloat(to)) return FromFloat(Convert(x, from, DataType::Float(32)), to);
    if (to.is_bool()) return StrCat("(", x, " != 0)");
    if (from.is_floating() && to.is_integral()) return StrCat("treadle_to_", Suffix(to), "((double)", x, ")");
    return StrCat("((", ValueType(to), ")", x, ")");
  }
  std::string Element(const Buffer& buffer, const Array<PrimExpr>& indices) {
    TREADLE_ICHECK(indices.size() <= 1) << "buffer " << buffer->name << " isn't flattened";
    ++in_index_;
    std::string index = indices.empty() ? "0" : VisitExpr(indices[0]);
    --in_index_;
    std::string data = VisitExpr(buffer->data);
    const auto* pointer = buffer->data->type_annotation.as<PointerTypeNode>();
    const auto* element = pointer != nullptr ? pointer->element_type.as<PrimTypeNode>() : nullptr;
    if (element == nullptr || element->dtype != buffer->dtype)
      data = StrCat("((", MemoryType(buffer->dtype), "*)", data, ")");
    return StrCat(data, "[", index, "]");
  }
  /// Whether `e` can be computed whatever the values are and needs no statements.
  static bool IsPlain(const PrimExpr& e) {
    bool plain = true;
    tir::PostOrderVisit(e, [&](const ObjectRef& node) {
      plain = plain && !node->IsInstance<tir::BufferLoadNode>() && !node->IsInstance<tir::LetNode>() &&
              !node->IsInstance<CallNode>();
    });
    return plain;
  }
  std::string Conditional(const PrimExpr& condition, const PrimExpr& yes, const PrimExpr& no) {
    std::string c = VisitExpr(condition);
    if (IsPlain(yes) && IsPlain(no)) {
      std::string x = VisitExpr(yes);
      return StrCat("(", c, " ? ", x, " : ", VisitExpr(no), ")");
    }
    std::string name = StrCat("t", counter_++);
    ++temporaries_here_;
    Line(StrCat(ValueType(yes.dtype()), " ", name, ";"));
    Line(StrCat("if (", c, ") {"));
    Indented([&] {
      std::string value = VisitExpr(yes);
      Line(StrCat(name, " = ", value, ";"));
    });
    Line("} else {");
    Indented([&] {
      std::string value = VisitExpr(no);
      Line(StrCat(name, " = ", value, ";"));
    });
    Line("}");
    return name;
  }
  std::string Logic(const PrimExpr& a, const PrimExpr& b, bool is_and) {
    if (!IsPlain(b)) {
      PrimExpr constant = tir::make_bool(!is_and);
      return is_and ? Conditional(a, b, constant) : Conditional(a, constant, b);
    }
    std::string x = VisitExpr(a);
    return StrCat("(", x, is_and ? " && " : " || ", VisitExpr(b), ")");
  }

  std::ostringstream out_;
  std::unordered_map<const Object*, std::string> names_;
  std::vector<std::unordered_map<const Object*, std::string>> memos_;
  std::vector<std::string> allocated_;
  int indent_ = 1;
  int counter_ = 0;
  int lines_ = 0;
  int in_index_ = 0;
  int temporaries_here_ = 0;
};

std::string CFunction::VisitExpr_(const CallNode* op) {
  if (const auto* callee = op->op.as<GlobalVarNode>()) {
    std::string text = callee->name_hint + "(";
    for (size_t i = 0; i < op->args.size(); ++i) text += (i == 0 ? "" : ", ") + VisitExpr(op->args[i]);
    return text + ")";
  }
  const auto* intrinsic = op->op.as<OpNode>();
  TREADLE_ICHECK(intrinsic != nullptr) << "call of an unknown function";
  const std::string name = intrinsic->name.substr(4);
  const DataType t = op->dtype;
  if (name == "if_then_else") return Conditional(op->args[0], op->args[1], op->args[2]);
  if (name == "likely") return VisitExpr(op->args[0]);
  if (name == "assume" || name == "prefetch") return "";
  if (name == "isnullptr") return StrCat("(", VisitExpr(op->args[0]), " == NULL)");
  if (name == "ret") {
    Return(VisitExpr(op->args[0]));
    return "";
  }
  if (name == "reinterpret") {
    const DataType from = op->args[0].dtype();
    std::string x = VisitExpr(op->args[0]);
    if (from.is_floating() == t.is_floating()) return StrCat("((", ValueType(t), ")", x, ")");
    if (IsSmallFloat(from) || IsSmallFloat(t)) return StrCat("((", ValueType(t), ")", x, ")");
    return StrCat("treadle_bits_", Suffix(from), "_", Suffix(t), "(", x, ")");
  }
  if (name == "tvm_struct_get") {
    static const std::unordered_map<int, const char*> fields = {
        {static_cast<int>(StructField::kData), "data"},
        {static_cast<int>(StructField::kShape), "shape"},
        {static_cast<int>(StructField::kStrides), "strides"},
        {static_cast<int>(StructField::kNDim), "ndim"},
        {static_cast<int>(StructField::kTypeCode), "dtype.code"},
        {static_cast<int>(StructField::kTypeBits), "dtype.bits"},
        {static_cast<int>(StructField::kTypeLanes), "dtype.lanes"},
        {static_cast<int>(StructField::kByteOffset), "byte_offset"},
        {static_cast<int>(StructField::kDeviceId), "device.device_id"},
        {static_cast<int>(StructField::kDeviceType), "device.device_type"}};
    const int field = static_cast<int>(tir::as_int(op->args[2], "field"));
    std::string base = VisitExpr(op->args[0]), index = VisitExpr(op->args[1]);
    if (field == static_cast<int>(StructField::kValue)) {
      const char* member = t.is_handle() ? "v_handle" : t.is_floating() ? "v_float64" : "v_int64";
      std::string value = StrCat("((TreadleArg*)", base, ")[", index, "].", member);
      if (t.is_handle()) return value;
      return Convert(value, t.is_floating() ? DataType::Float(64) : DataType::Int(64), t);
    }
    std::string value = StrCat("((TreadleTensor*)", base, ")[", index, "].", fields.at(field));
    return t.is_handle() ? value : StrCat("((", ValueType(t), ")", value, ")");
  }
  if (name == "shift_left") return Helper("shl", t, op->args[0], op->args[1]);
  if (name == "shift_right") return Helper("shr", t, op->args[0], op->args[1]);
  static const std::unordered_map<std::string, const char*> bits = {
      {"bitwise_and", "&"}, {"bitwise_or", "|"}, {"bitwise_xor", "^"}};
  if (auto it = bits.find(name); it != bits.end()) {
    std::string a = VisitExpr(op->args[0]);
    return StrCat("(", ValueType(t), ")(", a, " ", it->second, " ", VisitExpr(op->args[1]), ")");
  }
  if (name == "bitwise_not") return StrCat("(", ValueType(t), ")(~", VisitExpr(op->args[0]), ")");
  if (name == "popcount" || name == "clz") {
    const DataType from = op->args[0].dtype();
    std::string x = StrCat("(uint64_t)(", ValueType(DataType::UInt(from.bits())), ")", VisitExpr(op->args[0]));
    if (name == "popcount") return StrCat("((", ValueType(t), ")treadle_popcount(", x, "))");
    return StrCat("((", ValueType(t), ")treadle_clz(", x, ", ", from.bits(), "))");
  }
  const DataType from = op->args.empty() ? t : op->args[0].dtype();
  if (name == "fabs" && from.is_integral()) {
    std::string x = Temporary(from, VisitExpr(op->args[0]));
    if (from.is_uint()) return x;
    const char* u = from.bits() == 64 ? "uint64_t" : "uint32_t";
    return StrCat("(", ValueType(t), ")(", x, " < 0 ? (", u, ")0 - (", u, ")", x, " : (", u, ")", x, ")");
  }
  if (name == "address_of") {
    const auto* load = op->args[0].as<tir::BufferLoadNode>();
    if (load != nullptr) return StrCat("((void*)&", Element(load->buffer, load->indices), ")");
  }
  const bool small = IsSmallFloat(from);
  auto argument = [&](size_t i) {
    std::string x = VisitExpr(op->args[i]);
    return small ? ToFloat(x, from) : x;
  };
  if (name == "isnan") {
    std::string x = Temporary(small ? DataType::Float(32) : from, argument(0));
    return StrCat("(", x, " != ", x, ")");
  }
  static const std::unordered_map<std::string, const char*> math = {
      {"sqrt", "sqrt"}, {"floor", "floor"}, {"ceil", "ceil"},         {"trunc", "trunc"},
      {"fabs", "fabs"}, {"fma", "fma"},     {"copysign", "copysign"}, {"nearbyint", "nearbyint"}};
  if (auto it = math.find(name); it != math.end() && from.is_floating()) {
    std::string text = StrCat(it->second, from.bits() == 64 ? "" : "f", "(");
    for (size_t i = 0; i < op->args.size(); ++i) text += (i == 0 ? "" : ", ") + argument(i);
    text += ")";
    return small ? FromFloat(text, t) : text;
  }
  throw TargetError(StrCat("the c backend doesn't know the intrinsic tir.", name, " of ", t));
}

std::string ScalarArgument(const Var& v, size_t i) {
  const DataType t = v.dtype();
  if (t.is_float() && t.bits() == 64) return StrCat("treadle_bits_i64_f64(scalars[", i, "])");
  if (t.is_float()) return StrCat("(float)treadle_bits_i64_f64(scalars[", i, "])");
  return StrCat("(", ValueType(t), ")scalars[", i, "]");
}

void EmitFunction(const tir::SplitFunction& func, const CodegenOptions& options, std::ostream& out) {
  bool noalias = true;
  if (auto attribute = func.compute->GetAttr<IntImm>(attr::kNoAlias)) noalias = (*attribute)->value != 0;
  CFunction compute;
  std::string params;
  std::vector<Var> vars(func.compute->params.begin(), func.compute->params.end());
  for (size_t i = 0; i < vars.size(); ++i) params += (i == 0 ? "" : ", ") + compute.Declare(vars[i], noalias);
  out << "\nstatic int32_t " << func.name << "__compute(" << (params.empty() ? "void" : params) << ") {\n"
      << compute.Body(vars, func.compute->body) << "}\n";
  if (options.raw_api) {
    out << "\nint32_t " << func.name << "__raw(void* const* data, const int64_t* scalars);\nint32_t " << func.name
        << "__raw(void* const* data, const int64_t* scalars) {\n  (void)data;\n  (void)scalars;\n  return " << func.name
        << "__compute(";
    for (size_t i = 0; i < func.buffers.size(); ++i) {
      out << (i == 0 ? "" : ", ") << "(" << MemoryType(func.buffers[i]->dtype) << "*)data[" << i << "]";
    }
    for (size_t i = 0; i < func.scalars.size(); ++i) {
      out << (i == 0 && func.buffers.empty() ? "" : ", ") << ScalarArgument(func.scalars[i], i);
    }
    out << ");\n}\n";
  }
  if (options.packed_api) {
    CFunction packed;
    std::string list;
    std::vector<Var> packed_vars(func.packed->params.begin(), func.packed->params.end());
    for (size_t i = 0; i < packed_vars.size(); ++i)
      list += (i == 0 ? "" : ", ") + packed.Declare(packed_vars[i], false);
    out << "\nint32_t " << func.name << "(" << list << ");\nint32_t " << func.name << "(" << list << ") {\n"
        << packed.Body(packed_vars, func.packed->body) << "}\n";
  }
}

Artifact CodegenC(const std::vector<tir::PrimFunc>& lowered, const Target& target, const CodegenOptions& options) {
  std::ostringstream out;
  out << "/* treadle target: " << target.str() << " */\n" << kCPrelude;
  Artifact artifact;
  artifact.format = "c";
  for (const tir::PrimFunc& func : lowered) {
    const tir::SplitFunction split = tir::MakePackedApi(func, options.packed_api);
    EmitFunction(split, options, out);
    if (options.packed_api) artifact.symbols.push_back(split.name);
    if (options.raw_api) artifact.symbols.push_back(split.name + "__raw");
  }
  artifact.code = out.str();
  return artifact;
}

}  // namespace

void RegisterCBackend() {
  RegisterBackend({"c", "portable C99, for any compiler", CodegenC,
                   [](const tir::PrimFunc&, const Target&) { return std::string(); }});
}

}  // namespace treadle::backends
