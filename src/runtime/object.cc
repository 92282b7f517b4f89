// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/object.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "treadle/runtime/reflection.h"

namespace treadle {
namespace {

struct TypeTable {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<TypeInfo>> by_key;
  uint32_t count = 0;

  static TypeTable& Global() {
    static auto* table = new TypeTable();  // never destroyed: objects may outlive other statics
    return *table;
  }
};

}  // namespace

TypeInfo::~TypeInfo() = default;

const TypeInfo* TypeInfo::Find(const std::string& key) {
  TypeTable& table = TypeTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.by_key.find(key);
  return it == table.by_key.end() ? nullptr : it->second.get();
}

uint32_t TypeInfo::Count() {
  TypeTable& table = TypeTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  return table.count;
}

const TypeInfo* TypeInfo::Register(const std::string& key, const TypeInfo* parent, std::vector<FieldInfo> fields,
                                   Object* (*create)()) {
  TypeTable& table = TypeTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  if (const auto known = table.by_key.find(key); known != table.by_key.end()) return known->second.get();
  auto info = std::make_unique<TypeInfo>();
  info->key = key;
  info->parent = parent;
  if (parent != nullptr) info->fields = parent->fields;
  for (FieldInfo& field : fields) {
    const auto same = [&](const FieldInfo& other) { return other.name == field.name; };
    if (std::any_of(info->fields.begin(), info->fields.end(), same)) {
      throw Error(StrCat("type ", key, " registers field '", field.name,
                         "' twice; Reflect names the fields of its class only, not those of the parents"));
    }
    info->fields.push_back(std::move(field));
  }
  info->create = create;
  info->index = table.count++;
  return table.by_key.emplace(key, std::move(info)).first->second.get();
}

const TypeInfo* Object::StaticTypeInfo() {
  static const TypeInfo* info = TypeInfo::Register(kTypeKey, nullptr, {}, nullptr);
  return info;
}

void Object::Destroy(const Object* object) {
  // Deleting a node releases its children, which come back here: queue them instead of recursing. Destructors run when
  // memory is short too: what the queue has no room for is deleted at once.
  struct Queue {
    std::array<const Object*, 64> first;
    size_t count = 0;
    std::vector<const Object*> more;

    bool Push(const Object* o) noexcept {
      if (count < first.size()) {
        first[count++] = o;
        return true;
      }
      try {
        more.push_back(o);
        return true;
      } catch (const std::bad_alloc&) {
        return false;
      }
    }
    const Object* Pop() {
      if (more.empty()) return count == 0 ? nullptr : first[--count];
      const Object* last = more.back();
      more.pop_back();
      return last;
    }
  };
  thread_local Queue* pending = nullptr;
  if (pending != nullptr && pending->Push(object)) return;
  if (pending != nullptr) {
    delete object;
    return;
  }
  Queue queue;
  pending = &queue;
  for (; object != nullptr; object = queue.Pop()) delete object;
  pending = nullptr;
}

namespace detail {

void Release(const Object* object) noexcept {
  if (object != nullptr) object->DecRef();
}

void ThrowBadCast(const ObjectRef& ref, const char* expected) {
  throw InternalError(StrCat("internal error: expected ", expected, " but got ", ref->type_key()));
}

}  // namespace detail
}  // namespace treadle
