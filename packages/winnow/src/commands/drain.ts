// `winnow drain`: has one worker hand over its partitions and end, as SIGTERM does, and waits until it has left. It
// reaches the cluster as a router does, through Redis or the list of members, so it needs no router.

import type { Announcement, MembershipView, OrderBook } from "@winnow/cluster";
import { WinnowError, excerpt, silentLogger, sleep, systemClock } from "@winnow/core";
import { type ClusterAccess, type ClusterOptions, openCluster } from "../cluster-access.ts";
import { holdProcess, processEnvironment } from "../process/process-settings.ts";

/** Flags of `winnow drain`. */
export interface DrainOptions extends ClusterOptions {
  /** Seconds to wait for the worker's leave. */
  readonly timeout: number;
  /** Also where no other worker could take over. */
  readonly force?: true;
}

/** Longest wait for the members to answer. */
const LOOK_MS_MAX = 10_000;
const LOOK_INTERVAL_MS = 100;
const SAY_INTERVAL_MS = 5000;
const WORKER_TIMEOUT_MS = 3000;

/**
 * Drains a worker and waits until it is gone; gives the line to print.
 * @throws WinnowError UNAVAILABLE where nobody answers, NOT_FOUND for an unknown worker, FAILED_PRECONDITION where
 * nobody could take over, DEADLINE_EXCEEDED while it still drains, and in the worker's words
 */
export async function runDrain(worker: string, options: DrainOptions): Promise<string> {
  const release = holdProcess();
  const cluster = await openCluster(options, processEnvironment(silentLogger));
  try {
    return await drained(worker, { cluster, options });
  } finally {
    await cluster.close();
    release();
  }
}

interface DrainRun {
  readonly cluster: ClusterAccess;
  readonly options: DrainOptions;
}

async function drained(worker: string, { cluster, options }: DrainRun): Promise<string> {
  const { membership, connector } = cluster;
  let view: MembershipView | undefined;
  membership.watch((seen) => (view = seen));
  const named = (): Announcement | undefined =>
    view?.workers.find((each) => each.workerId === worker);
  await until(() => view?.healthy === true && named() !== undefined, LOOK_MS_MAX);
  const target = targetIn(view, worker);
  if (options.force !== true) assertSuccessors(view!, worker);
  const startedMs = systemClock.nowMs();
  await beginDrain(cluster.openOrders(undefined), connector, target);
  say(`${worker} drains: it answers until others hold its partitions`);
  const isGone = (): boolean =>
    view?.healthy === true && named()?.incarnation !== target.incarnation;
  const elapsed = (): string => ((systemClock.nowMs() - startedMs) / 1000).toFixed(1);
  const endMs = startedMs + options.timeout * 1000;
  while (!isGone()) {
    const leftMs = endMs - systemClock.nowMs();
    if (leftMs <= 0) {
      const text = `${worker} still drains after ${elapsed()} s, and goes on without being watched`;
      throw new WinnowError("DEADLINE_EXCEEDED", text);
    }
    await until(isGone, Math.min(SAY_INTERVAL_MS, leftMs));
    if (!isGone()) say(`${worker} still answers after ${elapsed()} s`);
  }
  return `${worker} has left after ${elapsed()} s`;
}

async function beginDrain(
  orders: OrderBook,
  connector: ClusterAccess["connector"],
  { workerId, incarnation, address }: Announcement,
): Promise<void> {
  const signed = orders.signDrain({ workerId, incarnation });
  try {
    await connector.drainWorker(address, signed, WORKER_TIMEOUT_MS);
  } catch (error) {
    if (!(error instanceof WinnowError) || error.code !== "UNIMPLEMENTED") throw error;
    const text = `The release that ${workerId} runs takes no orders to drain: send SIGTERM to its process`;
    throw new WinnowError("UNIMPLEMENTED", text, { cause: error });
  }
}

function targetIn(view: MembershipView | undefined, worker: string): Announcement {
  if (view?.healthy !== true) {
    throw new WinnowError("UNAVAILABLE", "Neither Redis nor any listed member answers");
  }
  const found = view.workers.find((each) => each.workerId === worker);
  if (found !== undefined) return found;
  if (view.silent.some((each) => each.workerId === worker)) {
    throw new WinnowError("UNAVAILABLE", `Worker ${excerpt(worker)} does not answer`);
  }
  const names = view.workers.map(({ workerId }) => workerId);
  const there = names.length === 0 ? "no worker is there" : `there are ${names.join(", ")}`;
  throw new WinnowError("NOT_FOUND", `There is no worker "${excerpt(worker)}"; ${there}`);
}

/** A worker without successors would leave its partitions to nobody. */
function assertSuccessors({ workers }: MembershipView, worker: string): void {
  const others = workers.filter((each) => each.workerId !== worker && each.state === "ready");
  if (others.length > 0) return;
  const text = `No other worker is ready to take over from ${worker}: start one, or say --force to lose what it serves`;
  throw new WinnowError("FAILED_PRECONDITION", text);
}

const say = (line: string): void => void process.stderr.write(`${line}\n`);

async function until(isDone: () => boolean, waitMs: number): Promise<void> {
  const endMs = systemClock.nowMs() + waitMs;
  while (!isDone() && systemClock.nowMs() < endMs) await sleep(systemClock, LOOK_INTERVAL_MS);
}
