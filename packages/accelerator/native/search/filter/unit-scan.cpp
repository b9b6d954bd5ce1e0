// Arranging a unit's queries for the kernel, and looking ahead.

#include "search/filter/unit-scan.h"

#include <algorithm>

namespace winnow {

void UnitScan::reserve() {
  if (!lanes_.empty()) return;
  // Lane arrays are read in whole vectors of eight.
  const size_t lanes = (size_t{request_.queries} + 7) / 8 * 8;
  lanes_.assign(lanes * 5, 0);
  limits_.assign(lanes + GROUP_QUERIES_MAX, 0);
  const uint32_t padding = std::max(kernel_.wordGroups, 1u);
  const size_t words = (batch_.groups() + padding - 1) / padding * padding;
  // A group may be read as if it were full.
  words_.assign((lanes + GROUP_QUERIES_MAX) * words, 0);
}

void UnitScan::begin() {
  reserve();
  chosen_ = active_.size() < kernel_.queriesMin ? kernel_.few : &kernel_;
  loadLanes();
  packWords();
  listAdmissions();
  if (chosen_->enter != nullptr) chosen_->enter();
}

void UnitScan::end() {
  if (chosen_->leave != nullptr) chosen_->leave();
}

QueryLanes UnitScan::lanes() {
  const size_t stride = lanes_.size() / 5;
  double* lanes = lanes_.data();
  return {static_cast<uint32_t>(active_.size()),
          lanes,
          lanes + stride,
          lanes + 2 * stride,
          lanes + 3 * stride,
          lanes + 4 * stride};
}

void UnitScan::loadLanes() {
  const QueryLanes lanes = this->lanes();
  for (uint32_t lane = 0; lane < lanes.count; ++lane) {
    const QueryCode& code = batch_.code(unit_->table, active_[lane].query);
    lanes.threshold[lane] = active_[lane].threshold;
    lanes.norm[lane] = code.norm;
    lanes.error[lane] = code.error;
    lanes.inverseScale[lane] = code.inverseScale;
    lanes.offset[lane] = code.offset;
  }
}

void UnitScan::packWords() {
  const Kernel& kernel = *chosen_;
  const uint32_t count = static_cast<uint32_t>(active_.size());
  const uint32_t groupCount = (count + kernel.groupQueries - 1) / kernel.groupQueries;
  const bool isByQuery = kernel.wordGroups > 0;
  const uint32_t padding = std::max(kernel.wordGroups, 1u);
  const uint32_t filled = batch_.groups();
  const uint32_t width = (filled + padding - 1) / padding * padding;
  groups_.clear();
  uint32_t lane = 0;
  for (uint32_t g = 0; g < groupCount; ++g) {
    const uint32_t end = static_cast<uint32_t>(uint64_t{g + 1} * count / groupCount);
    const Group group{lane, end - lane, size_t{lane} * width};
    uint32_t* words = words_.data() + group.firstWord;
    for (uint32_t i = 0; lane < end; ++i, ++lane) {
      const uint32_t* source = batch_.words(unit_->table, active_[lane].query);
      for (uint32_t word = 0; word < filled; ++word) {
        words[isByQuery ? size_t{i} * width + word : size_t{word} * group.size + i] = source[word];
      }
      for (uint32_t word = filled; word < width; ++word) words[size_t{i} * width + word] = 0;
    }
    groups_.push_back(group);
  }
}

/** Queries of one filter share an admission, and so do those without one. */
void UnitScan::listAdmissions() {
  constexpr uint32_t UNLISTED = ~uint32_t{0};
  admissions_.clear();
  numbers_.assign(request_.filters.size() + 1, UNLISTED);
  for (ActiveQuery& active : active_) {
    const uint32_t filter = request_.filterNumber(active.query);
    uint32_t& number = numbers_[filter == SearchRequest::NO_FILTER ? request_.filters.size() : filter];
    if (number == UNLISTED) {
      number = static_cast<uint32_t>(admissions_.size());
      admissions_.push_back({request_.filter(active.query, unit_->table), 0});
    }
    active.admission = number;
  }
}

/** Looks up each admission's rows of a block. Returns those that any of them admits, as bits. */
uint64_t UnitScan::admit(const Table& table, uint32_t block) {
  const uint32_t count = std::min(BLOCK_ROWS, table.shape().rows - block * BLOCK_ROWS);
  const uint64_t all = count == BLOCK_ROWS ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  uint64_t admitted = 0;
  for (Admission& admission : admissions_) {
    admission.rows = admission.filter == nullptr ? all : admission.filter->positionsOf(block);
    admitted |= admission.rows;
  }
  return admitted;
}

/** In the same unit, or from the beginning of the one that this thread is likely to take next. */
UnitScan::Coming UnitScan::comingAfter(uint32_t block, const UnitQueue& queue) const {
  const ScanUnit* unit = unit_;
  const size_t blockBytes = size_t{batch_.groups()} * 4 * BLOCK_ROWS;
  const size_t aheadBytes = chosen_->aheadBytes;
  uint32_t blocksAhead = static_cast<uint32_t>(aheadBytes / blockBytes);
  // Codes of a part of a block are followed by those of the next one, unless some are left out.
  size_t rest = aheadBytes % blockBytes;
  if (rest > 0 && unit->step > 1) {
    ++blocksAhead;
    rest = 0;
  }
  uint32_t coming = block + blocksAhead * unit->step;
  if (coming >= unit->endBlock) {
    const ScanUnit* next = queue.next();
    if (next != nullptr) unit = next;
    coming = unit->firstBlock + (coming - unit_->endBlock) / unit_->step * unit->step;
    coming = std::min(coming, unit->endBlock - 1);
  }
  const Table& table = *request_.tables[unit->table];
  return {table.codes(coming) + rest, &table.bounds(coming)};
}

PassedRows UnitScan::passedRows(uint32_t block, uint32_t lane, uint64_t rows,
                                const int32_t* margins) const {
  const uint32_t query = active_[lane].query;
  const BlockBounds& bounds = request_.tables[unit_->table]->bounds(block);
  const QueryCode& code = batch_.code(unit_->table, query);
  return {query,
          unit_->table,
          block * BLOCK_ROWS,
          rows,
          margins,
          bounds.scale * code.scale,
          limits_[lane] - code.offset,
          boundError(bounds, code.norm, code.error, request_.weights)};
}

}  // namespace winnow
