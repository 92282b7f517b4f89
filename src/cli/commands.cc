// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include <algorithm>
#include <iostream>

#include "cli/options.h"
#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/runtime/manifest.h"

namespace treadle::cli {

void CompileFlags::AddTo(CLI::App* verb) {
  verb->add_option("--target", request.target, "what code is for (llvm -mcpu=native)");
  verb->add_option("--input-shapes", input_shapes, "shapes of inputs: \"x:[1,3,224,224] y:[8]\"");
  verb->add_option("--dim", dims, "size of a symbolic dimension: batch=1")->allow_extra_args(false);
  verb->add_option("--opt-level", request.opt_level, "0 to 4 (3)")->check(CLI::Range(0, 4));
  verb->add_option("--external", external, "external code generators, best first")->allow_extra_args(false);
  verb->add_option("--plugin", request.plugins, "library that brings an external code generator or its run time")
      ->allow_extra_args(false);
  verb->add_option("--disabled-pass", disabled_pass, "passes to leave out")->allow_extra_args(false);
  verb->add_option("--required-pass", required_pass, "passes to run whatever the level")->allow_extra_args(false);
  verb->add_flag("!--no-cache", request.use_cache, "compile all kernels anew, and don't keep them");
  verb->add_option("--pass-config", pass_config, "option of a pass: key=value")->allow_extra_args(false);
  verb->add_flag("--pass-timing", request.pass_timing, "print how long each pass over the graph took");
  verb->add_option("--check-passes", check_passes,
                   "check the graph around each pass: types; numbers (slow: runs it in the interpreter)")
      ->allow_extra_args(false);
}

CompileRequest CompileFlags::Parse() const {
  CompileRequest parsed = request;
  parsed.input_shapes = ParseShapes(input_shapes);
  parsed.dims = ParseDims(dims);
  parsed.external = SplitLists(external);
  parsed.disabled_pass = SplitLists(disabled_pass);
  parsed.required_pass = SplitLists(required_pass);
  parsed.pass_config = ParsePairs("--pass-config", pass_config);
  parsed.dump = SplitLists(dump);
  parsed.check_passes = SplitLists(check_passes);
  return parsed;
}

namespace {

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// CLI11 doesn't name a verb that it doesn't know.
void CheckVerb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) verbs.push_back(verb->get_name());
  if (std::find(verbs.begin(), verbs.end(), argv[1]) != verbs.end()) return;
  throw Error(StrCat("unknown verb '", argv[1], "'", DidYouMean(argv[1], verbs), "\nhelp: there are: ", Join(verbs)));
}

/// What is wrong with arguments that a verb doesn't take.
Error Unexpected(const CLI::App& app) {
  const CLI::App* verb = &app;
  for (const CLI::App* sub : app.get_subcommands()) verb = sub;
  const std::string first = app.remaining(/*recurse=*/true).at(0);
  if (first.empty() || first[0] != '-') {
    std::string message = StrCat("unexpected argument '", first, "' for ", verb->get_name());
    if (first.find('=') != std::string::npos)
      message += "\nhelp: flags that take name=value are repeated: --dim a=1 --dim b=2";
    return Error(message);
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : verb->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::string name = first.substr(0, first.find('='));
  return Error(StrCat(verb->get_name(), " has no option '", name, "'", DidYouMean(name, flags), "\nhelp: treadle ",
                      verb->get_name(), " --help lists them"));
}

int Report(const std::string& text, ExitCode code) {
  std::cerr << "error: " << text << "\n";
  return static_cast<int>(code);
}

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app{"Treadle: compiles ONNX models to native code and runs them"};
  app.name("treadle");
  app.set_version_flag("--version", runtime::VersionString());
  app.require_subcommand(1);
  Action action;
  AddCompile(&app, &action);
  AddRun(&app, &action);
  AddVerify(&app, &action);
  AddBench(&app, &action);
  AddInspect(&app, &action);
  AddCache(&app, &action);
  AddListings(&app, &action);
  try {
    CheckVerb(app, argc, argv);
    app.parse(argc, argv);
    return action();
  } catch (const CLI::ExtrasError&) {
    return Report(Unexpected(app).what(), ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return Report(error.what(), ExitCode::kUsage);
  } catch (const Error& error) {
    return Report(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return Report("out of memory", ExitCode::kRuntime);
  } catch (const std::exception& error) {
    return Report(StrCat("internal error: ", error.what()), ExitCode::kInternal);
  }
}

}  // namespace treadle::cli
