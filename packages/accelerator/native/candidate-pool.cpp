// Tightening: the threshold need not be the exact k-th lower bound. Any value that k of them reach is
// right, and a few halvings of the range between the worst and the best find one that is near.

#include "candidate-pool.h"

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
  nextTightening_ = std::max(FIRST_TIGHTENING, k + std::min<size_t>(64, k));
  survivors_.clear();
  lowers_.clear();
}

bool CandidatePool::add(const Survivor& survivor, SharedThreshold& threshold) {
  survivors_.push_back(survivor);
  lowers_.push_back(survivor.lower);
  return survivors_.size() < nextTightening_ || tighten(threshold);
}

/** A value that at least k lower bounds reach, near the greatest such. There are at least k. */
float CandidatePool::reachedByK() const {
  const auto ends = std::minmax_element(lowers_.begin(), lowers_.end());
  float low = std::max(*ends.first, -std::numeric_limits<float>::max());
  float high = *ends.second;
  for (int halving = 0; halving < HALVINGS_MAX; ++halving) {
    const float middle = low * 0.5f + high * 0.5f;
    if (!(middle > low && middle < high)) break;
    const size_t count = kernel_->countFrom(lowers_.data(), lowers_.size(), middle);
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
  if (kernel_->countFrom(lowers_.data(), lowers_.size(), seen) >= k_) {
    threshold.raiseTo(reachedByK());
  }
  const float least = threshold.get();
  size_t kept = 0;
  for (const Survivor& survivor : survivors_) {
    survivors_[kept] = survivor;
    lowers_[kept] = survivor.lower;
    kept += survivor.upper >= least ? 1 : 0;
  }
  survivors_.resize(kept);
  lowers_.resize(kept);
  if (kept >= limit_) {
    survivors_.clear();
    lowers_.clear();
    return false;
  }
  nextTightening_ = kept + std::max(TIGHTENING_STEP_MIN, k_ / 2);
  return true;
}

}  // namespace winnow
