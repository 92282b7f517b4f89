// SPDX-License-Identifier: Apache-2.0
// Text in the language C out of functions in low-level form without vectors: what C99 and its relatives share. A target
// whose language is one of them derives from CWriter, and overrides what differs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "treadle/ir/prim_ops.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::targets {

/// Suffix of the prelude's functions for a dtype: "i32", "f64", ..
std::string CSuffix(DataType t);
/// Type of a value in an expression. A TargetError that names the dtype where C has none.
std::string CValueType(DataType t);
/// Type of an element in memory.
std::string CMemoryType(DataType t);

/// Whether one pair of parentheses encloses all of the text.
bool InParentheses(const std::string& text);

/// Writes one function. Subexpressions that occur several times become local constants.
class CWriter : public tir::ExprFunctor<std::string(const PrimExpr&)>, public tir::StmtFunctor<void(const tir::Stmt&)> {
 public:
  virtual ~CWriter() = default;
  /// The declaration of a parameter or variable.
  virtual std::string Declare(const tir::Var& v, bool restrict_pointer);
  /// The statements of a function's body.
  std::string Body(const std::vector<tir::Var>& params, const tir::Stmt& body);
  /// Prototypes of the functions that were called by name.
  const std::map<std::string, std::string>& externs() const { return externs_; }
  bool calls_packed() const { return calls_packed_; }
  /// What stands before the function's type.
  const char* qualifiers() const { return sums_integers_ ? "TREADLE_INTEGER_SUMS static" : "static"; }
  /// Functions that the body calls, which stand before it.
  virtual std::string functions() const { return ""; }
  /// What a variable is called in the text.
  std::string NameOf(const tir::Var& v) { return Name(v); }

 protected:
  using ExprBase = tir::ExprFunctor<std::string(const PrimExpr&)>;
  using StmtBase = tir::StmtFunctor<void(const tir::Stmt&)>;

  // ---- What languages differ in ----
  virtual const char* Language() const { return "c"; }
  /// "float*" for elements of `element` that `data` points to.
  virtual std::string PointerTo(const tir::Var& data, const std::string& element) const;
  virtual void AllocateMemory(const tir::AllocateNode* op);
  virtual void ThreadLoop(const tir::ForNode* op);
  /// The last statement of a body.
  virtual void Finish();
  virtual void FailUnless(const std::string& condition, const std::string& message);
  /// An intrinsic that only this language has; "" with `known` false where there is none.
  virtual std::string OwnIntrinsic(const std::string& name, const tir::CallNode* op, bool* known);
  virtual std::string ExternCall(const tir::CallNode* op);
  virtual std::string PackedCall(const tir::CallNode* op);

  // ---- Expressions ----
  std::string VisitExpr(const PrimExpr& e) override;
  std::string VisitExpr_(const tir::VarNode* op) override { return Name(GetRef<tir::Var>(op)); }
  std::string VisitExpr_(const IntImmNode* op) override;
  std::string VisitExpr_(const FloatImmNode* op) override;
  std::string VisitExpr_(const tir::StringImmNode* op) override { return Quote(op->value); }
  std::string VisitExpr_(const tir::CastNode* op) override;
  std::string VisitExpr_(const tir::AddNode* op) override;
  std::string VisitExpr_(const tir::SubNode* op) override;
  std::string VisitExpr_(const tir::MulNode* op) override;
  std::string VisitExpr_(const tir::DivNode* op) override;
  std::string VisitExpr_(const tir::ModNode* op) override;
  std::string VisitExpr_(const tir::FloorDivNode* op) override;
  std::string VisitExpr_(const tir::FloorModNode* op) override;
  std::string VisitExpr_(const tir::MinNode* op) override;
  std::string VisitExpr_(const tir::MaxNode* op) override;
  std::string VisitExpr_(const tir::EQNode* op) override { return Compare(op->a, op->b, "=="); }
  std::string VisitExpr_(const tir::NENode* op) override { return Compare(op->a, op->b, "!="); }
  std::string VisitExpr_(const tir::LTNode* op) override { return Compare(op->a, op->b, "<"); }
  std::string VisitExpr_(const tir::LENode* op) override { return Compare(op->a, op->b, "<="); }
  std::string VisitExpr_(const tir::GTNode* op) override { return Compare(op->a, op->b, ">"); }
  std::string VisitExpr_(const tir::GENode* op) override { return Compare(op->a, op->b, ">="); }
  std::string VisitExpr_(const tir::AndNode* op) override { return Logic(op->a, op->b, true); }
  std::string VisitExpr_(const tir::OrNode* op) override { return Logic(op->a, op->b, false); }
  std::string VisitExpr_(const tir::NotNode* op) override { return StrCat("!", VisitExpr(op->a)); }
  std::string VisitExpr_(const tir::SelectNode* op) override;
  std::string VisitExpr_(const tir::LetNode* op) override;
  std::string VisitExpr_(const tir::BufferLoadNode* op) override;
  std::string VisitExpr_(const tir::CallNode* op) override;

  // ---- Statements ----
  void VisitStmt_(const tir::LetStmtNode* op) override;
  void VisitStmt_(const tir::AttrStmtNode* op) override { StmtBase::VisitStmt(op->body); }
  void VisitStmt_(const tir::AssertStmtNode* op) override;
  void VisitStmt_(const tir::BufferStoreNode* op) override;
  void VisitStmt_(const tir::AllocateNode* op) override { AllocateMemory(op); }
  void VisitStmt_(const tir::SeqStmtNode* op) override;
  void VisitStmt_(const tir::IfThenElseNode* op) override;
  void VisitStmt_(const tir::EvaluateNode* op) override;
  void VisitStmt_(const tir::ForNode* op) override;
  void VisitStmt_(const tir::WhileNode* op) override;

  // ---- Text ----
  void Line(const std::string& text) { out_ << std::string(static_cast<size_t>(2 * indent_), ' ') << text << "\n"; }
  template <typename F>
  void Scoped(F&& f) {
    memos_.emplace_back();
    f();
    memos_.pop_back();
  }
  /// What stands between braces.
  template <typename F>
  void Indented(F&& f) {
    auto outer_lets = std::exchange(lets_, {});
    ++indent_;
    Scoped(f);
    --indent_;
    lets_ = std::move(outer_lets);
  }
  /// A statement; in braces if it needs temporaries.
  template <typename F>
  void Block(F&& f) {
    TextStream outer;
    std::swap(outer, out_);
    const int outer_temporaries = std::exchange(temporaries_, 0);
    ++indent_;
    Scoped(f);
    --indent_;
    std::swap(outer, out_);
    const bool braces = temporaries_ > 0;
    temporaries_ = outer_temporaries;
    if (braces) Line("{");
    std::string_view lines = outer.str();
    while (!lines.empty()) {
      const size_t end = lines.find('\n');
      out_ << lines.substr(braces ? 0 : 2, end - (braces ? 0 : 2)) << "\n";
      lines.remove_prefix(end + 1);
    }
    if (braces) Line("}");
  }
  std::string Temporary(DataType t, const std::string& value);
  /// Between an expression and the statements under it (the body of a loop, a branch): what was read from memory for
  /// the expression is read again there, because statements write.
  void ForgetReads();
  void Return(const std::string& value);
  std::string Name(const tir::Var& v);
  static std::string Quote(const std::string& text);

  // ---- Values ----
  std::string ToFloat(const std::string& x, DataType t) const;
  std::string FromFloat(const std::string& x, DataType t) const;
  std::string Convert(const std::string& x, DataType from, DataType to) const;
  /// The value that the low bits of `x` stand for, of an integer that C computes with in 8 bits; others as they are.
  static std::string LowBits(const std::string& x, DataType t);
  std::string Element(const tir::Buffer& buffer, const Array<PrimExpr>& indices);
  std::string Arithmetic(const PrimExpr& a, const PrimExpr& b, DataType t, const char* symbol);
  std::string Helper(const char* name, DataType t, const PrimExpr& a, const PrimExpr& b);
  std::string MinMax(const PrimExpr& ea, const PrimExpr& eb, bool is_max);
  std::string Compare(const PrimExpr& ea, const PrimExpr& eb, const char* symbol);
  std::string Logic(const PrimExpr& a, const PrimExpr& b, bool is_and);
  /// The value of an expression that is computed under a condition; the statements it takes go to `lines`.
  std::string Branch(const PrimExpr& e, std::string* lines);
  /// A value of which only the needed side is computed.
  std::string Conditional(const PrimExpr& condition, const PrimExpr& yes, const PrimExpr& no);
  std::string StructGet(const tir::CallNode* op);
  std::string Reinterpret(const tir::CallNode* op);
  /// Intrinsics on integers; "" for others.
  std::string BitCall(const std::string& name, const tir::CallNode* op);
  /// Intrinsics on floating-point numbers; "" for others.
  std::string FloatCall(const std::string& name, const tir::CallNode* op);

  TextStream out_;
  std::unordered_map<const Object*, std::string> names_;
  std::unordered_set<const tir::VarNode*> lets_;  ///< bound by a statement between the same braces
  std::unordered_set<std::string> taken_;
  std::vector<std::unordered_map<const Object*, std::string>> memos_;
  std::vector<PrimExpr> known_;         ///< what memos know by address: some is made on the way
  std::vector<std::string> allocated_;  ///< what Return frees
  int indent_ = 1;
  int counter_ = 0;
  int in_index_ = 0;
  int temporaries_ = 0;  ///< in the statement that is being written
  std::map<std::string, std::string> externs_;
  bool calls_packed_ = false;
  bool sums_integers_ = false;  ///< integers are added to what a buffer holds
};

/// What a language that is C99 otherwise has of its own.
struct CDialect {
  std::string prelude;                               ///< stands before the functions
  std::function<std::unique_ptr<CWriter>()> writer;  ///< one for each function; null: CWriter
};
/// One translation unit with the functions, for CompileC or another compiler of C.
Artifact GenerateC(const Functions& lowered, const Target& target, const CodegenOptions& options,
                   const CDialect& dialect = {});

}  // namespace treadle::targets
