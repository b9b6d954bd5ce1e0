// Gauges that are read from a worker's status at each scrape: queue, state, memory, device and others.

import type { ReadMetric } from "@winnow/core";
import type { WorkerStatus } from "../worker-observer.ts";

const WORKER_STATES = ["starting", "ready", "draining"] as const;
const REPLICA_STATES = ["loading", "ready", "retiring", "releasing"] as const;

/** The gauges of a worker. */
export const STATUS_GAUGES: readonly ReadMetric<WorkerStatus>[] = [
  {
    name: "winnow_worker_queue_rows",
    help: "Query vectors and keys that wait for the device",
    read: ({ queueRows }) => [{ value: queueRows }],
  },
  {
    name: "winnow_worker_stalled",
    help: "1 while work waits and nothing moves",
    read: ({ isStalled }) => [{ value: Number(isStalled) }],
  },
  {
    name: "winnow_worker_superseded",
    help: "1 while another process lives as this worker",
    read: ({ isSuperseded }) => [{ value: Number(isSuperseded) }],
  },
  {
    name: "winnow_worker_models_order",
    help: "Number of the models order: the highest known here, and the one followed; 0: none",
    labelNames: ["kind"],
    read: ({ orderNumbers: { known, followed } }) => [
      { labels: { kind: "known" }, value: known },
      { labels: { kind: "followed" }, value: followed },
    ],
  },
  {
    name: "winnow_worker_state",
    help: "1 for the state the worker is in",
    labelNames: ["state"],
    read: ({ announcement }) =>
      WORKER_STATES.map((state) => ({
        labels: { state },
        value: Number(announcement.state === state),
      })),
  },
  {
    name: "winnow_worker_memory_bytes",
    help: "Memory that rows, ids and keys occupy, and may occupy",
    labelNames: ["kind"],
    read: ({ announcement }) => [
      { labels: { kind: "used" }, value: announcement.memoryUsedBytes },
      { labels: { kind: "capacity" }, value: announcement.memoryCapacityBytes },
    ],
  },
  {
    name: "winnow_worker_accelerator_info",
    help: "1, with the kind of the accelerator, its device in words, and the kind that was asked for",
    labelNames: ["kind", "device", "asked"],
    read: ({ announcement: { accelerator, device }, askedAccelerator }) => [
      { labels: { kind: accelerator, device, asked: askedAccelerator }, value: 1 },
    ],
  },
  {
    name: "winnow_worker_replicas",
    help: "Partitions on this worker",
    labelNames: ["state"],
    read: ({ assignments }) =>
      REPLICA_STATES.map((state) => ({
        labels: { state },
        value: assignments.reduce((sum, { replicas }) => sum + replicas[state], 0),
      })),
  },
  {
    name: "winnow_worker_load_ratio",
    help: "Part of the worker's assignment of a version that is loaded, by bytes, 0 to 1",
    labelNames: ["model", "version"],
    read: ({ assignments }) =>
      assignments.map(({ model, version, loadedRatio }) => ({
        labels: { model, version: String(version) },
        value: loadedRatio,
      })),
  },
  {
    name: "winnow_model_changed_items",
    help: "Items that the version's file of changes brings a vector of, and those that it removes",
    labelNames: ["model", "version", "kind"],
    read: ({ assignments }) =>
      assignments.flatMap(({ model, version, changes }) => {
        if (changes === undefined) return [];
        const labels = { model, version: String(version) };
        return [
          { labels: { ...labels, kind: "vector" }, value: changes.vectors },
          { labels: { ...labels, kind: "removed" }, value: changes.removed },
        ];
      }),
  },
  {
    name: "winnow_model_version",
    help: "The version that answers by default, as this worker sees it",
    labelNames: ["model"],
    read: ({ announcement }) =>
      announcement.versions
        .filter(({ serving }) => serving === true)
        .map(({ model, version }) => ({ labels: { model }, value: version })),
  },
];
