// Where a scan begins: a threshold guessed from a sample. Without it, a query's first rows pass because
// nothing better is known yet, some k·ln(rows / k) of them on each thread.
//
// Every so many blocks are looked at, in all tables. If k of the table's rows reach a score, about
// k / stride of the sample's rows do; the guess is the score that clearly more of them reach, so that
// k rows of the table reach it but for a chance of about one in a hundred thousand. Of each block only
// its best row counts: equal rows lie side by side, and a sample would see all of them or none.
//
// Rows with less than half of the greatest norm are left out: where there are many, the scan ends by
// itself before it meets them, and a sample would cost more than it spares.
//
// A guess is never trusted. Once the survivors have been scored, a query whose k-th best score is
// below its guess is filtered once more with what is known by then.

#include <algorithm>
#include <cmath>

#include "kernels/bound.h"
#include "search/search.h"

namespace winnow {

namespace {

constexpr uint32_t STRIDE_MIN = 16;
constexpr uint32_t STRIDE_MAX = 32;
/** Rows of the k best that a sample should hold: more would make it larger, fewer the guess lower. */
constexpr size_t BEST_PER_SAMPLE = 4;
/** Deviations by which more rows of the sample than expected must reach the guess, and some more. */
constexpr double RANK_DEVIATIONS = 4;
constexpr double RANK_MARGIN = 4;
/** Blocks per item of work. */
constexpr uint32_t SAMPLED_PER_ITEM = 16;
constexpr double NORM_SHARE = 0.5;
/** Bytes of a table that are read in the time that one of the k best of a query costs otherwise. */
constexpr size_t BYTES_PER_BEST = 5000;

}  // namespace

void Search::planSample() {
  const size_t bestOfAll = size_t{request_.queries} * request_.k;
  uint64_t bytes = 0;
  for (const TablePointer& table : request_.tables) {
    bytes += uint64_t{table->shape().rows} * request_.dim;
  }
  const size_t wanted = request_.k / BEST_PER_SAMPLE;
  sampleStride_ = static_cast<uint32_t>(
      std::min<size_t>(std::max<size_t>(wanted, STRIDE_MIN), STRIDE_MAX));
  const bool isForced = request_.weights.guess != 1;
  if (!isForced && bestOfAll * BYTES_PER_BEST < bytes / sampleStride_) return;
  const double mean = static_cast<double>(request_.k) / sampleStride_;
  const double rank = mean + RANK_DEVIATIONS * std::sqrt(mean) + RANK_MARGIN;
  sampleRank_ = std::max<size_t>(1, static_cast<size_t>(rank * request_.weights.guess));
  const uint32_t blocksPerItem = SAMPLED_PER_ITEM * sampleStride_;
  for (uint32_t t = 0; t < request_.tables.size(); ++t) {
    const Table& table = *request_.tables[t];
    uint32_t units = 0;
    while (units < table.units() && table.unitNorm(units) >= NORM_SHARE * units_[0].norm) ++units;
    const uint32_t blocks = std::min(units * UNIT_BLOCKS, table.blocks());
    for (uint32_t first = 0; first < blocks; first += blocksPerItem) {
      const uint32_t end = std::min(first + blocksPerItem, blocks);
      // Tables are of one kind, but not sampled at the same places.
      const uint32_t start = first + (t * 7 + sampleStride_ / 2) % sampleStride_;
      if (start >= end) continue;
      samples_.push_back({table.unitNorm(first / UNIT_BLOCKS), t, start, end, sampleStride_});
    }
  }
  // The likely winners first, as in the scan.
  std::stable_sort(samples_.begin(), samples_.end(),
                   [](const Unit& a, const Unit& b) { return a.norm > b.norm; });
}

void Search::sampleItem(const Unit& unit, Scratch& scratch) {
  if (scratch.samples.empty()) {
    prepareScratch(scratch);
    scratch.samples.assign(request_.queries, TopSample(store_));
    for (TopSample& sample : scratch.samples) sample.reset(sampleRank_);
  }
  scratch.isSampling = true;
  if (activate(unit, scratch)) filterUnit(unit, scratch);
  scratch.isSampling = false;
}

void Search::takeSample(const Unit& unit, const Passed& passed, Scratch& scratch) {
  const uint32_t query = scratch.active[passed.lane];
  const Bounding bounding = boundingOf(unit, passed, scratch);
  int32_t best = std::numeric_limits<int32_t>::min();
  if (passed.rows == ~uint64_t{0} && request_.excludedStarts.empty()) {
    // The first blocks of a query, before it has a threshold.
    for (uint32_t r = 0; r < BLOCK_ROWS; ++r) best = std::max(best, passed.margins[r]);
  } else {
    for (uint64_t rows = passed.rows; rows != 0; rows &= rows - 1) {
      const uint32_t r = static_cast<uint32_t>(__builtin_ctzll(rows));
      if (passed.margins[r] <= best) continue;
      if (!isExcludedAt(unit, query, passed.block * BLOCK_ROWS + r)) best = passed.margins[r];
    }
    if (best == std::numeric_limits<int32_t>::min()) return;
  }
  scratch.samples[query].add(scoreRange(bounding.middle(best), bounding.error).lower);
  lanesOf(scratch).threshold[passed.lane] = scratch.samples[query].least();
}

void Search::guess(uint32_t query, std::vector<Scratch>& scratches) {
  TopSample all(store_);
  all.reset(sampleRank_);
  for (const Scratch& scratch : scratches) {
    if (scratch.samples.empty()) continue;
    for (const float value : scratch.samples[query].values()) all.add(value);
  }
  guesses_[query] = all.least();
  thresholds_[query].raiseTo(guesses_[query]);
}

}  // namespace winnow
