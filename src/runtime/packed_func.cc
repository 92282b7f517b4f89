// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/packed_func.h"

#include "treadle/base/error.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/module.h"

namespace treadle::runtime {

TREADLE_DEFINE_NODE(PackedFuncNode);

namespace {

class ClosureFunc final : public PackedFuncNode {
 public:
  explicit ClosureFunc(PackedFunc::Body body) : body_(std::move(body)) {}
  void Call(Args args, RetValue* ret) const override { body_(args, ret); }

 private:
  PackedFunc::Body body_;
};

class CompiledFunc final : public PackedFuncNode {
 public:
  CompiledFunc(TreadlePackedCFunc function, void* resource, ObjectRef owner, std::string name)
      : function_(function), resource_(resource), owner_(std::move(owner)), name_(std::move(name)) {}
  void Call(Args args, RetValue* ret) const override {
    TreadleValue value{};
    int code = kTreadleNull;
    const uint64_t errors = LastErrorCount();
    const int status = function_(const_cast<TreadleValue*>(args.values), const_cast<int*>(args.type_codes),
                                 args.num_args, &value, &code, resource_);
    if (status != 0) ThrowErrorOf(name_, status, errors);
    *ret = RetValue::FromC(value, code);
  }
  TreadlePackedCFunc c_func() const override { return function_; }
  void* c_resource() const override { return resource_; }

 private:
  TreadlePackedCFunc function_;
  void* resource_;
  ObjectRef owner_;
  std::string name_;
};

/// The object behind a value of an object code; borrowed.
Object* ObjectOf(const TreadleValue& value, int code) {
  if (code == kTreadleNDArray) {
    return const_cast<NDArrayNode*>(NDArray::FromHandle(static_cast<const DLTensor*>(value.v_handle)).get());
  }
  if (code == kTreadleObjectRValue) return *static_cast<Object**>(value.v_handle);
  return static_cast<Object*>(value.v_handle);
}

bool IsObjectCode(int code) {
  return code == kTreadleObject || code == kTreadleModule || code == kTreadlePackedFunc || code == kTreadleNDArray ||
         code == kTreadleObjectRValue;
}

}  // namespace

const char* TypeCodeName(int code) {
  switch (code) {
    case kTreadleInt:
      return "int";
    case kTreadleFloat:
      return "float";
    case kTreadleHandle:
      return "handle";
    case kTreadleNull:
      return "null";
    case kTreadleDataType:
      return "dtype";
    case kTreadleDevice:
      return "device";
    case kTreadleDLTensor:
      return "DLTensor";
    case kTreadleObject:
      return "object";
    case kTreadleModule:
      return "module";
    case kTreadlePackedFunc:
      return "function";
    case kTreadleStr:
      return "str";
    case kTreadleBytes:
      return "bytes";
    case kTreadleNDArray:
      return "NDArray";
    case kTreadleObjectRValue:
      return "object";
    default:
      return "unknown";
  }
}

int64_t ArgValue::AsInt64() const {
  if (code_ != kTreadleInt) ThrowMismatch("int");
  return value_.v_int64;
}

double ArgValue::AsDouble() const {
  if (code_ == kTreadleInt) return static_cast<double>(value_.v_int64);
  if (code_ != kTreadleFloat) ThrowMismatch("float");
  return value_.v_float64;
}

DataType ArgValue::AsDataType() const {
  if (IsText()) return DataType::FromString(AsString());
  if (code_ != kTreadleDataType) ThrowMismatch("dtype");
  return DataType(value_.v_type);
}

Device ArgValue::AsDevice() const {
  if (IsText()) return ParseDevice(AsString());
  if (code_ != kTreadleDevice) ThrowMismatch("device");
  return value_.v_device;
}

void* ArgValue::AsHandle() const {
  if (code_ == kTreadleNull) return nullptr;
  if (code_ != kTreadleHandle) ThrowMismatch("handle");
  return value_.v_handle;
}

ObjectRef ArgValue::AsObjectOf(const TypeInfo* type) const {
  ObjectRef object = AsObjectRef();
  if (object.defined() && !object->type_info()->IsA(type)) ThrowMismatch(type->key);
  return object;
}

namespace detail {

void ThrowArity(int expected, int got) {
  throw Error(StrCat("function takes ", expected, " argument", expected == 1 ? "" : "s", " but ", got,
                     got == 1 ? " was" : " were", " given"));
}

int BorrowObject(const ObjectRef& object, TreadleValue* value) {
  value->v_handle = const_cast<Object*>(object.get());
  if (!object.defined()) return kTreadleNull;
  if (const auto* array = object.as<NDArrayNode>()) {
    value->v_handle = const_cast<DLTensor*>(&array->tensor);
    return kTreadleNDArray;
  }
  if (const auto* text = object.as<StringNode>()) {
    value->v_str = text->value.c_str();
    return kTreadleStr;
  }
  if (object.as<ModuleNode>() != nullptr) return kTreadleModule;
  if (object.as<PackedFuncNode>() != nullptr) return kTreadlePackedFunc;
  return kTreadleObject;
}

}  // namespace detail

ObjectRef ArgValue::AsObjectRef() const {
  if (code_ == kTreadleNull) return ObjectRef();
  if (code_ == kTreadleStr || code_ == kTreadleBytes) return String(AsString());
  if (!IsObjectCode(code_)) ThrowMismatch("object");
  return ObjectRef(ObjectPtr<Object>(ObjectOf(value_, code_)));
}

DLTensor* ArgValue::AsDLTensor() const {
  switch (code_) {
    case kTreadleNull:
      return nullptr;
    case kTreadleDLTensor:
    case kTreadleNDArray:
      return static_cast<DLTensor*>(value_.v_handle);
    default:
      ThrowMismatch("tensor");
  }
}

bool ArgValue::IsText() const {
  if (code_ == kTreadleStr || code_ == kTreadleBytes) return true;
  return code_ == kTreadleObject && static_cast<Object*>(value_.v_handle)->IsInstance<StringNode>();
}

std::string ArgValue::AsString() const {
  if (!IsText()) ThrowMismatch("str");
  if (code_ == kTreadleStr) return value_.v_str;
  if (code_ == kTreadleObject) return static_cast<StringNode*>(value_.v_handle)->value;
  const auto* bytes = static_cast<const TreadleByteArray*>(value_.v_handle);
  return std::string(bytes->data, bytes->size);
}

void ArgValue::ThrowMismatch(const std::string& expected) const {
  std::string got = TypeCodeName(code_);
  if (IsObjectCode(code_)) {
    if (Object* object = ObjectOf(value_, code_)) got = object->type_key();
  }
  std::string where = index_ >= 0 ? StrCat("argument ", index_) : std::string("result");
  throw DTypeError(StrCat(where, ": expected ", expected, " but got ", got));
}

ArgValue Args::operator[](int i) const {
  if (i < 0 || i >= num_args) throw Error(StrCat("argument ", i, " is missing: ", num_args, " were given"));
  return ArgValue(values[i], type_codes[i], i);
}

void RetValue::SetObject(const ObjectRef& object) {
  code_ = detail::BorrowObject(object, &value_);
  object_ = object;
}

void RetValue::SetString(std::string text, int code) {
  String held(std::move(text));
  const std::string& stored = held.str();
  byte_array_ = {stored.data(), stored.size()};
  value_.v_str = stored.c_str();
  code_ = code;
  object_ = held;
}

RetValue RetValue::FromC(TreadleValue value, int code) {
  RetValue result;
  if (IsObjectCode(code)) {
    Object* object = ObjectOf(value, code);
    result.SetObject(ObjectRef(ObjectPtr<Object>(object)));
    if (object != nullptr) object->DecRef();  // the reference that came with the value is ours now
  } else {
    result = ArgValue(value, code);
  }
  return result;
}

void RetValue::MoveToC(TreadleValue* value, int* code) && {
  thread_local RetValue text;
  *value = value_;
  *code = code_;
  if (IsObjectCode(code_)) {
    object_->IncRef();
  } else if (code_ == kTreadleStr || code_ == kTreadleBytes) {
    text = *this;
    *value = text.view().value();
  }
  SetNull();
}

PackedFunc::PackedFunc(Body body) : ObjectRef(ObjectPtr<Object>(NewObject<ClosureFunc>(std::move(body)))) {}

PackedFunc PackedFunc::FromC(TreadlePackedCFunc function, void* resource, ObjectRef owner, std::string name) {
  return PackedFunc(ObjectPtr<Object>(NewObject<CompiledFunc>(function, resource, std::move(owner), std::move(name))));
}

}  // namespace treadle::runtime
