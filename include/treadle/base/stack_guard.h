// SPDX-License-Identifier: Apache-2.0
// Recursion of any depth: continues on a fresh stack segment when the current one runs out.
#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace treadle {
namespace detail {

/// Whether less than the reserve is left of the current stack segment.
bool StackIsLow();
/// Runs `call(argument)` on a fresh stack segment. `call` must not throw. Throws Error when no memory is left.
void CallOnNewStack(void (*call)(void*), void* argument);

}  // namespace detail

/// Calls `f`, on a new stack segment if the current one is nearly used up. Put it at the entry of a recursive
/// function that an input can drive deep. Thread-local state stays the same; exceptions pass through.
template <typename F>
auto WithEnoughStack(F&& f) -> decltype(f()) {
  if (!detail::StackIsLow()) return f();
  using R = decltype(f());
  std::exception_ptr error;
  if constexpr (std::is_void_v<R>) {
    auto run = [&]() noexcept {
      try {
        f();
      } catch (...) {
        error = std::current_exception();
      }
    };
    detail::CallOnNewStack([](void* p) { (*static_cast<decltype(run)*>(p))(); }, &run);
    if (error) std::rethrow_exception(error);
  } else {
    std::optional<R> result;
    auto run = [&]() noexcept {
      try {
        result.emplace(f());
      } catch (...) {
        error = std::current_exception();
      }
    };
    detail::CallOnNewStack([](void* p) { (*static_cast<decltype(run)*>(p))(); }, &run);
    if (error) std::rethrow_exception(error);
    return std::move(*result);
  }
}

}  // namespace treadle
