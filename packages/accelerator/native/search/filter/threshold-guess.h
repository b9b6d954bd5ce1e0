// Where a scan begins: a threshold guessed from a sample. Without it, a query's first rows pass because
// nothing better is known yet, some k·ln(rows / k) of them on each thread.
//
// The plan says which blocks are sampled, and the rank of the sampled score that is the guess (see
// scan-plan.cpp). Of each block only its best row counts: equal rows lie side by side, and a sample
// would see all of them or none. What counts is a likely score and not a proven one.
//
// A guess is never trusted. Once the survivors have been scored, a query whose k-th best score is
// below its guess is filtered once more with what is known by then.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/scratch-store.h"
#include "search/filter/top-sample.h"
#include "search/filter/unit-scan.h"
#include "search/queries/query-state.h"
#include "search/scan-plan.h"
#include "search/search-request.h"

namespace winnow {

class ThresholdGuess {
 public:
  /** `rank`: of the sampled score that is the guess. Request and states outlive the guess. */
  ThresholdGuess(const SearchRequest& request, size_t rank, ScratchVector<QueryState>& states,
                 uint32_t threads, ScratchStore& store);

  /** Samples a unit of the queue on a thread, through that thread's scan. */
  void sample(const ScanUnit& unit, const UnitQueue& queue, uint32_t thread, UnitScan& scan);

  /** Raises a query's threshold to its guess, if there is one. Once all units have been sampled. */
  void raise(uint32_t query);

 private:
  void take(const PassedRows& passed, TopSample& best) const;

  const SearchRequest& request_;
  size_t rank_;
  ScratchVector<QueryState>& states_;
  ScratchStore& store_;
  /** By thread and query; nothing of a thread that has sampled nothing. */
  std::vector<ScratchVector<TopSample>> best_;
};

}  // namespace winnow
