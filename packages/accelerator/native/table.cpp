// Filling a table and turning it into codes. Every bound is computed from what was really stored, in
// float64, and rounded up, so no step before it has to be exact.

#include "table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace winnow {

namespace {

/** Covers the rounding of a float64 sum of up to 2^15 squares and its root. */
constexpr double ROUND_UP = 1 + 1e-9;
/** Scale of a block that holds zeros only; any positive number serves. */
constexpr double SMALLEST_SCALE = 1e-60;
/** A kernel may read 16 groups of dims at once, also where fewer are left, and multiply them by 0. */
constexpr size_t CODE_MARGIN_BYTES = 16 * 4 * BLOCK_ROWS;

size_t codeBytes(const TableShape& shape) {
  const size_t blocks = (size_t{shape.rows} + BLOCK_ROWS - 1) / BLOCK_ROWS;
  const size_t bytes = blocks * ((shape.dim + 3) / 4 * 4) * BLOCK_ROWS + CODE_MARGIN_BYTES;
  return MemoryRegion::hugeBytes(bytes);
}

/** |row| rounded up; in four sums, because one would wait for itself. */
double normOf(const float* row, uint32_t dim) {
  double sums[4] = {0, 0, 0, 0};
  uint32_t j = 0;
  for (; j + 4 <= dim; j += 4) {
    for (uint32_t lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<double>(row[j + lane]) * row[j + lane];
    }
  }
  for (; j < dim; ++j) sums[0] += static_cast<double>(row[j]) * row[j];
  return std::sqrt((sums[0] + sums[1]) + (sums[2] + sums[3])) * ROUND_UP;
}

/** A key that sorts non-negative values in descending order and equal ones by row. */
uint64_t descendingKey(float value, uint32_t local) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint64_t>(~bits) << 32 | local;
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
  return bytes + blocks * sizeof(BlockBounds) + (units + 2 * size_t{shape.dim}) * sizeof(double);
}

size_t Table::buildBytes(const TableShape& shape) {
  return shape.isSearched ? size_t{shape.rows} * sizeof(uint64_t) : 0;
}

Table::Table(const TableShape& shape)
    : shape_(shape), rows_(size_t{shape.rows} * shape.dim * sizeof(float)) {
  if (!shape.isSearched) return;
  codes_ = MemoryRegion(codeBytes(shape));
  order_ = MemoryRegion(size_t{shape.rows} * sizeof(uint32_t));
}

size_t Table::append(const float* values, size_t count) {
  float* target = rows_.as<float>() + taken_;
  constexpr size_t STEP = 4096;
  for (size_t start = 0; start < count; start += STEP) {
    const size_t end = std::min(start + STEP, count);
    uint32_t faults = 0;
    for (size_t i = start; i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, values + i, sizeof bits);
      faults |= (bits & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
    }
    if (faults != 0) {
      return static_cast<size_t>(
          std::find_if_not(values + start, values + end, [](float v) { return std::isfinite(v); }) -
          values);
    }
    std::memcpy(target + start, values + start, (end - start) * sizeof(float));
  }
  taken_ += count;
  return count;
}

void Table::build() {
  if (!shape_.isSearched) return;
  scaleDimensions();
  sortRows();
  bounds_.resize(blocks());
  std::vector<double> scratch(size_t{BLOCK_ROWS} * groups() * 4);
  for (uint32_t block = 0; block < blocks(); ++block) encodeBlock(block, scratch.data());
}

void Table::scaleDimensions() {
  std::vector<double> squares(shape_.dim, 0.0);
  for (uint32_t local = 0; local < shape_.rows; ++local) {
    const float* values = row(local);
    for (uint32_t j = 0; j < shape_.dim; ++j) {
      squares[j] += static_cast<double>(values[j]) * values[j];
    }
  }
  dimScales_.resize(shape_.dim);
  inverseDimScales_.resize(shape_.dim);
  for (uint32_t j = 0; j < shape_.dim; ++j) {
    const double mean = squares[j] / shape_.rows;
    dimScales_[j] = mean > 0 ? std::exp2(std::round(0.5 * std::log2(mean))) : 1;
    inverseDimScales_[j] = 1 / dimScales_[j];
  }
}

void Table::sortRows() {
  std::vector<uint64_t> keys(shape_.rows);
  for (uint32_t local = 0; local < shape_.rows; ++local) {
    keys[local] = descendingKey(static_cast<float>(normOf(row(local), shape_.dim)), local);
  }
  std::sort(keys.begin(), keys.end());
  uint32_t* order = order_.as<uint32_t>();
  unitNorms_.resize(units());
  for (uint32_t unit = 0; unit < units(); ++unit) {
    const uint32_t start = unit * UNIT_ROWS;
    const uint32_t end = std::min(start + UNIT_ROWS, shape_.rows);
    for (uint32_t at = start; at < end; ++at) {
      const uint32_t local = static_cast<uint32_t>(keys[at]);
      unitNorms_[unit] = std::max(unitNorms_[unit], normOf(row(local), shape_.dim));
      keys[at] = descendingKey(peakOf(local), local);
    }
    std::sort(keys.begin() + start, keys.begin() + end);
    for (uint32_t at = start; at < end; ++at) order[at] = static_cast<uint32_t>(keys[at]);
  }
  // Norms that differ by less than a float can are in row order: make the sequence monotone.
  for (uint32_t unit = units(); unit-- > 1;) {
    unitNorms_[unit - 1] = std::max(unitNorms_[unit - 1], unitNorms_[unit]);
  }
}

float Table::peakOf(uint32_t local) const {
  const float* values = row(local);
  double peak = 0;
  for (uint32_t j = 0; j < shape_.dim; ++j) {
    peak = std::max(peak, std::fabs(values[j] * inverseDimScales_[j]));
  }
  return static_cast<float>(peak);
}

void Table::encodeBlock(uint32_t block, double* scratch) {
  const uint32_t dim = shape_.dim;
  const uint32_t width = groups() * 4;
  const uint32_t start = block * BLOCK_ROWS;
  const uint32_t count = std::min(BLOCK_ROWS, shape_.rows - start);
  const uint32_t* order = this->order() + start;
  double peak = 0;
  for (uint32_t r = 0; r < count; ++r) {
    const float* values = row(order[r]);
    double* scaled = scratch + size_t{r} * width;
    for (uint32_t j = 0; j < dim; ++j) {
      scaled[j] = values[j] * inverseDimScales_[j];
      peak = std::max(peak, std::fabs(scaled[j]));
    }
  }
  BlockBounds bounds{std::max(peak / CODE_MIDDLE, SMALLEST_SCALE), 0, 0, 0};
  const double inverse = 1 / bounds.scale;
  uint8_t* codes = codes_.as<uint8_t>() + size_t{block} * width * BLOCK_ROWS;
  std::memset(codes, 128, size_t{width} * BLOCK_ROWS);
  for (uint32_t r = 0; r < count; ++r) {
    const double* scaled = scratch + size_t{r} * width;
    double error = 0, norm = 0, codeNorm = 0;
    for (uint32_t j = 0; j < dim; ++j) {
      // The sum is positive, so the conversion rounds down.
      const int code = std::min(255, static_cast<int>(scaled[j] * inverse + 128));
      const double value = bounds.scale * (code - CODE_MIDDLE);
      error += (scaled[j] - value) * (scaled[j] - value);
      norm += scaled[j] * scaled[j];
      codeNorm += value * value;
      codes[size_t{j / 4} * 4 * BLOCK_ROWS + r * 4 + j % 4] = static_cast<uint8_t>(code);
    }
    bounds.rowError = std::max(bounds.rowError, std::sqrt(error) * ROUND_UP);
    bounds.rowNorm = std::max(bounds.rowNorm, std::sqrt(norm) * ROUND_UP);
    bounds.codeNorm = std::max(bounds.codeNorm, std::sqrt(codeNorm) * ROUND_UP);
  }
  bounds_[block] = bounds;
}

}  // namespace winnow
