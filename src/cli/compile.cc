// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iostream>

#include "cli/bounded.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/session.h"
#include "runtime/file_io.h"
#include "runtime/unfinished.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"

namespace treadle::cli {
namespace {

/// Bytes of a file, or of the files in a directory.
uintmax_t SizeOf(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) bytes += entry.file_size();
  return bytes;
}

/// Libraries are called .so, .so.1 or nothing, archives of objects .tar.
void CheckExtension(const std::string& output) {
  if (IsSource(output)) {
    throw Error(
        StrCat("can't write '", output, "': a library isn't called .onnx or .relay", "\nhelp: such as -o model.so"));
  }
  const std::filesystem::path name = std::filesystem::path(output).filename();
  const std::string extension = name.extension();
  if (extension.empty() || extension == ".so" || extension == ".tar") return;
  if (name.string().find(".so.") != std::string::npos) return;
  throw Error(StrCat("can't write '", output, "': unknown extension '", extension,
                     "'\nhelp: .so is a shared library, .tar an archive of objects, DIR/ a folder of C sources "
                     "(target c)"));
}

struct CompileVerb {
  CompileFlags flags;
  bool json = false;
  double max_seconds = 0;
  std::string max_memory, dump_dir;

  int Run() const {
    const Bounds bounds{max_seconds,
                        max_memory.empty() ? 0 : static_cast<int64_t>(ParseSize("--max-compile-memory", max_memory))};
    if (bounds.any()) {
      if (const auto status = ContinueInChild(bounds, StrCat("compiling ", flags.request.model))) return *status;
    }
    CompileRequest request = flags.Parse();
    CheckExists(request.model);
    if (!dump_dir.empty() && request.dump.empty()) throw Error("--dump-dir has no effect without --dump");
    if (!dump_dir.empty()) request.dump_dir = dump_dir;
    CheckNotDash(request.output);
    const bool folder = request.output.ends_with('/');
    const auto kind = request.output.ends_with(".tar") ? runtime::FileKind::kArchive : runtime::FileKind::kLibrary;
    if (folder) {
      runtime::CheckOutputFolder(request.output);
    } else {
      runtime::CheckOutputPath(request.output, kind, {request.model});
    }
    if (!folder) CheckExtension(request.output);
    const auto start = std::chrono::steady_clock::now();
    const std::string report = CompileWatched(request);
    std::cerr << report;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const auto bytes = SizeOf(request.output);
    if (json) {
      std::cout << Json{{"output", request.output}, {"seconds", spent.count()}, {"bytes", bytes}}.dump() << "\n";
    } else {
      std::cout << fmt::format("{} -> {}: {} KiB in {:.2f} s\n", request.model, request.output, bytes / 1024,
                               spent.count());
    }
    return 0;
  }
};

/// Compiles for what `--dump explain` says, and shows that.
struct ExplainVerb {
  CompileFlags flags;

  int Run() const {
    std::cout << ExplainAndLoad(flags.Parse(), nullptr);
    return 0;
  }
};

void AddExplain(CLI::App* app, Action* action) {
  auto verb = std::make_shared<ExplainVerb>();
  Verb sub(app, "explain",
           "print the compiler's decisions and their reasons: fusion, layouts, number formats, kernels with costs",
           action, [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx or .relay file").Required();
  verb->flags.AddTo(&sub);
}

}  // namespace

void AddCompile(CLI::App* app, Action* action) {
  auto verb = std::make_shared<CompileVerb>();
  Verb sub(app, "compile", "compile an ONNX model, or Relay text, to a shared library", action,
           [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx or .relay file").Required();
  sub.Add("-o,--output", &verb->flags.request.output,
          "file to write: a library (.so), objects (.tar), or with target c C sources (DIR/)")
      .Required();
  verb->flags.AddTo(&sub);
  sub.Add("--dump", &verb->flags.dump,
          "write intermediate forms as text: relay, relay-opt, fusion, partition, kernels, explain, tir, ll, asm, c, "
          "graph, vm");
  sub.Add("--dump-dir", &verb->dump_dir, "folder for --dump (default: .)");
  sub.Add("--threads", &verb->flags.request.threads, "number of threads for compilation (default: all)").Threads();
  sub.Add("--max-compile-seconds", &verb->max_seconds, "time limit; compiles in a child process (default: no limit)")
      .NonNegative();
  sub.Add("--max-compile-memory", &verb->max_memory,
          "memory limit, such as 2GiB; compiles in a child process (default: no limit)");
  sub.Add("--json", &verb->json, "machine-readable output");
  AddExplain(app, action);
}

}  // namespace treadle::cli
