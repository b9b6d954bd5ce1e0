// Figures of a search, for tests and benchmarks.

#pragma once

#include <atomic>
#include <cstdint>

namespace winnow {

struct SearchCounters {
  /** Survivors that were scored canonically. */
  std::atomic<uint64_t> rescored{0};
  /** Queries of many rows that a dense scan has answered, as the filter could not serve them. */
  std::atomic<uint64_t> denseQueries{0};
  /** Queries that may return so few rows that all of them were scored. */
  std::atomic<uint64_t> directQueries{0};
  /** Queries that were filtered again because their guessed threshold was too high. */
  std::atomic<uint64_t> repeatedQueries{0};

  void add(const SearchCounters& other) {
    rescored += other.rescored;
    denseQueries += other.denseQueries;
    directQueries += other.directQueries;
    repeatedQueries += other.repeatedQueries;
  }
};

}  // namespace winnow
