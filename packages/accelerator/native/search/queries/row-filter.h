// Which rows of one table a query may return: a set of rows, prepared once and used by any number of
// searches. It is kept twice, a bit per row each time: by sorted position, as the filter meets rows, and
// in the rows' own order, as they lie in memory where the few that are admitted are scored one by one.
// Units (2048 rows of either order) that hold none of them are told apart without reading their bits.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/table.h"

namespace winnow {

class RowFilter {
 public:
  /** Bit r & 7 of byte r >> 3 admits row r; rows past the end of the `count` bytes are not admitted. */
  RowFilter(const Table& table, const uint8_t* bits, size_t count);

  /** Memory that a filter of so many rows takes. */
  static size_t occupiedBytes(uint32_t rows);

  /** Rows of the table, and how many of them are admitted. */
  uint32_t rows() const { return rows_; }
  uint32_t admitted() const { return admitted_; }

  bool admits(uint32_t local) const { return (byRow_[local / 64] >> (local % 64) & 1) != 0; }
  /** Bit r: row 64 · word + r. */
  uint64_t rowsOf(uint32_t word) const { return byRow_[word]; }
  /** Bit r: the row at the r-th sorted position of a block. */
  uint64_t positionsOf(uint32_t block) const { return byPosition_[block]; }
  /** Whether the rows of a unit have an admitted one. */
  bool hasRows(uint32_t unit) const { return hasRows_[unit] != 0; }
  /** Whether the units of sorted positions that these blocks lie in have an admitted one. */
  bool hasPositions(uint32_t firstBlock, uint32_t endBlock) const {
    const auto unit = hasPositions_.begin() + firstBlock / UNIT_BLOCKS;
    const auto end = hasPositions_.begin() + (endBlock + UNIT_BLOCKS - 1) / UNIT_BLOCKS;
    return std::find(unit, end, 1) != end;
  }

 private:
  uint32_t rows_;
  uint32_t admitted_ = 0;
  /** Both end in whole units, whose bits past the rows are 0. */
  std::vector<uint64_t> byRow_;
  std::vector<uint64_t> byPosition_;
  std::vector<uint8_t> hasRows_;
  std::vector<uint8_t> hasPositions_;
};

using RowFilterPointer = std::shared_ptr<const RowFilter>;

}  // namespace winnow
