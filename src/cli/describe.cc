// SPDX-License-Identifier: Apache-2.0
#include "cli/describe.h"

#include <CLI/CLI.hpp>

#include "treadle/base/error.h"
#include "treadle/runtime/manifest.h"

namespace treadle::cli {
namespace {

/// Flags of a verb, without arguments by position.
std::vector<const CLI::Option*> FlagsOf(const CLI::App& app) {
  std::vector<const CLI::Option*> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) flags.push_back(option);
  }
  return flags;
}

std::string LongNames(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : FlagsOf(app)) {
    for (const std::string& name : option->get_lnames()) text += (text.empty() ? "--" : " --") + name;
  }
  return text;
}

std::string VerbNames(const CLI::App& app) {
  std::string text;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) text += (text.empty() ? "" : " ") + verb->get_name();
  return text;
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// Within single quotes of a shell.
std::string Quoted(const std::string& text) { return "'" + Replace(text, "'", "'\\''") + "'"; }

/// "f32 bf16" of an option that takes one of several words; else "".
std::string ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.rfind('}');
  return begin == std::string::npos || end < begin ? "" : Replace(type.substr(begin + 1, end - begin - 1), ",", " ");
}

bool TakesNumber(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

/// "-o" and "--output".
std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// A line of bash's "case" for a verb: its flags, words that its argument may be, and values of the flag before.
std::string BashCase(const CLI::App& verb, const std::string& common) {
  std::string values, words;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string choices = ChoicesOf(*option);
    if (choices.empty()) continue;
    if (!option->nonpositional()) {
      words = choices;
    } else if (!option->get_lnames().empty()) {
      values += StrCat(" --", option->get_lnames()[0], ") values=", Quoted(choices), " ;;");
    }
  }
  return StrCat("    ", verb.get_name(), ") flags=", Quoted(LongNames(verb) + common), "; words=", Quoted(words),
                values.empty() ? "" : "; case $previous in" + values + " esac", " ;;\n");
}

std::string Bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) cases += BashCase(*verb, " --config --color --dump-config");
  return StrCat(R"(# bash completion of treadle; load it with: source <(treadle completion bash)
_treadle() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} flags= words= values=
  local verbs=)",
                Quoted(VerbNames(app)), R"(
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "$verbs help --version --help --config --color" -- "$current"))
    return
  fi
  case ${COMP_WORDS[1]} in
)",
                cases, R"(    help) words=$verbs ;;
  esac
  case ${COMP_WORDS[1]} in man) words=$verbs ;; completion) words='bash zsh fish' ;; esac
  case $previous in --color) values='auto always never' ;; esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [ -n "$words" ] && [ "$COMP_CWORD" = 2 ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
    compopt -o filenames
  fi
}
complete -F _treadle treadle
)");
}

std::string Zsh(const CLI::App& app) {
  // A colon and brackets are part of what _arguments reads.
  const auto text_of = [](const std::string& text) {
    return Replace(Replace(Replace(text, "[", "("), "]", ")"), ":", "\\:");
  };
  std::string verbs, cases;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    verbs += StrCat("    ", Quoted(verb->get_name() + ":" + text_of(verb->get_description())), "\n");
    cases += StrCat("    ", verb->get_name(), ") _arguments");
    for (const CLI::Option* option : verb->get_options()) {
      const std::string choices = ChoicesOf(*option);
      if (!option->nonpositional()) {  // the verb is the first argument
        if (!choices.empty())
          cases += StrCat(" \\\n      ", Quoted(StrCat("2:", option->get_name(), ":(", choices, ")")));
        continue;
      }
      const std::string of = !choices.empty() ? StrCat("(", choices, ")") : TakesNumber(*option) ? "" : "_files";
      const std::string value = option->get_items_expected_max() > 0 ? ":value:" + of : "";
      for (const std::string& name : NamesOf(*option)) {
        cases += StrCat(" \\\n      ", Quoted(StrCat("*", name, "[", text_of(option->get_description()), "]", value)));
      }
    }
    cases += " \\\n      '*:file:_files' ;;\n";
  }
  return StrCat(R"(#compdef treadle
# zsh completion of treadle; put it where $fpath looks, as _treadle
_treadle() {
  local -a verbs
  verbs=(
)",
                verbs, R"(  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  case $words[2] in
)",
                cases, R"(  esac
}
compdef _treadle treadle
)");
}

std::string Fish(const CLI::App& app) {
  std::string text = "# fish completion of treadle; put it into ~/.config/fish/completions/treadle.fish\n";
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    text += StrCat("complete -c treadle -f -n __fish_use_subcommand -a ", verb->get_name(), " -d ",
                   Quoted(verb->get_description()), "\n");
    for (const CLI::Option* option : verb->get_options()) {
      const std::string choices = ChoicesOf(*option);
      const std::string of_verb = StrCat("complete -c treadle -n '__fish_seen_subcommand_from ", verb->get_name(), "'");
      if (!option->nonpositional()) {
        if (!choices.empty()) text += StrCat(of_verb, " -f -a ", Quoted(choices), "\n");
        continue;
      }
      std::string names;
      for (const std::string& name : option->get_snames()) names += " -s " + name;
      for (const std::string& name : option->get_lnames()) names += " -l " + name;
      const bool takes = option->get_items_expected_max() > 0;
      const std::string value = !takes                 ? ""
                                : !choices.empty()     ? " -x -a " + Quoted(choices)
                                : TakesNumber(*option) ? " -x"
                                                       : " -r";
      text += StrCat(of_verb, names, value, " -d ", Quoted(option->get_description()), "\n");
    }
  }
  return text;
}

/// Text of a manual page: backslashes, hyphens of flags and leading dots mean something to roff.
std::string Roff(const std::string& text) {
  std::string escaped = Replace(Replace(text, "\\", "\\e"), "-", "\\-");
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string OptionsOf(const CLI::App& app) {
  std::string positions, flags;
  for (const CLI::Option* option : app.get_options()) {
    const std::string names = option->nonpositional() ? option->get_name(false, true) : option->get_name(true);
    std::string& text = option->nonpositional() ? flags : positions;
    const bool takes = option->nonpositional() && option->get_items_expected_max() > 0;
    text += StrCat(".TP\n\\fB", Roff(Replace(names, ",", ", ")), "\\fR", takes ? " \\fIvalue\\fR" : "", "\n",
                   Roff(option->get_description()), "\n");
  }
  return (positions.empty() ? "" : ".SH ARGUMENTS\n" + positions) + ".SH OPTIONS\n" + flags;
}

constexpr const char* kExitStatus = R"(.SH EXIT STATUS
0: it worked; 1: a comparison or verification failed; 2: wrong usage; 3: the model needs something that isn't
implemented; 4: a damaged file or text; 5: a failure while running; 70: a bug in Treadle.
)";

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return Bash(app);
  if (shell == "zsh") return Zsh(app);
  if (shell == "fish") return Fish(app);
  throw Error(StrCat("no completion for the shell '", shell, "'\nhelp: there are: bash, zsh, fish"));
}

std::string ManualPage(const CLI::App& app, const std::string& verb) {
  const std::string version = runtime::VersionString();
  const CLI::App* described = &app;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    if (sub->get_name() == verb) described = sub;
  }
  const std::string name = verb.empty() ? "treadle" : "treadle-" + verb;
  std::string text = StrCat(".TH ", Replace(name, "-", "\\-"), " 1 \"\" \"Treadle ", version, "\"\n.SH NAME\n",
                            Roff(name), " \\- ", Roff(described->get_description()), "\n.SH SYNOPSIS\n.B treadle ",
                            verb.empty() ? "\\fIverb\\fR" : verb, " [\\fIoption\\fR]... [\\fIargument\\fR]...\n");
  if (verb.empty()) {
    text += ".SH VERBS\n";
    for (const CLI::App* sub : app.get_subcommands(nullptr)) {
      text += StrCat(".TP\n\\fB", sub->get_name(), "\\fR\n", Roff(sub->get_description()), "\n");
    }
  }
  text += OptionsOf(*described) + kExitStatus;
  return text +
         (verb.empty() ? ".SH SEE ALSO\n\\fBtreadle help\\fR \\fIverb\\fR\n" : ".SH SEE ALSO\n\\fBtreadle\\fR(1)\n");
}

}  // namespace treadle::cli
