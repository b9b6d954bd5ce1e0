// The knee of a ramp: the highest load that a server still handles without failed answers and without
// latencies that grow out of proportion.

/** One step of a ramp. */
export interface RampStep {
  /** Requests per second that were to be sent. */
  readonly offered: number;
  /** Requests per second that were answered. */
  readonly achieved: number;
  readonly p99Ms: number;
  /** Fraction of the requests that failed. */
  readonly failedFraction: number;
}

/** Conditions that a step below the knee fulfils. */
export interface KneeRules {
  /** Least fraction of the offered load that must be answered; default 0.95. */
  readonly achievedMin?: number;
  /** Highest p99, as a multiple of the lowest step's; default 4. */
  readonly latencyGrowthMax?: number;
  /** Highest p99 in ms, instead of the multiple. */
  readonly p99MsMax?: number | undefined;
}

/** Why a step is beyond the knee; `undefined` if it is not. */
export function beyondKnee(
  step: RampStep,
  first: RampStep,
  { achievedMin = 0.95, latencyGrowthMax = 4, p99MsMax }: KneeRules = {},
): string | undefined {
  if (step.failedFraction > 0.001)
    return `${percentText(step.failedFraction)} of the requests failed`;
  if (step.achieved < achievedMin * step.offered) {
    return `${percentText(step.achieved / step.offered)} of the rate was reached`;
  }
  const allowedMs = p99MsMax ?? first.p99Ms * latencyGrowthMax;
  if (step.p99Ms <= allowedMs) return undefined;
  return `p99 is ${step.p99Ms.toFixed(1)} ms, above ${allowedMs.toFixed(1)}`;
}

/** The last step before two successive steps beyond the knee, or before one at the end. Steps ascend by load. */
export function kneeOf(steps: readonly RampStep[], rules?: KneeRules): RampStep | undefined {
  let knee: RampStep | undefined;
  let beyond = 0;
  for (const step of steps) {
    if (beyondKnee(step, steps[0]!, rules) === undefined) {
      knee = step;
      beyond = 0;
      continue;
    }
    // A single bad step may be caused by something else on the machine.
    beyond += 1;
    if (beyond === 2) break;
  }
  return knee;
}

function percentText(fraction: number): string {
  return `${(100 * fraction).toFixed(1)} %`;
}
