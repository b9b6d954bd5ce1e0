// The loops of building a table, compiled for any processor of the architecture, and the choice of
// the loops that this processor runs.

#define WINNOW_LOOPS
#define WINNOW_WIDTH 2

#include "table/row-coder-loops.h"

namespace winnow {

const RowCoder PORTABLE_ROW_CODER = {"portable", addSquares, measure, encode};

const std::vector<const RowCoder*>& rowCoders() {
  static const std::vector<const RowCoder*> found = [] {
    std::vector<const RowCoder*> all;
#if defined(__x86_64__)
    const bool hasAvx512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    const bool hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (hasAvx512) all.push_back(&AVX512_ROW_CODER);
    if (hasAvx2) all.push_back(&AVX2_ROW_CODER);
#endif
    all.push_back(&PORTABLE_ROW_CODER);
    return all;
  }();
  return found;
}

}  // namespace winnow
