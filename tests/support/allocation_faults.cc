// SPDX-License-Identifier: Apache-2.0
// Fails allocations one by one: a child process per allocation, in which that one and, in every second child, all after
// it fail. Every child has to end with a result or an Error, and to compute the right result afterwards.
//
//   treadle_allocation_faults run|compile|error TARGET MODEL.onnx STEP [FIRST]
//
// STEP: 1 for all allocations, n for every n-th; FIRST: the one to begin with.
//
// run: loads the compiled model and runs it. compile: compiles it. error: sets an error as compiled code does, which no
// exception may leave. What the process is ended by counts as crash.
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <new>
#include <sstream>

#include "driver/package/export_library.h"
#include "runtime/unfinished.h"
#include "treadle/base/error.h"
#include "treadle/driver/compile.h"
#include "treadle/runtime/c_api.h"
#include "treadle/runtime/c_backend_api.h"
#include "treadle/runtime/model.h"

namespace {

std::atomic<long> calls{0}, first{-1}, last{-1};

bool Fails() {
  if (first.load(std::memory_order_relaxed) < 0) return false;
  const long call = calls.fetch_add(1, std::memory_order_relaxed);
  if (call < first || call > last) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) { return Fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return Fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* data, size_t bytes) { return Fails() ? nullptr : __libc_realloc(data, bytes); }
void* memalign(size_t alignment, size_t bytes) { return Fails() ? nullptr : __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return Fails() ? nullptr : __libc_memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (Fails()) return ENOMEM;
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}

namespace {

namespace rt = treadle::runtime;

enum Outcome : int { kFine = 0, kError = 10, kWrongAfterwards = 11, kOtherException = 12 };

treadle::driver::CompiledModel Compile(const std::string& bytes, const std::string& target) {
  treadle::driver::CompileOptions options;
  options.target = target;
  options.threads = 1;
  options.use_cache = false;
  return treadle::driver::CompileOnnxBytes(bytes, options, "");
}

/// The outputs' bytes.
std::string Run(const std::string& path) {
  const rt::Model model = rt::Model::Load(path);
  rt::NamedTensors inputs;
  for (const rt::TensorInfo& info : model.inputs()) {
    rt::NDArray value = rt::NDArray::Empty(info.shape, info.dtype);
    std::memset(value.data_ptr(), 0, static_cast<size_t>(value.nbytes()));
    inputs[info.name] = value;
  }
  std::string bytes;
  for (const rt::NDArray& output : model.Run(inputs, 1)) {
    bytes.append(static_cast<const char*>(output.data_ptr()), static_cast<size_t>(output.nbytes()));
  }
  return bytes;
}

/// Through frames of compiled code, which has no unwind tables, exceptions can't pass.
std::string SetError() noexcept {
  static const std::string message(200, 'x');  // more than fits in a string without an allocation
  TreadleBackendSetLastError(message.c_str());
  return "set";
}

/// In the child: the work with allocations from `at` on failing, then again without.
int Try(const std::function<std::string()>& work, const std::string& expected, long at, bool all) {
  Outcome outcome = kFine;
  calls = 0;
  last = all ? 1L << 60 : at;
  first = at;
  try {
    const std::string result = work();
    first = -1;
    if (result != expected) outcome = kWrongAfterwards;
  } catch (const treadle::Error&) {
    first = -1;
    outcome = kError;
  } catch (const std::bad_alloc&) {  // Python's bindings and the C functions make an error of it
    first = -1;
    outcome = kError;
  } catch (...) {
    first = -1;
    outcome = kOtherException;
  }
  try {
    if (work() != expected) outcome = kWrongAfterwards;
  } catch (const std::exception& error) {
    std::cerr << "allocation " << at << ", afterwards: " << error.what() << std::endl;
    outcome = kWrongAfterwards;
  }
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: treadle_allocation_faults run|compile|error TARGET MODEL.onnx STEP [FIRST]\n";
    return 2;
  }
  const std::string verb = argv[1], target = argv[2];
  const long step = std::atol(argv[4]), begin = argc > 5 ? std::atol(argv[5]) : 0;
  std::ostringstream bytes;
  bytes << std::ifstream(argv[3], std::ios::binary).rdbuf();
  const rt::TemporaryDirectory folder;
  const std::string path = folder.Path("model.so");
  std::function<std::string()> work = [&] { return Compile(bytes.str(), target).graph_json; };
  if (verb == "error") work = SetError;
  if (verb == "run") {
    treadle::driver::ExportLibrary(Compile(bytes.str(), target), path);
    work = [&] { return Run(path); };
  }
  const std::string expected = work();
  if (work() != expected) return 1;
  first = last = 1L << 60;  // counts
  work();
  first = -1;
  const long total = calls;
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  long fine = 0, errors = 0, wrong = 0, crashes = 0;
  for (long at = begin; at < total; at += step) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(Try(work, expected, at, at / step % 2 == 1));
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
      ++crashes;
      std::cerr << "allocation " << at << ": signal " << WTERMSIG(status) << std::endl;
    } else {
      const int outcome = WEXITSTATUS(status);
      (outcome == kFine ? fine : outcome == kError ? errors : wrong) += 1;
      if (outcome != kFine && outcome != kError)
        std::cerr << "allocation " << at << ": outcome " << outcome << std::endl;
    }
  }
  std::cout << total << " allocations: " << fine << " fine, " << errors << " errors, " << wrong << " wrong, " << crashes
            << " crashes" << std::endl;
  return wrong + crashes == 0 ? 0 : 1;
}
