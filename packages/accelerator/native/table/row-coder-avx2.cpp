// The loops of building a table, compiled for AVX2: eight float64 lanes are two registers.

#define WINNOW_LOOPS __attribute__((target("avx2,fma")))
#define WINNOW_WIDTH 4

#if defined(__x86_64__)

#include "table/row-coder-loops.h"

namespace winnow {

const RowCoder AVX2_ROW_CODER = {"avx2", addSquares, measure, encode};

}  // namespace winnow

#endif
