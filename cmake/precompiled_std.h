// SPDX-License-Identifier: Apache-2.0
// The standard headers that most sources include, compiled once. Sources include what they use all the same: builds
// with other compilers have no precompiled headers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>
