// The dense scan: for queries that the filter cannot serve, and for those that may return so few rows
// that the filter would be more work, every admitted row is scored canonically, and each thread keeps
// the best k of the rows that it has seen. Queries of one filter go over its rows together.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "memory/scratch-store.h"
#include "search/finish/key-pool.h"
#include "search/queries/query-batch.h"
#include "search/queries/query-state.h"
#include "search/scan-plan.h"
#include "search/search-request.h"
#include "threads/stoppable-work.h"

namespace winnow {

class DenseScan {
 public:
  /** Request, batch and states outlive the scan. */
  DenseScan(const SearchRequest& request, const QueryBatch& batch, const Kernel& kernel,
            const ScratchVector<QueryState>& states, uint32_t threads, ScratchStore& store);

  /**
   * Takes up the queries that are dense by now, and only those. Returns how many of them are so though
   * they may return many rows.
   */
  size_t begin();

  bool isEmpty() const { return queries_.empty(); }

  /** Scores the rows of a unit on a thread; less than all of them once the work is stopped. */
  void scan(const ScanUnit& unit, uint32_t thread, const StoppableWork& work);

  /** The order keys of a dense query's k best rows, in any order. Once all units were scanned. */
  void collect(uint32_t query, ScratchVector<uint64_t>& best);

 private:
  /** Queries of one filter: places in `queries_`. */
  struct Run {
    uint32_t start;
    uint32_t end;
  };
  /** Rows of a table that are scored one after the other, while they stay in a cache. */
  struct RowList {
    const Table& table;
    const ScratchVector<uint32_t>& locals;
    /** Whether they lie apart, so that no processor foresees where the next one is. */
    bool isScattered;
  };

  void scoreRows(const RowList& rows, const Run& run, ScratchVector<KeyPool>& pools) const;

  const SearchRequest& request_;
  const QueryBatch& batch_;
  const Kernel& kernel_;
  const ScratchVector<QueryState>& states_;
  ScratchStore& store_;
  /** By filter. */
  ScratchVector<uint32_t> queries_;
  ScratchVector<Run> runs_;
  /** By query: its place in `queries_`. */
  ScratchVector<uint32_t> places_;
  /** By thread and place in `queries_`; nothing of a thread that has scanned nothing. */
  std::vector<ScratchVector<KeyPool>> keys_;
};

}  // namespace winnow
