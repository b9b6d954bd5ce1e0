// Cutting a request by its queries.

#include "search/request-split.h"

namespace winnow {

namespace {

/** Bytes of codes that each thread may read by itself. */
constexpr size_t SPLIT_BYTES_MAX = size_t{16} << 20;
/** Queries that keep one thread busy. */
constexpr uint32_t SPLIT_QUERIES_MIN = 32;

}  // namespace

uint32_t splitParts(const SearchRequest& request, uint32_t threads) {
  if (threads == 1 || request.codeBytes() > SPLIT_BYTES_MAX) return 1;
  if (request.queries < threads * SPLIT_QUERIES_MIN) return 1;
  const uint32_t full = (request.queries + GROUP_QUERIES_MAX - 1) / GROUP_QUERIES_MAX;
  return (full + threads - 1) / threads * threads;
}

QueryRange rangeOfPart(const SearchRequest& request, uint32_t part, uint32_t parts) {
  const auto border = [&](uint32_t i) {
    return static_cast<uint32_t>(uint64_t{i} * request.queries / parts);
  };
  return {border(part), border(part + 1)};
}

SearchRequest requestOfPart(const SearchRequest& request, const QueryRange& range) {
  SearchRequest part;
  part.tables = request.tables;
  part.dim = request.dim;
  part.queries = range.end - range.start;
  part.k = request.k;
  const float* vectors = request.vectors.data();
  part.vectors.assign(vectors + size_t{range.start} * part.dim,
                      vectors + size_t{range.end} * part.dim);
  part.weights = request.weights;
  part.denseValuesMax = request.denseValuesMax;
  if (!request.filterOf.empty()) {
    const uint32_t* numbers = request.filterOf.data();
    part.filters = request.filters;
    part.filterOf.assign(numbers + range.start, numbers + range.end);
  }
  if (request.excludedStarts.empty()) return part;
  const std::vector<uint32_t>& starts = request.excludedStarts;
  const uint32_t* rows = request.excludedRows.data();
  part.excludedRows.assign(rows + starts[range.start], rows + starts[range.end]);
  for (uint32_t query = range.start; query <= range.end; ++query) {
    part.excludedStarts.push_back(starts[query] - starts[range.start]);
  }
  return part;
}

}  // namespace winnow
