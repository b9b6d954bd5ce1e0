// Tightening: the threshold need not be the exact k-th lower bound. Any value that k of them reach is
// right, and a few halvings of the range between the worst and the best find one that is near.

#include "candidate-pool.h"

#include <algorithm>
#include <limits>

namespace winnow {

namespace {

constexpr size_t FIRST_TIGHTENING = 256;
constexpr int HALVINGS_MAX = 16;

size_t countFrom(const std::vector<float>& values, float least) {
  uint32_t count = 0;
  for (const float value : values) count += value >= least ? 1 : 0;
  return count;
}

/** A value that at least k of the values reach, near the greatest such. There are at least k. */
float reachedBy(const std::vector<float>& values, size_t k) {
  const auto ends = std::minmax_element(values.begin(), values.end());
  float low = *ends.first;
  float high = *ends.second;
  for (int halving = 0; halving < HALVINGS_MAX; ++halving) {
    const float middle = low * 0.5f + high * 0.5f;
    if (!(middle > low && middle < high)) break;
    const size_t count = countFrom(values, middle);
    if (count >= k) {
      low = middle;
      if (count <= k + k / 16) break;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

SharedThreshold::SharedThreshold() : value_(-std::numeric_limits<float>::infinity()) {}

void SharedThreshold::raiseTo(float value) {
  float seen = get();
  while (value > seen && !value_.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void CandidatePool::reset(size_t k, size_t limit) {
  k_ = k;
  limit_ = limit;
  nextTightening_ = std::max(FIRST_TIGHTENING, k + std::min<size_t>(64, k));
  survivors_.clear();
}

bool CandidatePool::add(const Survivor& survivor, SharedThreshold& threshold) {
  survivors_.push_back(survivor);
  return survivors_.size() < nextTightening_ || tighten(threshold);
}

bool CandidatePool::tighten(SharedThreshold& threshold) {
  lowers_.clear();
  for (const Survivor& survivor : survivors_) lowers_.push_back(survivor.lower);
  if (lowers_.size() >= k_) threshold.raiseTo(reachedBy(lowers_, k_));
  const float least = threshold.get();
  survivors_.erase(std::remove_if(survivors_.begin(), survivors_.end(),
                                  [&](const Survivor& s) { return s.upper < least; }),
                   survivors_.end());
  if (survivors_.size() >= limit_) {
    survivors_.clear();
    return false;
  }
  nextTightening_ = survivors_.size() + std::max(FIRST_TIGHTENING / 2, k_ / 2);
  return true;
}

}  // namespace winnow
