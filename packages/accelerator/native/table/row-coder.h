// The loops over values of building a table. They exist once per instruction set; all sets give the
// same codes, the same order of rows and, up to rounding that is covered, the same bounds.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "table/table.h"

namespace winnow {

/** Values taken in one step. */
constexpr uint32_t ROW_LANES = 8;
/** Covers the rounding of a float64 sum of up to 2^15 squares and its root. */
constexpr double ROUND_UP = 1 + 1e-9;
/** Scale of a block that holds zeros only; any positive number serves. */
constexpr double SMALLEST_SCALE = 1e-60;

/** What rows of a block are coded from. */
struct CodeCall {
  const float* rows;
  /** Which rows: `count` of them, 1 to BLOCK_ROWS. */
  const uint32_t* order;
  uint32_t count;
  uint32_t dim;
  /** As many as `dim` rounded up to ROW_LANES. */
  const double* inverseDimScales;
  /** Out: [groups][64 rows][4 dims]; only those of the `count` rows are written. */
  uint8_t* codes;
};

struct RowMeasure {
  /** Σ x² of the row as it came. */
  double squares;
  /** max |x| of the scaled row. */
  double peak;
};

struct RowCoder {
  const char* name;
  /**
   * Σ x² of a row; each square is also added to its dimension's sum, of which there are `dim`
   * rounded up to ROW_LANES.
   */
  double (*addSquares)(const float* row, uint32_t dim, double* dimSquares);
  RowMeasure (*measure)(const float* row, uint32_t dim, const double* inverseDimScales);
  BlockBounds (*encode)(const CodeCall& call);
};

/** Those this processor runs, the fastest first. */
const std::vector<const RowCoder*>& rowCoders();

extern const RowCoder PORTABLE_ROW_CODER;
#if defined(__x86_64__)
extern const RowCoder AVX2_ROW_CODER;
extern const RowCoder AVX512_ROW_CODER;
#endif

}  // namespace winnow
