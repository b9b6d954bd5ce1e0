// The last two phases: dense scans for the queries the filter cannot serve, and the exact order of
// whatever is left of the others.

#include <algorithm>
#include <limits>

#include "search/order-key.h"
#include "search/search.h"
#include "table/key-sort.h"

namespace winnow {

namespace {

/** Rows whose memory is asked for before they are scored. */
constexpr size_t ROWS_AHEAD = 12;
/** Rows that stay in the first-level cache while all dense queries pass over them. */
constexpr size_t DENSE_BLOCK_VALUES = 4096;

uint64_t leastOf(const ScratchVector<uint64_t>& keys) {
  return *std::min_element(keys.begin(), keys.end());
}

void fetch(const float* row, uint32_t dim) {
  for (uint32_t j = 0; j < dim; j += 16) __builtin_prefetch(row + j);
}

}  // namespace

void Search::denseUnit(const Unit& unit, Scratch& scratch) {
  if (scratch.keys.empty()) scratch.keys.assign(denseQueries_.size(), KeyPool(request_.k, store_));
  const Table& table = *request_.tables[unit.table];
  const uint32_t dim = request_.dim;
  const uint32_t start = unit.firstBlock * BLOCK_ROWS;
  const uint32_t end = std::min(unit.endBlock * BLOCK_ROWS, table.shape().rows);
  const uint32_t step = static_cast<uint32_t>(std::max<size_t>(1, DENSE_BLOCK_VALUES / dim));
  for (uint32_t from = start; from < end && !isStopped(); from += step) {
    const uint32_t to = std::min(from + step, end);
    for (size_t i = 0; i < denseQueries_.size(); ++i) {
      const uint32_t query = denseQueries_[i];
      const double* wide = wide_.data() + size_t{query} * dim;
      KeyPool& keys = scratch.keys[i];
      for (uint32_t local = from; local < to; ++local) {
        const uint32_t row = table.shape().firstRow + local;
        if (!isAdmitted(row)) continue;
        const uint64_t key = orderKey(kernel_.score(wide, table.row(local), dim), row);
        if (keys.admits(key) && !isExcluded(query, row)) keys.add(key);
      }
    }
  }
}

void Search::finishQuery(uint32_t query, std::vector<Scratch>& scratches) {
  if (isDense(query)) {
    finishDense(query, scratches);
  } else {
    finishFiltered(query);
  }
}

void Search::finishDense(uint32_t query, std::vector<Scratch>& scratches) {
  const auto place = std::lower_bound(denseQueries_.begin(), denseQueries_.end(), query);
  KeyPool keys(request_.k, store_);
  for (Scratch& scratch : scratches) {
    if (scratch.keys.empty()) continue;
    KeyPool& part = scratch.keys[static_cast<size_t>(place - denseQueries_.begin())];
    for (const uint64_t key : part.keys()) keys.add(key);
  }
  keys.cut();
  write(query, keys.keys());
}

/** The most promising first: their exact scores raise the threshold that spares most others. */
void Search::chooseSurvivors(uint32_t query, std::vector<Scratch>& scratches) {
  Ending& ending = endings_[query];
  ScratchVector<Survivor>& survivors = ending.survivors;
  survivors.clear();
  for (Scratch& scratch : scratches) {
    if (scratch.pools.empty()) continue;
    const CandidatePool& part = scratch.pools[query];
    survivors.insert(survivors.end(), part.begin(), part.end());
  }
  const size_t k = request_.k;
  ending.scored = std::min(survivors.size(), k + k / 8);
  const auto end = survivors.begin() + static_cast<std::ptrdiff_t>(ending.scored);
  if (end != survivors.end()) {
    std::nth_element(survivors.begin(), end, survivors.end(),
                     [](const Survivor& a, const Survivor& b) { return a.upper > b.upper; });
  }
  ending.keys.resize(ending.scored);
}

void Search::scorePart(uint32_t item) {
  const uint32_t query = item / scoredParts_;
  const size_t part = item % scoredParts_;
  if (!isFiltered(query)) return;
  const size_t scored = endings_[query].scored;
  scoreSurvivors(query, part * scored / scoredParts_, (part + 1) * scored / scoredParts_);
}

void Search::finishFiltered(uint32_t query) {
  Ending& ending = endings_[query];
  ScratchVector<Survivor>& survivors = ending.survivors;
  ScratchVector<uint64_t>& keys = ending.keys;
  cutKeys(keys, request_.k);
  if (ending.scored < survivors.size()) {
    const float least = std::max(scoreOfKey(leastOf(keys)), thresholds_[query].get());
    const auto begin = survivors.begin() + static_cast<std::ptrdiff_t>(ending.scored);
    const auto end = std::remove_if(begin, survivors.end(),
                                    [&](const Survivor& s) { return s.upper < least; });
    // Those already scored have had their turn.
    const size_t rest = static_cast<size_t>(end - begin);
    survivors.erase(end, survivors.end());
    survivors.erase(survivors.begin(), begin);
    ScratchVector<uint64_t> best = std::move(keys);
    keys.assign(rest, 0);
    scoreSurvivors(query, 0, rest);
    keys.insert(keys.end(), best.begin(), best.end());
    cutKeys(keys, request_.k);
  }
  if (isConfirmed(query, keys)) {
    write(query, keys);
  } else {
    repeat(query, keys);
  }
  // For the next query's.
  ending = Ending(store_);
}

/** Whatever was dropped scores less than the query's first threshold: do k rows reach that? */
bool Search::isConfirmed(uint32_t query, const ScratchVector<uint64_t>& keys) const {
  if (guesses_[query] < -std::numeric_limits<float>::max()) return true;
  return keys.size() == request_.k && scoreOfKey(leastOf(keys)) >= guesses_[query];
}

/** To be filtered again, with the one threshold that is proven: the k-th best score, if there is one. */
void Search::repeat(uint32_t query, const ScratchVector<uint64_t>& keys) {
  const bool hasAll = keys.size() == request_.k;
  guesses_[query] = -std::numeric_limits<float>::infinity();
  thresholds_[query].reset(hasAll ? scoreOfKey(leastOf(keys)) : guesses_[query]);
  counters_.repeatedQueries.fetch_add(1, std::memory_order_relaxed);
}

/** The order keys of some of a query's survivors, each in its survivor's place. */
void Search::scoreSurvivors(uint32_t query, size_t start, size_t end) {
  const uint32_t dim = request_.dim;
  const double* wide = wide_.data() + size_t{query} * dim;
  const Survivor* survivors = endings_[query].survivors.data();
  uint64_t* keys = endings_[query].keys.data();
  // Two steps ahead: first the number of the row is fetched, then the row.
  for (size_t i = start; i < end + 2 * ROWS_AHEAD; ++i) {
    if (i < end) {
      const Survivor& far = survivors[i];
      __builtin_prefetch(request_.tables[far.table]->order() + far.position);
    }
    if (i >= start + ROWS_AHEAD && i - ROWS_AHEAD < end) {
      const Survivor& near = survivors[i - ROWS_AHEAD];
      fetch(request_.tables[near.table]->row(localOf(near)), dim);
    }
    if (i < start + 2 * ROWS_AHEAD) continue;
    const Survivor& survivor = survivors[i - 2 * ROWS_AHEAD];
    const Table& table = *request_.tables[survivor.table];
    const uint32_t local = localOf(survivor);
    const float score = kernel_.score(wide, table.row(local), dim);
    keys[i - 2 * ROWS_AHEAD] = orderKey(score, table.shape().firstRow + local);
  }
  counters_.rescored.fetch_add(end - start, std::memory_order_relaxed);
}

/** `best`: the answer's keys in any order. */
void Search::write(uint32_t query, ScratchVector<uint64_t>& best) {
  isAnswered_[query] = 1;
  sortKeysDown(best);
  answer_.counts[query] = static_cast<uint32_t>(best.size());
  for (size_t i = 0; i < best.size(); ++i) {
    answer_.scores[query * request_.k + i] = scoreOfKey(best[i]);
    answer_.rows[query * request_.k + i] = rowOfKey(best[i]);
  }
}

}  // namespace winnow
