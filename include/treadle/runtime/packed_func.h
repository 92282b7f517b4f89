// SPDX-License-Identifier: Apache-2.0
// Functions with dynamically typed arguments: what crosses between C++, compiled code, C and Python.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "treadle/runtime/c_types.h"
#include "treadle/runtime/container.h"
#include "treadle/runtime/data_type.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/object.h"

namespace treadle::runtime {

class PackedFunc;
class Module;
class RetValue;

/// "int", "float", "str", ... of a TreadleTypeCode.
const char* TypeCodeName(int code);

/// How C++ types that the conversions below don't know are made from an argument. Specialise with
/// `static T From(const ArgValue&)`.
template <typename T, typename = void>
struct ArgConverter;

/// One argument or result, not owned.
class ArgValue {
 public:
  ArgValue() = default;
  /// `index` is the argument's position, for error texts; -1 for a result.
  ArgValue(TreadleValue value, int code, int index = -1) : value_(value), code_(code), index_(index) {}

  int type_code() const { return code_; }
  const TreadleValue& value() const { return value_; }
  int index() const { return index_; }
  bool is_null() const { return code_ == kTreadleNull; }

  /// The value as a T; a mismatch is a DTypeError that names the argument, the type wanted and the one given.
  template <typename T>
  T As() const;
  /// The object of codes 8, 9, 10 and 13, a String for text; null for null.
  ObjectRef AsObjectRef() const;
  /// The DLTensor of codes 7 and 13 (and of an NDArray passed as object).
  DLTensor* AsDLTensor() const;
  bool IsText() const;
  std::string AsString() const;
  [[noreturn]] void ThrowMismatch(const std::string& expected) const;

 private:
  int64_t AsInt64() const;
  double AsDouble() const;
  DataType AsDataType() const;
  Device AsDevice() const;
  void* AsHandle() const;
  /// The object of class `type`, or null.
  ObjectRef AsObjectOf(const TypeInfo* type) const;

  TreadleValue value_{};
  int code_ = kTreadleNull;
  int index_ = -1;
};

/// The arguments of a call, not owned.
class Args {
 public:
  Args(const TreadleValue* values, const int* type_codes, int num_args)
      : values(values), type_codes(type_codes), num_args(num_args) {}
  const TreadleValue* values;
  const int* type_codes;
  int num_args;

  int size() const { return num_args; }
  /// Throws when there are fewer arguments.
  ArgValue operator[](int i) const;
};

/// The result of a call, owned.
class RetValue {
 public:
  RetValue() = default;

  /// Sets the value; takes what PackedFunc arguments can be.
  template <typename T>
  RetValue& operator=(T&& value);
  void SetNull() { SetPod({}, kTreadleNull); }

  int type_code() const { return code_; }
  bool is_null() const { return code_ == kTreadleNull; }
  /// A view, valid as long as this value.
  ArgValue view() const {
    TreadleValue value = value_;
    // Text lives in an object, but its descriptor in this value, which may have been copied.
    if (code_ == kTreadleBytes) value.v_handle = const_cast<TreadleByteArray*>(&byte_array_);
    return ArgValue(value, code_);
  }
  template <typename T>
  T As() const {
    return view().As<T>();
  }
  template <typename T>
  operator T() const {  // NOLINT(google-explicit-constructor)
    return As<T>();
  }

  /// Takes over what a function of the packed convention left in `value`.
  static RetValue FromC(TreadleValue value, int code);
  /// Stores into a C result; the reference of an object moves to the receiver. Text is kept alive by the calling
  /// thread until its next call of MoveToC.
  void MoveToC(TreadleValue* value, int* code) &&;

  void SetPod(TreadleValue value, int code) {
    value_ = value;
    code_ = code;
    object_ = ObjectRef();
  }
  void SetObject(const ObjectRef& object);
  void SetString(std::string text, int code = kTreadleStr);

 private:
  TreadleValue value_{};
  int code_ = kTreadleNull;
  ObjectRef object_;  ///< owner of what value_ points to; text is held as a String
  TreadleByteArray byte_array_{};
};

/// A function of the packed convention as an object.
class PackedFuncNode : public Object {
 public:
  virtual void Call(Args args, RetValue* ret) const = 0;
  /// Compiled functions: their address, and the resource to pass; null for others.
  virtual TreadlePackedCFunc c_func() const { return nullptr; }
  virtual void* c_resource() const { return nullptr; }
  TREADLE_DECLARE_NODE(PackedFuncNode, Object, "runtime.PackedFunc");
};

class PackedFunc : public ObjectRef {
 public:
  using Body = std::function<void(Args, RetValue*)>;
  TREADLE_BASE_REF(PackedFunc, ObjectRef, PackedFuncNode);

  PackedFunc(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit PackedFunc(Body body);
  /// A compiled function; `owner` (the library that holds the code) lives as long as this reference.
  static PackedFunc FromC(TreadlePackedCFunc function, void* resource, ObjectRef owner, std::string name = "");
  /// Wraps any callable whose parameters and result are convertible.
  template <typename F>
  static PackedFunc FromTyped(F function);

  void CallPacked(Args args, RetValue* ret) const { get()->Call(args, ret); }
  template <typename... A>
  RetValue operator()(A&&... args) const;
  explicit operator bool() const { return defined(); }
  bool operator==(std::nullptr_t) const { return !defined(); }
  bool operator!=(std::nullptr_t) const { return defined(); }
};

/// Converts C++ values to arguments. Keeps the temporaries that they need.
class ArgPacker {
 public:
  ArgPacker(TreadleValue* values, int* codes) : values_(values), codes_(codes) {}
  template <typename T>
  void Set(int i, const T& value);

 private:
  TreadleValue* values_;
  int* codes_;
};

namespace detail {
template <typename T>
inline constexpr bool kAlwaysFalse = false;
template <typename T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

/// Signature of a lambda, function object or function pointer.
template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename R, typename... A>
struct Signature<R (*)(A...)> {
  using Type = R(A...);
};
template <typename C, typename R, typename... A>
struct Signature<R (C::*)(A...) const> {
  using Type = R(A...);
};
template <typename C, typename R, typename... A>
struct Signature<R (C::*)(A...)> {
  using Type = R(A...);
};

[[noreturn]] void ThrowArity(int expected, int got);
/// Stores a pointer to the object (which the caller keeps alive) and returns its type code.
int BorrowObject(const ObjectRef& object, TreadleValue* value);

template <typename F, typename R, typename... A, size_t... I>
void Unpack(const F& function, Args args, RetValue* ret, std::index_sequence<I...>) {
  if (args.num_args != static_cast<int>(sizeof...(A))) ThrowArity(sizeof...(A), args.num_args);
  if constexpr (std::is_void_v<R>) {
    function(args[static_cast<int>(I)].template As<Bare<A>>()...);
  } else {
    *ret = function(args[static_cast<int>(I)].template As<Bare<A>>()...);
  }
}
template <typename F, typename R, typename... A>
PackedFunc Wrap(F function, R (*)(A...)) {
  if constexpr (std::is_empty_v<F> && std::is_default_constructible_v<F>) {
    // A lambda that captures nothing: a plain function, of which PackedFunc needs no code of its own.
    void (*call)(Args, RetValue*) = [](Args args, RetValue* ret) {
      Unpack<F, R, A...>(F(), args, ret, std::index_sequence_for<A...>());
    };
    return PackedFunc(PackedFunc::Body(call));
  } else {
    return PackedFunc([function = std::move(function)](Args args, RetValue* ret) mutable {
      Unpack<F, R, A...>(function, args, ret, std::index_sequence_for<A...>());
    });
  }
}
}  // namespace detail

/// A packed function whose calls are checked by the C++ compiler.
template <typename Signature>
class TypedPackedFunc;
template <typename R, typename... A>
class TypedPackedFunc<R(A...)> {
 public:
  TypedPackedFunc() = default;
  TypedPackedFunc(PackedFunc packed) : packed_(std::move(packed)) {}  // NOLINT(google-explicit-constructor)
  R operator()(A... args) const {
    if constexpr (std::is_void_v<R>) {
      packed_(args...);
    } else {
      return packed_(args...).template As<R>();
    }
  }
  const PackedFunc& packed() const { return packed_; }

 private:
  PackedFunc packed_;
};

template <typename T>
T ArgValue::As() const {
  if constexpr (std::is_same_v<T, ArgValue>) {
    return *this;
  } else if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T> || std::is_enum_v<T>) {
    return static_cast<T>(AsInt64());
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(AsDouble());
  } else if constexpr (std::is_same_v<T, std::string>) {
    return AsString();
  } else if constexpr (std::is_same_v<T, DataType>) {
    return AsDataType();
  } else if constexpr (std::is_same_v<T, Device>) {
    return AsDevice();
  } else if constexpr (std::is_same_v<T, DLTensor*>) {
    return AsDLTensor();
  } else if constexpr (std::is_same_v<T, void*>) {
    return AsHandle();
  } else if constexpr (requires { ArgConverter<T>::From(*this); }) {
    return ArgConverter<T>::From(*this);
  } else if constexpr (std::is_base_of_v<ObjectRef, T>) {
    return T(AsObjectOf(T::ContainerType::StaticTypeInfo()).data());
  } else {
    static_assert(detail::kAlwaysFalse<T>, "no conversion from a packed argument to this type");
  }
}

template <typename T>
void ArgPacker::Set(int i, const T& value) {
  TreadleValue& to = values_[i];
  if constexpr (std::is_same_v<T, ArgValue>) {
    to = value.value();
    codes_[i] = value.type_code();
  } else if constexpr (std::is_same_v<T, RetValue>) {
    Set(i, value.view());
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    to.v_handle = nullptr;
    codes_[i] = kTreadleNull;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    to.v_int64 = static_cast<int64_t>(value);
    codes_[i] = kTreadleInt;
  } else if constexpr (std::is_floating_point_v<T>) {
    to.v_float64 = static_cast<double>(value);
    codes_[i] = kTreadleFloat;
  } else if constexpr (std::is_same_v<T, std::string>) {
    to.v_str = value.c_str();
    codes_[i] = kTreadleStr;
  } else if constexpr (std::is_convertible_v<T, const char*>) {
    to.v_str = value;
    codes_[i] = kTreadleStr;
  } else if constexpr (std::is_same_v<T, DataType> || std::is_same_v<T, DLDataType>) {
    to.v_type = value;
    codes_[i] = kTreadleDataType;
  } else if constexpr (std::is_same_v<T, Device>) {
    to.v_device = value;
    codes_[i] = kTreadleDevice;
  } else if constexpr (std::is_convertible_v<T, DLTensor*>) {
    to.v_handle = value;
    codes_[i] = kTreadleDLTensor;
  } else if constexpr (std::is_same_v<T, TreadleByteArray*> || std::is_same_v<T, const TreadleByteArray*>) {
    to.v_handle = const_cast<TreadleByteArray*>(value);
    codes_[i] = kTreadleBytes;
  } else if constexpr (std::is_same_v<T, void*>) {
    to.v_handle = value;
    codes_[i] = value == nullptr ? kTreadleNull : kTreadleHandle;
  } else {
    static_assert(std::is_base_of_v<ObjectRef, T>, "can't be passed to a packed function");
    codes_[i] = detail::BorrowObject(value, &to);
  }
}

template <typename T>
RetValue& RetValue::operator=(T&& value) {
  using B = detail::Bare<T>;
  if constexpr (std::is_same_v<B, RetValue>) {
    const RetValue& other = value;
    value_ = other.value_;
    code_ = other.code_;
    object_ = other.object_;
    byte_array_ = other.byte_array_;
  } else if constexpr (std::is_base_of_v<ObjectRef, B>) {
    SetObject(value);
  } else if constexpr (std::is_convertible_v<B, std::string>) {
    SetString(std::string(value));
  } else if constexpr (std::is_same_v<B, ArgValue>) {
    if (value.IsText()) {
      SetString(value.AsString(), value.type_code() == kTreadleBytes ? kTreadleBytes : kTreadleStr);
    } else if (value.type_code() >= kTreadleObject) {
      SetObject(value.AsObjectRef());
    } else {
      SetPod(value.value(), value.type_code());
    }
  } else {
    TreadleValue packed;
    int code;
    ArgPacker(&packed, &code).Set(0, value);
    SetPod(packed, code);
  }
  return *this;
}

template <typename... A>
RetValue PackedFunc::operator()(A&&... args) const {
  constexpr int kNum = sizeof...(A);
  TreadleValue values[kNum > 0 ? kNum : 1];
  int codes[kNum > 0 ? kNum : 1];
  ArgPacker packer(values, codes);
  int i = 0;
  (packer.Set(i++, args), ...);
  RetValue ret;
  CallPacked(Args(values, codes, kNum), &ret);
  return ret;
}

template <typename F>
PackedFunc PackedFunc::FromTyped(F function) {
  using S = typename detail::Signature<F>::Type;
  return detail::Wrap(std::move(function), static_cast<std::add_pointer_t<S>>(nullptr));
}

}  // namespace treadle::runtime
