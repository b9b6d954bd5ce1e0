// What a seed determines: the size of the cluster, how much its clocks vary, the requests, and the list of
// faults. Swarm testing: each seed first draws which kinds of fault exist, so that some worlds have only one
// kind, but often.

import type { ClockUnkindness } from "./simulated-process.ts";
import type { ModelSize } from "./simulated-models.ts";
import { between, oneOf, seededRandom } from "./virtual-time.ts";
import type { Random } from "./virtual-time.ts";

/** Safety: anything may happen at once. Liveness: each partition keeps a healthy replica. */
export type Mode = "safety" | "liveness";

/** Faults of a worker; in liveness mode only one at a time. */
const WORKER_FAULTS = [
  "crash worker",
  "crash worker in a burst",
  "vanish worker",
  "pause worker",
  "drain worker",
  "drain two workers",
  "slow device",
  "wedge device",
  "fill device",
  "lose device",
  "set clock back",
  "spoil disk",
  "misread disk",
  "spoil assets",
  "cut link",
  "cut half a link",
  "slow link",
  "scale down",
] as const;

/** What takes no replica away. */
const OTHER_FAULTS = [
  "scale up",
  "stop store",
  "slow store",
  "flush store",
  "fail store over",
  "cut off from store",
  "publish version",
  "publish flawed version",
  "remove version",
  "mend version",
  "copy version",
  "replace version",
  "forge store records",
  "flood",
  "move label",
  "order models",
  "withdraw order",
  "drain router",
  "crash router",
  "pause router",
] as const;

/** Kinds of fault. */
export type FaultKind = (typeof WORKER_FAULTS)[number] | (typeof OTHER_FAULTS)[number];

/** Every kind of fault. */
export const FAULT_KINDS: readonly FaultKind[] = [...WORKER_FAULTS, ...OTHER_FAULTS];

/** One thing that goes wrong. */
export interface PlannedFault {
  readonly kind: FaultKind;
  readonly atMs: number;
  readonly durationMs: number;
  /** Chooses the victim, 0…1. */
  readonly victim: number;
  /** Chooses among variants, 0…1. */
  readonly variant: number;
}

/** One simulated world. */
export interface Scenario {
  readonly seed: number;
  readonly mode: Mode;
  readonly workers: number;
  readonly routers: number;
  readonly replication: number;
  /** Replicas of versions while one replaces another; `undefined`: all. */
  readonly swapReplicas: number | undefined;
  readonly membership: "redis" | "list";
  readonly size: ModelSize;
  readonly latencyMs: number;
  readonly clock: ClockUnkindness;
  readonly requestsPerSecond: number;
  /** Faults begin after `calmMs` and end after `faultsMs`. */
  readonly calmMs: number;
  readonly faultsMs: number;
  /** All faults are over: the time until which the cluster must have recovered. */
  readonly healedMs: number;
  readonly scanMs: number;
  readonly loadMs: number;
  readonly pollIntervalMs: number;
  readonly requestDeadlineMsMax: number;
  readonly versionsKept: number;
  readonly hedge: boolean;
  readonly inlineTables: boolean;
  readonly faults: readonly PlannedFault[];
}

const CALM_MS = 4000;
const HEALED_MS = 20_000;
const LONGEST_MS = 6000;

/** Whether a fault takes a replica away. */
export const harmsWorker = (kind: FaultKind): boolean =>
  (WORKER_FAULTS as readonly string[]).includes(kind);

/** The faults of a world, if the seed should not draw them. */
export interface FaultRange {
  /** Kinds of faults; absent: the seed draws them. */
  readonly kinds?: readonly FaultKind[] | undefined;
  /** How long a fault lasts at most, ms. */
  readonly longestMs?: number | undefined;
}

/** The world of a seed. */
export function scenarioOf(seed: number, mode: Mode, range: FaultRange = {}): Scenario {
  const random = seededRandom(seed, `scenario ${mode}`);
  const membership = random() < 0.6 ? "redis" : "list";
  const isSafety = mode === "safety";
  const faultsMs = between(random, 6000, 16_000);
  return {
    seed,
    mode,
    workers: 3 + Math.floor(random() * 3),
    routers: random() < 0.5 ? 1 : 2,
    ...replicationOf(seed, { mode, replication: isSafety ? 1 + Math.floor(random() * 3) : 2 }),
    membership,
    size: {
      users: 5 + Math.floor(random() * 20),
      items: 12 + Math.floor(random() * 40),
      dim: 1 + Math.floor(random() * 4),
      partitions: 1 + Math.floor(random() * 8),
    },
    latencyMs: oneOf(random, [0.3, 1, 5]),
    clock: {
      readingMs: oneOf(random, [0.002, 0.05, 0.5]),
      hiccupMs: oneOf(random, [0, 3, 30]),
      lateMs: oneOf(random, [0.2, 1, 10]),
    },
    requestsPerSecond: between(random, 3, 15),
    calmMs: CALM_MS,
    faultsMs,
    healedMs: HEALED_MS,
    scanMs: oneOf(random, [0.5, 2, 8]),
    loadMs: oneOf(random, [1, 10, 60]),
    pollIntervalMs: oneOf(random, [200, 1000]),
    // Versions are kept twice as long: longer than it takes to notice that a link is dead.
    requestDeadlineMsMax: oneOf(random, [2500, 4000]),
    versionsKept: random() < 0.8 ? 1 : 2,
    hedge: random() < 0.8,
    inlineTables: random() < 0.3,
    faults: drawFaults(random, { mode, membership, faultsMs, range }),
  };
}

/**
 * Whether swaps have fewer replicas is drawn apart, so that other worlds stay as they are. In liveness mode there are then
 * three replicas and two during swaps, as one worker may be harmed at any time.
 */
function replicationOf(
  seed: number,
  { mode, replication }: Pick<Scenario, "mode" | "replication">,
): Pick<Scenario, "replication" | "swapReplicas"> {
  const random = seededRandom(seed, `swap replicas ${mode}`);
  if (random() < 0.6) return { replication, swapReplicas: undefined };
  if (mode === "liveness") return { replication: 3, swapReplicas: 2 };
  return { replication, swapReplicas: 1 + Math.floor(random() * 2) };
}

function drawFaults(
  random: Random,
  about: Pick<Scenario, "mode" | "membership" | "faultsMs"> & {
    readonly range: FaultRange;
  },
): readonly PlannedFault[] {
  const isPossible = (kind: FaultKind): boolean => {
    if (about.membership === "list" && /store|scale|two/.test(kind)) return false;
    const isSafetyOnly = kind === "crash router" || kind === "flood";
    return about.mode === "safety" || !isSafetyOnly;
  };
  const { kinds: given, longestMs = LONGEST_MS } = about.range;
  const kinds = given?.filter(isPossible) ?? drawKinds(random, isPossible);
  const pauseMs = oneOf(random, [400, 1200, 3000]);
  const faults: PlannedFault[] = [];
  if (kinds.length === 0) return faults;
  for (let atMs = CALM_MS; atMs < CALM_MS + about.faultsMs;) {
    faults.push({
      kind: oneOf(random, kinds),
      atMs,
      durationMs: Math.exp(between(random, Math.log(30), Math.log(longestMs))),
      victim: random(),
      variant: random(),
    });
    atMs += -Math.log(1 - random()) * pauseMs;
  }
  return faults;
}

function drawKinds(random: Random, isPossible: (kind: FaultKind) => boolean): readonly FaultKind[] {
  const possible = FAULT_KINDS.filter(isPossible);
  const share = oneOf(random, [0.1, 0.25, 0.6]);
  const chosen = possible.filter(() => random() < share);
  return chosen.length > 0 ? chosen : [oneOf(random, possible)];
}
