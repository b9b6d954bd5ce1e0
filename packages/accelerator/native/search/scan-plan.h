// The plan of a search: which blocks threads scan, in which order, and which of them are sampled first.
// It is a pure function of the request and is made once, before any row is read; threads then take
// the planned units one by one from a queue.
//
// Units go by their greatest norm, descending, whatever table they are of: the likely winners come
// first, so that thresholds rise early, and a scan ends where no row can reach them any more.

#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/scratch-store.h"
#include "search/search-request.h"
#include "threads/thread-team.h"

namespace winnow {

/** Blocks of a table, one in `step` from `firstBlock` on. */
struct ScanUnit {
  /** No row of these blocks has a greater norm. */
  double norm;
  /** The table's number in the request. */
  uint32_t table;
  uint32_t firstBlock;
  uint32_t endBlock;
  uint32_t step;
};

struct ScanPlan {
  ScanPlan(const SearchRequest& request, ScratchStore& store);

  double greatestNorm() const { return units.empty() ? 0 : units[0].norm; }

  /** All blocks of all tables. */
  ScratchVector<ScanUnit> units;
  /** The blocks to guess thresholds from (see threshold-guess.h); none where that would not pay. */
  ScratchVector<ScanUnit> samples;
  /** A query's threshold is guessed to be the sampled score of this rank; the best is of rank 1. */
  size_t sampleRank = 0;

 private:
  void orderUnits(const SearchRequest& request);
  void chooseSamples(const SearchRequest& request);
};

/** Planned units that threads take one by one; the plan outlives the queue. */
struct UnitQueue {
  explicit UnitQueue(const ScratchVector<ScanUnit>& planned) : units(planned) {
    items.reset(static_cast<uint32_t>(planned.size()));
  }

  /** The unit that the next thread to ask is likely to get; null if all are taken. */
  const ScanUnit* next() const {
    const uint32_t item = items.peek();
    return item < units.size() ? &units[item] : nullptr;
  }

  const ScratchVector<ScanUnit>& units;
  WorkItems items;
};

}  // namespace winnow
