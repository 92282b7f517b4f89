// SPDX-License-Identifier: Apache-2.0
#include "cli/choose_precision.h"

#include "cli/compare.h"
#include "cli/session.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"

namespace treadle::cli {
namespace {

// Arguments: the folder of the package, the model, options as JSON, the largest error, the file to write: a line for
// each layer that keeps float32. A table of what was measured goes to stderr.
constexpr const char* kScript = R"py(
import json, signal, sys
folder, path, options, max_error, result = sys.argv[1:6]
if folder:
    sys.path.insert(0, folder)
try:
    import onnx  # before the handler: an interrupt raised in an extension's start would end in std::terminate
    import treadle
except ImportError as error:
    sys.exit(f"error: the Python {sys.executable or 'python3'} can't choose a precision: {error}")
signal.signal(signal.SIGINT, signal.default_int_handler)  # there are files to remove
try:
    choice = treadle.compile(path, precision="auto", max_error=float(max_error), **json.loads(options)).precision
except KeyboardInterrupt:
    sys.exit(130)
except treadle.Error as error:
    sys.exit(f"error: {error}")
for layers, error in choice.rows:
    name = "none" if not layers else layers[0] if len(layers) == 1 else \
        f"{layers[0]} .. {layers[-1]} ({len(layers)} layers)"
    print(f"{error:.2e}  {name}", file=sys.stderr)
print(f"error {choice.error:.2e}; {len(choice.keep)} layers keep float32", file=sys.stderr)
with open(result, "w") as file:
    file.writelines(name + "\n" for name in choice.keep)
)py";

}  // namespace

void ChoosePrecision(CompileRequest* request, double max_error) {
  if (!IsOnnx(request->model)) throw Error(StrCat(request->model, ": --precision auto needs an .onnx file"));
  CheckExists(request->model);
  const Json options{{"target", request->target},
                     {"opt_level", request->opt_level},
                     {"dims", request->dims},
                     {"shapes", request->input_shapes},
                     {"disabled_pass", request->disabled_pass},
                     {"required_pass", request->required_pass},
                     {"pass_config", request->pass_config},
                     {"external", request->external},
                     {"plugins", request->plugins}};
  runtime::TemporaryDirectory folder;
  const std::string result = folder.Path("kept");
  constexpr int kNoProgram = 127;
  const int status = RunPython(kScript, {PackageFolder(), request->model, options.dump(), StrCat(max_error), result});
  if (status == kNoProgram) throw RuntimeError(StrCat("can't start ", PythonProgram(), "; set TREADLE_PYTHON"));
  if (status != 0) throw RuntimeError("no precision could be chosen");
  request->pass_config["relay.precision"] = "mixed";
  request->pass_config["relay.precision.keep"] = ReadWholeFile(result);
}

}  // namespace treadle::cli
