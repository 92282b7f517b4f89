// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/serialization.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "treadle/ir/op.h"
#include "treadle/runtime/manifest.h"
#include "treadle/runtime/ndarray.h"

namespace treadle {
namespace {

using nlohmann::json;

std::string NumberText(double value) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end.ptr);
}

template <typename T>
T ParseNumber(const std::string& text, const std::string& what) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ModelFormatError(StrCat("JSON: '", text, "' isn't a valid value of ", what));
  }
  return value;
}

std::string ToText(bool v) { return v ? "1" : "0"; }
std::string ToText(int v) { return std::to_string(v); }
std::string ToText(int64_t v) { return std::to_string(v); }
std::string ToText(double v) { return NumberText(v); }
std::string ToText(const std::string& v) { return v; }
std::string ToText(const DataType& v) { return v.str(); }
template <typename T>
std::string ToText(const std::vector<T>& values) {
  json list = json::array();
  for (const T& v : values) list.push_back(ToText(v));
  return list.dump();
}
template <typename T>
std::string ToText(const std::optional<T>& value) {
  return value ? ToText(*value) : "None";
}

void FromText(const std::string& text, const std::string& what, bool* v) { *v = ParseNumber<int>(text, what) != 0; }
void FromText(const std::string& text, const std::string& what, int* v) { *v = ParseNumber<int>(text, what); }
void FromText(const std::string& text, const std::string& what, int64_t* v) { *v = ParseNumber<int64_t>(text, what); }
void FromText(const std::string& text, const std::string& what, double* v) { *v = ParseNumber<double>(text, what); }
void FromText(const std::string& text, const std::string&, std::string* v) { *v = text; }
void FromText(const std::string& text, const std::string&, DataType* v) { *v = DataType::FromString(text); }
template <typename T>
void FromText(const std::string& text, const std::string& what, std::vector<T>* values) {
  json list = json::parse(text, nullptr, false);
  if (!list.is_array()) throw ModelFormatError(StrCat("JSON: '", text, "' isn't a valid value of ", what));
  values->clear();
  for (const json& item : list) {
    if (!item.is_string()) throw ModelFormatError(StrCat("JSON: '", text, "' isn't a valid value of ", what));
    FromText(item.get<std::string>(), what, &values->emplace_back());
  }
}
template <typename T>
void FromText(const std::string& text, const std::string& what, std::optional<T>* value) {
  if (text == "None") return value->reset();
  FromText(text, what, &value->emplace());
}

/// Objects reachable from a root, each with a number; number 0 is null.
class Saver {
 public:
  explicit Saver(bool skip_ignored) : skip_ignored_(skip_ignored) {}

  std::string Save(const ObjectRef& root) {
    nodes_.push_back({{"type_key", ""}});
    size_t root_id = IdOf(root.get());
    while (done_ < order_.size()) {
      // Writing a node gives numbers to its children, which are written later: no recursion.
      const Object* node = order_[done_++];
      nodes_.push_back(Write(node));
    }
    json all;
    all["root"] = root_id;
    all["nodes"] = std::move(nodes_);
    all["b64ndarrays"] = std::move(tensors_);
    all["attrs"] = {{"treadle_version", runtime::VersionString()}};
    return all.dump(2, ' ', true, json::error_handler_t::replace);
  }

 private:
  size_t IdOf(const Object* node) {
    if (node == nullptr) return 0;
    auto [it, inserted] = ids_.emplace(node, ids_.size() + 1);
    if (inserted) order_.push_back(node);
    return it->second;
  }
  size_t AddTensor(const Object* node) {
    auto [it, inserted] = tensor_ids_.emplace(node, tensors_.size());
    if (inserted) {
      runtime::ByteWriter writer;
      GetRef<NDArray>(static_cast<const NDArrayNode*>(node)).Save(&writer);
      tensors_.push_back(EncodeBase64(writer.bytes()));
    }
    return it->second;
  }

  json Write(const Object* node) {
    json out;
    if (node->IsInstance<ArrayNode>()) {
      out["type_key"] = "Array";
      json data = json::array();
      for (const ObjectRef& item : static_cast<const ArrayNode*>(node)->items) data.push_back(IdOf(item.get()));
      out["data"] = std::move(data);
      return out;
    }
    if (node->IsInstance<MapNode>()) {
      out["type_key"] = "Map";
      WriteMap(static_cast<const MapNode*>(node), &out);
      return out;
    }
    out["type_key"] = node->type_key();
    if (node->IsInstance<StringNode>()) {
      out["repr_str"] = static_cast<const StringNode*>(node)->value;
      return out;
    }
    if (node->IsInstance<OpNode>()) {
      out["repr_str"] = static_cast<const OpNode*>(node)->name;
      return out;
    }
    if (node->IsInstance<NDArrayNode>()) {
      out["attrs"] = {{"index", std::to_string(AddTensor(node))}};
      return out;
    }
    json attrs = json::object();
    for (const FieldInfo& field : node->type_info()->fields) {
      if (skip_ignored_ && field.role == FieldRole::kIgnore) continue;
      if (field.kind == FieldKind::kObject) {
        const ObjectRef& value = field.Get<ObjectRef>(node);
        bool is_tensor = value.defined() && node->type_key() == "relay.Constant" && value->IsInstance<NDArrayNode>();
        attrs[field.name] = std::to_string(is_tensor ? AddTensor(value.get()) : IdOf(value.get()));
      } else {
        attrs[field.name] = VisitField(field, node, [](const auto& v) -> std::string {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, ObjectRef>) {
            return "";
          } else {
            return ToText(v);
          }
        });
      }
    }
    out["attrs"] = std::move(attrs);
    return out;
  }

  void WriteMap(const MapNode* map, json* out) {
    bool strings = true;
    for (const auto& [key, value] : map->items) strings &= key.as<StringNode>() != nullptr;
    json keys = json::array(), data = json::array();
    for (const auto& [key, value] : map->items) {
      if (strings) {
        keys.push_back(static_cast<const StringNode*>(key.get())->value);
      } else {
        data.push_back(IdOf(key.get()));
      }
      data.push_back(IdOf(value.get()));
    }
    if (strings) (*out)["keys"] = std::move(keys);
    (*out)["data"] = std::move(data);
  }

  bool skip_ignored_;
  std::unordered_map<const Object*, size_t> ids_, tensor_ids_;
  std::vector<const Object*> order_;
  size_t done_ = 0;
  json nodes_ = json::array();
  json tensors_ = json::array();
};

[[noreturn]] void Malformed(const std::string& what) { throw ModelFormatError("JSON of nodes: " + what); }

class Loader {
 public:
  explicit Loader(const std::string& text) : all_(json::parse(text, nullptr, false)) {
    if (!all_.is_object() || !all_.contains("nodes") || !all_["nodes"].is_array() || !all_.contains("root") ||
        !all_["root"].is_number_unsigned()) {
      Malformed("not an object with \"root\" and \"nodes\"");
    }
  }

  ObjectRef Load() {
    const json& nodes = all_["nodes"];
    objects_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) Create(i, nodes[i]);
    try {
      for (size_t i = 0; i < nodes.size(); ++i) Fill(i, nodes[i]);
      // Maps hash their keys, so they come when the keys are complete.
      for (size_t i = 0; i < nodes.size(); ++i) FillMap(i, nodes[i]);
      CheckAcyclic(nodes);
    } catch (...) {
      BreakCycles();  // what was filled before the error may hold itself
      throw;
    }
    return At(all_["root"].get<size_t>());
  }

 private:
  static std::string KeyOf(const json& node) {
    if (!node.is_object() || !node.contains("type_key") || !node["type_key"].is_string()) {
      Malformed("a node has no \"type_key\"");
    }
    std::string key = node["type_key"];
    if (key == "Array") return ArrayNode::kTypeKey;
    if (key == "Map") return MapNode::kTypeKey;
    return key;
  }

  void Create(size_t i, const json& node) {
    std::string key = KeyOf(node);
    if (key.empty()) return;
    if (key == OpNode::kTypeKey) {
      objects_[i] = Op::Get(Text(node, "repr_str"));
      return;
    }
    if (key == StringNode::kTypeKey) {
      objects_[i] = String(Text(node, "repr_str"));
      return;
    }
    if (key == NDArrayNode::kTypeKey) {
      if (!node.contains("attrs")) Malformed("a tensor has no index");
      objects_[i] = Tensor(Text(node["attrs"], "index"));
      return;
    }
    const TypeInfo* info = TypeInfo::Find(key);
    if (info == nullptr || info->create == nullptr) Malformed("unknown class '" + key + "'");
    objects_[i] = ObjectRef(ObjectPtr<Object>(info->create()));
  }

  void Fill(size_t i, const json& node) {
    ObjectRef& object = objects_[i];
    if (!object.defined() || object->IsInstance<StringNode>() || object->IsInstance<NDArrayNode>() ||
        object->IsInstance<OpNode>() || object->IsInstance<MapNode>()) {
      return;
    }
    if (object->IsInstance<ArrayNode>()) {
      auto& items = const_cast<ArrayNode*>(static_cast<const ArrayNode*>(object.get()))->items;
      for (size_t id : Ids(node)) items.push_back(At(id));
      return;
    }
    if (!node.contains("attrs") || !node["attrs"].is_object()) return;
    auto* target = const_cast<Object*>(object.get());
    for (const FieldInfo& field : object->type_info()->fields) {
      if (!node["attrs"].contains(field.name)) continue;
      FillField(field, target, Text(node["attrs"], field.name));
    }
  }

  void FillField(const FieldInfo& field, Object* target, const std::string& text) {
    std::string what = target->type_key() + "." + field.name;
    if (field.kind != FieldKind::kObject) {
      VisitField(field, target, [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (!std::is_same_v<T, ObjectRef>) FromText(text, what, &field.GetMutable<T>(target));
      });
      return;
    }
    ObjectRef& slot = field.GetMutable<ObjectRef>(target);
    ObjectRef value = target->type_key() == "relay.Constant" && field.name == "data"
                          ? ObjectRef(Tensor(text))
                          : At(ParseNumber<size_t>(text, what));
    // A field that starts as an empty container is never null.
    if (slot.defined() && (!value.defined() || value->type_info() != slot->type_info())) {
      Malformed(what + " is of class " + (value.defined() ? value->type_key() : "null") + ", not " + slot->type_key());
    }
    slot = value;
  }

  void FillMap(size_t i, const json& node) {
    if (!objects_[i].defined() || !objects_[i]->IsInstance<MapNode>()) return;
    auto* map = const_cast<MapNode*>(static_cast<const MapNode*>(objects_[i].get()));
    std::vector<size_t> ids = Ids(node);
    auto add = [map](const ObjectRef& key, const ObjectRef& value) {
      if (map->index.emplace(key, map->items.size()).second) map->items.emplace_back(key, value);
    };
    if (node.contains("keys")) {
      const json& keys = node["keys"];
      if (!keys.is_array() || keys.size() != ids.size()) Malformed("a map has a wrong number of keys");
      for (size_t k = 0; k < ids.size(); ++k) {
        if (!keys[k].is_string()) Malformed("a key isn't a string");
        add(String(keys[k].get<std::string>()), At(ids[k]));
      }
      return;
    }
    if (ids.size() % 2 != 0) Malformed("a map has a key without value");
    for (size_t k = 0; k < ids.size(); k += 2) {
      if (!At(ids[k]).defined()) Malformed("a map has a null key");
      add(At(ids[k]), At(ids[k + 1]));
    }
  }

  /// Reference counts never free cycles and walks don't end on them.
  void CheckAcyclic(const json& nodes) {
    std::vector<uint8_t> state(nodes.size(), 0);  // 1: open, 2: done
    for (size_t start = 0; start < nodes.size(); ++start) {
      if (state[start] != 0) continue;
      std::vector<std::pair<size_t, size_t>> stack{{start, 0}};
      std::vector<std::vector<size_t>> children{Children(nodes[start])};
      state[start] = 1;
      while (!stack.empty()) {
        auto& [node, next] = stack.back();
        if (next == children.back().size()) {
          state[node] = 2;
          stack.pop_back();
          children.pop_back();
          continue;
        }
        size_t child = children.back()[next++];
        if (child >= nodes.size()) continue;
        if (state[child] == 1) Malformed("nodes form a cycle");
        if (state[child] == 0) {
          state[child] = 1;
          stack.emplace_back(child, 0);
          children.push_back(Children(nodes[child]));
        }
      }
    }
  }
  std::vector<size_t> Children(const json& node) {
    std::vector<size_t> ids;
    if (node.contains("data") && node["data"].is_array()) ids = Ids(node);
    const TypeInfo* info = TypeInfo::Find(KeyOf(node));
    if (info == nullptr || !node.contains("attrs")) return ids;
    for (const FieldInfo& field : info->fields) {
      bool is_tensor = info->key == "relay.Constant" && field.name == "data";
      if (field.kind != FieldKind::kObject || is_tensor || !node["attrs"].contains(field.name)) continue;
      ids.push_back(ParseNumber<size_t>(Text(node["attrs"], field.name), field.name));
    }
    return ids;
  }
  void BreakCycles() {
    for (const ObjectRef& object : objects_) {
      if (!object.defined() || object->IsInstance<OpNode>()) continue;
      auto* node = const_cast<Object*>(object.get());
      if (node->IsInstance<ArrayNode>()) static_cast<ArrayNode*>(node)->items.clear();
      if (node->IsInstance<MapNode>()) static_cast<MapNode*>(node)->items.clear();
      for (const FieldInfo& field : node->type_info()->fields) {
        if (field.kind == FieldKind::kObject) field.GetMutable<ObjectRef>(node) = ObjectRef();
      }
    }
  }

  static std::string Text(const json& node, const std::string& key) {
    if (!node.is_object() || !node.contains(key) || !node[key].is_string()) Malformed("no string '" + key + "'");
    return node[key].get<std::string>();
  }
  static std::vector<size_t> Ids(const json& node) {
    if (!node.contains("data") || !node["data"].is_array()) return {};
    std::vector<size_t> ids;
    for (const json& id : node["data"]) {
      if (!id.is_number_unsigned()) Malformed("a node number isn't a number");
      ids.push_back(id.get<size_t>());
    }
    return ids;
  }
  ObjectRef At(size_t id) const {
    if (id >= objects_.size()) Malformed(StrCat("node ", id, " doesn't exist"));
    return objects_[id];
  }
  NDArray Tensor(const std::string& index_text) {
    size_t index = ParseNumber<size_t>(index_text, "tensor number");
    if (!all_.contains("b64ndarrays") || !all_["b64ndarrays"].is_array() || index >= all_["b64ndarrays"].size() ||
        !all_["b64ndarrays"][index].is_string()) {
      Malformed(StrCat("tensor ", index, " doesn't exist"));
    }
    if (tensors_.size() <= index) tensors_.resize(index + 1);
    if (!tensors_[index].defined()) {
      std::string bytes = DecodeBase64(all_["b64ndarrays"][index].get<std::string>());
      runtime::ByteReader reader(bytes, "tensor in metadata");
      tensors_[index] = NDArray::Load(&reader);
    }
    return tensors_[index];
  }

  json all_;
  std::vector<ObjectRef> objects_;
  std::vector<NDArray> tensors_;
};

}  // namespace

std::string SaveJson(const ObjectRef& root, bool skip_ignored) { return Saver(skip_ignored).Save(root); }

ObjectRef LoadJson(const std::string& text) { return Loader(text).Load(); }

}  // namespace treadle
