// Where one query stands: all that the phases of a search tell each other about it.
//
//                 the filter cannot serve it,
//                 or lets too many rows pass
//      FILTERED ─────────────────────────────▶ DENSE
//         │  ▲                                   │
//         │  └── its guess was too high          │ all rows scored
//         │      (the threshold is set anew)     │
//         └────────▶ ANSWERED ◀──────────────────┘
//       survivors scored
//
// Invariant: a row of a lower score than the threshold is not among the k best, unless the threshold
// began as a guess that turns out to be too high; the finish checks that before it answers.

#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "search/filter/candidate-pool.h"

namespace winnow {

class QueryState {
 public:
  bool isFiltered() const { return route() == Route::FILTERED; }
  bool isDense() const { return route() == Route::DENSE; }
  bool isAnswered() const { return route() == Route::ANSWERED; }
  /** From any thread that filters the query. */
  void makeDense() { route_.store(Route::DENSE, std::memory_order_relaxed); }
  void makeAnswered() { route_.store(Route::ANSWERED, std::memory_order_relaxed); }

  SharedThreshold& threshold() { return threshold_; }
  const SharedThreshold& threshold() const { return threshold_; }
  /** What the threshold was guessed to be before the scan; −∞ if nothing was guessed. */
  float guess() const { return guess_; }

  /** Raises the threshold to a value that is not proven. */
  void raiseToGuess(float guess) {
    guess_ = guess;
    threshold_.raiseTo(guess);
  }
  /** Drops the guess: from here on the threshold is a proven value. */
  void resetToProven(float value) {
    guess_ = -std::numeric_limits<float>::infinity();
    threshold_.reset(value);
  }

 private:
  enum class Route : uint8_t { FILTERED, DENSE, ANSWERED };
  Route route() const { return route_.load(std::memory_order_relaxed); }

  SharedThreshold threshold_;
  float guess_ = -std::numeric_limits<float>::infinity();
  std::atomic<Route> route_{Route::FILTERED};
};

}  // namespace winnow
