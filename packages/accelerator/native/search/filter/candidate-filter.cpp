// Keeping survivors in pools.

#include "search/filter/candidate-filter.h"

#include <algorithm>
#include <limits>

namespace winnow {

namespace {

/** Survivors of one query on one thread before a dense scan is the shorter way. */
constexpr size_t POOL_LIMIT_MIN = 4096;
constexpr size_t POOL_LIMIT_MAX = 16384;
constexpr size_t ROWS_PER_POOL_SLOT = 64;
/** A threshold that no row reaches. */
constexpr double OUT_OF_REACH = std::numeric_limits<double>::max();

size_t poolLimitOf(const SearchRequest& request) {
  const size_t share = static_cast<size_t>(request.rows()) / ROWS_PER_POOL_SLOT;
  return std::max(4 * request.k, std::min(std::max(share, POOL_LIMIT_MIN), POOL_LIMIT_MAX));
}

}  // namespace

CandidateFilter::CandidateFilter(const SearchRequest& request, const Kernel& kernel,
                                 ScratchVector<QueryState>& states, uint32_t threads,
                                 ScratchStore& store)
    : request_(request),
      kernel_(kernel),
      states_(states),
      store_(store),
      poolLimit_(poolLimitOf(request)),
      pools_(threads, ScratchVector<CandidatePool>(store)) {}

bool CandidateFilter::filter(const ScanUnit& unit, const UnitQueue& queue, uint32_t thread,
                             UnitScan& scan) {
  const auto thresholdOf = [&](uint32_t query) { return states_[query].threshold().get(); };
  if (!scan.select(unit, thresholdOf)) return false;
  ScratchVector<CandidatePool>& pools = pools_[thread];
  // Pools are made by a thread's first unit: one that starts after the last unit was taken has none, and
  // `collect` skips it.
  if (pools.empty()) {
    pools.assign(request_.queries, CandidatePool(store_));
    for (CandidatePool& pool : pools) pool.reset(kernel_, request_.k, poolLimit_);
  }
  scan.run(queue, [&](const PassedRows& passed) { return take(passed, pools[passed.query]); });
  return true;
}

/** Returns the query's threshold from here on. */
double CandidateFilter::take(const PassedRows& passed, CandidatePool& pool) {
  QueryState& state = states_[passed.query];
  for (uint64_t rows = passed.rows; rows != 0; rows &= rows - 1) {
    const uint32_t r = static_cast<uint32_t>(__builtin_ctzll(rows));
    const uint32_t position = passed.firstPosition + r;
    if (request_.isExcludedAt(passed.query, passed.table, position)) continue;
    const ScoreRange range = passed.scoreOf(passed.margins[r]);
    const Survivor survivor{range.lower, range.upper, passed.table, position};
    if (pool.add(survivor, state.threshold())) continue;
    state.makeDense();
    return OUT_OF_REACH;
  }
  return state.threshold().get();
}

void CandidateFilter::collect(uint32_t query, ScratchVector<Survivor>& survivors) const {
  for (const ScratchVector<CandidatePool>& pools : pools_) {
    if (pools.empty()) continue;
    survivors.insert(survivors.end(), pools[query].begin(), pools[query].end());
  }
}

void CandidateFilter::restart() {
  for (ScratchVector<CandidatePool>& pools : pools_) {
    for (uint32_t query = 0; query < pools.size(); ++query) {
      if (states_[query].isFiltered()) pools[query].reset(kernel_, request_.k, poolLimit_);
    }
  }
}

}  // namespace winnow
