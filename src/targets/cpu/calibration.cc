// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/calibration.h"

#include <array>
#include <sstream>

#include "treadle/base/error.h"
#include "treadle/base/text.h"
#include "treadle/ir/transform.h"

namespace treadle::targets {
namespace {

struct Field {
  const char* name;
  double Calibration::* value;
  double least, most;  ///< that a machine can have
};

constexpr std::array kFields{
    Field{"multiply-adds", &Calibration::multiply_adds, 0.05, 16},
    Field{"loads", &Calibration::loads, 0.05, 16},
    Field{"latency", &Calibration::latency, 0.5, 64},
    Field{"l2", &Calibration::l2, 0.1, 512},
    Field{"l3", &Calibration::l3, 0.05, 512},
    Field{"memory", &Calibration::memory, 0.01, 512},
    Field{"other-core", &Calibration::other_core, 0.01, 512},
    Field{"fork-join", &Calibration::fork_join_cycles, 50, 1e7},
};
constexpr const char* kBits = "bits";
constexpr int kLeastBits = 64, kMostBits = 2048, kDigits = 4;

double ParseValue(const std::string& name, const std::string& text, double least, double most) {
  const auto value = ParseDouble(text);
  if (value && *value >= least && *value <= most) return *value;
  throw Error(StrCat(kCalibrationOption, ": ", name, "=", text, ": expected a number from ", least, " to ", most));
}

}  // namespace

std::string ToText(const Calibration& calibration) {
  std::string text = StrCat(kBits, "=", calibration.bits);
  for (const Field& field : kFields) {
    if (const double value = calibration.*field.value; value > 0) {
      text += StrCat(" ", field.name, "=", GeneralText(value, kDigits));
    }
  }
  return text;
}

Calibration ParseCalibration(const std::string& text) {
  Calibration calibration;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const std::string value = equals == word.size() ? "" : word.substr(equals + 1);
    if (name == kBits) {
      calibration.bits = static_cast<int>(ParseValue(name, value, kLeastBits, kMostBits));
      continue;
    }
    const Field* found = nullptr;
    std::string names = kBits;
    for (const Field& field : kFields) {
      if (name == field.name) found = &field;
      names += StrCat(", ", field.name);
    }
    if (found == nullptr) throw Error(StrCat(kCalibrationOption, ": unknown '", name, "'; there are: ", names));
    calibration.*found->value = ParseValue(name, value, found->least, found->most);
  }
  if (calibration.bits == 0) throw Error(StrCat(kCalibrationOption, ": '", text, "' lacks ", kBits, "=.."));
  return calibration;
}

bool IsForThisMachine(const Target& target) { return target->HasKey("cpu") && target->GetAttr("mcpu", "") == "native"; }

std::optional<Calibration> CalibrationFor(const Target& target) {
  const std::string text = transform::PassContext::Current()->GetConfigString(kCalibrationOption, "");
  if (text.empty() || text == kNoCalibration || !IsForThisMachine(target)) return std::nullopt;
  return ParseCalibration(text);
}

}  // namespace treadle::targets
