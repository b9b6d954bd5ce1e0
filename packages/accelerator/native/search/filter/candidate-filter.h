// The filter: the scan of all units that keeps, per thread and query, the rows that might be among the
// k best. A row survives unless the upper bound of its score is below the query's threshold, and what
// survives raises the threshold. A query of whose rows too many survive is made dense.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "memory/scratch-store.h"
#include "search/filter/candidate-pool.h"
#include "search/filter/unit-scan.h"
#include "search/queries/query-state.h"
#include "search/scan-plan.h"
#include "search/search-request.h"

namespace winnow {

class CandidateFilter {
 public:
  /** Request and states outlive the filter. */
  CandidateFilter(const SearchRequest& request, const Kernel& kernel,
                  ScratchVector<QueryState>& states, uint32_t threads, ScratchStore& store);

  /**
   * Filters a unit of the queue on a thread, through that thread's scan. False: no query gains from
   * the unit, nor from any that comes after it, as norms descend and thresholds only rise.
   */
  bool filter(const ScanUnit& unit, const UnitQueue& queue, uint32_t thread, UnitScan& scan);

  /** Appends a query's survivors of all threads. Once all units have been filtered. */
  void collect(uint32_t query, ScratchVector<Survivor>& survivors) const;

  /** Drops what was kept of the queries that are still to be filtered, for another scan. */
  void restart();

 private:
  double take(const PassedRows& passed, CandidatePool& pool);

  const SearchRequest& request_;
  const Kernel& kernel_;
  ScratchVector<QueryState>& states_;
  ScratchStore& store_;
  /** Survivors of one query that one thread keeps at most. */
  size_t poolLimit_;
  /** By thread and query; nothing of a thread that has filtered nothing. */
  std::vector<ScratchVector<CandidatePool>> pools_;
};

}  // namespace winnow
