// The phases of a search, and what happens before any row is read.

#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace winnow {

namespace {

constexpr double ROUND_UP = 1 + 1e-9;
/** |q|·|x| from which a score might not be a finite float32. */
constexpr double OVERFLOW_NORM = 1e37;
/** Survivors of one query on one thread before a dense scan is the shorter way. */
constexpr size_t POOL_LIMIT_MIN = 4096;
constexpr size_t POOL_LIMIT_MAX = 16384;
constexpr size_t ROWS_PER_POOL_SLOT = 64;
/** Bytes of codes to read, weighed by queries, that are worth more than one thread. */
constexpr size_t BYTES_PER_TEAM = size_t{2} << 20;
/** Parts to cut the scoring of few queries into, altogether. */
constexpr uint32_t SCORED_PARTS = 16;

}  // namespace

Search::Search(SearchRequest request, const Kernel& kernel, ScratchStore& store)
    : request_(std::move(request)),
      kernel_(kernel),
      store_(store),
      groups_((request_.dim + 3) / 4) {}

bool Search::run(ThreadTeam& team) {
  const uint32_t parts = splitParts(team.size());
  if (parts > 1) return runSplit(team, parts);
  // Below some hundred microseconds of work, waking other threads takes longer than it saves.
  const bool isSmall = codeBytes() * std::max(1u, request_.queries / 8) < BYTES_PER_TEAM;
  planning_.reset(1);
  std::vector<Scratch> scratches(isSmall ? 1 : team.size(), Scratch(store_));
  if (isSmall) {
    work(0, scratches);
  } else {
    team.run([&](uint32_t thread) { work(thread, scratches); });
  }
  return !isStopped();
}

bool Search::runAlone() {
  planning_.reset(1);
  std::vector<Scratch> scratches(1, Scratch(store_));
  work(0, scratches);
  return !isStopped();
}

void Search::work(uint32_t thread, std::vector<Scratch>& scratches) {
  Scratch& scratch = scratches[thread];
  // Here, as it takes about as long as a helper takes to wake.
  forEach(planning_, [&](uint32_t) {
    prepare();
    return true;
  });
  // Stopped meanwhile: another thread may still be planning.
  if (!planning_.areDone()) return;
  forEach(preparing_, [&](uint32_t query) {
    prepareQuery(query);
    return true;
  });
  scratch.units = &samples_;
  scratch.items = &sampling_;
  forEach(sampling_, [&](uint32_t item) {
    sampleItem(samples_[item], scratch);
    return true;
  });
  forEach(guessing_, [&](uint32_t query) {
    guess(query, scratches);
    return true;
  });
  workPass(passes_[0], thread, scratches);
  if (counters_.repeatedQueries.load(std::memory_order_relaxed) == 0) return;
  forEach(passes_[1].beginning, [&](uint32_t) {
    beginAgain(scratches);
    return true;
  });
  workPass(passes_[1], thread, scratches);
}

void Search::workPass(Pass& pass, uint32_t thread, std::vector<Scratch>& scratches) {
  Scratch& scratch = scratches[thread];
  scratch.units = &units_;
  scratch.items = &pass.filtering;
  // Units come in descending norm and thresholds only rise: where no query is left, none comes back.
  forEach(pass.filtering, [&](uint32_t unit) { return filterItem(units_[unit], scratch); });
  forEach(pass.listing, [&](uint32_t) {
    listDenseQueries();
    return true;
  });
  forEach(pass.scanning, [&](uint32_t unit) {
    if (denseQueries_.empty()) return false;
    denseUnit(units_[unit], scratch);
    return true;
  });
  forEach(pass.choosing, [&](uint32_t query) {
    if (isFiltered(query)) chooseSurvivors(query, scratches);
    return true;
  });
  forEach(pass.scoring, [&](uint32_t item) {
    scorePart(item);
    return true;
  });
  forEach(pass.finishing, [&](uint32_t query) {
    if (isFiltered(query) && scoredParts_ == 1) {
      chooseSurvivors(query, scratches);
      scorePart(query);
    }
    if (isAnswered_[query] == 0) finishQuery(query, scratches);
    return true;
  });
}

/** While all other threads wait: what the queries to repeat left behind is gone. */
void Search::beginAgain(std::vector<Scratch>& scratches) {
  for (Scratch& scratch : scratches) {
    scratch.keys.clear();
    for (uint32_t query = 0; query < request_.queries && !scratch.pools.empty(); ++query) {
      if (isAnswered_[query] == 0) scratch.pools[query].reset(kernel_, request_.k, poolLimit_);
    }
  }
}

/** What a scan of everything reads. */
uint64_t Search::codeBytes() const {
  uint64_t rows = 0;
  for (const TablePointer& table : request_.tables) rows += table->shape().rows;
  return rows * groups_ * 4;
}

void Search::prepare() {
  const size_t queries = request_.queries;
  orderUnits();
  planCodings();
  wide_.resize(queries * request_.dim);
  norms_.resize(queries);
  codes_.resize(codedTables_.size() * queries);
  words_.resize(codedTables_.size() * queries * groups_);
  endings_.assign(queries, Ending(store_));
  scoredParts_ = std::max(1u, SCORED_PARTS / request_.queries);
  thresholds_ = ScratchVector<SharedThreshold>(queries, store_);
  isDense_ = ScratchVector<std::atomic<uint8_t>>(queries, store_);
  for (std::atomic<uint8_t>& isDense : isDense_) isDense.store(0, std::memory_order_relaxed);
  guesses_.assign(queries, -std::numeric_limits<float>::infinity());
  isAnswered_.assign(queries, 0);
  planSample();
  const uint32_t units = static_cast<uint32_t>(units_.size());
  preparing_.reset(request_.queries);
  sampling_.reset(static_cast<uint32_t>(samples_.size()));
  guessing_.reset(samples_.empty() ? 0 : request_.queries);
  for (Pass& pass : passes_) {
    pass.beginning.reset(1);
    pass.filtering.reset(units);
    pass.listing.reset(1);
    pass.scanning.reset(units);
    pass.choosing.reset(scoredParts_ > 1 ? request_.queries : 0);
    pass.scoring.reset(scoredParts_ > 1 ? request_.queries * scoredParts_ : 0);
    pass.finishing.reset(request_.queries);
  }
  resizeAnswer();
}

void Search::resizeAnswer() {
  const size_t queries = request_.queries;
  answer_.counts.assign(queries, 0);
  answer_.scores.assign(queries * request_.k, 0);
  answer_.rows.assign(queries * request_.k, 0);
}

void Search::listDenseQueries() {
  denseQueries_.clear();
  for (uint32_t q = 0; q < request_.queries; ++q) {
    if (isDense(q) && isAnswered_[q] == 0) denseQueries_.push_back(q);
  }
  counters_.denseQueries += denseQueries_.size();
}

void Search::orderUnits() {
  uint64_t rows = 0;
  for (uint32_t t = 0; t < request_.tables.size(); ++t) {
    const Table& table = *request_.tables[t];
    rows += table.shape().rows;
    for (uint32_t unit = 0; unit < table.units(); ++unit) {
      const uint32_t first = unit * UNIT_BLOCKS;
      const uint32_t end = std::min(first + UNIT_BLOCKS, table.blocks());
      units_.push_back({table.unitNorm(unit), t, first, end, 1});
    }
  }
  std::sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) {
    if (a.norm != b.norm) return a.norm > b.norm;
    return a.table != b.table ? a.table < b.table : a.firstBlock < b.firstBlock;
  });
  const size_t share = static_cast<size_t>(rows) / ROWS_PER_POOL_SLOT;
  poolLimit_ = std::max(4 * request_.k, std::min(std::max(share, POOL_LIMIT_MIN), POOL_LIMIT_MAX));
}

/** Parts of one table mostly scale their dimensions alike. */
void Search::planCodings() {
  for (uint32_t t = 0; t < request_.tables.size(); ++t) {
    const std::vector<double>& scales = request_.tables[t]->dimScales();
    uint32_t coding = 0;
    while (coding < codedTables_.size() &&
           request_.tables[codedTables_[coding]]->dimScales() != scales) {
      ++coding;
    }
    if (coding == codedTables_.size()) codedTables_.push_back(t);
    codings_.push_back(coding);
  }
}

void Search::prepareScratch(Scratch& scratch) {
  if (!scratch.pools.empty()) return;
  scratch.pools.assign(request_.queries, CandidatePool(store_));
  for (CandidatePool& pool : scratch.pools) pool.reset(kernel_, request_.k, poolLimit_);
  // Lane arrays are read in whole vectors of eight.
  const size_t lanes = (size_t{request_.queries} + 7) / 8 * 8;
  scratch.lanes.assign(lanes * 5, 0);
  scratch.limits.assign(lanes + GROUP_QUERIES_MAX, 0);
  const uint32_t padding = std::max(kernel_.wordGroups, 1u);
  const size_t words = (groups_ + padding - 1) / padding * padding;
  // A group may be read as if it were full.
  scratch.words.assign((lanes + GROUP_QUERIES_MAX) * words, 0);
}

void Search::prepareQuery(uint32_t query) {
  const float* vector = request_.vectors.data() + size_t{query} * request_.dim;
  double* wide = wide_.data() + size_t{query} * request_.dim;
  double squares = 0;
  bool isFinite = true;
  for (uint32_t j = 0; j < request_.dim; ++j) {
    wide[j] = vector[j];
    squares += wide[j] * wide[j];
    isFinite = isFinite && std::isfinite(vector[j]);
  }
  const double norm = std::sqrt(squares) * ROUND_UP;
  norms_[query] = norm;
  const double greatest = units_.empty() ? 0 : units_[0].norm;
  if (!isFinite || norm == 0 || norm * greatest > OVERFLOW_NORM) return becomeDense(query);
  for (uint32_t coding = 0; coding < codedTables_.size(); ++coding) {
    const Table& table = *request_.tables[codedTables_[coding]];
    const size_t at = size_t{coding} * request_.queries + query;
    codes_[at] = encodeQuery(table, kernel_, wide, words_.data() + at * groups_);
  }
}

void Search::becomeDense(uint32_t query) {
  isDense_[query].store(1, std::memory_order_relaxed);
}

bool Search::isAdmitted(uint32_t row) const {
  if (!request_.hasAdmittedRows) return true;
  const size_t byte = row >> 3;
  return byte < request_.admittedRows.size() && (request_.admittedRows[byte] >> (row & 7) & 1) != 0;
}

bool Search::isExcluded(uint32_t query, uint32_t row) const {
  if (request_.excludedStarts.empty()) return false;
  const auto rows = request_.excludedRows.begin();
  return std::binary_search(rows + request_.excludedStarts[query],
                            rows + request_.excludedStarts[query + 1], row);
}

bool Search::isExcludedAt(const Unit& unit, uint32_t query, uint32_t position) const {
  if (request_.excludedStarts.empty()) return false;
  const Table& table = *request_.tables[unit.table];
  return isExcluded(query, table.shape().firstRow + table.order()[position]);
}

}  // namespace winnow
