// SPDX-License-Identifier: Apache-2.0
// "Did you mean": what a user may have meant by a name that isn't known.
#pragma once

#include <string>
#include <vector>

namespace treadle {

/// "; did you mean 'x'?" with the one of `known` that is nearest to the name by the optimal string alignment distance
/// (insertions, deletions, substitutions, swaps of neighbours); "" where all differ in more than a third of it.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& known);

}  // namespace treadle
