// Scoring all rows, a few at a time for all dense queries.

#include "search/finish/dense-scan.h"

#include <algorithm>

#include "search/finish/order-key.h"

namespace winnow {

namespace {

/** Rows that stay in the first-level cache while all dense queries pass over them. */
constexpr size_t DENSE_BLOCK_VALUES = 4096;
/** Rows whose memory is asked for before they are scored. */
constexpr uint32_t ROWS_AHEAD = 12;

/** Lists the next admitted rows before `end`, at most `room`, and moves `from` behind them. */
void listRows(const RowFilter* filter, uint32_t& from, uint32_t end, size_t room,
              ScratchVector<uint32_t>& locals) {
  locals.clear();
  while (from < end && locals.size() < room) {
    const uint64_t rest = filter == nullptr ? 1 : filter->rowsOf(from / 64) >> (from % 64);
    if (rest == 0) {
      from = (from / 64 + 1) * 64;
      continue;
    }
    from += static_cast<uint32_t>(__builtin_ctzll(rest));
    locals.push_back(from++);
  }
}

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
      runs_(store),
      places_(store),
      keys_(threads, ScratchVector<KeyPool>(store)) {}

size_t DenseScan::begin() {
  queries_.clear();
  runs_.clear();
  places_.assign(request_.queries, 0);
  for (ScratchVector<KeyPool>& keys : keys_) keys.clear();
  size_t unserved = 0;
  for (uint32_t query = 0; query < request_.queries; ++query) {
    if (!states_[query].isDense()) continue;
    queries_.push_back(query);
    unserved += request_.isDirect(query) ? 0 : 1;
  }
  const auto filterOf = [&](uint32_t query) { return request_.filterNumber(query); };
  std::stable_sort(queries_.begin(), queries_.end(),
                   [&](uint32_t a, uint32_t b) { return filterOf(a) < filterOf(b); });
  for (uint32_t place = 0; place < queries_.size(); ++place) {
    places_[queries_[place]] = place;
    if (place == 0 || filterOf(queries_[place - 1]) != filterOf(queries_[place])) {
      runs_.push_back({place, place});
    }
    runs_.back().end = place + 1;
  }
  return unserved;
}

void DenseScan::scan(const ScanUnit& unit, uint32_t thread, const StoppableWork& work) {
  ScratchVector<KeyPool>& pools = keys_[thread];
  if (pools.empty()) pools.assign(queries_.size(), KeyPool(request_.k, store_));
  const Table& table = *request_.tables[unit.table];
  const uint32_t end = std::min(unit.endBlock * BLOCK_ROWS, table.shape().rows);
  const size_t room = std::max<size_t>(1, DENSE_BLOCK_VALUES / request_.dim);
  ScratchVector<uint32_t> locals(store_);
  for (const Run& run : runs_) {
    const RowFilter* filter = request_.filter(queries_[run.start], unit.table);
    if (filter != nullptr && !filter->hasRows(unit.firstBlock / UNIT_BLOCKS)) continue;
    for (uint32_t from = unit.firstBlock * BLOCK_ROWS; from < end && !work.isStopped();) {
      listRows(filter, from, end, room, locals);
      scoreRows({table, locals, filter != nullptr}, run, pools);
    }
  }
}

void DenseScan::scoreRows(const RowList& rows, const Run& run,
                          ScratchVector<KeyPool>& pools) const {
  const auto& [table, locals, isScattered] = rows;
  const uint32_t dim = request_.dim;
  const uint32_t count = static_cast<uint32_t>(locals.size());
  const uint32_t scattered = isScattered ? count : 0;
  for (uint32_t i = 0; i < std::min(scattered, ROWS_AHEAD); ++i) table.fetchRow(locals[i]);
  for (uint32_t place = run.start; place < run.end; ++place) {
    const uint32_t query = queries_[place];
    const double* values = batch_.values(query);
    KeyPool& keys = pools[place];
    // Only the first query prefetches: the rows are in a cache when the others come to them.
    const uint32_t fetched = place == run.start ? scattered : 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (i + ROWS_AHEAD < fetched) table.fetchRow(locals[i + ROWS_AHEAD]);
      const uint32_t row = table.shape().firstRow + locals[i];
      const uint64_t key = orderKey(kernel_.score(values, table.row(locals[i]), dim), row);
      if (keys.admits(key) && !request_.isExcluded(query, row)) keys.add(key);
    }
  }
}

void DenseScan::collect(uint32_t query, ScratchVector<uint64_t>& best) {
  const uint32_t place = places_[query];
  KeyPool all(request_.k, store_);
  for (ScratchVector<KeyPool>& pools : keys_) {
    if (pools.empty()) continue;
    for (const uint64_t key : pools[place].keys()) {
      all.add(key);
    }
  }
  all.cut();
  best = std::move(all.keys());
}

}  // namespace winnow
