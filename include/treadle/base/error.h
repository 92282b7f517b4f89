// SPDX-License-Identifier: Apache-2.0
// Errors of two kinds: the user's (Error and its subclasses: say what was wrong, where, and what was
// expected) and our own (InternalError, raised by TREADLE_ICHECK).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "treadle/base/text.h"

namespace treadle {

/// Process exit status that the command line reports for an error.
enum class ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,  ///< a comparison or verification failed
  kUsage = 2,        ///< wrong flag, name, shape or dtype given by the caller
  kUnsupported = 3,  ///< a valid model that uses something Treadle doesn't implement
  kFormat = 4,       ///< a bad, truncated or corrupt file or text
  kRuntime = 5,      ///< failure while running: device, memory, data-dependent index
  kInternal = 70,    ///< a bug in Treadle
};

/// Base of every error that Treadle raises. `what()` is one line (notes may follow on further lines).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kUsage)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }
  /// Name of the class as Python sees it, such as "ShapeError".
  virtual const char* kind() const { return "Error"; }

 private:
  ExitCode code_;
};

/// Operators (or versions, attributes, types of operators) that Treadle doesn't implement.
class UnsupportedOpError : public Error {
 public:
  UnsupportedOpError(const std::string& message, std::vector<std::string> nodes)
      : Error(message, ExitCode::kUnsupported), nodes_(std::move(nodes)) {}
  /// One entry for each unsupported node: "name (Operator, opset N): reason".
  const std::vector<std::string>& nodes() const { return nodes_; }
  const char* kind() const override { return "UnsupportedOpError"; }

 private:
  std::vector<std::string> nodes_;
};

class ShapeError : public Error {
 public:
  explicit ShapeError(const std::string& message) : Error(message, ExitCode::kUsage) {}
  const char* kind() const override { return "ShapeError"; }
};

class DTypeError : public Error {
 public:
  explicit DTypeError(const std::string& message) : Error(message, ExitCode::kUsage) {}
  const char* kind() const override { return "DTypeError"; }
};

/// A file or text that can't be read: truncated, corrupt, not of the expected format.
class ModelFormatError : public Error {
 public:
  explicit ModelFormatError(const std::string& message) : Error(message, ExitCode::kFormat) {}
  const char* kind() const override { return "ModelFormatError"; }
};

class TargetError : public Error {
 public:
  explicit TargetError(const std::string& message) : Error(message, ExitCode::kUsage) {}
  const char* kind() const override { return "TargetError"; }
};

class VerifyError : public Error {
 public:
  explicit VerifyError(const std::string& message) : Error(message, ExitCode::kCheckFailed) {}
  const char* kind() const override { return "VerifyError"; }
};

/// Failure of a compiled model or a device while it runs.
class RuntimeError : public Error {
 public:
  explicit RuntimeError(const std::string& message) : Error(message, ExitCode::kRuntime) {}
  const char* kind() const override { return "RuntimeError"; }
};

/// A broken invariant of Treadle's own: never the user's fault.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(message, ExitCode::kInternal) {}
  const char* kind() const override { return "InternalError"; }
};

namespace detail {

[[noreturn]] void ThrowInternal(const char* file, int line, const std::string& message);

/// Collects the message of a failed TREADLE_ICHECK and throws when the statement ends.
class InternalErrorStream {
 public:
  InternalErrorStream(const char* file, int line, const char* condition) : file_(file), line_(line) {
    text_ << "check failed: " << condition << " ";
  }
  [[noreturn]] ~InternalErrorStream() noexcept(false) { ThrowInternal(file_, line_, text_.str()); }
  TextStream& stream() { return text_; }

 private:
  const char* file_;
  int line_;
  TextStream text_;
};

}  // namespace detail
}  // namespace treadle

/// Checks an invariant of Treadle's own; takes a message: `TREADLE_ICHECK(x) << "why";`.
/// What a user can cause is reported by throwing an Error subclass instead.
#define TREADLE_ICHECK(cond) \
  if (cond) {                \
  } else /* NOLINT */        \
    ::treadle::detail::InternalErrorStream(__FILE__, __LINE__, #cond).stream()
