// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/color.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/describe.h"
#include "cli/help.h"
#include "cli/meant.h"
#include "cli/standard_streams.h"
#include "runtime/unfinished.h"
#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/runtime/manifest.h"

namespace treadle::cli {

namespace {

std::string Join(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

CLI::Validator AtLeast(int least, const std::string& name) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least && std::isfinite(value)) return std::string();
        return StrCat("expected a number of ", least, " or more, got '", text, "'");
      },
      name);
}

}  // namespace

Flag& Flag::Required() {
  option_->required();
  return *this;
}

Flag& Flag::OneEach() {
  option_->allow_extra_args(false);
  return *this;
}

Flag& Flag::Positive() {
  option_->check(AtLeast(1, "POSITIVE"));
  return *this;
}

Flag& Flag::AboveZero() {
  option_->check(CLI::Validator(
      [](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value)) return std::string();
        return StrCat("expected a number above 0, got '", text, "'");
      },
      "ABOVE ZERO"));
  return *this;
}

Flag& Flag::NonNegative() {
  option_->check(AtLeast(0, "NONNEGATIVE"));
  return *this;
}

Flag& Flag::Between(int least, int most) {
  option_->check(CLI::Validator(
      [=](std::string& text) {
        int value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return std::string();
        return StrCat("expected a whole number from ", least, " to ", most, ", got '", text, "'");
      },
      StrCat("INT in [", least, " - ", most, "]")));
  return *this;
}

Flag& Flag::OneOf(std::vector<std::string> values) {
  std::string known;
  for (const std::string& value : values) known += StrCat(known.empty() ? "" : ",", value);
  option_->check(CLI::Validator(
      [values = std::move(values)](std::string& text) {
        if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
        return StrCat("expected one of ", Join(values), ", got '", text, "'", DidYouMean(text, values));
      },
      StrCat("{", known, "}")));
  return *this;
}

Flag& Flag::Threads() {
  constexpr int kThreadsPerCpu = 8, kLeastLimit = 64;
  return Between(0, std::max(kLeastLimit, kThreadsPerCpu * static_cast<int>(std::thread::hardware_concurrency())));
}

bool Flag::given() const { return option_->count() > 0; }

std::string Flag::name() const { return option_->get_name(); }

Verb::Verb(CLI::App* app, const std::string& name, const std::string& text, Action* action, Action run)
    : app_(app->add_subcommand(name, text)) {
  app_->callback([action, run = std::move(run)] { *action = run; });
}

Flag Verb::Listed(CLI::Option* option) {
  if (!group_.empty() && option->nonpositional()) option->group(group_);
  return Flag(option);
}

Flag Verb::Add(const std::string& names, std::string* value, const std::string& text) {
  return Listed(app_->add_option(names, *value, text));
}

Flag Verb::Add(const std::string& names, std::vector<std::string>* value, const std::string& text) {
  CLI::Option* option = app_->add_option(names, *value, text);
  option->check([](const std::string& given) {
    if (!given.empty()) return std::string();
    return StrCat("expected a value, got '", given, "'");
  });
  return Listed(option);
}

Flag Verb::Add(const std::string& names, int* value, const std::string& text) {
  return Listed(app_->add_option(names, *value, text));
}

Flag Verb::Add(const std::string& names, double* value, const std::string& text) {
  return Listed(app_->add_option(names, *value, text));
}

Flag Verb::Add(const std::string& names, bool* value, const std::string& text) {
  return Listed(app_->add_flag(names, *value, text));
}

void Verb::PassOn(std::vector<std::string>* arguments) {
  app_->prefix_command();
  app_->set_help_flag();
  app_->parse_complete_callback([app = app_, arguments] {
    *arguments = app->remaining_for_passthrough();
    std::reverse(arguments->begin(), arguments->end());
  });
}

namespace {

/// CLI11 doesn't name a verb that it doesn't know.
void CheckVerb(const CLI::App& app, const std::string& name) {
  std::vector<std::string> verbs{"help"};
  for (const CLI::App* verb : app.get_subcommands(nullptr)) verbs.push_back(verb->get_name());
  if (std::find(verbs.begin(), verbs.end(), name) != verbs.end()) return;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name, ignored)) {
    throw Error(StrCat("'", name, "' is a file, but a verb is expected first\nhelp: such as treadle run ", name,
                       "; treadle --help lists the verbs"));
  }
  throw Error(StrCat("unknown verb '", name, "'", MeantVerb(name, verbs), "\nhelp: there are: ", Join(verbs)));
}

/// Of CLI11's "Could not convert: --repeat = 1e99".
std::string WhyNotConverted(const std::string& text) {
  const size_t begin = text.find("--"), equals = text.find(" = ");
  if (begin == std::string::npos || equals == std::string::npos || equals < begin) return text;
  return StrCat(text.substr(begin, equals - begin), ": expected a whole number of at most 2147483647, got '",
                text.substr(equals + 3), "'");
}

/// Of CLI11's "--input: 1 required TEXT missing" and "--output: At Most 1 required but received 2".
std::string WhyMissing(const std::string& text) {
  const size_t colon = text.find(": ");
  const bool missing = colon != std::string::npos && text.find(" missing") != std::string::npos;
  const bool repeated = colon != std::string::npos && text.find("At Most 1 required") != std::string::npos;
  return missing    ? text.substr(0, colon) + " needs a value"
         : repeated ? text.substr(0, colon) + " is given twice"
                    : text;
}

/// CLI11 speaks of a subcommand that is required.
void RequireVerb(const CLI::App& app) {
  for (const std::string& argument : app.remaining()) {
    if (!argument.starts_with('-')) CheckVerb(app, argument);
  }
  throw Error("a verb is required\nhelp: treadle --help lists them");
}

/// What is wrong with arguments that a verb doesn't take.
Error Unexpected(const CLI::App& app) {
  const CLI::App* verb = &app;
  for (const CLI::App* sub : app.get_subcommands()) verb = sub;
  const std::string first = app.remaining(/*recurse=*/true).at(0);
  if (first.empty() || first[0] != '-') {
    std::string message = StrCat("unexpected argument '", first, "' for ", verb->get_name());
    message += first.find('=') != std::string::npos
                   ? "\nhelp: flags that take name=value are repeated: --dim a=1 --dim b=2"
               : verb->get_name() == "ops" && first.ends_with(".onnx")
                   ? StrCat("\nhelp: --model ", first, " lists what a model needs")
                   : StrCat("\nhelp: treadle ", verb->get_name(), " --help lists its arguments");
    return Error(message);
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : verb->get_options()) {
    flags.insert(flags.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  const std::string before = first.substr(0, first.find(' '));
  if (before != first && before.starts_with("--") && std::count(flags.begin(), flags.end(), before.substr(2)) != 0) {
    return Error(StrCat("'", first, "' is one argument", "\nhelp: an option and its value are two, or ", before,
                        "=VALUE; zsh doesn't split what a variable holds"));
  }
  const std::string name = first.substr(0, first.find('='));
  return Error(StrCat(verb->get_name(), " has no option '", name, "'", MeantFlag(name, flags), "\nhelp: treadle ",
                      verb->get_name(), " --help lists them"));
}

int Report(const std::string& text, ExitCode code) {
  std::cerr << PaintedMessage("error: " + text + "\n");
  return static_cast<int>(code);
}

/// Files under construction go first; then the signal does what it does by default.
void EndBySignal(int signal) {
  runtime::RemoveUnfinished();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void HandleSignals() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is an error of the write
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old{};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;  // as with nohup
    struct sigaction action{};
    action.sa_handler = EndBySignal;
    action.sa_flags = SA_NODEFER;
    sigaction(signal, &action, nullptr);
  }
}

/// "-o=a.so", which other programs take, is "-o a.so" up to a "--".
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    options = options && argument != "--";
    if (options && argument.size() > 2 && argument[0] == '-' && std::isalpha(static_cast<unsigned char>(argument[1])) &&
        argument[2] == '=') {
      arguments.push_back(argument.substr(0, 2));
      arguments.push_back(argument.substr(3));
    } else {
      arguments.push_back(argument);
    }
  }
  return arguments;
}

/// What CLI11 says of arguments that are missing or have no such value, with a line of help.
std::string WhyNotParsed(const CLI::App& app, std::string reason) {
  if (app.get_subcommands().empty()) RequireVerb(app);
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);  // rather than what is missing beside it
  if (!unknown.empty() && unknown[0].starts_with('-')) return Unexpected(app).what();
  if (reason == "--output is required") return reason + "\nhelp: name the file to write: -o NAME";
  if (reason == "files is required") reason = "files are required";
  for (const CLI::App* sub : app.get_subcommands()) {
    reason += StrCat("\nhelp: treadle ", sub->get_name(), " --help lists its arguments");
  }
  return reason;
}

int RunVerb(int argc, char** argv) {
  CLI::App app{"Treadle: compiles ONNX models to native code and runs them"};
  app.name("treadle");
  app.set_help_flag("-h,--help", "print this help and exit");
  app.set_version_flag("--version", FullVersion(), "print the version and the commit, and exit");
  app.require_subcommand(1);
  Action action;
  AddCompile(&app, &action);
  AddRun(&app, &action);
  AddVerify(&app, &action);
  AddBench(&app, &action);
  AddQuantize(&app, &action);
  AddProfile(&app, &action);
  AddReport(&app, &action);
  AddInspect(&app, &action);
  AddTune(&app, &action);
  AddMeasure(&app, &action);
  AddCache(&app, &action);
  AddListings(&app, &action);
  std::string shell, page;
  Verb(&app, "completion", "print a shell completion script", &action,
       [&] {
         std::cout << CompletionScript(app, shell);
         return 0;
       })
      .Add("shell", &shell, "bash, zsh or fish")
      .Required();
  Verb(&app, "man", "print a manual page: treadle man bench | man -l -", &action, [&] {
    if (!page.empty()) CheckVerb(app, page);
    std::cout << ManualPage(app, page);
    return 0;
  }).Add("verb", &page, "the verb (default: the program itself)");
  std::string color = "auto";
  app.add_option("--color", color, "colour output: auto, always or never (auto: on terminals, unless NO_COLOR is set)");
  AddConfig(&app);
  SetHelp(&app);
  const std::string verb = argc > 1 ? argv[1] : "";
  if (!verb.empty() && verb[0] != '-') CheckVerb(app, verb);
  const std::vector<std::string> own{"--help", "--version", "--color", "--config", "--dump-config"};
  const std::string flag = verb.substr(0, verb.find('='));
  if (verb.starts_with("-") && flag != "-h" && std::find(own.begin(), own.end(), flag) == own.end()) {
    throw Error(StrCat("treadle has no option '", verb, "'", DidYouMean(verb, own),
                       "\nhelp: options follow the verb: treadle compile model.onnx -o model.so"));
  }
  try {
    if (verb == "help") {                            // "treadle help bench" is "treadle bench --help"
      std::vector<std::string> arguments{"--help"};  // read from the back
      if (argc > 2) arguments.emplace_back(argv[2]);
      if (argc > 2) CheckVerb(app, argv[2]);
      if (argc > 3) throw Error(StrCat("unexpected argument '", argv[3], "' for help"));
      app.parse(arguments);
      return action ? action() : 0;  // verbs of other programs print their own
    }
    std::vector<std::string> arguments = Arguments(argc, argv);
    std::reverse(arguments.begin(), arguments.end());  // read from the back
    app.parse(std::move(arguments));
    if (color != "auto" && color != "always" && color != "never") {
      throw Error(StrCat("--color: expected one of auto, always, never, got '", color, "'"));
    }
    SetColorMode(color);
    if (const std::string dumped = DumpedConfig(app); !dumped.empty()) {
      std::cout << dumped;
      return 0;
    }
  } catch (const CLI::ExtrasError&) {
    return Report(Unexpected(app).what(), ExitCode::kUsage);
  } catch (const CLI::ConversionError& error) {
    return Report(WhyNotConverted(error.what()), ExitCode::kUsage);
  } catch (const CLI::ArgumentMismatch& error) {
    return Report(WhyMissing(error.what()), ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return Report(WhyNotParsed(app, error.what()), ExitCode::kUsage);
  }
  return action();
}

}  // namespace

int Main(int argc, char** argv) {
  ReserveStandardStreams();
  HandleSignals();
  try {
    try {
      const int status = RunVerb(argc, argv);
      CheckPrinted();
      return status;
    } catch (const Error& error) {
      return Report(error.what(), error.code());
    } catch (const std::bad_alloc&) {
      return Report("out of memory", ExitCode::kRuntime);
    } catch (const std::system_error& error) {  // a thread that can't be started
      return Report(StrCat("the system refuses: ", error.what()), ExitCode::kRuntime);
    } catch (const std::exception& error) {
      return Report(StrCat("internal error: ", error.what()), ExitCode::kInternal);
    }
  } catch (...) {
    // Not even memory for the message.
    std::fputs("error: out of memory\n", stderr);
    return static_cast<int>(ExitCode::kRuntime);
  }
}

}  // namespace treadle::cli
