// One batch of queries against some tables: the fused exact top-k.
//
//   plan      which blocks are scanned and sampled, in which order           scan-plan.h
//   prepare   queries are widened and coded; those that the filter cannot
//             serve become dense                                             queries/query-batch.h
//   sample    from some blocks, a guess of each query's threshold            filter/threshold-guess.h
//   filter    all units, greatest norms first: rows that might be among the
//             k best survive                                                 filter/candidate-filter.h
//   dense     for the queries that need it, or may return few rows, all
//             rows that they may return are scored                           finish/dense-scan.h
//   finish    survivors are scored and sorted, in up to three phases         finish/search-finish.h
//   again     filter to finish for queries whose guess was too high; almost always none
//
// Each of these owns its state; what they tell each other about a query is in queries/query-state.h.
// `Search` only joins them: the threads of a team go through the phases together, each thread taking
// items of the current phase until none is left, and then waiting for the others' last items.
//
// Many queries of a small table are split among the threads, each part being a search of one thread
// (request-split.h).
//
// A query is served densely if it is zero or not finite, if scores could overflow float32, if the
// filter lets too many rows pass, or if its row filter (row-filter.h) admits few. The answer is the same
// whichever way it was found.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/kernel.h"
#include "memory/scratch-store.h"
#include "search/request-split.h"
#include "search/search-counters.h"
#include "search/search-request.h"
#include "threads/stoppable-work.h"
#include "threads/thread-team.h"

namespace winnow {

class Search {
 public:
  /** Takes memory from the store, which outlives it. */
  Search(SearchRequest request, const Kernel& kernel, ScratchStore& store)
      : Search(std::move(request), kernel, store, std::make_shared<std::atomic<bool>>(false)) {}

  /**
   * Runs on all threads of the team. Returns false if it was cancelled, memory ran out, or more values were
   * to be scored than `denseValuesMax` of the request.
   */
  bool run(ThreadTeam& team);
  /** Raised from any thread, it ends the search soon; it outlives the search. */
  const StopFlag& stopFlag() const { return work_.stopFlag(); }
  bool isOutOfMemory() const { return work_.isOutOfMemory(); }

  const SearchRequest& request() const { return request_; }
  const SearchAnswer& answer() const { return answer_; }
  const SearchCounters& counters() const { return counters_; }

 private:
  struct Stages;
  struct Pass;

  Search(SearchRequest request, const Kernel& kernel, ScratchStore& store, StopFlag stopFlag);

  bool runSplit(ThreadTeam& team, uint32_t parts);
  void runPart(const QueryRange& range);
  bool runWhole(ThreadTeam* team);
  void runPhases(Stages& stages, uint32_t thread);
  void runPass(Stages& stages, Pass& pass, uint32_t thread);

  SearchRequest request_;
  const Kernel& kernel_;
  ScratchStore& store_;
  SearchAnswer answer_{store_};
  SearchCounters counters_;
  StoppableWork work_;
};

}  // namespace winnow
