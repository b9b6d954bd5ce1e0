// Links that are cut, broken and slow, in user space everywhere and below TCP where the machine allows.

import { pause } from "../../cluster/running-cluster.ts";
import type { LinkFault } from "../links/fault-link.ts";
import type { CableCut } from "../links/network-namespaces.ts";
import { namespacesAbsence } from "../links/network-namespaces.ts";
import { type Scenario, type Stage, drawn } from "../scenario.ts";

/** One worker's links have a fault for some seconds; links of others do not. */
function workerLinks(name: string, title: string, fault: LinkFault): Scenario {
  return {
    name,
    title,
    group: "network",
    topology: "list",
    seconds: 6,
    run: async (stage) => {
      const victim = drawn(stage.cluster.workers, stage.random);
      await linkFault(stage, new RegExp(`>${victim}$`), fault);
    },
  };
}

async function linkFault(stage: Stage, links: RegExp, fault: LinkFault): Promise<void> {
  stage.inject(`${links.source}: ${JSON.stringify(fault)}`);
  await stage.links.set(links, fault);
  await stage.hold(3);
  stage.inject("healed");
  await stage.links.heal();
  await stage.hold(1);
}

const absence = namespacesAbsence;

function cableCut(name: string, title: string, cut: CableCut): Scenario {
  return {
    name,
    title,
    group: "network",
    topology: "namespaces",
    seconds: 8,
    absence,
    run: async (stage) => {
      const victim = drawn(stage.cluster.workers, stage.random);
      stage.inject(`${victim}: packets lost, ${cut}`);
      stage.cluster.namespaces!.cut(victim, cut);
      await stage.hold(5);
      stage.inject("healed");
      stage.cluster.namespaces!.cut(victim);
      await stage.hold(1);
    },
  };
}

/** Scenarios of this theme. */
export const NETWORK_FAULTS: readonly Scenario[] = [
  { ...workerLinks("link-cut", "a worker cut off, both ways", { hold: "both" }), isBrief: true },
  workerLinks("link-cut-to-worker", "nothing reaches a worker, its answers would pass", {
    hold: "to server",
  }),
  {
    ...workerLinks("link-cut-to-router", "a worker hears everything, nothing it says arrives", {
      hold: "to client",
    }),
    isBrief: true,
  },
  {
    name: "link-cut-one-router",
    title: "one router cut off from one worker, both ways",
    group: "network",
    topology: "list",
    seconds: 6,
    run: (stage) => linkFault(stage, /^router0>w1$/, { hold: "both" }),
  },
  workerLinks("link-refuse", "a worker's port refuses connections", { refuse: true }),
  {
    ...workerLinks("link-reset", "every connection to a worker is reset", { reset: true }),
    isBrief: true,
  },
  {
    name: "link-reset-all",
    title: "all connections between routers and workers reset at once, every second",
    group: "network",
    topology: "list",
    seconds: 6,
    run: async (stage) => {
      for (let count = 0; count < 4 * stage.rounds; count += 1) {
        stage.inject("reset of all connections");
        await stage.links.reset(/^router/);
        await pause(1000);
      }
    },
  },
  workerLinks("link-slow-one", "50 ms more each way to one worker", { delayMs: 50 }),
  {
    name: "link-slow-all",
    title: "50 ms more each way to every worker",
    group: "network",
    topology: "list",
    seconds: 6,
    run: (stage) => linkFault(stage, /^router/, { delayMs: 50 }),
  },
  {
    name: "link-narrow",
    title: "1 MB/s to and from every worker",
    group: "network",
    topology: "list",
    seconds: 6,
    run: (stage) => linkFault(stage, /^router/, { bytesPerSecond: 1_000_000 }),
  },
  cableCut("cable-cut", "packets of a worker lost both ways, below TCP", "both"),
  cableCut("cable-cut-to-worker", "packets to a worker lost, below TCP", "to worker"),
  cableCut("cable-cut-from-worker", "packets from a worker lost, below TCP", "from worker"),
  {
    name: "cable-narrow",
    title: "a worker's cable carries 1 MB/s, below TCP",
    group: "network",
    topology: "namespaces",
    seconds: 6,
    absence,
    run: async (stage) => {
      const victim = drawn(stage.cluster.workers, stage.random);
      stage.inject(`${victim}: 1 MB/s`);
      stage.cluster.namespaces!.limit(victim, 1_000_000);
      await stage.hold(4);
      stage.cluster.namespaces!.limit(victim);
    },
  },
];
