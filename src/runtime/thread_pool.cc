// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "runtime/cpu_topology.h"
#include "treadle/base/error.h"
#include "treadle/base/int_math.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/run_limits.h"

namespace treadle::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxWorkers = 1023;
/// Tasks that a launch is divided into where it doesn't say how many. More of them even out threads that are held up,
/// fewer keep what a task reads in cache.
constexpr int kTasksPerThread = 4;
constexpr int kMaxTasks = kTasksPerThread * (kMaxWorkers + 1);

inline void Pause() {
#if defined(__SSE__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Rounding and denormal modes, which a task must see as its launcher set them.
inline uint32_t FloatMode() {
#if defined(__SSE__)
  return _mm_getcsr();
#else
  return 0;
#endif
}
inline void SetFloatMode([[maybe_unused]] uint32_t mode) {
#if defined(__SSE__)
  // Setting it is slow, and it rarely differs. The low six bits are sticky status flags.
  if (((_mm_getcsr() ^ mode) & ~0x3fu) != 0) _mm_setcsr(mode);
#endif
}

std::chrono::nanoseconds SpinTime() {
  static const std::chrono::nanoseconds time = [] {
    long micros = 50;
    if (const char* text = std::getenv("TREADLE_SPIN_US")) micros = std::clamp(std::atol(text), 0L, 1000000L);
    return std::chrono::microseconds(micros);
  }();
  return time;
}

/// Spins until `done()` or the spin time is over; whether it was done.
template <typename Done>
bool SpinUntil(const Done& done) {
  if (done()) return true;
  if (SpinTime().count() == 0) return false;
  auto end = Clock::now() + SpinTime();
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (Clock::now() < end);
  return done();
}

/// Threads that all launches together use, unless one is told to use more.
int ProcessConcurrency() {
  static const int threads = DefaultThreads(ProcessCpus());
  return threads;
}

thread_local int tls_limit = 0;         // 0: the default
thread_local bool tls_in_task = false;  // launches from inside a task are serial
thread_local bool tls_in_run = false;   // inside a RunScope: counted as at work already

/// About what waking a thread that sleeps costs the one who wakes it.
constexpr std::chrono::microseconds kWakeTime{5};

/// Loops that took less than waking a thread when they were launched last: nobody is woken for them. A direct-mapped
/// cache: loops that collide evict each other.
class ShortLoopCache {
 public:
  bool Contains(TreadleParallelLambda loop) { return Slot(loop).load(std::memory_order_relaxed) == loop; }
  void Note(TreadleParallelLambda loop, bool brief) {
    if (brief) {
      Slot(loop).store(loop, std::memory_order_relaxed);
    } else if (Contains(loop)) {
      Slot(loop).store(nullptr, std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<TreadleParallelLambda>& Slot(TreadleParallelLambda loop) {
    return slots_[(reinterpret_cast<uintptr_t>(loop) >> 4) % slots_.size()];
  }
  std::array<std::atomic<TreadleParallelLambda>, 512> slots_{};
};

/// The tasks that one participant begins with; others steal from it when they are done with theirs. A fetched index at
/// or past the end says that the range is exhausted.
struct alignas(64) TaskRange {
  std::atomic<int> next{0};
  int end = 0;

  void Set(int begin, int stop) {
    end = stop;
    next.store(begin, std::memory_order_relaxed);  // posting the job publishes it
  }
  /// The task claimed, or -1.
  int Claim() {
    if (next.load(std::memory_order_relaxed) >= end) return -1;
    int task = next.fetch_add(1, std::memory_order_relaxed);
    return task < end ? task : -1;
  }
};

struct Worker;

/// One launch. Lives on the launcher's stack.
struct Job {
  TreadleParallelLambda lambda;
  void* cdata;
  TreadleParallelGroupEnv env;
  int participants = 1;
  Worker* const* workers = nullptr;                        // of participants 1 and up
  const RunLimitScope* limits = RunLimitScope::Current();  // the launcher's; may be null
  uint32_t float_mode = 0;
  TaskRange share{};  // participant 0's
  // Of the launcher alone: whether workers sleep that it hasn't woken, and since when it is at work.
  bool unwoken = false;
  Clock::time_point start{};

  std::atomic<int> failed_task{std::numeric_limits<int>::max()};
  std::mutex mutex{};  // of what follows
  std::exception_ptr error{};

  TaskRange& ShareOf(int participant);

  /// Gives each participant consecutive tasks, so that a thread tends to work on what it worked on in the last job.
  void Divide() {
    int64_t tasks = env.num_task;
    for (int p = 0; p < participants; ++p) {
      ShareOf(p).Set(static_cast<int>(p * tasks / participants), static_cast<int>((p + 1) * tasks / participants));
    }
  }

  /// The tasks of the participant, then those that others haven't begun.
  void Run(int participant) {
    bool nested = tls_in_task;
    tls_in_task = true;
    for (int i = 0; i < participants; ++i) {
      int victim = participant + i < participants ? participant + i : participant + i - participants;
      TaskRange& tasks = ShareOf(victim);
      for (int task; (task = tasks.Claim()) >= 0;) {
        RunTask(task);
        if (participant == 0 && unwoken && Clock::now() - start > kWakeTime) WakeWorkers();
      }
    }
    tls_in_task = nested;
  }

  void WakeWorkers();

  void RunTask(int task) {
    if (task > failed_task.load(std::memory_order_relaxed)) return;  // only the lowest failure is reported
    int status = -1;
    const uint64_t errors = LastErrorCount();
    try {
      if (limits != nullptr) limits->Check();
      status = lambda(task, &env, cdata);
    } catch (...) {
      SetLastErrorFromException();
    }
    if (status != 0) RecordFailure(task, status, errors);
  }

  void RecordFailure(int task, int status, uint64_t errors) {
    std::exception_ptr caught;
    try {
      if (LastErrorCount() != errors) ThrowLastError();
      throw RuntimeError(StrCat("task ", task, " of a parallel loop returned ", status, " without setting an error"));
    } catch (...) {
      caught = std::current_exception();
    }
    std::lock_guard<std::mutex> lock(mutex);
    if (failed_task.load(std::memory_order_relaxed) < task) return;
    failed_task.store(task, std::memory_order_relaxed);
    error = caught;
  }

  /// To be called when all participants are done.
  int Finish() {
    if (error == nullptr) return 0;
    try {
      std::rethrow_exception(error);
    } catch (...) {
      return SetLastErrorFromException();
    }
  }
};

/// A thread that waits for jobs. Its state is a phase in the low two bits and a count of jobs above them, so that a
/// phase of an earlier job is never taken for one of this job:
///   idle ──Post──▶ posted ──worker──▶ running ──worker──▶ idle (of the next job)
///                    └──Revoke──▶ idle (of the next job)
/// Work stealing: who is done with its own tasks takes those that others haven't begun, and the launcher takes back the
/// job from a worker that hasn't begun at all: a worker that sleeps, or waits for a processor, costs no more than not
/// having had it, and one that loses its processor keeps the others waiting for one task only.
struct Worker {
  static constexpr uint32_t kPosted = 1, kRunning = 2, kPhase = 3, kNextJob = 4;

  std::atomic<bool> claimed{false};  // by a launcher
  alignas(64) std::atomic<uint32_t> state{0};
  std::atomic<bool> sleeping{false};
  std::atomic<bool> awaited{false};
  Job* job = nullptr;  // written by the claimer before it posts
  int participant = 0;
  TaskRange share;

  static uint32_t Idle(uint32_t posted) { return (posted & ~kPhase) + kNextJob; }

  void Loop() {
    for (;;) {
      uint32_t posted = WaitForJob();
      uint32_t running = (posted & ~kPhase) | kRunning;
      if (!state.compare_exchange_strong(posted, running, std::memory_order_acquire)) continue;  // revoked
      SetFloatMode(job->float_mode);
      job->Run(participant);
      // From here on the job may be gone.
      state.store(Idle(running), std::memory_order_seq_cst);
      if (awaited.load(std::memory_order_seq_cst)) state.notify_one();
    }
  }

  static bool IsPosted(uint32_t value) { return (value & kPhase) == kPosted; }

  uint32_t WaitForJob() {
    uint32_t seen = 0;
    for (;;) {
      if (SpinUntil([&] { return IsPosted(seen = state.load(std::memory_order_relaxed)); })) return seen;
      // Post() stores `state` and then looks at `sleeping`; both orders are sequentially consistent, so that either it
      // sees us asleep or we see the job.
      sleeping.store(true, std::memory_order_seq_cst);
      if (!IsPosted(seen = state.load(std::memory_order_seq_cst))) state.wait(seen, std::memory_order_seq_cst);
      sleeping.store(false, std::memory_order_relaxed);
      // Woken too late, for a job that was taken back, we spin for the next one: of many loops that are shorter than
      // waking takes, the worker would get none otherwise.
    }
  }

  /// Whether the worker must be woken to see the job.
  bool Post(Job* new_job, int index) {
    job = new_job;
    participant = index;
    state.fetch_add(kPosted, std::memory_order_seq_cst);
    return sleeping.load(std::memory_order_seq_cst);
  }
  void Wake() {
    if (sleeping.load(std::memory_order_relaxed)) state.notify_one();
  }

  /// Takes the job back unless the worker has begun it.
  void Revoke() {
    uint32_t seen = state.load(std::memory_order_relaxed);
    if (IsPosted(seen)) state.compare_exchange_strong(seen, Idle(seen), std::memory_order_relaxed);
  }

  /// Waits until the worker is done with what it has begun.
  void Await() {
    auto is_idle = [this] { return (state.load(std::memory_order_acquire) & kPhase) == 0; };
    if (SpinUntil(is_idle)) return;
    awaited.store(true, std::memory_order_seq_cst);
    for (uint32_t seen; ((seen = state.load(std::memory_order_seq_cst)) & kPhase) != 0;) {
      state.wait(seen, std::memory_order_seq_cst);
    }
    awaited.store(false, std::memory_order_relaxed);
  }
};

inline TaskRange& Job::ShareOf(int participant) { return participant == 0 ? share : workers[participant - 1]->share; }

inline void Job::WakeWorkers() {
  for (int p = 1; p < participants; ++p) workers[p - 1]->Wake();
  unwoken = false;
}

/// Threads counted as busy until it goes, by whatever way: a count that stayed would take threads away for ever.
class BusyCount {
 public:
  explicit BusyCount(std::atomic<int>* busy) : busy_(busy) {}
  ~BusyCount() { busy_->fetch_sub(count_, std::memory_order_relaxed); }
  BusyCount(const BusyCount&) = delete;
  BusyCount& operator=(const BusyCount&) = delete;
  /// Returns the number before.
  int Add(int threads) {
    count_ += threads;
    return busy_->fetch_add(threads, std::memory_order_relaxed);
  }

 private:
  std::atomic<int>* busy_;
  int count_ = 0;
};

class Pool {
 public:
  static Pool& Global() {
    Pool* pool = global_.load(std::memory_order_acquire);
    if (pool != nullptr) return *pool;
    static std::once_flag fork_handler;
    // The workers don't exist in a forked child: it starts with a pool of its own.
    std::call_once(fork_handler, [] { pthread_atfork(nullptr, nullptr, [] { global_.store(nullptr); }); });
    auto* created = new Pool();  // never destroyed: workers wait in it until the process ends
    if (!global_.compare_exchange_strong(pool, created)) {
      delete created;
      return *pool;
    }
    return *created;
  }

  int Launch(TreadleParallelLambda lambda, void* cdata, int num_task) {
    Job job{lambda, cdata, {nullptr, std::max(num_task, 1)}};
    int most = num_task > 0 ? num_task : num_task == 0 ? kMaxTasks : -std::max(num_task, -kMaxTasks);
    int wanted = std::min({MaxConcurrency(), most, kMaxWorkers + 1}) - 1;
    if (tls_in_task || wanted <= 0) return RunAlone(&job);
    // Others at work count too: all together use no more threads than the process may.
    const int self = tls_in_run ? 0 : 1;
    BusyCount busy(&busy_);
    const int others = busy.Add(self) - (1 - self);
    wanted = std::min(wanted, std::max(ProcessConcurrency(), MaxConcurrency()) - 1 - others);
    std::array<Worker*, kMaxWorkers> claimed;
    int claims = Claim(wanted, claimed.data());
    if (claims == 0) return RunAlone(&job);
    busy.Add(claims);
    job.float_mode = FloatMode();
    job.participants = claims + 1;
    job.workers = claimed.data();
    if (num_task <= 0) job.env.num_task = std::min(most, kTasksPerThread * (claims + 1));
    job.Divide();
    for (int i = 0; i < claims; ++i) job.unwoken |= claimed[i]->Post(&job, i + 1);
    const bool asleep = job.unwoken;
    if (asleep) {
      if (!brief_.Contains(lambda)) job.WakeWorkers();
      job.start = Clock::now();
    }
    job.Run(0);
    if (asleep) brief_.Note(lambda, Clock::now() - job.start < kWakeTime);
    for (int i = claims; i-- > 0;) claimed[i]->Revoke();
    for (int i = 0; i < claims; ++i) claimed[i]->Await();
    // Only now: while one of them is at work it may look for tasks in the shares of all others.
    for (int i = 0; i < claims; ++i) claimed[i]->claimed.store(false, std::memory_order_release);
    return job.Finish();
  }

  int size() const { return count_.load(std::memory_order_acquire); }
  /// That many more threads of callers are at work.
  void CountBusy(int threads) { busy_.fetch_add(threads, std::memory_order_relaxed); }

 private:
  static int RunAlone(Job* job) {
    job->Divide();
    job->Run(0);
    return job->Finish();
  }

  /// Takes up to `wanted` idle workers, in a fixed order so that a share tends to stay on one core.
  int Claim(int wanted, Worker** claimed) {
    wanted = std::clamp(wanted, 0, kMaxWorkers);
    int existing = size();
    if (existing < wanted) existing = Grow(wanted);
    int claims = 0;
    for (int i = 0; i < existing && claims < wanted; ++i) {
      Worker* worker = workers_[i];
      if (worker->claimed.load(std::memory_order_relaxed)) continue;
      if (!worker->claimed.exchange(true, std::memory_order_acquire)) claimed[claims++] = worker;
    }
    return claims;
  }

  int Grow(int wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    int count = count_.load(std::memory_order_relaxed);
    while (count < wanted) {
      std::unique_ptr<Worker> worker;
      try {
        worker = std::make_unique<Worker>();
        std::thread([w = worker.get()] {
          AllowProcessCpus();
          pthread_setname_np(pthread_self(), "treadle");
          w->Loop();
        }).detach();
      } catch (const std::system_error&) {
        break;  // no more threads to be had: work with those there are
      } catch (const std::bad_alloc&) {
        break;  // nor memory for them
      }
      workers_[count] = worker.release();
      count_.store(++count, std::memory_order_release);
    }
    return count;
  }

  static std::atomic<Pool*> global_;
  std::mutex mutex_;  // of Grow
  std::array<Worker*, kMaxWorkers> workers_{};
  std::atomic<int> count_{0};
  std::atomic<int> busy_{0};  // threads at work: those in a RunScope, launchers, claimed workers
  ShortLoopCache brief_;
};

std::atomic<Pool*> Pool::global_{nullptr};

}  // namespace

int DefaultConcurrency() {
  thread_local const int threads = [] {
    const std::vector<int> cpus = AllowedCpus();
    return cpus == ProcessCpus() ? ProcessConcurrency() : std::min(ProcessConcurrency(), DefaultThreads(cpus));
  }();
  return threads;
}

int MaxConcurrency() { return tls_limit > 0 ? tls_limit : DefaultConcurrency(); }

void SetMaxConcurrency(int threads) {
  if (threads < 0 || threads > 4096) throw Error(StrCat("number of threads must be from 0 to 4096, got ", threads));
  tls_limit = threads;
}

ConcurrencyScope::ConcurrencyScope(int threads) : saved_(tls_limit) {
  if (threads != 0) SetMaxConcurrency(threads);
}
ConcurrencyScope::~ConcurrencyScope() { tls_limit = saved_; }

RunScope::RunScope(int threads) : concurrency_(threads) {
  if (tls_in_run || tls_in_task) return;
  Pool& pool = Pool::Global();
  pool.CountBusy(1);
  pool_ = &pool;
  tls_in_run = true;
}
RunScope::~RunScope() {
  if (pool_ == nullptr) return;
  static_cast<Pool*>(pool_)->CountBusy(-1);  // the same one, even in a child that has forked meanwhile
  tls_in_run = false;
}

int ParallelLaunch(TreadleParallelLambda lambda, void* cdata, int num_task) {
  try {
    return Pool::Global().Launch(lambda, cdata, num_task);
  } catch (...) {
    return SetLastErrorFromException();
  }
}

void ParallelFor(int64_t size, const std::function<void(int64_t, int64_t)>& body) {
  struct Context {
    int64_t size;
    const std::function<void(int64_t, int64_t)>* body;
  } context{size, &body};
  auto task = [](int id, TreadleParallelGroupEnv* env, void* cdata) {
    const auto& c = *static_cast<Context*>(cdata);
    int64_t part = CeilDiv(c.size, env->num_task);
    int64_t begin = std::min(c.size, part * id), end = std::min(c.size, begin + part);
    if (begin < end) (*c.body)(begin, end);
    return 0;
  };
  if (ParallelLaunch(task, &context, 0) != 0) ThrowLastError();
}

int WorkerThreads() { return Pool::Global().size(); }

}  // namespace treadle::runtime
