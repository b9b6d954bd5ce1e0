// The dense scan: for queries that the filter cannot serve, every admitted row is scored canonically,
// and each thread keeps the best k of the rows that it has seen.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "search/key-pool.h"
#include "search/query-batch.h"
#include "search/query-state.h"
#include "search/scan-plan.h"
#include "search/scratch-store.h"
#include "search/search-request.h"
#include "search/stoppable-work.h"

namespace winnow {

class DenseScan {
 public:
  /** Request, batch and states outlive the scan. */
  DenseScan(const SearchRequest& request, const QueryBatch& batch, const Kernel& kernel,
            const ScratchVector<QueryState>& states, uint32_t threads, ScratchStore& store);

  /** Takes up the queries that are dense by now, and only those. Returns how many they are. */
  size_t begin();

  bool isEmpty() const { return queries_.empty(); }

  /** Scores the rows of a unit on a thread; less than all of them once the work is stopped. */
  void scan(const ScanUnit& unit, uint32_t thread, const StoppableWork& work);

  /** The order keys of a dense query's k best rows, in any order. Once all units were scanned. */
  void collect(uint32_t query, ScratchVector<uint64_t>& best);

 private:
  const SearchRequest& request_;
  const QueryBatch& batch_;
  const Kernel& kernel_;
  const ScratchVector<QueryState>& states_;
  ScratchStore& store_;
  /** Ascending. */
  ScratchVector<uint32_t> queries_;
  /** By thread and place in `queries_`; nothing of a thread that has scanned nothing. */
  std::vector<ScratchVector<KeyPool>> keys_;
};

}  // namespace winnow
