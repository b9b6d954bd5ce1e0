// The loops of a RowCoder, to be compiled for one instruction set: who includes this file defines
// WINNOW_LOOPS, the attribute that names the set, and WINNOW_WIDTH, the float64 lanes of its registers.
// Eight lanes whatever the set, so that sums are added in one order.
//
// A product that is added to something is exact wherever a code depends on it, so that it makes no
// difference whether a compiler fuses the two.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "table/row-coder.h"

namespace winnow {

namespace {

/** Lanes of one register, and registers of eight lanes. */
constexpr uint32_t WIDTH = WINNOW_WIDTH;
constexpr uint32_t PARTS = ROW_LANES / WIDTH;

using Doubles = double __attribute__((vector_size(WIDTH * sizeof(double))));
using Words = int64_t __attribute__((vector_size(WIDTH * sizeof(int64_t))));
using Floats = float __attribute__((vector_size(WIDTH * sizeof(float))));
using Integers = int32_t __attribute__((vector_size(WIDTH * sizeof(int32_t))));
using Bytes = uint8_t __attribute__((vector_size(WIDTH)));

struct Lanes {
  Doubles part[PARTS] = {};
};

/** Which lanes of a row's last values there are: 1 or 0, from 8 − count on. */
constexpr double PRESENT[2 * ROW_LANES] = {1, 1, 1, 1, 1, 1, 1, 1};

/** The values of a row from `j` on, widened; 0 where it has no more. */
struct RowValues {
  const float* values;
  float rest[ROW_LANES] = {};

  WINNOW_LOOPS RowValues(const float* row, uint32_t j, uint32_t dim) : values(row + j) {
    if (dim - j >= ROW_LANES) return;
    for (uint32_t lane = 0; lane < dim - j; ++lane) rest[lane] = values[lane];
    values = rest;
  }
};

WINNOW_LOOPS inline void load(Doubles& target, const float* values) {
  Floats floats;
  std::memcpy(&floats, values, sizeof floats);
  target = __builtin_convertvector(floats, Doubles);
}

WINNOW_LOOPS inline void load(Doubles& target, const double* values) {
  std::memcpy(&target, values, sizeof target);
}

WINNOW_LOOPS inline double sumOf(const Lanes& lanes) {
  double v[ROW_LANES];
  std::memcpy(v, lanes.part, sizeof v);
  return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

WINNOW_LOOPS inline double greatestOf(const Lanes& lanes) {
  double v[ROW_LANES];
  std::memcpy(v, lanes.part, sizeof v);
  return *std::max_element(v, v + ROW_LANES);
}

WINNOW_LOOPS inline void addSquaresStep(Lanes& sums, const float* values, double* dimSquares) {
#pragma GCC unroll 4
  for (uint32_t p = 0; p < PARTS; ++p) {
    Doubles plain, dims;
    load(plain, values + p * WIDTH);
    load(dims, dimSquares + p * WIDTH);
    sums.part[p] += plain * plain;
    dims += plain * plain;
    std::memcpy(dimSquares + p * WIDTH, &dims, sizeof dims);
  }
}

WINNOW_LOOPS double addSquares(const float* row, uint32_t dim, double* dimSquares) {
  Lanes sums;
  uint32_t j = 0;
  for (; j + ROW_LANES <= dim; j += ROW_LANES) addSquaresStep(sums, row + j, dimSquares + j);
  if (j < dim) addSquaresStep(sums, RowValues(row, j, dim).values, dimSquares + j);
  return sumOf(sums);
}

WINNOW_LOOPS inline void measureStep(Lanes& sums, Lanes& peaks, const float* values,
                                     const double* inverseDimScales) {
  const Words magnitude = Words{} + INT64_MAX;
#pragma GCC unroll 4
  for (uint32_t p = 0; p < PARTS; ++p) {
    Doubles plain, inverse;
    load(plain, values + p * WIDTH);
    load(inverse, inverseDimScales + p * WIDTH);
    sums.part[p] += plain * plain;
    const Doubles scaled = plain * inverse;
    const Doubles size = reinterpret_cast<Doubles>(reinterpret_cast<Words>(scaled) & magnitude);
    peaks.part[p] = size > peaks.part[p] ? size : peaks.part[p];
  }
}

WINNOW_LOOPS RowMeasure measure(const float* row, uint32_t dim, const double* inverseDimScales) {
  Lanes sums, peaks;
  uint32_t j = 0;
  for (; j + ROW_LANES <= dim; j += ROW_LANES) {
    measureStep(sums, peaks, row + j, inverseDimScales + j);
  }
  if (j < dim) measureStep(sums, peaks, RowValues(row, j, dim).values, inverseDimScales + j);
  return {sumOf(sums), greatestOf(peaks)};
}

/** What turns values into codes, and the sums of one row. */
struct RowSums {
  double scale;
  double inverse;
  Lanes errors;
  Lanes norms;
  Lanes codeNorms;
};

/** Where eight values come from and their codes go to. */
struct CodeStep {
  const float* values;
  const double* inverseDimScales;
  /** 1 where there is a value. */
  const double* present;
  uint8_t* codes;
  bool hasSecondGroup;
};

WINNOW_LOOPS inline void encodeStep(RowSums& sums, const CodeStep& step) {
  uint8_t packed[ROW_LANES];
#pragma GCC unroll 4
  for (uint32_t p = 0; p < PARTS; ++p) {
    Doubles plain, inverse, present;
    load(plain, step.values + p * WIDTH);
    load(inverse, step.inverseDimScales + p * WIDTH);
    load(present, step.present + p * WIDTH);
    const Doubles scaled = plain * inverse;
    // The sum is positive, so the conversion rounds down; and below 256.
    const Integers code = __builtin_convertvector(scaled * sums.inverse + 128.0, Integers);
    const Doubles middle = __builtin_convertvector(code, Doubles) - CODE_MIDDLE;
    const Doubles value = sums.scale * middle * present;
    const Doubles error = scaled - value;
    sums.errors.part[p] += error * error;
    sums.norms.part[p] += scaled * scaled;
    sums.codeNorms.part[p] += value * value;
    const Bytes bytes = __builtin_convertvector(code, Bytes);
    std::memcpy(packed + p * WIDTH, &bytes, WIDTH);
  }
  std::memcpy(step.codes, packed, 4);
  if (step.hasSecondGroup) std::memcpy(step.codes + 4 * BLOCK_ROWS, packed + 4, 4);
}

WINNOW_LOOPS inline void encodeRow(RowSums& sums, const CodeCall& call, uint32_t r) {
  const float* row = call.rows + size_t{call.order[r]} * call.dim;
  uint8_t* codes = call.codes + r * 4;
  const double* inverse = call.inverseDimScales;
  uint32_t j = 0;
  for (; j + ROW_LANES <= call.dim; j += ROW_LANES) {
    encodeStep(sums, {row + j, inverse + j, PRESENT, codes + size_t{j} * BLOCK_ROWS, true});
  }
  const uint32_t rest = call.dim - j;
  if (rest == 0) return;
  const RowValues last(row, j, call.dim);
  encodeStep(sums, {last.values, inverse + j, PRESENT + ROW_LANES - rest,
                    codes + size_t{j} * BLOCK_ROWS, rest > 4});
}

/** 1 / scale, a little less and of 24 bits: its product with a scaled float has no rounding. */
inline double shortInverse(double scale) {
  const double inverse = 1 / scale;
  uint64_t bits;
  std::memcpy(&bits, &inverse, sizeof bits);
  bits &= ~((uint64_t{1} << 29) - 1);
  double cut;
  std::memcpy(&cut, &bits, sizeof cut);
  return cut;
}

WINNOW_LOOPS BlockBounds encode(const CodeCall& call) {
  const uint32_t dim = call.dim;
  double peak = 0;
  for (uint32_t r = 0; r < call.count; ++r) {
    const float* row = call.rows + size_t{call.order[r]} * dim;
    peak = std::max(peak, measure(row, dim, call.inverseDimScales).peak);
  }
  const double scale = std::max(peak / CODE_MIDDLE, SMALLEST_SCALE);
  const double inverse = shortInverse(scale);
  double error = 0, norm = 0, codeNorm = 0;
  for (uint32_t r = 0; r < call.count; ++r) {
    RowSums sums{scale, inverse, {}, {}, {}};
    encodeRow(sums, call, r);
    error = std::max(error, sumOf(sums.errors));
    norm = std::max(norm, sumOf(sums.norms));
    codeNorm = std::max(codeNorm, sumOf(sums.codeNorms));
  }
  return {scale, std::sqrt(error) * ROUND_UP, std::sqrt(norm) * ROUND_UP,
          std::sqrt(codeNorm) * ROUND_UP};
}

}  // namespace

}  // namespace winnow
