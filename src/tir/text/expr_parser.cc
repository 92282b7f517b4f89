// SPDX-License-Identifier: Apache-2.0
#include "tir/text/expr_parser.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "tir/flat_buffer.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/serialization.h"

namespace treadle::tir::text {

// ---- Tokens ----

bool ExprParser::Accept(const char* symbol) {
  if (!IsSymbol(symbol)) return false;
  lexer_.Next();
  return true;
}
bool ExprParser::AcceptWord(const char* word) {
  if (!IsWord(word)) return false;
  lexer_.Next();
  return true;
}
void ExprParser::Expect(const char* symbol) {
  if (Accept(symbol)) return;
  Fail(StrCat("expected '", symbol, "'",
              Peek().kind == TokenKind::kEnd ? " before the end" : ", not '" + Peek().text + "'"));
}
void ExprParser::ExpectWord(const char* word) {
  if (!AcceptWord(word)) Fail(StrCat("expected '", word, "', not '", Peek().text, "'"));
}
std::string ExprParser::Name() {
  if (Peek().kind != TokenKind::kName) Fail(StrCat("expected a name, not '", Peek().text, "'"));
  return lexer_.Next().text;
}
std::string ExprParser::String() {
  if (Peek().kind != TokenKind::kString) Fail(StrCat("expected a string, not '", Peek().text, "'"));
  return lexer_.Next().text;
}
int64_t ExprParser::Integer() {
  const size_t at = Here();
  PrimExpr value = Expr();
  const int64_t* constant = AsConstInt(value);
  if (constant == nullptr) FailAt(at, "expected an integer constant");
  return *constant;
}

// ---- Names ----

Var ExprParser::NewVar(const std::string& name, const Type& type) {
  const auto* prim = type.as<PrimTypeNode>();
  Var var = prim != nullptr ? Var(name, prim->dtype) : Var(name, type);
  names_[name] = var;
  return var;
}
Var ExprParser::VarNamed(const std::string& name, size_t at) {
  auto it = names_.find(name);
  if (it == names_.end()) FailAt(at, StrCat("variable '", name, "' isn't defined; its definition needs a type"));
  if (!it->second.as<VarNode>()) FailAt(at, StrCat("'", name, "' is a buffer, not a variable"));
  return Downcast<Var>(it->second);
}
Var ExprParser::DefineVar() {
  const size_t at = Here();
  std::string name = Name();
  if (Accept(":")) return NewVar(name, ParseType());
  return VarNamed(name, at);
}
Var ExprParser::KnownVar() {
  const size_t at = Here();
  return VarNamed(Name(), at);
}
bool ExprParser::IsBuffer(const std::string& name) const {
  auto it = names_.find(name);
  return it != names_.end() && it->second.as<BufferNode>() != nullptr;
}
Buffer ExprParser::KnownBuffer() {
  const size_t at = Here();
  std::string name = Name();
  auto it = names_.find(name);
  if (it == names_.end()) FailAt(at, StrCat("there is no buffer '", name, "'"));
  if (it->second.as<BufferNode>()) return Downcast<Buffer>(it->second);
  auto flat = flat_.find(it->second.get());
  if (flat == flat_.end()) FailAt(at, StrCat("'", name, "' is a variable, not a buffer"));
  flat->second = FlatBuffer(flat->second);
  return flat->second;
}

DataType ExprParser::ParseDType() {
  const size_t at = Here();
  std::string name = Name();
  return Checked(at, [&] { return DataType::FromString(name); });
}
Type ExprParser::ParseType() {
  if (!(IsWord("Pointer") && Peek(1).text == "(")) return PrimType(ParseDType());
  lexer_.Next();
  Expect("(");
  std::string scope = "global";
  if (Peek(1).kind == TokenKind::kName) scope = Name();
  DataType element = ParseDType();
  Expect(")");
  return PointerType(PrimType(element), scope == "_" ? "" : scope);
}

Buffer ExprParser::Known(const Buffer& buffer) const {
  auto it = flat_.find(buffer->data.get());
  if (it == flat_.end()) return buffer;
  const Buffer& known = it->second;
  auto same = [](const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i].dtype() != b[i].dtype() || !arith::ExprDeepEqual(a[i], b[i])) return false;
    }
    return true;
  };
  const bool equal = known->dtype == buffer->dtype && same(known->shape, buffer->shape) &&
                     same(known->strides, buffer->strides) && !known->elem_offset.defined() &&
                     !buffer->elem_offset.defined() && known->data_alignment == buffer->data_alignment &&
                     known->offset_factor == buffer->offset_factor;
  return equal ? known : buffer;
}

Buffer ExprParser::Declaration() {
  const size_t at = Here();
  std::string name = Name();
  Expect(":");
  ExpectWord("Buffer");
  Expect("(");
  Var data = DefineVar();
  Expect(",");
  DataType dtype = ParseDType();
  Expect(",");
  Array<PrimExpr> shape = List();
  Expect(",");
  Array<PrimExpr> strides = List();
  PrimExpr offset{ObjectPtr<Object>()};
  int64_t align = 64, factor = 0;
  while (Accept(",")) {
    const size_t key_at = Here();
    std::string key = Name();
    Expect("=");
    if (key == "elem_offset")
      offset = Expr();
    else if (key == "align")
      align = Integer();
    else if (key == "offset_factor")
      factor = Integer();
    else
      FailAt(key_at, StrCat("a buffer has no '", key, "'; expected elem_offset, align or offset_factor"));
  }
  Expect(")");
  if (!strides.empty() && strides.size() != shape.size()) {
    FailAt(at, StrCat("buffer ", name, " has ", shape.size(), " dimensions but ", strides.size(), " strides"));
  }
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  if (align < 1 || align > kMax || factor < 0 || factor > kMax) FailAt(at, "alignment or offset factor out of range");
  Buffer buffer = Checked(at, [&] {
    return Buffer(data, dtype, shape, strides, offset, name, static_cast<int>(align), static_cast<int>(factor));
  });
  buffer = Known(buffer);
  names_[name] = buffer;
  flat_.emplace(data.get(), buffer);
  return buffer;
}

// ---- Expressions ----

namespace {

struct Operator {
  const char* symbol;
  int level;
  PrimExpr (*make)(PrimExpr a, PrimExpr b);
};

template <typename Node>
PrimExpr Make(PrimExpr a, PrimExpr b) {
  return Node(std::move(a), std::move(b));
}

const Operator kOperators[] = {{"||", 0, Make<Or>}, {"&&", 1, Make<And>}, {"==", 2, Make<EQ>}, {"!=", 2, Make<NE>},
                               {"<", 3, Make<LT>},  {"<=", 3, Make<LE>},  {">", 3, Make<GT>},  {">=", 3, Make<GE>},
                               {"+", 4, Make<Add>}, {"-", 4, Make<Sub>},  {"*", 5, Make<Mul>}, {"/", 5, Make<Div>},
                               {"%", 5, Make<Mod>}};
constexpr int kUnaryLevel = 6;

const Operator kFunctions[] = {
    {"floordiv", 0, Make<FloorDiv>}, {"floormod", 0, Make<FloorMod>}, {"min", 0, Make<Min>}, {"max", 0, Make<Max>}};

/// "f32" and "i64" of constants; also "_bfloat16". Empty where it is none.
std::optional<DataType> SuffixType(const std::string& suffix) {
  if (suffix.empty()) return DataType::Int(32);
  try {
    if (suffix[0] == '_') return DataType::FromString(suffix.substr(1));
    const std::string bits = suffix.substr(1);
    if (bits.empty() || bits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    if (suffix[0] == 'i') return DataType::FromString("int" + bits);
    if (suffix[0] == 'u') return DataType::FromString("uint" + bits);
    if (suffix[0] == 'f') return DataType::FromString("float" + bits);
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

PrimExpr ExprParser::Expr() { return Binary(0); }

PrimExpr ExprParser::Binary(int level) {
  return WithEnoughStack([&]() -> PrimExpr {
    if (level == kUnaryLevel) return Unary();
    PrimExpr left = Binary(level + 1);
    while (Peek().kind == TokenKind::kSymbol) {
      const Operator* found = nullptr;
      for (const Operator& op : kOperators) {
        if (op.level == level && Peek().text == op.symbol) found = &op;
      }
      if (found == nullptr) break;
      const size_t at = Here();
      lexer_.Next();
      PrimExpr right = Binary(level + 1);
      left = Checked(at, [&] { return found->make(left, right); });
    }
    return left;
  });
}

PrimExpr ExprParser::Unary() {
  const size_t at = Here();
  if (Accept("!")) {
    Deeper deeper(this);
    PrimExpr operand = WithEnoughStack([this] { return Unary(); });
    return Checked(at, [&]() -> PrimExpr { return Not(operand); });
  }
  return Primary();
}

PrimExpr ExprParser::Primary() {
  Deeper deeper(this);
  const size_t at = Here();
  if (Peek().kind == TokenKind::kNumber) return Number(false);
  if (Peek().kind == TokenKind::kString) return StringImm(lexer_.Next().text);
  if (Peek().kind == TokenKind::kName) return Named();
  if (Accept("-")) return Number(true);
  if (IsSymbol("@")) return CallOf();
  if (!Accept("(")) {
    Fail(Peek().kind == TokenKind::kEnd ? "expected an expression before the end"
                                        : StrCat("expected an expression, not '", Peek().text, "'"));
  }
  // "(float32*)A[..]" names the dtype of what is loaded.
  if (Peek().kind == TokenKind::kName && Peek(1).text == "*" && Peek(1).kind == TokenKind::kSymbol &&
      Peek(2).kind == TokenKind::kSymbol && Peek(2).text == ")") {
    DataType dtype = ParseDType();
    Expect("*");
    Expect(")");
    PrimExpr load = Primary();
    if (load.dtype() != dtype) FailAt(at, StrCat("this has dtype ", load.dtype(), ", not ", dtype));
    return load;
  }
  PrimExpr value{ObjectPtr<Object>()};
  if (IsWord("let")) {
    lexer_.Next();
    const size_t name_at = Here();
    std::string name = Name();
    std::optional<Type> type;
    if (Accept(":")) type = ParseType();
    Expect("=");
    PrimExpr bound = Expr();
    Var var = type ? NewVar(name, *type) : VarNamed(name, name_at);
    ExpectWord("in");
    PrimExpr body = Expr();
    value = Checked(name_at, [&]() -> PrimExpr { return Let(var, bound, body); });
  } else {
    value = Expr();
  }
  Expect(")");
  return value;
}

PrimExpr ExprParser::Number(bool negative) {
  const size_t at = Here();
  const std::string sign = negative ? "-" : "";
  if (Peek().kind == TokenKind::kName) {  // -inff32, -nanf32
    std::string name = lexer_.Next().text;
    const bool inf = name.rfind("inf", 0) == 0, nan = name.rfind("nan", 0) == 0;
    std::optional<DataType> dtype = inf || nan ? SuffixType(name.substr(3)) : std::nullopt;
    if (!dtype || !dtype->is_floating()) FailAt(at, StrCat("expected a number after '-', not '", name, "'"));
    const double value = inf ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return FloatImm(*dtype, std::copysign(value, negative ? -1.0 : 1.0));
  }
  if (Peek().kind != TokenKind::kNumber) Fail("expected a number");
  const std::string text = lexer_.Next().text;
  size_t end = text.find_first_of("iuf_");
  if (end == std::string::npos) end = text.size();
  const std::string digits = sign + text.substr(0, end);
  std::optional<DataType> dtype = SuffixType(text.substr(end));
  const bool fraction = digits.find_first_of(".e") != std::string::npos;
  if (!dtype && text.substr(end).empty()) dtype = DataType::Int(32);
  if (!dtype || (fraction && !dtype->is_floating() && end < text.size())) {
    FailAt(at, StrCat("'", text, "' isn't a number; expected one such as 3, 3i64 or 2.5f32"));
  }
  const char* first = digits.data();
  const char* last = first + digits.size();
  if (dtype->is_floating() || fraction) {
    double value = 0;
    if (*dtype == DataType::Float(32)) {
      float single = 0;
      auto [stop, error] = std::from_chars(first, last, single);
      if (stop != last || error == std::errc::invalid_argument) FailAt(at, StrCat("'", text, "' isn't a number"));
      value = single;
    } else {
      auto [stop, error] = std::from_chars(first, last, value);
      if (stop != last || error == std::errc::invalid_argument) FailAt(at, StrCat("'", text, "' isn't a number"));
    }
    return FloatImm(dtype->is_floating() ? *dtype : DataType::Float(32), value);
  }
  int64_t value = 0;
  auto [stop, error] = std::from_chars(first, last, value);
  if (stop != last || error != std::errc()) FailAt(at, StrCat("'", text, "' isn't an integer of 64 bits"));
  return Checked(at, [&]() -> PrimExpr { return IntImm(*dtype, value); });
}

PrimExpr ExprParser::CallOf() {
  const size_t at = Here();
  Expect("@");
  RelayExpr op;
  if (Accept("%")) {
    op = GlobalVar(Name());
  } else {
    const size_t name_at = Here();
    std::string name = Name();
    op = Op::Find(name);
    if (!op.defined() || name.rfind("tir.", 0) != 0) FailAt(name_at, StrCat("there is no intrinsic '", name, "'"));
  }
  Expect("(");
  Array<PrimExpr> args;
  while (!(IsWord("dtype") && Peek(1).text == "=")) {
    args.push_back(Expr());
    Expect(",");
  }
  ExpectWord("dtype");
  Expect("=");
  DataType dtype = ParseDType();
  Expect(")");
  return Checked(at, [&]() -> PrimExpr { return Call(dtype, op, args); });
}

PrimExpr ExprParser::Named() {
  const size_t at = Here();
  const bool call = Peek(1).kind == TokenKind::kSymbol && Peek(1).text == "(";
  std::string name = Peek().text;
  auto known = names_.find(name);
  if (known == names_.end()) {
    if (name == "True" || name == "False") {
      lexer_.Next();
      return make_bool(name == "True");
    }
    if (name.rfind("inf", 0) == 0 || name.rfind("nan", 0) == 0) return Number(false);
    if (call) {
      lexer_.Next();
      return Function(name, at);
    }
    lexer_.Next();
    if (!Accept(":")) FailAt(at, StrCat("'", name, "' isn't defined"));
    return NewVar(name, ParseType());
  }
  if (known->second.as<BufferNode>() || (Peek(1).kind == TokenKind::kSymbol && Peek(1).text == "[")) {
    Buffer buffer = KnownBuffer();
    Array<PrimExpr> indices = Indices(buffer, at);
    return Checked(at, [&]() -> PrimExpr { return BufferLoad(buffer, indices); });
  }
  lexer_.Next();
  return Downcast<Var>(known->second);
}

PrimExpr ExprParser::Function(const std::string& name, size_t at) {
  Expect("(");
  PrimExpr result{ObjectPtr<Object>()};
  if (name == "cast") {
    DataType dtype = ParseDType();
    Expect(",");
    PrimExpr value = Expr();
    result = Checked(at, [&]() -> PrimExpr { return Cast(dtype, value); });
  } else if (name == "select") {
    PrimExpr condition = Expr();
    Expect(",");
    PrimExpr yes = Expr();
    Expect(",");
    PrimExpr no = Expr();
    result = Checked(at, [&]() -> PrimExpr { return Select(condition, yes, no); });
  } else if (name == "ramp" || name == "broadcast") {
    PrimExpr base = Expr(), stride{ObjectPtr<Object>()};
    Expect(",");
    if (name == "ramp") {
      stride = Expr();
      Expect(",");
    }
    const size_t lanes_at = Here();
    const int64_t lanes = Integer();
    if (lanes < 1 || lanes > 65535) FailAt(lanes_at, StrCat("a vector can't have ", lanes, " lanes"));
    result = Checked(at, [&]() -> PrimExpr {
      if (name == "ramp") return Ramp(base, stride, static_cast<int>(lanes));
      return Broadcast(base, static_cast<int>(lanes));
    });
  } else if (name == "shuffle") {
    Array<PrimExpr> vectors = List();
    Expect(",");
    Array<PrimExpr> indices = List();
    if (vectors.empty() || indices.empty()) FailAt(at, "shuffle needs vectors and indices");
    result = Checked(at, [&]() -> PrimExpr { return Shuffle(vectors, indices); });
  } else {
    for (const Operator& op : kFunctions) {
      if (name != op.symbol) continue;
      PrimExpr a = Expr();
      Expect(",");
      PrimExpr b = Expr();
      result = Checked(at, [&] { return op.make(a, b); });
    }
    if (!result.defined()) FailAt(at, StrCat("there is no function '", name, "'; intrinsics are written @tir.", name));
  }
  Expect(")");
  return result;
}

Array<PrimExpr> ExprParser::List() {
  Expect("[");
  Array<PrimExpr> items;
  while (!Accept("]")) {
    if (!items.empty()) Expect(",");
    items.push_back(Expr());
  }
  return items;
}

Array<PrimExpr> ExprParser::Indices(const Buffer& buffer, size_t at) {
  Array<PrimExpr> indices = List();
  if (indices.size() != buffer->shape.size()) {
    FailAt(at, StrCat("buffer ", buffer->name, " has ", buffer->shape.size(), " dimensions but is indexed with ",
                      indices.size(), " indices"));
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].dtype().is_integral()) {
      FailAt(at, StrCat("index ", i, " of buffer ", buffer->name, " has dtype ", indices[i].dtype()));
    }
  }
  return indices;
}

// ---- Values of attributes ----

ObjectRef ExprParser::Value() {
  Deeper deeper(this);
  return WithEnoughStack([&]() -> ObjectRef {
    if (Peek().kind == TokenKind::kString) return treadle::String(lexer_.Next().text);
    if (AcceptWord("null")) return ObjectRef();
    if (Peek(1).kind == TokenKind::kString && (IsWord("imm") || IsWord("json"))) {
      const size_t at = Here();
      const bool json = lexer_.Next().text == "json";
      std::string text = String();
      if (!json) return StringImm(text);
      return Checked(at, [&] { return LoadJson(text); });
    }
    if (IsSymbol("{")) return ParseMap();
    if (!Accept("[")) return Expr();
    Array<ObjectRef> items;
    while (!Accept("]")) {
      if (!items.empty()) Expect(",");
      items.push_back(Value());
    }
    return items;
  });
}

Map<treadle::String, ObjectRef> ExprParser::ParseMap() {
  Expect("{");
  Map<treadle::String, ObjectRef> map;
  while (!Accept("}")) {
    if (!map.empty()) Expect(",");
    std::string key = String();
    Expect(":");
    map.Set(key, Value());
  }
  return map;
}

Map<treadle::String, ObjectRef> ExprParser::Annotations() {
  if (!AcceptWord("annotations")) return {};
  return ParseMap();
}

}  // namespace treadle::tir::text
