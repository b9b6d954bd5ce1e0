// `winnow order`: shows the models order in force and who follows it, and withdraws it. It reaches
// the cluster as a router does, through Redis or the list of members, so it needs no router.

import { hostname } from "node:os";
import type { MembershipView, ModelsOrder, OrderBook, OrderedModel } from "@winnow/cluster";
import { isAbove, isSameOrder } from "@winnow/cluster";
import { WinnowError, silentLogger } from "@winnow/core";
import { type ClusterAccess, type ClusterOptions, openCluster } from "../access/cluster-access.ts";
import { MemberWatch } from "../access/member-watch.ts";
import { holdProcess, processEnvironment, wallClock } from "../process/process-settings.ts";

/** Flags of `winnow order`. */
export interface OrderOptions extends ClusterOptions {
  readonly withdraw?: true;
}

const WORKER_TIMEOUT_MS = 3000;

/**
 * Shows the order, or withdraws it; gives the text to print.
 * @throws WinnowError UNAVAILABLE where nobody answers, NOT_FOUND without an order
 */
export async function runOrder(options: OrderOptions): Promise<string> {
  const release = holdProcess();
  const cluster = await openCluster(options, processEnvironment(silentLogger));
  try {
    return await withOrder(cluster, options.withdraw === true);
  } finally {
    await cluster.close();
    release();
  }
}

async function withOrder(cluster: ClusterAccess, isWithdrawal: boolean): Promise<string> {
  const orders = cluster.openOrders(undefined);
  const members = new MemberWatch(cluster.membership);
  await orders.open();
  await members.until(() => true);
  await learn(cluster, orders, members.view);
  if (orders.newest === undefined) {
    throw new WinnowError(
      "NOT_FOUND",
      "No order of models was given: workers follow their own flags",
    );
  }
  if (isWithdrawal && orders.newest.models !== undefined) {
    const { workers } = members.view;
    if (workers.length === 0) throw new WinnowError("UNAVAILABLE", "No worker answers");
    await orders.make(undefined, { author: { by: `winnow on ${hostname()}`, at: wallClock() } });
    await tell(cluster, orders, members.view);
    await members.until((view) =>
      view.workers.every(({ order }) => isSameOrder(order, orders.newest)),
    );
  }
  return orderText(orders.newest, members.view);
}

/** Fetches the highest order that any worker follows, if it is above the one in the store. */
async function learn(
  { connector }: ClusterAccess,
  orders: OrderBook,
  { workers }: MembershipView,
): Promise<void> {
  for (const { workerId, address, order } of workers) {
    if (order === undefined || !isAbove(order, orders.newest)) continue;
    const signed = await connector.askOrder(address, WORKER_TIMEOUT_MS).catch(() => undefined);
    if (signed !== undefined) await orders.offer(signed, workerId);
  }
}

/** Tells the workers of the order; one that is not reached learns of it from Redis or a router. */
async function tell(
  { connector }: ClusterAccess,
  orders: OrderBook,
  { workers }: MembershipView,
): Promise<void> {
  const message = { kind: "order", signed: orders.signed()! } as const;
  const told = await Promise.allSettled(
    workers.map(({ address }) => connector.tellOrder(address, message, WORKER_TIMEOUT_MS)),
  );
  const failed = told.filter((each) => each.status === "rejected");
  if (failed.length === workers.length) throw failed[0]!.reason as Error;
}

/** An order and its followers, for people. */
function orderText(
  order: ModelsOrder,
  { workers, silent }: Pick<MembershipView, "workers" | "silent">,
): string {
  const { number, at, by, models } = order;
  const title = `order ${number}, given ${at} by ${by}`;
  const head =
    models === undefined ? `${title}: withdrawn, processes follow their own flags` : title;
  const said = workers.map(({ workerId, order: followed }) => {
    if (isSameOrder(followed, order)) return `worker ${workerId} follows it`;
    const instead = followed === undefined ? "no order" : `order ${followed.number}`;
    return `worker ${workerId} follows ${instead}`;
  });
  const away = silent.map(({ workerId }) => `worker ${workerId} does not answer`);
  return [head, ...(models ?? []).map(modelText), ...said, ...away].join("\n");
}

function modelText({ model, basePath, policy, labels }: OrderedModel): string {
  const versions = {
    all: "all versions",
    latest: policy.kind === "latest" ? `latest ${policy.count}` : "",
    specific: policy.kind === "specific" ? `versions ${policy.versions.join(", ")}` : "",
  }[policy.kind];
  const named = [...labels].map(([label, version]) => `${label} = ${version}`);
  return [`model ${model} in ${basePath}`, versions, ...named].join(", ");
}
