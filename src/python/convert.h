// SPDX-License-Identifier: Apache-2.0
// Values that cross between Python and packed functions.
#pragma once

#include <nanobind/nanobind.h>

#include <deque>
#include <string>
#include <vector>

#include "treadle/runtime/packed_func.h"

namespace treadle::python {

namespace nb = nanobind;

/// Any reference, as the Python class `treadle.Object` (and the classes registered for its node types) holds it.
struct Handle {
  ObjectRef ref;
};

/// Instances of nodes of type `type_key` get the Python class `cls`, a subclass of Object.
void RegisterObjectClass(const std::string& type_key, nb::object cls);
/// The Python form of a reference: None, str for String, else an instance of the class registered for the node's
/// type or the nearest parent's.
nb::object FromObjectRef(const ObjectRef& ref);
/// The Python form of a result or an argument.
nb::object FromArgValue(const runtime::ArgValue& value);
nb::object FromRetValue(const runtime::RetValue& value);

/// A reference for a Python value: str -> String, list and tuple -> Array, dict -> Map, int and float -> immediates,
/// callable -> PackedFunc, NumPy arrays and others with __dlpack__ -> NDArray. Throws DTypeError for anything else.
ObjectRef ToObjectRef(nb::handle value);
/// A packed function that calls `function`; Python errors pass through the caller unchanged.
runtime::PackedFunc ToPackedFunc(nb::object function);

/// Arguments of a packed call, with what keeps them alive.
class PackedArgs {
 public:
  explicit PackedArgs(nb::args arguments);
  runtime::Args args() const;

 private:
  void Set(size_t i, nb::handle value);
  /// Text with zero bytes travels as bytes, which have a length.
  void SetText(int at, std::string value, bool is_text);

  std::vector<TreadleValue> values_;
  std::vector<int> codes_;
  std::deque<std::string> texts_;
  std::deque<TreadleByteArray> bytes_;
  std::deque<ObjectRef> objects_;
};

/// Calls without the lock of the interpreter; Python functions called from there take it again.
nb::object CallPacked(const runtime::PackedFunc& function, nb::args arguments);

/// Lets a Python object be owned by code that may release it from any thread.
std::shared_ptr<void> ShareOwner(nb::object object);

void BindErrors(nb::module_& module);
void BindObject(nb::module_& module);
void BindNDArray(nb::module_& module);
void BindFunctions(nb::module_& module);
void BindModel(nb::module_& module);
void BindStrings(nb::module_& module);

}  // namespace treadle::python
