// The survivors of one query on one thread: rows whose score is known only to lie in [lower,
// upper]. When the pool is full it raises the query's threshold to a value that k lower bounds
// reach, and drops the rows that cannot reach it. A pool that stays full means that the filter is
// useless for this query (a table of near ties): the query is then answered by a dense scan, so
// that memory is bounded.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"
#include "memory/scratch-store.h"

namespace winnow {

/** Bounds of a row's score, and where the row is: the table's number and the sorted position. */
struct Survivor {
  float lower;
  float upper;
  uint32_t table;
  uint32_t position;
};

/** A threshold that all threads share. It only rises while they filter. */
class SharedThreshold {
 public:
  SharedThreshold();
  float get() const { return value_.load(std::memory_order_relaxed); }
  void raiseTo(float value);
  /** Only while no other thread uses it. */
  void reset(float value) { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<float> value_;
};

class CandidatePool {
 public:
  explicit CandidatePool(ScratchStore& store) : survivors_(store), lowers_(store) {}

  /** For the best `k`, holding at most `limit` survivors. */
  void reset(const Kernel& kernel, size_t k, size_t limit);

  /** Takes a survivor. False: the pool cannot hold the query's survivors, which are all dropped. */
  bool add(const Survivor& survivor, SharedThreshold& threshold) {
    survivors_[count_] = survivor;
    lowers_[count_] = survivor.lower;
    return ++count_ < survivors_.size() || tighten(threshold);
  }

  const Survivor* begin() const { return survivors_.data(); }
  const Survivor* end() const { return survivors_.data() + count_; }

 private:
  bool tighten(SharedThreshold& threshold);
  float reachedByK(float reached) const;
  void makeRoom(size_t room);

  const Kernel* kernel_ = nullptr;
  /** The first `count_` places are taken; the pool is tightened when all places are. */
  ScratchVector<Survivor> survivors_;
  /** The survivors' lower bounds once more, side by side for counting. */
  ScratchVector<float> lowers_;
  size_t count_ = 0;
  size_t k_ = 0;
  size_t limit_ = 0;
};

}  // namespace winnow
