// Collecting the best scores of a sample's blocks.

#include "search/filter/threshold-guess.h"

#include <algorithm>
#include <limits>

namespace winnow {

ThresholdGuess::ThresholdGuess(const SearchRequest& request, size_t rank,
                               ScratchVector<QueryState>& states, uint32_t threads,
                               ScratchStore& store)
    : request_(request),
      rank_(rank),
      states_(states),
      store_(store),
      best_(threads, ScratchVector<TopSample>(store)) {}

void ThresholdGuess::sample(const ScanUnit& unit, const UnitQueue& queue, uint32_t thread,
                            UnitScan& scan) {
  ScratchVector<TopSample>& best = best_[thread];
  if (best.empty()) {
    best.assign(request_.queries, TopSample(store_));
    for (TopSample& each : best) each.reset(rank_);
  }
  if (!scan.select(unit, [&](uint32_t query) { return best[query].least(); })) return;
  scan.run(queue, [&](const PassedRows& passed) {
    take(passed, best[passed.query]);
    return best[passed.query].least();
  });
}

void ThresholdGuess::take(const PassedRows& passed, TopSample& best) const {
  int32_t margin = std::numeric_limits<int32_t>::min();
  if (passed.rows == ~uint64_t{0} && request_.excludedStarts.empty()) {
    // All rows pass while the query has no threshold yet: in the first blocks of a thread.
    for (uint32_t r = 0; r < BLOCK_ROWS; ++r) margin = std::max(margin, passed.margins[r]);
  } else {
    for (uint64_t rows = passed.rows; rows != 0; rows &= rows - 1) {
      const uint32_t r = static_cast<uint32_t>(__builtin_ctzll(rows));
      if (passed.margins[r] <= margin) continue;
      const uint32_t position = passed.firstPosition + r;
      if (!request_.isExcludedAt(passed.query, passed.table, position)) margin = passed.margins[r];
    }
    if (margin == std::numeric_limits<int32_t>::min()) return;
  }
  best.add(passed.guessOf(margin));
}

void ThresholdGuess::raise(uint32_t query) {
  TopSample all(store_);
  all.reset(rank_);
  for (const ScratchVector<TopSample>& best : best_) {
    if (best.empty()) continue;
    for (const float value : best[query].values()) all.add(value);
  }
  states_[query].raiseToGuess(all.least());
}

}  // namespace winnow
