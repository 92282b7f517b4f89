// SPDX-License-Identifier: Apache-2.0
// DLPack tensors of other libraries: what is refused stays the producer's, what is taken is freed once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "treadle/base/error.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::runtime {
namespace {

using ::testing::HasSubstr;

/// A producer's tensor of 2 x 3 floats that counts how often it is freed.
template <typename Managed>
struct Producer {
  Managed managed{};
  std::vector<int64_t> shape{2, 3}, strides;
  std::vector<float> data = std::vector<float>(6, 1);
  int freed = 0;

  Producer() {
    DLTensor& tensor = managed.dl_tensor;
    tensor.data = data.data();
    tensor.device = {kDLCPU, 0};
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.ndim = 2;
    tensor.shape = shape.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->freed; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 0};
  }
};

struct Fault {
  const char* name;
  std::function<void(DLTensor*, std::vector<int64_t>*)> make;
  const char* message;
};

class DLPackFault : public ::testing::TestWithParam<Fault> {};

template <typename Managed>
void ExpectRefused(const Fault& fault) {
  Producer<Managed> producer;
  fault.make(&producer.managed.dl_tensor, &producer.shape);
  try {
    NDArray::FromDLPack(&producer.managed);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(fault.message));
  }
  EXPECT_EQ(producer.freed, 0) << "it is the producer's still";
}

TEST_P(DLPackFault, IsRefusedAndStaysTheProducers) { ExpectRefused<DLManagedTensor>(GetParam()); }
TEST_P(DLPackFault, IsRefusedInTheVersionedFormToo) { ExpectRefused<DLManagedTensorVersioned>(GetParam()); }

int64_t wild_strides[] = {int64_t{1} << 62, 1};

const Fault kFaults[] = {
    {"NoData", [](DLTensor* t, auto*) { t->data = nullptr; }, "has no data: it is null"},
    {"NegativeRank", [](DLTensor* t, auto*) { t->ndim = -1; }, "impossible rank: -1"},
    {"RankOf65", [](DLTensor* t, auto* shape) { shape->assign(65, 1), t->shape = shape->data(), t->ndim = 65; },
     "impossible rank: 65"},
    {"NoShape", [](DLTensor* t, auto*) { t->shape = nullptr; }, "without a shape"},
    {"NegativeDimension", [](DLTensor*, auto* shape) { (*shape)[0] = -2; }, "-2"},
    {"TooLarge", [](DLTensor*, auto* shape) { (*shape)[0] = int64_t{1} << 50; }, "too large"},
    {"Overflow", [](DLTensor*, auto* shape) { *shape = {INT64_MAX, INT64_MAX}; }, "overflow"},
    {"NoLanes", [](DLTensor* t, auto*) { t->dtype.lanes = 0; }, "0 lanes"},
    {"NoBits", [](DLTensor* t, auto*) { t->dtype.bits = 0; }, "0 bits"},
    {"UnknownCode", [](DLTensor* t, auto*) { t->dtype.code = 200; }, "code 200"},
    {"Handles", [](DLTensor* t, auto*) { t->dtype = {kDLOpaqueHandle, 64, 1}; }, "no known type"},
    {"OddBits", [](DLTensor* t, auto*) { t->dtype.bits = 33; }, "33 bits"},
    {"PackedBits", [](DLTensor* t, auto*) { t->dtype = {kDLInt, 4, 1}; }, "packed elements of 4 bits"},
    {"NegativeDevice", [](DLTensor* t, auto*) { t->device.device_id = -3; }, "cpu:-3"},
    {"OtherDevice", [](DLTensor* t, auto*) { t->device.device_type = kDLCUDA; }, "cuda"},
    {"UnknownDevice", [](DLTensor* t, auto*) { t->device.device_type = static_cast<DLDeviceType>(9999); }, "9999"},
    {"WildOffset", [](DLTensor* t, auto*) { t->byte_offset = UINT64_MAX; }, "starts at byte"},
    {"WildStride", [](DLTensor* t, auto*) { t->strides = wild_strides; }, "impossible stride"},
};

INSTANTIATE_TEST_SUITE_P(All, DLPackFault, ::testing::ValuesIn(kFaults),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(DLPack, IsFreedOnceWithTheLastReference) {
  Producer<DLManagedTensor> producer;
  {
    NDArray array = NDArray::FromDLPack(&producer.managed);
    NDArray view = array.CreateView({6}, DataType::Float(32));
    array = NDArray();
    EXPECT_EQ(producer.freed, 0);
    EXPECT_EQ(view.Data<float>()[5], 1);
  }
  EXPECT_EQ(producer.freed, 1);
}

TEST(DLPack, OtherVersionsAreRefused) {
  Producer<DLManagedTensorVersioned> producer;
  producer.managed.version.major = 2;
  EXPECT_THROW(NDArray::FromDLPack(&producer.managed), DTypeError);
  EXPECT_EQ(producer.freed, 0);
}

TEST(DLPack, NullIsRefused) {
  EXPECT_THROW(NDArray::FromDLPack(static_cast<DLManagedTensor*>(nullptr)), Error);
  EXPECT_THROW(NDArray::FromDLPack(static_cast<DLManagedTensorVersioned*>(nullptr)), Error);
}

TEST(DLPack, EmptyTensorsNeedNoData) {
  Producer<DLManagedTensor> producer;
  producer.shape[0] = 0;
  producer.managed.dl_tensor.data = nullptr;
  EXPECT_EQ(NDArray::FromDLPack(&producer.managed).size(), 0);
  EXPECT_EQ(producer.freed, 1);
}

TEST(DLPack, ElementsOfFourBitsSayThatTheyArePadded) {
  NDArray array = NDArray::Empty({4}, DataType::Int(4));
  DLManagedTensorVersioned* managed = array.ToDLPackVersioned();
  EXPECT_NE(managed->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, 0u);
  EXPECT_EQ(NDArray::FromDLPack(managed).dtype(), DataType::Int(4));
}

}  // namespace
}  // namespace treadle::runtime
