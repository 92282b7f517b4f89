// SPDX-License-Identifier: Apache-2.0
// What people who know other programs may mean by words that this one doesn't know.
#pragma once

#include <string>
#include <vector>

namespace treadle::cli {

/// "; did you mean 'run'?" with the verb that programs such as trtexec or benchmark_app give another name, or that is
/// written in capitals, else the nearest of `verbs`; "" where none is near.
std::string MeantVerb(const std::string& word, const std::vector<std::string>& verbs);

/// The same of an option, with its hyphens ("--iterations", "-n"); `flags` are the verb's, without hyphens.
std::string MeantFlag(const std::string& option, const std::vector<std::string>& flags);

/// "; did you mean 'net.onnx'?" of a path to a model that doesn't exist: a file in the same folder with a similar name,
/// or one that differs only in the extension or in case.
std::string MeantFile(const std::string& path);

}  // namespace treadle::cli
