// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/c_api.h"

#include <memory>

#include "treadle/base/error.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/model.h"
#include "treadle/runtime/registry.h"
#include "treadle/runtime/thread_pool.h"

namespace rt = treadle::runtime;
using treadle::Object;
using treadle::ObjectPtr;

/// A model with the context that the C functions use.
struct TreadleModel {
  rt::Model model;
  rt::ModelContext context;
};

namespace {

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

template <typename Handle>
Handle ToHandle(const treadle::ObjectRef& ref) {
  if (!ref.defined()) return nullptr;
  ref->IncRef();
  return reinterpret_cast<Handle>(const_cast<Object*>(ref.get()));
}

/// A reference to the object behind a handle.
template <typename Ref, typename Handle>
Ref FromHandle(Handle handle) {
  if (handle == nullptr) throw treadle::Error("a null handle was passed");
  return Ref(ObjectPtr<Object>(reinterpret_cast<Object*>(handle)));
}

rt::NDArray Tensor(const DLTensor* tensor) {
  if (tensor == nullptr) throw treadle::Error("a null tensor was passed");
  return rt::NDArray::FromHandle(tensor);
}

DLTensor* ToTensor(const rt::NDArray& array) {
  array->IncRef();
  return array.handle();
}

int Info(const std::vector<rt::TensorInfo>& infos, int index, const char** name, int* ndim, const int64_t** shape,
         DLDataType* dtype) {
  return Guard([&] {
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

}  // namespace

extern "C" {

const char* TreadleGetLastError(void) { return rt::LastErrorMessage(); }
const char* TreadleGetLastErrorKind(void) { return rt::LastErrorKind(); }
int TreadleGetLastErrorCode(void) { return rt::LastErrorCode(); }
const char* TreadleVersion(void) { return rt::VersionString(); }

int TreadleModelLoad(const char* path, TreadleModelHandle* out) {
  return Guard([&] {
    if (path == nullptr) throw treadle::Error("TreadleModelLoad: the path is null");
    auto model = std::make_unique<TreadleModel>();
    model->model = rt::Model::Load(path);
    model->context = model->model.CreateContext();
    *out = model.release();
  });
}

int TreadleModelClone(TreadleModelHandle model, TreadleModelHandle* out) {
  return Guard([&] {
    auto clone = std::make_unique<TreadleModel>();
    clone->model = model->model;
    clone->context = model->model.CreateContext();
    *out = clone.release();
  });
}

void TreadleModelFree(TreadleModelHandle model) { delete model; }
int TreadleModelNumInputs(TreadleModelHandle model) { return static_cast<int>(model->model.inputs().size()); }
int TreadleModelNumOutputs(TreadleModelHandle model) { return static_cast<int>(model->model.outputs().size()); }

int TreadleModelInputInfo(TreadleModelHandle model, int index, const char** name, int* ndim, const int64_t** shape,
                          DLDataType* dtype) {
  return Info(model->model.inputs(), index, name, ndim, shape, dtype);
}
int TreadleModelOutputInfo(TreadleModelHandle model, int index, const char** name, int* ndim, const int64_t** shape,
                           DLDataType* dtype) {
  return Info(model->model.outputs(), index, name, ndim, shape, dtype);
}

int TreadleModelSetNumThreads(TreadleModelHandle model, int threads) {
  return Guard([&] { model->context.SetThreads(threads); });
}

int TreadleModelSetInput(TreadleModelHandle model, const char* name, const DLTensor* value) {
  return Guard([&] {
    if (name == nullptr || value == nullptr)
      throw treadle::Error("TreadleModelSetInput: name and value must not be null");
    model->context.CopyInput(name, *value);
  });
}

int TreadleModelRun(TreadleModelHandle model) {
  return Guard([&] { model->context.Run(); });
}

int TreadleModelGetOutput(TreadleModelHandle model, int index, DLTensor** out) {
  return Guard([&] { *out = ToTensor(model->context.GetOutput(static_cast<size_t>(index))); });
}

int TreadleTensorCreate(const int64_t* shape, int ndim, DLDataType dtype, DLDevice device, DLTensor** out) {
  return Guard([&] {
    if (ndim < 0 || ndim > 64) throw treadle::ShapeError(treadle::StrCat("impossible rank ", ndim));
    *out = ToTensor(rt::NDArray::Empty(std::vector<int64_t>(shape, shape + ndim), treadle::DataType(dtype), device));
  });
}

void TreadleTensorFree(DLTensor* tensor) {
  if (tensor != nullptr) rt::NDArray::FromHandle(tensor)->DecRef();
}

size_t TreadleTensorNumBytes(const DLTensor* tensor) {
  size_t bytes = 0;
  Guard([&] { bytes = static_cast<size_t>(Tensor(tensor).nbytes()); });
  return bytes;
}

int TreadleTensorCopyFromBytes(DLTensor* tensor, const void* data, size_t bytes) {
  return Guard([&] { Tensor(tensor).CopyFromBytes(data, bytes); });
}
int TreadleTensorCopyToBytes(const DLTensor* tensor, void* data, size_t bytes) {
  return Guard([&] { Tensor(tensor).CopyToBytes(data, bytes); });
}
int TreadleTensorCopy(const DLTensor* from, DLTensor* to) {
  return Guard([&] { Tensor(to).CopyFrom(*from); });
}
int TreadleTensorFromDLPack(DLManagedTensor* managed, DLTensor** out) {
  return Guard([&] { *out = ToTensor(rt::NDArray::FromDLPack(managed)); });
}
int TreadleTensorToDLPack(DLTensor* tensor, DLManagedTensor** out) {
  return Guard([&] { *out = Tensor(tensor).ToDLPack(); });
}
int TreadleDataTypeFromString(const char* text, DLDataType* out) {
  return Guard([&] { *out = treadle::DataType::FromString(text); });
}

int TreadleModuleLoadFromFile(const char* path, const char* format, TreadleModuleHandle* out) {
  return Guard(
      [&] { *out = ToHandle<TreadleModuleHandle>(rt::Module::LoadFromFile(path, format != nullptr ? format : "")); });
}
void TreadleModuleFree(TreadleModuleHandle module) { TreadleObjectFree(module); }
int TreadleModuleImport(TreadleModuleHandle module, TreadleModuleHandle other) {
  return Guard([&] { FromHandle<rt::Module>(module).Import(FromHandle<rt::Module>(other)); });
}
int TreadleModuleGetFunction(TreadleModuleHandle module, const char* name, int query_imports, TreadleFuncHandle* out) {
  return Guard([&] {
    *out = ToHandle<TreadleFuncHandle>(FromHandle<rt::Module>(module).GetFunction(name, query_imports != 0));
  });
}

int TreadleFuncCall(TreadleFuncHandle func, TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret,
                    int* ret_code) {
  return Guard([&] {
    rt::RetValue result;
    FromHandle<rt::PackedFunc>(func).CallPacked(rt::Args(args, type_codes, num_args), &result);
    std::move(result).MoveToC(ret, ret_code);
  });
}

int TreadleFuncCreate(TreadlePackedCFunc function, void* resource, void (*finalizer)(void*), TreadleFuncHandle* out) {
  return Guard([&] {
    std::shared_ptr<void> owned(resource, [finalizer](void* r) {
      if (finalizer != nullptr) finalizer(r);
    });
    // Calls go through a closure that owns the resource, and from there on as for any compiled function.
    rt::PackedFunc compiled = rt::PackedFunc::FromC(function, resource, treadle::ObjectRef());
    *out = ToHandle<TreadleFuncHandle>(
        rt::PackedFunc([compiled, owned](rt::Args args, rt::RetValue* ret) { compiled.CallPacked(args, ret); }));
  });
}
void TreadleFuncFree(TreadleFuncHandle func) { TreadleObjectFree(func); }
int TreadleFuncGetGlobal(const char* name, TreadleFuncHandle* out) {
  return Guard([&] { *out = ToHandle<TreadleFuncHandle>(rt::Registry::Get(name)); });
}
int TreadleFuncRegisterGlobal(const char* name, TreadleFuncHandle func, int override_existing) {
  return Guard([&] { rt::Registry::Register(name, FromHandle<rt::PackedFunc>(func), override_existing != 0); });
}
int TreadleFuncRemoveGlobal(const char* name, int* removed) {
  return Guard([&] {
    bool was_there = rt::Registry::Remove(name);
    if (removed != nullptr) *removed = was_there ? 1 : 0;
  });
}
int TreadleFuncListGlobalNames(int* count, const char* const** names) {
  return Guard([&] {
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
  if (object != nullptr) static_cast<Object*>(object)->DecRef();
}
int TreadleSetNumThreads(int threads) {
  return Guard([&] { rt::SetMaxConcurrency(threads); });
}

}  // extern "C"
