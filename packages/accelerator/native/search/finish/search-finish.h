// The finish: from what the scans left of each query to its answer.
//
//   choose   of a query's survivors, those with the best upper bounds come first
//   score    those first ones canonically, several threads sharing a query where queries are few
//   finish   survivors that might still be among the k best scored, all sorted, cut at k
//
// Where queries are many, each is chosen, scored and finished by one thread in one step. A query
// whose guessed threshold turns out to be too high is not answered: it stays filtered, with the best
// threshold that is proven, and the search scans once more for it. The answer of a dense query needs
// no scores any more.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"
#include "memory/scratch-store.h"
#include "search/filter/candidate-filter.h"
#include "search/finish/dense-scan.h"
#include "search/queries/query-batch.h"
#include "search/queries/query-state.h"
#include "search/search-counters.h"
#include "search/search-request.h"

namespace winnow {

class SearchFinish {
 public:
  /** Writes the answer, the states of the queries and the counters; all of these outlive it. */
  SearchFinish(const SearchRequest& request, const QueryBatch& batch, const Kernel& kernel,
               ScratchVector<QueryState>& states, SearchCounters& counters, SearchAnswer& answer,
               ScratchStore& store);

  /** Items of the first two phases: none where `finish` does it all. */
  uint32_t choiceItems() const { return parts_ > 1 ? request_.queries : 0; }
  uint32_t scoreItems() const { return parts_ > 1 ? request_.queries * parts_ : 0; }

  /** Takes over what the filter kept of a query and chooses the first survivors to score. */
  void choose(uint32_t query, const CandidateFilter& filter);

  /** Scores one part of one query's chosen survivors. Once all are chosen. */
  void score(uint32_t item);

  /** Answers a query, unless it has to be scanned for once more. Once all items are scored. */
  void finish(uint32_t query, const CandidateFilter& filter, DenseScan& dense);

 private:
  /** What the filter left of one query. */
  struct Ending {
    explicit Ending(ScratchStore& store) : survivors(store), keys(store) {}
    /** Of all threads; the first `chosen` have canonical scores, whose order keys are `keys`. */
    ScratchVector<Survivor> survivors;
    size_t chosen = 0;
    ScratchVector<uint64_t> keys;
  };

  void finishFiltered(uint32_t query);
  void scoreRest(uint32_t query);
  bool isConfirmed(uint32_t query, const ScratchVector<uint64_t>& keys) const;
  void repeat(uint32_t query, const ScratchVector<uint64_t>& keys);
  void scoreSurvivors(uint32_t query, size_t start, size_t end);
  void write(uint32_t query, ScratchVector<uint64_t>& best);
  uint32_t localOf(const Survivor& survivor) const {
    return request_.tables[survivor.table]->order()[survivor.position];
  }

  const SearchRequest& request_;
  const QueryBatch& batch_;
  const Kernel& kernel_;
  ScratchVector<QueryState>& states_;
  SearchCounters& counters_;
  SearchAnswer& answer_;
  ScratchStore& store_;
  /** Parts in which the chosen survivors of a query are scored. */
  uint32_t parts_;
  /** By query. */
  ScratchVector<Ending> endings_;
};

}  // namespace winnow
