// What a scenario is: a fault, what is promised while it lasts, and how it is injected. The stage gives
// it the cluster, the links, the models and the load, and keeps the windows: the load runs "before",
// then the scenario's `run` is "during", then all is healed and "after" begins.

import type { ChaosCluster, TopologyName } from "./chaos-cluster.ts";
import type { FaultLinks } from "./links/fault-links.ts";
import type { ModelName, SpoilDirectory } from "./answers/model-content.ts";

/** Themes, in the order of the table. */
type ScenarioGroup =
  | "processes"
  | "network"
  | "versions"
  | "scale"
  | "Redis"
  | "machine"
  | "hostile clients";

/** What holds in every window of a scenario. In any scenario, nothing may be wrong and nothing may hang. */
interface ScenarioPromise {
  /** Requests that may fail. Default 0. */
  readonly failedMax?: number;
  /** Requests that may be refused with 503 and `Retry-After`. Default 0. */
  readonly refusedMax?: number;
  /** Share of the requests that must be exact during the fault. Default: all that neither fail nor are refused. */
  readonly exactRatioMin?: number;
  /** Why the promise is weaker than "every request is answered exactly". */
  readonly because?: string;
}

/** One scenario. */
export interface Scenario {
  /** Chosen by `--only`. */
  readonly name: string;
  /** For the table: what happens. */
  readonly title: string;
  readonly group: ScenarioGroup;
  readonly topology: TopologyName;
  readonly promise?: ScenarioPromise;
  /** Clients send a request again, once, to the other router, when its connection breaks. */
  readonly resends?: boolean;
  /** Seconds that `run` takes when nothing is stretched. */
  readonly seconds: number;
  /** Share of the usual rate. */
  readonly rateShare?: number;
  /** Belongs to the short run. */
  readonly isBrief?: boolean;
  /** How long the cluster may take to be whole again. Default 60 s. */
  readonly wholeWithinMs?: number;
  /** Why it cannot run here; empty where it can. */
  readonly absence?: () => string;
  /** Runs before the load, while nothing is wrong. */
  readonly prepare?: (stage: Stage) => Promise<void>;
  readonly run: (stage: Stage) => Promise<void>;
  /** Runs before "after", and leaves the cluster as the next scenario expects it. Links are healed anyway. */
  readonly heal?: (stage: Stage) => Promise<void>;
}

/** What a scenario works with. */
export interface Stage {
  readonly cluster: ChaosCluster;
  readonly links: FaultLinks;
  readonly models: StagedModels;
  /** From the seed: which worker is hit, in which order. */
  readonly random: () => number;
  /** Reports what happens now; recovery counts from here. */
  readonly inject: (what: string) => void;
  /** How often a short fault is repeated: once, more often in a longer run. */
  readonly rounds: number;
  /** Load goes on for so many seconds, more in a longer run. */
  readonly hold: (seconds: number) => Promise<void>;
  /** Waits until something is true. @throws Error naming it after so long */
  readonly until: (
    what: string,
    isTrue: () => Promise<boolean>,
    withinMs?: number,
  ) => Promise<void>;
  /** Waits until the cluster is whole again, under load. */
  readonly whole: () => Promise<void>;
  /** Changes how many workers a whole cluster has. */
  readonly expectWorkers: (count: number) => void;
  /** SIGTERM, as an update does it; a process that does not end in time, or badly, is a finding. */
  readonly terminate: (name: string) => Promise<void>;
  /** Something that should have happened did not: the scenario fails, but goes on. */
  readonly finding: (text: string) => void;
  /** Sends so many requests for single instances at once. */
  readonly burst: (count: number) => void;
  /** Requests per second; 0 is silence. Without a number, the usual rate. */
  readonly setRate: (perSecond?: number) => void;
  /** Starts hostile clients; the function that it returns ends them and gives their counts. */
  readonly hostile: (attack: string, options?: object) => Promise<() => Promise<string>>;
}

/** The models' folder, as a training job or an operator changes it. */
export interface StagedModels {
  readonly folder: string;
  /** The version that should answer by default. */
  readonly current: Readonly<Record<ModelName, number>>;
  /** Publishes the next version; it becomes the expected default. */
  publish(model: ModelName): void;
  /** Publishes a version that must never answer; gives its number. */
  publishSpoilt(model: ModelName, spoil: SpoilDirectory): number;
  /** Replaces a version's directory by another content of the same number. */
  replaceInPlace(model: ModelName): void;
  /** The next version, to be copied step by step into its final place. */
  beginCopy(model: ModelName): SlowCopy;
  /** Takes a version away. */
  withdraw(model: ModelName, version: number): void;
}

/** A version that is copied as `cp -r` does it: file by file, and each in two halves. */
export interface SlowCopy {
  readonly steps: readonly (() => void)[];
  /** Takes away what was copied. */
  remove(): void;
  /** All steps are done: the version becomes the expected default. */
  finish(): void;
}

/** The items in an order drawn from the seed. */
export function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  const order = [...items];
  for (let at = order.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other]!, order[at]!];
  }
  return order;
}

/** One of the items. */
export function drawn<Item>(items: readonly Item[], random: () => number): Item {
  return items[Math.floor(random() * items.length)]!;
}
