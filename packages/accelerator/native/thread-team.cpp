// Waiting: between pieces of work helpers sleep; within one, where waits are short, threads look a
// few thousand times before they give their processor away.

#include "thread-team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace winnow {

namespace {

constexpr int LOOKS_BEFORE_YIELD = 2000;

template <typename Condition>
void waitUntil(const Condition& isMet) {
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

}  // namespace

ThreadTeam::ThreadTeam(uint32_t threads) {
  for (uint32_t thread = 1; thread < threads; ++thread) {
    helpers_.emplace_back([this, thread] { help(thread); });
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
  if (!helpers_.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.store(static_cast<uint32_t>(helpers_.size()), std::memory_order_relaxed);
    work_ = &work;
    ++round_;
    wake_.notify_all();
  }
  work(0);
  waitUntil([this] { return running_.load(std::memory_order_acquire) == 0; });
}

void ThreadTeam::meet() {
  const uint32_t meeting = meeting_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
    arrived_.store(0, std::memory_order_relaxed);
    meeting_.fetch_add(1, std::memory_order_acq_rel);
    return;
  }
  waitUntil([&] { return meeting_.load(std::memory_order_acquire) != meeting; });
}

void ThreadTeam::help(uint32_t thread) {
  uint64_t seen = 0;
  for (;;) {
    const std::function<void(uint32_t)>* work = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return isEnding_ || round_ != seen; });
      if (isEnding_) return;
      seen = round_;
      work = work_;
    }
    (*work)(thread);
    running_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace winnow
