// Every limit and every wait of a router, in one place. Outside everything is optional
// (`RouterOptions`); inside everything is there (`RouterSettings`).

import { DEFAULT_REQUEST_LIMITS } from "./limits/request-limits.ts";
import type { RequestLimits } from "./limits/request-limits.ts";

/** Label → version, by model. */
export type VersionLabels = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** What an operator may set; each field is described at `RouterSettings`. */
export type RouterOptions = Partial<RouterSettings>;

/** Limits and times of one router. Names end in their unit; bounds end in `Max`. */
export interface RouterSettings extends RequestLimits {
  /** Name in hellos and logs. Default `router`. */
  readonly routerId: string;
  /** Replicas a partition should have before its version becomes the default. Default 2. */
  readonly replication: number;
  /** The same of single models that are to have more or fewer, by name. Default none. */
  readonly modelReplication: ReadonlyMap<string, number> | undefined;
  /** Labels at the start, label → version per model; `setLabels` replaces them. Default none. */
  readonly labels: VersionLabels;
  /** Default false. A new label may mean a version that is not available. */
  readonly allowUnavailableLabels: boolean;

  /** Default 500 ms. Shorter leaves a silent worker sooner; longer asks twice less often. */
  readonly attemptTimeoutMs: number;
  /**
   * Default 5000 ms, and half of the time there is. How long a worker that says it makes progress may
   * take until a second one is asked: it is busy, and most likely so are the others.
   */
  readonly busyTimeoutMs: number;
  /** Default true. A second replica is asked when the first is slower than its peers ever are. */
  readonly hedge: boolean;
  /** Default 2 ms. Lower hedges ordinary jitter. */
  readonly hedgeDelayMinMs: number;
  /**
   * Default 50 ms. Higher lets a slow worker cost more before it is helped. Where a fifth of this is exceeded
   * by one answer in twenty, the workers are busy, and hedges wait longer too.
   */
  readonly hedgeDelayMaxMs: number;
  /** Default 0.1. Second attempts per first attempt over 10 s; more amplifies an overload. */
  readonly secondAttemptRatio: number;
  /** Default 10. Second attempts per second allowed whatever the traffic. */
  readonly secondAttemptsPerSecond: number;
  /** Default 5 ms. Changes within this time make one new routing table; longer spares work. */
  readonly tableDelayMs: number;
  /** Default 4. How often a whole query is planned again before it fails. */
  readonly replansMax: number;
  /**
   * Default 4. A request under which the connections of so many workers broke fails: it may be what
   * ends them. More survives more crashes at once; a poisonous request takes as many workers along.
   */
  readonly lostWorkersMax: number;
  /** Default 250 ms. How long a query that lost its last replica waits for a new table. */
  readonly replanWaitMs: number;

  /** Default 100 ms. Shorter notices a silent worker sooner and costs frames. */
  readonly pingIntervalMs: number;
  /** Default 500 ms. The same for a worker that is not in doubt and that nobody asks anything. */
  readonly idlePingIntervalMs: number;
  /**
   * Default 1500 ms. It doubles up to here while the worker stays at rest. More notices a worker later that
   * falls silent before anybody asks it; beyond 2000 ms members of a fixed list are asked beside the pings.
   */
  readonly idlePingIntervalMsMax: number;
  /** Default 3. Unanswered pings until a worker is asked only when nobody else can answer. */
  readonly suspectAfterMisses: number;
  /** Default 20. Unanswered pings until the stream is closed and opened anew. */
  readonly closeAfterMisses: number;
  /** Default 1000 ms. How long a worker stays suspect after it answers again. */
  readonly suspectMs: number;
  /** Default 20 ms. A timer later than this says that this process, not the peer, was slow. */
  readonly ownLagMs: number;
  /** Default 5. Failures in a row until a worker is ejected. */
  readonly ejectAfterFailures: number;
  /** Default 1000 ms, times the number of ejections in a row. */
  readonly ejectMs: number;
  /** Default 30 000 ms. The longest ejection. */
  readonly ejectMsMax: number;
  /** Default 1000 ms. How long a new stream may take until the worker's first announcement. */
  readonly helloTimeoutMs: number;
  /** Default 100 ms. First wait before a lost worker is called again; doubles. */
  readonly reconnectDelayMs: number;
  /** Default 300 ms. The longest such wait; shorter finds a restarted worker sooner. */
  readonly reconnectDelayMsMax: number;
  /**
   * Default 4096. Workers known by name; of more, those that were never met make room for each other.
   * Costs a call now and then for each that does not exist.
   */
  readonly workersMax: number;
  /**
   * Default 40. Calls a second of workers never met, after a first burst of `callsMax`. More finds the
   * real ones sooner among many that do not exist; each costs a connection and 1 ms of this process.
   */
  readonly callsPerSecond: number;
  /** Default 256. Workers never met that are called at once after a rest, as at the start. */
  readonly callsMax: number;
  /** Default 2000 ms. The longest wait between two calls at an address where nobody was met. */
  readonly callDelayMsMax: number;
  /** Default 2000 ms. Where workers are met is written to the state file so long after it changes. */
  readonly saveDelayMs: number;
  /**
   * Default 10 000 ms. A worker that does not answer, and that others name but a healthy store does not,
   * is called for so long. Longer than stores and workers take to agree.
   */
  readonly unstoredMs: number;
  /**
   * Default 10 000 ms. A worker that has not answered for so long may be followed by the process that
   * it had replaced. Longer than any worker is silent and comes back.
   */
  readonly successorGoneMs: number;
  /**
   * Default 1000 ms. The models order is passed on to workers that follow another one so often; one that
   * fails is told again after twice as long, and so on, up to 10 s.
   */
  readonly orderPassMs: number;
  /** Default 5000 ms. One worker's answer to an order; longer waits longer for one that hangs. */
  readonly orderTimeoutMs: number;
  /**
   * Default 8192. Queries under way on one stream; more are sent to another replica or refused. Room for
   * `inFlightRequestsMax` and for what they ask again when a worker dies; costs about 1 KiB each.
   */
  readonly linkQueriesMax: number;
  /** Default 8 MiB. Bytes of queries that wait for a stream that takes no more, likewise. */
  readonly linkBytesMax: number;

  /** Default 2048. Requests under way; more are refused at once (503). */
  readonly inFlightRequestsMax: number;
  /**
   * Default 65 536. Query vectors of all requests under way; more are refused at once (503). Requests
   * of few are not counted here but above. Costs the vectors' memory.
   */
  readonly waitingRowsMax: number;
  /**
   * Default 0.5. A request that would begin only when so much of its time has passed, by the pace of
   * the last seconds, is refused at once (503). More keeps requests that may come too late.
   */
  readonly waitShareMax: number;
  /**
   * Default 1024. Query vectors asked of the workers at a time; the others wait here. More keeps
   * workers busy while this process is not; less lets small requests pass large ones sooner. At most
   * the workers' `queueRowsMax` divided by the number of routers, or they refuse.
   */
  readonly searchRowsMax: number;
  /**
   * Default 256 KiB. A question that excludes more bytes of ids, or looks up a longer key, is sent to
   * nobody else while its worker may still answer: no hedge, no retry of what is late or failed; only
   * where a connection broke it is asked again (`lostWorkersMax`).
   */
  readonly resendBytesMax: number;
  /** Default 65 536. Candidates (queries × k) of one slice; a larger request is cut. */
  readonly sliceCandidatesMax: number;
  /**
   * Default 256. Query vectors of one slice, hence of one scan. More cost less each; less lets others
   * between. At most the workers' `queryRowsMax`, or they refuse.
   */
  readonly sliceQueriesMax: number;
  /** Default 65 536. Keys of one slice: at most the workers' `lookupKeysMax`, likewise. */
  readonly sliceKeysMax: number;
  /** Default 1 MiB. Query vectors or keys of one slice; a larger request is cut. */
  readonly sliceBytesMax: number;
  /** Default 8. Slices of one request under way or waiting for the limiter. */
  readonly slicesAtOnce: number;

  /** Default 4 MiB. Keyed tables up to this size are looked up here; 0 asks the workers always. */
  readonly routerTableBytesMax: number;
  /** Default 30 000 ms. How long a worker may take to send a program. */
  readonly programTimeoutMs: number;
  /** Default 1000 ms. Wait before a program that could not be fetched is asked for again. */
  readonly programRetryMs: number;
  /**
   * Default 10 000 ms. How long a version's warm-up requests may keep it from answering; 0: they are
   * not replayed. Must stay below the time for which workers keep the version before it (20 s).
   */
  readonly warmUpMsMax: number;
  /** Default 60 000 ms. How long a program stays after the last worker stopped announcing it. */
  readonly programKeepMs: number;
}

const DEFAULTS: RouterSettings = {
  ...DEFAULT_REQUEST_LIMITS,
  routerId: "router",
  replication: 2,
  modelReplication: undefined,
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
  inFlightRequestsMax: 2048,
  waitingRowsMax: 65_536,
  waitShareMax: 0.5,
  searchRowsMax: 1024,
  resendBytesMax: 2 ** 18,
  sliceCandidatesMax: 65_536,
  sliceQueriesMax: 256,
  sliceKeysMax: 65_536,
  sliceBytesMax: 2 ** 20,
  slicesAtOnce: 8,
  routerTableBytesMax: 4 * 2 ** 20,
  programTimeoutMs: 30_000,
  programRetryMs: 1000,
  warmUpMsMax: 10_000,
  programKeepMs: 60_000,
};

/** Fills in the defaults. @throws RangeError for a number that is negative or not finite */
export function resolveRouterOptions(options: RouterOptions = {}): RouterSettings {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (typeof value === "number" && !(value >= 0 && Number.isFinite(value))) {
      throw new RangeError(`Setting ${name} is ${value}; it must be a finite number from 0`);
    }
  }
  return { ...DEFAULTS, ...Object.fromEntries(given) };
}
