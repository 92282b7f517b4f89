// SPDX-License-Identifier: Apache-2.0
// Attributes and metadata.
#include <limits>

#include "relay/node_check.h"
#include "relay/text/literal.h"
#include "relay/text/parser_list.h"
#include "treadle/base/stack_guard.h"
#include "treadle/ir/serialization.h"
#include "treadle/relay/text.h"

namespace treadle::relay {

bool Parser::AtAttribute() {
  const Token& token = Peek();
  return (token.kind == TokenKind::kIdent || token.kind == TokenKind::kString) && Peek(1).Is("=");
}

std::pair<std::string, Token> Parser::ParseAttributeKey() {
  Token key = Next();
  if (key.kind != TokenKind::kIdent && key.kind != TokenKind::kString) {
    Fail(key, "expected the name of an attribute but found " + Describe(key));
  }
  std::string name = key.text;
  Expect("=", "after the name of an attribute");
  return {name, key};
}

Attrs Parser::ParseOpAttributes(const OpNode* op) {
  if (op->attrs_type == nullptr || op->attrs_type->create == nullptr) {
    Fail(Peek(), StrCat("operator ", op->name, " takes no attributes"));
  }
  if (op->attrs_type == DictAttrsNode::StaticTypeInfo()) return ParseOtherAttributes();
  return ParseTypedAttributes(op->attrs_type, op->name);
}

Attrs Parser::ParseTypedAttributes(const TypeInfo* info, const std::string& owner) {
  ObjectPtr<Object> attrs(info->create());
  std::vector<bool> given(info->fields.size(), false);
  Place begin = Peek().begin;
  ParseList(")", "after an attribute", [&] {
    auto [name, key] = ParseAttributeKey();
    if (name == "attrs_type_key") {
      Next();
      return;
    }
    for (size_t i = 0; i < info->fields.size(); ++i) {
      if (info->fields[i].name != name) continue;
      if (given[i]) Fail(key, StrCat("attribute ", name, " is given twice"));
      given[i] = true;
      ParseField(info->fields[i], attrs.get(), key);
      return;
    }
    std::string known;
    for (const FieldInfo& field : info->fields) known += (known.empty() ? "" : ", ") + field.name;
    Fail(key, StrCat(owner, " has no attribute '", name, "'; it has: ", known.empty() ? "none" : known));
  });
  for (size_t i = 0; i < info->fields.size(); ++i) {
    if (MustBeGiven(info->fields[i], owner) && !given[i]) {
      FailAt(begin, lexer_.last_end(), StrCat(owner, " needs the attribute ", info->fields[i].name));
    }
  }
  return Attrs(attrs);
}

Attrs Parser::ParseOtherAttributes() {
  // The class is named by the last attribute, so what stands before is read twice: first to find it.
  Lexer saved = lexer_;
  std::string type_key;
  for (int depth = 0; depth >= 0;) {
    Token token = Next();
    if (token.kind == TokenKind::kEnd) break;
    if (token.Is("(") || token.Is("[") || token.Is("{")) ++depth;
    if (token.Is(")") || token.Is("]") || token.Is("}")) --depth;
    if (depth == 0 && token.IsIdent("attrs_type_key") && Peek().Is("=") && Peek(1).kind == TokenKind::kString) {
      type_key = Peek(1).text;
    }
  }
  lexer_ = saved;
  if (!type_key.empty() && type_key != DictAttrsNode::kTypeKey) {
    const TypeInfo* info = TypeInfo::Find(type_key);
    if (info == nullptr || info->create == nullptr || !info->IsA(AttrsNode::StaticTypeInfo())) {
      Fail(Peek(), StrCat("unknown class of attributes '", type_key, "'"));
    }
    return ParseTypedAttributes(info, type_key);
  }
  Map<String, ObjectRef> dict;
  ParseList(")", "after an attribute", [&] {
    auto key = ParseAttributeKey();
    ObjectRef value = ParseAttrValue();
    if (key.first != "attrs_type_key") SetAttribute(&dict, key, value);
  });
  return DictAttrs(dict);
}

void Parser::SetAttribute(Map<String, ObjectRef>* dict, const std::pair<std::string, Token>& key,
                          const ObjectRef& value) const {
  if (dict->contains(key.first)) Fail(key.second, StrCat("attribute ", key.first, " is given twice"));
  dict->Set(key.first, value);
}

int64_t Parser::ParseInt(const char* what) {
  bool negative = Accept("-");
  Token token = Next();
  if (token.kind == TokenKind::kIdent && (token.text == "True" || token.text == "False") && !negative) {
    return token.text == "True";
  }
  if (token.kind != TokenKind::kNumber) Fail(token, StrCat("expected ", what, " but found ", Describe(token)));
  auto suffix = DTypeOfSuffix(token.suffix);
  bool bad_suffix = !token.suffix.empty() && (!suffix || !suffix->is_integral());
  try {
    if (bad_suffix) throw ModelFormatError("not an integer");
    NDArray value = ScalarFromText((negative ? "-" : "") + token.text, DataType::Int(64));
    return *value.Data<int64_t>();
  } catch (const Error&) {
    Fail(token, StrCat("expected ", what, " but found ", Describe(token)));
  }
}

double Parser::ParseDouble(const char* what) {
  bool negative = Accept("-");
  Token token = Next();
  std::string digits = token.text;
  if (token.kind == TokenKind::kIdent && (digits.compare(0, 3, "inf") == 0 || digits.compare(0, 3, "nan") == 0)) {
    digits.resize(3);
  } else if (token.kind != TokenKind::kNumber) {
    Fail(token, StrCat("expected ", what, " but found ", Describe(token)));
  }
  try {
    NDArray value = ScalarFromText((negative ? "-" : "") + digits, DataType::Float(64));
    return *value.Data<double>();
  } catch (const Error& error) {
    Fail(token, error.what());
  }
}

void Parser::CheckRange(const FieldInfo& field, double value, const Token& key) const {
  if (field.lower && value < *field.lower) {
    Fail(key, StrCat("attribute ", field.name, " must be at least ", *field.lower, " but is ", value));
  }
  if (field.upper && value > *field.upper) {
    Fail(key, StrCat("attribute ", field.name, " must be at most ", *field.upper, " but is ", value));
  }
}

void Parser::ParseListOfDims(Array<ObjectRef>* items) {
  const char* close = Next().text == "[" ? "]" : ")";
  ParseList(close, "after a number", [&] {
    if (Peek().Is("[") || Peek().Is("(")) {
      Array<ObjectRef> inner;
      WithEnoughStack([&] { ParseListOfDims(&inner); });
      items->push_back(inner);
    } else {
      items->push_back(ParseDim());
    }
  });
}

std::vector<int64_t> Parser::ParseFieldInts(const FieldInfo& field, const Token& key) {
  std::vector<int64_t> values;
  if (Accept("(")) {
    ParseList(")", "after a number", [&] { values.push_back(ParseInt("an integer")); });
  } else if (Peek().Is("[")) {
    Next();
    ParseList("]", "after a number", [&] { values.push_back(ParseInt("an integer")); });
  } else {
    Fail(Peek(), StrCat("attribute ", field.name, " is a list such as [1, 2], but found ", Describe(Peek())));
  }
  for (int64_t v : values) CheckRange(field, static_cast<double>(v), key);
  return values;
}

int64_t Parser::ParseFieldInt(const FieldInfo& field, const Token& key) {
  const int64_t value = ParseInt("an integer");
  CheckRange(field, static_cast<double>(value), key);
  return value;
}

std::string Parser::ParseFieldString() {
  Token token = Next();
  if (token.kind != TokenKind::kString && token.kind != TokenKind::kIdent) {
    Fail(token, "expected a string but found " + Describe(token));
  }
  return token.text;
}

void Parser::ParseField(const FieldInfo& field, Object* target, const Token& key) {
  switch (field.kind) {
    case FieldKind::kBool:
      field.GetMutable<bool>(target) = ParseInt("True or False") != 0;
      return;
    case FieldKind::kInt32: {
      int64_t value = ParseFieldInt(field, key);
      if (value != static_cast<int>(value)) Fail(key, StrCat("attribute ", field.name, " doesn't fit into int32"));
      field.GetMutable<int>(target) = static_cast<int>(value);
      return;
    }
    case FieldKind::kInt64:
      field.GetMutable<int64_t>(target) = ParseFieldInt(field, key);
      return;
    case FieldKind::kDouble: {
      double value = ParseDouble("a number");
      CheckRange(field, value, key);
      field.GetMutable<double>(target) = value;
      return;
    }
    case FieldKind::kString:
      field.GetMutable<std::string>(target) = ParseFieldString();
      return;
    case FieldKind::kDataType: {
      std::string text = ParseFieldString();
      try {
        field.GetMutable<DataType>(target) = text.empty() ? DataType() : DataType::FromString(text);
      } catch (const Error& error) {
        Fail(key, error.what());
      }
      return;
    }
    case FieldKind::kInt64s:
      field.GetMutable<std::vector<int64_t>>(target) = ParseFieldInts(field, key);
      return;
    case FieldKind::kOptInt64s: {
      auto& slot = field.GetMutable<std::optional<std::vector<int64_t>>>(target);
      slot.reset();
      if (!AcceptWord("None")) slot = ParseFieldInts(field, key);
      return;
    }
    case FieldKind::kOptInt64: {
      auto& slot = field.GetMutable<std::optional<int64_t>>(target);
      slot.reset();
      if (!AcceptWord("None")) slot = ParseFieldInt(field, key);
      return;
    }
    case FieldKind::kOptDouble: {
      auto& slot = field.GetMutable<std::optional<double>>(target);
      slot.reset();
      if (!AcceptWord("None")) slot = ParseDouble("a number");
      return;
    }
    case FieldKind::kDoubles: {
      std::vector<double> values;
      Expect("[", "before a list of numbers");
      ParseList("]", "after a number", [&] { values.push_back(ParseDouble("a number")); });
      field.GetMutable<std::vector<double>>(target) = values;
      return;
    }
    case FieldKind::kStrings: {
      std::vector<std::string> values;
      Expect("[", "before a list of strings");
      ParseList("]", "after a string", [&] { values.push_back(ParseFieldString()); });
      field.GetMutable<std::vector<std::string>>(target) = values;
      return;
    }
    case FieldKind::kObject:
      return ParseObjectField(field, target, key);
  }
}

// Lists in attributes of operators are lists of dimensions, maybe nested; single objects may be of any kind that the
// operator checks.
void Parser::ParseObjectField(const FieldInfo& field, Object* target, const Token& key) {
  ObjectRef& slot = field.GetMutable<ObjectRef>(target);
  if (slot.as<ArrayNode>() == nullptr) {
    const Token& token = Peek();
    if (token.kind == TokenKind::kNumber || token.Is("-")) {
      slot = ParseDim();
    } else if (token.Is("[") || token.Is("(")) {
      Array<ObjectRef> items;
      ParseListOfDims(&items);
      slot = items;
    } else {
      slot = ParseAttrValue();
    }
    return;
  }
  if (!Peek().Is("[") && !Peek().Is("(")) {
    Fail(Peek(), StrCat("attribute ", field.name, " is a list such as [1, 2], but found ", Describe(Peek())));
  }
  Array<ObjectRef> items;
  ParseListOfDims(&items);
  bool nested = key.text == "pad_width" || key.text == "paddings" || key.text == "crops";
  for (const ObjectRef& item : items) {
    const auto* inner = item.as<ArrayNode>();
    bool good = (inner != nullptr) == nested;
    for (size_t i = 0; good && inner != nullptr && i < inner->items.size(); ++i) {
      good = inner->items[i].as<PrimExprNode>() != nullptr;
    }
    if (!good) Fail(key, StrCat("attribute ", field.name, " is a list of ", nested ? "lists of numbers" : "numbers"));
  }
  slot = items;
}

ObjectRef Parser::ParseAttrNumber(bool negative) {
  Token token = Next();
  std::string text = (negative ? "-" : "") + token.text;
  bool fraction = token.text.find_first_of(".eE") != std::string::npos;
  DataType dtype = fraction ? DataType::Float(32) : DataType::Int(32);
  if (!token.suffix.empty()) {
    auto known = DTypeOfSuffix(token.suffix);
    if (token.suffix == "u1") known = DataType::Bool();
    if (!known) Fail(token, StrCat("unknown suffix '", token.suffix, "' of a number"));
    dtype = *known;
  }
  try {
    if (dtype.is_floating()) {
      NDArray value = ScalarFromText(text, DataType::Float(64));
      return FloatImm(dtype, *value.Data<double>());
    }
    NDArray value = ScalarFromText(text, DataType::Int(64));
    int64_t number = *value.Data<int64_t>();
    if (token.suffix.empty() && number != static_cast<int32_t>(number)) dtype = DataType::Int(64);
    return IntImm(dtype, number);
  } catch (const Error& error) {
    Fail(token, error.what());
  }
}

ObjectRef Parser::ParseAttrValue() {
  return WithEnoughStack([&]() -> ObjectRef {
    Token token = Peek();
    if (token.kind == TokenKind::kString) return String(Next().text);
    if (token.kind == TokenKind::kNumber) return ParseAttrNumber(false);
    if (AtMeta()) return ParseMeta();
    if (AcceptWord("None")) return ObjectRef();
    if (AcceptWord("True")) return IntImm(DataType::Bool(), 1);
    if (AcceptWord("False")) return IntImm(DataType::Bool(), 0);
    bool infinite = token.kind == TokenKind::kIdent && token.text.compare(0, 3, "inf") == 0;
    if (Accept("-")) {
      if (Peek().kind == TokenKind::kNumber) return ParseAttrNumber(true);
      infinite = Peek().kind == TokenKind::kIdent && Peek().text.compare(0, 3, "inf") == 0;
      if (!infinite) Fail(Peek(), "expected a number after '-' but found " + Describe(Peek()));
    }
    if (infinite) {
      bool wide = Peek().text == "inff64";
      bool negative = token.Is("-");
      Next();
      double value = std::numeric_limits<double>::infinity();
      return FloatImm(DataType::Float(wide ? 64 : 32), negative ? -value : value);
    }
    if (token.Is("[") || token.Is("(")) {
      Next();
      Array<ObjectRef> items;
      ParseList(token.Is("[") ? "]" : ")", "after a value", [&] { items.push_back(ParseAttrValue()); });
      return items;
    }
    if (Accept("{")) {
      Map<String, ObjectRef> map;
      ParseList("}", "after an entry", [&] {
        auto key = ParseAttributeKey();
        SetAttribute(&map, key, ParseAttrValue());
      });
      return map;
    }
    if (token.kind == TokenKind::kIdent) return String(Next().text);  // such as a dtype without quotes
    Fail(token, "expected the value of an attribute but found " + Describe(token));
  });
}

// Metadata

bool Parser::AtMeta() { return Peek().IsIdent("meta") && Peek(1).Is("["); }

void Parser::ReadMetaSection() {
  RegisterNodeTypes();
  ObjectRef root = LoadJson(meta_text_);
  CheckNodes(root);
  const auto* map = root.as<MapNode>();
  if (map == nullptr) throw ModelFormatError("the root isn't a map from class to nodes");
  Map<String, ObjectRef> meta;
  for (const auto& [name, nodes] : map->items) {
    if (name.as<StringNode>() == nullptr || nodes.as<ArrayNode>() == nullptr) {
      throw ModelFormatError("the root isn't a map from class to nodes");
    }
    meta.Set(Downcast<String>(name), nodes);
  }
  meta_ = meta;
}

ObjectRef Parser::ParseMeta() {
  Token begin = Next();
  Next();
  Token key = Next();
  if (key.kind != TokenKind::kIdent) Fail(key, "expected the class of metadata but found " + Describe(key));
  Expect("]", "after the class of metadata");
  Expect("[", "before the number of the metadata");
  int64_t index = ParseInt("the number of the metadata");
  Expect("]", "after the number of the metadata");
  if (!meta_) {
    if (!meta_begin_) FailAt(begin.begin, lexer_.last_end(), "the text has no metadata section");
    try {
      ReadMetaSection();
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      Place end = *meta_begin_;
      end.column += static_cast<int>(std::string(kMetaMark).size());
      FailAt(*meta_begin_, end, StrCat("metadata section: ", error.what()));
    }
  }
  auto nodes = meta_->Get(key.text);
  const auto* list = nodes ? nodes->as<ArrayNode>() : nullptr;
  if (list == nullptr || index < 0 || static_cast<size_t>(index) >= list->items.size()) {
    FailAt(begin.begin, lexer_.last_end(), StrCat("the metadata section has no ", key.text, " number ", index));
  }
  ObjectRef node = list->items[static_cast<size_t>(index)];
  if (!node.defined()) FailAt(begin.begin, lexer_.last_end(), "this metadata is null");
  return node;
}

Constant Parser::MetaConstant(const Constant& node, const Place& begin) {
  auto found = meta_constants_.find(node.get());
  if (found != meta_constants_.end()) return found->second;
  return meta_constants_.emplace(node.get(), Constant(node->data, SpanFrom(begin))).first->second;
}

}  // namespace treadle::relay
