// Many queries of a small table: each thread answers some of the queries by itself, as its codes
// stay in a cache of the processor and a thread that sees all rows has the better thresholds. With
// a large table every thread would read it from memory again, and few queries fill no tile of a
// kernel.

#pragma once

#include <cstdint>

#include "search/search-request.h"

namespace winnow {

/** Queries `start` to `end` of a request. */
struct QueryRange {
  uint32_t start;
  uint32_t end;
};

/** Into how many parts `threads` threads cut the queries, one thread for each; 1: not at all. */
uint32_t splitParts(const SearchRequest& request, uint32_t threads);

/** The queries of one of `parts` parts. */
QueryRange rangeOfPart(const SearchRequest& request, uint32_t part, uint32_t parts);

/** What is asked of these queries, as a request of its own. */
SearchRequest requestOfPart(const SearchRequest& request, const QueryRange& range);

}  // namespace winnow
