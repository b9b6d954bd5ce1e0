// Requests to the simulated cluster at random times, whether or not earlier ones were answered, and
// the judgement of every answer: exact for the version it names, or wrong.

import { WinnowError, parseFilter, stringTensor, tensor, toWinnowError } from "@winnow/core";
import type { JsonValue, Tensor, TensorOf } from "@winnow/core";
import { RequestContext } from "@winnow/router";
import type { PinnedModel, Prediction, Router } from "@winnow/router";
import { GROUPS, LABEL, MODEL, SIGNATURE_K } from "./simulated-models.ts";
import type { VersionContent } from "./simulated-models.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { RouterPlace } from "./simulated-routers.ts";
import type { SimulatedWorld } from "./simulated-world.ts";
import { between, oneOf, seededRandom } from "./virtual-time.ts";
import type { Random } from "./virtual-time.ts";

/** What became of all requests. */
export interface RequestCounts {
  asked: number;
  exact: number;
  partial: number;
  failed: number;
}

interface Wish {
  readonly users: readonly number[];
  readonly version: number | undefined;
  readonly label: string | undefined;
  readonly k: number | undefined;
  /**
   * How many of a user's best items are excluded: nothing, one number for the best of the first user
   * and for everybody, or one number for each.
   */
  readonly excluded: readonly number[];
  /** Of all users, or of each; `undefined` for none. */
  readonly filters: readonly FilterChoice[];
  /** Whether the groups of the items are wanted with them. */
  readonly wantsGroups: boolean;
  readonly allowPartial: boolean;
  readonly timeoutMs: number;
  /** The client goes away then. */
  readonly leavesAfterMs: number;
}

/** A filter of a request, and which rows of a content it admits. */
interface FilterChoice {
  readonly filter: JsonValue;
  readonly admits: (content: VersionContent, row: number) => boolean;
}

interface SentWish extends Wish {
  /** The ids that were excluded: of the newest content, whichever one answers. */
  readonly exclude: readonly TensorOf<"string">[] | undefined;
}

/** A deadline may be missed by so much, and by what timers are late. */
/** A router that stood still has heard of everything by then. */
const CATCH_UP_MS = 500;
const DEADLINE_SLACK_MS = 50;

/** Asks until it is told to stop. */
export class CheckedRequests {
  readonly counts: RequestCounts = { asked: 0, exact: 0, partial: 0, failed: 0 };
  /** Failures are violations: each partition has a healthy replica. */
  isSuccessDue = false;
  readonly #world: SimulatedWorld;
  readonly #random: Random;
  /** Of their own: what else is asked does not depend on filters. */
  readonly #filterRandom: Random;
  /** Whether any request of this run has filters. */
  readonly #hasFilters: boolean;
  /** The processes that requests without an end run on. */
  readonly #open = new Set<{ readonly process: SimulatedProcess }>();
  #isStopped = false;

  constructor(world: SimulatedWorld) {
    this.#world = world;
    this.#random = seededRandom(world.scenario.seed, "requests");
    this.#filterRandom = seededRandom(world.scenario.seed, "filters");
    this.#hasFilters = this.#filterRandom() < 0.5;
  }

  /** Requests without an end; those of a process that died have one. */
  get open(): number {
    return [...this.#open].filter(({ process }) => process.state !== "dead").length;
  }

  /** Asks so many times at once, of all routers. */
  burst(count: number): void {
    for (let asked = 0; asked < count; asked += 1) this.#ask();
  }

  run(): void {
    if (this.#isStopped) return;
    const gapMs = (-Math.log(1 - this.#random()) * 1000) / this.#world.scenario.requestsPerSecond;
    this.#world.time.after(gapMs, () => {
      this.#ask();
      this.run();
    });
  }

  stop(): void {
    this.#isStopped = true;
  }

  #ask(): void {
    const wish = this.#wish();
    const choice = this.#random();
    const places = this.#world.routers.filter((place) => place.takesRequests);
    if (places.length === 0 || this.#isStopped) return;
    const place = places[Math.floor(choice * places.length)]!;
    const { router, process } = place;
    process!.receive(() => void this.#run({ place, router: router!, process: process! }, wish));
  }

  #wish(): Wish {
    const random = this.#random;
    const { users } = this.#world.scenario.size;
    const isSafety = this.#world.scenario.mode === "safety";
    const count = 1 + Math.floor(random() * 3);
    const isLabelled = this.#world.label !== undefined && random() < 0.2;
    return {
      // One more than there are: a user that nobody knows.
      users: Array.from({ length: count }, () => Math.floor(random() * (users + 1))),
      version: !isLabelled && random() < 0.1 ? 1 + Math.floor(random() * 4) : undefined,
      label: isLabelled ? LABEL : undefined,
      k: random() < 0.3 ? 1 + Math.floor(random() * 60) : undefined,
      excluded: this.#excluded(count),
      ...this.#filtered(count),
      allowPartial: isSafety && random() < 0.2,
      leavesAfterMs: random() < 0.05 ? random() * 30 : Infinity,
      timeoutMs: isSafety ? oneOf(random, [100, 600, 3000]) : between(random, 4000, 6000),
    };
  }

  /** In half of the runs, and there of three quarters of the requests, none. */
  #filtered(users: number): Pick<Wish, "filters" | "wantsGroups"> {
    if (!this.#hasFilters) return { filters: [], wantsGroups: false };
    const random = this.#filterRandom;
    const wantsGroups = random() < 0.15;
    if (random() < 0.75) return { filters: [], wantsGroups };
    const length = random() < 0.5 ? 1 : users;
    return { filters: Array.from({ length }, () => this.#filter()), wantsGroups };
  }

  /** Admits a third of the items, the few first ones, those without a group, all or none. */
  #filter(): FilterChoice {
    const random = this.#filterRandom;
    const group = oneOf(random, GROUPS);
    const below = Math.floor(random() * (this.#world.scenario.size.items + 1));
    const is = (content: VersionContent, row: number) => content.groupOf(row) === group;
    return oneOf<FilterChoice>(random, [
      { filter: new Map([["group", group]]), admits: is },
      {
        filter: new Map<string, JsonValue>([
          ["group", new Map([["$ne", group]])],
          ["row", new Map([["$lt", below]])],
        ]),
        admits: (content, row) => !is(content, row) && row < below,
      },
      { filter: new Map([["group", null]]), admits: ({ size }, row) => row >= size.items - 2 },
      { filter: new Map([["row", new Map([["$gte", 0]])]]), admits: () => true },
      { filter: new Map([["row", -1]]), admits: () => false },
    ]);
  }

  /** Sometimes more than leaves k items, or any. */
  #excluded(users: number): readonly number[] {
    const random = this.#random;
    if (random() < 0.7) return [];
    const { items } = this.#world.scenario.size;
    const many = (): number => Math.floor(random() * (random() < 0.3 ? items + 1 : 8));
    return Array.from({ length: random() < 0.5 ? 1 : users }, many);
  }

  async #run(
    at: {
      readonly place: RouterPlace;
      readonly router: Router;
      readonly process: SimulatedProcess;
    },
    wish: Wish,
  ): Promise<void> {
    const { router, process } = at;
    const world = this.#world;
    this.counts.asked += 1;
    this.#open.add(at);
    const startMs = world.time.nowMs;
    const isDefault = wish.version === undefined && wish.label === undefined;
    const isSuccessDue = this.isSuccessDue && isDefault;
    const pausesBefore = process.pauses;
    const context = this.#contextOf(process, wish);
    let outcome = "";
    let isOutdated = false;
    try {
      const pinned = await router.pin({
        model: MODEL,
        version: wish.version,
        label: wish.label,
      });
      const hasJustResumed = startMs - process.resumedMs <= CATCH_UP_MS;
      isOutdated = hasJustResumed && this.#isGone(pinned, at.place.name);
      try {
        outcome = await this.#predict({ router, pinned }, wish, context);
      } finally {
        pinned.release();
      }
    } catch (thrown) {
      outcome = this.#failed(
        thrown,
        isSuccessDue &&
          process.pauses === pausesBefore &&
          !isOutdated &&
          !context.signal.aborted &&
          at,
      );
    }
    context.finish();
    this.#open.delete(at);
    if (process.state === "dead") return;
    const elapsedMs = world.time.nowMs - startMs;
    const slackMs = DEADLINE_SLACK_MS + 4 * (world.unkindness.lateMs + world.unkindness.hiccupMs);
    if (elapsedMs > wish.timeoutMs + slackMs && process.pauses === pausesBefore) {
      world.violate("L2", `${elapsedMs} ms of ${wish.timeoutMs}: ${outcome}`);
    }
    world.note(process.name, `answered ${outcome}`, undefined);
  }

  /** Asks for one version, and judges the answer by what that version is. */
  async #predict(
    at: {
      readonly router: Router;
      readonly pinned: PinnedModel;
    },
    wish: Wish,
    context: RequestContext,
  ): Promise<string> {
    const { router, pinned } = at;
    const { disk, labelled } = this.#world;
    const contents = disk.contentsOf(pinned.version);
    const exclude = excludedIds(contents.at(-1)!, wish);
    const isMeant =
      wish.label === undefined
        ? wish.version === undefined || wish.version === pinned.version
        : labelled.has(pinned.version);
    if (!isMeant) {
      this.#world.violate("S4", `asked ${wish.label ?? wish.version}, pinned ${pinned.version}`);
    }
    const prediction = await router.predict(pinned, {
      signature: pinned.program.signatures[0]!,
      inputs: new Map([["user", userTensor(wish.users)]]),
      context,
      k: wish.k,
      exclude,
      filter: wish.filters.map(({ filter }) => parseFilter(filter)),
      attributes: wish.wantsGroups ? ["group"] : [],
      allowPartial: wish.allowPartial,
    });
    const { version, fingerprint } = prediction.version;
    if (wish.version !== undefined && wish.version !== version) {
      this.#world.violate("S4", `asked ${wish.version}, answered by ${version}`);
    }
    // Where no other worker is left, the copy of one is all there is, swapped lines and all.
    const content = disk
      .contentsOf(version)
      .find((each) => each.userIn(fingerprint, 0) !== undefined);
    if (content === undefined) {
      this.#world.violate("S7", `version ${version} is served with a vocabulary that was cut`);
      return `${version} of a spoilt file`;
    }
    const users = wish.users.map((user) => content.userIn(fingerprint, user)!);
    return `${version} ${this.#judge(prediction, content, { ...wish, users, exclude })}`;
  }

  /**
   * Whether no worker that a router can reach holds a replica of each partition of what a request is
   * pinned to. A router that stood still while a version was swapped, or its files replaced, takes
   * requests on by the former one for the moment until it hears of it; workers that were restarted
   * meanwhile do not have that any more, and of those that do the router may be cut off.
   */
  #isGone({ program }: PinnedModel, router: string): boolean {
    const { network, staff } = this.#world;
    const holdings = staff.flatMap(({ worker, address }) => {
      const { toWorker, toClient } = network.link(router, address).cut;
      if (toWorker || toClient) return [];
      const versions = worker?.announcement().versions ?? [];
      return versions.filter(({ fingerprint }) => fingerprint === program.fingerprint);
    });
    return program.tables.some((spec, table) => {
      const held = new Set(
        holdings.flatMap(({ tables }) =>
          tables
            .filter((each) => each.table === table)
            .flatMap((each) => each.held.map(({ partition }) => partition)),
        ),
      );
      return held.size < spec.partitions;
    });
  }

  /** Of a client that may go away before it has an answer. */
  #contextOf(process: SimulatedProcess, { leavesAfterMs, timeoutMs }: Wish): RequestContext {
    const context = new RequestContext(process, { timeoutMs });
    if (leavesAfterMs === Infinity) return context;
    this.#world.time.after(leavesAfterMs, () =>
      process.receive(() => context.abort(() => new WinnowError("CANCELLED", "The client left"))),
    );
    return context;
  }

  #failed(
    thrown: unknown,
    due: false | { readonly place: RouterPlace; readonly process: SimulatedProcess },
  ): string {
    const error = toWinnowError(thrown);
    this.counts.failed += 1;
    const text = `${error.code} ${error.message}`;
    if (due !== false && due.process.state !== "dead") {
      this.#world.violate("L1", `${due.process.name}: ${text}`);
    }
    if (!(thrown instanceof WinnowError) || error.code === "INTERNAL") {
      this.#world.violate("bug", `${text}\n${String(error.stack)}`);
    }
    return text;
  }

  #judge(
    { outputs, coverage, attributes }: Prediction,
    content: VersionContent,
    wish: SentWish,
  ): string {
    const scores = outputs.get("output_1");
    const ids = outputs.get("output_2");
    if (scores?.dtype !== "float32" || ids?.dtype !== "string") {
      this.#world.violate("S3", "outputs of other types");
      return "";
    }
    const lists = listsOf(scores, ids.data.toText());
    this.#judgeGroups(attributes, ids, { content, wish });
    const isWhole = coverage === 1;
    if (!isWhole && !wish.allowPartial) this.#world.violate("S6", `coverage ${coverage}`);
    for (const [at, user] of wish.users.entries()) {
      const found = lists[at]!;
      const admits = admissionOf(wish, at);
      const problem = isWhole
        ? differsFrom(found, bestOf(content, user, { admits, k: wish.k ?? SIGNATURE_K }))
        : impossibleIn(found, bestOf(content, user, { admits, k: Infinity }));
      if (problem === undefined) continue;
      const title = `version ${content.version} user ${user} coverage ${coverage}`;
      this.#world.violate("S1", `${title}: ${problem}`);
    }
    this.counts[isWhole ? "exact" : "partial"] += 1;
    return `exact ${coverage}`;
  }

  /** Each item has the group that this very content gives it. */
  #judgeGroups(
    attributes: Tensor | undefined,
    ids: TensorOf<"string">,
    { content, wish }: { readonly content: VersionContent; readonly wish: Wish },
  ): void {
    if (!wish.wantsGroups) return;
    const best = content.best(0);
    const rowOf = new Map(best.ids.map((id, at) => [id, best.rows[at]!]));
    const texts = attributes?.dtype === "string" ? attributes.data.toText() : [];
    const expected = ids.data.toText().map((id) => {
      // Positions that no item fills are empty.
      if (id === "") return "";
      return JSON.stringify({ group: content.groupOf(rowOf.get(id) ?? 0) ?? null });
    });
    if (texts.join() === expected.join()) return;
    this.#world.violate("S1", `groups ${texts.join()} instead of ${expected.join()}`);
  }
}

interface Item {
  readonly id: string;
  readonly score: number;
}

/** The list of each user: scores are `[users, columns]`, ragged or not. */
function listsOf({ shape, data, rowLengths }: TensorOf<"float32">, names: string[]): Item[][] {
  const [users, columns] = shape as readonly [number, number];
  return Array.from({ length: users }, (_, at) =>
    Array.from({ length: rowLengths?.[at] ?? columns }, (_, rank) => ({
      id: names[at * columns + rank]!,
      score: data[at * columns + rank]!,
    })),
  );
}

const userTensor = (users: readonly number[]): Tensor =>
  tensor(
    "int64",
    [users.length],
    BigInt64Array.from(users, (user) => BigInt(user)),
  );

function excludedIds(
  content: VersionContent,
  { users, excluded }: Wish,
): TensorOf<"string">[] | undefined {
  if (excluded.length === 0) return undefined;
  return excluded.map((count, at) => stringTensor(content.best(users[at]!).ids.slice(0, count)));
}

type Admission = (content: VersionContent, item: { id: string; row: number }) => boolean;

/** What may be found for the user at this place of the request. */
function admissionOf({ exclude = [], filters }: SentWish, at: number): Admission {
  const excluded = new Set(exclude[exclude.length > 1 ? at : 0]?.data.toText());
  const filter = filters[filters.length > 1 ? at : 0];
  return (content, { id, row }) =>
    !excluded.has(id) && (filter === undefined || filter.admits(content, row));
}

function bestOf(
  content: VersionContent,
  user: number,
  { admits, k }: { readonly admits: Admission; readonly k: number },
): Item[] {
  const { ids, scores, rows } = content.best(user);
  const all = ids.map((id, at) => ({ id, score: scores[at]!, row: rows[at]! }));
  return all.filter((item) => admits(content, item)).slice(0, k);
}

function differsFrom(found: readonly Item[], expected: readonly Item[]): string | undefined {
  const isSame =
    found.length === expected.length &&
    expected.every(({ id, score }, at) => found[at]!.id === id && found[at]!.score === score);
  if (isSame) return undefined;
  return `${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`;
}

/** A partial answer is a part of the right order. */
function impossibleIn(found: readonly Item[], all: readonly Item[]): string | undefined {
  let from = 0;
  for (const { id, score } of found) {
    const at = all.findIndex((item, index) => index >= from && item.id === id);
    if (at < 0 || all[at]!.score !== score) return `"${id}" ${score} is wrong or out of order`;
    from = at + 1;
  }
  return undefined;
}
