// SPDX-License-Identifier: Apache-2.0
// The calling thread's last error: how errors cross the C ABI and compiled code.
#pragma once

#include <cstdint>
#include <string>

#include "treadle/base/error.h"

namespace treadle::runtime {

/// A RuntimeError whose text says which node of the model failed: kernels that call what throws it don't add their
/// names.
class PlacedRuntimeError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

/// Records a plain error text. Returns -1, for `return SetLastError(...)` in functions of the C ABI.
int SetLastError(const std::string& message);
/// Records the exception that is being handled, whatever it is; ThrowLastError throws it again. Returns -1.
int SetLastErrorFromException() noexcept;
/// The last error's text; empty when there was none. Valid until the thread's next error.
const char* LastErrorMessage();
/// The last error's class as Python names it, such as "ShapeError"; "Error" for plain texts.
const char* LastErrorKind();
/// The process exit status that the command line would report for the last error.
int LastErrorCode();
/// How many errors the thread has recorded.
uint64_t LastErrorCount();
/// Throws the recorded exception again, or a RuntimeError with the recorded text ("`where`: text" if not empty).
[[noreturn]] void ThrowLastError(const std::string& where = "");
/// The same after a C function, called `where`, has returned `status`; it may have set no error since LastErrorCount
/// was `count`, and an earlier one isn't its own.
[[noreturn]] void ThrowErrorOf(const std::string& where, int status, uint64_t count);

}  // namespace treadle::runtime
