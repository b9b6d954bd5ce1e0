// The loops of building a table, compiled for AVX-512: eight float64 lanes are one register.

#define WINNOW_LOOPS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")))
#define WINNOW_WIDTH 8

#if defined(__x86_64__)

#include "table/row-coder-loops.h"

namespace winnow {

const RowCoder AVX512_ROW_CODER = {"avx512", addSquares, measure, encode};

}  // namespace winnow

#endif
