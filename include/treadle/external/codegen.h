// SPDX-License-Identifier: Apache-2.0
// Bring your own code generator: the contract between Treadle and those who compile parts of a graph themselves.
// docs/bring-your-own-codegen.md teaches it step by step.
//
// A code generator NAME says what it takes (operators with predicates, composite patterns). Treadle then
//   1. runs its preprocessing pass, if it has one,
//   2. groups operators that form one of its patterns into functions with attribute Composite (MergeComposite),
//   3. marks what it takes (AnnotateTarget), joins neighbouring marks into regions as large as possible without making
//      regions wait for each other (MergeCompilerRegions),
//   4. makes each region a global function with attributes Compiler = NAME, global_symbol = the name of the function to
//      provide, Primitive = 1 (PartitionGraph); what the code generator refuses goes back to Treadle's own code,
//   5. calls `compile` on each function, and links, stores and loads what comes back.
//
// The compiled function takes the tensors of the inputs, then those of the outputs (a tuple's fields in order, nested
// tuples flattened), compact and on the CPU, and returns nothing. It may be called by several threads at once.
// Everything is also reachable by name, as in TVM, so that Python can bring a code generator:
//   relay.ext.NAME(function) -> module
//   relay.ext.NAME.constant_updater(function, symbol) -> {name: tensor}
//   relay.ext.NAME.patterns(module), .optimize(module) -> module: groups patterns; rewrites the regions' functions
//   operator property "target.NAME" (call -> bool), pattern table NAME
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "treadle/relay/byoc.h"
#include "treadle/relay/transform.h"
#include "treadle/runtime/module.h"

namespace treadle::external {

using relay::Function;
using runtime::Module;

struct Codegen {
  std::string name;  ///< as in --external NAME, attribute Compiler and relay.ext.NAME
  std::string doc;   ///< one line

  /// Operators and when they are taken (null: always). The predicate sees a typed call and writes the reason of a
  /// refusal for --dump partition.
  std::vector<std::pair<std::string, relay::TargetPredicate>> ops;
  /// Operators that are taken together, the largest patterns first. Names are "NAME.what".
  std::function<std::vector<relay::CompositePattern>()> patterns;
  /// Rewrites the whole module before it is partitioned.
  std::function<relay::transform::Pass()> preprocess;
  /// Why a whole region isn't worth it or can't be compiled ("" when it is fine): it goes back to Treadle's own code.
  std::function<std::string(const Function& region)> refuse;

  /// Compiles one region. The module has a function named by the attribute global_symbol, and either is DSO-exportable
  /// (C source: see c_source_module.h) or can be saved and loaded by its type. Throws Error when it can't.
  std::function<Module(const Function& region)> compile;
  /// The constants of a region that the compiled function is given, by name. Where it is null, each constant of the
  /// function, in order of a depth-first walk, as <symbol>_const_<i>. Only those that the module asks for (function
  /// "get_const_vars", an array of names) are stored; "__init_<symbol>" is called once with the array of their values
  /// before the first run.
  std::function<Map<String, runtime::NDArray>(const Function& region, const std::string& symbol)> constants;

  /// Throws Error that says what is missing on this machine (a library, a device); null: nothing can be.
  std::function<void()> require;
};

/// Adds a code generator; one of the same name is replaced.
void RegisterCodegen(Codegen codegen);
/// The code generator of that name, or null; those that are only known by relay.ext.NAME aren't listed.
const Codegen* FindCodegen(const std::string& name);
/// Names of all code generators, those of the registry included, sorted.
std::vector<std::string> ListCodegens();
/// One line about a code generator, and what keeps it from working here.
std::string DescribeCodegen(const std::string& name);

/// The constants of `region`, as the default of Codegen::constants names them.
Map<String, runtime::NDArray> DefaultConstants(const Function& region, const std::string& symbol);

/// Registers the code generators that this build has.
void RegisterExternalCodegens();

}  // namespace treadle::external
