// Every limit and every time of a role that an operator may change: its name, its default and what it trades.
// Each line here becomes a flag, a WINNOW_* variable, a key of a configuration file and a line of
// docs/settings.md. A test compares the table with the `*-settings.ts` of router and worker: none of their
// fields is missing here, and the defaults are equal. The table is data on its own, because a command line is
// parsed before it is known which role's code to load.

/** The owner of a setting: the router, its HTTP or gRPC side, or a worker. */
export type SettingOwner = "router" | "http" | "grpc" | "worker";

/** One limit or time. Its default in a process is `defaultOf` of `limit-flags.ts`. */
export interface LimitOrTime {
  readonly owner: SettingOwner;
  /** The field of the owner's options. */
  readonly field: string;
  readonly fallback: number | boolean;
  readonly description: string;
  /** The default is lower where it is over this ratio of the bytes of memory that the process may use. */
  readonly memoryRatio?: number | undefined;
}

const MEBIBYTE = 2 ** 20;

type Line = readonly [
  field: string,
  fallback: number | boolean,
  description: string,
  memoryRatio?: number,
];

const ROUTER: readonly Line[] = [
  ["instancesMax", 4096, "instances of one request"],
  ["kMax", 4096, "largest k a request may ask for; at most worker-k-max"],
  ["candidatesMax", 1_677_721, "candidates of one answer: its instances times its k", 1 / 640],
  [
    "excludedIdsMax",
    65_536,
    "ids that one request may exclude, and the same number that it may include",
  ],
  ["excludedBytesMax", MEBIBYTE, "bytes of these ids, and bytes of the filters of one request"],
  ["filtersMax", 64, "different filters of one request"],
  ["filterConditionsMax", 256, "conditions of all different filters of one request"],
  [
    "describedValuesMax",
    8192,
    "attributes that one answer gives: its items times the names asked for",
  ],
  ["lookupBytesMax", 8 * MEBIBYTE, "bytes of the keys of one look-up"],
  [
    "jsonValuesMax",
    8 * MEBIBYTE,
    "JSON values of one body; each costs 17 bytes while it is read",
    1 / 256,
  ],
  ["answerBytesMax", 256 * MEBIBYTE, "bytes of one answer as JSON; more get 429", 1 / 8],
  ["attemptTimeoutMs", 500, "silence of a worker after which another replica is asked"],
  ["busyTimeoutMs", 5000, "the same for a worker that says it makes progress"],
  ["hedge", true, "ask a second replica if the first is slower than its peers usually are"],
  ["hedgeDelayMinMs", 2, "earliest time to ask it; lower hedges ordinary jitter"],
  ["hedgeDelayMaxMs", 50, "latest time to ask it; higher lets a slow worker cost more"],
  [
    "secondAttemptRatio",
    0.1,
    "second attempts per first attempt over 10 s; more amplifies an overload",
  ],
  ["secondAttemptsPerSecond", 10, "second attempts a second that are allowed in any case"],
  ["tableDelayMs", 5, "changes of the cluster within this time share one routing table"],
  ["replansMax", 4, "times that a whole query is planned again before it fails"],
  ["lostWorkersMax", 4, "workers that one request may lose before it fails"],
  ["replanWaitMs", 250, "how long a query that lost its last replica waits for another"],
  ["pingIntervalMs", 100, "between two pings of a worker; less notices a silent one sooner"],
  ["idlePingIntervalMs", 500, "the same for an idle worker"],
  ["idlePingIntervalMsMax", 1500, "longest such interval: it doubles while the worker is idle"],
  [
    "suspectAfterMisses",
    3,
    "unanswered pings until a worker is suspect: asked only if no other can answer; more while the others answer late",
  ],
  ["closeAfterMisses", 20, "unanswered pings until its stream is opened anew"],
  ["suspectMs", 1000, "how long a worker stays suspect after it answers again"],
  ["ownLagMs", 20, "a timer later than this says that the router itself was slow"],
  ["ejectAfterFailures", 5, "failures in a row until a worker is ejected"],
  ["ejectMs", 1000, "length of an ejection, times the number of ejections in a row"],
  ["ejectMsMax", 30_000, "longest ejection"],
  ["helloTimeoutMs", 1000, "time of a new stream until the worker's first announcement"],
  ["reconnectDelayMs", 100, "first wait before a lost worker is called again; doubles"],
  ["reconnectDelayMsMax", 300, "longest such wait"],
  ["workersMax", 4096, "workers known by name"],
  ["callsPerSecond", 40, "calls a second of workers that were never met"],
  ["callsMax", 256, "such calls at once after a rest"],
  [
    "callDelayMsMax",
    2000,
    "longest wait between two calls of an address at which no worker was met",
  ],
  ["saveDelayMs", 2000, "time from a change of workers' addresses until the state file is written"],
  [
    "unstoredMs",
    10_000,
    "how long to call a worker that other workers name and the store does not",
  ],
  [
    "successorGoneMs",
    10_000,
    "silence after which a worker may be followed by the process it replaced",
  ],
  ["orderPassMs", 1000, "how often the models order is passed on to workers that follow another"],
  ["orderTimeoutMs", 5000, "time of one worker's answer to an order"],
  ["linkQueriesMax", 8192, "queries under way on the stream to one worker"],
  ["linkBytesMax", 8 * MEBIBYTE, "bytes of queries that wait for such a stream"],
  ["textThreadsMax", 2, "threads that run operations on long texts or many numbers"],
  ["textQueueMax", 256, "requests whose operations wait for a thread; more get 503"],
  ["inFlightRequestsMax", 2048, "requests under way; more are refused at once (503)"],
  [
    "waitingRowsMax",
    65_536,
    "query vectors of all requests under way; more are refused at once (503)",
  ],
  [
    "heldCandidatesMax",
    3_355_442,
    "candidates of all requests until their answers are written; more are refused at once (503)",
    1 / 1280,
  ],
  [
    "waitShareMax",
    0.5,
    "share of its time that a request may wait; refused (503) if the pace of the last seconds is slower",
  ],
  [
    "searchRowsMax",
    1024,
    "query vectors asked of the workers at a time, at most worker-queue-rows-max divided by the routers",
  ],
  [
    "resendBytesMax",
    256 * 1024,
    "bytes of excluded ids or keys above which no second replica is asked",
  ],
  ["sliceCandidatesMax", 65_536, "candidates of one slice of a request"],
  [
    "sliceQueriesMax",
    256,
    "query vectors of one slice, at most worker-query-rows-max; fewer where scans take long",
  ],
  ["sliceKeysMax", 65_536, "keys of one slice, at most worker-lookup-keys-max"],
  ["sliceBytesMax", MEBIBYTE, "bytes of query vectors or keys of one slice"],
  ["slicesAtOnce", 8, "slices of one request under way or waiting"],
  ["shadowsMax", 4, "shadow requests of experiments asked at a time; more load the workers more"],
  ["shadowsWaitingMax", 32, "shadow requests that wait; further ones are dropped"],
  ["shadowBytesMax", 16 * MEBIBYTE, "bytes of inputs and answers that shadow requests hold"],
  ["programTimeoutMs", 30_000, "how long a worker may take to send a program"],
  ["programRetryMs", 1000, "wait before a program that could not be fetched is asked for again"],
  [
    "warmUpMsMax",
    10_000,
    "how long warm-up requests may keep a version from answering; below twice worker-request-deadline-ms-max",
  ],
  ["programKeepMs", 60_000, "how long a program stays after the last worker stopped announcing it"],
];

const HTTP: readonly Line[] = [
  ["inFlightMax", 2048, "predict requests worked on at once; more get 503"],
  ["retryAfterSeconds", 1, "seconds that a refused client is asked to wait (Retry-After)"],
  ["bodyBytesMax", 64 * MEBIBYTE, "bytes of one body, unpacked; longer ones get 413", 1 / 16],
  [
    "bodyBytesInFlightMax",
    512 * MEBIBYTE,
    "bytes of all bodies without an answer yet; more get 503",
    1 / 8,
  ],
  ["bodyReserveBytes", 64 * MEBIBYTE, "bytes of these reserved for small bodies", 1 / 64],
  [
    "smallBodyBytes",
    256 * 1024,
    "bytes up to which a body is small: parsed at once, not in a thread",
  ],
  ["parserThreadsMax", 2, "threads that read bodies which are not small"],
  ["parserQueueMax", 256, "such bodies that wait for a thread; more get 503"],
  [
    "connectionsMax",
    10_000,
    "open connections, fewer where the process may have few descriptors; beyond, the one that rested longest is closed",
  ],
  ["headerBytesMax", 16 * 1024, "bytes of a request's line and headers; more get 431"],
  ["handshakeTimeoutMs", 10_000, "time for the handshake of TLS"],
  ["headersTimeoutMs", 10_000, "time for all headers of a request; then 408"],
  ["bodyTimeoutMs", 30_000, "time for a whole body; then 408"],
  ["bodyStallMs", 10_000, "time in which a body must bring 64 KiB, or its end; then 408"],
  ["discardMs", 2000, "time in which the rest of an unwanted body is read past"],
  [
    "answerBytesInFlightMax",
    512 * MEBIBYTE,
    "bytes of all answers that clients have not read; more get 503",
    1 / 8,
  ],
  ["answerTimeoutMs", 60_000, "time for the reading of an answer; then the connection is cut"],
  ["answerStallMs", 10_000, "time in which a client must read 64 KiB, or all"],
  ["unreadyAfterMs", 10_000, "time without memory for a small body until /readyz says 503"],
  [
    "connectionCheckMs",
    1000,
    "between looks for connections, bodies and answers that are too slow",
  ],
  [
    "keepAliveTimeoutMs",
    75_000,
    "how long an idle connection is kept: longer than a load balancer does",
  ],
  ["drainTimeoutMs", 30_000, "longest drain until connections are cut"],
  ["drainIdleMs", 2000, "time of a drain after which connections without a request are closed"],
  ["drainPollMs", 20, "between looks at the connections that remain in a drain"],
  ["ownPaths", true, "answer paths that TensorFlow Serving does not have, such as /readyz"],
];

const GRPC: readonly Line[] = [
  [
    "connectionsMax",
    4096,
    "open connections, fewer where the process may have few descriptors; beyond, the one longest without a call is closed",
  ],
  ["handshakeTimeoutMs", 10_000, "time for the handshake of TLS"],
  ["callsMax", 512, "calls open at once; more get UNAVAILABLE"],
  ["callsPerConnectionMax", 128, "calls of one connection open at once; clients queue more"],
  ["watchesMax", 512, "health watches open at once; more get UNAVAILABLE"],
  ["watchesPerConnectionMax", 4, "health watches of one connection"],
  [
    "requestBytesInFlightMax",
    512 * MEBIBYTE,
    "bytes of all requests worked on; more get UNAVAILABLE",
    1 / 8,
  ],
  [
    "bodyReserveBytes",
    64 * MEBIBYTE,
    "bytes of these that large requests leave to small ones",
    1 / 64,
  ],
  ["smallBodyBytes", 256 * 1024, "bytes up to which a request is small"],
  ["bodyStallMs", 10_000, "time in which a request must bring 64 KiB, or its end"],
  ["bodyTimeoutMs", 30_000, "time for a whole request; then DEADLINE_EXCEEDED"],
  [
    "answerBytesInFlightMax",
    512 * MEBIBYTE,
    "bytes of all answers that clients have not read; more get UNAVAILABLE",
    1 / 8,
  ],
  ["answerStallMs", 10_000, "time in which a client must read 64 KiB, or all"],
  ["answerTimeoutMs", 60_000, "time for the reading of an answer"],
  ["connectionCheckMs", 1000, "between looks for requests and answers that are too slow"],
  ["messageBytesMax", 64 * MEBIBYTE, "bytes of one message; more get RESOURCE_EXHAUSTED", 1 / 16],
  [
    "tensorBytesMax",
    64 * MEBIBYTE,
    "bytes of the tensors of one request as they are computed with",
    1 / 16,
  ],
  [
    "tensorBytesInFlightMax",
    512 * MEBIBYTE,
    "bytes of the tensors of all requests, but those of up to 64 KiB; more get UNAVAILABLE",
    1 / 8,
  ],
  ["namesMax", 1024, "names in output_filter or metadata_field, and inputs, of one request"],
  ["keepaliveMs", 60_000, "silence of a connection until it is asked whether it lives"],
  ["keepaliveTimeoutMs", 20_000, "time it has for its answer"],
  ["healthLookMs", 200, "between looks whether the router has become ready, for health watches"],
  ["drainTimeoutMs", 30_000, "longest drain until calls are cut"],
  ["drainIdleMs", 500, "time that connections have to close after the last call of a drain"],
];

const WORKER: readonly Line[] = [
  ["fileStillMs", 300, "changed files are opened once they have not changed for this long"],
  [
    "fileCopyMsMax",
    60_000,
    "files that change for this long are opened all the same, to report why",
  ],
  [
    "placementQuietMs",
    300,
    "loading waits until the list of workers has not changed for this long",
  ],
  [
    "requestDeadlineMsMax",
    10_000,
    "what is given up is kept for twice as long, for requests under way",
  ],
  [
    "rollbackWindowMs",
    0,
    "least time for which a version that is given up is kept, for quick rollbacks",
  ],
  [
    "uncutBytesMax",
    2048 * MEBIBYTE,
    "bytes of item tables that are not cut, which every router would hold; a version with more is refused; 0: all must be cut",
  ],
  ["queueRowsMax", 16_384, "query vectors that wait for the device; more are refused at once"],
  ["batchRowsMax", 64, "query vectors of one scan: with more, each costs less and waits longer"],
  ["scansInFlightMax", 1, "scans under way at once; with 1, batches form"],
  [
    "companyMsMax",
    5,
    "most ms that an idle device waits for queries that lately came back so soon after their answers, so that more share a scan; 0: never",
  ],
  ["lookupsInFlightMax", 4, "look-ups under way at once"],
  ["queryRowsMax", 1024, "query vectors of one query"],
  ["kMax", 10_000, "candidates per query vector"],
  ["answerRowsMax", MEBIBYTE, "query vectors times k of one query"],
  ["excludedIdsMax", 100_000, "excluded ids of one query"],
  ["lookupKeysMax", 65_536, "keys of one look-up, and keys that wait"],
  ["exclusionBytesMax", 256 * MEBIBYTE, "memory of the indexes of ids that exclusions build"],
  ["filterBytesMax", 64 * MEBIBYTE, "memory of the filters that are kept for later queries"],
  [
    "inlineScanValuesMax",
    32 * MEBIBYTE,
    "rows times dim times query vectors of a scan that the event loop runs itself, for each of up to four scanning threads; 0: the compute thread does all, look-ups of few keys as well",
  ],
  ["announceIntervalMs", 50, "between two announcements of changes"],
  ["stallMs", 1000, "work that waits so long without progress makes the worker stalled"],
  [
    "drainSettleMs",
    5000,
    "a worker in drain leaves once others have covered its partitions for this long",
  ],
  [
    "drainAbsentMs",
    30_000,
    "a worker in drain waits so long for absent ones where all others drain too",
  ],
  [
    "drainHoldMsMax",
    285_000,
    "longest wait for coverage in a drain: 15 s below the pod's grace period",
  ],
  ["drainGraceMs", 10_000, "time for routers to end their streams in a drain"],
];

const linesOf = (owner: SettingOwner, lines: readonly Line[]): LimitOrTime[] =>
  lines.map(([field, fallback, description, memoryRatio]) => {
    const tail = memoryRatio === undefined ? "" : `; ${ratioText(field, memoryRatio)}`;
    return { owner, field, fallback, description: description + tail, memoryRatio };
  });

/** What a default follows where memory is small. */
function ratioText(field: string, memoryRatio: number): string {
  return field.includes("Bytes")
    ? `by default at most 1/${1 / memoryRatio} of the memory`
    : `by default at most one for each ${1 / memoryRatio} bytes of memory`;
}

/** All of them. */
export const limitsAndTimes: readonly LimitOrTime[] = [
  ...linesOf("router", ROUTER),
  ...linesOf("http", HTTP),
  ...linesOf("grpc", GRPC),
  ...linesOf("worker", WORKER),
];
