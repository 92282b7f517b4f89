// SPDX-License-Identifier: Apache-2.0
// Nodes in Python: attributes by reflection, containers as sequences and mappings.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/convert.h"
#include "treadle/base/error.h"
#include "treadle/runtime/container.h"
#include "treadle/runtime/reflection.h"

namespace treadle::python {
namespace {

struct ToPython {
  nb::object operator()(bool value) const { return nb::bool_(value); }
  nb::object operator()(int value) const { return nb::int_(value); }
  nb::object operator()(int64_t value) const { return nb::int_(value); }
  nb::object operator()(double value) const { return nb::float_(value); }
  nb::object operator()(const std::string& value) const { return FromObjectRef(String(value)); }
  nb::object operator()(const DataType& value) const {
    runtime::RetValue boxed;
    boxed = value;
    return FromRetValue(boxed);
  }
  nb::object operator()(const ObjectRef& value) const { return FromObjectRef(value); }
  template <typename T>
  nb::object operator()(const std::vector<T>& values) const {
    nb::list list;
    for (const T& value : values) list.append((*this)(value));
    return nb::tuple(list);
  }
  template <typename T>
  nb::object operator()(const std::optional<T>& value) const {
    return value ? (*this)(*value) : nb::none();
  }
};

const FieldInfo* FindField(const Object* object, const std::string& name) {
  for (const FieldInfo& field : object->type_info()->fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

nb::object GetAttribute(const Handle& self, const std::string& name) {
  const FieldInfo* field = self.ref.defined() ? FindField(self.ref.get(), name) : nullptr;
  if (field == nullptr) {
    const std::string type = self.ref.defined() ? self.ref->type_key() : "null";
    PyErr_SetString(PyExc_AttributeError, StrCat("a node of type ", type, " has no attribute '", name, "'").c_str());
    throw nb::python_error();
  }
  return VisitField(*field, self.ref.get(), [](const auto& value) { return ToPython()(value); });
}

std::vector<std::string> FieldNames(const Handle& self) {
  std::vector<std::string> names;
  if (self.ref.defined()) {
    for (const FieldInfo& field : self.ref->type_info()->fields) names.push_back(field.name);
  }
  return names;
}

template <typename Node>
const Node* As(const Handle& self) {
  const auto* node = self.ref.as<Node>();
  if (node == nullptr) throw DTypeError(StrCat("expected ", Node::kTypeKey));
  return node;
}

const std::pair<ObjectRef, ObjectRef>& MapEntry(const Handle& self, nb::handle key) {
  const auto* node = As<MapNode>(self);
  auto it = node->index.find(ToObjectRef(key));
  if (it == node->index.end()) {
    PyErr_SetObject(PyExc_KeyError, key.ptr());
    throw nb::python_error();
  }
  return node->items[it->second];
}

}  // namespace

void BindObject(nb::module_& module) {
  nb::class_<Handle>(module, "Object", nb::dynamic_attr(), nb::is_weak_referenceable())
      .def(nb::init<>())
      .def("__init__", [](Handle* self, const Handle& other) { new (self) Handle{other.ref}; })
      .def("__getattr__", &GetAttribute)
      .def("__dir__",
           [](nb::handle self) {
             nb::list names = nb::cast<nb::list>(
                 nb::module_::import_("builtins")
                     .attr("list")(nb::module_::import_("builtins").attr("object").attr("__dir__")(self)));
             for (const std::string& name : FieldNames(nb::cast<Handle&>(self))) names.append(name);
             return names;
           })
      .def("_field_names", &FieldNames)
      .def("_type_key", [](const Handle& self) { return self.ref.defined() ? self.ref->type_key() : std::string(); })
      .def("_reference", [](Handle& self, const Handle& other) { self.ref = other.ref; })
      .def("same_as", [](const Handle& self, const Handle& other) { return self.ref.same_as(other.ref); })
      .def("__hash__", [](const Handle& self) { return std::hash<const void*>()(self.ref.get()); })
      .def("__eq__",
           [](const Handle& self, nb::handle other) {
             return nb::isinstance<Handle>(other) && self.ref.same_as(nb::cast<Handle&>(other).ref);
           })
      .def("__ne__", [](const Handle& self, nb::handle other) {
        return !nb::isinstance<Handle>(other) || !self.ref.same_as(nb::cast<Handle&>(other).ref);
      });

  module.def("register_object", &RegisterObjectClass);
  module.def("array_size", [](const Handle& self) { return As<ArrayNode>(self)->items.size(); });
  module.def("array_item",
             [](const Handle& self, size_t i) { return FromObjectRef(As<ArrayNode>(self)->items.at(i)); });
  module.def("map_size", [](const Handle& self) { return As<MapNode>(self)->items.size(); });
  module.def("map_item", [](const Handle& self, nb::handle key) { return FromObjectRef(MapEntry(self, key).second); });
  module.def("map_items", [](const Handle& self) {
    nb::list items;
    for (const auto& [key, value] : As<MapNode>(self)->items) {
      items.append(nb::make_tuple(FromObjectRef(key), FromObjectRef(value)));
    }
    return items;
  });
  module.def("convert", [](nb::handle value) { return FromObjectRef(ToObjectRef(value)); });
  module.def("type_keys_known", [](const std::string& key) { return TypeInfo::Find(key) != nullptr; });
}

}  // namespace treadle::python
