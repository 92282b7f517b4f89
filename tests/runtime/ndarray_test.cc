// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/device_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace treadle::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const DataType kF32 = DataType::Float(32);

std::vector<float> Values(const NDArray& array) {
  std::vector<float> values(array.size());
  array.CopyToBytes(values.data(), values.size() * sizeof(float));
  return values;
}

TEST(NDArray, EmptyIsAlignedAndCompact) {
  NDArray array = NDArray::Empty({2, 3}, kF32);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data_ptr()) % kAllocAlignment, 0u);
  EXPECT_EQ(array.nbytes(), 24);
  EXPECT_TRUE(array.IsCompact());
}

TEST(NDArray, RefusesImpossibleShapes) {
  EXPECT_THROW(NDArray::Empty({-1}, kF32), ShapeError);
  EXPECT_THROW(NDArray::Empty({int64_t{1} << 40, int64_t{1} << 40}, kF32), ShapeError);
  EXPECT_THROW(NDArray::Empty({int64_t{1} << 50}, kF32), ShapeError);
  EXPECT_EQ(NDArray::Empty({0, int64_t{1} << 20}, kF32).nbytes(), 0);
  EXPECT_THROW(NDArray::Empty({0, int64_t{1} << 46}, kF32), ShapeError);
}

TEST(NDArray, ViewSharesMemoryAndOutlivesTheOriginal) {
  NDArray view;
  {
    NDArray array = NDArray::FromVector<float>({1, 2, 3, 4}, {2, 2}, kF32);
    view = array.CreateView({4}, kF32);
  }
  EXPECT_EQ(Values(view), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_THROW(view.CreateView({5}, kF32), ShapeError);
}

TEST(NDArray, CopyChecksShapeAndType) {
  NDArray a = NDArray::Empty({2}, kF32);
  EXPECT_THAT([&] { a.CopyFrom(NDArray::Empty({3}, kF32)); }, ThrowsMessage<ShapeError>(HasSubstr("(3,)")));
  EXPECT_THAT([&] { a.CopyFrom(NDArray::Empty({2}, DataType::Int(32))); },
              ThrowsMessage<DTypeError>(HasSubstr("int32")));
}

TEST(NDArray, ReadOnlyTensorsRefuseWrites) {
  float value = 1;
  NDArray view = NDArray::View(&value, {1}, kF32, Cpu(), nullptr, true);
  EXPECT_THROW(view.CopyFrom(NDArray::Empty({1}, kF32)), RuntimeError);
}

TEST(NDArray, StridedDLPackTensorIsCopiedInOrder) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};  // transposed view of a 2x3 matrix
  bool deleted = false;
  DLManagedTensor managed{};
  managed.dl_tensor = {data, Cpu(), 2, kF32, shape, strides, 0};
  managed.manager_ctx = &deleted;
  managed.deleter = [](DLManagedTensor* self) { *static_cast<bool*>(self->manager_ctx) = true; };
  {
    NDArray array = NDArray::FromDLPack(&managed);
    EXPECT_FALSE(array.IsCompact());
    EXPECT_EQ(Values(array.Copy()), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    EXPECT_FALSE(deleted);
  }
  EXPECT_TRUE(deleted);
}

TEST(NDArray, DLPackRoundTripKeepsBoolAndMemory) {
  NDArray array = NDArray::FromVector<uint8_t>({1, 0, 1}, {3}, DataType::Bool());
  DLManagedTensorVersioned* managed = array.ToDLPackVersioned();
  EXPECT_EQ(managed->dl_tensor.dtype.code, kDLBool);
  NDArray back = NDArray::FromDLPack(managed);
  EXPECT_EQ(back.dtype(), DataType::Bool());
  EXPECT_EQ(back.data_ptr(), array.data_ptr());
}

TEST(NDArray, FromHandleFindsTheNode) {
  NDArray array = NDArray::Empty({1}, kF32);
  EXPECT_TRUE(NDArray::FromHandle(array.handle()).same_as(array));
}

TEST(NDArray, SavesInTheFormatOfTheOriginal) {
  ByteWriter writer;
  NDArray::FromVector<float>({1.0f}, {1, 1}, kF32).Save(&writer);
  ASSERT_EQ(writer.size(), 8 + 8 + 8 + 4 + 4 + 16 + 8 + 4u);
  ByteReader reader(writer.bytes(), "test");
  EXPECT_EQ(reader.Read<uint64_t>(), 0xDD5E40F096B4A13Fu);
  ByteReader again(writer.bytes(), "test");
  EXPECT_EQ(Values(NDArray::Load(&again)), (std::vector<float>{1}));
}

TEST(NDArray, LoadSurvivesEveryTruncationAndByteChange) {
  ByteWriter writer;
  NDArray::FromVector<float>({1, 2}, {2}, kF32).Save(&writer);
  for (size_t length = 0; length < writer.size(); ++length) {
    ByteReader reader(std::string_view(writer.bytes()).substr(0, length), "test");
    EXPECT_THROW(NDArray::Load(&reader), ModelFormatError) << length;
  }
  for (size_t i = 0; i < writer.size(); ++i) {
    for (int flip : {1, 0x80, 0xff}) {
      std::string bytes = writer.bytes();
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      ByteReader reader(bytes, "test");
      try {
        NDArray::Load(&reader);
      } catch (const ModelFormatError&) {
      }
    }
  }
}

TEST(Device, NamesRoundTrip) {
  EXPECT_EQ(DeviceName(ParseDevice("opencl:2")), "opencl:2");
  EXPECT_THROW(ParseDevice("a_target"), TargetError);
  RegisterDeviceName("a_target", kDLCPU);
  EXPECT_EQ(DeviceName(ParseDevice("a_target")), "cpu");
  EXPECT_THROW(ParseDevice("gpu9000"), TargetError);
  EXPECT_THROW(ParseDevice("cpu:x"), TargetError);
  EXPECT_THAT([] { DeviceAPI::Get({kDLCUDA, 0}); }, ThrowsMessage<RuntimeError>(HasSubstr("available: cpu")));
}

TEST(Device, WorkspacesAreReused) {
  DeviceAPI* api = DeviceAPI::Get(Cpu());
  void* a = api->AllocWorkspace(Cpu(), 5000);
  void* b = api->AllocWorkspace(Cpu(), 100);
  api->FreeWorkspace(Cpu(), b);
  api->FreeWorkspace(Cpu(), a);
  EXPECT_EQ(api->AllocWorkspace(Cpu(), 6000), a);
  api->FreeWorkspace(Cpu(), a);
  int other;
  EXPECT_THROW(api->FreeWorkspace(Cpu(), &other), RuntimeError);
}

}  // namespace
}  // namespace treadle::runtime
