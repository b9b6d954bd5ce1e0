// Many queries of a small table: each thread answers some of the queries by itself, as its codes stay in
// a cache of the processor and a thread that sees all rows has the better thresholds. With a large
// table every thread would read it from memory again, and few queries fill no tile of a kernel.

#include <algorithm>
#include <memory>
#include <utility>

#include "search/search.h"

namespace winnow {

namespace {

/** Bytes of codes that each thread may read by itself. */
constexpr size_t SPLIT_BYTES_MAX = size_t{16} << 20;
/** Queries that keep one thread busy. */
constexpr uint32_t SPLIT_QUERIES_MIN = 32;

}  // namespace

/** Into how many parts the queries are cut; 1: not at all. */
uint32_t Search::splitParts(uint32_t threads) const {
  if (threads == 1 || codeBytes() > SPLIT_BYTES_MAX) return 1;
  if (request_.queries < threads * SPLIT_QUERIES_MIN) return 1;
  const uint32_t full = (request_.queries + GROUP_QUERIES_MAX - 1) / GROUP_QUERIES_MAX;
  return (full + threads - 1) / threads * threads;
}

/** What is asked of the queries from `start` to `end`. */
SearchRequest Search::requestOfPart(uint32_t start, uint32_t end) const {
  SearchRequest part;
  part.tables = request_.tables;
  part.dim = request_.dim;
  part.queries = end - start;
  part.k = request_.k;
  const float* vectors = request_.vectors.data();
  part.vectors.assign(vectors + size_t{start} * part.dim, vectors + size_t{end} * part.dim);
  part.hasAdmittedRows = request_.hasAdmittedRows;
  part.admittedRows = request_.admittedRows;
  part.weights = request_.weights;
  if (request_.excludedStarts.empty()) return part;
  const std::vector<uint32_t>& starts = request_.excludedStarts;
  const uint32_t* rows = request_.excludedRows.data();
  part.excludedRows.assign(rows + starts[start], rows + starts[end]);
  for (uint32_t query = start; query <= end; ++query) {
    part.excludedStarts.push_back(starts[query] - starts[start]);
  }
  return part;
}

/** Answers the queries of one part on this thread alone. */
void Search::runPart(uint32_t start, uint32_t end) {
  Search part(requestOfPart(start, end), kernel_, store_);
  part.stopFlag_ = stopFlag_;
  if (!part.runAlone()) {
    if (part.isOutOfMemory()) isOutOfMemory_.store(true);
    return;
  }
  const SearchAnswer& answer = part.answer();
  const size_t place = size_t{start} * request_.k;
  std::copy(answer.counts.begin(), answer.counts.end(), answer_.counts.begin() + start);
  std::copy(answer.scores.begin(), answer.scores.end(), answer_.scores.data() + place);
  std::copy(answer.rows.begin(), answer.rows.end(), answer_.rows.data() + place);
  counters_.rescored += part.counters_.rescored;
  counters_.denseQueries += part.counters_.denseQueries;
  counters_.repeatedQueries += part.counters_.repeatedQueries;
}

bool Search::runSplit(ThreadTeam& team, uint32_t parts) {
  guarded([&] { resizeAnswer(); });
  preparing_.reset(parts);
  team.run([&](uint32_t) {
    forEach(preparing_, [&](uint32_t part) {
      const auto border = [&](uint32_t i) {
        return static_cast<uint32_t>(uint64_t{i} * request_.queries / parts);
      };
      runPart(border(part), border(part + 1));
      return true;
    });
  });
  return !isStopped();
}

}  // namespace winnow
