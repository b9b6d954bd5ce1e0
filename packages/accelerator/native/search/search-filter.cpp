// The filter phase: where almost all time of a search is spent. Rare events (a row survives, a
// threshold rises) are kept out of the loop over blocks.

#include <algorithm>
#include <limits>

#include "kernels/bound.h"
#include "search/search.h"

namespace winnow {

namespace {

/** How far ahead codes are fetched. */
constexpr size_t AHEAD_BYTES = 8192;
constexpr uint32_t STRIPES = 4;

}  // namespace

bool Search::filterItem(const Unit& unit, Scratch& scratch) {
  if (!activate(unit, scratch)) return false;
  // Not before there is something to do: whoever comes too late must leave no trace.
  prepareScratch(scratch);
  filterUnit(unit, scratch);
  return true;
}

bool Search::activate(const Unit& unit, Scratch& scratch) {
  scratch.active.clear();
  for (uint32_t query = 0; query < request_.queries; ++query) {
    if (isDense(query) || isAnswered_[query] != 0) continue;
    const double norm = request_.weights.norm * norms_[query];
    const double reach = scoreReach(norm, unit.norm);
    if (reach >= thresholdOf(query, scratch)) scratch.active.push_back(query);
  }
  return !scratch.active.empty();
}

QueryLanes Search::lanesOf(Scratch& scratch) const {
  const size_t stride = scratch.lanes.size() / 5;
  double* lanes = scratch.lanes.data();
  return {static_cast<uint32_t>(scratch.active.size()),
          lanes,
          lanes + stride,
          lanes + 2 * stride,
          lanes + 3 * stride,
          lanes + 4 * stride};
}

void Search::loadLanes(const Unit& unit, Scratch& scratch) {
  const QueryLanes lanes = lanesOf(scratch);
  for (uint32_t lane = 0; lane < lanes.count; ++lane) {
    const uint32_t query = scratch.active[lane];
    const QueryCode& code = codeOf(unit.table, query);
    lanes.threshold[lane] = thresholdOf(query, scratch);
    lanes.norm[lane] = code.norm;
    lanes.error[lane] = code.error;
    lanes.inverseScale[lane] = code.inverseScale;
    lanes.offset[lane] = code.offset;
  }
}

void Search::packWords(const Unit& unit, Scratch& scratch) {
  const Kernel& kernel = *scratch.kernel;
  const uint32_t count = static_cast<uint32_t>(scratch.active.size());
  const uint32_t groupCount = (count + kernel.groupQueries - 1) / kernel.groupQueries;
  const bool isByQuery = kernel.wordGroups > 0;
  const uint32_t padding = std::max(kernel.wordGroups, 1u);
  const uint32_t width = (groups_ + padding - 1) / padding * padding;
  scratch.groups.clear();
  uint32_t lane = 0;
  for (uint32_t g = 0; g < groupCount; ++g) {
    const uint32_t end = static_cast<uint32_t>(uint64_t{g + 1} * count / groupCount);
    const Group group{lane, end - lane, size_t{lane} * width};
    uint32_t* words = scratch.words.data() + group.firstWord;
    for (uint32_t i = 0; lane < end; ++i, ++lane) {
      const uint32_t* source = wordsOf(unit.table, scratch.active[lane]);
      for (uint32_t word = 0; word < groups_; ++word) {
        words[isByQuery ? size_t{i} * width + word : size_t{word} * group.size + i] = source[word];
      }
      for (uint32_t word = groups_; word < width; ++word) words[size_t{i} * width + word] = 0;
    }
    scratch.groups.push_back(group);
  }
}

void Search::filterUnit(const Unit& unit, Scratch& scratch) {
  const bool isFew = scratch.active.size() < kernel_.queriesMin;
  scratch.kernel = isFew ? kernel_.few : &kernel_;
  loadLanes(unit, scratch);
  packWords(unit, scratch);
  if (scratch.kernel->enter != nullptr) scratch.kernel->enter();
  for (uint32_t block = unit.firstBlock; block < unit.endBlock; block += unit.step) {
    filterBlock(unit, block, scratch);
  }
  if (scratch.kernel->leave != nullptr) scratch.kernel->leave();
}

/** In the same unit, or from the beginning of the one that this thread is likely to take next. */
Search::Coming Search::comingAfter(const Unit& unit, uint32_t block, const Scratch& scratch) const {
  const size_t blockBytes = size_t{groups_} * 4 * BLOCK_ROWS;
  const uint32_t blocksAhead = static_cast<uint32_t>((AHEAD_BYTES + blockBytes - 1) / blockBytes);
  const Unit* next = &unit;
  uint32_t coming = block + blocksAhead * unit.step;
  if (coming >= unit.endBlock) {
    const uint32_t item = scratch.items->peek();
    if (item < scratch.units->size()) next = &(*scratch.units)[item];
    coming = next->firstBlock + (coming - unit.endBlock) / unit.step * next->step;
    coming = std::min(coming, next->endBlock - 1);
  }
  const Table& table = *request_.tables[next->table];
  return {table.codes(coming), &table.bounds(coming)};
}

void Search::filterBlock(const Unit& unit, uint32_t block, Scratch& scratch) {
  const Table& table = *request_.tables[unit.table];
  const uint64_t admitted = admittedOf(table, block);
  if (admitted == 0) return;
  const QueryLanes lanes = lanesOf(scratch);
  const Kernel& kernel = *scratch.kernel;
  kernel.computeLimits(table.bounds(block), lanes, request_.weights, scratch.limits.data());
  const Coming coming = comingAfter(unit, block, scratch);
  __builtin_prefetch(coming.bounds);
  const uint32_t stripeStep = std::min(static_cast<uint32_t>(scratch.groups.size()), STRIPES);
  uint64_t survivors[GROUP_QUERIES_MAX];
  alignas(64) int32_t margins[GROUP_QUERIES_MAX * BLOCK_ROWS];
  uint32_t stripe = 0;
  for (const Group& group : scratch.groups) {
    const FilterCall call{table.codes(block),
                          groups_,
                          group.size,
                          scratch.words.data() + group.firstWord,
                          scratch.limits.data() + group.firstLane,
                          coming.codes,
                          stripe++,
                          stripeStep,
                          survivors,
                          margins};
    for (uint64_t found = kernel.filter(call); found != 0; found &= found - 1) {
      const uint32_t i = static_cast<uint32_t>(__builtin_ctzll(found));
      const uint64_t rows = survivors[i] & admitted;
      if (rows == 0) continue;
      const int32_t* rowMargins = margins + size_t{i} * BLOCK_ROWS;
      const Passed passed{block, group.firstLane + i, rows, rowMargins};
      if (scratch.isSampling) {
        takeSample(unit, passed, scratch);
      } else {
        takeSurvivors(unit, passed, scratch);
      }
    }
  }
}

Search::Bounding Search::boundingOf(const Unit& unit, const Passed& passed,
                                    const Scratch& scratch) const {
  const BlockBounds& bounds = request_.tables[unit.table]->bounds(passed.block);
  const QueryCode& code = codeOf(unit.table, scratch.active[passed.lane]);
  return {bounds.scale * code.scale, scratch.limits[passed.lane] - code.offset,
          boundError(bounds, code.norm, code.error, request_.weights)};
}

void Search::takeSurvivors(const Unit& unit, const Passed& passed, Scratch& scratch) {
  const uint32_t query = scratch.active[passed.lane];
  const Bounding bounding = boundingOf(unit, passed, scratch);
  double& threshold = lanesOf(scratch).threshold[passed.lane];
  for (uint64_t rows = passed.rows; rows != 0; rows &= rows - 1) {
    const uint32_t r = static_cast<uint32_t>(__builtin_ctzll(rows));
    const uint32_t position = passed.block * BLOCK_ROWS + r;
    if (isExcludedAt(unit, query, position)) continue;
    const ScoreRange range = scoreRange(bounding.middle(passed.margins[r]), bounding.error);
    const Survivor survivor{range.lower, range.upper, unit.table, position};
    if (scratch.pools[query].add(survivor, thresholds_[query])) continue;
    becomeDense(query);
    threshold = std::numeric_limits<double>::max();
    return;
  }
  threshold = thresholds_[query].get();
}

uint64_t Search::admittedOf(const Table& table, uint32_t block) const {
  const uint32_t start = block * BLOCK_ROWS;
  const uint32_t count = std::min(BLOCK_ROWS, table.shape().rows - start);
  const uint64_t all = count == BLOCK_ROWS ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  if (!request_.hasAdmittedRows) return all;
  uint64_t admitted = 0;
  for (uint32_t r = 0; r < count; ++r) {
    const uint32_t row = table.shape().firstRow + table.order()[start + r];
    admitted |= static_cast<uint64_t>(isAdmitted(row) ? 1 : 0) << r;
  }
  return admitted;
}

}  // namespace winnow
