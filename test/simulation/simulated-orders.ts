// Models orders in the simulated world. Routers give them while any fault may happen, and state files keep
// them across crashes. Once all members that were there have followed an order it counts as promised: from
// then on no member may end with a lower one.

import { OrderBook, RefusedRecords, isAbove, isSameOrder, noSecret } from "@winnow/cluster";
import type { MembershipStore, OrderMark, OrderedModels, StateFile } from "@winnow/cluster";
import { RedisMembership } from "@winnow/cluster";
import { RequestContext } from "@winnow/router";
import { LABEL, MODEL } from "./simulated-models.ts";
import type { RouterPlace } from "./simulated-routers.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { SimulatedWorld } from "./simulated-world.ts";

const DEADLINE_MS = 10_000;
const LOOK_MS = 50;

/** What was ordered, and what each place has on its disk. */
export class SimulatedOrders {
  readonly #world: SimulatedWorld;
  readonly #files = new Map<string, string>();
  #promised: OrderMark | undefined;

  constructor(world: SimulatedWorld) {
    this.#world = world;
  }

  /** The order that a process of this place knows. */
  bookOf(process: SimulatedProcess, place: string, membership: MembershipStore): OrderBook {
    const { environment } = process;
    const store = membership instanceof RedisMembership ? membership.orders : undefined;
    const refused = new RefusedRecords(environment.log);
    const file = this.#fileOf(process, place);
    return new OrderBook({
      environment,
      cluster: "default",
      secret: noSecret(),
      refused,
      store,
      file,
    });
  }

  /** Orders the models that are served anyway, with another label, or withdraws the order. Never rejects. */
  async give(place: RouterPlace, version: number | undefined): Promise<void> {
    const { router, process } = place;
    if (router === undefined || process?.state !== "running") return;
    const world = this.#world;
    const context = new RequestContext(process, { timeoutMs: DEADLINE_MS });
    try {
      if (version !== undefined) world.labelled.add(version);
      const author = { by: process.name, at: String(world.time.nowMs) };
      const order = await router.orders.give(this.#modelsOf(version), author, context);
      world.note(process.name, `gave order ${order.number}`, { version });
      this.#promiseLater(place, process, order);
    } catch (error) {
      world.note(process.name, "order refused", { error: String(error) });
    } finally {
      context.finish();
    }
  }

  /** All must follow one order, and none a lower one than was promised. */
  checkHealed(): void {
    const world = this.#world;
    const known = [
      ...world.staff.map(({ name, worker }) => [name, worker?.announcement().order] as const),
      ...world.routers.map(({ name, router }) => [name, router?.orders.newest] as const),
    ];
    const [, first] = known[0]!;
    if (!known.every(([, order]) => isSameOrder(order, first))) {
      const texts = known.map(([name, order]) => `${name}: ${order?.number} ${order?.id}`);
      world.violate("L7", `not all follow one order: ${texts.join(", ")}`);
    }
    const promised = this.#promised;
    if (promised === undefined || isSameOrder(first, promised)) return;
    if (first === undefined || isAbove(promised, first)) {
      world.violate("L7", `order ${first?.number} is followed, ${promised.number} was promised`);
    }
  }

  /** Like a client that waits for the answer to its order. */
  #promiseLater(place: RouterPlace, process: SimulatedProcess, order: OrderMark): void {
    this.#world.time.after(LOOK_MS, () => {
      if (place.process !== process || process.state !== "running") return;
      const isLast = isSameOrder(place.router?.orders.newest, order);
      if (place.router === undefined || !isLast) return;
      const isFollowed = place.router.orders.laggards(order).every(({ isLive }) => !isLive);
      if (!isFollowed) return this.#promiseLater(place, process, order);
      this.#world.note(process.name, `promised order ${order.number}`, undefined);
      if (isAbove(order, this.#promised)) this.#promised = { number: order.number, id: order.id };
    });
  }

  #modelsOf(version: number | undefined): OrderedModels {
    if (version === undefined) return undefined;
    const policy = { kind: "latest", count: this.#world.scenario.versionsKept } as const;
    const labels = new Map([[LABEL, version]]);
    return [{ model: MODEL, basePath: `/models/${MODEL}`, policy, labels }];
  }

  #fileOf(process: SimulatedProcess, place: string): StateFile {
    const files = this.#files;
    return {
      read: async () => files.get(place),
      write: async (text) => {
        if (process.state !== "dead") files.set(place, text);
      },
    };
  }
}
