// SPDX-License-Identifier: Apache-2.0
// Statements in C.
#include <algorithm>
#include <cctype>

#include "tir/passes/kernel_body.h"
#include "treadle/targets/c_writer.h"

namespace treadle::targets {

using tir::Var;

namespace {

/// What a variable can't be called: words of C99, and what the generated text itself uses.
const std::unordered_set<std::string>& ReservedWords() {
  static const std::unordered_set<std::string> words = {
      "auto",   "break",    "case",      "char",      "const",      "continue", "default", "do",     "double",
      "else",   "enum",     "extern",    "float",     "for",        "goto",     "if",      "inline", "int",
      "long",   "register", "restrict",  "return",    "short",      "signed",   "sizeof",  "static", "struct",
      "switch", "typedef",  "union",     "unsigned",  "void",       "volatile", "while",   "bool",   "true",
      "false",  "NULL",     "NAN",       "INFINITY",  "malloc",     "free",     "memcpy",  "sqrt",   "sqrtf",
      "floor",  "floorf",   "ceil",      "ceilf",     "trunc",      "truncf",   "fabs",    "fabsf",  "fma",
      "fmaf",   "copysign", "copysignf", "nearbyint", "nearbyintf", "data",     "scalars", "half",   "kernel",
      "global", "local",    "constant",  "private",   "main",       "asm",      "typeof",  "uint",   "uchar",
      "ushort", "ulong",    "event_t",   "exp",       "log",        "sin",      "cos",     "max",    "min"};
  return words;
}

/// Constant number of elements, or -1.
int64_t ConstantCount(const tir::Buffer& buffer) {
  int64_t count = buffer->dtype.lanes();
  for (const PrimExpr& extent : buffer->shape) {
    const int64_t* n = AsConstInt(extent);
    if (n == nullptr || __builtin_mul_overflow(count, *n, &count)) return -1;
  }
  return std::max<int64_t>(count, 1);
}

}  // namespace

std::string CWriter::Body(const std::vector<Var>& params, const tir::Stmt& body) {
  memos_.emplace_back();
  std::string before = out_.str();
  StmtBase::VisitStmt(body);
  Finish();
  // Parameters that the body doesn't use.
  std::string text = out_.str(), unused;
  for (const Var& v : params) {
    const std::string name = Name(v);
    bool used = false;
    for (size_t at = text.find(name); at != std::string::npos && !used; at = text.find(name, at + 1)) {
      auto word = [&](size_t i) {
        return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
      };
      used = !(at > 0 && word(at - 1)) && !word(at + name.size());
    }
    if (!used) unused += StrCat("  (void)", name, ";\n");
  }
  return before + unused + text.substr(before.size());
}

void CWriter::Finish() { Line("return 0;"); }

std::string CWriter::PointerTo(const Var&, const std::string& element) const { return element + "*"; }

std::string CWriter::Declare(const Var& v, bool restrict_pointer) {
  std::string type;
  if (const auto* pointer = v->type_annotation.as<PointerTypeNode>()) {
    if (const auto* element = pointer->element_type.as<PrimTypeNode>()) {
      type = PointerTo(v, CMemoryType(element->dtype)) + (restrict_pointer ? " restrict" : "");
    }
  }
  if (type.empty()) type = CValueType(v.dtype());
  return type + " " + Name(v);
}

std::string CWriter::Name(const Var& v) {
  auto it = names_.find(v.get());
  if (it != names_.end()) return it->second;
  std::string base;
  for (char c : v->name_hint) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])) || base[0] == '_') base = "v" + base;
  // t0, t1, .. are temporaries.
  const bool temporary = base[0] == 't' && base.size() > 1 &&
                         std::all_of(base.begin() + 1, base.end(), [](unsigned char c) { return std::isdigit(c); });
  if (temporary || ReservedWords().count(base) != 0 || base.rfind("treadle", 0) == 0) base += "_";
  std::string name = base;
  for (int k = 1; !taken_.insert(name).second; ++k) name = StrCat(base, "_", k);
  names_[v.get()] = name;
  return name;
}

std::string CWriter::Temporary(DataType t, const std::string& value) {
  std::string name = StrCat("t", counter_++);
  Line(StrCat("const ", CValueType(t), " ", name, " = ", value, ";"));
  ++temporaries_;
  return name;
}

void CWriter::ForgetReads() {
  for (auto& memo : memos_) {
    std::erase_if(memo, [](const auto& known) {
      return tir::ReadsMemory(GetRef<PrimExpr>(static_cast<const PrimExprNode*>(known.first)));
    });
  }
}

void CWriter::Return(const std::string& value) {
  for (size_t i = allocated_.size(); i-- > 0;) Line(StrCat("free(", allocated_[i], ");"));
  Line(StrCat("return ", value, ";"));
}

std::string CWriter::Quote(const std::string& text) {
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

void CWriter::FailUnless(const std::string& condition, const std::string& message) {
  Line(StrCat("if (!", condition, ") {"));
  Indented([&] { Return(StrCat("treadle_fail(", Quote(message), ")")); });
  Line("}");
}

void CWriter::VisitStmt_(const tir::LetStmtNode* op) {
  auto write = [&] {
    Scoped([&] {
      std::string value = VisitExpr(op->value);
      Line(StrCat(Declare(op->var, false), " = ", value, ";"));
    });
    Line(StrCat("(void)", Name(op->var), ";"));
    StmtBase::VisitStmt(op->body);
  };
  // The copies of an unrolled body bind the same variable: all but the first need a scope of their own.
  if (lets_.insert(op->var.get()).second) return write();
  Line("{");
  Indented(write);
  Line("}");
}

void CWriter::VisitStmt_(const tir::AssertStmtNode* op) {
  const auto* text = op->message.as<tir::StringImmNode>();
  Block([&] { FailUnless(VisitExpr(op->condition), text != nullptr ? text->value : "assertion failed"); });
  StmtBase::VisitStmt(op->body);
}

void CWriter::VisitStmt_(const tir::BufferStoreNode* op) {
  Block([&] {
    std::string value = VisitExpr(op->value);
    std::string element = Element(op->buffer, op->indices);
    const DataType dtype = op->buffer->dtype;
    sums_integers_ |= (dtype.is_int() || dtype.is_uint()) && value.find(element) != std::string::npos;
    Line(StrCat(element, " = ", value, ";"));
  });
}

void CWriter::AllocateMemory(const tir::AllocateNode* op) {
  const tir::Buffer& buffer = op->buffer;
  const std::string name = Name(buffer->data), type = CMemoryType(buffer->dtype);
  const int64_t count = ConstantCount(buffer);
  Line("{");
  Indented([&] {
    if (count > 0 && count * std::max(1, buffer->dtype.bytes()) <= 4096) {
      Line(StrCat(type, " ", name, "[", count, "];"));
      StmtBase::VisitStmt(op->body);
      return;
    }
    std::string size = count > 0 ? StrCat("(size_t)", count) : StrCat("(size_t)", buffer->dtype.lanes());
    if (count < 0) {
      for (const PrimExpr& extent : buffer->shape) size += StrCat(" * (size_t)", VisitExpr(extent));
    }
    Line(StrCat(type, "* ", name, " = (", type, "*)malloc(", size, " * sizeof(", type, "));"));
    FailUnless(name, "out of memory");
    allocated_.push_back(name);
    StmtBase::VisitStmt(op->body);
    allocated_.pop_back();
    Line(StrCat("free(", name, ");"));
  });
  Line("}");
}

void CWriter::VisitStmt_(const tir::SeqStmtNode* op) {
  for (const tir::Stmt& stmt : op->seq) StmtBase::VisitStmt(stmt);
}

void CWriter::VisitStmt_(const tir::IfThenElseNode* op) {
  Block([&] {
    std::string condition = VisitExpr(op->condition);
    if (!InParentheses(condition)) condition = "(" + condition + ")";
    Line(StrCat("if ", condition, " {"));
    ForgetReads();
    Indented([&] { StmtBase::VisitStmt(op->then_case); });
    if (op->else_case.defined()) {
      Line("} else {");
      Indented([&] { StmtBase::VisitStmt(op->else_case); });
    }
    Line("}");
  });
}

void CWriter::VisitStmt_(const tir::EvaluateNode* op) {
  if (op->value.as<IntImmNode>()) return;
  Block([&] {
    std::string value = ExprBase::VisitExpr(op->value);
    if (!value.empty()) Line(StrCat("(void)", value, ";"));
  });
}

void CWriter::ThreadLoop(const tir::ForNode* op) {
  throw TargetError(StrCat("loop ", op->loop_var->name_hint, " is bound to a thread of a device, which target ",
                           Language(), " doesn't have"));
}

void CWriter::VisitStmt_(const tir::ForNode* op) {
  if (op->kind == tir::ForKind::kThreadBinding) return ThreadLoop(op);
  Block([&] {
    const std::string type = CValueType(op->loop_var.dtype()), name = Name(op->loop_var);
    ++in_index_;
    std::string min = VisitExpr(op->min), extent = VisitExpr(op->extent);
    --in_index_;
    if (tir::ReadsMemory(op->extent)) extent = Temporary(op->extent.dtype(), extent);  // read once, before the body
    std::string end = tir::is_zero(op->min) ? extent : StrCat(min, " + ", extent);
    Line(StrCat("for (", type, " ", name, " = ", min, "; ", name, " < ", end, "; ++", name, ") {"));
    ForgetReads();
    Indented([&] { StmtBase::VisitStmt(op->body); });
    Line("}");
  });
}

void CWriter::VisitStmt_(const tir::WhileNode* op) {
  Line("for (;;) {");
  Indented([&] {
    std::string condition = VisitExpr(op->condition);
    Line(StrCat("if (!", condition, ") break;"));
    ForgetReads();
    StmtBase::VisitStmt(op->body);
  });
  Line("}");
}

}  // namespace treadle::targets
