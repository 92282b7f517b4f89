// SPDX-License-Identifier: Apache-2.0
// What --help prints.
#pragma once

namespace CLI {
class App;
}

namespace treadle::cli {

/// Help in this program's words, with examples for each verb.
void SetHelp(CLI::App* app);

}  // namespace treadle::cli
