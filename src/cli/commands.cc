// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#include <algorithm>

#include "cli/choose_precision.h"
#include "cli/options.h"
#include "treadle/base/error.h"
#include "treadle/runtime/limits.h"

namespace treadle::cli {

namespace {

/// The target whose code LLVM makes with few passes; of no effect where it isn't LLVM that makes it.
std::string QuickTarget(const std::string& target) {
  if (target.find("-opt-level") == std::string::npos) return target + " -opt-level=1";
  throw Error(StrCat("--quick sets -opt-level, which '", target, "' does, too"));
}

}  // namespace

void CompileFlags::AddTo(Verb* verb) {
  verb->Group("General");
  verb->Add("--plugin", &request.plugins,
            "plug-in to load: an external code generator, its run-time part, or any other plug-in")
      .OneEach();
  verb->Add("--max-tensor-bytes", &max_tensor_bytes,
            "limit for a single buffer, such as 4GiB (default: the machine's memory)");
  verb->Add("--huge-pages", &huge_pages, "move weights to huge pages: auto, on or off (default: auto)")
      .OneOf({"auto", "on", "off"});
  verb->Add("-q,--quiet", &quiet, "print neither progress nor notes");
  verb->Add("-v,--verbose", &verbose, "print each pass and kernel as it is compiled");
  verb->Group("Compilation");
  sizes_ = {
      verb->Add("--input-shapes", &input_shapes, "input shapes: \"x:[1,3,224,224] y:[8]\""),
      verb->Add("--dim", &dims, "sizes, or ranges, of named dynamic dimensions: batch=1,height=64..640:32k").OneEach(),
  };
  how_ = {
      verb->Add("--target", &request.target, "the target to compile for (default: llvm -mcpu=native)"),
      verb->Add("--opt-level", &request.opt_level, "optimisation level, 0 to 4 (default: 3)").Between(0, 4),
      verb->Add("--external", &external, "external code generators, in order of preference").OneEach(),
      verb->Add("--disabled-pass", &disabled_pass, "passes to skip").OneEach(),
      verb->Add("--required-pass", &required_pass, "passes to run regardless of the optimisation level").OneEach(),
      verb->Add("!--no-cache", &request.use_cache, "neither read nor write the kernel cache"),
      verb->Add("--overridable", &overridable,
                "initializers that become inputs, of those that the graph lists as inputs, too")
          .OneEach(),
      verb->Add("--max-model-memory", &max_model_memory,
                "memory limit for the contents of an ONNX file: 2GiB (default: about ten times its size)"),
      verb->Add("--precision", &precision,
                "number format of matrix products and convolutions, accumulated in float32: f32, bf16, f16, mixed "
                "(bf16 where it is faster), auto (mixed, within --max-error); 8 and 4 bits: treadle quantize")
          .OneOf({"f32", "bf16", "f16", "mixed", "auto"}),
      verb->Add("--max-error", &max_error,
                "with --precision auto: limit for the error of the outputs relative to their norm (default: 0.01)")
          .NonNegative(),
      verb->Add("--quick", &quick,
                "compile with few LLVM passes and without Winograd's method: takes a third to two thirds less time, "
                "but 3 x 3 "
                "convolutions run half as fast"),
      verb->Add("--accuracy", &accuracy,
                "error allowed for fast algorithms: strict (none), default (small), fast (1e-3 of a layer's range)")
          .OneOf({"strict", "default", "fast"}),
      verb->Add("--pass-config", &pass_config, "set an option of a pass: key=value").OneEach(),
      verb->Add("--records", &records, "use the plans in a records file of treadle tune"),
      verb->Add("!--no-calibration", &calibration, "ignore the results of doctor --calibrate"),
      verb->Add("--pass-timing", &request.pass_timing, "print the time of each graph pass"),
      verb->Add("--check-passes", &check_passes,
                "check the graph before and after each pass: types, or numbers (slow: uses the interpreter)")
          .OneEach(),
  };
  verb->Group("");
}

void InputFlags::AddTo(Verb* verb, CompileFlags* flags, const std::string& others) {
  flags->fills_inputs = true;
  verb->Group("Inputs");
  verb->Add("-i,--input", &texts,
            "name=value, where value is a file (.npy, .npz, .pb, or an image), random, random:0..255, ones, zeros or a "
            "number" +
                others + "; repeatable")
      .OneEach();
  verb->Add("--seed", &seed, "seed of random inputs (default: 0)").NonNegative();
  verb->Add("--mean", &mean,
            "for images: subtracted from the values of 0 to 255, such as 123.7,116.3,103.5 (default: 0)");
  verb->Add(
      "--scale", &scale,
      "for images: divides the difference, such as 58.4,57.1,57.4 (default: 255 for float inputs, 1 for integers)");
  verb->Group("");
}

InputOptions InputFlags::Parse(const CompileRequest& sizes) const {
  InputOptions options;
  if (!IsSource(sizes.model)) options.sizes = {{sizes.dims.begin(), sizes.dims.end()}, sizes.input_shapes};
  const bool pictures = std::any_of(texts.begin(), texts.end(),
                                    [](const std::string& text) { return IsPicture(ParseInput(text).source); });
  if (!pictures && !(mean.empty() && scale.empty()))
    throw Error("--mean and --scale are for pictures, and no input is one");
  options.seed = static_cast<unsigned>(seed);
  options.pictures.mean = ParseNumbers("--mean", mean);
  options.pictures.scale = ParseNumbers("--scale", scale);
  for (double value : options.pictures.scale) {
    if (value == 0) throw Error("--scale divides: it can't be 0");
  }
  return options;
}

CompileRequest CompileFlags::Parse() const {
  std::vector<Flag> refused = how_;
  if (!fills_inputs) refused.insert(refused.end(), sizes_.begin(), sizes_.end());
  for (const Flag& flag : refused) {
    if (!flag.given() || IsSource(request.model)) continue;
    throw Error(StrCat(flag.name(), " says how to compile, but ", request.model, " is compiled already",
                       "\nhelp: give it to 'treadle compile', or the .onnx file here"));
  }
  CompileRequest parsed = request;
  if (!max_model_memory.empty())
    parsed.max_model_memory = static_cast<int64_t>(ParseSize("--max-model-memory", max_model_memory));
  if (!max_tensor_bytes.empty())
    runtime::SetMaxTensorBytes(static_cast<int64_t>(ParseSize("--max-tensor-bytes", max_tensor_bytes)));
  if (!huge_pages.empty()) runtime::SetHugePages(runtime::ParseHugePages(huge_pages));
  if (quiet && verbose) throw Error("--quiet and --verbose contradict each other");
  parsed.verbosity = quiet ? Verbosity::kQuiet : verbose ? Verbosity::kVerbose : Verbosity::kNormal;
  parsed.input_shapes = ParseShapes(input_shapes);
  ParseDims(dims, &parsed);
  if (!IsSource(parsed.model) && !parsed.dim_ranges.empty()) {
    throw Error(StrCat("--dim: ", parsed.model, " is compiled already: a size is expected, not the range '",
                       parsed.dim_ranges.begin()->second, "'"));
  }
  parsed.external = SplitLists(external);
  parsed.overridable = SplitLists(overridable);
  parsed.disabled_pass = SplitLists(disabled_pass);
  parsed.required_pass = SplitLists(required_pass);
  parsed.pass_config = ParsePairs("--pass-config", pass_config);
  if (quick) parsed.target = QuickTarget(parsed.target);
  if (!accuracy.empty()) parsed.pass_config["relay.accuracy"] = accuracy;
  if (!records.empty()) parsed.pass_config["schedule.records"] = records;
  if (!calibration) parsed.pass_config["schedule.calibration"] = "none";
  parsed.dump = SplitLists(dump);
  parsed.check_passes = SplitLists(check_passes);
  if (max_error >= 0 && precision != "auto") {
    throw Error("--max-error has no effect without --precision auto");
  }
  if (max_error > 1)
    throw Error(StrCat("--max-error: expected a relative error between 0 and 1, got ", FixedText(max_error, 3)));
  if (precision == "auto") {
    ChoosePrecision(&parsed, max_error >= 0 ? max_error : 0.01);
  } else if (!precision.empty()) {
    parsed.pass_config["relay.precision"] = precision;
  }
  return parsed;
}

}  // namespace treadle::cli
