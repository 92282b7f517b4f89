// SPDX-License-Identifier: Apache-2.0
#include "python/convert.h"

#include <nanobind/stl/string.h>

#include <limits>
#include <memory>
#include <unordered_map>

#include "treadle/base/error.h"
#include "treadle/ir/expr.h"
#include "treadle/runtime/module.h"

namespace treadle::python {
namespace {

using runtime::Args;
using runtime::ArgValue;
using runtime::Device;
using runtime::PackedFunc;
using runtime::RetValue;

/// Python classes by type key. Never destroyed: the interpreter may be gone by then.
std::unordered_map<std::string, nb::object>& ObjectClasses() {
  static auto* classes = new std::unordered_map<std::string, nb::object>();
  return *classes;
}

nb::handle ClassOf(const TypeInfo* type) {
  for (const TypeInfo* t = type; t != nullptr; t = t->parent) {
    auto it = ObjectClasses().find(t->key);
    if (it != ObjectClasses().end()) return it->second;
  }
  return nb::type<Handle>();
}

nb::object DTypeClass() {
  static auto* cls = new nb::object(nb::module_::import_("treadle._dtype").attr("DataType"));
  return *cls;
}

nb::object NumPyGeneric() {
  static auto* cls = new nb::object(nb::module_::import_("numpy").attr("generic"));
  return *cls;
}

/// Any bytes pass: those that aren't UTF-8 as Python's escapes of them.
nb::object TextObject(const std::string& text) {
  nb::object result =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  if (!result.is_valid()) nb::raise_python_error();
  return result;
}

std::string TextOf(nb::handle value) {
  nb::object encoded = nb::steal(PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogateescape"));
  if (!encoded.is_valid()) {
    PyErr_Clear();
    throw DTypeError("a Python str with surrogates can't be passed: it isn't text in any encoding");
  }
  auto bytes = nb::cast<nb::bytes>(encoded);
  return std::string(bytes.c_str(), bytes.size());
}

[[noreturn]] void ThrowUnconvertible(nb::handle value) {
  throw DTypeError(StrCat("a Python ", nb::type_name(value.type()).c_str(),
                          " can't be passed to a packed function; expected None, a number, str, bytes, dtype, device, "
                          "array, function, module, node, or a list, tuple or dict of these"));
}

/// NumPy's numbers, and its arrays of rank 0 from `x[()]`: as Python numbers.
bool IsNumPyScalar(nb::handle value) {
  return nb::hasattr(value, "item") && nb::hasattr(value, "dtype") && nb::isinstance(value, NumPyGeneric());
}

bool IsArrayLike(nb::handle value) {
  return nb::hasattr(value, "__dlpack__") || nb::hasattr(value, "__array_interface__");
}

NDArray ArrayFromPython(nb::handle value) {
  nb::object array = nb::module_::import_("treadle._nd").attr("array")(value);
  return NDArray(nb::cast<Handle&>(array).ref.data());
}

ObjectRef ImmediateOf(nb::handle value) {
  const auto number = nb::cast<int64_t>(value);
  const bool small = number >= std::numeric_limits<int32_t>::min() && number <= std::numeric_limits<int32_t>::max();
  return IntImm(DataType::Int(small ? 32 : 64), number);
}

/// A Python function in a PackedFunc. Copies share the function; it is released under the interpreter's lock.
class Callback {
 public:
  explicit Callback(nb::object function) : function_(ShareOwner(std::move(function))) {}

  void operator()(Args args, RetValue* ret) const {
    nb::gil_scoped_acquire lock;
    nb::list values;
    for (int i = 0; i < args.size(); ++i) values.append(FromArgValue(args[i]));
    nb::handle function(static_cast<PyObject*>(function_.get()));
    nb::object result = function(*nb::tuple(values));
    SetResult(result, ret);
  }

 private:
  static void SetResult(nb::handle result, RetValue* ret) {
    if (result.is_none()) {
      ret->SetNull();
    } else if (nb::isinstance<nb::bool_>(result)) {
      *ret = nb::cast<bool>(result);
    } else if (nb::isinstance<nb::int_>(result)) {
      *ret = nb::cast<int64_t>(result);
    } else if (nb::isinstance<nb::float_>(result)) {
      *ret = nb::cast<double>(result);
    } else if (nb::isinstance<nb::str>(result)) {
      *ret = TextOf(result);
    } else if (nb::isinstance<nb::bytes>(result)) {
      auto bytes = nb::cast<nb::bytes>(result);
      ret->SetString(std::string(bytes.c_str(), bytes.size()), kTreadleBytes);
    } else if (nb::isinstance<Device>(result)) {
      *ret = nb::cast<Device>(result);
    } else {
      *ret = ToObjectRef(result);
    }
  }

  std::shared_ptr<void> function_;
};

}  // namespace

std::shared_ptr<void> ShareOwner(nb::object object) {
  return {object.release().ptr(), [](void* owned) {
            if (Py_IsInitialized() == 0) return;  // at exit: the interpreter has freed it
            nb::gil_scoped_acquire lock;
            Py_DECREF(static_cast<PyObject*>(owned));
          }};
}

void RegisterObjectClass(const std::string& type_key, nb::object cls) { ObjectClasses()[type_key] = std::move(cls); }

nb::object FromObjectRef(const ObjectRef& ref) {
  if (!ref.defined()) return nb::none();
  if (const auto* text = ref.as<StringNode>()) return TextObject(text->value);
  nb::handle cls = ClassOf(ref->type_info());
  nb::object instance = nb::inst_alloc(cls);
  new (nb::inst_ptr<Handle>(instance)) Handle{ref};
  nb::inst_mark_ready(instance);
  return instance;
}

nb::object FromArgValue(const ArgValue& value) {
  switch (value.type_code()) {
    case kTreadleNull:
      return nb::none();
    case kTreadleInt:
      return nb::int_(value.As<int64_t>());
    case kTreadleFloat:
      return nb::float_(value.As<double>());
    case kTreadleStr:
      return TextObject(value.AsString());
    case kTreadleBytes: {
      const std::string text = value.AsString();
      return nb::bytes(text.data(), text.size());
    }
    case kTreadleDataType:
      return DTypeClass()(value.As<DataType>().str());
    case kTreadleDevice:
      return nb::cast(value.As<Device>());
    case kTreadleHandle:
      return nb::int_(reinterpret_cast<uintptr_t>(value.value().v_handle));
    case kTreadleDLTensor: {
      // The caller keeps the memory only for the time of the call.
      const DLTensor* tensor = value.AsDLTensor();
      std::vector<int64_t> shape(tensor->shape, tensor->shape + tensor->ndim);
      char* data = static_cast<char*>(tensor->data) + tensor->byte_offset;
      return FromObjectRef(NDArray::View(data, shape, DataType(tensor->dtype), tensor->device, nullptr));
    }
    default:
      return FromObjectRef(value.AsObjectRef());
  }
}

nb::object FromRetValue(const RetValue& value) { return FromArgValue(value.view()); }

PackedFunc ToPackedFunc(nb::object function) { return PackedFunc(Callback(std::move(function))); }

ObjectRef ToObjectRef(nb::handle value) {
  if (value.is_none()) return ObjectRef();
  if (nb::isinstance<Handle>(value)) return nb::cast<Handle&>(value).ref;
  if (nb::isinstance<nb::bool_>(value)) return IntImm(DataType::Bool(), nb::cast<bool>(value) ? 1 : 0);
  if (nb::isinstance<nb::int_>(value)) return ImmediateOf(value);
  if (nb::isinstance<nb::float_>(value)) return FloatImm(DataType::Float(64), nb::cast<double>(value));
  if (nb::isinstance<nb::str>(value)) return String(TextOf(value));
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::vector<ObjectRef> items;
    for (nb::handle item : value) items.push_back(ToObjectRef(item));
    return Array<ObjectRef>(items);
  }
  if (nb::isinstance<nb::dict>(value)) {
    Map<ObjectRef, ObjectRef> map;
    for (auto [key, item] : nb::cast<nb::dict>(value)) map.Set(ToObjectRef(key), ToObjectRef(item));
    return map;
  }
  if (IsNumPyScalar(value)) return ToObjectRef(value.attr("item")());
  if (IsArrayLike(value)) return ArrayFromPython(value);
  if (PyCallable_Check(value.ptr()) != 0) return ToPackedFunc(nb::borrow(value));
  ThrowUnconvertible(value);
}

PackedArgs::PackedArgs(nb::args arguments) : values_(arguments.size()), codes_(arguments.size(), kTreadleNull) {
  for (size_t i = 0; i < arguments.size(); ++i) Set(i, arguments[i]);
}

Args PackedArgs::args() const { return Args(values_.data(), codes_.data(), static_cast<int>(values_.size())); }

void PackedArgs::Set(size_t i, nb::handle value) {
  runtime::ArgPacker packer(values_.data(), codes_.data());
  const int at = static_cast<int>(i);
  if (value.is_none()) {
    packer.Set(at, nullptr);
  } else if (nb::isinstance<nb::bool_>(value)) {
    packer.Set(at, static_cast<int64_t>(nb::cast<bool>(value)));
  } else if (nb::isinstance<nb::int_>(value)) {
    packer.Set(at, nb::cast<int64_t>(value));
  } else if (nb::isinstance<nb::float_>(value)) {
    packer.Set(at, nb::cast<double>(value));
  } else if (nb::isinstance<nb::str>(value)) {
    SetText(at, TextOf(value), /*is_text=*/true);
  } else if (nb::isinstance<nb::bytes>(value)) {
    auto bytes = nb::cast<nb::bytes>(value);
    SetText(at, std::string(bytes.c_str(), bytes.size()), /*is_text=*/false);
  } else if (nb::isinstance<Device>(value)) {
    packer.Set(at, nb::cast<Device>(value));
  } else if (IsNumPyScalar(value)) {
    Set(i, value.attr("item")());
  } else {
    packer.Set(at, objects_.emplace_back(ToObjectRef(value)));
  }
}

void PackedArgs::SetText(int at, std::string value, bool is_text) {
  runtime::ArgPacker packer(values_.data(), codes_.data());
  const std::string& text = texts_.emplace_back(std::move(value));
  if (is_text && text.find('\0') == std::string::npos) {
    packer.Set(at, text);
  } else {
    packer.Set(at, &bytes_.emplace_back(TreadleByteArray{text.data(), text.size()}));
  }
}

nb::object CallPacked(const PackedFunc& function, nb::args arguments) {
  PackedArgs packed(arguments);
  RetValue result;
  {
    nb::gil_scoped_release unlocked;
    function.CallPacked(packed.args(), &result);
  }
  return FromRetValue(result);
}

}  // namespace treadle::python
