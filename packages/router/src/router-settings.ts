// Every limit and time of a router, in one place. Options (all optional: `RouterOptions`) come in, settings
// (all present: `RouterSettings`) go out.

import { fittingMemory, memoryLimitBytes } from "@winnow/core";
import { DEFAULT_REQUEST_LIMITS } from "./limits/request-limits.ts";
import type { RequestLimits } from "./limits/request-limits.ts";

/** Label → version, by model. */
export type VersionLabels = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** What an operator may set. Each field is described in `RouterSettings`. */
export type RouterOptions = Partial<RouterSettings>;

/** Limits and times of one router. Names end in their unit; bounds end in `Max`. */
export interface RouterSettings extends RequestLimits {
  /** Name in hellos and logs. Default `router`. */
  readonly routerId: string;
  /** Replicas that each partition should have before its version becomes the default. Default 2. */
  readonly replication: number;
  /** The same for single models with another number, by name. Default none. */
  readonly modelReplication: ReadonlyMap<string, number> | undefined;
  /**
   * Replicas that are enough for a version to become the default, as workers give up others of both versions for it.
   * Default none: all of them.
   */
  readonly swapReplicas: number | undefined;
  /** Labels at the start, label → version by model; `setLabels` replaces them. Default none. */
  readonly labels: VersionLabels;
  /** Default false. Whether a new label may be set to a version that is not available. */
  readonly allowUnavailableLabels: boolean;

  /** Default 500 ms. Shorter leaves a silent worker sooner; longer asks twice less often. */
  readonly attemptTimeoutMs: number;
  /**
   * Default 5000 ms, and at most half of the remaining time. How long a worker that reports progress may take
   * until a second one is asked: it is busy, and most likely the others are too.
   */
  readonly busyTimeoutMs: number;
  /** Default true. Whether a second replica is asked when the first is slower than its peers ever are. */
  readonly hedge: boolean;
  /** Default 2 ms. Lower also hedges ordinary jitter. */
  readonly hedgeDelayMinMs: number;
  /**
   * Default 50 ms. Higher lets a slow worker cost more before another one is asked. If one answer in twenty
   * takes more than a fifth of this, the workers are busy, and hedges wait longer than this.
   */
  readonly hedgeDelayMaxMs: number;
  /** Default 0.1. Second attempts per first attempt over 10 s; more amplifies an overload. */
  readonly secondAttemptRatio: number;
  /** Default 10. Second attempts per second allowed whatever the traffic. */
  readonly secondAttemptsPerSecond: number;
  /** Default 5 ms. Changes within this time share one new routing table; longer makes fewer tables. */
  readonly tableDelayMs: number;
  /** Default 4. How often a whole query is planned again before it fails. */
  readonly replansMax: number;
  /**
   * Default 4. A request fails once the connections of this many workers broke under it, because the request
   * may be what ends them. Higher survives more crashes at the same time; a request that crashes workers
   * takes as many of them along.
   */
  readonly lostWorkersMax: number;
  /** Default 250 ms. How long a query whose last replica was lost waits for a new table. */
  readonly replanWaitMs: number;

  /** Default 100 ms. Shorter notices a silent worker sooner and costs frames. */
  readonly pingIntervalMs: number;
  /** Default 500 ms. The same for a worker that answers and that nobody asks. */
  readonly idlePingIntervalMs: number;
  /**
   * Default 1500 ms. The interval doubles up to this while the worker stays at rest. Higher notices later
   * that a worker has fallen silent before anybody asks it; above 2000 ms, members of a fixed list are pinged
   * in addition.
   */
  readonly idlePingIntervalMsMax: number;
  /**
   * Default 3; up to three times as many while the others answer late. Unanswered pings until a worker is asked only
   * when nobody else can answer.
   */
  readonly suspectAfterMisses: number;
  /** Default 20. Unanswered pings until the stream is closed and opened again. */
  readonly closeAfterMisses: number;
  /** Default 1000 ms. How long a worker stays suspect after it has answered again. */
  readonly suspectMs: number;
  /** Default 20 ms. A timer that fires later than this shows that this process was slow, not the peer. */
  readonly ownLagMs: number;
  /** Default 5. Failures in a row until a worker is ejected. */
  readonly ejectAfterFailures: number;
  /** Default 1000 ms, times the number of ejections in a row. */
  readonly ejectMs: number;
  /** Default 30 000 ms. The longest ejection. */
  readonly ejectMsMax: number;
  /** Default 1000 ms. How long a new stream may take until the worker's first announcement. */
  readonly helloTimeoutMs: number;
  /** Default 100 ms. First wait before a lost worker is connected to again; it doubles each time. */
  readonly reconnectDelayMs: number;
  /** Default 300 ms. The longest such wait; shorter finds a restarted worker sooner. */
  readonly reconnectDelayMsMax: number;
  /**
   * Default 4096. Workers known by name. Beyond this number, workers that were never met give way to each
   * other. Each name of a worker that does not exist costs an attempt to connect now and then.
   */
  readonly workersMax: number;
  /**
   * Default 40. Attempts per second to connect to workers that were never met, after a first burst of
   * `callsMax`. Higher finds the real ones sooner among many that do not exist; each attempt costs a
   * connection and 1 ms of this process.
   */
  readonly callsPerSecond: number;
  /** Default 256. Workers never met that are connected to at once after a pause, as at the start. */
  readonly callsMax: number;
  /** Default 2000 ms. The longest wait between two attempts at an address where no worker was met. */
  readonly callDelayMsMax: number;
  /** Default 2000 ms. Wait between a change of the workers' addresses and its writing to the state file. */
  readonly saveDelayMs: number;
  /**
   * Default 10 000 ms. How long a worker that does not answer is still looked for if other workers name it
   * but a healthy store does not. Longer than stores and workers take to agree.
   */
  readonly unstoredMs: number;
  /**
   * Default 10 000 ms. After this long without an answer, a worker may be followed by the older process that
   * it had replaced. Longer than any worker is silent and then comes back.
   */
  readonly successorGoneMs: number;
  /**
   * Default 1000 ms. How often the models order is sent to a worker that follows another one. A worker that
   * fails is told again after twice the wait each time, up to 10 s.
   */
  readonly orderPassMs: number;
  /** Default 5000 ms. Time for one worker's answer to an order; longer waits longer for one that hangs. */
  readonly orderTimeoutMs: number;
  /**
   * Default 8192. Queries under way on one stream; more are sent to another replica or refused. Enough for
   * `inFlightRequestsMax` and for the questions that are asked again when a worker dies; each takes about 1
   * KiB.
   */
  readonly linkQueriesMax: number;
  /** Default 8 MiB. Bytes of queries that wait for a stream that takes no more; more are sent elsewhere or refused. */
  readonly linkBytesMax: number;

  /**
   * Default 2. Threads that run operations on long texts, such as those of TextVectorization, or many numbers. More finish
   * several such requests sooner and take processors from others.
   */
  readonly textThreadsMax: number;
  /** Default 256. Requests whose operations wait for a thread; more are refused (503). */
  readonly textQueueMax: number;

  /** Default 2048. Requests under way; more are refused at once (503). */
  readonly inFlightRequestsMax: number;
  /**
   * Default 65 536. Query vectors of all admitted requests; more are refused at once (503). Small requests do
   * not count here but in `inFlightRequestsMax`. Costs the memory of the vectors.
   */
  readonly waitingRowsMax: number;
  /**
   * Default 3 355 442, two answers of the largest size, at most one for each 1280 bytes of memory. Candidates
   * of all requests until their answers are written; more are refused at once (503), but for requests of up to
   * 4096. Each takes up to 170 bytes.
   */
  readonly heldCandidatesMax: number;
  /**
   * Default 0.5. A request is refused at once (503) if, at the pace of the last seconds, more than this
   * fraction of its time would pass before it begins. Higher keeps requests that may be answered too late.
   */
  readonly waitShareMax: number;
  /**
   * Default 1024. Query vectors that the workers are asked for at a time; the others wait here. Higher keeps
   * workers busy while this process is not; lower lets small requests pass large ones sooner. At most the
   * workers' `queueRowsMax` divided by the number of routers, otherwise they refuse.
   */
  readonly searchRowsMax: number;
  /**
   * Default 256 KiB. A question that excludes more bytes of ids, or looks up a longer key, is sent to no
   * second worker while the first may still answer: no hedge, and no retry when it is late or failed. Only
   * after its connection broke it is asked again (`lostWorkersMax`).
   */
  readonly resendBytesMax: number;
  /** Default 65 536. Candidates (queries × k) of one slice; a larger request is cut. */
  readonly sliceCandidatesMax: number;
  /**
   * Default 256. Query vectors of one slice, and so of one scan. Higher makes each cheaper; lower lets other
   * requests run in between; fewer travel together beside small requests where scans take long
   * (`slice-sizes.ts`). At most the workers' `queryRowsMax`, otherwise they refuse.
   */
  readonly sliceQueriesMax: number;
  /** Default 65 536. Keys of one slice. At most the workers' `lookupKeysMax`, otherwise they refuse. */
  readonly sliceKeysMax: number;
  /** Default 1 MiB. Bytes of query vectors or keys of one slice; a larger request is cut. */
  readonly sliceBytesMax: number;
  /** Default 8. Slices of one request under way or waiting for the limiter. */
  readonly slicesAtOnce: number;

  /** Default 4. Shadow requests of experiments under way at a time; more load the workers more. */
  readonly shadowsMax: number;
  /** Default 32. Shadow requests that wait; further ones are dropped. */
  readonly shadowsWaitingMax: number;
  /** Default 16 MiB. Bytes of the inputs and answers that they hold; further ones are dropped. */
  readonly shadowBytesMax: number;

  /** Default 4 MiB. Keyed tables up to this size are looked up in this process; 0: none are. */
  readonly routerTableBytesMax: number;
  /** Default 30 000 ms. How long a worker may take to send a program. */
  readonly programTimeoutMs: number;
  /** Default 1000 ms. Wait before the next attempt to fetch a program that could not be fetched. */
  readonly programRetryMs: number;
  /**
   * Default 10 000 ms. How long warm-up requests may delay the moment at which a version may be asked; 0:
   * they are not replayed. Must be less than the time for which workers keep the version before it (20 s).
   */
  readonly warmUpMsMax: number;
  /** Default 60 000 ms. How long a program is kept after the last worker stopped announcing it. */
  readonly programKeepMs: number;
}

const DEFAULTS: RouterSettings = {
  ...DEFAULT_REQUEST_LIMITS,
  routerId: "router",
  replication: 2,
  modelReplication: undefined,
  swapReplicas: undefined,
  labels: new Map(),
  allowUnavailableLabels: false,
  attemptTimeoutMs: 500,
  busyTimeoutMs: 5000,
  hedge: true,
  hedgeDelayMinMs: 2,
  hedgeDelayMaxMs: 50,
  secondAttemptRatio: 0.1,
  secondAttemptsPerSecond: 10,
  tableDelayMs: 5,
  replansMax: 4,
  lostWorkersMax: 4,
  replanWaitMs: 250,
  pingIntervalMs: 100,
  idlePingIntervalMs: 500,
  idlePingIntervalMsMax: 1500,
  suspectAfterMisses: 3,
  closeAfterMisses: 20,
  suspectMs: 1000,
  ownLagMs: 20,
  ejectAfterFailures: 5,
  ejectMs: 1000,
  ejectMsMax: 30_000,
  helloTimeoutMs: 1000,
  reconnectDelayMs: 100,
  reconnectDelayMsMax: 300,
  workersMax: 4096,
  callsPerSecond: 40,
  callsMax: 256,
  callDelayMsMax: 2000,
  saveDelayMs: 2000,
  unstoredMs: 10_000,
  successorGoneMs: 10_000,
  orderPassMs: 1000,
  orderTimeoutMs: 5000,
  linkQueriesMax: 8192,
  linkBytesMax: 8 * 2 ** 20,
  textThreadsMax: 2,
  textQueueMax: 256,
  inFlightRequestsMax: 2048,
  waitingRowsMax: 65_536,
  heldCandidatesMax: 3_355_442,
  waitShareMax: 0.5,
  searchRowsMax: 1024,
  resendBytesMax: 2 ** 18,
  sliceCandidatesMax: 65_536,
  sliceQueriesMax: 256,
  sliceKeysMax: 65_536,
  sliceBytesMax: 2 ** 20,
  slicesAtOnce: 8,
  shadowsMax: 4,
  shadowsWaitingMax: 32,
  shadowBytesMax: 16 * 2 ** 20,
  routerTableBytesMax: 4 * 2 ** 20,
  programTimeoutMs: 30_000,
  programRetryMs: 1000,
  warmUpMsMax: 10_000,
  programKeepMs: 60_000,
};

/** Fills in the defaults. @throws RangeError for a number that is negative or not finite */
export function resolveRouterOptions(
  options: RouterOptions = {},
  memoryBytes: number = memoryLimitBytes(),
): RouterSettings {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (typeof value === "number" && !(value >= 0 && Number.isFinite(value))) {
      throw new RangeError(`Setting ${name} is ${value}; it must be a finite number from 0`);
    }
  }
  return { ...DEFAULTS, ...fittingDefaults(memoryBytes), ...Object.fromEntries(given) };
}

/** What is lower by default where there is less memory than 4 GiB, or than 1 or 2 GiB for one request. */
function fittingDefaults(memoryBytes: number): Partial<RouterSettings> {
  const { candidatesMax, heldCandidatesMax, jsonValuesMax, answerBytesMax } = DEFAULTS;
  return {
    candidatesMax: fittingMemory(candidatesMax, 1 / 640, memoryBytes),
    heldCandidatesMax: fittingMemory(heldCandidatesMax, 1 / 1280, memoryBytes),
    jsonValuesMax: fittingMemory(jsonValuesMax, 1 / 256, memoryBytes),
    answerBytesMax: fittingMemory(answerBytesMax, 1 / 8, memoryBytes),
  };
}
