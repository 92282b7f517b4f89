// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/stack_guard.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

#include "treadle/base/error.h"

#if defined(__SANITIZE_ADDRESS__) || (defined(__has_feature) && __has_feature(address_sanitizer))
#define TREADLE_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif

namespace treadle::detail {
namespace {

constexpr size_t kReserve = size_t{192} << 10;  // what one level of recursion and its callees may use
constexpr size_t kSegment = size_t{64} << 20;   // pages are only taken when touched

thread_local uintptr_t stack_limit = 0;  // lowest address of the current segment

uintptr_t LowestAddressOfThread() {
  pthread_attr_t attributes;
  void* base = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &base, &size);
    pthread_attr_destroy(&attributes);
  }
  return reinterpret_cast<uintptr_t>(base);
}

struct Switch {
  void (*call)(void*);
  void* argument;
  ucontext_t caller, callee;
#ifdef TREADLE_ASAN
  const void* caller_bottom = nullptr;
  size_t caller_size = 0;
#endif
};

void Trampoline(unsigned high, unsigned low) {
  auto* state = reinterpret_cast<Switch*>((uintptr_t{high} << 32) | low);
#ifdef TREADLE_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &state->caller_bottom, &state->caller_size);
#endif
  state->call(state->argument);
#ifdef TREADLE_ASAN
  __sanitizer_start_switch_fiber(nullptr, state->caller_bottom, state->caller_size);
#endif
}

}  // namespace

bool StackIsLow() {
  if (stack_limit == 0) stack_limit = LowestAddressOfThread();
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here - stack_limit < kReserve;
}

void CallOnNewStack(void (*call)(void*), void* argument) {
  void* segment = mmap(nullptr, kSegment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (segment == MAP_FAILED) throw Error("out of memory: the input is nested too deeply", ExitCode::kUnsupported);
  Switch state{call, argument, {}, {}};
  getcontext(&state.callee);
  state.callee.uc_stack.ss_sp = segment;
  state.callee.uc_stack.ss_size = kSegment;
  state.callee.uc_link = &state.caller;
  auto address = reinterpret_cast<uintptr_t>(&state);
  makecontext(&state.callee, reinterpret_cast<void (*)()>(&Trampoline), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address & 0xffffffffu));
  uintptr_t saved = stack_limit;
  stack_limit = reinterpret_cast<uintptr_t>(segment);
#ifdef TREADLE_ASAN
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, segment, kSegment);
#endif
  swapcontext(&state.caller, &state.callee);
#ifdef TREADLE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  stack_limit = saved;
  munmap(segment, kSegment);
}

}  // namespace treadle::detail
