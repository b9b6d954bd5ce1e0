// Ordering units, and choosing the sample.
//
// Every so many blocks are sampled, in all tables. If k of the tables' rows reach a score, about
// k / stride of the sample's rows do; the rank is so much greater than that mean that k rows of the
// tables reach the score of this rank but for a chance of about one in a hundred thousand.
//
// Rows with less than half of the greatest norm are left out: where there are many, the scan ends by
// itself before it meets them, and a sample would cost more than it spares.

#include "search/scan-plan.h"

#include <algorithm>
#include <cmath>

namespace winnow {

namespace {

constexpr uint32_t STRIDE_MIN = 16;
constexpr uint32_t STRIDE_MAX = 32;
/** How many of the k best rows a sample should hold: more need a larger sample, fewer give a lower guess. */
constexpr size_t BEST_PER_SAMPLE = 4;
/** The rank exceeds the expected number of sampled rows by so many deviations, and by a margin. */
constexpr double RANK_DEVIATIONS = 4;
constexpr double RANK_MARGIN = 4;
/** Blocks per item of work. */
constexpr uint32_t SAMPLED_PER_ITEM = 16;
constexpr double NORM_SHARE = 0.5;
/** Bytes of a table that are read in the time that one of the k best of a query costs otherwise. */
constexpr size_t BYTES_PER_BEST = 5000;

}  // namespace

ScanPlan::ScanPlan(const SearchRequest& request, ScratchStore& store)
    : units(store), samples(store) {
  orderUnits(request);
  chooseSamples(request);
}

void ScanPlan::orderUnits(const SearchRequest& request) {
  for (uint32_t t = 0; t < request.tables.size(); ++t) {
    const Table& table = *request.tables[t];
    for (uint32_t unit = 0; unit < table.units(); ++unit) {
      const uint32_t first = unit * UNIT_BLOCKS;
      const uint32_t end = std::min(first + UNIT_BLOCKS, table.blocks());
      units.push_back({table.unitNorm(unit), t, first, end, 1});
    }
  }
  std::sort(units.begin(), units.end(), [](const ScanUnit& a, const ScanUnit& b) {
    if (a.norm != b.norm) return a.norm > b.norm;
    return a.table != b.table ? a.table < b.table : a.firstBlock < b.firstBlock;
  });
}

void ScanPlan::chooseSamples(const SearchRequest& request) {
  const size_t bestOfAll = size_t{request.queries} * request.k;
  uint64_t bytes = 0;
  for (const TablePointer& table : request.tables) {
    bytes += uint64_t{table->shape().rows} * request.dim;
  }
  const size_t wanted = request.k / BEST_PER_SAMPLE;
  const uint32_t stride = static_cast<uint32_t>(
      std::min<size_t>(std::max<size_t>(wanted, STRIDE_MIN), STRIDE_MAX));
  const bool isForced = request.weights.guess != 1;
  if (!isForced && bestOfAll * BYTES_PER_BEST < bytes / stride) return;
  const double mean = static_cast<double>(request.k) / stride;
  const double rank = mean + RANK_DEVIATIONS * std::sqrt(mean) + RANK_MARGIN;
  sampleRank = std::max<size_t>(1, static_cast<size_t>(rank * request.weights.guess));
  const uint32_t blocksPerItem = SAMPLED_PER_ITEM * stride;
  for (uint32_t t = 0; t < request.tables.size(); ++t) {
    const Table& table = *request.tables[t];
    uint32_t sampled = 0;
    while (sampled < table.units() && table.unitNorm(sampled) >= NORM_SHARE * greatestNorm()) {
      ++sampled;
    }
    const uint32_t blocks = std::min(sampled * UNIT_BLOCKS, table.blocks());
    for (uint32_t first = 0; first < blocks; first += blocksPerItem) {
      const uint32_t end = std::min(first + blocksPerItem, blocks);
      // Another offset for each table: partitions of one table are alike, and equal offsets would sample
      // the same sorted positions of all of them.
      const uint32_t start = first + (t * 7 + stride / 2) % stride;
      if (start >= end) continue;
      samples.push_back({table.unitNorm(first / UNIT_BLOCKS), t, start, end, stride});
    }
  }
  // Greatest norms first, as in the scan: the likely winners.
  std::stable_sort(samples.begin(), samples.end(),
                   [](const ScanUnit& a, const ScanUnit& b) { return a.norm > b.norm; });
}

}  // namespace winnow
