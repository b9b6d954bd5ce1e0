// Work of several threads that may have to end early: because whoever asked for it raises the stop
// flag, or because memory has run out, which raises the flag too. From then on no thread begins an
// item, and no thread waits for another.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "threads/thread-team.h"

namespace winnow {

/** Raised from any thread, it ends the work soon. */
using StopFlag = std::shared_ptr<std::atomic<bool>>;

class StoppableWork {
 public:
  explicit StoppableWork(StopFlag stopFlag) : stopFlag_(std::move(stopFlag)) {}

  const StopFlag& stopFlag() const { return stopFlag_; }
  bool isStopped() const { return stopFlag_->load(std::memory_order_relaxed); }
  bool isOutOfMemory() const { return isOutOfMemory_.load(); }

  /** Stops the work, as whoever asked for it may. */
  void end() { stopFlag_->store(true); }

  /** Stops the work because memory has run out. */
  void endOutOfMemory() {
    isOutOfMemory_.store(true);
    stopFlag_->store(true);
  }

  /** Runs `part` unless the work is stopped; if it throws std::bad_alloc, memory has run out. */
  template <typename Part>
  void guarded(const Part& part);

  /**
   * Takes items and calls `item(number)` for each until none is left, then waits for those that other
   * threads have taken: what all of them did is then visible here, unless the work is stopped.
   */
  template <typename Item>
  void forEach(WorkItems& items, const Item& item);

  /** The same; if `item(number)` is false, the items that nobody has taken need not be done. */
  template <typename Item>
  void forEachWhile(WorkItems& items, const Item& item);

 private:
  StopFlag stopFlag_;
  std::atomic<bool> isOutOfMemory_{false};
};

template <typename Part>
void StoppableWork::guarded(const Part& part) {
  try {
    if (!isStopped()) part();
  } catch (const std::bad_alloc&) {
    endOutOfMemory();
  }
}

template <typename Item>
void StoppableWork::forEachWhile(WorkItems& items, const Item& item) {
  guarded([&] {
    for (uint32_t taken; !isStopped() && items.take(taken);) {
      if (item(taken)) {
        items.finish();
      } else {
        items.finishRest();
      }
    }
  });
  waitUntil([&] { return items.areDone() || isStopped(); });
}

template <typename Item>
void StoppableWork::forEach(WorkItems& items, const Item& item) {
  forEachWhile(items, [&](uint32_t taken) {
    item(taken);
    return true;
  });
}

}  // namespace winnow
