// SPDX-License-Identifier: Apache-2.0
// Reads what the printer prints: functions and modules of loop-level code.
#include <charconv>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tir/flat_buffer.h"
#include "tir/text/expr_parser.h"
#include "tir/thread_axis.h"
#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/serialization.h"
#include "treadle/tir/text.h"

namespace treadle::tir {
namespace {

using text::ExprParser;
using text::TokenKind;

const std::pair<const char*, ForKind> kLoopKinds[] = {{"parallel", ForKind::kParallel},
                                                      {"vectorized", ForKind::kVectorized},
                                                      {"unroll", ForKind::kUnrolled},
                                                      {"thread_binding", ForKind::kThreadBinding}};
const char* const kIterNames[] = {"data",     "thread",     "reduce",       "ordered",   "opaque",
                                  "unrolled", "vectorized", "parallelized", "tensorized"};

class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  std::pair<std::string, PrimFunc> Function() {
    Reset();
    ExpectWord("primfn");
    Expect("(");
    Array<Var> params;
    while (!Accept(")")) {
      if (!params.empty()) Expect(",");
      params.push_back(DefineVar());
    }
    Expect("->");
    Type ret;
    if (Accept("("))
      Expect(")");
    else
      ret = PrimType(ParseDType());
    ExpectWord("attr");
    Expect("=");
    Map<treadle::String, ObjectRef> attrs = ParseMap();
    if (AcceptWord("buffers")) {
      Expect("=");
      Expect("{");
      for (bool first = true; !Accept("}"); first = false) {
        if (!first) Expect(",");
        Declaration();
      }
    }
    Map<Var, Buffer> buffer_map;
    if (AcceptWord("buffer_map")) {
      Expect("=");
      Expect("{");
      while (!Accept("}")) {
        if (!buffer_map.empty()) Expect(",");
        Var param = KnownVar();
        Expect(":");
        Buffer buffer = KnownBuffer();
        buffer_map.Set(param, buffer);
      }
    }
    Stmt body = Braced();
    std::string name = "main";
    if (auto symbol = attrs.Get(treadle::attr::kGlobalSymbol); symbol && symbol->as<StringNode>()) {
      name = symbol->as<StringNode>()->value;
    }
    return {name, PrimFunc(params, body, ret, buffer_map, DictAttrs(attrs))};
  }

  bool AtEnd() { return Peek().kind == TokenKind::kEnd; }
  void SkipVersion() {
    if (!Accept("#")) return;
    while (!Accept("]")) {
      if (AtEnd()) Fail("the version isn't closed");
      lexer_.Next();
    }
  }

 private:
  Stmt Braced() {
    Expect("{");
    Stmt body = Sequence();
    Expect("}");
    return body;
  }

  /// Statements up to the closing brace. A let, attribute, assertion or allocation holds all that follow it.
  Stmt Sequence() {
    Deeper deeper(this);
    return WithEnoughStack([this] { return SequenceHere(); });
  }
  Stmt SequenceHere() {
    Array<Stmt> list;
    while (!IsSymbol("}") && !AtEnd()) {
      if (Peek().kind == TokenKind::kName) {
        const std::string& word = Peek().text;
        const bool bracket = Peek(1).kind == TokenKind::kSymbol && (Peek(1).text == "[" || Peek(1).text == "(");
        if (word == "let") {
          list.push_back(ParseLet());
          break;
        }
        if (word == "attr" && bracket) {
          list.push_back(ParseAttr());
          break;
        }
        if (word == "assert" && bracket) {
          list.push_back(ParseAssert());
          break;
        }
        if (word == "allocate") {
          list.push_back(ParseAllocate());
          break;
        }
      }
      list.push_back(Statement());
    }
    if (list.empty()) return Evaluate(PrimExpr(0));
    return list.size() == 1 ? list[0] : SeqStmt(list);
  }

  Stmt ParseLet() {
    lexer_.Next();
    // The value comes after the variable, which it can't use.
    const size_t at = Here();
    const std::string name = Name();
    std::optional<Type> type;
    if (Accept(":")) type = ParseType();
    Expect("=");
    PrimExpr value = Expr();
    Var var = type ? NewVar(name, *type) : VarNamed(name, at);
    if (var.dtype() != value.dtype()) {
      FailAt(at, StrCat("variable ", name, " of ", var.dtype(), " can't hold a value of ", value.dtype()));
    }
    Expect(";");
    return LetStmt(var, value, Sequence());
  }
  Stmt ParseAttr() {
    lexer_.Next();
    Expect("[");
    ObjectRef node;
    if (Peek().kind == TokenKind::kName && IsBuffer(Peek().text) && !(Peek(1).text == "[")) {
      node = KnownBuffer();
    } else if (Peek().kind == TokenKind::kName && Peek().text == "IterVar") {
      node = ParseIterVar();
    } else {
      node = Value();
    }
    Expect("]");
    std::string key = String();
    Expect("=");
    PrimExpr value = Expr();
    Expect(";");
    return AttrStmt(node, key, value, Sequence());
  }
  Stmt ParseAssert() {
    lexer_.Next();
    Expect("(");
    PrimExpr condition = Condition("assert");
    Expect(",");
    PrimExpr message = Expr();
    Expect(")");
    Expect(";");
    return AssertStmt(condition, message, Sequence());
  }
  Stmt ParseAllocate() {
    lexer_.Next();
    Buffer buffer;
    if (Accept("(")) {
      const size_t at = Here();
      Var data = DefineVar();
      if (data->type_annotation.as<PointerTypeNode>() == nullptr) FailAt(at, "an allocation needs a pointer");
      Expect(",");
      DataType dtype = ParseDType();
      Expect(",");
      Array<PrimExpr> shape = List();
      Expect(")");
      Expect(",");
      ExpectWord("storage_scope");
      Expect("=");
      String();
      buffer = Known(Buffer(data, dtype, shape, {}, PrimExpr(ObjectPtr<Object>()), data->name_hint));
      SetFlat(data, buffer);
    } else {
      buffer = Declaration();
    }
    Map<treadle::String, ObjectRef> annotations = Annotations();
    Expect(";");
    return Allocate(buffer, Sequence(), annotations);
  }

  Stmt Statement() {
    Deeper deeper(this);
    if (IsSymbol("{")) return Braced();
    if (Peek().kind != TokenKind::kName) Fail(StrCat("expected a statement, not '", Peek().text, "'"));
    const std::string word = Peek().text;
    const bool call = Peek(1).kind == TokenKind::kSymbol && Peek(1).text == "(";
    if (word == "for" && call) return ParseFor();
    if (word == "if") {
      lexer_.Next();
      PrimExpr condition = Condition("if");
      Stmt then_case = Braced(), else_case;
      if (AcceptWord("else")) else_case = Braced();
      return IfThenElse(condition, then_case, else_case);
    }
    if (word == "while") {
      lexer_.Next();
      PrimExpr condition = Condition("while");
      return While(condition, Braced());
    }
    if (word == "evaluate" && call) {
      lexer_.Next();
      Expect("(");
      PrimExpr value = Expr();
      Expect(")");
      return Evaluate(value);
    }
    if (word == "block" && Peek(1).kind == TokenKind::kString) return ParseBlock();
    const size_t at = Here();
    Buffer buffer = KnownBuffer();
    Array<PrimExpr> indices = Indices(buffer, at);
    Expect("=");
    PrimExpr value = Expr();
    return Checked(at, [&] { return BufferStore(buffer, value, indices); });
  }

  PrimExpr Condition(const char* what) {
    const size_t at = Here();
    PrimExpr condition = Expr();
    if (!condition.dtype().is_bool()) {
      FailAt(at, StrCat("the condition of ", what, " has dtype ", condition.dtype(), "; expected bool"));
    }
    return condition;
  }

  Stmt ParseFor() {
    lexer_.Next();
    Expect("(");
    const size_t at = Here();
    Var var = DefineVar();
    if (!var.dtype().is_integral() || !var.dtype().is_scalar()) {
      FailAt(at, StrCat("loop variable ", var->name_hint, " has dtype ", var.dtype(), "; expected an integer"));
    }
    Expect(",");
    PrimExpr min = Expr();
    Expect(",");
    PrimExpr extent = Expr();
    if (!min.dtype().is_integral() || !extent.dtype().is_integral()) FailAt(at, "the range of a loop needs integers");
    Expect(")");
    ForKind kind = ForKind::kSerial;
    IterVar thread;
    for (const auto& [name, value] : kLoopKinds) {
      if (!AcceptWord(name)) continue;
      kind = value;
      if (kind != ForKind::kThreadBinding) break;
      Expect("(");
      std::string tag = String();
      Range range;
      if (Accept(",")) range = ParseRange();
      Expect(")");
      // Copies of a loop, which share its variable, share the thread too.
      IterVar& known = threads_[var.get()];
      if (!known.defined() || known->thread_tag != tag) known = ThreadAxis(tag, var.dtype());
      if (range.defined()) known = IterVar(range, known->var, known->iter_type, tag);
      thread = known;
      break;
    }
    Map<treadle::String, ObjectRef> annotations = Annotations();
    Stmt body = Braced();
    return Checked(at, [&] { return For(var, min, extent, kind, body, thread, annotations); });
  }

  BufferRegion Region() {
    const size_t at = Here();
    Buffer buffer = KnownBuffer();
    Expect("[");
    Array<Range> region;
    while (!Accept("]")) {
      if (!region.empty()) Expect(",");
      PrimExpr min = Expr(), extent = make_const(min.dtype(), 1);
      if (Accept("+:")) extent = Expr();
      region.push_back(Range::FromMinExtent(min, extent));
    }
    return Checked(at, [&] { return BufferRegion(buffer, region); });
  }
  Array<BufferRegion> Regions(const char* word) {
    Array<BufferRegion> regions;
    if (!AcceptWord(word)) return regions;
    do {
      regions.push_back(Region());
    } while (Accept(","));
    Expect(";");
    return regions;
  }
  Range ParseRange() {
    Expect("(");
    PrimExpr min = Expr();
    Expect(",");
    PrimExpr extent = Expr();
    Expect(")");
    return Range::FromMinExtent(min, extent);
  }
  IterVar ParseIterVar() {
    lexer_.Next();
    Expect("(");
    Var var = DefineVar();
    Expect(",");
    Range dom;
    if (!AcceptWord("null")) dom = ParseRange();
    Expect(",");
    const size_t at = Here();
    IterVarType type = IterType(String(), at);
    Expect(",");
    std::string tag = String();
    Expect(")");
    return IterVar(dom, var, type, tag);
  }
  IterVarType IterType(const std::string& name, size_t at) {
    for (size_t i = 0; i < std::size(kIterNames); ++i) {
      if (name == kIterNames[i]) return static_cast<IterVarType>(i);
    }
    FailAt(at, StrCat("there is no kind of axis '", name, "'; expected data, reduce, ordered, .."));
  }

  Stmt ParseBlock() {
    lexer_.Next();
    std::string name = String();
    Expect("(");
    Array<IterVar> axes;
    Array<PrimExpr> values;
    while (!Accept(")")) {
      if (!axes.empty()) Expect(",");
      // What the axis is bound to comes last, but doesn't see the axes.
      Var var = DefineVar();
      const size_t at = Here();
      IterVarType type = IterType(Name(), at);
      Range dom = ParseRange();
      Expect("=");
      values.push_back(Expr());
      axes.push_back(IterVar(dom, var, type));
    }
    PrimExpr predicate = make_bool(true);
    if (AcceptWord("where")) predicate = Condition("where");
    Map<treadle::String, ObjectRef> annotations = Annotations();
    Expect("{");
    Array<Buffer> allocs;
    while (AcceptWord("alloc")) {
      allocs.push_back(Declaration());
      Expect(";");
    }
    Array<MatchBufferRegion> matches;
    while (IsWord("match") && Peek(1).kind == TokenKind::kName) {
      lexer_.Next();
      Buffer view = Declaration();
      Expect("=");
      matches.push_back(MatchBufferRegion(view, Region()));
      Expect(";");
    }
    Array<BufferRegion> reads = Regions("reads"), writes = Regions("writes");
    Stmt init;
    if (IsWord("init") && Peek(1).kind == TokenKind::kSymbol && Peek(1).text == "{") {
      lexer_.Next();
      init = Braced();
    }
    Stmt body = Sequence();
    Expect("}");
    return BlockRealize(values, predicate, Block(axes, reads, writes, name, body, init, allocs, matches, annotations));
  }

  std::unordered_map<const Object*, IterVar> threads_;  ///< by loop variable
};

}  // namespace

PrimFunc ParsePrimFunc(const std::string& source, const std::string& name) {
  RegisterTirOps();
  Parser parser(source, name);
  parser.SkipVersion();
  PrimFunc func = parser.Function().second;
  if (!parser.AtEnd()) parser.Fail("expected the end of the text");
  return func;
}

IRModule ParseModule(const std::string& source, const std::string& name) {
  RegisterTirOps();
  Parser parser(source, name);
  parser.SkipVersion();
  IRModule module = IRModule::Empty();
  do {
    parser.SkipVersion();
    const size_t at = parser.Here();
    auto [symbol, func] = parser.Function();
    for (const auto& [var, known] : module->functions) {
      if (var->name_hint == symbol) parser.FailAt(at, StrCat("there already is a function '", symbol, "'"));
    }
    module.CopyOnWrite()->Add(GlobalVar(symbol), func);
  } while (!parser.AtEnd());
  return module;
}

}  // namespace treadle::tir
