// The threads of one device. A team runs one piece of work at a time: the caller is thread 0, and
// helpers join as they wake. No thread waits for a helper that has not begun, because on a busy
// machine waking can take longer than the work. Work is cut into items, which the threads that are
// awake take.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "threads/thread-place.h"

namespace winnow {

/** Numbers from 0, each an item of work, that threads take one by one until none is left. */
class WorkItems {
 public:
  void reset(uint32_t count) { count_ = count; }

  /** The next item; false if all are taken. */
  bool take(uint32_t& item) {
    item = next_.fetch_add(1, std::memory_order_relaxed);
    return item < count_;
  }
  /**
   * The item that the next call of `take` gives, by this thread or another one; a number beyond the
   * last item if none is left.
   */
  uint32_t peek() const { return next_.load(std::memory_order_relaxed); }
  /** Tells that a taken item is done. */
  void finish() { done_.fetch_add(1, std::memory_order_release); }
  /** Tells that the taken item, and all that nobody has taken, need not be done. */
  void finishRest() {
    const uint32_t next = next_.exchange(count_, std::memory_order_relaxed);
    const uint32_t rest = next < count_ ? count_ - next : 0;
    done_.fetch_add(rest + 1, std::memory_order_release);
  }
  /** Whether all items are done; if so, what other threads wrote for them is visible here. */
  bool areDone() const { return done_.load(std::memory_order_acquire) == count_; }

 private:
  uint32_t count_ = 0;
  std::atomic<uint32_t> next_{0};
  std::atomic<uint32_t> done_{0};
};

/** Spins until the condition holds; after a while it yields the processor between checks. */
void waitUntil(const std::function<bool()>& isMet);

class ThreadTeam {
 public:
  /** A team of `threads`, or of fewer if the system grants no more. */
  explicit ThreadTeam(uint32_t threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(helpers_.size()) + 1; }

  /**
   * Runs `work(thread)` here as thread 0 and on every helper that wakes before it returns; returns
   * when all that began have returned. It must not throw.
   */
  void run(const std::function<void(uint32_t)>& work);

 private:
  void help(uint32_t thread);

  std::vector<std::thread> helpers_;
  ThreadPlace place_;
  std::mutex one_;
  std::mutex mutex_;
  std::condition_variable wake_;
  /** The work that helpers may begin; null between pieces of work. */
  const std::function<void(uint32_t)>* work_ = nullptr;
  uint64_t round_ = 0;
  bool isEnding_ = false;
  std::atomic<uint32_t> inside_{0};
};

}  // namespace winnow
