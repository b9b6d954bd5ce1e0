// Codes a query symmetrically: signed codes with one scale for all dimensions.

#include "search/queries/query-code.h"

#include <algorithm>
#include <cmath>

namespace winnow {

namespace {

constexpr double ROUND_UP = 1 + 1e-9;
/** Dims whose codes a kernel may sum before it widens the sums: those of two groups, in two halves. */
constexpr uint32_t SUMMED_DIMS = 8;
/** By how much four codes, each rounded, exceed what they are rounded from. */
constexpr int SUM_ROUNDING = 2;

/** The finest scale at which each code, and each sum of codes, is as small as the kernel wants it. */
double finestScale(const Kernel& kernel, const double* query, const double* dimScales,
                   uint32_t dim) {
  double peak = 0, greatestSum = 0;
  for (uint32_t first = 0; first < dim; first += SUMMED_DIMS) {
    double sums[2][2] = {};
    for (uint32_t j = first; j < std::min(first + SUMMED_DIMS, dim); ++j) {
      const double value = query[j] * dimScales[j];
      peak = std::max(peak, std::fabs(value));
      sums[j % 4 / 2][value < 0 ? 1 : 0] += std::fabs(value);
    }
    for (const auto& half : sums) greatestSum = std::max({greatestSum, half[0], half[1]});
  }
  const double scale = peak / kernel.codeMax;
  if (kernel.codeSumMax == 0) return scale;
  return std::max(scale, greatestSum / (kernel.codeSumMax - SUM_ROUNDING));
}

}  // namespace

QueryCode encodeQuery(const Table& table, const Kernel& kernel, const double* query,
                      uint32_t* words) {
  const uint32_t dim = table.shape().dim;
  const double* dimScales = table.dimScales().data();
  QueryCode code{finestScale(kernel, query, dimScales, dim), 0, 0, 0, 0};
  code.inverseScale = 1 / code.scale;
  double norm = 0, error = 0;
  int32_t sum = 0;
  for (uint32_t group = 0; group < table.groups(); ++group) {
    uint32_t word = 0;
    for (uint32_t j = group * 4; j < std::min(group * 4 + 4, dim); ++j) {
      const double value = query[j] * dimScales[j];
      const double steps = value * code.inverseScale;
      int32_t rounded = static_cast<int32_t>(steps < 0 ? steps - 0.5 : steps + 0.5);
      rounded = std::min(std::max(rounded, -kernel.codeMax), kernel.codeMax);
      const double rest = value - code.scale * rounded;
      norm += value * value;
      error += rest * rest;
      sum += rounded;
      word |= (static_cast<uint32_t>(rounded) & 0xffu) << (8 * (j % 4));
    }
    words[group] = word;
  }
  code.norm = std::sqrt(norm) * ROUND_UP;
  code.error = std::sqrt(error) * ROUND_UP;
  code.offset = CODE_MIDDLE * sum;
  return code;
}

}  // namespace winnow
