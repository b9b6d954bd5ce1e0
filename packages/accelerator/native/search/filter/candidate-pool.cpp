// Tightening a full pool. The threshold need not be the exact k-th greatest lower bound: any value
// that k lower bounds reach is right, and a few halvings of the range between the least and the
// greatest lower bound find a value that is close to it.

#include "search/filter/candidate-pool.h"

#include <algorithm>
#include <limits>

namespace winnow {

namespace {

constexpr size_t FIRST_TIGHTENING = 256;
constexpr size_t TIGHTENING_STEP_MIN = 128;
constexpr int HALVINGS_MAX = 16;

}  // namespace

SharedThreshold::SharedThreshold() : value_(-std::numeric_limits<float>::infinity()) {}

void SharedThreshold::raiseTo(float value) {
  float seen = get();
  while (value > seen && !value_.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void CandidatePool::reset(const Kernel& kernel, size_t k, size_t limit) {
  kernel_ = &kernel;
  k_ = k;
  limit_ = limit;
  count_ = 0;
  makeRoom(std::max(FIRST_TIGHTENING, k + std::min<size_t>(64, k)));
}

void CandidatePool::makeRoom(size_t room) {
  survivors_.resize(room);
  lowers_.resize(room);
}

/** A value that at least k lower bounds reach, near the greatest such, given one that k reach. */
float CandidatePool::reachedByK(float reached) const {
  const auto lowers = lowers_.begin();
  const auto end = lowers + static_cast<std::ptrdiff_t>(count_);
  float low = reached;
  if (low < -std::numeric_limits<float>::max()) low = *std::min_element(lowers, end);
  low = std::max(low, -std::numeric_limits<float>::max());
  float high = *std::max_element(lowers, end);
  for (int halving = 0; halving < HALVINGS_MAX; ++halving) {
    const float middle = low * 0.5f + high * 0.5f;
    if (!(middle > low && middle < high)) break;
    const size_t count = kernel_->countFrom(lowers_.data(), count_, middle);
    if (count < k_) {
      high = middle;
      continue;
    }
    low = middle;
    if (count <= k_ + k_ / 16) break;
  }
  return low;
}

bool CandidatePool::tighten(SharedThreshold& threshold) {
  const float seen = threshold.get();
  if (kernel_->countFrom(lowers_.data(), count_, seen) >= k_) {
    threshold.raiseTo(reachedByK(seen));
  }
  const float least = threshold.get();
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    survivors_[kept] = survivors_[i];
    lowers_[kept] = lowers_[i];
    kept += survivors_[i].upper >= least ? 1 : 0;
  }
  count_ = kept;
  if (kept >= limit_) {
    count_ = 0;
    return false;
  }
  makeRoom(kept + std::max(TIGHTENING_STEP_MIN, k_ / 2));
  return true;
}

}  // namespace winnow
