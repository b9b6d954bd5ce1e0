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
  // A word stays in a register until it is whole, and four of them do not wait for each other.
  const uint32_t* order = table.order();
  const uint64_t* byRow = byRow_.data();
  const uint32_t whole = rows_ / 64;
  for (uint32_t word = 0; word < whole; ++word, order += 64) {
    uint64_t parts[4] = {};
    for (uint32_t at = 0; at < 16; ++at) {
      for (uint32_t part = 0; part < 4; ++part) {
        const uint32_t row = order[16 * part + at];
        parts[part] |= (byRow[row / 64] >> (row % 64) & 1) << at;
      }
    }
    byPosition_[word] = parts[0] | parts[1] << 16 | parts[2] << 32 | parts[3] << 48;
  }
  for (uint32_t at = 0; at < rows_ % 64; ++at) {
    byPosition_[whole] |= static_cast<uint64_t>(admits(order[at])) << at;
  }
  markUnits(byPosition_, hasPositions_);
}

}  // namespace winnow
