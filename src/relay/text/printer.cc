// SPDX-License-Identifier: Apache-2.0
#include "relay/text/printer.h"

#include <algorithm>
#include <cctype>

#include "relay/text/literal.h"
#include "treadle/ir/prim_expr.h"

namespace treadle::relay {
namespace {

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsDataFlow(const Expr& expr) {
  return expr->IsInstance<CallNode>() || expr->IsInstance<TupleNode>() || expr->IsInstance<TupleGetItemNode>();
}

/// Whether `type` has fewer than `limit` parts, shared ones counted each time.
bool HasFewerParts(const Type& type, int64_t limit) {
  if (type->IsInstance<TensorTypeNode>()) return true;
  std::vector<Type> stack{type};
  while (!stack.empty() && --limit > 0) {
    const Type part = std::move(stack.back());
    stack.pop_back();
    if (const auto* tuple = part.as<TupleTypeNode>()) {
      stack.insert(stack.end(), tuple->fields.begin(), tuple->fields.end());
    } else if (const auto* func = part.as<FuncTypeNode>()) {
      stack.insert(stack.end(), func->arg_types.begin(), func->arg_types.end());
      stack.push_back(func->ret_type);
    } else if (const auto* call = part.as<TypeCallNode>()) {
      stack.insert(stack.end(), call->args.begin(), call->args.end());
    } else if (const auto* ref = part.as<RelayRefTypeNode>()) {
      stack.push_back(ref->value);
    }
  }
  return stack.empty();
}

bool AlwaysInline(const Expr& expr) {
  return expr->IsInstance<GlobalVarNode>() || expr->IsInstance<ConstantNode>() || expr->IsInstance<OpNode>() ||
         expr->IsInstance<VarNode>() || expr->IsInstance<ConstructorNode>();
}

}  // namespace

std::string NameTable::Unique(const std::string& hint) {
  std::string name = hint;
  auto it = used_.find(hint);
  if (it != used_.end()) {
    do {
      name = hint + std::to_string(++it->second);
    } while (used_.count(name) != 0);
  }
  used_.emplace(name, 0);
  return name;
}

std::string NameTable::UniqueInScope(const std::string& hint) {
  int& count = counts_[hint];
  Scoped scoped{hint, hint, count};
  do {
    scoped.name = count == 0 ? hint : hint + std::to_string(count);
    ++count;
  } while (used_.count(scoped.name) != 0);
  used_.emplace(scoped.name, 0);
  scoped_.push_back(scoped);
  return scoped.name;
}

void NameTable::Release() {
  used_.erase(scoped_.back().name);
  counts_[scoped_.back().hint] = scoped_.back().count;
  scoped_.pop_back();
}

bool IsPlainName(const std::string& name) {
  if (name.empty() || !(IsLetter(name[0]) || name[0] == '_')) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    if (IsNameChar(name[i])) continue;
    if ((name[i] != '.' && name[i] != '/') || i + 1 == name.size() || !IsNameChar(name[i + 1])) return false;
  }
  return true;
}

std::string NameText(const std::string& name) { return IsPlainName(name) ? name : Quote(name); }

namespace {

std::string TypeVarHint(const TypeVarNode* var) {
  std::string hint = var->name_hint;
  if (hint.empty() || !IsLetter(hint[0])) hint = "t" + hint;
  return IsPlainName(hint) && hint.find_first_of("./") == std::string::npos ? hint : "t";
}

}  // namespace

TextPrinter::TextPrinter(const TextOptions& options) : options_(options), scopes_(1) {
  type_names_.type_var = [this](const TypeVarNode* var) -> std::string {
    auto it = var_names_.find(var);
    if (it != var_names_.end()) return it->second;
    return var_names_[var] = type_var_names_.Unique(TypeVarHint(var));
  };
  type_names_.open = [this](const Array<TypeVar>& params) { OpenTypeParams(params); };
  type_names_.close = [this](const Array<TypeVar>& params) { CloseTypeParams(params); };
  type_names_.dim_var = [this](const Object* var) -> std::string {
    auto it = dim_vars_.find(var);
    if (it != dim_vars_.end()) return it->second;
    std::string hint = static_cast<const tir::VarNode*>(var)->name_hint;
    if (!IsPlainName(hint) || hint.find_first_of("./") != std::string::npos) hint = "d";
    return dim_vars_[var] = dim_names_.Unique(hint);
  };
}

std::string TextPrinter::Join(const Strings& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i ? ", " : "") + parts[i];
  return text;
}

// References to texts that are put aside stand between two characters that no printed text contains.
constexpr char kOpenReference = '\x01', kCloseReference = '\x02';

std::string TextPrinter::PutAside(std::string text) {
  constexpr size_t kLong = 4096;
  if (text.size() < kLong) return text;
  put_aside_.push_back(std::move(text));
  return StrCat(kOpenReference, put_aside_.size() - 1, kCloseReference);
}

std::string TextPrinter::Finish(const std::string& text) const {
  std::string result;
  std::vector<std::pair<const std::string*, size_t>> stack{{&text, 0}};
  while (!stack.empty()) {
    auto& [part, at] = stack.back();
    const size_t open = part->find(kOpenReference, at);
    result.append(*part, at, open == std::string::npos ? open : open - at);
    if (open == std::string::npos) {
      stack.pop_back();
      continue;
    }
    const size_t close = part->find(kCloseReference, open);
    TREADLE_ICHECK(close != std::string::npos) << "reference that doesn't end in a printed text";
    at = close + 1;
    const size_t index = std::stoul(part->substr(open + 1, close - open - 1));
    stack.emplace_back(&put_aside_.at(index), 0);
  }
  return result;
}

std::string TextPrinter::PrintType(const Type& type) { return TypeText(type, type_names_); }

// Names

void TextPrinter::OpenTypeParams(const Array<TypeVar>& params) {
  for (const TypeVar& param : params) {
    auto it = var_names_.find(param.get());
    hidden_type_vars_.emplace_back(param.get(), it == var_names_.end() ? "" : it->second);
    var_names_[param.get()] = type_var_names_.UniqueInScope(TypeVarHint(param.get()));
  }
}

void TextPrinter::CloseTypeParams(const Array<TypeVar>& params) {
  for (size_t i = 0; i < params.size(); ++i) {
    auto [param, name] = std::move(hidden_type_vars_.back());
    hidden_type_vars_.pop_back();
    type_var_names_.Release();
    if (name.empty()) {
      var_names_.erase(param);
    } else {
      var_names_[param] = name;
    }
  }
}

const std::string& TextPrinter::NameOf(const VarNode* var) {
  auto it = var_names_.find(var->vid.get());
  if (it != var_names_.end()) return it->second;
  std::string hint = var->name_hint();
  if (hint.empty() || !IsLetter(hint[0])) hint = "v" + hint;
  // A name such as "a.0" would read as a projection of "%a".
  bool looks_projected = false;
  for (size_t i = 1; i + 1 < hint.size(); ++i) {
    if (hint[i] != '.' || std::isdigit(static_cast<unsigned char>(hint[i + 1])) == 0) continue;
    looks_projected |= names_.Contains(hint.substr(0, i));
    names_.Reserve(hint.substr(0, i));
  }
  std::string name = names_.Unique(hint);
  return var_names_[var->vid.get()] = "%" + (looks_projected ? Quote(name) : NameText(name));
}

void TextPrinter::NameParams(const Expr& root) {
  // Parameters are named callee first, before anything is printed.
  std::unordered_set<const Object*> seen;
  std::vector<Expr> stack{root}, children;
  while (!stack.empty()) {
    Expr expr = std::move(stack.back());
    stack.pop_back();
    if (!seen.insert(expr.get()).second) continue;
    if (const auto* func = expr.as<FunctionNode>()) {
      for (const Var& param : func->params) NameOf(param.get());
      stack.push_back(func->body);
      continue;
    }
    children.clear();
    CollectChildren(expr, &children);
    stack.insert(stack.end(), children.rbegin(), children.rend());
  }
}

void TextPrinter::CountUses(const Expr& root) {
  std::vector<Expr> children;
  PostOrderVisit(root, [&](const Expr& expr) {
    children.clear();
    CollectChildren(expr, &children);
    for (const Expr& child : children) ++uses_[child.get()];
  });
}

std::string TextPrinter::Binding(const Var& var) {
  std::string text = NameOf(var.get());
  if (var->type_annotation.defined()) text += ": " + PrintType(var->type_annotation);
  return text + OptionalInfo(var);
}

void TextPrinter::FreeVarLines(const Expr& expr) {
  for (const Var& var : FreeVars(expr)) scopes_.back() += "free_var " + Binding(var) + ";" + NewLine();
}

// Expressions

std::string TextPrinter::Print(const Expr& expr, bool try_inline) {
  TREADLE_ICHECK(expr.defined()) << "null expression can't be printed";
  if (const auto* var = expr.as<VarNode>()) return NameOf(var);
  auto it = memo_.find(expr.get());
  if (it != memo_.end()) return it->second;
  return WithEnoughStack([&] { return IsDataFlow(expr) ? PrintDataFlow(expr, try_inline) : Emit(expr, try_inline); });
}

std::string TextPrinter::PrintDataFlow(const Expr& root, bool try_inline) {
  // The order of lines is TVM's: what all operands of a node need comes first, then the operands.
  struct Frame {
    std::vector<Expr> children;
    size_t next = 0;
  };
  std::vector<Frame> stack;
  auto prepare = [&](const Expr& expr) {
    if (!prepared_.insert(expr.get()).second) return;
    Frame frame;
    CollectChildren(expr, &frame.children);
    // Arguments get their lines before the callee does.
    if (expr->IsInstance<CallNode>())
      std::rotate(frame.children.begin(), frame.children.begin() + 1, frame.children.end());
    stack.push_back(std::move(frame));
  };
  prepare(root);
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.children.size()) {
      Expr child = top.children[top.next++];
      if (IsDataFlow(child) && memo_.count(child.get()) == 0) prepare(child);
      continue;
    }
    std::vector<Expr> children = std::move(top.children);
    stack.pop_back();
    for (const Expr& child : children) {
      if (!IsDataFlow(child)) {
        Print(child);
      } else if (memo_.count(child.get()) == 0) {
        Emit(child, false);
      }
    }
  }
  return Emit(root, try_inline);
}

std::string TextPrinter::Emit(const Expr& expr, bool try_inline) {
  bool inline_expr = AlwaysInline(expr) || (try_inline && uses_[expr.get()] <= 1);
  std::string text;
  if (!inline_expr && expr->IsInstance<LetNode>()) {
    indent_ += 2;
    text = "(" + NewLine();
    scopes_.emplace_back();
    std::string chain = PrintLet(static_cast<const LetNode*>(expr.get()));
    text += scopes_.back() + chain;
    scopes_.pop_back();
    indent_ -= 2;
    text = PutAside(text + NewLine() + ")");
  } else {
    text = PrintKind(expr);
  }
  text += OptionalInfo(expr);
  if (inline_expr) return memo_[expr.get()] = text;
  std::string name = "%" + std::to_string(next_temp_++);
  scopes_.back() += name + " = " + text + ";" + NewLine();
  return memo_[expr.get()] = name;
}

std::string TextPrinter::PrintKind(const Expr& expr) {
  if (const auto* call = expr.as<CallNode>()) return PrintCall(call);
  if (const auto* tuple = expr.as<TupleNode>()) {
    Strings fields;
    for (const Expr& field : tuple->fields) fields.push_back(Print(field));
    return "(" + Join(fields) + (fields.size() == 1 ? ",)" : ")");
  }
  if (const auto* item = expr.as<TupleGetItemNode>()) {
    std::string tuple = Print(item->tuple);
    // Names may have dots in them.
    const bool is_name =
        item->tuple.as<OpNode>() || item->tuple.as<GlobalVarNode>() || item->tuple.as<ConstructorNode>();
    return (is_name ? "(" + tuple + ")" : tuple) + "." + std::to_string(item->index);
  }
  if (const auto* constant = expr.as<ConstantNode>()) return PrintConstant(constant);
  if (const auto* op = expr.as<OpNode>()) return op->name;
  if (const auto* global = expr.as<GlobalVarNode>()) return "@" + NameText(global->name_hint);
  if (const auto* constructor = expr.as<ConstructorNode>()) return constructor->name_hint;
  if (const auto* func = expr.as<FunctionNode>()) return PrintFunction("fn ", func);
  if (const auto* let = expr.as<LetNode>()) return PrintLet(let);
  if (const auto* branch = expr.as<IfNode>()) {
    std::string text = "if (" + Print(branch->cond) + ") " + PrintBody(branch->true_branch);
    return text + " else " + PrintBody(branch->false_branch);
  }
  if (const auto* match = expr.as<MatchNode>()) return PrintMatch(match);
  if (const auto* create = expr.as<RefCreateNode>()) return "ref(" + Print(create->value) + ")";
  if (const auto* read = expr.as<RefReadNode>()) return "ref_read(" + Print(read->ref) + ")";
  if (const auto* write = expr.as<RefWriteNode>()) {
    std::string ref = Print(write->ref);
    return "ref_write(" + ref + ", " + Print(write->value) + ")";
  }
  if (const auto* temp = expr.as<TempExprNode>()) return Print(temp->Realize());
  return "<" + expr->type_key() + ">";
}

std::string TextPrinter::PrintCall(const CallNode* call) {
  Strings args;
  for (const Expr& arg : call->args) args.push_back(Print(arg));
  const auto* op = call->op.as<OpNode>();
  if (call->attrs.defined()) {
    for (std::string& attr : AttrList(call->attrs, op)) args.push_back(std::move(attr));
  }
  const auto* constructor = call->op.as<ConstructorNode>();
  std::string callee = Print(call->op);
  if (constructor != nullptr && constructor->inputs.empty() && args.empty()) return callee;
  return callee + "(" + Join(args) + ")" + SpanComment(call->span);
}

std::string TextPrinter::SpanComment(const Span& span) {
  // Only spans that name a node of an imported model: places in a text are those of the text printed here.
  if (!span.defined() || span->line != 0 || span->source_name.empty()) return "";
  const std::string& name = span->source_name;
  bool safe = name.compare(0, 3, "ty=") != 0 && name.find("*/") == std::string::npos &&
              name.find("/*") == std::string::npos && name.front() != ' ' && name.back() != ' ';
  for (char c : name) safe &= static_cast<unsigned char>(c) >= ' ';
  return safe ? " /* " + name + " */" : "";
}

std::string TextPrinter::OptionalInfo(const Expr& expr) {
  if (options_.annotate) return options_.annotate(expr);
  if (!options_.show_types || !expr->checked_type_.defined()) return "";
  if (!HasFewerParts(expr->checked_type_, kMaxTypeParts)) return "";  // the text would be far longer than the program
  bool is_name = expr->IsInstance<OpNode>() || expr->IsInstance<GlobalVarNode>() ||
                 expr->IsInstance<ConstructorNode>() || expr->IsInstance<LetNode>();
  return is_name ? "" : " /* ty=" + PrintType(expr->checked_type_) + " */";
}

std::string TextPrinter::PrintFunction(const std::string& prefix, const FunctionNode* func) {
  std::string text = prefix;
  Strings parts;
  OpenTypeParams(func->type_params);
  for (const TypeVar& var : func->type_params) parts.push_back(PrintType(var));
  if (!parts.empty()) text += "[" + Join(parts) + "]";
  parts.clear();
  for (const Var& param : func->params) parts.push_back(Binding(param));
  for (std::string& attr : DictList(func->attrs->dict)) parts.push_back(std::move(attr));
  text += "(" + Join(parts) + ") ";
  if (func->ret_type.defined()) text += "-> " + PrintType(func->ret_type) + " ";
  text += PrintBody(func->body);
  CloseTypeParams(func->type_params);
  return text;
}

std::string TextPrinter::PrintScope(const Expr& expr) {
  scopes_.emplace_back();
  std::string tail = Print(expr, true);
  std::string text = std::move(scopes_.back()) + tail;
  scopes_.pop_back();
  return text;
}

std::string TextPrinter::PrintBody(const Expr& expr) {
  indent_ += 2;
  std::string text = "{" + NewLine() + PrintScope(expr);
  indent_ -= 2;
  return PutAside(text + NewLine() + "}");
}

std::string TextPrinter::PrintLet(const LetNode* let) {
  // A chain is one loop. Lines that a value needs come before its let: the first one's in the enclosing scope, the
  // others' in a scope of their own.
  std::string text;
  bool opened = false;
  Expr body;
  while (true) {
    std::string binding = Binding(let->var);
    // A let in the place of a value goes into a line of its own, in parentheses.
    std::string value = Print(let->value, !let->value->IsInstance<LetNode>());
    if (opened) {
      text += scopes_.back();
      scopes_.back().clear();
    } else {
      scopes_.emplace_back();
      opened = true;
    }
    text += "let " + binding + " = " + value + ";" + NewLine();
    body = let->body;
    const auto* next = body.as<LetNode>();
    if (next == nullptr || uses_[next] > 1 || memo_.count(next) != 0) break;
    let = next;
  }
  std::string tail = Print(body, true);
  text += scopes_.back() + tail;
  scopes_.pop_back();
  return text;
}

std::string TextPrinter::PrintMatch(const MatchNode* match) {
  std::string text = match->complete ? "match (" : "match? (";
  text += Print(match->data) + ") {";
  indent_ += 2;
  for (const Clause& clause : match->clauses) {
    std::string pattern = PrintPattern(clause->lhs);
    text += NewLine() + pattern + " => " + PrintBody(clause->rhs) + ",";
  }
  indent_ -= 2;
  return text + NewLine() + "}";
}

std::string TextPrinter::PrintPattern(const Pattern& pattern) {
  return WithEnoughStack([&]() -> std::string {
    if (const auto* var = pattern.as<PatternVarNode>()) return Binding(var->var);
    Strings parts;
    if (const auto* constructor = pattern.as<PatternConstructorNode>()) {
      for (const Pattern& p : constructor->patterns) parts.push_back(PrintPattern(p));
      const std::string& name = constructor->constructor->name_hint;
      return parts.empty() ? name : PutAside(name + "(" + Join(parts) + ")");
    }
    if (const auto* tuple = pattern.as<PatternTupleNode>()) {
      for (const Pattern& p : tuple->patterns) parts.push_back(PrintPattern(p));
      return PutAside("(" + Join(parts) + (parts.size() == 1 ? ",)" : ")"));
    }
    return "_";
  });
}

std::string TextPrinter::PrintConstant(const ConstantNode* constant) {
  if (auto literal = LiteralOf(constant->data)) return *literal;
  auto it = meta_refs_.find(constant);
  if (it != meta_refs_.end()) return it->second;
  // The place and type of this constant aren't part of the metadata.
  std::string ref = Meta(Constant(constant->data));
  meta_refs_[constant] = ref;
  return ref;
}

// Roots

std::string TextPrinter::PrintRootExpr(const Expr& expr) {
  CountUses(expr);
  NameParams(expr);
  scopes_.emplace_back();
  FreeVarLines(expr);
  std::string tail = Print(expr, true);
  std::string text = std::move(scopes_.back()) + tail;
  scopes_.pop_back();
  return text;
}

std::string TextPrinter::PrintTypeData(const TypeData& data) {
  std::string text = data->constructors.empty() ? "extern type " : "type ";
  text += data->header->name_hint;
  Strings vars;
  OpenTypeParams(data->type_vars);
  for (const TypeVar& var : data->type_vars) vars.push_back(PrintType(var));
  if (!vars.empty()) text += "[" + Join(vars) + "]";
  if (!data->constructors.empty()) text += " {";
  for (const Constructor& constructor : data->constructors) {
    Strings inputs;
    for (const Type& input : constructor->inputs) inputs.push_back(PrintType(input));
    text += "\n  " + constructor->name_hint + (inputs.empty() ? "" : "(" + Join(inputs) + ")") + ",";
  }
  CloseTypeParams(data->type_vars);
  return data->constructors.empty() ? text : text + "\n}";
}

namespace {

FunctionPrinter& OtherFunctionPrinter() {
  static auto* printer = new FunctionPrinter();
  return *printer;
}

}  // namespace

void SetFunctionPrinter(FunctionPrinter printer) { OtherFunctionPrinter() = std::move(printer); }

std::string TextPrinter::PrintModule(const IRModule& module) {
  std::string text;
  auto begin_item = [&] {
    if (!text.empty()) text += "\n";
  };
  if (!module->attrs->dict.empty()) {
    text += "attributes {";
    for (const std::string& attr : DictList(module->attrs->dict)) text += "\n  " + attr + ",";
    text += "\n}\n";
  }
  for (const auto& [var, data] : module->type_definitions) {
    begin_item();
    text += PrintTypeData(data) + "\n";
  }
  for (const auto& [var, func] : module->functions) {
    begin_item();
    const auto* relay_func = func.as<FunctionNode>();
    if (relay_func == nullptr) {
      const FunctionPrinter& other = OtherFunctionPrinter();
      text += other ? other(var, func) : "/* def @" + NameText(var->name_hint) + ": " + func->type_key() + " */";
      text += "\n";
      continue;
    }
    memo_.clear();
    uses_.clear();
    prepared_.clear();
    dim_vars_.clear();
    dim_names_ = NameTable();
    CountUses(func);
    NameParams(func);
    text += PrintFunction("def @" + NameText(var->name_hint), relay_func) + "\n";
  }
  return text;
}

std::string AsText(const ObjectRef& node, const TextOptions& options) {
  if (!node.defined()) return "(nullptr)";
  TextPrinter printer(options);
  std::string text = options.show_version ? "#[version = \"0.0.5\"]\n" : "";
  if (node->IsInstance<IRModuleNode>()) {
    text += printer.PrintModule(Downcast<IRModule>(node));
  } else if (node->IsInstance<RelayExprNode>()) {
    text += printer.PrintRootExpr(Downcast<Expr>(node));
  } else if (node->IsInstance<TypeNode>()) {
    text += printer.PrintType(Downcast<Type>(node));
  } else if (node->IsInstance<PatternNode>()) {
    text += printer.PrintPattern(Downcast<Pattern>(node));
  } else if (node->IsInstance<AttrsNode>()) {
    text += printer.PrintAttrs(Downcast<Attrs>(node));
  } else {
    throw Error(StrCat("objects of class ", node->type_key(), " have no text form"));
  }
  text = printer.Finish(text);
  std::string meta = printer.MetaSection();
  if (meta.empty()) return text;
  if (options.show_meta_data) return text + "\n#[metadata]\n" + meta;
  return text +
         "\n/* The metadata section is left out: show_meta_data=True prints the constants that stand in it. */\n";
}

std::string AsText(const ObjectRef& node, bool show_meta_data) {
  TextOptions options;
  options.show_meta_data = show_meta_data;
  return AsText(node, options);
}

std::string PrettyPrint(const ObjectRef& node) {
  TextOptions options;
  options.show_meta_data = false;
  options.show_version = false;
  return AsText(node, options);
}

}  // namespace treadle::relay
