// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

/// Options as "--repeat N", not as CLI11 writes their types and checks ("--repeat INT:POSITIVE").
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    constexpr size_t kColumn = 28;
    column_width(kColumn);
    label("SUBCOMMAND", "VERB");
    label("OPTIONS", "options");
    label("Positionals", "Arguments");
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    return CLI::detail::find_and_replace(text, "\n\n\n", "\n\n");
  }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));  // "--no-cache{false}"
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_expected_min() == 0 || !option->nonpositional()) return "";
    const std::string type = option->get_type_name();
    if (const size_t choices = type.find('{'); choices != std::string::npos) return " " + type.substr(choices);
    if (type.find("FILE") != std::string::npos) return " FILE";
    return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT") ? " N" : " TEXT";
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const bool many = option->get_expected_max() >= CLI::detail::expected_max_vector_size;
    const std::string text = option->get_description();
    return many && option->nonpositional() && text.find("repeatable") == std::string::npos ? text + "; repeatable"
                                                                                           : text;
  }
};

const std::map<std::string, std::vector<std::string>>& Examples() {
  static const std::map<std::string, std::vector<std::string>> examples{
      {"compile",
       {"compile model.onnx -o model.so --dim batch=1",
        "compile model.onnx -o model.so --target \"llvm -mcpu=x86-64-v3\""}},
      {"explain", {"explain model.onnx --dim batch=1"}},
      {"run",
       {"run model.so -i x=picture.png --top-k 5 --labels labels.txt", "run model.onnx -i inputs.npz -o outputs.npz"}},
      {"verify", {"verify model.onnx", "verify model.onnx -i inputs.npz --layers --reduce case"}},
      {"bench",
       {"bench model.onnx --compare onnxruntime -t 5 --threads 1", "bench model.so -i x=random:0..255 --requests 4"}},
      {"profile", {"profile model.so --top 10", "profile model.so --by kernel --csv profile.csv"}},
      {"report", {"report model.onnx -o page.html"}},
      {"inspect", {"inspect model.so --ops --memory"}},
      {"tune", {"tune model.onnx -o records.jsonl --time 10m"}},
      {"records", {"records list records.jsonl", "records merge a.jsonl b.jsonl -o all.jsonl"}},
      {"cache", {"cache show", "cache limit 2GiB"}},
      {"ops", {"ops --model model.onnx", "ops --opset 17 --markdown"}},
      {"doctor", {"doctor", "doctor --calibrate"}},
      {"completion", {"completion bash > ~/.local/share/bash-completion/completions/treadle"}},
      {"man", {"man bench | man -l -"}}};
  return examples;
}

}  // namespace

void SetHelp(CLI::App* app) {
  app->formatter(std::make_shared<HelpFormatter>());
  app->footer(
      "\"treadle help VERB\" describes a verb. Exit status: 0 success, 1 a check failed, 2 incorrect usage,\n"
      "3 not supported, 4 invalid file, 5 error while running, 70 internal error.");
  for (CLI::App* verb : app->get_subcommands(nullptr)) {
    verb->formatter(app->get_formatter());
    verb->group("Verbs");
    const auto found = Examples().find(verb->get_name());
    std::string footer;
    if (found != Examples().end()) {
      footer = "Examples:\n";
      for (const std::string& example : found->second) footer += StrCat("  treadle ", example, "\n");
    }
    if (!verb->get_prefix_command())
      footer += "\n--config FILE and --color WHEN can also be given after the verb; see treadle --help.";
    verb->footer(footer);
  }
}

}  // namespace treadle::cli
