// SPDX-License-Identifier: Apache-2.0
#include "driver/build/calibrate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "driver/lower/kernel_cache.h"
#include "treadle/base/error.h"
#include "treadle/driver/compile.h"

namespace treadle::driver {
namespace {

namespace fs = std::filesystem;

/// With a cache of its own.
class CalibrateTest : public ::testing::Test {
 protected:
  CalibrateTest() : directory_(fs::path(::testing::TempDir()) / ("calibrate" + std::to_string(getpid()))) {
    RegisterAll();
    fs::remove_all(directory_);
    const char* own = std::getenv("TREADLE_CACHE_DIR");
    if (own != nullptr) old_ = own;
    setenv("TREADLE_CACHE_DIR", directory_.c_str(), 1);
  }
  ~CalibrateTest() override {
    old_.empty() ? unsetenv("TREADLE_CACHE_DIR") : setenv("TREADLE_CACHE_DIR", old_.c_str(), 1);
    fs::remove_all(directory_);
  }
  static targets::Calibration Fake(const TargetFeatures& features) {
    targets::Calibration fake;
    fake.bits = features.vector_bits;
    fake.memory = 3;
    return fake;
  }
  /// The option of a build's context for a target.
  static std::string OptionFor(const std::string& target, const std::string& given = "") {
    transform::PassContext context = transform::PassContext::Create();
    if (!given.empty()) context.CopyOnWrite()->config.Set(targets::kCalibrationOption, String(given));
    return WithCalibration(context, Target(target))->GetConfigString(targets::kCalibrationOption, "");
  }

  fs::path directory_;
  std::string old_;
};

TEST_F(CalibrateTest, BuildsForThisMachineTakeWhatWasMeasured) {
  EXPECT_EQ(StoredCalibration(), "");
  EXPECT_EQ(OptionFor("llvm -mcpu=native"), "");
  const std::string text = ToText(Calibrate(Fake));
  EXPECT_NE(text.find("memory=3"), std::string::npos);
  EXPECT_EQ(StoredCalibration(), text);
  EXPECT_EQ(OptionFor("llvm -mcpu=native"), text);
  EXPECT_EQ(OptionFor("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"), "");
}

TEST_F(CalibrateTest, OptionsComeFirst) {
  Calibrate(Fake);
  EXPECT_EQ(OptionFor("llvm -mcpu=native", "none"), "");
  EXPECT_EQ(OptionFor("llvm -mcpu=native", "bits=256 l2=3"), "bits=256 l2=3");
  EXPECT_THROW(OptionFor("llvm -mcpu=native", "l2=many"), Error);
}

TEST_F(CalibrateTest, StaysWhenKernelsAreCleared) {
  Calibrate(Fake);
  KernelCache::Default()->Clear();
  EXPECT_NE(StoredCalibration(), "");
  EXPECT_TRUE(ForgetCalibration());
  EXPECT_FALSE(ForgetCalibration());
  EXPECT_EQ(StoredCalibration(), "");
}

TEST_F(CalibrateTest, DamagedOneCountsAsNone) {
  Calibrate(Fake);
  for (const auto& entry : fs::directory_iterator(directory_ / "kernels")) {
    if (entry.path().extension() == ".note") std::ofstream(entry.path()) << "bits=256 memory=1e99";
  }
  EXPECT_EQ(StoredCalibration(), "");
}

TEST_F(CalibrateTest, SaysWhyNot) {
  EXPECT_THROW(Calibrate([](const TargetFeatures&) { return targets::Calibration(); }), Error);
  EXPECT_EQ(StoredCalibration(), "");
}

}  // namespace
}  // namespace treadle::driver
