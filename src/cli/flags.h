// SPDX-License-Identifier: Apache-2.0
// The flags of a verb, in terms that need no CLI11: its headers take seconds to compile, so only flags.cc and
// describe.cc include them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace treadle::cli {

/// The verb that was chosen; returns the exit status.
using Action = std::function<int()>;

/// Refines the flag that was just added.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  Flag& Required();
  /// Takes one value each time it is given; else all that follow.
  Flag& OneEach();
  Flag& Positive();
  Flag& AboveZero();
  Flag& NonNegative();
  Flag& Between(int least, int most);
  Flag& OneOf(std::vector<std::string> values);
  /// A number of threads: 0 (all that the machine gives), or up to eight for each of its processors.
  Flag& Threads();
  /// Whether the command line has it.
  bool given() const;
  std::string name() const;

 private:
  CLI::Option* option_;
};

/// "0.1.0 (commit 1a2b3c4d5e)", without a commit where it was built outside of git.
std::string FullVersion();

class Verb {
 public:
  /// Of `app`; when it is chosen, `*action` becomes `run`.
  Verb(CLI::App* app, const std::string& name, const std::string& text, Action* action, Action run);
  /// `names`: "-o,--output", or "model" for an argument by position. `value` receives what is given.
  Flag Add(const std::string& names, std::string* value, const std::string& text);
  Flag Add(const std::string& names, std::vector<std::string>* value, const std::string& text);
  Flag Add(const std::string& names, int* value, const std::string& text);
  Flag Add(const std::string& names, double* value, const std::string& text);
  /// Without a value; "!--no-x" sets it to false.
  Flag Add(const std::string& names, bool* value, const std::string& text);
  /// The title under which --help lists the flags that are added from now on.
  void Group(const std::string& title) { group_ = title; }
  /// All arguments go to `arguments`, --help too, for a program that reads them itself.
  void PassOn(std::vector<std::string>* arguments);

 private:
  Flag Listed(CLI::Option* option);

  CLI::App* app_;
  std::string group_;  ///< empty: "Options"
};

}  // namespace treadle::cli
