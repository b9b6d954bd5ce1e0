// Putting a set of rows into the two orders in which a search meets them.

#include "search/queries/row-filter.h"

namespace winnow {

namespace {

static_assert(BLOCK_ROWS == 64, "a word of 64 bits stands for a block");

size_t unitsOf(uint32_t rows) { return (size_t{rows} + UNIT_ROWS - 1) / UNIT_ROWS; }

void markUnits(const std::vector<uint64_t>& words, std::vector<uint8_t>& hasAny) {
  for (size_t word = 0; word < words.size(); ++word) {
    if (words[word] != 0) hasAny[word / UNIT_BLOCKS] = 1;
  }
}

}  // namespace

size_t RowFilter::occupiedBytes(uint32_t rows) {
  return 2 * unitsOf(rows) * (UNIT_BLOCKS * sizeof(uint64_t) + 1);
}

RowFilter::RowFilter(const Table& table, const uint8_t* bits, size_t count)
    : rows_(table.shape().rows),
      byRow_(unitsOf(rows_) * UNIT_BLOCKS),
      byPosition_(unitsOf(rows_) * UNIT_BLOCKS),
      hasRows_(unitsOf(rows_)),
      hasPositions_(unitsOf(rows_)) {
  const size_t bytes = std::min(count, (size_t{rows_} + 7) / 8);
  for (size_t byte = 0; byte < bytes; ++byte) {
    byRow_[byte / 8] |= static_cast<uint64_t>(bits[byte]) << (byte % 8 * 8);
  }
  if (rows_ % 64 != 0) byRow_[rows_ / 64] &= (uint64_t{1} << (rows_ % 64)) - 1;
  for (const uint64_t word : byRow_) {
    admitted_ += static_cast<uint32_t>(__builtin_popcountll(word));
  }
  markUnits(byRow_, hasRows_);
  if (admitted_ == 0) return;
  const uint32_t* order = table.order();
  for (uint32_t position = 0; position < rows_; ++position) {
    byPosition_[position / 64] |= static_cast<uint64_t>(admits(order[position])) << (position % 64);
  }
  markUnits(byPosition_, hasPositions_);
}

}  // namespace winnow
