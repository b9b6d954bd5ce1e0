// The schema of the answer to `GET /v1/cluster`, for the description of the API. A test validates the report
// of a whole router against it.

const text = { type: "string" } as const;
const count = { type: "integer", minimum: 0 } as const;
const amount = { type: "number", minimum: 0 } as const;
const fraction = { type: "number", minimum: 0, maximum: 1 } as const;
const yesOrNo = { type: "boolean" } as const;
const list = (items: object): object => ({ type: "array", items });
const counts: object = { type: "object", additionalProperties: count };

/** An object with exactly these fields; those whose names end in `?` are optional. */
function fields(properties: Readonly<Record<string, object>>): object {
  const entries = Object.entries(properties);
  return {
    type: "object",
    additionalProperties: false,
    required: entries.map(([name]) => name).filter((name) => !name.endsWith("?")),
    properties: Object.fromEntries(entries.map(([name, type]) => [name.replace("?", ""), type])),
  };
}

const SEVERITY = {
  enum: ["ok", "degraded", "down"],
  description:
    "degraded: requests are answered, but not all, or the next fault may cost some; down: no model answers",
};

const FINDING = { severity: SEVERITY, text, remedy: text };

const TABLE = fields({
  name: text,
  kind: { enum: ["candidate", "keyed"] },
  rows: count,
  dim: count,
  partitions: count,
  "replicas?": {
    ...list(list(count)),
    description:
      "Workers of each partition, as positions in workers; missing where there are too many",
  },
});

const VERSION = fields({
  version: count,
  state: { enum: ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"] },
  isDefault: yesOrNo,
  "error?": fields({ code: text, message: text }),
  "extraFailure?": {
    ...text,
    description: "Why a worker cannot load a replica beyond the intended ones, which nobody misses",
  },
  isOver: { ...yesOrNo, description: "Unloaded: only its end is known" },
  coverage: { ...fraction, description: "Partitions with a replica ÷ partitions" },
  partitions: fields({ covered: count, underreplicated: count, lost: count }),
  replicasIntended: count,
  missing: text,
  conflicts: list(text),
  rollout: fields({
    progress: { ...fraction, description: "Replicas held ÷ replicas intended" },
    ready: count,
    waitingFor: list(text),
    failedOn: list(text),
  }),
  tables: list(TABLE),
  "arms?": {
    ...list(
      fields({
        name: text,
        isShadow: yesOrNo,
        model: text,
        "version?": count,
        "label?": text,
        share: {
          ...fraction,
          description: "Of the keys, or of the requests that a shadow is asked",
        },
      }),
    ),
    description: "Of an experiment",
  },
});

const WORKER = fields({
  id: text,
  address: text,
  condition: { enum: ["ready", "starting", "suspect", "draining", "unreachable"] },
  "incarnation?": count,
  "heardAgoMs?": amount,
  "release?": text,
  "placement?": text,
  accelerator: text,
  device: text,
  memoryUsedBytes: count,
  memoryCapacityBytes: count,
  replicas: count,
  questions: count,
  queueRows: count,
  "scans?": {
    ...fields({ batches: count, queries: count }),
    description: "Scans of the last 10 s, for all routers, and query vectors in them",
  },
  "latency?": fields({ p50Ms: amount, p95Ms: amount, p99Ms: amount }),
  isStraggler: yesOrNo,
});

const ROUTER = fields({
  version: text,
  "name?": text,
  uptimeMs: count,
  isReady: yesOrNo,
  routingGeneration: count,
  "membershipAgeMs?": amount,
  requests: count,
  questions: count,
  waitingSlices: count,
  traffic: fields({
    requestsPerSecond: amount,
    "latency?": fields({ p50Ms: amount, p99Ms: amount }),
    "recent?": {
      ...fields({
        instances: amount,
        stages: { type: "object", additionalProperties: amount },
      }),
      description: "Means of the requests of the last 10 s: instances, ms by stage",
    },
    perSecond: { ...list(count), minItems: 60, maxItems: 60 },
    requests: count,
    failures: counts,
    refusals: counts,
  }),
  memory: fields({ residentBytes: count }),
  settings: { type: "object", description: "Limits and waits in effect, without secrets" },
  changedSettings: list(text),
});

/** The schema. */
export const CLUSTER_REPORT: object = fields({
  health: fields({
    severity: SEVERITY,
    sentence: text,
    remedy: text,
    findings: list(fields(FINDING)),
  }),
  router: ROUTER,
  workers: list(WORKER),
  models: list(
    fields({
      name: text,
      answers: yesOrNo,
      "defaultVersion?": count,
      labels: counts,
      waitingLabels: counts,
      versions: { ...list(VERSION), description: "Descending" },
    }),
  ),
  events: {
    ...list(fields({ severity: SEVERITY, text, agoMs: amount })),
    description: "The newest first",
  },
  slowRequests: {
    ...list(
      fields({
        agoMs: amount,
        elapsedMs: amount,
        model: text,
        "version?": text,
        code: text,
        instances: count,
        "requestId?": text,
        stages: { type: "object", additionalProperties: amount },
      }),
    ),
    description: "Of the last five minutes, the slowest first",
  },
  leftOut: fields({ workers: count, models: count, versions: count }),
});
