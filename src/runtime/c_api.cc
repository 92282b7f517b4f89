// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/c_api.h"

#include <memory>

#include "runtime/handles.h"
#include "treadle/base/error.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/model.h"
#include "treadle/runtime/registry.h"
#include "treadle/runtime/run_limits.h"
#include "treadle/runtime/thread_pool.h"

namespace rt = treadle::runtime;
using treadle::Object;
using treadle::ObjectPtr;

/// A model with the context that the C functions use.
struct TreadleModel {
  rt::Model model;
  rt::ModelContext context;
  rt::CancelToken cancel{};
  double timeout_s = 0;
  bool has_outputs = false;  ///< of a run that succeeded
};

namespace {

using rt::HandleKind;

/// Runs `body`; an exception becomes the last error and -1.
template <typename Body>
int Guard(const Body& body) {
  try {
    body();
    return 0;
  } catch (...) {
    return rt::SetLastErrorFromException();
  }
}

/// `pointer`, an argument called `name`, which mustn't be null.
template <typename T>
T* Require(T* pointer, const char* name) {
  if (pointer == nullptr) throw treadle::Error(treadle::StrCat("the argument '", name, "' is null"));
  return pointer;
}

[[noreturn]] void RefuseHandle(const char* kind) {
  throw treadle::Error(treadle::StrCat("the ", kind, " wasn't created by this library, or it was freed already"));
}

TreadleModel* Checked(TreadleModelHandle model) {
  Require(model, "model");
  if (!rt::IsHandle(model, HandleKind::kModel)) RefuseHandle("model");
  return model;
}

void HandOut(TreadleModelHandle* out, std::unique_ptr<TreadleModel> model) {
  rt::AddHandle(model.get(), HandleKind::kModel);
  *out = model.release();
}

template <typename Handle>
Handle ToHandle(const treadle::ObjectRef& ref) {
  if (!ref.defined()) return nullptr;
  auto* object = const_cast<Object*>(ref.get());
  rt::AddHandle(object, HandleKind::kObject);
  object->IncRef();
  return reinterpret_cast<Handle>(object);
}

/// A reference to the object behind a handle. Throws where that is none, or of another class.
template <typename Ref, typename Handle>
Ref FromHandle(Handle handle, const char* kind) {
  Require(handle, kind);
  if (!rt::IsHandle(handle, HandleKind::kObject)) RefuseHandle(kind);
  treadle::ObjectRef ref(ObjectPtr<Object>(reinterpret_cast<Object*>(handle)));
  if (ref.as<typename Ref::ContainerType>() == nullptr) {
    throw treadle::DTypeError(treadle::StrCat("expected a ", kind, ", got an object of type ", ref->type_key()));
  }
  return Ref(ObjectPtr<Object>(reinterpret_cast<Object*>(handle)));
}

/// The tensor itself where it was made here, else a view of the caller's memory.
rt::NDArray Tensor(const DLTensor* tensor, const char* name = "tensor") {
  Require(tensor, name);
  if (rt::IsHandle(tensor, HandleKind::kTensor)) return rt::NDArray::FromHandle(tensor);
  return rt::NDArray::Borrow(*tensor);
}

DLTensor* ToTensor(const rt::NDArray& array) {
  rt::AddHandle(array.handle(), HandleKind::kTensor);
  array->IncRef();
  return array.handle();
}

using Infos = const std::vector<rt::TensorInfo>& (rt::Model::*)() const;

int Info(TreadleModelHandle model, Infos list, int index, const char** name, int* ndim, const int64_t** shape,
         DLDataType* dtype) {
  return Guard([&] {
    const std::vector<rt::TensorInfo>& infos = (Checked(model)->model.*list)();
    if (index < 0 || static_cast<size_t>(index) >= infos.size()) {
      throw treadle::Error(treadle::StrCat("no tensor ", index, "; the model has ", infos.size()));
    }
    const rt::TensorInfo& info = infos[static_cast<size_t>(index)];
    if (name != nullptr) *name = info.name.c_str();
    if (ndim != nullptr) *ndim = static_cast<int>(info.shape.size());
    if (shape != nullptr) *shape = info.shape.data();
    if (dtype != nullptr) *dtype = info.dtype;
  });
}

int Count(TreadleModelHandle model, Infos list) {
  int count = -1;
  Guard([&] { count = static_cast<int>((Checked(model)->model.*list)().size()); });
  return count;
}

/// The handle that an argument or result of an object code carries, and its kind.
bool IsHandleCode(int code, HandleKind* kind) {
  *kind = code == kTreadleNDArray ? HandleKind::kTensor : HandleKind::kObject;
  return code == kTreadleNDArray || code == kTreadleObject || code == kTreadleModule || code == kTreadlePackedFunc;
}

/// A value that is passed or returned, called `what`.
void CheckValue(const TreadleValue& value, int code, const std::string& what) {
  constexpr int kUnused = 1;  // between int and float
  if (code < kTreadleInt || code > kTreadleObjectRValue || code == kUnused) {
    throw treadle::Error(treadle::StrCat(what, " has the unknown type code ", code));
  }
  const std::string name = treadle::StrCat(what, " (", rt::TypeCodeName(code), ")");
  HandleKind kind;
  if (IsHandleCode(code, &kind) && !rt::IsHandle(value.v_handle, kind)) RefuseHandle(name.c_str());
  const bool points = code == kTreadleStr || code == kTreadleBytes || code == kTreadleObjectRValue;
  if (points && value.v_handle == nullptr) throw treadle::Error(name + " is null");
  if (code == kTreadleBytes) {
    const auto* bytes = static_cast<const TreadleByteArray*>(value.v_handle);
    if (bytes->data == nullptr && bytes->size != 0) throw treadle::Error(name + " has no data");
  }
  if (code == kTreadleObjectRValue) {
    const void* object = *static_cast<void**>(value.v_handle);
    if (object == nullptr) throw treadle::Error(name + " is null");
    if (!rt::IsHandle(object, HandleKind::kObject)) RefuseHandle(name.c_str());
  }
  if (code == kTreadleDLTensor && value.v_handle != nullptr) {
    rt::CheckTensor(*static_cast<const DLTensor*>(value.v_handle), "a tensor argument");
  }
}

void CheckArgs(const TreadleValue* args, const int* type_codes, int num_args) {
  if (num_args < 0) throw treadle::Error(treadle::StrCat("num_args is ", num_args));
  if (num_args == 0) return;
  Require(args, "args");
  Require(type_codes, "type_codes");
  for (int i = 0; i < num_args; ++i) CheckValue(args[i], type_codes[i], treadle::StrCat("argument ", i));
}

/// While a C function runs, what it was given counts as handed out.
class Borrowed {
 public:
  explicit Borrowed(rt::Args args) : args_(args) { Each(rt::AddHandle); }
  ~Borrowed() {
    Each([](const void* handle, HandleKind kind) { rt::DropHandle(handle, kind); });
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  template <typename F>
  void Each(const F& f) {
    for (int i = 0; i < args_.num_args; ++i) {
      HandleKind kind;
      if (IsHandleCode(args_.type_codes[i], &kind) && args_.values[i].v_handle != nullptr) {
        f(args_.values[i].v_handle, kind);
      }
    }
  }
  rt::Args args_;
};

}  // namespace

extern "C" {

const char* TreadleGetLastError(void) { return rt::LastErrorMessage(); }
const char* TreadleGetLastErrorKind(void) { return rt::LastErrorKind(); }
int TreadleGetLastErrorCode(void) { return rt::LastErrorCode(); }
const char* TreadleVersion(void) { return rt::VersionString(); }

int TreadleModelLoad(const char* path, TreadleModelHandle* out) {
  return Guard([&] {
    Require(path, "path");
    Require(out, "out");
    auto model = std::make_unique<TreadleModel>();
    model->model = rt::Model::Load(path);
    model->context = model->model.CreateContext();
    HandOut(out, std::move(model));
  });
}

int TreadleModelClone(TreadleModelHandle model, TreadleModelHandle* out) {
  return Guard([&] {
    Checked(model);
    Require(out, "out");
    auto clone = std::make_unique<TreadleModel>();
    clone->model = model->model;
    clone->context = model->model.CreateContext();
    HandOut(out, std::move(clone));
  });
}

void TreadleModelFree(TreadleModelHandle model) {
  if (model == nullptr) return;
  Guard([&] {
    if (!rt::DropHandle(model, HandleKind::kModel)) RefuseHandle("model");
    delete model;
  });
}
int TreadleModelNumInputs(TreadleModelHandle model) { return Count(model, &rt::Model::inputs); }
int TreadleModelNumOutputs(TreadleModelHandle model) { return Count(model, &rt::Model::outputs); }

int TreadleModelInputInfo(TreadleModelHandle model, int index, const char** name, int* ndim, const int64_t** shape,
                          DLDataType* dtype) {
  return Info(model, &rt::Model::inputs, index, name, ndim, shape, dtype);
}
int TreadleModelOutputInfo(TreadleModelHandle model, int index, const char** name, int* ndim, const int64_t** shape,
                           DLDataType* dtype) {
  return Info(model, &rt::Model::outputs, index, name, ndim, shape, dtype);
}

int TreadleModelSetNumThreads(TreadleModelHandle model, int threads) {
  return Guard([&] { Checked(model)->context.SetThreads(threads); });
}

int TreadleModelSetInput(TreadleModelHandle model, const char* name, const DLTensor* value) {
  return Guard([&] {
    Require(name, "name");
    Require(value, "value");
    rt::CheckTensor(*value, "the value");
    Checked(model)->context.CopyInput(name, *value);
  });
}

int TreadleModelRun(TreadleModelHandle model) {
  return Guard([&] {
    TreadleModel* checked = Checked(model);
    const rt::RunLimitScope limits({.cancel = checked->cancel, .timeout_s = checked->timeout_s});
    checked->has_outputs = false;
    checked->context.Run();
    checked->has_outputs = true;
  });
}

int TreadleModelSetTimeLimit(TreadleModelHandle model, double seconds) {
  return Guard([&] {
    const rt::RunLimitScope checks_seconds({.cancel = std::nullopt, .timeout_s = seconds});
    Checked(model)->timeout_s = seconds;
  });
}

int TreadleModelCancel(TreadleModelHandle model, int cancelled) {
  return Guard([&] { Checked(model)->cancel.Cancel(cancelled != 0); });
}

int TreadleModelGetOutput(TreadleModelHandle model, int index, DLTensor** out) {
  return Guard([&] {
    Require(out, "out");
    TreadleModel* checked = Checked(model);
    const size_t count = checked->model.outputs().size();
    if (index < 0 || static_cast<size_t>(index) >= count) {
      throw treadle::Error(treadle::StrCat("no output ", index, "; the model has ", count));
    }
    if (!checked->has_outputs) throw treadle::Error("there are no outputs yet: no run, or the last one failed");
    *out = ToTensor(checked->context.GetOutput(static_cast<size_t>(index)));
  });
}

int TreadleTensorCreate(const int64_t* shape, int ndim, DLDataType dtype, DLDevice device, DLTensor** out) {
  return Guard([&] {
    Require(out, "out");
    DLTensor tensor{};
    tensor.device = device;
    tensor.ndim = ndim;
    tensor.dtype = dtype;
    tensor.shape = const_cast<int64_t*>(shape);
    rt::CheckTensor(tensor, "the tensor", /*with_data=*/false);
    *out = ToTensor(rt::NDArray::Empty(std::vector<int64_t>(shape, shape + ndim), treadle::DataType(dtype), device));
  });
}

void TreadleTensorFree(DLTensor* tensor) {
  if (tensor == nullptr) return;
  Guard([&] {
    if (!rt::DropHandle(tensor, HandleKind::kTensor)) RefuseHandle("tensor");
    rt::NDArray::FromHandle(tensor)->DecRef();
  });
}

size_t TreadleTensorNumBytes(const DLTensor* tensor) {
  size_t bytes = 0;
  Guard([&] { bytes = static_cast<size_t>(Tensor(tensor).nbytes()); });
  return bytes;
}

int TreadleTensorCopyFromBytes(DLTensor* tensor, const void* data, size_t bytes) {
  return Guard([&] {
    if (bytes != 0) Require(data, "data");
    Tensor(tensor).CopyFromBytes(data, bytes);
  });
}
int TreadleTensorCopyToBytes(const DLTensor* tensor, void* data, size_t bytes) {
  return Guard([&] {
    if (bytes != 0) Require(data, "data");
    Tensor(tensor).CopyToBytes(data, bytes);
  });
}
int TreadleTensorCopy(const DLTensor* from, DLTensor* to) {
  return Guard([&] { Tensor(to, "to").CopyFrom(Tensor(from, "from")); });
}
int TreadleTensorFromDLPack(DLManagedTensor* managed, DLTensor** out) {
  return Guard([&] {
    Require(out, "out");
    *out = ToTensor(rt::NDArray::FromDLPack(managed));
  });
}
int TreadleTensorToDLPack(DLTensor* tensor, DLManagedTensor** out) {
  return Guard([&] {
    Require(out, "out");
    Require(tensor, "tensor");
    if (!rt::IsHandle(tensor, HandleKind::kTensor)) RefuseHandle("tensor");
    *out = Tensor(tensor).ToDLPack();
  });
}
int TreadleDataTypeFromString(const char* text, DLDataType* out) {
  return Guard([&] { *Require(out, "out") = treadle::DataType::FromString(Require(text, "text")); });
}

int TreadleModuleLoadFromFile(const char* path, const char* format, TreadleModuleHandle* out) {
  return Guard([&] {
    Require(path, "path");
    Require(out, "out");
    *out = ToHandle<TreadleModuleHandle>(rt::Module::LoadFromFile(path, format != nullptr ? format : ""));
  });
}
void TreadleModuleFree(TreadleModuleHandle module) { TreadleObjectFree(module); }
int TreadleModuleImport(TreadleModuleHandle module, TreadleModuleHandle other) {
  return Guard([&] { FromHandle<rt::Module>(module, "module").Import(FromHandle<rt::Module>(other, "module")); });
}
int TreadleModuleGetFunction(TreadleModuleHandle module, const char* name, int query_imports, TreadleFuncHandle* out) {
  return Guard([&] {
    Require(name, "name");
    Require(out, "out");
    *out = ToHandle<TreadleFuncHandle>(FromHandle<rt::Module>(module, "module").GetFunction(name, query_imports != 0));
  });
}

int TreadleFuncCall(TreadleFuncHandle func, TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret,
                    int* ret_code) {
  return Guard([&] {
    Require(ret, "ret");
    Require(ret_code, "ret_code");
    CheckArgs(args, type_codes, num_args);
    rt::RetValue result;
    FromHandle<rt::PackedFunc>(func, "function").CallPacked(rt::Args(args, type_codes, num_args), &result);
    std::move(result).MoveToC(ret, ret_code);
    HandleKind kind;
    if (IsHandleCode(*ret_code, &kind)) rt::AddHandle(ret->v_handle, kind);
  });
}

int TreadleFuncCreate(TreadlePackedCFunc function, void* resource, void (*finalizer)(void*), TreadleFuncHandle* out) {
  return Guard([&] {
    Require(out, "out");
    if (function == nullptr) throw treadle::Error("the argument 'function' is null");
    std::shared_ptr<void> owned(resource, [finalizer](void* r) {
      if (finalizer != nullptr) finalizer(r);
    });
    // Calls go through a closure that owns the resource.
    auto call = [function, owned](rt::Args args, rt::RetValue* ret) {
      const Borrowed borrowed(args);
      TreadleValue value{};
      int code = kTreadleNull;
      const uint64_t errors = rt::LastErrorCount();
      const int status = function(const_cast<TreadleValue*>(args.values), const_cast<int*>(args.type_codes),
                                  args.num_args, &value, &code, owned.get());
      if (status != 0) rt::ThrowErrorOf("", status, errors);
      CheckValue(value, code, "function's result");
      HandleKind kind;
      if (IsHandleCode(code, &kind)) rt::DropHandle(value.v_handle, kind);
      *ret = rt::RetValue::FromC(value, code);
    };
    *out = ToHandle<TreadleFuncHandle>(rt::PackedFunc(std::move(call)));
  });
}
void TreadleFuncFree(TreadleFuncHandle func) { TreadleObjectFree(func); }
int TreadleFuncGetGlobal(const char* name, TreadleFuncHandle* out) {
  return Guard([&] { *Require(out, "out") = ToHandle<TreadleFuncHandle>(rt::Registry::Get(Require(name, "name"))); });
}
int TreadleFuncRegisterGlobal(const char* name, TreadleFuncHandle func, int override_existing) {
  return Guard([&] {
    if (*Require(name, "name") == '\0') throw treadle::Error("the argument 'name' is empty");
    rt::Registry::Register(name, FromHandle<rt::PackedFunc>(func, "function"), override_existing != 0);
  });
}
int TreadleFuncRemoveGlobal(const char* name, int* removed) {
  return Guard([&] {
    bool was_there = rt::Registry::Remove(Require(name, "name"));
    if (removed != nullptr) *removed = was_there ? 1 : 0;
  });
}
int TreadleFuncListGlobalNames(int* count, const char* const** names) {
  return Guard([&] {
    Require(count, "count");
    Require(names, "names");
    thread_local std::vector<std::string> texts;
    thread_local std::vector<const char*> pointers;
    texts = rt::Registry::ListNames();
    pointers.clear();
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    *count = static_cast<int>(pointers.size());
    *names = pointers.data();
  });
}

void TreadleObjectFree(void* object) {
  if (object == nullptr) return;
  Guard([&] {
    if (!rt::DropHandle(object, HandleKind::kObject)) RefuseHandle("object");
    static_cast<Object*>(object)->DecRef();
  });
}
int TreadleSetNumThreads(int threads) {
  return Guard([&] { rt::SetMaxConcurrency(threads); });
}

}  // extern "C"
