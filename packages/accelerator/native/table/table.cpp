// Filling a table and turning it into codes. Every bound is computed from what was really stored, in
// float64, and rounded up, so no step before it has to be exact.

#include "table/table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "table/key-sort.h"
#include "table/row-checks.h"
#include "table/row-coder.h"

namespace winnow {

namespace {

/** A kernel may read 16 groups of dims at once, also where fewer are left, and multiply them by 0. */
constexpr size_t CODE_MARGIN_BYTES = 16 * 4 * BLOCK_ROWS;

size_t codeBytes(const TableShape& shape) {
  const size_t blocks = (size_t{shape.rows} + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const size_t bytes = blocks * ((shape.dim + 3) / 4 * 4) * BLOCK_ROWS + CODE_MARGIN_BYTES;
  return MemoryRegion::hugeBytes(bytes);
}

size_t paddedDim(const TableShape& shape) {
  return (size_t{shape.dim} + ROW_LANES - 1) / ROW_LANES * ROW_LANES;
}

/** A key that sorts non-negative values in descending order and names the row. */
uint64_t descendingKey(float value, uint32_t local) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint64_t>(~bits) << 32 | local;
}

/** How many rows ahead to fetch while rows are measured: processors do not predict sorted order. */
constexpr uint32_t ROWS_AHEAD = 6;
/** Values to fetch of each such row; the processor itself prefetches the rest of a longer row. */
constexpr uint32_t VALUES_AHEAD = 256;

void prefetchRow(const float* row, uint32_t dim) {
  constexpr uint32_t LINE_VALUES = 64 / sizeof(float);
  const uint32_t end = std::min(dim, VALUES_AHEAD);
  for (uint32_t j = 0; j < end; j += LINE_VALUES) __builtin_prefetch(row + j);
}

}  // namespace

size_t Table::occupiedBytes(const TableShape& shape) {
  const size_t rowBytes = size_t{shape.rows} * shape.dim * sizeof(float);
  size_t bytes = MemoryRegion::occupiedBytes(rowBytes);
  if (!shape.isSearched) return bytes;
  bytes += MemoryRegion::occupiedBytes(codeBytes(shape));
  bytes += MemoryRegion::occupiedBytes(size_t{shape.rows} * sizeof(uint32_t));
  const size_t blocks = (size_t{shape.rows} + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const size_t units = (size_t{shape.rows} + UNIT_ROWS - 1) / UNIT_ROWS;
  return bytes + blocks * sizeof(BlockBounds) + (units + shape.dim + paddedDim(shape)) * sizeof(double);
}

size_t Table::buildBytes(const TableShape& shape) {
  return shape.isSearched ? 2 * size_t{shape.rows} * sizeof(uint64_t) : 0;
}

Table::Table(const TableShape& shape)
    : shape_(shape), rows_(size_t{shape.rows} * shape.dim * sizeof(float)) {
  if (!shape.isSearched) return;
  codes_ = MemoryRegion(codeBytes(shape));
  order_ = MemoryRegion(size_t{shape.rows} * sizeof(uint32_t));
}

size_t Table::append(const float* values, size_t count) {
  return fill(claim(count), values, count);
}

size_t Table::claim(size_t count) {
  const size_t position = taken_;
  taken_ += count;
  return position;
}

size_t Table::fill(size_t position, const float* values, size_t count) {
  float* target = rows_.as<float>() + position;
  constexpr size_t STEP = 4096;
  for (size_t start = 0; start < count; start += STEP) {
    const size_t end = std::min(start + STEP, count);
    const size_t finite = firstNotFinite(values + start, end - start);
    if (finite < end - start) return start + finite;
    std::memcpy(target + start, values + start, (end - start) * sizeof(float));
  }
  return count;
}

void Table::build() { build(*rowCoders().front()); }

void Table::build(const RowCoder& coder) {
  if (!shape_.isSearched) return;
  std::vector<uint64_t> keys(shape_.rows);
  std::vector<uint64_t> scratch(shape_.rows);
  measureRows(coder, keys.data());
  sortKeys(keys.data(), scratch.data(), keys.size());
  bounds_.resize(blocks());
  unitNorms_.resize(units());
  for (uint32_t unit = 0; unit < units(); ++unit) {
    buildUnit(coder, unit, keys.data() + size_t{unit} * UNIT_ROWS, scratch.data());
  }
  // Norms that differ by less than a float can are in row order: make the sequence monotone.
  for (uint32_t unit = units(); unit-- > 1;) {
    unitNorms_[unit - 1] = std::max(unitNorms_[unit - 1], unitNorms_[unit]);
  }
}

void Table::measureRows(const RowCoder& coder, uint64_t* keys) {
  std::vector<double> squares(paddedDim(shape_), 0.0);
  for (uint32_t local = 0; local < shape_.rows; ++local) {
    const double sum = coder.addSquares(row(local), shape_.dim, squares.data());
    keys[local] = descendingKey(static_cast<float>(std::sqrt(sum)), local);
  }
  dimScales_.resize(shape_.dim);
  inverseDimScales_.resize(paddedDim(shape_));
  for (uint32_t j = 0; j < shape_.dim; ++j) {
    const double mean = squares[j] / shape_.rows;
    dimScales_[j] = mean > 0 ? std::exp2(std::round(0.5 * std::log2(mean))) : 1;
    inverseDimScales_[j] = 1 / dimScales_[j];
  }
}

void Table::buildUnit(const RowCoder& coder, uint32_t unit, uint64_t* keys, uint64_t* scratch) {
  const uint32_t start = unit * UNIT_ROWS;
  const uint32_t count = std::min(UNIT_ROWS, shape_.rows - start);
  double squares = 0;
  for (uint32_t at = 0; at < count; ++at) {
    if (at + ROWS_AHEAD < count) {
      prefetchRow(row(static_cast<uint32_t>(keys[at + ROWS_AHEAD])), shape_.dim);
    }
    const uint32_t local = static_cast<uint32_t>(keys[at]);
    const RowMeasure found = coder.measure(row(local), shape_.dim, inverseDimScales_.data());
    squares = std::max(squares, found.squares);
    keys[at] = descendingKey(static_cast<float>(found.peak), local);
  }
  unitNorms_[unit] = std::sqrt(squares) * ROUND_UP;
  sortKeys(keys, scratch, count);
  uint32_t* order = order_.as<uint32_t>() + start;
  for (uint32_t at = 0; at < count; ++at) order[at] = static_cast<uint32_t>(keys[at]);
  // The unit's rows were just measured, so that they are in a cache of the processor.
  for (uint32_t at = 0; at < count; at += BLOCK_ROWS) encodeBlock(coder, (start + at) / BLOCK_ROWS);
}

void Table::encodeBlock(const RowCoder& coder, uint32_t block) {
  const uint32_t start = block * BLOCK_ROWS;
  const uint32_t count = std::min(BLOCK_ROWS, shape_.rows - start);
  const size_t bytes = size_t{groups()} * 4 * BLOCK_ROWS;
  uint8_t* codes = codes_.as<uint8_t>() + block * bytes;
  if (count < BLOCK_ROWS) std::memset(codes, 128, bytes);
  bounds_[block] = coder.encode(
      {rows(), order() + start, count, shape_.dim, inverseDimScales_.data(), codes});
}

}  // namespace winnow
