// The proof behind the filter. For a scaled row x coded as y = s·(u − 127.5) and a scaled query q
// coded as p = t·i (integers u, i), with A = s·t·(Σ u·i − 127.5·Σ i) = ⟨y, p⟩:
//
//   |⟨x, q⟩ − A| = |⟨x − y, q⟩ + ⟨y, q − p⟩| ≤ |x − y|·|q| + |y|·|q − p|        (Cauchy–Schwarz)
//
// The rest is rounding. With size = (|q| + |q − p|)·(|x| + |x − y|), which no score and no A exceeds:
//
//   - The canonical score c rounds ⟨x, q⟩ to float32: at most 2^-24·size, and 2^-150 if subnormal.
//   - What is computed in float64 (the sum of c, norms, errors, A, E, limits) is wrong by less than
//     2^-30·size altogether: no step sums more than dim ≤ 2^15 values, and 2^15·2^-53 = 2^-38.
//
// RELATIVE_SLACK covers both 15 times over, ABSOLUTE_SLACK the subnormals 14 times. Hence, with E the
// sum of all, A − E ≤ c ≤ A + E. Nothing else needs slack:
//
//   - The sum of Cauchy–Schwarz does not exceed size either, as |y| ≤ |x| + |x − y|.
//
//   - A − E and A + E are rounded to float32. Rounding keeps order and c is a float32, so that
//     float32(A − E) ≤ c ≤ float32(A + E).
//   - A limit may be rounded up to the next integer, as sums of products are integers; it is rounded
//     down. Its own error in float64 is below 2^-20, and size ≥ s·t·31, so that what RELATIVE_SLACK
//     has to spare is worth 2^-16 and more.

#pragma once

#include "kernels/kernel.h"

namespace winnow {

/** Relative to `size` above. Less than 2^-24 = 5.97e-8 would lose rows. */
constexpr double RELATIVE_SLACK = 1e-6;
/** Less than 2^-150 = 7.0e-46 would lose rows of subnormal scores. */
constexpr double ABSOLUTE_SLACK = 1e-44;
/** For |q|·|x|, which the canonical score exceeds by its rounding. */
constexpr double NORM_SLACK = 1 + RELATIVE_SLACK;
/** No sum of products leaves ±LIMIT_MAX (dim ≤ 32768), and margins stay within 32 bits. */
constexpr double LIMIT_MAX = 1.07e9;

/** E of one block and one query. */
inline double boundError(const BlockBounds& block, double norm, double error,
                         const BoundWeights& weights) {
  const double coding =
      weights.rowError * block.rowError * norm + weights.queryError * block.codeNorm * error;
  const double size = (norm + error) * (block.rowNorm + block.rowError);
  return coding + size * RELATIVE_SLACK + ABSOLUTE_SLACK;
}

/** `computeLimits` for one query: floor((threshold − E) / (s·t) + offset). */
inline int32_t boundLimit(const BlockBounds& block, const QueryLanes& lanes, uint32_t i,
                          const BoundWeights& weights, double inverseBlockScale) {
  const double error = boundError(block, lanes.norm[i], lanes.error[i], weights);
  double limit = (lanes.threshold[i] - error) * (lanes.inverseScale[i] * inverseBlockScale);
  limit += lanes.offset[i];
  limit = limit < -LIMIT_MAX ? -LIMIT_MAX : limit;
  limit = limit > LIMIT_MAX ? LIMIT_MAX : limit;
  const int32_t truncated = static_cast<int32_t>(limit);
  return truncated - (truncated > limit ? 1 : 0);
}

/** What no canonical score of a query and a row with these norms exceeds. */
inline double scoreReach(double queryNorm, double rowNorm) {
  return queryNorm * rowNorm * NORM_SLACK + ABSOLUTE_SLACK;
}

struct ScoreRange {
  float lower;
  float upper;
};

/** Where a canonical score lies, given A and E. */
inline ScoreRange scoreRange(double middle, double error) {
  return {static_cast<float>(middle - error), static_cast<float>(middle + error)};
}

}  // namespace winnow
