// SPDX-License-Identifier: Apache-2.0
// The run-time classes of code generators written for TVM 0.6 to 0.8, under their names: what such code needs are other
// include lines and the namespace treadle::familiar in place of tvm. New code uses region_module.h. Needs the runtime
// only.
//
// Differences on purpose: a name is registered over what is there; a module whose GetFunction fails doesn't have that
// function; fatal errors are thrown as treadle::Error.
#pragma once

#include <algorithm>
#include <cstring>
#include <locale>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/packed_func.h"
#include "treadle/runtime/registry.h"

namespace treadle::familiar {

/// Throws what was written to it when the statement ends.
class FatalStream {
 public:
  FatalStream() { text_.imbue(std::locale::classic()); }
  explicit FatalStream(const char* condition) : FatalStream() { text_ << "check failed: " << condition << " "; }
  [[noreturn]] ~FatalStream() noexcept(false) { throw Error(text_.str()); }
  std::ostringstream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

namespace dmlc {

/// Bytes that are written, or read, in order.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual size_t Read(void* data, size_t size) = 0;
  virtual void Write(const void* data, size_t size) = 0;

  template <typename T>
  void Write(const T& value) {
    if constexpr (std::is_convertible_v<T, std::string>) {
      const std::string text = value;
      Write(static_cast<uint64_t>(text.size()));
      Write(static_cast<const void*>(text.data()), text.size());
    } else {
      static_assert(std::is_trivially_copyable_v<T>, "only plain values and strings");
      Write(static_cast<const void*>(&value), sizeof(T));
    }
  }
  /// False when the bytes end before.
  template <typename T>
  bool Read(T* value) {
    if constexpr (std::is_same_v<T, std::string>) {
      uint64_t size = 0;
      if (!Read(&size) || size > Remaining()) return false;
      value->resize(size);
      return Read(static_cast<void*>(value->data()), size) == size;
    } else {
      static_assert(std::is_trivially_copyable_v<T>, "only plain values and strings");
      return Read(static_cast<void*>(value), sizeof(T)) == sizeof(T);
    }
  }

 protected:
  /// Bytes that can still be read.
  virtual size_t Remaining() const = 0;
};

}  // namespace dmlc

namespace detail {

class Writer final : public dmlc::Stream {
 public:
  explicit Writer(treadle::runtime::ByteWriter* to) : to_(to) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void*, size_t) override { return 0; }
  void Write(const void* data, size_t size) override { to_->WriteRaw(data, size); }
  size_t Remaining() const override { return 0; }

 private:
  treadle::runtime::ByteWriter* to_;
};

class Reader final : public dmlc::Stream {
 public:
  explicit Reader(const TreadleByteArray& bytes) : bytes_(bytes) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void* data, size_t size) override {
    const size_t count = std::min(size, Remaining());
    if (count != 0) std::memcpy(data, bytes_.data + position_, count);
    position_ += count;
    return count;
  }
  void Write(const void*, size_t) override { throw Error("this stream is read"); }
  size_t Remaining() const override { return bytes_.size - position_; }

 private:
  TreadleByteArray bytes_;
  size_t position_ = 0;
};

}  // namespace detail

namespace runtime {

using namespace treadle::runtime;  // NOLINT(google-build-using-namespace): the names below hide those that differ

using Object = treadle::Object;
template <typename T>
using ObjectPtr = treadle::ObjectPtr<T>;
using ObjectRef = treadle::ObjectRef;
using TVMValue = TreadleValue;
using TVMRetValue = treadle::runtime::RetValue;

inline constexpr int kArrayHandle = kTreadleDLTensor, kTVMDLTensorHandle = kTreadleDLTensor;
inline constexpr int kNDArrayContainer = kTreadleNDArray, kTVMNDArrayHandle = kTreadleNDArray;

template <typename T, typename... Args>
ObjectPtr<T> make_object(Args&&... args) {
  return treadle::MakeObject<T>(std::forward<Args>(args)...);
}

inline bool TypeMatch(DataType type, int code, int bits, int lanes = 1) {
  const DLDataType given = type;
  return given.code == code && given.bits == bits && given.lanes == lanes;
}

/// An argument that converts by itself.
class TVMArgValue : public ArgValue {
 public:
  TVMArgValue(const ArgValue& value) : ArgValue(value) {}  // NOLINT(google-explicit-constructor)
  template <typename T>
  operator T() const {  // NOLINT(google-explicit-constructor)
    return As<T>();
  }
};

class TVMArgs : public Args {
 public:
  TVMArgs(const Args& args) : Args(args) {}  // NOLINT(google-explicit-constructor)
  TVMArgs(const TVMValue* values, const int* type_codes, int num_args) : Args(values, type_codes, num_args) {}
  TVMArgValue operator[](int i) const { return Args::operator[](i); }
};

/// Writes arguments of a call.
class TVMArgsSetter {
 public:
  TVMArgsSetter(TVMValue* values, int* type_codes) : packer_(values, type_codes) {}
  template <typename T>
  void operator()(size_t i, const T& value) {
    packer_.Set(static_cast<int>(i), value);
  }

 private:
  ArgPacker packer_;
};

class PackedFunc : public treadle::runtime::PackedFunc {
 public:
  PackedFunc() = default;
  PackedFunc(std::nullptr_t) {}                                                               // NOLINT
  PackedFunc(treadle::runtime::PackedFunc f) : treadle::runtime::PackedFunc(std::move(f)) {}  // NOLINT
  template <typename F, typename = std::enable_if_t<std::is_invocable_v<F, TVMArgs, TVMRetValue*>>>
  explicit PackedFunc(F body)
      : treadle::runtime::PackedFunc(Body([body](Args args, RetValue* ret) mutable { body(TVMArgs(args), ret); })) {}
};

/// What an exported function does. It keeps nothing: its library may be closed while objects are destroyed. Calls
/// `function`, with the packed convention's result and errors.
inline int CallExported(const PackedFunc& function, TVMValue* args, int* type_codes, int num_args, TVMValue* ret,
                        int* ret_code) {
  try {
    TVMRetValue result;
    function.CallPacked(Args(args, type_codes, num_args), &result);
    std::move(result).MoveToC(ret, ret_code);
    return 0;
  } catch (...) {
    return SetLastErrorFromException();
  }
}

class NDArray : public treadle::runtime::NDArray {
 public:
  NDArray() = default;
  explicit NDArray(ObjectPtr<Object> data) : treadle::runtime::NDArray(std::move(data)) {}
  NDArray(treadle::runtime::NDArray array) : treadle::runtime::NDArray(std::move(array)) {}  // NOLINT
  static NDArray Empty(const std::vector<int64_t>& shape, DLDataType dtype, DLDevice device) {
    return treadle::runtime::NDArray::Empty(shape, DataType(dtype), device);
  }
  using treadle::runtime::NDArray::CopyFrom;
  using treadle::runtime::NDArray::CopyTo;
  void CopyFrom(const DLTensor* other) const { CopyFrom(*other); }
  void CopyTo(const DLTensor* other) const { CopyTo(*other); }
};

/// A module whose class has type_key, GetFunction, SaveToBinary and GetSource as in TVM.
class ModuleNode : public treadle::runtime::ModuleNode {
 public:
  virtual const char* type_key() const = 0;
  virtual PackedFunc GetFunction(const std::string& name, const ObjectPtr<Object>& sptr_to_self) = 0;
  virtual void SaveToBinary(dmlc::Stream*) {
    throw Error(StrCat("modules of type ", type_key(), " can't be stored: they have no SaveToBinary"));
  }
  virtual std::string GetSource(const std::string& /*format*/) { return ""; }

  std::string module_type() const final { return type_key(); }
  treadle::runtime::PackedFunc GetFunction(const std::string& name) const final {
    try {
      return Self()->GetFunction(name, ObjectPtr<Object>(Self()));
    } catch (const Error&) {
      return nullptr;  // other modules may have it
    }
  }
  void SaveToBinary(ByteWriter* writer) const final {
    detail::Writer stream(writer);
    Self()->SaveToBinary(&stream);
  }
  std::string GetSource(const std::string& format) const final { return Self()->GetSource(format); }

 private:
  ModuleNode* Self() const { return const_cast<ModuleNode*>(this); }
};

/// A name that gets a function; see TVM_REGISTER_GLOBAL.
class GlobalName {
 public:
  /// Loaders are called "runtime.module.load..." now; the older "module.load..." is the same.
  explicit GlobalName(std::string name) : name_(std::move(name)) {
    if (name_.rfind("module.load", 0) == 0) name_ = "runtime." + name_;
  }
  template <typename F>
  GlobalName& set_body(F body) {
    return Set(PackedFunc(std::move(body)));
  }
  template <typename F>
  GlobalName& set_body_typed(F function) {
    auto typed = treadle::runtime::PackedFunc::FromTyped(std::move(function));
    if (name_.rfind("runtime.module.loadbinary_", 0) != 0) return Set(typed);
    return Set(PackedFunc([typed](TVMArgs args, TVMRetValue* ret) {
      if (args[0].type_code() != kTreadleBytes) args[0].ThrowMismatch("bytes");
      detail::Reader stream(*static_cast<const TreadleByteArray*>(args[0].value().v_handle));
      *ret = typed(static_cast<void*>(static_cast<dmlc::Stream*>(&stream)));
    }));
  }

 private:
  GlobalName& Set(const treadle::runtime::PackedFunc& function) {
    treadle::runtime::Registry::Register(name_, function, /*override=*/true);
    return *this;
  }
  std::string name_;
};

class Registry {
 public:
  static GlobalName Register(const std::string& name, bool /*can_override*/ = false) { return GlobalName(name); }
  /// The function, or null; valid until the program ends.
  static const PackedFunc* Get(const std::string& name) {
    treadle::runtime::PackedFunc found = treadle::runtime::Registry::Get(name);
    return found.defined() ? new PackedFunc(found) : nullptr;  // as many as there are calls: registration asks once
  }
};

}  // namespace runtime

using runtime::NDArray;
using runtime::PackedFunc;
using runtime::Registry;
using runtime::TVMArgs;
using runtime::TVMRetValue;

}  // namespace treadle::familiar

#define TREADLE_FAMILIAR_JOIN_(a, b) a##b
#define TREADLE_FAMILIAR_JOIN(a, b) TREADLE_FAMILIAR_JOIN_(a, b)
#define TVM_REGISTER_GLOBAL(name)                                                         \
  [[maybe_unused]] static ::treadle::familiar::runtime::GlobalName TREADLE_FAMILIAR_JOIN( \
      familiar_global_, __COUNTER__) = ::treadle::familiar::runtime::GlobalName(name)

/// A function of plain C++ types becomes one that a library exports and load_module finds: it unpacks its arguments.
#define TVM_DLL_EXPORT_TYPED_FUNC(Name, Function) \
  TREADLE_FAMILIAR_EXPORT(Name, ::treadle::familiar::runtime::PackedFunc::FromTyped(Function))
/// The same of a function (TVMArgs, TVMRetValue*).
#define TVM_DLL_EXPORT_PACKED_FUNC(Name, Function) \
  TREADLE_FAMILIAR_EXPORT(Name, ::treadle::familiar::runtime::PackedFunc(Function))
#define TREADLE_FAMILIAR_EXPORT(Name, Packed)                                                                          \
  extern "C" TREADLE_API int Name(TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret, int* ret_code, \
                                  void* /*resource*/);                                                                 \
  int Name(TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret, int* ret_code, void*) {               \
    return ::treadle::familiar::runtime::CallExported(Packed, args, type_codes, num_args, ret, ret_code);              \
  }                                                                                                                    \
  extern "C" int Name(TreadleValue*, int*, int, TreadleValue*, int*, void*)

#ifndef LOG
#define TREADLE_FAMILIAR_LOG_FATAL ::treadle::familiar::FatalStream().stream()
#define LOG(level) TREADLE_FAMILIAR_LOG_##level
#endif
#ifndef ICHECK
#define ICHECK(condition) \
  if (condition) {        \
  } else /* NOLINT */     \
    ::treadle::familiar::FatalStream(#condition).stream()
#define ICHECK_EQ(a, b) ICHECK((a) == (b))
#define ICHECK_NE(a, b) ICHECK((a) != (b))
#define ICHECK_LT(a, b) ICHECK((a) < (b))
#define ICHECK_LE(a, b) ICHECK((a) <= (b))
#define ICHECK_GT(a, b) ICHECK((a) > (b))
#define ICHECK_GE(a, b) ICHECK((a) >= (b))
#endif
