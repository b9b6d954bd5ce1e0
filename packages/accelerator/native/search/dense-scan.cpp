// Scoring all rows, a few at a time for all dense queries.

#include "search/dense-scan.h"

#include <algorithm>

#include "search/order-key.h"

namespace winnow {

namespace {

/** Rows that stay in the first-level cache while all dense queries pass over them. */
constexpr size_t DENSE_BLOCK_VALUES = 4096;

}  // namespace

DenseScan::DenseScan(const SearchRequest& request, const QueryBatch& batch, const Kernel& kernel,
                     const ScratchVector<QueryState>& states, uint32_t threads,
                     ScratchStore& store)
    : request_(request),
      batch_(batch),
      kernel_(kernel),
      states_(states),
      store_(store),
      queries_(store),
      keys_(threads, ScratchVector<KeyPool>(store)) {}

size_t DenseScan::begin() {
  queries_.clear();
  for (ScratchVector<KeyPool>& keys : keys_) keys.clear();
  for (uint32_t query = 0; query < request_.queries; ++query) {
    if (states_[query].isDense()) queries_.push_back(query);
  }
  return queries_.size();
}

void DenseScan::scan(const ScanUnit& unit, uint32_t thread, const StoppableWork& work) {
  ScratchVector<KeyPool>& pools = keys_[thread];
  if (pools.empty()) pools.assign(queries_.size(), KeyPool(request_.k, store_));
  const Table& table = *request_.tables[unit.table];
  const uint32_t dim = request_.dim;
  const uint32_t start = unit.firstBlock * BLOCK_ROWS;
  const uint32_t end = std::min(unit.endBlock * BLOCK_ROWS, table.shape().rows);
  const uint32_t step = static_cast<uint32_t>(std::max<size_t>(1, DENSE_BLOCK_VALUES / dim));
  for (uint32_t from = start; from < end && !work.isStopped(); from += step) {
    const uint32_t to = std::min(from + step, end);
    for (size_t i = 0; i < queries_.size(); ++i) {
      const uint32_t query = queries_[i];
      const double* values = batch_.values(query);
      KeyPool& keys = pools[i];
      for (uint32_t local = from; local < to; ++local) {
        const uint32_t row = table.shape().firstRow + local;
        if (!request_.isAdmitted(row)) continue;
        const uint64_t key = orderKey(kernel_.score(values, table.row(local), dim), row);
        if (keys.admits(key) && !request_.isExcluded(query, row)) keys.add(key);
      }
    }
  }
}

void DenseScan::collect(uint32_t query, ScratchVector<uint64_t>& best) {
  const auto place = std::lower_bound(queries_.begin(), queries_.end(), query);
  KeyPool all(request_.k, store_);
  for (ScratchVector<KeyPool>& pools : keys_) {
    if (pools.empty()) continue;
    for (const uint64_t key : pools[static_cast<size_t>(place - queries_.begin())].keys()) {
      all.add(key);
    }
  }
  all.cut();
  best = std::move(all.keys());
}

}  // namespace winnow
