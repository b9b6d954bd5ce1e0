// The proof behind the filter. For a scaled row x coded as y = s·(u − 127.5) and a scaled query q
// coded as p = t·i (integers u, i), with A = s·t·(Σ u·i − 127.5·Σ i) = ⟨y, p⟩:
//
//   |⟨x, q⟩ − A| = |⟨x − y, q⟩ + ⟨y, q − p⟩| ≤ |x − y|·|q| + |y|·|q − p|        (Cauchy–Schwarz)
//
// To this comes slack for float64 arithmetic, for the rounding of scores to float32 on either side
// of a comparison, and for subnormal scores. With E the sum, A − E ≤ canonical score ≤ A + E.

#pragma once

#include "kernel.h"

namespace winnow {

/** Relative slack: some 16 times the half unit in the last place of a float32. */
constexpr double RELATIVE_SLACK = 1e-6;
/** Absolute slack: some units of the smallest subnormal float32. */
constexpr double ABSOLUTE_SLACK = 1e-44;
/** No sum of products leaves ±LIMIT_MAX (dim ≤ 32768), and margins stay within 32 bits. */
constexpr double LIMIT_MAX = 1.07e9;

/** E of one block and one query. */
inline double boundError(const BlockBounds& block, double norm, double error,
                         const BoundWeights& weights) {
  const double coding =
      weights.rowError * block.rowError * norm + weights.queryError * block.codeNorm * error;
  const double size = (norm + error) * (block.rowNorm + block.rowError);
  return coding * (1 + RELATIVE_SLACK) + size * RELATIVE_SLACK + ABSOLUTE_SLACK;
}

/** `computeLimits` for one query: floor((threshold − E) / (s·t) + offset), less one for rounding. */
inline int32_t boundLimit(const BlockBounds& block, const QueryLanes& lanes, uint32_t i,
                          const BoundWeights& weights, double inverseBlockScale) {
  const double error = boundError(block, lanes.norm[i], lanes.error[i], weights);
  double limit = (lanes.threshold[i] - error) * (lanes.inverseScale[i] * inverseBlockScale);
  limit += lanes.offset[i] - 1;
  limit = limit < -LIMIT_MAX ? -LIMIT_MAX : limit;
  limit = limit > LIMIT_MAX ? LIMIT_MAX : limit;
  const int32_t truncated = static_cast<int32_t>(limit);
  return truncated - (truncated > limit ? 1 : 0);
}

}  // namespace winnow
