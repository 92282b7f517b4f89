// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/base/suggest.h"

namespace treadle::cli {
namespace {

constexpr const char* kDump = "--dump-config";

/// The verb of the command line; null where there is none.
CLI::App* ChosenVerb(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? nullptr : chosen.front();
}

/// Reads a file into the options of the chosen verb. CLI11 would take unknown names and sections without a word, and
/// says of wrong values only which option they are for.
class VerbConfig : public CLI::ConfigTOML {
 public:
  explicit VerbConfig(CLI::App* app) : app_(app) { comment('\x01'); }  // comments are gone when it reads

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(*WithoutComments(input));
    // A section takes precedence over top-level keys.
    for (const bool above : {false, true}) {
      for (const CLI::ConfigItem& item : items) {
        if (item.parents.empty() == above) Apply(item);
      }
    }
    return {};  // nothing is left to do
  }

 private:
  /// CLI11 takes comments off values only, quoted or not.
  static std::unique_ptr<std::istream> WithoutComments(std::istream& input) {
    std::string text;
    for (std::string line; std::getline(input, line);) {
      char quote = 0;
      size_t end = 0;
      for (; end < line.size() && (quote != 0 || line[end] != '#'); ++end) {
        if (line[end] == quote) {
          quote = 0;
        } else if (quote == 0 && (line[end] == '"' || line[end] == '\'')) {
          quote = line[end];
        }
      }
      text += line.substr(0, end) + "\n";
    }
    return std::make_unique<std::istringstream>(text);
  }

  [[noreturn]] void Fail(const std::string& problem) const {
    throw Error(StrCat(app_->get_config_ptr()->as<std::string>(), ": ", problem));
  }

  CLI::App* FindVerb(const CLI::ConfigItem& item) const {
    std::vector<std::string> verbs;
    for (CLI::App* verb : app_->get_subcommands(nullptr)) {
      if (item.parents.size() == 1 && verb->get_name() == item.parents[0]) return verb;
      verbs.push_back(verb->get_name());
    }
    Fail(StrCat("there is no verb [", item.parents.back(), "]", DidYouMean(item.parents.back(), verbs)));
  }

  static CLI::Option* FindOption(CLI::App* verb, const std::string& name) {
    CLI::Option* option = verb->get_option_no_throw("--" + name);
    return option != nullptr ? option : verb->get_option_no_throw(name);  // by position: the model
  }

  [[noreturn]] void FailUnknown(const std::string& whose, const std::vector<CLI::App*>& verbs,
                                const std::string& name) const {
    std::vector<std::string> known;
    for (const CLI::App* verb : verbs) {
      for (const CLI::Option* option : verb->get_options()) {
        known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
      }
    }
    Fail(StrCat(whose, " option '", name, "'", DidYouMean(name, known)));
  }

  void Apply(const CLI::ConfigItem& item) const {
    CLI::App* chosen = ChosenVerb(*app_);
    CLI::Option* option = nullptr;
    if (item.parents.empty()) {
      bool known = false;
      const std::vector<CLI::App*> verbs = app_->get_subcommands(nullptr);
      for (CLI::App* verb : verbs) known = known || FindOption(verb, item.name) != nullptr;
      if (!known) FailUnknown("no verb has an", verbs, item.name);
      if (chosen != nullptr) option = FindOption(chosen, item.name);
    } else {
      CLI::App* verb = FindVerb(item);
      if (item.name == "++" || item.name == "--") return;  // begin and end of a section
      if (FindOption(verb, item.name) == nullptr) FailUnknown(verb->get_name() + " has no", {verb}, item.name);
      if (verb == chosen) option = FindOption(verb, item.name);
    }
    if (option == nullptr || !option->empty()) return;  // of another verb, or given already
    try {
      if (option->get_expected_min() == 0) {
        option->add_result(option->get_flag_value(item.name, to_flag(item)));
      } else {
        option->add_result(item.inputs);
      }
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      Fail(error.what());
    }
  }

  CLI::App* app_;
};

}  // namespace

void AddConfig(CLI::App* app) {
  app->set_config("--config", "",
                  "read options of verbs from a file such as treadle.toml; the command line overrides it")
      ->check(CLI::Validator(
          [](std::string& path) {
            if (std::filesystem::is_regular_file(path)) return std::string();
            return StrCat("can't read '", path,
                          "': ", std::filesystem::exists(path) ? "it isn't a file" : "there is no such file");
          },
          "FILE"));
  app->add_flag(kDump)->description("print the given options as a configuration file, and exit");
  app->config_formatter(std::make_shared<VerbConfig>(app));
  for (CLI::App* verb : app->get_subcommands(nullptr)) {
    if (!verb->get_prefix_command()) verb->fallthrough();  // else its arguments are read by another program
  }
}

std::string DumpedConfig(const CLI::App& app) {
  const CLI::App* verb = ChosenVerb(app);
  if (verb == nullptr || app.get_option(kDump)->count() == 0) return "";
  return StrCat("[", verb->get_name(), "]\n", CLI::ConfigTOML().to_config(verb, false, false, ""));
}

}  // namespace treadle::cli
