// A query as the filter reads it. The code depends on the table: dimension j of the query is
// multiplied by the number that the table's dimension j was divided by, so that products stay the
// same.

#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace winnow {

struct QueryCode {
  double scale;
  /** 1 / scale. */
  double inverseScale;
  /** |q| of the scaled query, and |q − what its codes stand for|; both rounded up. */
  double norm;
  double error;
  /** CODE_MIDDLE · Σ codes. */
  double offset;
};

/**
 * Codes a finite query that is not zero. `query`: float64 [dim]; `words`: out, one word of four codes
 * per group of dims.
 */
QueryCode encodeQuery(const Table& table, const Kernel& kernel, const double* query,
                      uint32_t* words);

}  // namespace winnow
