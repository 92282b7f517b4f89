// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm/shape_plans.h"

#include <gtest/gtest.h>

namespace treadle::runtime::vm {
namespace {

/// Three tensors one after the other of which two are in use at once, then one that outlives the run.
std::vector<std::shared_ptr<void>> FourTensors(RunMemory& memory) {
  auto a = memory.Take(1000), b = memory.Take(2000);
  a = nullptr;
  auto c = memory.Take(900);
  b = nullptr;
  auto result = memory.Take(64);
  return {c, result};
}

TEST(ShapePlans, TensorsThatArentInUseTogetherShareMemory) {
  auto pool = std::make_shared<TensorPool>();
  auto first = std::make_shared<RunMemory>(pool, nullptr);
  auto kept = FourTensors(*first);
  kept[0] = nullptr;
  auto plan = first->MakePlan();
  ASSERT_EQ(plan->slots.size(), 4U);
  EXPECT_EQ(plan->bytes, 3072);
  EXPECT_EQ(plan->slots[0].offset, plan->slots[2].offset);
  EXPECT_EQ(plan->slots[3].offset, -1);

  auto second = std::make_shared<RunMemory>(pool, plan);
  auto a = second->Take(1000), b = second->Take(2000);
  const void* place = a.get();
  a = nullptr;
  EXPECT_EQ(second->Take(900).get(), place);
}

TEST(ShapePlans, PlacesInUseArentGivenAway) {
  auto pool = std::make_shared<TensorPool>();
  auto first = std::make_shared<RunMemory>(pool, nullptr);
  auto kept = FourTensors(*first);
  kept[0] = nullptr;
  auto second = std::make_shared<RunMemory>(pool, first->MakePlan());
  auto a = second->Take(1000), b = second->Take(2000), c = second->Take(900);  // a is still in use
  EXPECT_NE(c.get(), a.get());
  auto other = second->Take(12345);  // not what was planned
  EXPECT_NE(other.get(), nullptr);
}

TEST(ShapePlans, ResultsAreMadeWhereTheyAreBound) {
  auto pool = std::make_shared<TensorPool>();
  auto first = std::make_shared<RunMemory>(pool, nullptr);
  auto kept = FourTensors(*first);
  const void* result = kept[1].get();
  kept[0] = nullptr;
  auto plan = first->MakePlan({nullptr, result});
  EXPECT_EQ(plan->slots[3].result, 1);

  const NDArray place = NDArray::Empty({16}, DataType::Float(32)), larger = NDArray::Empty({17}, DataType::Float(32));
  const auto result_of = [&](const std::vector<NDArray>& bound) {
    auto run = std::make_shared<RunMemory>(pool, plan, bound);
    return FourTensors(*run)[1];
  };
  EXPECT_EQ(result_of({NDArray(), place}).get(), place.data_ptr());
  EXPECT_NE(result_of({place, NDArray()}).get(), place.data_ptr()) << "the place of another result";
  EXPECT_NE(result_of({NDArray(), larger}).get(), larger.data_ptr()) << "another size";
  EXPECT_NE(result_of({}).get(), nullptr);
}

TEST(ShapePlans, OnlyTheLastOnesAreKept) {
  ShapePlans plans;
  for (int64_t i = 0; i < 1000; ++i) {
    plans.Add({i}, std::make_shared<ShapePlan>());
    EXPECT_NE(plans.Find({0}), nullptr) << "used all the time";
  }
  EXPECT_EQ(plans.size(), ShapePlans::kMostPlans);
  EXPECT_EQ(plans.Find({1}), nullptr);
}

TEST(ShapePlans, BlocksThatAreUsedAgainStayInThePool) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  auto pool = std::make_shared<TensorPool>();
  {
    const auto a = pool->Take(8 * kMiB), b = pool->Take(8 * kMiB), c = pool->Take(8 * kMiB);
  }  // a run that plans
  pool->Take(20 * kMiB);
  EXPECT_EQ(pool->bytes(), 20 * kMiB) << "the blocks of the first run went, not the one of the plan";
}

TEST(ShapePlans, MemoryLivesAsLongAsItsTensors) {
  auto pool = std::make_shared<TensorPool>();
  auto first = std::make_shared<RunMemory>(pool, nullptr);
  FourTensors(*first).clear();
  std::shared_ptr<void> late;
  {
    auto run = std::make_shared<RunMemory>(pool, first->MakePlan());
    late = run->Take(1000);
  }
  pool = nullptr;
  static_cast<char*>(late.get())[999] = 1;
}

}  // namespace
}  // namespace treadle::runtime::vm
