// SPDX-License-Identifier: Apache-2.0
// Strings of tensors as bytes and back, in the form that src/runtime/vm/host/values.cc describes: each its length in 8
// bytes, then its characters. What isn't UTF-8 survives as surrogates.
#include <nanobind/nanobind.h>

#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "python/convert.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"

namespace treadle::python {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t);

/// The strings as objects, and the offset behind them. Labels come again and again, as the same object then.
nb::tuple ReadStrings(const nb::bytes& bytes, size_t at, size_t count) {
  const std::string_view data(bytes.c_str(), bytes.size());
  const auto check = [&](uint64_t wanted) {
    if (at <= data.size() && wanted <= data.size() - at) return;
    throw ModelFormatError(StrCat("truncated value: ", wanted, " bytes wanted at offset ", at, " of ", data.size()));
  };
  std::unordered_map<std::string_view, nb::object> known;
  nb::list strings;
  for (size_t i = 0; i < count; ++i) {
    check(kLengthBytes);
    uint64_t length = 0;
    std::memcpy(&length, data.data() + at, kLengthBytes);
    at += kLengthBytes;
    check(length);
    const std::string_view text = data.substr(at, length);
    at += length;
    nb::object& object = known[text];
    if (!object.is_valid()) {
      object = nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
      if (!object.is_valid()) throw nb::python_error();
    }
    strings.append(object);
  }
  return nb::make_tuple(strings, at);
}

void Append(std::string* out, std::string_view text) {
  const uint64_t length = text.size();
  out->append(reinterpret_cast<const char*>(&length), kLengthBytes);
  out->append(text);
}

/// The bytes of objects: of bytes as they are, of others what str() makes of them.
nb::bytes PackStrings(const nb::list& objects) {
  std::string out;
  for (nb::handle object : objects) {
    if (PyBytes_Check(object.ptr())) {
      Append(&out, {PyBytes_AS_STRING(object.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(object.ptr()))});
      continue;
    }
    const nb::object text = nb::steal(PyObject_Str(object.ptr()));
    if (!text.is_valid()) throw nb::python_error();
    Py_ssize_t size = 0;
    if (const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size)) {
      Append(&out, {utf8, static_cast<size_t>(size)});
      continue;
    }
    PyErr_Clear();  // surrogates
    const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
    if (!encoded.is_valid()) throw nb::python_error();
    Append(&out, {PyBytes_AS_STRING(encoded.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(encoded.ptr()))});
  }
  return nb::bytes(out.data(), out.size());
}

}  // namespace

void BindStrings(nb::module_& module) {
  module.def("read_strings", &ReadStrings);
  module.def("pack_strings", &PackStrings);
}

}  // namespace treadle::python
