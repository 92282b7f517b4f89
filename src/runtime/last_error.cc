// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/last_error.h"

#include <exception>
#include <new>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

struct LastErrorState {
  std::string message;
  std::string kind = "Error";
  int code = 0;
  uint64_t count = 0;
  std::exception_ptr exception;
  bool placed = false;  ///< the exception is a PlacedRuntimeError
};

LastErrorState& State() {
  thread_local LastErrorState state;
  return state;
}

}  // namespace

int SetLastError(const std::string& message) {
  LastErrorState& state = State();
  ++state.count;
  state.message = message;
  state.kind = "RuntimeError";
  state.code = static_cast<int>(ExitCode::kRuntime);
  state.exception = nullptr;
  state.placed = false;
  return -1;
}

int SetLastErrorFromException() noexcept {
  LastErrorState& state = State();
  ++state.count;
  state.placed = false;
  try {
    try {
      throw;
    } catch (const Error& error) {
      state.placed = dynamic_cast<const PlacedRuntimeError*>(&error) != nullptr;
      state.message = error.what();
      state.kind = error.kind();
      state.code = static_cast<int>(error.code());
    } catch (const std::bad_alloc&) {
      state.message = "out of memory";
      state.kind = "RuntimeError";
      state.code = static_cast<int>(ExitCode::kRuntime);
    } catch (const std::exception& error) {
      state.message = error.what();
      state.kind = "Error";
      state.code = static_cast<int>(ExitCode::kInternal);
    } catch (...) {
      state.message = "unknown error";
      state.kind = "Error";
      state.code = static_cast<int>(ExitCode::kInternal);
    }
    state.exception = std::current_exception();
  } catch (...) {
    // No memory for the text: the code alone says that something failed.
    state.code = static_cast<int>(ExitCode::kRuntime);
  }
  return -1;
}

const char* LastErrorMessage() { return State().message.c_str(); }
const char* LastErrorKind() { return State().kind.c_str(); }
int LastErrorCode() { return State().code; }
uint64_t LastErrorCount() { return State().count; }

void ThrowLastError(const std::string& where) {
  LastErrorState& state = State();
  // A runtime error only has a text, which may say where; other errors keep their class and members.
  const bool is_text = state.kind == "RuntimeError" && !state.placed;
  if (state.exception != nullptr && !where.empty() && is_text) state.exception = nullptr;
  if (state.exception != nullptr) {
    std::exception_ptr exception = std::move(state.exception);
    state.exception = nullptr;
    std::rethrow_exception(exception);
  }
  // Compiled functions name themselves in what they check.
  const bool named = where.empty() || state.message.rfind(where + ":", 0) == 0;
  throw RuntimeError(named ? state.message : where + ": " + state.message);
}

void ThrowErrorOf(const std::string& where, int status, uint64_t count) {
  if (LastErrorCount() != count) ThrowLastError(where);
  throw RuntimeError(StrCat(where.empty() ? "the function" : where, " returned ", status, " without setting an error"));
}

}  // namespace treadle::runtime
