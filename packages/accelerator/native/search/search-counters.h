// Figures of a search, for tests and benchmarks.

#pragma once

#include <atomic>
#include <cstdint>

namespace winnow {

struct SearchCounters {
  /** Survivors that were scored canonically. */
  std::atomic<uint64_t> rescored{0};
  /** Queries that a dense scan has answered. */
  std::atomic<uint64_t> denseQueries{0};
  /** Queries that were filtered again because their guessed threshold was too high. */
  std::atomic<uint64_t> repeatedQueries{0};

  void add(const SearchCounters& other) {
    rescored += other.rescored;
    denseQueries += other.denseQueries;
    repeatedQueries += other.repeatedQueries;
  }
};

}  // namespace winnow
