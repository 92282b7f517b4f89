// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/structural_common.h"
#include "treadle/ir/module.h"
#include "treadle/runtime/ndarray.h"

namespace treadle {
namespace structural {
namespace {

uint64_t Mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}
uint64_t Combine(uint64_t h, uint64_t value) { return Mix(h * 0x9e3779b97f4a7c15ULL + value + 1); }

uint64_t HashBytes(const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t h = 0xcbf29ce484222325ULL ^ size;
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    h = (h ^ word) * 0x100000001b3ULL;
    h ^= h >> 29;
  }
  for (; i < size; ++i) h = (h ^ bytes[i]) * 0x100000001b3ULL;
  return Mix(h);
}

uint64_t HashValue(const std::string& s) { return HashBytes(s.data(), s.size()); }
uint64_t HashValue(bool v) { return v; }
uint64_t HashValue(int v) { return static_cast<uint64_t>(v); }
uint64_t HashValue(int64_t v) { return static_cast<uint64_t>(v); }
uint64_t HashValue(double v) {
  if (std::isnan(v)) return 0x7ff8;
  if (v == 0) v = 0;  // -0.0 == 0.0
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return Mix(bits);
}
uint64_t HashValue(const DataType& t) {
  return static_cast<uint64_t>(t.code()) << 32 | static_cast<uint64_t>(t.bits()) << 16 |
         static_cast<uint64_t>(t.lanes());
}
template <typename T>
uint64_t HashValue(const std::vector<T>& values) {
  uint64_t h = values.size();
  for (const T& v : values) h = Combine(h, HashValue(v));
  return h;
}
template <typename T>
uint64_t HashValue(const std::optional<T>& value) {
  return value ? Combine(1, HashValue(*value)) : 0;
}
uint64_t HashValue(const ObjectRef&) { return 0; }  // objects are hashed as children

struct Child {
  const Object* node;
  bool define;
};

struct Frame {
  const Object* node;
  uint64_t hash;
  std::vector<Child> children;
  size_t next = 0;
};

class Hasher {
 public:
  explicit Hasher(bool map_free_vars) : map_free_vars_(map_free_vars) {}

  uint64_t Run(const Object* root) {
    std::vector<Frame> stack;
    uint64_t result = 0;
    if (!Enter({root, false}, &stack, &result)) return result;
    while (true) {
      Frame& top = stack.back();
      if (top.next < top.children.size()) {
        Child child = top.children[top.next++];
        uint64_t value = 0;
        if (!Enter(child, &stack, &value)) top.hash = Combine(top.hash, value);
        continue;
      }
      result = top.hash;
      if (top.node->use_count() > 1) memo_[top.node] = result;
      stack.pop_back();
      if (stack.empty()) return result;
      stack.back().hash = Combine(stack.back().hash, result);
    }
  }

 private:
  /// False when the hash is known at once; else a frame is pushed.
  bool Enter(Child child, std::vector<Frame>* stack, uint64_t* value) {
    const Object* node = child.node;
    if (node == nullptr) return *value = 0x6e756c6c, false;
    auto known = memo_.find(node);
    if (known != memo_.end()) return *value = known->second, false;
    uint64_t hash = TypeHash(node);
    switch (KindOf(node)) {
      case NodeKind::kVariable:
        return *value = HashVariable(child, hash), false;
      case NodeKind::kString:
        return *value = Combine(hash, HashValue(static_cast<const StringNode*>(node)->value)), false;
      case NodeKind::kNDArray:
        return *value = Combine(hash, HashTensor(node)), false;
      case NodeKind::kConstructor: {
        const auto* c = static_cast<const ConstructorNode*>(node);
        return *value = Combine(hash, HashValue(c->name_hint)), false;
      }
      case NodeKind::kOpaque:
        return *value = hash, false;
      default:
        break;
    }
    Frame frame{node, hash, {}, 0};
    Collect(child, &frame);
    stack->push_back(std::move(frame));
    return true;
  }

  void Collect(Child child, Frame* frame) {
    const Object* node = child.node;
    NodeKind kind = KindOf(node);
    if (kind == NodeKind::kArray) {
      const auto& items = static_cast<const ArrayNode*>(node)->items;
      frame->hash = Combine(frame->hash, items.size());
      for (const ObjectRef& item : items) frame->children.push_back({item.get(), child.define});
      return;
    }
    if (kind == NodeKind::kMap) return CollectMap(child, frame);
    for (const FieldInfo& field : node->type_info()->fields) {
      if (field.role == FieldRole::kIgnore) continue;
      if (field.kind == FieldKind::kObject) {
        frame->children.push_back({field.Get<ObjectRef>(node).get(), child.define || field.role == FieldRole::kDefine});
      } else {
        frame->hash = Combine(frame->hash, VisitField(field, node, [](const auto& v) { return HashValue(v); }));
      }
    }
    if (kind == NodeKind::kTypeData) {
      for (const Constructor& c : static_cast<const TypeDataNode*>(node)->constructors) {
        frame->children.push_back({c->inputs.get(), false});
      }
    }
  }

  /// Entries in an order that doesn't depend on insertion: by name, or by place of binding of variables.
  void CollectMap(Child child, Frame* frame) {
    struct Entry {
      std::string name;
      uint64_t number;
      const Object* key;
      const Object* value;
      size_t position;
    };
    std::vector<Entry> entries;
    for (const auto& [key, value] : static_cast<const MapNode*>(child.node)->items) {
      Entry entry{"", 0, nullptr, value.get(), entries.size()};
      if (const auto* s = key.as<StringNode>()) {
        entry.name = s->value;
      } else if (const auto* g = key.as<GlobalVarNode>()) {
        entry.name = g->name_hint;
      } else if (const auto* t = key.as<GlobalTypeVarNode>()) {
        entry.name = t->name_hint;
      } else {
        auto it = bound_.find(key.get());
        entry.number = it == bound_.end() ? ~uint64_t{0} : it->second;
        entry.key = key.get();
      }
      entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.name, a.number, a.position) < std::tie(b.name, b.number, b.position);
    });
    frame->hash = Combine(frame->hash, entries.size());
    for (const Entry& entry : entries) {
      frame->hash = Combine(frame->hash, HashValue(entry.name));
      if (entry.key != nullptr) frame->children.push_back({entry.key, child.define});
      frame->children.push_back({entry.value, child.define});
    }
  }

  uint64_t HashVariable(Child child, uint64_t hash) {
    // Function types bind type variables by themselves, so no number that holds for the whole serves for them.
    if (child.node->IsInstance<TypeVarNode>()) return hash;
    if (child.node->IsInstance<PrimExprNode>()) {
      const auto* prim = static_cast<const PrimExprNode*>(child.node);
      if (IsAnyDim(GetRef<PrimExpr>(prim))) return Combine(hash, 0x3f);
      hash = Combine(hash, HashValue(prim->dtype));
    }
    auto it = bound_.find(child.node);
    if (it == bound_.end() && (child.define || map_free_vars_)) {
      it = bound_.emplace(child.node, bound_.size()).first;
    }
    if (it != bound_.end()) return Combine(hash, it->second);
    // Free variables are equal only to themselves, so anything that one variable always has will do.
    for (const FieldInfo& field : child.node->type_info()->fields) {
      if (field.kind == FieldKind::kString) hash = Combine(hash, HashValue(field.Get<std::string>(child.node)));
    }
    return hash;
  }

  static uint64_t HashTensor(const Object* node) {
    NDArray a = GetRef<NDArray>(static_cast<const NDArrayNode*>(node));
    uint64_t hash = Combine(HashValue(a.dtype()), HashValue(a.shape()));
    if (a.device().device_type != kDLCPU || !a.IsCompact()) a = a.Copy();
    return Combine(hash, HashBytes(a.data_ptr(), static_cast<size_t>(a.nbytes())));
  }

  uint64_t TypeHash(const Object* node) {
    uint32_t index = node->type_index();
    if (index >= type_hashes_.size()) type_hashes_.resize(index + 64, 0);
    if (type_hashes_[index] == 0) type_hashes_[index] = HashValue(node->type_key()) | 1;
    return type_hashes_[index];
  }

  bool map_free_vars_;
  std::unordered_map<const Object*, uint64_t> memo_, bound_;
  std::vector<uint64_t> type_hashes_;
};

}  // namespace
}  // namespace structural

uint64_t StructuralHash(const ObjectRef& a, bool map_free_vars) {
  return structural::Hasher(map_free_vars).Run(a.get());
}

}  // namespace treadle
