// Canonical scores of survivors, and the order of the best.

#include "search/finish/search-finish.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "search/finish/key-pool.h"
#include "search/finish/order-key.h"
#include "table/key-sort.h"

namespace winnow {

namespace {

/** Rows whose memory is asked for before they are scored. */
constexpr size_t ROWS_AHEAD = 12;
/** Parts to cut the scoring of few queries into, altogether. */
constexpr uint32_t SCORED_PARTS = 16;

uint64_t leastOf(const ScratchVector<uint64_t>& keys) {
  return *std::min_element(keys.begin(), keys.end());
}

}  // namespace

SearchFinish::SearchFinish(const SearchRequest& request, const QueryBatch& batch,
                           const Kernel& kernel, ScratchVector<QueryState>& states,
                           SearchCounters& counters, SearchAnswer& answer, ScratchStore& store)
    : request_(request),
      batch_(batch),
      kernel_(kernel),
      states_(states),
      counters_(counters),
      answer_(answer),
      store_(store),
      parts_(std::max(1u, SCORED_PARTS / request.queries)),
      endings_(request.queries, Ending(store), store) {
  answer_.resize(request);
}

/**
 * Chooses the survivors with the greatest upper bounds: their exact scores raise the threshold, which
 * most other survivors then do not reach.
 */
void SearchFinish::choose(uint32_t query, const CandidateFilter& filter) {
  if (!states_[query].isFiltered()) return;
  Ending& ending = endings_[query];
  ScratchVector<Survivor>& survivors = ending.survivors;
  survivors.clear();
  filter.collect(query, survivors);
  const size_t k = request_.k;
  ending.chosen = std::min(survivors.size(), k + k / 8);
  const auto end = survivors.begin() + static_cast<std::ptrdiff_t>(ending.chosen);
  if (end != survivors.end()) {
    std::nth_element(survivors.begin(), end, survivors.end(),
                     [](const Survivor& a, const Survivor& b) { return a.upper > b.upper; });
  }
  ending.keys.resize(ending.chosen);
}

void SearchFinish::score(uint32_t item) {
  const uint32_t query = item / parts_;
  const size_t part = item % parts_;
  if (!states_[query].isFiltered()) return;
  const size_t chosen = endings_[query].chosen;
  scoreSurvivors(query, part * chosen / parts_, (part + 1) * chosen / parts_);
}

void SearchFinish::finish(uint32_t query, const CandidateFilter& filter, DenseScan& dense) {
  if (states_[query].isFiltered()) {
    if (parts_ == 1) {
      choose(query, filter);
      score(query);
    }
    finishFiltered(query);
  } else if (states_[query].isDense()) {
    ScratchVector<uint64_t> best(store_);
    dense.collect(query, best);
    write(query, best);
  }
}

void SearchFinish::finishFiltered(uint32_t query) {
  Ending& ending = endings_[query];
  cutKeys(ending.keys, request_.k);
  if (ending.chosen < ending.survivors.size()) scoreRest(query);
  if (isConfirmed(query, ending.keys)) {
    write(query, ending.keys);
  } else {
    repeat(query, ending.keys);
  }
  // The freed memory serves the survivors of the next query.
  ending = Ending(store_);
}

/** Scores the survivors that were not chosen but might be among the k best, and cuts at k again. */
void SearchFinish::scoreRest(uint32_t query) {
  Ending& ending = endings_[query];
  ScratchVector<Survivor>& survivors = ending.survivors;
  ScratchVector<uint64_t>& keys = ending.keys;
  const float least = std::max(scoreOfKey(leastOf(keys)), states_[query].threshold().get());
  const auto begin = survivors.begin() + static_cast<std::ptrdiff_t>(ending.chosen);
  const auto end = std::remove_if(begin, survivors.end(),
                                  [&](const Survivor& s) { return s.upper < least; });
  const size_t rest = static_cast<size_t>(end - begin);
  survivors.erase(end, survivors.end());
  survivors.erase(survivors.begin(), begin);
  ScratchVector<uint64_t> best = std::move(keys);
  keys.assign(rest, 0);
  scoreSurvivors(query, 0, rest);
  keys.insert(keys.end(), best.begin(), best.end());
  cutKeys(keys, request_.k);
}

/**
 * Whether the guess was not too high: every row that the filter dropped scores less than the guess or
 * than a proven threshold, so k scores that reach the guess are the k best.
 */
bool SearchFinish::isConfirmed(uint32_t query, const ScratchVector<uint64_t>& keys) const {
  const float guess = states_[query].guess();
  if (guess < -std::numeric_limits<float>::max()) return true;
  return keys.size() == request_.k && scoreOfKey(leastOf(keys)) >= guess;
}

/** Leaves the query filtered, to be scanned again with a proven threshold: its k-th best score, or none. */
void SearchFinish::repeat(uint32_t query, const ScratchVector<uint64_t>& keys) {
  const bool hasAll = keys.size() == request_.k;
  states_[query].resetToProven(hasAll ? scoreOfKey(leastOf(keys))
                                      : -std::numeric_limits<float>::infinity());
  counters_.repeatedQueries.fetch_add(1, std::memory_order_relaxed);
}

/** The order keys of some of a query's survivors, each in its survivor's place. */
void SearchFinish::scoreSurvivors(uint32_t query, size_t start, size_t end) {
  const uint32_t dim = request_.dim;
  const double* values = batch_.values(query);
  const Survivor* survivors = endings_[query].survivors.data();
  uint64_t* keys = endings_[query].keys.data();
  // Prefetches in two steps: first the entry of `order` that names the row, then the row itself.
  for (size_t i = start; i < end + 2 * ROWS_AHEAD; ++i) {
    if (i < end) {
      const Survivor& far = survivors[i];
      __builtin_prefetch(request_.tables[far.table]->order() + far.position);
    }
    if (i >= start + ROWS_AHEAD && i - ROWS_AHEAD < end) {
      const Survivor& near = survivors[i - ROWS_AHEAD];
      request_.tables[near.table]->fetchRow(localOf(near));
    }
    if (i < start + 2 * ROWS_AHEAD) continue;
    const Survivor& survivor = survivors[i - 2 * ROWS_AHEAD];
    const Table& table = *request_.tables[survivor.table];
    const uint32_t local = localOf(survivor);
    const float score = kernel_.score(values, table.row(local), dim);
    keys[i - 2 * ROWS_AHEAD] = orderKey(score, table.shape().firstRow + local);
  }
  counters_.rescored.fetch_add(end - start, std::memory_order_relaxed);
}

/** `best`: the answer's keys in any order. */
void SearchFinish::write(uint32_t query, ScratchVector<uint64_t>& best) {
  states_[query].makeAnswered();
  sortKeysDown(best);
  answer_.counts[query] = static_cast<uint32_t>(best.size());
  for (size_t i = 0; i < best.size(); ++i) {
    answer_.scores[query * request_.k + i] = scoreOfKey(best[i]);
    answer_.rows[query * request_.k + i] = rowOfKey(best[i]);
  }
}

}  // namespace winnow
