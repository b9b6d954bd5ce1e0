// The value of a given rank in a stream of values: how many rows of a sample reach a score tells
// how many rows of the whole table will.

#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>

#include "memory/scratch-store.h"

namespace winnow {

class TopSample {
 public:
  explicit TopSample(ScratchStore& store) : values_(store) {}

  void reset(size_t rank) {
    rank_ = rank;
    values_.clear();
    values_.reserve(rank);
  }

  void add(float value) {
    if (values_.size() == rank_) {
      if (!(value > values_.front())) return;
      std::pop_heap(values_.begin(), values_.end(), std::greater<float>());
      values_.pop_back();
    }
    values_.push_back(value);
    std::push_heap(values_.begin(), values_.end(), std::greater<float>());
  }

  /** The value of this rank, the greatest being of rank 1; −∞ if there are fewer. */
  float least() const {
    const bool isFull = rank_ > 0 && values_.size() == rank_;
    return isFull ? values_.front() : -std::numeric_limits<float>::infinity();
  }

  const ScratchVector<float>& values() const { return values_; }

 private:
  size_t rank_ = 0;
  /** A heap, the least value first. */
  ScratchVector<float> values_;
};

}  // namespace winnow
