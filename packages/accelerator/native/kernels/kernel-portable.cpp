// The inner loops in plain C++: for processors without a path of their own. The loops run over rows,
// so that compilers turn them into whatever vectors the processor has (NEON, SSE2, …).

#include "kernels/bound.h"
#include "kernels/kernel.h"

#if __FLT_EVAL_METHOD__ != 0
#error "float64 arithmetic must round each step, or scores differ from other machines'"
#endif

namespace winnow {

namespace {

void accumulate(const FilterCall& call, uint32_t query, int32_t* sums) {
  for (uint32_t r = 0; r < BLOCK_ROWS; ++r) sums[r] = -call.limits[query];
  for (uint32_t group = 0; group < call.groups; ++group) {
    const uint32_t word = call.words[group * call.queries + query];
    const int32_t first = static_cast<int8_t>(word);
    const int32_t second = static_cast<int8_t>(word >> 8);
    const int32_t third = static_cast<int8_t>(word >> 16);
    const int32_t fourth = static_cast<int8_t>(word >> 24);
    const uint8_t* codes = call.codes + size_t{group} * 4 * BLOCK_ROWS;
    for (uint32_t r = 0; r < BLOCK_ROWS; ++r) {
      sums[r] += codes[4 * r] * first + codes[4 * r + 1] * second + codes[4 * r + 2] * third +
                 codes[4 * r + 3] * fourth;
    }
  }
}

uint64_t filter(const FilterCall& call) {
  uint64_t found = 0;
  for (uint32_t query = 0; query < call.queries; ++query) {
    int32_t* sums = call.margins + size_t{query} * BLOCK_ROWS;
    accumulate(call, query, sums);
    uint64_t survivors = 0;
    for (uint32_t r = 0; r < BLOCK_ROWS; ++r) {
      survivors |= static_cast<uint64_t>(sums[r] >= 0 ? 1 : 0) << r;
    }
    call.survivors[query] = survivors;
    found |= static_cast<uint64_t>(survivors != 0 ? 1 : 0) << query;
  }
  return found;
}

void computeLimits(const BlockBounds& block, const QueryLanes& lanes, const BoundWeights& weights,
                   int32_t* limits) {
  const double inverse = 1 / block.scale;
  for (uint32_t i = 0; i < lanes.count; ++i) {
    limits[i] = boundLimit(block, lanes, i, weights, inverse);
  }
}

size_t countFrom(const float* values, size_t count, float least) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) found += values[i] >= least ? 1 : 0;
  return found;
}

float score(const double* query, const float* row, uint32_t dim) {
  double lanes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  const uint32_t whole = dim - dim % 8;
  for (uint32_t j = 0; j < whole; j += 8) {
    for (uint32_t lane = 0; lane < 8; ++lane) lanes[lane] += query[j + lane] * row[j + lane];
  }
  for (uint32_t lane = 0; whole + lane < dim; ++lane) {
    lanes[lane] += query[whole + lane] * row[whole + lane];
  }
  const double even = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double odd = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return static_cast<float>(even + odd) + 0.0f;
}

}  // namespace

const Kernel PORTABLE_KERNEL{"portable", 4, 127, filter, computeLimits, countFrom, score};

}  // namespace winnow
