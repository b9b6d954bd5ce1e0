// How threads wait: between pieces of work helpers sleep on a condition variable; within a piece,
// where waits are short, a thread spins a few thousand times before it yields its processor.

#include "threads/thread-team.h"

#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace winnow {

namespace {
constexpr int LOOKS_BEFORE_YIELD = 2000;
}

void waitUntil(const std::function<bool()>& isMet) {
  for (int looks = 0; !isMet(); ++looks) {
    if (looks >= LOOKS_BEFORE_YIELD) {
      std::this_thread::yield();
      continue;
    }
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
}

ThreadTeam::ThreadTeam(uint32_t threads) {
  try {
    for (uint32_t thread = 1; thread < threads; ++thread) {
      helpers_.emplace_back([this, thread] { help(thread); });
    }
  } catch (const std::system_error&) {
    // The system grants no more threads: the team is as large as it is by now.
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    isEnding_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::run(const std::function<void(uint32_t)>& work) {
  const std::lock_guard<std::mutex> onlyOne(one_);
  place_.keepOffCaller(helpers_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = &work;
    ++round_;
  }
  wake_.notify_all();
  work(0);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = nullptr;
  }
  waitUntil([this] { return inside_.load(std::memory_order_acquire) == 0; });
}

void ThreadTeam::help(uint32_t thread) {
  uint64_t seen = 0;
  for (;;) {
    const std::function<void(uint32_t)>* work = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return isEnding_ || (work_ != nullptr && round_ != seen); });
      if (isEnding_) return;
      seen = round_;
      work = work_;
      inside_.fetch_add(1, std::memory_order_relaxed);
    }
    (*work)(thread);
    inside_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace winnow
