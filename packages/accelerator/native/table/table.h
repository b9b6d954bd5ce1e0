// A resident part of a table: the float32 rows as they came, and beside them what the filter reads.
//
//   rows    float32 [rows, dim]                       original order: rescoring, gather, dense scans
//   codes   uint8 [blocks][dim / 4][64 rows][4 dims]  sorted order: the filter scan
//   order   sorted position → row
//   bounds  per block of 64 rows: how far a code can be from its row
//   units   per unit of 2048 rows: the greatest norm, for the early end of a scan
//
// Rows are sorted by norm, descending, so that a scan meets the likely winners first; within a unit
// by their greatest value, so that the 64 rows of a block share one scale at little loss. Dimension
// j is divided by a power of two near its root mean square before it is coded, which is exact.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/memory-region.h"

namespace winnow {

constexpr uint32_t BLOCK_ROWS = 64;
constexpr uint32_t UNIT_BLOCKS = 32;
constexpr uint32_t UNIT_ROWS = BLOCK_ROWS * UNIT_BLOCKS;

/** A code u in 0…255 stands for scale · (u − 127.5). */
constexpr double CODE_MIDDLE = 127.5;

/** Of the 64 scaled rows x of a block and the values y their codes stand for. All rounded up. */
struct BlockBounds {
  double scale;
  /** max |x − y| */
  double rowError;
  /** max |x| */
  double rowNorm;
  /** max |y| */
  double codeNorm;
};

struct TableShape {
  uint32_t rows;
  uint32_t dim;
  uint32_t firstRow;
  /** Whether codes are built; without them a table can only be gathered from. */
  bool isSearched;
};

struct RowCoder;

class Table {
 public:
  /** Memory a table of this shape occupies once it is built. */
  static size_t occupiedBytes(const TableShape& shape);
  /** Memory that building needs in addition, until it is done. */
  static size_t buildBytes(const TableShape& shape);

  explicit Table(const TableShape& shape);

  /** Copies `count` values; returns the position of the first that is not finite, else `count`. */
  size_t append(const float* values, size_t count);
  /**
   * `append` in two steps: `claim` reserves room for values and gives its position, `fill` copies them
   * there and may run on any thread.
   */
  size_t claim(size_t count);
  size_t fill(size_t position, const float* values, size_t count);
  /** Builds codes from the rows. Call once, when all have been appended. */
  void build();
  /** Builds with these loops; for tests. */
  void build(const RowCoder& coder);

  const TableShape& shape() const { return shape_; }
  const float* row(uint32_t local) const { return rows() + size_t{local} * shape_.dim; }
  const float* rows() const { return rows_.as<float>(); }
  /** Asks for a row's memory ahead of its use. */
  void fetchRow(uint32_t local) const {
    constexpr uint32_t LINE_VALUES = 64 / sizeof(float);
    const float* values = row(local);
    for (uint32_t j = 0; j < shape_.dim; j += LINE_VALUES) __builtin_prefetch(values + j);
  }
  /** How many values have been appended or claimed. */
  size_t taken() const { return taken_; }

  /** Dimensions in groups of four, the last one padded. */
  uint32_t groups() const { return (shape_.dim + 3) / 4; }
  uint32_t blocks() const { return (shape_.rows + BLOCK_ROWS - 1) / BLOCK_ROWS; }
  uint32_t units() const { return (shape_.rows + UNIT_ROWS - 1) / UNIT_ROWS; }
  const uint8_t* codes(uint32_t block) const {
    return codes_.as<uint8_t>() + size_t{block} * groups() * 4 * BLOCK_ROWS;
  }
  /** Rows by sorted position. */
  const uint32_t* order() const { return order_.as<uint32_t>(); }
  const BlockBounds& bounds(uint32_t block) const { return bounds_[block]; }
  double unitNorm(uint32_t unit) const { return unitNorms_[unit]; }
  double maxNorm() const { return unitNorms_.empty() ? 0 : unitNorms_[0]; }
  /** The power of two that dimension j was divided by. */
  const std::vector<double>& dimScales() const { return dimScales_; }

 private:
  /** Finds the scale of each dimension, and a key per row that sorts by norm. */
  void measureRows(const RowCoder& coder, uint64_t* keys);
  /** Sorts and codes the rows of a unit, which `keys` name. */
  void buildUnit(const RowCoder& coder, uint32_t unit, uint64_t* keys, uint64_t* scratch);
  void encodeBlock(const RowCoder& coder, uint32_t block);

  TableShape shape_;
  MemoryRegion rows_;
  MemoryRegion codes_;
  MemoryRegion order_;
  std::vector<BlockBounds> bounds_;
  std::vector<double> unitNorms_;
  std::vector<double> dimScales_;
  std::vector<double> inverseDimScales_;
  size_t taken_ = 0;
};

}  // namespace winnow
