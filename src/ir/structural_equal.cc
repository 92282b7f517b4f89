// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/structural_common.h"
#include "treadle/ir/module.h"
#include "treadle/ir/structural_tolerance.h"
#include "treadle/runtime/ndarray.h"

namespace treadle {
namespace structural {
namespace {

NodeKind Classify(const TypeInfo* info) {
  const std::string& key = info->key;
  if (key == "tir.Var" || key == "relay.Id" || key == "relay.TypeVar") return NodeKind::kVariable;
  if (key == "relay.Call" || key == "relay.Tuple" || key == "relay.TupleGetItem" || key == "relay.Function" ||
      key == "relay.Let" || key == "relay.If" || key == "relay.RefCreate" || key == "relay.RefRead" ||
      key == "relay.RefWrite" || key == "relay.Match" || key == "tir.Buffer") {
    return NodeKind::kGraph;
  }
  if (key == ArrayNode::kTypeKey) return NodeKind::kArray;
  if (key == MapNode::kTypeKey) return NodeKind::kMap;
  if (key == StringNode::kTypeKey) return NodeKind::kString;
  if (key == runtime::NDArrayNode::kTypeKey) return NodeKind::kNDArray;
  if (key == ConstructorNode::kTypeKey) return NodeKind::kConstructor;
  if (key == TypeDataNode::kTypeKey) return NodeKind::kTypeData;
  if (key == FuncTypeNode::kTypeKey) return NodeKind::kFuncType;
  return info->fields.empty() && info->create == nullptr ? NodeKind::kOpaque : NodeKind::kPlain;
}

}  // namespace

NodeKind KindOf(const Object* node) {
  thread_local std::vector<uint8_t> cache;  // by type index; 0: not known yet, else kind + 1
  uint32_t index = node->type_index();
  if (index >= cache.size()) cache.resize(index + 64, 0);
  if (cache[index] == 0) cache[index] = static_cast<uint8_t>(Classify(node->type_info())) + 1;
  return static_cast<NodeKind>(cache[index] - 1);
}

namespace {

struct Task {
  const Object* a;
  const Object* b;
  bool define;  ///< variables met are bound here
  int path;     ///< index into paths_
  int scope;    ///< index into scopes_: not a comparison, but the end of a function type
};

/// What type parameters of a function type were bound to outside of it.
struct Scope {
  std::vector<std::pair<const Object*, const Object*>> left, right;  ///< null: not bound
};

struct PathStep {
  int parent;
  std::string label;
};

struct PairHash {
  size_t operator()(const std::pair<const Object*, const Object*>& p) const {
    return std::hash<const Object*>()(p.first) * 1000003u ^ std::hash<const Object*>()(p.second);
  }
};

template <typename T>
std::string Show(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else {
    return StrCat(value);
  }
}
template <typename T>
std::string Show(const std::vector<T>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + StrCat(values[i]);
  return text + "]";
}
template <typename T>
std::string Show(const std::optional<T>& value) {
  return value ? Show(*value) : "None";
}

template <typename T>
bool SameValue(const T& a, const T& b, double) {
  return a == b;
}
bool SameValue(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) < tolerance;
}
bool SameValue(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameValue(a[i], b[i], tolerance)) return false;
  }
  return true;
}
bool SameValue(const std::optional<double>& a, const std::optional<double>& b, double tolerance) {
  return a.has_value() == b.has_value() && (!a || SameValue(*a, *b, tolerance));
}

class Comparer {
 public:
  Comparer(bool map_free_vars, bool record, double tolerance = 0)
      : map_free_vars_(map_free_vars), record_(record), tolerance_(tolerance) {}

  bool Run(const Object* a, const Object* b) {
    paths_.push_back({-1, "root"});
    tasks_.push_back({a, b, false, 0, -1});
    while (!tasks_.empty()) {
      Task task = tasks_.back();
      tasks_.pop_back();
      if (task.scope >= 0) {
        LeaveScope(scopes_[static_cast<size_t>(task.scope)]);
        continue;
      }
      if (!Compare(task)) return false;
      // What a task pushed comes in reading order; the stack pops from the end.
      tasks_.insert(tasks_.end(), pending_.rbegin(), pending_.rend());
      pending_.clear();
    }
    return true;
  }
  const std::string& difference() const { return difference_; }

 private:
  bool Fail(int path, const std::string& what) {
    if (record_) {
      std::vector<int> steps;
      for (int i = path; i >= 0; i = paths_[i].parent) steps.push_back(i);
      difference_.clear();
      for (size_t i = steps.size(); i-- > 0;) difference_ += paths_[steps[i]].label;
      difference_ += ": " + what;
    }
    return false;
  }
  void Push(const Object* a, const Object* b, bool define, int parent, const std::string& label) {
    int path = 0;
    if (record_) {
      path = static_cast<int>(paths_.size());
      paths_.push_back({parent, label});
    }
    pending_.push_back({a, b, define, path, -1});
  }
  void Bind(const Object* a, const Object* b) {
    left_[a] = b;
    right_[b] = a;
    if (a != b) only_identity_ = false;
  }
  /// The same type parameters may be bound by several function types: by those of a function that is mentioned twice.
  bool CompareFuncType(const Task& t) {
    const auto& a = static_cast<const FuncTypeNode*>(t.a)->type_params;
    const auto& b = static_cast<const FuncTypeNode*>(t.b)->type_params;
    if (a.empty() && b.empty()) return CompareFields(t);
    Scope scope;
    auto hide = [](const Array<TypeVar>& params, std::unordered_map<const Object*, const Object*>* bound,
                   std::vector<std::pair<const Object*, const Object*>>* saved) {
      for (const TypeVar& param : params) {
        auto it = bound->find(param.get());
        saved->emplace_back(param.get(), it == bound->end() ? nullptr : it->second);
        if (it != bound->end()) bound->erase(it);
      }
    };
    hide(a, &left_, &scope.left);
    hide(b, &right_, &scope.right);
    if (!CompareFields(t)) return false;
    pending_.push_back({nullptr, nullptr, false, 0, static_cast<int>(scopes_.size())});
    scopes_.push_back(std::move(scope));
    return true;
  }
  void LeaveScope(const Scope& scope) {
    auto restore = [](const std::vector<std::pair<const Object*, const Object*>>& saved,
                      std::unordered_map<const Object*, const Object*>* bound) {
      for (const auto& [param, value] : saved) bound->erase(param);
      for (const auto& [param, value] : saved) {
        if (value != nullptr) (*bound)[param] = value;
      }
    };
    restore(scope.left, &left_);
    restore(scope.right, &right_);
    equal_pairs_.clear();  // they may mention the parameters
  }
  /// -1: neither is bound; else whether they are bound to each other.
  int Bound(const Object* a, const Object* b) const {
    auto it = left_.find(a);
    if (it != left_.end()) return it->second == b;
    return right_.count(b) != 0 ? 0 : -1;
  }

  bool Compare(const Task& t) {
    if (t.a == t.b && !t.define && only_identity_) {
      if (t.a != nullptr && KindOf(t.a) == NodeKind::kGraph && Bound(t.a, t.b) < 0) Bind(t.a, t.b);
      return true;
    }
    if (t.a == nullptr || t.b == nullptr) {
      if (t.a == t.b) return true;
      return Fail(t.path, StrCat(t.a ? t.a->type_key() : "null", " vs ", t.b ? t.b->type_key() : "null"));
    }
    if (t.a->type_info() != t.b->type_info()) {
      return Fail(t.path, StrCat(t.a->type_key(), " vs ", t.b->type_key()));
    }
    switch (KindOf(t.a)) {
      case NodeKind::kVariable:
        return CompareVariable(t);
      case NodeKind::kArray:
        return CompareArray(t);
      case NodeKind::kMap:
        return CompareMap(t);
      case NodeKind::kString: {
        const auto& a = static_cast<const StringNode*>(t.a)->value;
        const auto& b = static_cast<const StringNode*>(t.b)->value;
        return a == b || Fail(t.path, StrCat("\"", a, "\" vs \"", b, "\""));
      }
      case NodeKind::kNDArray:
        return CompareTensor(t);
      case NodeKind::kConstructor: {
        const auto* a = static_cast<const ConstructorNode*>(t.a);
        const auto* b = static_cast<const ConstructorNode*>(t.b);
        // A constructor gets its tag where its type is added to a module.
        const bool tagged = a->tag >= 0 && b->tag >= 0;
        if (a->name_hint == b->name_hint && (!tagged || a->tag == b->tag)) return true;
        return Fail(t.path, StrCat("constructor ", a->name_hint, " (tag ", a->tag, ") vs ", b->name_hint, " (tag ",
                                   b->tag, ")"));
      }
      case NodeKind::kOpaque:
        return t.a == t.b || Fail(t.path, StrCat("different objects of class ", t.a->type_key()));
      case NodeKind::kGraph: {
        int bound = Bound(t.a, t.b);
        if (bound >= 0) return bound || Fail(t.path, StrCat(t.a->type_key(), " is shared differently"));
        Bind(t.a, t.b);
        return CompareFields(t);
      }
      case NodeKind::kTypeData: {
        const auto& a = static_cast<const TypeDataNode*>(t.a)->constructors;
        const auto& b = static_cast<const TypeDataNode*>(t.b)->constructors;
        if (!CompareFields(t)) return false;
        for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
          Push(a[i]->inputs.get(), b[i]->inputs.get(), false, t.path, StrCat(".constructors[", i, "].inputs"));
        }
        return true;
      }
      case NodeKind::kFuncType:
        return CompareFuncType(t);
      case NodeKind::kPlain:
        break;
    }
    if (!t.define && t.a->use_count() > 1 && !equal_pairs_.insert({t.a, t.b}).second) return true;
    return CompareFields(t);
  }

  bool CompareVariable(const Task& t) {
    if (const auto* a = AsPrim(t.a)) {
      const auto* b = AsPrim(t.b);
      bool any_a = IsAnyDim(GetRef<PrimExpr>(a)), any_b = IsAnyDim(GetRef<PrimExpr>(b));
      if (any_a && any_b) return true;
      if (any_a != any_b) return Fail(t.path, "known dimension vs unknown dimension");
    }
    int bound = Bound(t.a, t.b);
    if (bound == 0) return Fail(t.path, "variables bound at different places");
    if (bound < 0) {
      if (t.define || map_free_vars_) {
        Bind(t.a, t.b);
      } else if (t.a != t.b) {
        return Fail(t.path, "different free variables");
      }
    }
    return CompareFields(t);
  }
  static const PrimExprNode* AsPrim(const Object* node) {
    return node->IsInstance<PrimExprNode>() ? static_cast<const PrimExprNode*>(node) : nullptr;
  }

  bool CompareFields(const Task& t) {
    for (const FieldInfo& field : t.a->type_info()->fields) {
      if (field.role == FieldRole::kIgnore) continue;
      if (field.kind == FieldKind::kObject) {
        Push(field.Get<ObjectRef>(t.a).get(), field.Get<ObjectRef>(t.b).get(),
             t.define || field.role == FieldRole::kDefine, t.path, record_ ? "." + field.name : std::string());
        continue;
      }
      bool same = VisitField(field, t.a, [&](const auto& a) {
        if constexpr (std::is_same_v<std::decay_t<decltype(a)>, ObjectRef>) {
          return true;
        } else {
          const auto& b = field.Get<std::decay_t<decltype(a)>>(t.b);
          if (SameValue(a, b, tolerance_)) return true;
          if (record_) Fail(t.path, "");
          if (record_) {
            difference_.resize(difference_.size() - 2);
            difference_ += StrCat(".", field.name, ": ", Show(a), " vs ", Show(b));
          }
          return false;
        }
      });
      if (!same) return false;
    }
    return true;
  }

  bool CompareArray(const Task& t) {
    const auto& a = static_cast<const ArrayNode*>(t.a)->items;
    const auto& b = static_cast<const ArrayNode*>(t.b)->items;
    if (a.size() != b.size()) return Fail(t.path, StrCat(a.size(), " elements vs ", b.size()));
    for (size_t i = 0; i < a.size(); ++i) {
      Push(a[i].get(), b[i].get(), t.define, t.path, record_ ? StrCat("[", i, "]") : std::string());
    }
    return true;
  }

  /// Strings and globals as keys match by name, variables by their binding, others by position.
  bool CompareMap(const Task& t) {
    const auto* a = static_cast<const MapNode*>(t.a);
    const auto* b = static_cast<const MapNode*>(t.b);
    std::unordered_map<std::string, const Object*> by_name;
    for (const auto& [key, value] : b->items) {
      if (auto name = NameOfKey(key)) by_name[*name] = value.get();
    }
    std::string key_text;
    for (size_t i = 0; i < a->items.size(); ++i) {
      const auto& [key, value] = a->items[i];
      const Object* other = nullptr;
      bool found = false;
      if (auto name = NameOfKey(key)) {
        key_text = *name;
        auto it = by_name.find(*name);
        found = it != by_name.end();
        if (found) other = it->second;
      } else {
        key_text = StrCat(i);
        auto bound = left_.find(key.get());
        if (bound != left_.end()) {
          auto it = b->index.find(ObjectRef(ObjectPtr<Object>(const_cast<Object*>(bound->second))));
          found = it != b->index.end();
          if (found) other = b->items[it->second].second.get();
        } else if (i < b->items.size()) {
          found = true;
          other = b->items[i].second.get();
          Push(key.get(), b->items[i].first.get(), t.define, t.path, StrCat(".key[", i, "]"));
        }
      }
      if (!found) return Fail(t.path, StrCat("key ", key_text, " is only on the left"));
      Push(value.get(), other, t.define, t.path, StrCat("[", key_text, "]"));
    }
    if (a->items.size() != b->items.size()) {
      return Fail(t.path, StrCat(a->items.size(), " entries vs ", b->items.size()));
    }
    return true;
  }
  static std::optional<std::string> NameOfKey(const ObjectRef& key) {
    if (const auto* s = key.as<StringNode>()) return "\"" + s->value + "\"";
    if (const auto* g = key.as<GlobalVarNode>()) return "@" + g->name_hint;
    if (const auto* g = key.as<GlobalTypeVarNode>()) return g->name_hint;
    return std::nullopt;
  }

  bool CompareTensor(const Task& t) {
    NDArray a = GetRef<NDArray>(static_cast<const NDArrayNode*>(t.a));
    NDArray b = GetRef<NDArray>(static_cast<const NDArrayNode*>(t.b));
    if (a.dtype() != b.dtype()) return Fail(t.path, StrCat("tensor of ", a.dtype(), " vs ", b.dtype()));
    if (a.shape() != b.shape()) {
      return Fail(t.path,
                  StrCat("tensor of shape ", runtime::ShapeString(a.shape()), " vs ", runtime::ShapeString(b.shape())));
    }
    auto compact = [](const NDArray& x) { return x.device().device_type == kDLCPU && x.IsCompact() ? x : x.Copy(); };
    NDArray x = compact(a), y = compact(b);
    size_t bytes = static_cast<size_t>(x.nbytes());
    if (bytes == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), bytes) == 0) return true;
    return Fail(t.path, "tensors of different values");
  }

  bool map_free_vars_, record_;
  double tolerance_;
  bool only_identity_ = true;  ///< so far every bound object is bound to itself
  std::vector<Task> tasks_, pending_;
  std::vector<PathStep> paths_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Object*, const Object*> left_, right_;
  std::unordered_set<std::pair<const Object*, const Object*>, PairHash> equal_pairs_;
  std::string difference_;
};

}  // namespace
}  // namespace structural

bool StructuralEqual(const ObjectRef& a, const ObjectRef& b, bool map_free_vars) {
  return structural::Comparer(map_free_vars, false).Run(a.get(), b.get());
}

bool StructuralEqualWithin(const ObjectRef& a, const ObjectRef& b, bool map_free_vars, double tolerance) {
  return structural::Comparer(map_free_vars, false, tolerance).Run(a.get(), b.get());
}

std::string StructuralDifference(const ObjectRef& a, const ObjectRef& b, bool map_free_vars) {
  if (StructuralEqual(a, b, map_free_vars)) return "";
  structural::Comparer comparer(map_free_vars, true);
  comparer.Run(a.get(), b.get());
  return comparer.difference();
}

}  // namespace treadle
