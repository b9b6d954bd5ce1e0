// Gauges that are read from a router at each scrape: what it is working on, which workers it knows, and the
// state of the cluster.

import type { ReadMetric } from "@winnow/core";
import type { ClusterStatus } from "../workers/cluster-status.ts";
import type { OrderStatus } from "../versions/model-orders.ts";

/** The state of a router that the metrics page reads. */
export interface WatchedRouter {
  readonly counters: {
    readonly requests: number;
    readonly questions: number;
    readonly rows: number;
    readonly waiting: number;
  };
  models(): readonly string[];
  workers(): readonly {
    readonly id: string;
    readonly askable: boolean;
    readonly trusted: boolean;
  }[];
  clusterStatus(): ClusterStatus;
  readonly orders: { status(): OrderStatus };
}

/** Names on the page, at most: names in the membership store may be invented. */
const NAMED_MAX = 64;

/** The gauges of a router. */
export const ROUTER_GAUGES: readonly ReadMetric<WatchedRouter>[] = [
  {
    name: "winnow_inflight_requests",
    help: "Requests worked on",
    read: ({ counters }) => [{ value: counters.requests }],
  },
  {
    name: "winnow_inflight_questions",
    help: "Questions workers have not answered",
    read: ({ counters }) => [{ value: counters.questions }],
  },
  {
    name: "winnow_inflight_rows",
    help: "Query vectors of requests worked on",
    read: ({ counters }) => [{ value: counters.rows }],
  },
  {
    name: "winnow_waiting_slices",
    help: "Slices of searches that wait in the router's concurrency limiter",
    read: ({ counters }) => [{ value: counters.waiting }],
  },
  {
    name: "winnow_membership_workers",
    help: "Workers known, by what they are good for",
    labelNames: ["state"],
    read: (router) => {
      const all = router.workers();
      const askable = all.filter((worker) => worker.askable);
      const trusted = askable.filter((worker) => worker.trusted).length;
      return [
        { labels: { state: "trusted" }, value: trusted },
        { labels: { state: "suspect" }, value: askable.length - trusted },
        { labels: { state: "unreachable" }, value: all.length - askable.length },
      ];
    },
  },
  {
    name: "winnow_membership_worker",
    help: "1 for each worker that is not trusted, by name",
    labelNames: ["worker", "state"],
    read: (router) =>
      router
        .workers()
        .filter(({ askable, trusted }) => !askable || !trusted)
        .slice(0, NAMED_MAX)
        .map(({ id, askable }) => ({
          labels: { worker: id, state: askable ? "suspect" : "unreachable" },
          value: 1,
        })),
  },
  {
    name: "winnow_membership_age_seconds",
    help: "Time since the membership store last answered completely; +Inf: never",
    read: (router) => [{ value: (router.clusterStatus().membershipAgeMs ?? Infinity) / 1000 }],
  },
  {
    name: "winnow_models_order",
    help: "Number of the highest models order known; 0: none was given",
    read: ({ orders }) => [{ value: orders.status().number }],
  },
  {
    name: "winnow_models_order_workers",
    help: "Workers that are there, by whether they follow that order",
    labelNames: ["state"],
    read: ({ orders }) => {
      const { following, behind } = orders.status();
      return [
        { labels: { state: "following" }, value: following },
        { labels: { state: "behind" }, value: behind },
      ];
    },
  },
  {
    name: "winnow_routing_generation",
    help: "Number of the routing table in use; grows with each change of it",
    read: (router) => [{ value: router.clusterStatus().generation }],
  },
  {
    name: "winnow_coverage_ratio",
    help: "Partitions of the default version that can be answered, 0 to 1",
    labelNames: ["model"],
    read: (router) =>
      router.clusterStatus().models.map(({ model, coverage }) => ({
        labels: { model },
        value: coverage,
      })),
  },
  {
    name: "winnow_partitions",
    help: "Partitions of the default version by how many replicas they have",
    labelNames: ["model", "state"],
    read: (router) =>
      router
        .clusterStatus()
        .models.flatMap(({ model, partitions }) =>
          Object.entries(partitions).map(([state, value]) => ({ labels: { model, state }, value })),
        ),
  },
  {
    name: "winnow_model_version",
    help: "The version that answers by default, as this router sees it",
    labelNames: ["model"],
    read: (router) =>
      router
        .clusterStatus()
        .models.map(({ model, version }) => ({ labels: { model }, value: version })),
  },
];
