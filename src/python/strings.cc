// SPDX-License-Identifier: Apache-2.0
// Strings of tensors, and maps, as bytes and back, in the form that src/runtime/vm/host/values.cc describes: a string
// is its length in 8 bytes, then its characters. What isn't UTF-8 survives as surrogates.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

/// The parts of a value, of which kinds 1, 2 and 5 (tensor, strings, sequence of maps) are read.
class Reader {
 public:
  Reader(const nb::bytes& bytes, size_t at) : bytes_(bytes), data_(bytes.c_str(), bytes.size()), at_(at) {}

  template <typename T>
  T Read() {
    T value;
    std::memcpy(&value, Take(1, sizeof(T)), sizeof(T));
    return value;
  }

  /// Numbers of a tensor of int64, float32 or float64, or strings, and the dimensions; nothing where it is another.
  std::optional<nb::list> Elements(std::vector<int64_t>* shape) {
    constexpr uint8_t kTensor = 1, kStrings = 2, kInt = 0, kFloat = 2;
    const auto kind = Read<uint8_t>();
    if (kind != kTensor && kind != kStrings) return std::nullopt;
    const uint8_t code = kind == kTensor ? Read<uint8_t>() : 0, bits = kind == kTensor ? Read<uint8_t>() : 0;
    const auto rank = Read<uint32_t>();
    int64_t count = 1;
    for (uint32_t d = 0; d < rank; ++d) {
      shape->push_back(Read<int64_t>());
      if (shape->back() < 0) throw ModelFormatError(StrCat("truncated value: a dimension is ", shape->back()));
      count = CheckedMul(count, shape->back(), "elements of a value");
    }
    if (kind == kStrings) {
      nb::tuple strings = ReadStrings(bytes_, at_, static_cast<size_t>(count));
      at_ = nb::cast<size_t>(strings[1]);
      return nb::cast<nb::list>(strings[0]);
    }
    if (code == kInt && bits == 64) return Numbers<int64_t>(count);
    if (code == kFloat && bits == 32) return Numbers<float>(count);
    if (code == kFloat && bits == 64) return Numbers<double>(count);
    return std::nullopt;
  }

 private:
  const char* Take(int64_t count, size_t size) {
    const size_t rest = data_.size() - std::min(at_, data_.size());
    if (static_cast<uint64_t>(count) > rest / size) {
      throw ModelFormatError(
          StrCat("truncated value: ", count, " times ", size, " bytes wanted at offset ", at_, " of ", data_.size()));
    }
    const char* begin = data_.data() + at_;
    at_ += static_cast<size_t>(count) * size;
    return begin;
  }

  template <typename T>
  nb::list Numbers(int64_t count) {
    nb::list list;
    const char* begin = Take(count, sizeof(T));
    for (int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, begin + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      list.append(value);
    }
    return list;
  }

  const nb::bytes& bytes_;
  std::string_view data_;
  size_t at_;
};

/// Maps with the same keys, from their offset on: keys, then a row of values for each, as classifiers give them for
/// samples. None where keys or values are of a type that isn't usual.
nb::object ReadMaps(const nb::bytes& bytes, size_t at) {
  Reader reader(bytes, at);
  std::vector<int64_t> shape_of_keys, shape;
  const std::optional<nb::list> keys = reader.Elements(&shape_of_keys);
  const std::optional<nb::list> values = keys ? reader.Elements(&shape) : std::nullopt;
  if (!values) return nb::none();
  const size_t columns = keys->size();
  if (shape_of_keys.size() != 1 || shape.size() != 2 || shape[1] != static_cast<int64_t>(columns)) {
    throw ModelFormatError(StrCat("maps of ", columns, " keys with ", values->size(), " values"));
  }
  nb::list maps;
  for (size_t row = 0; row < static_cast<size_t>(shape[0]); ++row) {
    nb::dict map;
    for (size_t i = 0; i < columns; ++i) {
      if (PyDict_SetItem(map.ptr(), PyList_GET_ITEM(keys->ptr(), static_cast<Py_ssize_t>(i)),
                         PyList_GET_ITEM(values->ptr(), static_cast<Py_ssize_t>(row * columns + i))) != 0) {
        throw nb::python_error();
      }
    }
    maps.append(map);
  }
  return maps;
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
  module.def("read_maps", &ReadMaps);
  module.def("pack_strings", &PackStrings);
}

}  // namespace treadle::python
