// How much of its own CPU does a router spend on a retrieval (lookup, search, merge) over 3 workers?
// 16 partitions, 2 replicas, 1 instance, k = 100, string ids; replies are made beforehand and come
// back in the next turn without gRPC, so what is measured is the router's code and its channels.

import type { Tensor } from "@winnow/core";
import { encodeProgramPackage, silentLogger, systemClock, tensor } from "@winnow/core";
import type {
  Announcement,
  FrameHandlers,
  MembershipStore,
  RouterFrame,
  WorkerConnector,
  WorkerQuery,
  WorkerReply,
} from "@winnow/cluster";
import { bench, describe } from "vitest";
import type { FakeData } from "./doubles/fake-cluster.ts";
import { answerOf, fakeData, FakeWorker } from "./doubles/fake-cluster.ts";
import { FakeMembership } from "./doubles/fake-network.ts";
import { benchProgram } from "./fixtures/router-bench.ts";
import { generator } from "./fixtures/query-bench.ts";
import type { PinnedModel } from "./predictor.ts";
import { RequestContext } from "./request-context.ts";
import { createRouter } from "./router.ts";

const ROWS = 20_000;
const PARTITIONS = 16;
const K = 100;

/** Answers each distinct question once by brute force, and then from memory. */
class RememberingNetwork implements WorkerConnector {
  readonly #answers = new Map<string, WorkerReply["answer"]>();
  readonly #data: FakeData;
  readonly #workers: readonly FakeWorker[];

  constructor(data: FakeData, workers: readonly FakeWorker[]) {
    this.#data = data;
    this.#workers = workers;
  }

  open(address: string, handlers: FrameHandlers): ReturnType<WorkerConnector["open"]> {
    const worker = this.#workers.find((each) => each.address === address)!;
    const send = (frame: RouterFrame): boolean => {
      setImmediate(() => this.#receive(worker, handlers, frame));
      return true;
    };
    return { send, end: () => undefined, cancel: () => undefined };
  }

  describe(): Promise<Announcement> {
    return Promise.reject(new Error("not asked here"));
  }

  program(): Promise<Uint8Array> {
    const program = benchProgram(this.#data, K);
    return Promise.resolve(encodeProgramPackage({ program, inlineTables: new Map() }));
  }

  tellOrder(): Promise<void> {
    return Promise.reject(new Error("not asked here"));
  }

  askOrder(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  forget(): void {}

  close(): void {}

  #receive(worker: FakeWorker, handlers: FrameHandlers, frame: RouterFrame): void {
    if (frame.kind === "hello") {
      handlers.onFrame({ kind: "state", announcement: worker.announcement() });
    } else if (frame.kind === "queries") {
      const replies = frame.queries.map((query) => this.#reply(worker, query));
      handlers.onFrame({ kind: "replies", replies });
    } else if (frame.kind === "ping") {
      const { sequence } = frame;
      const pong = { sequence, queueRows: 0, progress: 1, stalled: false };
      handlers.onFrame({ kind: "pong", pong });
    }
  }

  #reply(worker: FakeWorker, query: WorkerQuery): WorkerReply {
    const { ask, partitions } = query;
    const keys = ask.kind === "lookup" && ask.keys.dtype === "int64" ? ask.keys.data : undefined;
    const asked = ask.kind === "topK" ? ask.vectors.join() : keys?.join();
    const name = `${partitions.join()}|${asked}`;
    let answer = this.#answers.get(name);
    if (answer === undefined) {
      answer = answerOf(this.#data, { question: query, held: worker.held });
      this.#answers.set(name, answer);
    }
    return { id: query.id, queueUs: 100, computeUs: 500, answer };
  }
}

const data = fakeData({ rows: ROWS, dim: 32, partitions: PARTITIONS }, generator(1));
const all = Array.from({ length: PARTITIONS }, (_, partition) => partition);
const workers = [0, 1, 2].map(
  (index) =>
    new FakeWorker(systemClock, data, {
      id: `w${index}`,
      held: all.filter((partition) => partition % 3 !== index),
    }),
);
const membership: MembershipStore & FakeMembership = new FakeMembership();
const router = createRouter(
  {},
  {
    environment: { clock: systemClock, random: generator(2), log: silentLogger },
    connector: new RememberingNetwork(data, workers),
    membership,
    denseEngine: {
      load: () => Promise.reject(new Error("no dense part")),
      close: () => Promise.resolve(),
    },
  },
);
membership.publish(workers.map((worker) => worker.announcement()));
while (!router.ready) {
  await new Promise((resolve) => {
    setTimeout(resolve, 10);
  });
}
const pinned = await router.pin({ model: "movies" });

async function ask(model: PinnedModel, user: number): Promise<unknown> {
  const keys = tensor("int64", [1], BigInt64Array.of(BigInt(user)));
  const context = new RequestContext(systemClock, { timeoutMs: 1000 });
  try {
    return await router.predict(model, {
      signature: model.program.signatures[0]!,
      inputs: new Map<string, Tensor>([["user", keys]]),
      context,
    });
  } finally {
    context.finish();
  }
}

for (let user = 0; user < 64; user += 1) await ask(pinned, user);
let next = 0;

describe("How much CPU does a retrieval cost the router? 3 workers, 16 partitions, k = 100", () => {
  bench("64 requests at a time", async () => {
    await Promise.all(
      Array.from({ length: 64 }, () => {
        next = (next + 1) % 64;
        return ask(pinned, next);
      }),
    );
  });

  bench("the baseline: 64 times the best 100 of 3 × 100 objects, sorted and cut", () => {
    for (let times = 0; times < 64; times += 1) {
      const all = Array.from({ length: 3 * K }, (_, row) => ({ score: (row * 7919) % 1000, row }));
      all.toSorted((a, b) => b.score - a.score || a.row - b.row).slice(0, K);
    }
  });
});
