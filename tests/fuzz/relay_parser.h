// SPDX-License-Identifier: Apache-2.0
// Any text: it parses, or throws an Error of the user's; what parses prints, parses again to the same and prints the
// same. For the fuzzer, and for the test that replays its corpus.
#pragma once

#include <string>

#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::testing {

/// Throws InternalError for what mustn't happen.
inline void CheckRelayText(const std::string& text) {
  ops::RegisterAllOps();
  IRModule module;
  try {
    module = relay::ParseModule(text, "fuzz", /*infer_types=*/false);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return;
  }
  const std::string printed = relay::AsText(module);
  IRModule again;
  try {
    again = relay::ParseModule(printed, "again", /*infer_types=*/false);
  } catch (const Error& e) {
    throw InternalError("what was printed doesn't parse: " + std::string(e.what()) + "\n" + printed);
  }
  // Symbolic dimensions that only attributes mention are free variables.
  const std::string difference = StructuralDifference(module, again, /*map_free_vars=*/true);
  if (!difference.empty()) throw InternalError("what was printed parses to something else: " + difference);
  if (relay::AsText(again) != printed) throw InternalError("the text changes when printed again");
  try {
    relay::InferTypes(module);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
}

}  // namespace treadle::testing
