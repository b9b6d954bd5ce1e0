// `winnow drain`: has one worker hand over its partitions and exit, as SIGTERM does, and waits until it has
// left. It reaches the cluster as a router does, through Redis or the list of members, so it needs no router.

import type { Announcement, MembershipView } from "@winnow/cluster";
import { WinnowError, excerpt, silentLogger, systemClock } from "@winnow/core";
import { type ClusterAccess, type ClusterOptions, openCluster } from "../access/cluster-access.ts";
import { MemberWatch } from "../access/member-watch.ts";
import { holdProcess, processEnvironment } from "../process/process-settings.ts";

/** Flags of `winnow drain`. */
export interface DrainOptions extends ClusterOptions {
  /** Seconds to wait until the worker has left. */
  readonly timeout: number;
  /** Also if no other worker could take over. */
  readonly force?: true;
}

const SAY_INTERVAL_MS = 5000;
const WORKER_TIMEOUT_MS = 3000;

/**
 * Drains a worker and waits until it is gone; gives the line to print.
 * @throws WinnowError UNAVAILABLE if nobody answers, NOT_FOUND for an unknown worker, FAILED_PRECONDITION if
 * no other worker could take over, DEADLINE_EXCEEDED while it is still draining, and the worker's own errors
 */
export async function runDrain(worker: string, options: DrainOptions): Promise<string> {
  const release = holdProcess();
  const cluster = await openCluster(options, processEnvironment(silentLogger));
  try {
    return await drained(worker, cluster, options);
  } finally {
    await cluster.close();
    release();
  }
}

async function drained(
  worker: string,
  cluster: ClusterAccess,
  options: DrainOptions,
): Promise<string> {
  const members = new MemberWatch(cluster.membership);
  const isNamed = (each: Announcement): boolean => each.workerId === worker;
  await members.until(({ workers }) => workers.some(isNamed));
  const target = targetIn(members.view, worker);
  if (options.force !== true) assertSuccessors(members.view, worker);
  const startedMs = systemClock.nowMs();
  await beginDrain(cluster, target);
  say(`${worker} drains: it answers until others hold its partitions`);
  let isGone = false;
  const elapsed = (): string => ((systemClock.nowMs() - startedMs) / 1000).toFixed(1);
  const endMs = startedMs + options.timeout * 1000;
  for (;;) {
    await members.until(
      ({ workers }) => (isGone = workers.find(isNamed)?.incarnation !== target.incarnation),
      Math.min(SAY_INTERVAL_MS, endMs - systemClock.nowMs()),
    );
    if (isGone) return `${worker} has left after ${elapsed()} s`;
    if (systemClock.nowMs() >= endMs) {
      const text = `${worker} still drains after ${elapsed()} s, and goes on without being watched`;
      throw new WinnowError("DEADLINE_EXCEEDED", text);
    }
    say(`${worker} still answers after ${elapsed()} s`);
  }
}

async function beginDrain(
  cluster: ClusterAccess,
  { workerId, incarnation, address }: Announcement,
): Promise<void> {
  const signed = cluster.openOrders(undefined).signDrain({ workerId, incarnation });
  try {
    await cluster.connector.drainWorker(address, signed, WORKER_TIMEOUT_MS);
  } catch (error) {
    if (!(error instanceof WinnowError) || error.code !== "UNIMPLEMENTED") throw error;
    const text = `The release that ${workerId} runs takes no orders to drain: send SIGTERM to its process`;
    throw new WinnowError("UNIMPLEMENTED", text, { cause: error });
  }
}

function targetIn(view: MembershipView, worker: string): Announcement {
  const found = view.workers.find((each) => each.workerId === worker);
  if (found !== undefined) return found;
  if (view.silent.some((each) => each.workerId === worker)) {
    throw new WinnowError("UNAVAILABLE", `Worker ${excerpt(worker)} does not answer`);
  }
  const names = view.workers.map(({ workerId }) => workerId);
  const there = names.length === 0 ? "no worker is there" : `there are ${names.join(", ")}`;
  throw new WinnowError("NOT_FOUND", `There is no worker "${excerpt(worker)}"; ${there}`);
}

/** Refuses a drain that would leave partitions without a worker. */
function assertSuccessors({ workers }: MembershipView, worker: string): void {
  const others = workers.filter((each) => each.workerId !== worker && each.state === "ready");
  if (others.length > 0) return;
  const text = `No other worker is ready to take over from ${worker}: start one, or say --force to lose what it serves`;
  throw new WinnowError("FAILED_PRECONDITION", text);
}

const say = (line: string): void => void process.stderr.write(`${line}\n`);
