// Situations of a cluster as its metrics tell them, with the alerts that they should fire. Series are one
// value a minute, in promtool's notation
// (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series).

/** Values by series. */
export type SeriesValues = Readonly<Record<string, string>>;

/** Two hours of a cluster, and what should be heard of it. */
export interface Situation {
  readonly title: string;
  /** What differs from the cluster that is well. */
  readonly series?: SeriesValues;
  /** Series of that cluster that are missing: their names begin so. */
  readonly without?: RegExp;
  /** Minutes after the beginning. */
  readonly minute: number;
  /** Alerts that fire then, with their labels beside `severity`. */
  readonly firing?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

const ROUTER = 'namespace="winnow",pod="router-a"';
const WORKER = 'namespace="winnow",pod="winnow-shard-0"';
const OK = `winnow_requests_total{${ROUTER},model="movies",kind="predict",code="OK"}`;
const UNAVAILABLE = `winnow_requests_total{${ROUTER},model="movies",kind="grpc:Predict",code="UNAVAILABLE"}`;
const COVERAGE = `winnow_coverage_ratio{${ROUTER},model="movies"}`;
const LACKING = `winnow_partitions{${ROUTER},model="movies",state="underreplicated"}`;
const within = (bound: string): string =>
  `winnow_request_duration_seconds_bucket{${ROUTER},model="movies",kind="predict",le="${bound}"}`;
const AGE = `winnow_membership_age_seconds{${ROUTER}}`;
const FAILURES = `winnow_model_load_failures_total{${WORKER},model="movies",code="DATA_LOSS"}`;
const version = (number: number): string =>
  `winnow_worker_load_ratio{${WORKER},model="movies",version="${number}"}`;
const refusedRecords = (reason: string): string =>
  `winnow_refused_records_total{${WORKER},reason="${reason}"}`;
const REPLIES = `winnow_rpc_duration_seconds_count{${ROUTER},worker="winnow-shard-0"}`;
const RETRIES = `winnow_second_attempts_total{${ROUTER},kind="retry",reason="timeout"}`;
const refused = (kind: string): string =>
  `winnow_attempt_budget_spent_total{${ROUTER},kind="${kind}"}`;
const queries = (outcome: string): string =>
  `winnow_worker_queries_total{${WORKER},kind="topK",outcome="${outcome}"}`;
const CERTIFICATE_ENDS = `winnow_tls_certificate_expiry_timestamp_seconds{${ROUTER},use="public"}`;
const CERTIFICATE_REFUSED = `winnow_tls_files_refused{${WORKER},use="cluster"}`;
const HELD = `winnow_held_bytes{${ROUTER},door="http",kind="requests"}`;
const HELD_MAX = `winnow_held_bytes_max{${ROUTER},door="http",kind="requests"}`;
const BEHIND = `winnow_models_order_workers{${ROUTER},state="behind"}`;
const STALLED = `winnow_worker_stalled{${WORKER}}`;
const scan = (kind: string, asked = kind): string =>
  `winnow_worker_accelerator_info{${WORKER},kind="${kind}",device="a device",asked="${asked}"}`;

/** Two hours of a cluster that is well, with old faults in its counters and wrongs of its callers. */
export const WELL: SeriesValues = {
  [COVERAGE]: "1x120",
  'winnow_coverage_ratio{namespace="winnow",pod="router-b",model="movies"}': "1x120",
  [LACKING]: "0x120",
  [OK]: "0+6000x120",
  [UNAVAILABLE]: "500x120",
  [OK.replace("OK", "INVALID_ARGUMENT")]: "0+3000x120",
  [OK.replace("OK", "UNIMPLEMENTED")]: "0+3000x120",
  // A router that is not ready says so to its probe: no failed prediction.
  [UNAVAILABLE.replace("grpc:Predict", "outside")]: "0+3000x120",
  [within("0.25")]: "0+5900x120",
  [within("0.5")]: "0+5990x120",
  [within("+Inf")]: "0+6000x120",
  [AGE]: "0.2x120",
  [FAILURES]: "3x120",
  [refusedRecords("signature")]: "4x120",
  [version(1)]: "1x120",
  [REPLIES]: "0+12000x120",
  [RETRIES]: "0+600x120",
  [refused("retry")]: "7x120",
  [refused("hedge")]: "0+60x120",
  [queries("OK")]: "0+12000x120",
  [queries("CANCELLED")]: "0+600x120",
  [queries("EXPIRED")]: "9x120",
  [HELD]: "1e6x120",
  [HELD_MAX]: "5e8x120",
  [BEHIND]: "0x120",
  [STALLED]: "0x120",
  [scan("cpu")]: "1x120",
  [`winnow_worker_state{${WORKER},state="ready"}`]: "1x120",
};

const MODEL = { namespace: "winnow", model: "movies" };
const AT_WORKER = { namespace: "winnow", pod: "winnow-shard-0" };
/** What happens to clusters. */
export const situations: readonly Situation[] = [
  { title: "all is well", minute: 60 },
  {
    title: "one router sees lost partitions for two minutes",
    series: { [COVERAGE]: "1x59 0.97x60" },
    minute: 62,
    firing: { WinnowCoverageLost: MODEL },
  },
  {
    title: "a moment of lost partitions",
    series: { [COVERAGE]: "1x59 0.97 1x60" },
    minute: 60,
  },
  {
    title: "replicas are missing for a quarter of an hour",
    series: { [LACKING]: "0x59 3x60" },
    minute: 75,
    firing: { WinnowUnderreplicated: MODEL },
  },
  {
    title: "replicas are missing while a worker restarts",
    series: { [LACKING]: "0x59 3x5 0x60" },
    minute: 68,
  },
  {
    title: "2 % of the predictions fail",
    series: { [UNAVAILABLE]: "0x59 0+250x60" },
    minute: 72,
    firing: { WinnowErrors: MODEL },
  },
  {
    title: "0.5 % of the predictions fail",
    series: { [UNAVAILABLE]: "0x59 0+60x60" },
    minute: 90,
  },
  {
    title: "3 % of the predictions take over half a second",
    series: {
      [within("0.25")]: "0+5700x120",
      [within("0.5")]: "0+5820x120",
      [within("1")]: "0+6000x120",
    },
    minute: 30,
    firing: { WinnowSlow: MODEL },
  },
  {
    title: "requests hold nine tenths of their memory for five minutes",
    series: { [HELD]: "1e6x59 45e7x60" },
    minute: 65,
    firing: {
      WinnowMemoryHeld: { namespace: "winnow", pod: "router-a", door: "http", kind: "requests" },
    },
  },
  {
    title: "requests hold all their memory for a moment",
    series: { [HELD]: "1e6x59 5e8 1e6x60" },
    minute: 60,
  },
  {
    title: "a worker does not follow the models order for a quarter of an hour",
    series: { [BEHIND]: "0x59 1x60" },
    minute: 75,
    firing: { WinnowOrderNotFollowed: { namespace: "winnow" } },
  },
  {
    title: "workers load what was ordered",
    series: { [BEHIND]: "0x59 3 1x3 0x60" },
    minute: 66,
  },
  {
    title: "nobody asks anything",
    series: {
      [OK]: "0x120",
      [within("0.25")]: "0x120",
      [within("0.5")]: "0x120",
      [within("+Inf")]: "0x120",
    },
    minute: 60,
  },
  {
    title: "Redis has been gone for two minutes",
    series: { [AGE]: "0.2x59 60 120 180 240" },
    minute: 62,
    firing: { WinnowMembershipOld: { namespace: "winnow", pod: "router-a" } },
  },
  {
    title: "a router has never read the membership",
    series: { [AGE]: "Inf ".repeat(30) },
    minute: 10,
    firing: { WinnowMembershipOld: { namespace: "winnow", pod: "router-a" } },
  },
  {
    title: "a record is refused that nobody of this cluster signed",
    series: { [refusedRecords("signature")]: "4x59 5x60" },
    minute: 62,
    firing: { WinnowRecordsRefused: { ...AT_WORKER, reason: "signature" } },
  },
  {
    title: "a certificate is not renewed: at minute 60 it lasts for five hours and a half",
    series: { [CERTIFICATE_ENDS]: "23400x120" },
    minute: 60,
    firing: { WinnowCertificateEnds: { namespace: "winnow", pod: "router-a", use: "public" } },
  },
  {
    title: "a certificate lasts for seven hours",
    series: { [CERTIFICATE_ENDS]: "28800x120" },
    minute: 60,
  },
  {
    title: "new files of a certificate do not fit together",
    series: { [CERTIFICATE_REFUSED]: "0x54 1x65" },
    minute: 62,
    firing: { WinnowCertificateRefused: { ...AT_WORKER, use: "cluster" } },
  },
  {
    title: "new files of a certificate did not fit together for a moment",
    series: { [CERTIFICATE_REFUSED]: "0x58 1x1 0x60" },
    minute: 62,
  },
  {
    title: "an older life of a worker answers",
    series: { [refusedRecords("stale")]: "4x59 5x60" },
    minute: 62,
  },
  {
    title: "a version fails to load once more",
    series: { [FAILURES]: "3x59 4x60" },
    minute: 62,
    firing: { WinnowLoadFailed: { ...AT_WORKER, model: "movies", code: "DATA_LOSS" } },
  },
  {
    title: "the first failure of a worker's life",
    series: { [FAILURES]: "_x59 1x60" },
    minute: 61,
    firing: { WinnowLoadFailed: { ...AT_WORKER, model: "movies", code: "DATA_LOSS" } },
  },
  { title: "half an hour after a failure", series: { [FAILURES]: "_x59 1x60" }, minute: 90 },
  {
    title: "two versions for three quarters of an hour",
    series: { [version(2)]: "_x59 0.5x60" },
    minute: 105,
    firing: { WinnowSwapStuck: MODEL },
  },
  {
    title: "a swap of ten minutes",
    series: { [version(2)]: "_x59 1x60", [version(1)]: "1x69 _x50" },
    minute: 105,
  },
  {
    title: "one question in eight is asked twice",
    series: { [RETRIES]: "0+1500x120" },
    minute: 30,
    firing: { WinnowManySecondAttempts: { namespace: "winnow" } },
  },
  {
    title: "one question in five, of a few a minute",
    series: { [REPLIES]: "0+10x120", [RETRIES]: "0+2x120" },
    minute: 30,
  },
  {
    title: "retries are refused",
    series: { [refused("retry")]: "0+6x120" },
    minute: 30,
    firing: { WinnowRetriesRefused: { namespace: "winnow" } },
  },
  {
    title: "a router refuses requests",
    series: { [`winnow_refused_requests_total{${ROUTER},reason="rows"}`]: "0+6x120" },
    minute: 30,
    firing: { WinnowRequestsRefused: { namespace: "winnow", pod: "router-a" } },
  },
  {
    title: "a worker lets queries expire",
    series: { [queries("EXPIRED")]: "0+6x120" },
    minute: 30,
    firing: { WinnowOverloaded: AT_WORKER },
  },
  {
    title: "a device does not move",
    series: { [STALLED]: "0x59 1x60" },
    minute: 62,
    firing: { WinnowWorkerStalled: AT_WORKER },
  },
  {
    title: "a worker lacks the compiled scan",
    series: { [scan("reference", "cpu")]: "1x120" },
    minute: 30,
    firing: { WinnowSlowScan: AT_WORKER },
  },
  {
    title: "a GPU is asked for and not used",
    series: { [scan("cpu", "gpu")]: "1x120" },
    minute: 30,
    firing: { WinnowGpuUnused: AT_WORKER },
  },
  {
    title: "a GPU is used, or nobody asked for one",
    series: { [scan("gpu")]: "1x120", [scan("cpu")]: "1x120" },
    minute: 30,
    firing: {},
  },
  {
    title: "no worker is read",
    without: /^winnow_(worker|model)_/,
    minute: 30,
    firing: { WinnowMetricsAbsent: {} },
  },
  {
    title: "no router is read",
    without: /router-/,
    minute: 30,
    firing: { WinnowMetricsAbsent: {} },
  },
];
