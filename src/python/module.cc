// SPDX-License-Identifier: Apache-2.0
// The extension module treadle._core: errors, nodes, tensors, functions and modules. All else in Python is built on
// the registry of packed functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "python/api.h"
#include "python/convert.h"
#include "treadle/base/error.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/registry.h"

namespace treadle::python {
namespace {

using runtime::Module;
using runtime::PackedFunc;
using runtime::Registry;

PackedFunc Function(const Handle& self) {
  if (self.ref.as<runtime::PackedFuncNode>() == nullptr) throw DTypeError("expected a PackedFunc");
  return PackedFunc(self.ref.data());
}

Module ModuleOf(const Handle& self) {
  if (self.ref.as<runtime::ModuleNode>() == nullptr) throw DTypeError("expected a Module");
  return Module(self.ref.data());
}

/// Python classes of errors by Error::kind(). Never destroyed.
std::map<std::string, nb::object>& ErrorClasses() {
  static auto* classes = new std::map<std::string, nb::object>();
  return *classes;
}

/// What a message quotes may be bytes of any kind.
nb::object QuotingText(const std::string& text) {
  return nb::steal<nb::object>(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void Translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    auto& classes = ErrorClasses();
    auto it = classes.find(error.kind());
    nb::object cls = it == classes.end() ? classes.at("Error") : it->second;
    nb::object instance = cls(QuotingText(error.what()));
    instance.attr("exit_code") = static_cast<int>(error.code());
    if (const auto* unsupported = dynamic_cast<const UnsupportedOpError*>(&error)) {
      nb::list nodes;
      for (const std::string& node : unsupported->nodes()) nodes.append(QuotingText(node));
      instance.attr("nodes") = nodes;
    }
    PyErr_SetObject(cls.ptr(), instance.ptr());
  }
}

}  // namespace

void BindErrors(nb::module_& module) {
  module.def("register_error", [](const std::string& kind, nb::object cls) { ErrorClasses()[kind] = std::move(cls); });
  nb::register_exception_translator(Translate);
}

void BindFunctions(nb::module_& module) {
  module.def("call",
             [](const Handle& function, nb::args arguments) { return CallPacked(Function(function), arguments); });
  module.def("to_function", [](nb::object function) { return FromObjectRef(ToPackedFunc(std::move(function))); });
  module.def("get_global", [](const std::string& name) { return FromObjectRef(Registry::Get(name)); });
  module.def("require_global", [](const std::string& name) { return FromObjectRef(Registry::Require(name)); });
  module.def("register_global", [](const std::string& name, nb::object function, bool override) {
    const bool packed = nb::isinstance<Handle>(function);
    Registry::Register(name, packed ? Function(nb::cast<Handle&>(function)) : ToPackedFunc(std::move(function)),
                       override);
  });
  module.def("remove_global", &Registry::Remove);
  module.def("list_globals", &Registry::ListNames);

  module.def("module_type", [](const Handle& self) { return ModuleOf(self).module_type(); });
  module.def("module_function", [](const Handle& self, const std::string& name, bool imports) {
    return FromObjectRef(ModuleOf(self).GetFunction(name, imports));
  });
  module.def("module_import", [](const Handle& self, const Handle& other) { ModuleOf(self).Import(ModuleOf(other)); });
  module.def("module_imports", [](const Handle& self) {
    nb::list imports;
    for (const Module& import : ModuleOf(self).imports()) imports.append(FromObjectRef(import));
    return imports;
  });
  module.def("module_source",
             [](const Handle& self, const std::string& format) { return ModuleOf(self)->GetSource(format); });
  module.def("module_save", [](const Handle& self, const std::string& path, const std::string& format) {
    ModuleOf(self)->SaveToFile(path, format);
  });
  module.def("module_load", [](const std::string& path, const std::string& format) {
    nb::gil_scoped_release unlocked;
    Module loaded = Module::LoadFromFile(path, format);
    nb::gil_scoped_acquire lock;
    return FromObjectRef(loaded);
  });
}

}  // namespace treadle::python

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // classes and callbacks registered for the life of the process
  treadle::python::BindErrors(module);
  treadle::python::BindObject(module);
  treadle::python::BindNDArray(module);
  treadle::python::BindFunctions(module);
  treadle::python::BindModel(module);
  treadle::python::BindStrings(module);
  treadle::python::RegisterApi();
}
