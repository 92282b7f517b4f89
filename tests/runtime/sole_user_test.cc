// SPDX-License-Identifier: Apache-2.0
// What two threads mustn't use at once says so.
#include "treadle/runtime/sole_user.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/test_models.h"
#include "treadle/runtime/model.h"

namespace treadle::runtime {
namespace {

using ::testing::HasSubstr;

TEST(SoleUser, RefusesASecondThreadWhileTheFirstIsInside) {
  SoleUser sole;
  std::string message;
  {
    const SoleUser::Use outer(&sole);
    const SoleUser::Use inner(&sole);  // the same thread may
    std::thread([&] {
      try {
        const SoleUser::Use use(&sole);
      } catch (const RuntimeError& error) {
        message = error.what();
      }
    }).join();
  }
  EXPECT_THAT(message, HasSubstr("another thread uses this context"));
  std::thread([&] { EXPECT_NO_THROW(SoleUser::Use use(&sole)); }).join();  // in turns is fine
}

TEST(SoleUser, ContextsOfModelsAreRefusedToASecondThread) {
  SealedModel file;
  const Model model = Model::Load(file.path());
  ModelContext context = model.CreateContext();
  const NDArray ones = NDArray::FromVector(std::vector<float>(6, 1), {2, 3}, DataType::Float(32));
  context.SetInput("x", ones);
  const SoleUser::Use busy(context.executor().user());
  int refused = 0;
  std::thread([&] {
    auto expect = [&refused](auto call) {
      try {
        call();
      } catch (const RuntimeError&) {
        ++refused;
      }
    };
    expect([&] { context.Run(); });
    expect([&] { context.SetInput("x", ones); });
    expect([&] { context.GetOutput(0); });
    expect([&] { context.Run({{"x", ones}}); });
    expect([&] { context.RunProfiled(); });
  }).join();
  EXPECT_EQ(refused, 5);
}

}  // namespace
}  // namespace treadle::runtime
