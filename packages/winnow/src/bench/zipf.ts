// Ranks with the distribution of popularity: rank r is drawn about r^-s times as often as the first. By
// rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
// discrete distributions", 1996), so that ten million keys need no table.

import type { Random } from "../questions/seeded-random.ts";

/** Draws ranks from 0 to `count` − 1. `exponent` 0: all equally often; 1: like the words of a language. */
export function zipfRanks(count: number, exponent: number): (random: Random) => number {
  if (exponent === 0) return (random) => Math.floor(random() * count);
  const integral = (x: number): number => {
    const log = Math.log(x);
    return expRatio((1 - exponent) * log) * log;
  };
  const inverse = (y: number): number => {
    const scaled = Math.max(-1, y * (1 - exponent));
    return Math.exp(logRatio(scaled) * y);
  };
  const density = (x: number): number => Math.exp(-exponent * Math.log(x));
  const first = integral(1.5) - 1;
  const last = integral(count + 0.5);
  const shift = 2 - inverse(integral(2.5) - density(2));
  return (random) => {
    for (;;) {
      const y = last + random() * (first - last);
      const x = inverse(y);
      const rank = Math.min(count, Math.max(1, Math.round(x)));
      if (rank - x <= shift || y >= integral(rank + 0.5) - density(rank)) return rank - 1;
    }
  };
}

/** (eˣ − 1) / x. */
function expRatio(x: number): number {
  return Math.abs(x) > 1e-8 ? Math.expm1(x) / x : 1 + x / 2;
}

/** ln(1 + x) / x. */
function logRatio(x: number): number {
  return Math.abs(x) > 1e-8 ? Math.log1p(x) / x : 1 - x / 2;
}
