// SPDX-License-Identifier: Apache-2.0
// Functions that programs of the virtual machine call by name: on strings, sequences, optionals and maps, which
// kernels don't compute with.
//
// A tensor of strings is an int64 tensor of numbers into the table of the run, so that whatever moves elements or
// compares them is a kernel as for any other type. Sequences, optionals and maps are AdtValues of the tags below.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/vm/values.h"

namespace treadle::runtime::vm {

inline constexpr int64_t kSequenceTag = 1;  ///< fields: the elements
inline constexpr int64_t kNoneTag = 2;      ///< an optional without value
inline constexpr int64_t kSomeTag = 3;      ///< field: the value
inline constexpr int64_t kMapTag = 4;       ///< fields: keys and values, one tensor each
inline constexpr int64_t kTextMapTag = 5;   ///< as kMapTag, with strings as keys
/// A sequence of maps with the same keys, of which classifiers give one per row. Fields: the keys, and values (n,
/// keys).
inline constexpr int64_t kMapsTag = 6;
inline constexpr int64_t kTextMapsTag = 7;  ///< as kMapsTag, with strings as keys

/// The strings of one run, each once.
class StringTable {
 public:
  int64_t Intern(std::string_view text);
  /// Throws RuntimeError for numbers that no string has.
  const std::string& At(int64_t number) const;
  void Clear();

 private:
  std::deque<std::string> strings_;  ///< where they are they stay
  std::unordered_map<std::string_view, int64_t> numbers_;
};

/// What a function sees of the run that calls it.
struct HostRun {
  StringTable& strings;
  std::function<NDArray(const std::vector<int64_t>& shape, DataType dtype)> alloc;
};
using HostFunction = ObjectRef (*)(HostRun& run, const std::vector<ObjectRef>& args);

/// The function called `name`; null: there is none.
HostFunction FindHostFunction(const std::string& name);

}  // namespace treadle::runtime::vm
