// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/stack_guard.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "treadle/base/error.h"

// GCC says which sanitizer it builds for by macros, clang by features.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define TREADLE_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define TREADLE_TSAN 1
#include <sanitizer/tsan_interface.h>
#endif

namespace treadle::detail {
namespace {

constexpr size_t kReserve = size_t{192} << 10;  // what one level of recursion and its callees may use
#ifdef TREADLE_TSAN
// ThreadSanitizer keeps 65,536 return addresses of a stack and doesn't look whether there is room for more: no more of
// a stack is used than so many of the smallest frames take.
constexpr size_t kSegment = size_t{2} << 20;
#ifdef __clang__
#define TREADLE_NOT_INSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define TREADLE_NOT_INSTRUMENTED __attribute__((no_sanitize("thread")))
#endif
#else
constexpr size_t kSegment = size_t{64} << 20;  // pages are only taken when touched
#define TREADLE_NOT_INSTRUMENTED
#endif
constexpr size_t kGuard = size_t{1} << 20;  // below a segment: a callee that needs more than the reserve faults

/// The stack that the thread is known to be on.
struct Stack {
  uintptr_t bottom = 0, top = 0;
};
thread_local Stack stack;

Stack StackOfThread() {
  pthread_attr_t attributes;
  void* base = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &base, &size);
    pthread_attr_destroy(&attributes);
  }
  const auto bottom = reinterpret_cast<uintptr_t>(base);
#ifdef TREADLE_TSAN
  if (size > kSegment) return {bottom + size - kSegment, bottom + size};
#endif
  return {bottom, bottom + size};
}

struct Switch {
  void (*call)(void*);
  void* argument;
  ucontext_t caller, callee;
#ifdef TREADLE_ASAN
  const void* caller_bottom = nullptr;
  size_t caller_size = 0;
#endif
#ifdef TREADLE_TSAN
  void* caller_fiber = nullptr;
#endif
};

// It is entered as one fiber and left as another: ThreadSanitizer would take its return address from the wrong one.
TREADLE_NOT_INSTRUMENTED void Trampoline(unsigned high, unsigned low) {
  auto* state = reinterpret_cast<Switch*>((uintptr_t{high} << 32) | low);
#ifdef TREADLE_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &state->caller_bottom, &state->caller_size);
#endif
  state->call(state->argument);
#ifdef TREADLE_ASAN
  __sanitizer_start_switch_fiber(nullptr, state->caller_bottom, state->caller_size);
#endif
#ifdef TREADLE_TSAN
  __tsan_switch_to_fiber(state->caller_fiber, 0);
#endif
}

}  // namespace

bool StackIsLow() {
  if (stack.top == 0) stack = StackOfThread();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  // On a stack that somebody else switched to (coroutines, signal stacks) nobody knows what is left.
  return here < stack.bottom || here >= stack.top || here - stack.bottom < kReserve;
}

void CallOnNewStack(void (*call)(void*), void* argument) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* memory = mmap(nullptr, kGuard + kSegment, PROT_NONE, flags, -1, 0);
  if (memory == MAP_FAILED) throw Error("out of memory: the input is nested too deeply", ExitCode::kUnsupported);
  void* segment = static_cast<char*>(memory) + kGuard;
  if (mprotect(segment, kSegment, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, kGuard + kSegment);
    throw Error("out of memory: the input is nested too deeply", ExitCode::kUnsupported);
  }
  Switch state{call, argument, {}, {}};
  getcontext(&state.callee);
  state.callee.uc_stack.ss_sp = segment;
  state.callee.uc_stack.ss_size = kSegment;
  state.callee.uc_link = &state.caller;
  auto address = reinterpret_cast<uintptr_t>(&state);
  makecontext(&state.callee, reinterpret_cast<void (*)()>(&Trampoline), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address & 0xffffffffu));
  const Stack saved = stack;
  const auto bottom = reinterpret_cast<uintptr_t>(segment);
  stack = {bottom, bottom + kSegment};
#ifdef TREADLE_TSAN
  state.caller_fiber = __tsan_get_current_fiber();
  void* fiber = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(fiber, 0);
#endif
#ifdef TREADLE_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, segment, kSegment);
#endif
  swapcontext(&state.caller, &state.callee);
#ifdef TREADLE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
#ifdef TREADLE_TSAN
  __tsan_destroy_fiber(fiber);
#endif
  stack = saved;
  munmap(memory, kGuard + kSegment);
}

}  // namespace treadle::detail
