// How many threads a search takes, and the order of its phases.

#include "search/search.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "search/filter/candidate-filter.h"
#include "search/filter/threshold-guess.h"
#include "search/filter/unit-scan.h"
#include "search/finish/dense-scan.h"
#include "search/finish/search-finish.h"
#include "search/queries/query-batch.h"
#include "search/queries/query-state.h"
#include "search/scan-plan.h"

namespace winnow {

namespace {

/** Bytes of codes to read, weighed by queries, that are worth more than one thread. */
constexpr size_t BYTES_PER_TEAM = size_t{2} << 20;

/** Whether a search takes less than some hundred microseconds: waking helpers then costs more than it saves. */
bool isSmall(const SearchRequest& request) {
  uint32_t filtered = 0;
  uint64_t rows = 0;
  for (uint32_t query = 0; query < request.queries; ++query) {
    if (request.isDirect(query)) {
      rows += request.admittedRows(query);
    } else {
      ++filtered;
    }
  }
  const uint64_t scored = rows * request.dim * sizeof(float);
  const uint64_t codes = filtered == 0 ? 0 : request.codeBytes() * std::max(1u, filtered / 8);
  return codes + scored < BYTES_PER_TEAM;
}

}  // namespace

/** Items of the phases that may have to be repeated. */
struct Search::Pass {
  Pass(const ScanPlan& plan, const SearchFinish& finish, uint32_t queries)
      : filtering(plan.units), scanning(plan.units) {
    beginning.reset(1);
    listing.reset(1);
    choosing.reset(finish.choiceItems());
    scoring.reset(finish.scoreItems());
    finishing.reset(queries);
  }

  WorkItems beginning;
  UnitQueue filtering;
  WorkItems listing;
  UnitQueue scanning;
  WorkItems choosing;
  WorkItems scoring;
  WorkItems finishing;
};

/** All that the threads of a running search share. Making it is the plan's phase. */
struct Search::Stages {
  Stages(Search& search, uint32_t threads)
      : plan(search.request_, search.store_),
        batch(search.request_, search.kernel_, search.store_),
        states(search.request_.queries, search.store_),
        guess(search.request_, plan.sampleRank, states, threads, search.store_),
        filter(search.request_, search.kernel_, states, threads, search.store_),
        dense(search.request_, batch, search.kernel_, states, threads, search.store_),
        finish(search.request_, batch, search.kernel_, states, search.counters_, search.answer_,
               search.store_),
        scans(threads, UnitScan(search.request_, batch, states, search.kernel_, search.store_)),
        sampling(plan.samples),
        passes{{plan, finish, search.request_.queries}, {plan, finish, search.request_.queries}} {
    preparing.reset(search.request_.queries);
    guessing.reset(plan.samples.empty() ? 0 : search.request_.queries);
  }

  ScanPlan plan;
  QueryBatch batch;
  ScratchVector<QueryState> states;
  ThresholdGuess guess;
  CandidateFilter filter;
  DenseScan dense;
  SearchFinish finish;
  /** One per thread. */
  std::vector<UnitScan> scans;

  WorkItems preparing;
  UnitQueue sampling;
  WorkItems guessing;
  Pass passes[2];
};

Search::Search(SearchRequest request, const Kernel& kernel, ScratchStore& store, StopFlag stopFlag)
    : request_(std::move(request)),
      kernel_(kernel),
      store_(store),
      work_(std::move(stopFlag)) {}

bool Search::run(ThreadTeam& team) {
  const uint32_t parts = splitParts(request_, team.size());
  if (parts > 1) return runSplit(team, parts);
  return runWhole(isSmall(request_) ? nullptr : &team);
}

/** Each part of the queries is answered by one thread alone. */
bool Search::runSplit(ThreadTeam& team, uint32_t parts) {
  work_.guarded([&] { answer_.resize(request_); });
  WorkItems items;
  items.reset(parts);
  team.run([&](uint32_t) {
    work_.forEach(items, [&](uint32_t part) { runPart(rangeOfPart(request_, part, parts)); });
  });
  return !work_.isStopped();
}

void Search::runPart(const QueryRange& range) {
  Search part(requestOfPart(request_, range), kernel_, store_, stopFlag());
  if (!part.runWhole(nullptr)) {
    if (part.isOutOfMemory()) work_.endOutOfMemory();
    return;
  }
  const SearchAnswer& answer = part.answer();
  const size_t place = size_t{range.start} * request_.k;
  std::copy(answer.counts.begin(), answer.counts.end(), answer_.counts.begin() + range.start);
  std::copy(answer.scores.begin(), answer.scores.end(), answer_.scores.data() + place);
  std::copy(answer.rows.begin(), answer.rows.end(), answer_.rows.data() + place);
  counters_.add(part.counters());
}

/** All queries, by a team; without one, by this thread alone. */
bool Search::runWhole(ThreadTeam* team) {
  WorkItems planning;
  planning.reset(1);
  std::optional<Stages> stages;
  const auto work = [&](uint32_t thread) {
    // The first thread plans while helpers wake, as both take about as long.
    work_.forEach(planning, [&](uint32_t) { stages.emplace(*this, team ? team->size() : 1); });
    // `forEach` returns early when the search is stopped: another thread may then still be planning.
    if (planning.areDone()) runPhases(*stages, thread);
  };
  if (team == nullptr) {
    work(0);
  } else {
    team->run(work);
  }
  return !work_.isStopped();
}

void Search::runPhases(Stages& stages, uint32_t thread) {
  const double greatestNorm = stages.plan.greatestNorm();
  work_.forEach(stages.preparing, [&](uint32_t query) {
    const bool canFilter = stages.batch.prepare(query, greatestNorm);
    const bool isDirect = request_.isDirect(query);
    if (isDirect) counters_.directQueries.fetch_add(1, std::memory_order_relaxed);
    if (isDirect || !canFilter) stages.states[query].makeDense();
  });
  work_.forEach(stages.sampling.items, [&](uint32_t item) {
    stages.guess.sample(stages.plan.samples[item], stages.sampling, thread, stages.scans[thread]);
  });
  work_.forEach(stages.guessing, [&](uint32_t query) { stages.guess.raise(query); });
  runPass(stages, stages.passes[0], thread);
  if (counters_.repeatedQueries.load(std::memory_order_relaxed) == 0) return;
  work_.forEach(stages.passes[1].beginning, [&](uint32_t) { stages.filter.restart(); });
  runPass(stages, stages.passes[1], thread);
}

void Search::runPass(Stages& stages, Pass& pass, uint32_t thread) {
  const ScratchVector<ScanUnit>& units = stages.plan.units;
  work_.forEachWhile(pass.filtering.items, [&](uint32_t unit) {
    return stages.filter.filter(units[unit], pass.filtering, thread, stages.scans[thread]);
  });
  work_.forEach(pass.listing, [&](uint32_t) {
    const uint64_t unserved = stages.dense.begin();
    if (unserved * request_.rows() * request_.dim > request_.denseValuesMax) work_.end();
    counters_.denseQueries += unserved;
  });
  work_.forEachWhile(pass.scanning.items, [&](uint32_t unit) {
    if (stages.dense.isEmpty()) return false;
    stages.dense.scan(units[unit], thread, work_);
    return true;
  });
  work_.forEach(pass.choosing, [&](uint32_t query) { stages.finish.choose(query, stages.filter); });
  work_.forEach(pass.scoring, [&](uint32_t item) { stages.finish.score(item); });
  work_.forEach(pass.finishing, [&](uint32_t query) {
    stages.finish.finish(query, stages.filter, stages.dense);
  });
}

}  // namespace winnow
