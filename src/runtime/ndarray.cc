// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/ndarray.h"

#include <cstddef>
#include <cstring>

#include "treadle/base/checked_math.h"
#include "treadle/runtime/limits.h"

namespace treadle::runtime {

TREADLE_DEFINE_NODE(NDArrayNode);

namespace {

constexpr uint64_t kTensorMagic = 0xDD5E40F096B4A13F;
constexpr int kMaxRank = 64;

/// The type as DLPack wants it: bools are bytes with a code of their own there.
DLDataType ToDLPackType(DLDataType dtype) {
  if (dtype.code == kDLUInt && dtype.bits == 1) return {kDLBool, 8, dtype.lanes};
  return dtype;
}
DLDataType FromDLPackType(DLDataType dtype) {
  if (dtype.code == kDLBool && dtype.bits == 8) return {kDLUInt, 1, dtype.lanes};
  return dtype;
}

/// Copies elements of CPU tensors of equal shape; walks the outer dimensions with counters.
void CopyStrided(const DLTensor& from, const DLTensor& to) {
  const int64_t element = ElementBytes(DataType(from.dtype));
  const int rank = from.ndim;
  auto strides_of = [rank](const DLTensor& t) {
    std::vector<int64_t> strides(rank);
    int64_t next = 1;
    for (int i = rank; i-- > 0;) {
      strides[i] = t.strides != nullptr ? t.strides[i] : next;
      next *= t.shape[i];
    }
    return strides;
  };
  std::vector<int64_t> from_strides = strides_of(from), to_strides = strides_of(to), index(rank, 0);
  const char* source = static_cast<const char*>(from.data) + from.byte_offset;
  char* target = static_cast<char*>(to.data) + to.byte_offset;
  for (;;) {
    std::memcpy(target, source, element);
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      source += from_strides[axis] * element;
      target += to_strides[axis] * element;
      if (++index[axis] < from.shape[axis]) break;
      source -= from_strides[axis] * element * from.shape[axis];
      target -= to_strides[axis] * element * from.shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

void CheckDevice(Device device, const char* what) {
  const bool exists = device.device_id >= 0 && DeviceAPI::Find(device.device_type) != nullptr;
  if (exists) return;
  throw TargetError(StrCat(what, " is on a device that isn't available: ", DeviceTypeName(device.device_type), ":",
                           device.device_id, " (type ", static_cast<int>(device.device_type), ")"));
}

/// A type is one that has a name.
void CheckElementType(DataType dtype, const char* what) {
  bool known = dtype.bits() != 0 && dtype.lanes() != 0 && !dtype.is_handle();
  if (known) {
    try {
      known = DataType::FromString(dtype.str()) == dtype;
    } catch (const DTypeError&) {
      known = false;
    }
  }
  if (known) return;
  throw DTypeError(StrCat(what, " has elements of no known type: code ", dtype.code(), ", ", dtype.bits(), " bits, ",
                          dtype.lanes(), " lanes"));
}

int64_t BytesOf(const DLTensor& tensor) {
  return TensorBytes(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.ndim), DataType(tensor.dtype));
}

/// Loops over other dimensions don't end in any time, even where those within them have nothing to do.
void CheckOthersThanEmpty(const std::vector<int64_t>& shape, DataType dtype) {
  int64_t bytes = ElementBytes(dtype);
  bool fits = true;
  for (int64_t dim : shape) fits = fits && (dim == 0 || !__builtin_mul_overflow(bytes, dim, &bytes));
  if (fits && bytes <= MaxTensorBytes()) return;
  throw ShapeError(StrCat("a tensor of shape ", ShapeString(shape), " and type ", dtype,
                          " has no elements, but other dimensions that are too large: the limit is ", MaxTensorBytes(),
                          " bytes with 1 in place of each 0 (--max-tensor-bytes)"));
}

}  // namespace

int64_t TensorBytes(const std::vector<int64_t>& shape, DataType dtype) {
  int64_t bytes = CheckedMul<int64_t>(NumElements(shape), ElementBytes(dtype), "size of a tensor");
  if (bytes > kMaxTensorBytes) {
    throw ShapeError(
        StrCat("a tensor of shape ", ShapeString(shape), " and type ", dtype, " is too large: ", bytes, " bytes"));
  }
  if (bytes == 0) CheckOthersThanEmpty(shape, dtype);
  return bytes;
}

bool IsCompact(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

std::string ShapeString(const int64_t* shape, int ndim) {
  std::string text = "(";
  for (int i = 0; i < ndim; ++i) text += (i != 0 ? ", " : "") + std::to_string(shape[i]);
  return text + (ndim == 1 ? ",)" : ")");
}

void CopyTensor(const DLTensor& from, const DLTensor& to) {
  if (DataType(from.dtype) != DataType(to.dtype)) {
    throw DTypeError(
        StrCat("can't copy a tensor of type ", DataType(from.dtype), " to one of type ", DataType(to.dtype)));
  }
  bool compact = IsCompact(from) && IsCompact(to);
  bool equal = from.ndim == to.ndim;
  for (int i = 0; equal && i < from.ndim; ++i) equal = from.shape[i] == to.shape[i];
  int64_t bytes = BytesOf(from);
  if (!equal) {
    throw ShapeError(StrCat("can't copy a tensor of shape ", ShapeString(from.shape, from.ndim), " to one of shape ",
                            ShapeString(to.shape, to.ndim)));
  }
  if (bytes == 0) return;
  if (!compact) {
    if (from.device.device_type != kDLCPU || to.device.device_type != kDLCPU) {
      throw RuntimeError("strided tensors can only be copied on the cpu; make the tensor contiguous first");
    }
    return CopyStrided(from, to);
  }
  if (from.device.device_type != kDLCPU && to.device.device_type != kDLCPU && !SameDevice(from.device, to.device)) {
    // Two devices of different kinds know nothing of each other: by way of the host.
    NDArray staged = NDArray::Empty(std::vector<int64_t>(from.shape, from.shape + from.ndim), DataType(from.dtype));
    CopyTensor(from, staged.dl_tensor());
    return CopyTensor(staged.dl_tensor(), to);
  }
  Device owner = from.device.device_type != kDLCPU ? from.device : to.device;
  DeviceAPI* api = DeviceAPI::Get(owner);
  api->CopyDataFromTo(from.data, from.byte_offset, to.data, to.byte_offset, static_cast<size_t>(bytes), from.device,
                      to.device, nullptr);
  api->StreamSync(owner, nullptr);
}

ObjectPtr<NDArrayNode> NDArray::Create(const std::vector<int64_t>& shape, DataType dtype, Device device) {
  auto node = MakeObject<NDArrayNode>();
  node->shape = shape;
  node->tensor.device = device;
  node->tensor.dtype = dtype;
  node->tensor.ndim = static_cast<int32_t>(shape.size());
  node->tensor.shape = node->shape.data();
  return node;
}

NDArray NDArray::Empty(const std::vector<int64_t>& shape, DataType dtype, Device device) {
  auto bytes = static_cast<size_t>(TensorBytes(shape, dtype));
  DeviceAPI* api = DeviceAPI::Get(device);
  void* data = api->AllocDataSpace(device, bytes, kAllocAlignment);
  auto node = Create(shape, dtype, device);
  node->storage = std::shared_ptr<void>(data, [api, device](void* p) { api->FreeDataSpace(device, p); });
  node->tensor.data = data;
  return NDArray(std::move(node));
}

NDArray NDArray::FromBytes(const void* data, const std::vector<int64_t>& shape, DataType dtype) {
  NDArray array = Empty(shape, dtype);
  array.CopyFromBytes(data, static_cast<size_t>(array.nbytes()));
  return array;
}

NDArray NDArray::View(void* data, const std::vector<int64_t>& shape, DataType dtype, Device device,
                      std::shared_ptr<void> storage, bool read_only) {
  TensorBytes(shape, dtype);  // refuses impossible shapes
  auto node = Create(shape, dtype, device);
  node->tensor.data = data;
  node->storage = std::move(storage);
  node->read_only = read_only;
  return NDArray(std::move(node));
}

NDArray NDArray::CreateView(const std::vector<int64_t>& shape, DataType dtype) const {
  if (!IsCompact()) throw ShapeError("a view needs a contiguous tensor");
  if (TensorBytes(shape, dtype) > nbytes()) {
    throw ShapeError(StrCat("a view of shape ", ShapeString(shape), " and type ", dtype, " is larger than the tensor ",
                            ShapeString(this->shape()), " of type ", this->dtype()));
  }
  auto node = Create(shape, dtype, device());
  node->tensor.data = get()->tensor.data;
  node->tensor.byte_offset = get()->tensor.byte_offset;
  node->read_only = get()->read_only;
  // Holding this node holds whatever it holds.
  node->storage = std::shared_ptr<void>(get()->tensor.data, [keep = *this](void*) {});
  return NDArray(std::move(node));
}

NDArray NDArray::Copy(Device device) const {
  NDArray result = Empty(shape(), dtype(), device);
  CopyTo(result);
  return result;
}

void NDArray::CopyFrom(const DLTensor& other) const {
  if (read_only()) throw RuntimeError("can't write to a read-only tensor (a parameter mapped from a model file)");
  DLTensor source = other;
  source.dtype = FromDLPackType(source.dtype);
  CopyTensor(source, dl_tensor());
}
void NDArray::CopyFrom(const NDArray& other) const { CopyFrom(other.dl_tensor()); }
void NDArray::CopyTo(const NDArray& other) const { other.CopyFrom(*this); }
void NDArray::CopyTo(const DLTensor& other) const {
  DLTensor target = other;
  target.dtype = FromDLPackType(target.dtype);
  CopyTensor(dl_tensor(), target);
}

void NDArray::CopyFromBytes(const void* data, size_t bytes) const {
  if (read_only()) throw RuntimeError("can't write to a read-only tensor (a parameter mapped from a model file)");
  if (!IsCompact() || static_cast<int64_t>(bytes) != nbytes()) {
    throw ShapeError(StrCat("a tensor of shape ", ShapeString(shape()), " and type ", dtype(), " takes ", nbytes(),
                            " bytes, not ", bytes));
  }
  DLTensor source = dl_tensor();
  source.data = const_cast<void*>(data);
  source.byte_offset = 0;
  source.device = Cpu();
  CopyTensor(source, dl_tensor());
}

void NDArray::CopyToBytes(void* data, size_t bytes) const {
  if (static_cast<int64_t>(bytes) != nbytes()) {
    throw ShapeError(StrCat("a tensor of shape ", ShapeString(shape()), " and type ", dtype(), " has ", nbytes(),
                            " bytes, not ", bytes));
  }
  DLTensor target = dl_tensor();
  target.data = data;
  target.byte_offset = 0;
  target.strides = nullptr;
  target.device = Cpu();
  CopyTensor(dl_tensor(), target);
}

int64_t NDArray::size() const { return NumElements(shape()); }
int64_t NDArray::nbytes() const { return TensorBytes(shape(), dtype()); }

namespace {

/// The node of a tensor that someone else manages; it keeps `storage`.
NDArray Adopt(const DLTensor& tensor, std::shared_ptr<void> storage, bool read_only) {
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  NDArray array = NDArray::View(tensor.data, shape, DataType(FromDLPackType(tensor.dtype)), tensor.device,
                                std::move(storage), read_only);
  auto* node = const_cast<NDArrayNode*>(array.get());
  node->tensor.byte_offset = tensor.byte_offset;
  if (!IsCompact(tensor)) {
    node->strides.assign(tensor.strides, tensor.strides + tensor.ndim);
    node->tensor.strides = node->strides.data();
  }
  return array;
}

/// What a DLPack export hands to its consumer: the descriptor and a reference to the array.
template <typename Managed>
Managed* Export(const NDArray& array) {
  struct Context {
    Managed managed{};
    NDArray array;
    std::vector<int64_t> shape, strides;
  };
  auto* context = new Context();
  context->array = array;
  context->shape = array.shape();
  context->strides = array.get()->strides;
  if (context->strides.empty()) {
    // Explicit strides: required from DLPack 1.2 on, and consumers of any version accept them.
    context->strides.resize(context->shape.size());
    int64_t next = 1;
    for (size_t i = context->shape.size(); i-- > 0;) {
      context->strides[i] = next;
      next *= context->shape[i];
    }
  }
  DLTensor& tensor = context->managed.dl_tensor;
  tensor = array.dl_tensor();
  tensor.dtype = ToDLPackType(tensor.dtype);
  tensor.shape = context->shape.data();
  tensor.strides = context->strides.data();
  context->managed.manager_ctx = context;
  context->managed.deleter = [](Managed* self) { delete static_cast<Context*>(self->manager_ctx); };
  return &context->managed;
}

/// Calls the deleter of a DLPack tensor, once it holds one.
template <typename Managed>
struct ManagedHolder {
  Managed* managed = nullptr;
  ManagedHolder() = default;
  ManagedHolder(const ManagedHolder&) = delete;
  ManagedHolder& operator=(const ManagedHolder&) = delete;
  ~ManagedHolder() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
  }
};

/// Whether the elements of a type that isn't a number of bytes take whole bytes each, as those of NDArray do.
bool IsPadded(DLDataType dtype, bool says_padded) { return dtype.bits % 8 == 0 || says_padded; }

/// Everything that can fail comes before the change of hands, which can't.
template <typename Managed>
NDArray TakeOver(Managed* managed, bool read_only, bool says_padded) {
  const DLTensor& tensor = managed->dl_tensor;
  CheckTensor(tensor, "a DLPack tensor");
  if (!IsPadded(tensor.dtype, says_padded)) {
    throw DTypeError(StrCat("a DLPack tensor has packed elements of ", int{tensor.dtype.bits},
                            " bits; expected a byte for each, and the flag that says so"));
  }
  auto holder = std::make_shared<ManagedHolder<Managed>>();
  NDArray array = Adopt(tensor, holder, read_only);
  holder->managed = managed;
  return array;
}

}  // namespace

void CheckTensor(const DLTensor& tensor, const char* what, bool with_data) {
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    throw ShapeError(StrCat(what, " has an impossible rank: ", tensor.ndim,
                            tensor.ndim > 0 && tensor.shape == nullptr ? " without a shape" : ""));
  }
  CheckElementType(FromDLPackType(tensor.dtype), what);
  CheckDevice(tensor.device, what);
  const int64_t bytes = TensorBytes(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.ndim),
                                    DataType(FromDLPackType(tensor.dtype)));
  if (with_data && bytes != 0 && tensor.data == nullptr) {
    throw Error(StrCat(what, " of ", bytes, " bytes has no data: it is null"));
  }
  if (tensor.byte_offset > static_cast<uint64_t>(kMaxTensorBytes)) {
    throw ShapeError(StrCat(what, " starts at byte ", tensor.byte_offset, " of its memory"));
  }
  if (tensor.strides == nullptr || bytes == 0) return;
  for (int i = 0; i < tensor.ndim; ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.strides[i], tensor.shape[i], &reach) || reach > kMaxTensorBytes ||
        reach < -kMaxTensorBytes) {
      throw ShapeError(StrCat(what, " has an impossible stride: ", tensor.strides[i], " in dimension ", i));
    }
  }
}

NDArray NDArray::Borrow(const DLTensor& tensor) {
  CheckTensor(tensor, "the tensor");
  return Adopt(tensor, nullptr, /*read_only=*/false);
}

NDArray NDArray::FromDLPack(DLManagedTensor* managed) {
  if (managed == nullptr) throw Error("a null DLPack tensor was passed");
  return TakeOver(managed, /*read_only=*/false, /*says_padded=*/false);
}

NDArray NDArray::FromDLPack(DLManagedTensorVersioned* managed) {
  if (managed == nullptr) throw Error("a null DLPack tensor was passed");
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    throw DTypeError(StrCat("DLPack version ", managed->version.major, ".", managed->version.minor,
                            " isn't supported: expected ", DLPACK_MAJOR_VERSION, ".x"));
  }
  return TakeOver(managed, (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0,
                  (managed->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0);
}

DLManagedTensor* NDArray::ToDLPack() const {
  // The unversioned form can't say "read only", so the consumer gets a copy it may write.
  return Export<DLManagedTensor>(read_only() ? Copy() : *this);
}

DLManagedTensorVersioned* NDArray::ToDLPackVersioned() const {
  auto* managed = Export<DLManagedTensorVersioned>(*this);
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->flags = read_only() ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  if (managed->dl_tensor.dtype.bits % 8 != 0) managed->flags |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  return managed;
}

NDArray NDArray::FromHandle(const DLTensor* handle) {
  if (handle == nullptr) return NDArray();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // Object has a vtable, but single inheritance only
  auto* bytes = reinterpret_cast<const char*>(handle) - offsetof(NDArrayNode, tensor);
#pragma GCC diagnostic pop
  return GetRef<NDArray>(reinterpret_cast<const NDArrayNode*>(bytes));
}

void NDArray::Save(ByteWriter* writer) const {
  writer->Write<uint64_t>(kTensorMagic);
  writer->Write<uint64_t>(0);
  writer->Write<int32_t>(kDLCPU);
  writer->Write<int32_t>(0);
  writer->Write<int32_t>(ndim());
  writer->Write<DLDataType>(dtype());
  for (int64_t dim : shape()) writer->Write<int64_t>(dim);
  int64_t bytes = nbytes();
  writer->Write<int64_t>(bytes);
  NDArray host = device().device_type == kDLCPU && IsCompact() ? *this : Copy();
  writer->WriteRaw(host.data_ptr(), static_cast<size_t>(bytes));
}

NDArray NDArray::Load(ByteReader* reader) {
  if (reader->Read<uint64_t>() != kTensorMagic) reader->Fail("bad magic number of a tensor");
  reader->Read<uint64_t>();  // reserved
  auto device_type = reader->Read<int32_t>();
  reader->Read<int32_t>();
  if (device_type != kDLCPU) reader->Fail(StrCat("a stored tensor must be of the cpu, not device type ", device_type));
  auto rank = reader->Read<int32_t>();
  if (rank < 0 || rank > kMaxRank) reader->Fail(StrCat("impossible rank ", rank, " of a tensor"));
  DataType dtype(reader->Read<DLDataType>());
  if (dtype.bits() == 0 || dtype.lanes() == 0 || dtype.is_handle() || dtype.code() > kDLFloat4_e2m1fn) {
    reader->Fail(StrCat("impossible element type ", dtype, " of a tensor"));
  }
  std::vector<int64_t> shape(rank);
  for (int64_t& dim : shape) dim = reader->Read<int64_t>();
  int64_t expected = 0;
  try {
    expected = TensorBytes(shape, dtype);
  } catch (const ShapeError& error) {
    reader->Fail(error.what());
  }
  auto bytes = reader->Read<int64_t>();
  if (bytes != expected) {
    reader->Fail(StrCat("a tensor of shape ", ShapeString(shape), " and type ", dtype, " has ", bytes,
                        " bytes of data where ", expected, " were expected"));
  }
  return FromBytes(reader->Take(static_cast<uint64_t>(bytes)).data(), shape, dtype);
}

}  // namespace treadle::runtime
