// The best k of a stream of order keys. The pool has room for as many again and is cut back to its
// best k when it is full: most keys cost one comparison, and k keys or more share one selection.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "memory/scratch-store.h"

namespace winnow {

/** Leaves the best k, in any order; fewer than k stay as they are. */
inline void cutKeys(ScratchVector<uint64_t>& keys, size_t k) {
  if (keys.size() <= k) return;
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(keys.begin(), last, keys.end(), std::greater<uint64_t>());
  keys.resize(k);
}

class KeyPool {
 public:
  KeyPool(size_t k, ScratchStore& store) : k_(k), keys_(store) {}

  /** Whether a key can be among the best k. */
  bool admits(uint64_t key) const { return key >= least_; }

  void add(uint64_t key) {
    keys_.push_back(key);
    if (keys_.size() >= 2 * k_ + SPARE) cut();
  }

  /** Leaves the best k, in any order. */
  void cut() {
    if (keys_.size() <= k_) return;
    cutKeys(keys_, k_);
    least_ = keys_.back();
  }

  ScratchVector<uint64_t>& keys() { return keys_; }

 private:
  static constexpr size_t SPARE = 64;

  size_t k_;
  uint64_t least_ = 0;
  ScratchVector<uint64_t> keys_;
};

}  // namespace winnow
