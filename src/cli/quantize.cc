// SPDX-License-Identifier: Apache-2.0
// `treadle quantize`: graphs of ONNX are rewritten in Python (treadle.quantization), which reads the arguments.
#include <filesystem>

#include "cli/commands.h"
#include "cli/compare.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

// Arguments: the folder that the package is in ("": where Python finds it), then those of the verb.
constexpr const char* kScript = R"py(
import signal
import sys
if sys.argv[1]:
    sys.path.insert(0, sys.argv[1])
try:
    import onnx  # before the handler: an interrupt raised in an extension's start would end in std::terminate
    from treadle import Error
    from treadle.quantization.__main__ import main
except ImportError as error:
    print(f"error: the Python {sys.executable or 'python3'} can't quantise: {error}\nhelp: TREADLE_PYTHON names a Python "
          "that has the packages numpy and onnx", file=sys.stderr)
    sys.exit(5)
signal.signal(signal.SIGINT, signal.default_int_handler)  # there are files to remove
try:
    main(sys.argv[2:])
except KeyboardInterrupt:
    sys.exit(130)
except Error as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
)py";

}  // namespace

std::string PackageFolder() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path root = program.parent_path().parent_path();
  if (std::filesystem::exists(root / "quantization", ignored)) return root.parent_path();  // treadle/bin/treadle
  if (std::filesystem::exists(root / "python" / "treadle" / "quantization", ignored)) return root / "python";
  return "";
}

namespace {

struct QuantizeVerb {
  std::vector<std::string> arguments;

  int Run() const {
    std::vector<std::string> own{PackageFolder()};
    own.insert(own.end(), arguments.begin(), arguments.end());
    const int status = RunPython(kScript, own);
    constexpr int kNoProgram = 127;
    if (status == kNoProgram) {
      throw RuntimeError(StrCat("can't start ", PythonProgram(), ", which quantises; set TREADLE_PYTHON"));
    }
    return status;
  }
};

}  // namespace

void AddQuantize(CLI::App* app, Action* action) {
  auto verb = std::make_shared<QuantizeVerb>();
  Verb(app, "quantize", "convert a float model to 8 or 4 bits", action, [verb] {
    return verb->Run();
  }).PassOn(&verb->arguments);
}

}  // namespace treadle::cli
