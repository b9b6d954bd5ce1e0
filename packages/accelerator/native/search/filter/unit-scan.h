// One thread's way through the filter: a unit of blocks against the queries that its rows might gain.
// This is where almost all time of a search is spent. It keeps no rows: for each block and query it
// tells its caller which rows pass, and with which bounds of their scores, and the caller says what
// the query's threshold is from there on. The sample and the filter are such callers.
//
//   scan.select(unit, thresholdOf)   which queries a row of the unit could reach; false: none
//   scan.run(queue, take)            filters the unit for them and calls `take` for rows that pass
//
// Rare events (a row passes, a threshold rises) are kept out of the loop over blocks.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/bound.h"
#include "kernels/kernel.h"
#include "memory/scratch-store.h"
#include "search/queries/query-batch.h"
#include "search/queries/query-state.h"
#include "search/scan-plan.h"
#include "search/search-request.h"

namespace winnow {

/** Rows of one block that the filter lets pass for one query. Valid only while `take` is called. */
struct PassedRows {
  uint32_t query;
  uint32_t table;
  /** Sorted position of the block's first row in its table. */
  uint32_t firstPosition;
  /** Bit r is set if row r of the block passes. */
  uint64_t rows;
  /** Of each row that passes, by how much its sum of products exceeds the least that passes. */
  const int32_t* margins;
  /** What turns a margin into bounds of the score. */
  double scale;
  double start;
  double error;

  /** Where the canonical score of a row with this margin lies. */
  ScoreRange scoreOf(int32_t margin) const {
    return scoreRange(scale * (static_cast<double>(margin) + start), error);
  }

  /**
   * A score that the row hardly ever stays below. The bound adds up the errors of all dims; those of real
   * rows are as likely up as down, so that a part of it is enough where nothing has to be proven.
   */
  float guessOf(int32_t margin) const {
    constexpr double ERROR_SHARE = 0.25;
    return static_cast<float>(scale * (static_cast<double>(margin) + start) - ERROR_SHARE * error);
  }
};

/** Cache lines of a block's codes for each four dims. */
constexpr uint32_t LINES_PER_GROUP = 4 * BLOCK_ROWS / 64;

class UnitScan {
 public:
  /** Takes no memory before the first unit is run. Request, batch and states outlive the scan. */
  UnitScan(const SearchRequest& request, const QueryBatch& batch,
           const ScratchVector<QueryState>& states, const Kernel& kernel, ScratchStore& store)
      : request_(request), batch_(batch), states_(states), kernel_(kernel), active_(store),
        admissions_(store), numbers_(store), lanes_(store), limits_(store), words_(store), groups_(store) {}

  /**
   * Selects the queries whose threshold, `thresholdOf(query)`, a row of the unit could reach by its
   * norm, and whose filter admits a row near it. False: no row of the unit or of a later one can reach
   * any threshold, whatever the filters; true even if none is selected.
   */
  template <typename ThresholdOf>
  bool select(const ScanUnit& unit, const ThresholdOf& thresholdOf);

  /**
   * Filters the blocks of the selected unit for the selected queries. `take(passed)` is called for
   * every block and query with rows that pass, and returns the query's threshold from there on.
   * `queue`: where the thread's next unit will come from, whose beginning is fetched ahead.
   */
  template <typename Take>
  void run(const UnitQueue& queue, const Take& take);

 private:
  /** A selected query; its place among them is its lane. */
  struct ActiveQuery {
    uint32_t query;
    float threshold;
    /** The number of its admission. */
    uint32_t admission;
  };
  /** One of the filters that selected queries have; without one, all rows are admitted. */
  struct Admission {
    const RowFilter* filter;
    /** Bit r is set if it admits row r of the current block. */
    uint64_t rows;
  };
  /** Lanes that go into one filter call, and where their words begin. */
  struct Group {
    uint32_t firstLane;
    uint32_t size;
    size_t firstWord;
  };
  /** Memory of a block that is soon to be filtered, to be prefetched. */
  struct Coming {
    const uint8_t* codes;
    const BlockBounds* bounds;
  };

  void reserve();
  void begin();
  void end();
  QueryLanes lanes();
  void loadLanes();
  void packWords();
  void listAdmissions();
  uint64_t admit(const Table& table, uint32_t block);
  Coming comingAfter(uint32_t block, const UnitQueue& queue) const;
  template <typename Take>
  void filterBlock(uint32_t block, const UnitQueue& queue, const Take& take);
  PassedRows passedRows(uint32_t block, uint32_t lane, uint64_t rows, const int32_t* margins) const;

  const SearchRequest& request_;
  const QueryBatch& batch_;
  const ScratchVector<QueryState>& states_;
  const Kernel& kernel_;
  /** The selected unit and queries, and the kernel that filters for that many. */
  const ScanUnit* unit_ = nullptr;
  ScratchVector<ActiveQuery> active_;
  /** The distinct filters of the selected queries. */
  ScratchVector<Admission> admissions_;
  /** By the number of a filter in the request, one more for none: its admission. */
  ScratchVector<uint32_t> numbers_;
  const Kernel* chosen_ = nullptr;
  /** The five arrays of QueryLanes, one behind the other. */
  ScratchVector<double> lanes_;
  /** By lane, for the current block. */
  ScratchVector<int32_t> limits_;
  /** Codes of all lanes as the kernel reads them, group by group. */
  ScratchVector<uint32_t> words_;
  /** All lanes in groups as even as possible: seven are 4 + 3, not 6 + 1. */
  ScratchVector<Group> groups_;
};

template <typename ThresholdOf>
bool UnitScan::select(const ScanUnit& unit, const ThresholdOf& thresholdOf) {
  unit_ = &unit;
  active_.clear();
  bool isReached = false;
  for (uint32_t query = 0; query < request_.queries; ++query) {
    if (!states_[query].isFiltered()) continue;
    const double reach = scoreReach(request_.weights.norm * batch_.norm(query), unit.norm);
    const float threshold = thresholdOf(query);
    if (!(reach >= threshold)) continue;
    isReached = true;
    const RowFilter* filter = request_.filter(query, unit.table);
    const bool isEmpty = filter != nullptr && !filter->hasPositions(unit.firstBlock, unit.endBlock);
    if (!isEmpty) active_.push_back({query, threshold, 0});
  }
  return isReached;
}

template <typename Take>
void UnitScan::run(const UnitQueue& queue, const Take& take) {
  if (active_.empty()) return;
  begin();
  for (uint32_t block = unit_->firstBlock; block < unit_->endBlock; block += unit_->step) {
    filterBlock(block, queue, take);
  }
  end();
}

template <typename Take>
void UnitScan::filterBlock(uint32_t block, const UnitQueue& queue, const Take& take) {
  const Table& table = *request_.tables[unit_->table];
  if (admit(table, block) == 0) return;
  const QueryLanes lanes = this->lanes();
  const Kernel& kernel = *chosen_;
  kernel.computeLimits(table.bounds(block), lanes, request_.weights, limits_.data());
  const Coming coming = comingAfter(block, queue);
  __builtin_prefetch(coming.bounds);
  // The calls share the codes to come, each fetching one run of them: lines that a call fetched by turns
  // from four places cost AMD's processors twice the time.
  const uint8_t* ahead = coming.codes;
  uint32_t linesLeft = LINES_PER_GROUP;
  uint32_t callsLeft = static_cast<uint32_t>(groups_.size());
  uint64_t survivors[GROUP_QUERIES_MAX];
  alignas(64) int32_t margins[GROUP_QUERIES_MAX * BLOCK_ROWS];
  for (const Group& group : groups_) {
    const uint32_t lines = (linesLeft + callsLeft - 1) / callsLeft;
    const FilterCall call{table.codes(block),
                          batch_.groups(),
                          group.size,
                          words_.data() + group.firstWord,
                          limits_.data() + group.firstLane,
                          ahead,
                          lines,
                          survivors,
                          margins};
    ahead += size_t{lines} * call.groups * 64;
    linesLeft -= lines;
    --callsLeft;
    for (uint64_t found = kernel.filter(call); found != 0; found &= found - 1) {
      const uint32_t i = static_cast<uint32_t>(__builtin_ctzll(found));
      const uint32_t lane = group.firstLane + i;
      const uint64_t rows = survivors[i] & admissions_[active_[lane].admission].rows;
      if (rows == 0) continue;
      const int32_t* rowMargins = margins + size_t{i} * BLOCK_ROWS;
      lanes.threshold[lane] = take(passedRows(block, lane, rows, rowMargins));
    }
  }
}

}  // namespace winnow
