// SPDX-License-Identifier: Apache-2.0
// Any text: it parses, or throws an Error of the user's; what parses prints, parses again to the same and prints the
// same, before and after its types are inferred. For the fuzzer, and for the test that replays its corpus.
#pragma once

#include <string>

#include "treadle/ir/structural.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::testing {

/// Throws InternalError unless the text of `module` parses to the same and prints the same.
inline void CheckPrintsAndReads(const IRModule& module, bool infer_types) {
  const std::string printed = relay::AsText(module);
  IRModule again;
  try {
    again = relay::ParseModule(printed, "again", infer_types);
  } catch (const Error& e) {
    throw InternalError("what was printed doesn't parse: " + std::string(e.what()) + "\n" + printed);
  }
  // Symbolic dimensions that only attributes mention are free variables.
  const std::string difference = StructuralDifference(module, again, /*map_free_vars=*/true);
  if (!difference.empty()) {
    throw InternalError("what was printed parses to something else: " + difference + "\n" + printed);
  }
  const std::string text = relay::AsText(again);
  if (text != printed) throw InternalError("the text changes when printed again: " + printed + "\n" + text);
}

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
  CheckPrintsAndReads(module, /*infer_types=*/false);
  IRModule typed;
  try {
    typed = relay::InferTypes(module);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return;
  }
  CheckPrintsAndReads(typed, /*infer_types=*/true);
}

}  // namespace treadle::testing
