// SPDX-License-Identifier: Apache-2.0
// Attributes and metadata of the text form.
#include <algorithm>

#include "relay/text/literal.h"
#include "relay/text/printer.h"
#include "treadle/ir/prim_expr.h"
#include "treadle/ir/serialization.h"
#include "treadle/ir/structural.h"

namespace treadle::relay {
namespace {

template <typename T>
bool SameValue(const T& a, const T& b) {
  return a == b;
}
bool SameValue(const ObjectRef& a, const ObjectRef& b) { return StructuralEqual(a, b); }

std::string Value(bool v) { return v ? "True" : "False"; }
std::string Value(int v) { return std::to_string(v); }
std::string Value(int64_t v) { return std::to_string(v); }
std::string Value(double v) { return FloatText(v, false) + "f"; }
std::string Value(const std::string& v) { return Quote(v); }
std::string Value(const DataType& v) { return v.is_void() ? "\"\"" : Quote(v.str()); }
template <typename T>
std::string Value(const std::vector<T>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + Value(values[i]);
  return text + "]";
}
template <typename T>
std::string Value(const std::optional<T>& value) {
  return value ? Value(*value) : "None";
}

/// Whether an attribute's key prints without quotes.
std::string KeyText(const std::string& key) {
  return IsPlainName(key) && key.find('/') == std::string::npos ? key : Quote(key);
}

}  // namespace

std::string TextPrinter::Meta(const ObjectRef& node) {
  auto it = meta_refs_.find(node.get());
  if (it != meta_refs_.end()) return it->second;
  std::string key = node->type_key();
  auto group = std::find_if(meta_.begin(), meta_.end(), [&](const auto& entry) { return entry.first == key; });
  if (group == meta_.end()) group = meta_.insert(meta_.end(), {key, {}});
  std::string ref = StrCat("meta[", key, "][", group->second.size(), "]");
  group->second.push_back(node);  // also keeps the node alive, so that its address stays its own
  return meta_refs_[node.get()] = ref;
}

std::string TextPrinter::MetaSection() const {
  if (meta_.empty()) return "";
  Map<String, ObjectRef> root;
  for (const auto& [key, nodes] : meta_) root.Set(key, Array<ObjectRef>(nodes));
  return SaveJson(root, true) + "\n";
}

std::string TextPrinter::AttrValue(const ObjectRef& value) {
  if (!value.defined()) return "None";
  return WithEnoughStack([&]() -> std::string {
    if (const auto* imm = value.as<IntImmNode>()) {
      if (imm->dtype.is_bool()) return Value(imm->value != 0);
      std::string text = std::to_string(imm->value);
      if (imm->dtype == DataType::Int(32)) return text;
      return text + (imm->dtype.is_uint() ? "u" : "i") + std::to_string(imm->dtype.bits());
    }
    if (const auto* imm = value.as<FloatImmNode>()) {
      if (imm->value != imm->value) return Meta(value);
      if (imm->dtype == DataType::Float(32)) return FloatText(imm->value, true) + "f";
      if (imm->dtype == DataType::Float(64)) return FloatText(imm->value, false) + "f64";
      return Meta(value);
    }
    if (const auto* text = value.as<StringNode>()) return Quote(text->value);
    if (const auto* array = value.as<ArrayNode>()) {
      Strings items;
      for (const ObjectRef& item : array->items) items.push_back(AttrValue(item));
      return PutAside("[" + Join(items) + "]");
    }
    if (const auto* map = value.as<MapNode>()) {
      Strings items;
      for (const auto& [key, item] : map->items) {
        if (!key->IsInstance<StringNode>()) return Meta(value);
        items.push_back(AttrValue(key) + "=" + AttrValue(item));
      }
      return PutAside("{" + Join(items) + "}");
    }
    return Meta(value);
  });
}

TextPrinter::Strings TextPrinter::DictList(const Map<String, ObjectRef>& dict) {
  std::vector<std::pair<std::string, ObjectRef>> items;
  for (const auto& [key, value] : dict) items.emplace_back(key.str(), value);
  std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Strings list;
  for (const auto& [key, value] : items) list.push_back(KeyText(key) + "=" + AttrValue(value));
  return list;
}

TextPrinter::Strings TextPrinter::AttrList(const Attrs& attrs, const OpNode* op) {
  const TypeInfo* info = attrs->type_info();
  if (op != nullptr && info != op->attrs_type) return {Meta(attrs)};
  Strings list;
  if (const auto* dict = attrs.as<DictAttrsNode>()) {
    list = DictList(dict->dict);
  } else {
    ObjectPtr<Object> defaults(info->create != nullptr ? info->create() : nullptr);
    for (const FieldInfo& field : info->fields) {
      std::string text;
      VisitField(field, attrs.get(), [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if (!field.required && defaults && SameValue(value, field.Get<T>(defaults.get()))) return;
        if constexpr (std::is_same_v<T, ObjectRef>) {
          // Integers need no suffix here, and dimensions may be symbolic as in types.
          text = OpAttrValue(value);
        } else {
          text = Value(value);
        }
      });
      if (!text.empty()) list.push_back(field.name + "=" + text);
    }
  }
  if (op == nullptr) list.push_back("attrs_type_key=" + Quote(attrs->type_key()));
  return list;
}

std::string TextPrinter::OpAttrValue(const ObjectRef& value) {
  if (value.as<ArrayNode>() != nullptr) return DimList(value);
  const auto* imm = value.as<IntImmNode>();
  return imm != nullptr && !imm->dtype.is_bool() ? std::to_string(imm->value) : AttrValue(value);
}

std::string TextPrinter::DimList(const ObjectRef& value) {
  Strings items;
  for (const ObjectRef& item : static_cast<const ArrayNode*>(value.get())->items) {
    if (item.as<ArrayNode>() != nullptr) {
      items.push_back(DimList(item));
    } else if (item.as<PrimExprNode>() != nullptr && item.as<FloatImmNode>() == nullptr) {
      items.push_back(DimText(Downcast<PrimExpr>(item), type_names_));
    } else {
      return AttrValue(value);
    }
  }
  return PutAside("[" + Join(items) + "]");
}

std::string TextPrinter::PrintAttrs(const Attrs& attrs) {
  if (const auto* dict = attrs.as<DictAttrsNode>()) return "{" + Join(DictList(dict->dict)) + "}";
  Strings list = AttrList(attrs, nullptr);
  return Join(list);
}

}  // namespace treadle::relay
