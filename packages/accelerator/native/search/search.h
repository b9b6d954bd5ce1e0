// One batch of queries against some tables: the fused exact top-k.
//
//   plan      put all units in order, while other threads wake up
//   prepare   code each query for each kind of table; queries the filter cannot serve become dense
//   sample    some blocks of all tables, and from them a guess of each query's threshold
//   filter    units of 2048 rows, greatest norms first, taken from one counter by all threads
//   dense     the queries that need it: every admitted row scored canonically
//   choose    per query: survivors of all threads, those with the best upper bounds first
//   score     those first ones canonically, several threads sharing a query where queries are few
//   finish    per query: others that might still be among the k best scored, all sorted, cut at k
//   again     filter to finish for queries whose guess was too high; almost always none
//
// Many queries of a small table are split among the threads, each part being a search of one thread.
//
// A query is served densely if it is zero or not finite, if scores could overflow float32, or if the
// filter lets too many rows pass. The answer is the same whichever way it was found.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "kernels/kernel.h"
#include "search/candidate-pool.h"
#include "search/key-pool.h"
#include "search/query-code.h"
#include "search/scratch-store.h"
#include "search/search-request.h"
#include "search/thread-team.h"
#include "search/top-sample.h"

namespace winnow {

using StopFlag = std::shared_ptr<std::atomic<bool>>;

/** Figures of a search, for tests and benchmarks. */
struct SearchCounters {
  std::atomic<uint64_t> rescored{0};
  std::atomic<uint64_t> denseQueries{0};
  /** Queries that were filtered again because their guessed threshold was too high. */
  std::atomic<uint64_t> repeatedQueries{0};
};

class Search {
 public:
  /** Takes memory from the store, which outlives it. */
  Search(SearchRequest request, const Kernel& kernel, ScratchStore& store);

  /** Runs on all threads of the team. Returns false if it was cancelled or memory ran out. */
  bool run(ThreadTeam& team);
  /** Raised from any thread, it ends the search soon; it outlives the search. */
  const StopFlag& stopFlag() const { return stopFlag_; }
  bool isOutOfMemory() const { return isOutOfMemory_.load(); }

  const SearchRequest& request() const { return request_; }
  SearchAnswer& answer() { return answer_; }
  const SearchCounters& counters() const { return counters_; }

 private:
  /** Blocks of a table, one in `step`, and the greatest norm of their rows. */
  struct Unit {
    double norm;
    uint32_t table;
    uint32_t firstBlock;
    uint32_t endBlock;
    uint32_t step;
  };
  /** Lanes that go into one filter call, and where their words begin. */
  struct Group {
    uint32_t firstLane;
    uint32_t size;
    size_t firstWord;
  };
  /** A thread's own memory. */
  struct Scratch {
    explicit Scratch(ScratchStore& store)
        : pools(store), keys(store), active(store), lanes(store), limits(store), words(store),
          groups(store), samples(store) {}
    /** One per query; none if this thread filtered nothing. */
    ScratchVector<CandidatePool> pools;
    /** One per dense query. */
    ScratchVector<KeyPool> keys;
    /** Queries that take part in the current unit; a query's place here is its lane. */
    ScratchVector<uint32_t> active;
    ScratchVector<double> lanes;
    ScratchVector<int32_t> limits;
    ScratchVector<uint32_t> words;
    /** The active queries in groups as even as possible: seven are 4 + 3, not 6 + 1. */
    ScratchVector<Group> groups;
    /** Which kernel filters the current unit. */
    const Kernel* kernel = nullptr;
    /** One per query, if this thread took part in sampling. */
    ScratchVector<TopSample> samples;
    bool isSampling = false;
    /** The units this thread takes now, and how it will find the next one. */
    const ScratchVector<Unit>* units = nullptr;
    const WorkItems* items = nullptr;
  };
  /** What a block that is soon to be filtered will read. */
  struct Coming {
    const uint8_t* codes;
    const BlockBounds* bounds;
  };
  /** What turns a margin of one query in one block into bounds of the score. */
  struct Bounding {
    double scale;
    double start;
    double error;
    double middle(double margin) const { return scale * (margin + start); }
  };
  /** The phases that may have to be repeated. */
  struct Pass {
    WorkItems beginning;
    WorkItems filtering;
    WorkItems listing;
    WorkItems scanning;
    WorkItems choosing;
    WorkItems scoring;
    WorkItems finishing;
  };
  /** What the filter left of one query. */
  struct Ending {
    explicit Ending(ScratchStore& store) : survivors(store), keys(store) {}
    /** Of all threads; the first `scored` have canonical scores, whose order keys are `keys`. */
    ScratchVector<Survivor> survivors;
    size_t scored = 0;
    ScratchVector<uint64_t> keys;
  };
  /** Rows of one block that one query's filter let pass. */
  struct Passed {
    uint32_t block;
    uint32_t lane;
    uint64_t rows;
    const int32_t* margins;
  };

  template <typename Part>
  void guarded(const Part& part);
  bool isStopped() const { return stopFlag_->load(std::memory_order_relaxed); }

  uint32_t splitParts(uint32_t threads) const;
  SearchRequest requestOfPart(uint32_t start, uint32_t end) const;
  void runPart(uint32_t start, uint32_t end);
  bool runSplit(ThreadTeam& team, uint32_t parts);
  bool runAlone();

  uint64_t codeBytes() const;
  void prepare();
  void resizeAnswer();
  void work(uint32_t thread, std::vector<Scratch>& scratches);
  template <typename Item>
  void forEach(WorkItems& items, const Item& item);
  void workPass(Pass& pass, uint32_t thread, std::vector<Scratch>& scratches);
  void beginAgain(std::vector<Scratch>& scratches);
  void listDenseQueries();
  void orderUnits();
  void planCodings();
  void prepareQuery(uint32_t query);
  void prepareScratch(Scratch& scratch);

  void planSample();
  void sampleItem(const Unit& unit, Scratch& scratch);
  void takeSample(const Unit& unit, const Passed& passed, Scratch& scratch);
  void guess(uint32_t query, std::vector<Scratch>& scratches);

  bool filterItem(const Unit& unit, Scratch& scratch);
  bool activate(const Unit& unit, Scratch& scratch);
  void filterUnit(const Unit& unit, Scratch& scratch);
  void filterBlock(const Unit& unit, uint32_t block, Scratch& scratch);
  Coming comingAfter(const Unit& unit, uint32_t block, const Scratch& scratch) const;
  void takeSurvivors(const Unit& unit, const Passed& passed, Scratch& scratch);
  void loadLanes(const Unit& unit, Scratch& scratch);
  void packWords(const Unit& unit, Scratch& scratch);
  QueryLanes lanesOf(Scratch& scratch) const;
  Bounding boundingOf(const Unit& unit, const Passed& passed, const Scratch& scratch) const;
  /** Below it, a row is of no use in the current phase. */
  float thresholdOf(uint32_t query, const Scratch& scratch) const {
    return scratch.isSampling ? scratch.samples[query].least() : thresholds_[query].get();
  }

  void denseUnit(const Unit& unit, Scratch& scratch);

  bool isFiltered(uint32_t query) const { return isAnswered_[query] == 0 && !isDense(query); }
  void chooseSurvivors(uint32_t query, std::vector<Scratch>& scratches);
  void scorePart(uint32_t item);
  void finishQuery(uint32_t query, std::vector<Scratch>& scratches);
  void finishFiltered(uint32_t query);
  void finishDense(uint32_t query, std::vector<Scratch>& scratches);
  uint32_t localOf(const Survivor& survivor) const {
    return request_.tables[survivor.table]->order()[survivor.position];
  }
  bool isConfirmed(uint32_t query, const ScratchVector<uint64_t>& keys) const;
  void repeat(uint32_t query, const ScratchVector<uint64_t>& keys);
  void scoreSurvivors(uint32_t query, size_t start, size_t end);
  void write(uint32_t query, ScratchVector<uint64_t>& best);

  bool isAdmitted(uint32_t row) const;
  bool isExcluded(uint32_t query, uint32_t row) const;
  bool isExcludedAt(const Unit& unit, uint32_t query, uint32_t position) const;
  uint64_t admittedOf(const Table& table, uint32_t block) const;
  bool isDense(uint32_t query) const {
    return isDense_[query].load(std::memory_order_relaxed) != 0;
  }
  void becomeDense(uint32_t query);
  const QueryCode& codeOf(uint32_t table, uint32_t query) const {
    return codes_[size_t{codings_[table]} * request_.queries + query];
  }
  const uint32_t* wordsOf(uint32_t table, uint32_t query) const {
    return words_.data() + (size_t{codings_[table]} * request_.queries + query) * groups_;
  }

  SearchRequest request_;
  const Kernel& kernel_;
  ScratchStore& store_;
  uint32_t groups_;
  size_t poolLimit_ = 0;
  SearchAnswer answer_{store_};
  SearchCounters counters_;
  StopFlag stopFlag_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> isOutOfMemory_{false};

  ScratchVector<Unit> units_{store_};
  /** float64 [queries, dim], and their norms rounded up. */
  ScratchVector<double> wide_{store_};
  ScratchVector<double> norms_{store_};
  /** Tables that scale their dimensions alike share one coding of each query: its number by table. */
  std::vector<uint32_t> codings_;
  /** One table of each coding. */
  std::vector<uint32_t> codedTables_;
  /** [codings, queries]. */
  ScratchVector<QueryCode> codes_{store_};
  ScratchVector<uint32_t> words_{store_};
  ScratchVector<SharedThreshold> thresholds_{store_};
  /** What the thresholds began with, and which queries have their answers. */
  ScratchVector<float> guesses_{store_};
  ScratchVector<uint8_t> isAnswered_{store_};
  ScratchVector<Unit> samples_{store_};
  uint32_t sampleStride_ = 1;
  size_t sampleRank_ = 0;
  ScratchVector<std::atomic<uint8_t>> isDense_{store_};
  ScratchVector<uint32_t> denseQueries_{store_};
  ScratchVector<Ending> endings_{store_};
  /** Parts in which the first survivors of a query are scored. */
  uint32_t scoredParts_ = 1;
  WorkItems planning_;
  WorkItems preparing_;
  WorkItems sampling_;
  WorkItems guessing_;
  Pass passes_[2];
};

template <typename Part>
void Search::guarded(const Part& part) {
  try {
    if (!isStopped()) part();
  } catch (const std::bad_alloc&) {
    isOutOfMemory_.store(true);
    stopFlag_->store(true);
  }
}

/** Takes items until none is left, then waits for those that other threads have taken. */
template <typename Item>
void Search::forEach(WorkItems& items, const Item& item) {
  guarded([&] {
    for (uint32_t taken; !isStopped() && items.take(taken);) {
      if (item(taken)) {
        items.finish();
      } else {
        items.finishRest();
      }
    }
  });
  waitUntil([&] { return items.areDone() || isStopped(); });
}

}  // namespace winnow
