// A whole router over pretended workers, on a manual clock: the retrieval model of the tests is
// `user (row number) → Lookup users → TopK candidates → scores, ids`.

import type {
  InlineTable,
  ModelProgram,
  SignatureProgram,
  Tensor,
  WarmUpRequest,
} from "@winnow/core";
import { ManualClock, silentLogger, tensor } from "@winnow/core";
import type { DenseEngine } from "@winnow/accelerator";
import type { FakeData } from "./fake-cluster.cases.ts";
import { fakeData, idOf, search, version } from "./fake-cluster.cases.ts";
import type { NetworkWorker } from "./fake-network.cases.ts";
import { FakeMembership, FakeNetwork } from "./fake-network.cases.ts";
import type { ModelTarget, Prediction, PredictRequest } from "./predictor.ts";
import { generator } from "./query-bench.cases.ts";
import type { Router, RouterCounters } from "./router.ts";
import { createRouter } from "./router.ts";
import type { RouterObserver } from "./router-observer.ts";
import type { RouterOptions } from "./router-settings.ts";
import type { SavedWorkers } from "./workers/worker-links.ts";

/** What a test says of its router and workers. */
export interface RouterBenchWords {
  /** Held partitions by worker. */
  readonly held: readonly (readonly number[])[];
  readonly partitions?: number;
  readonly rows?: number;
  readonly options?: RouterOptions;
  readonly observer?: RouterObserver;
  /** The users table travels with the program. */
  readonly inline?: boolean;
  readonly denseEngine?: DenseEngine;
  readonly savedWorkers?: SavedWorkers;
  /** ONNX models of the program; the tests' engines do not read them. */
  readonly denseModels?: readonly Uint8Array[];
  /** Requests that come along with the program. */
  readonly warmUp?: readonly WarmUpRequest[];
}

const noDense: DenseEngine = {
  load: () => Promise.reject(new Error("this model has no dense part")),
  close: () => Promise.resolve(),
};

/** Router, network and membership of one test. */
export class RouterBench {
  readonly clock = new ManualClock();
  readonly data: FakeData;
  readonly network: FakeNetwork;
  readonly membership = new FakeMembership();
  readonly workers: NetworkWorker[];
  readonly router: Router;

  constructor(words: RouterBenchWords) {
    const { partitions = 4, rows = 40 } = words;
    const random = generator(3);
    this.data = fakeData({ rows, dim: 3, partitions }, random);
    const program = { ...benchProgram(this.data, 5), denseModels: words.denseModels ?? [] };
    const inlineTables = new Map(words.inline === true ? [[0, inlineUsers(this.data)]] : []);
    const warmUp = words.warmUp ?? [];
    this.network = new FakeNetwork(this.clock, this.data, { program, inlineTables, warmUp });
    this.workers = words.held.map((held, index) => this.network.add(`w${index}`, held));
    this.router = createRouter(
      { hedge: false, ...words.options },
      {
        environment: { clock: this.clock, random, log: silentLogger },
        connector: this.network,
        membership: this.membership,
        denseEngine: words.denseEngine ?? noDense,
        savedWorkers: words.savedWorkers,
        ...(words.observer && { observer: words.observer }),
      },
    );
  }

  /** A bench whose workers are announced and whose router is ready. */
  static async started(words: RouterBenchWords): Promise<RouterBench> {
    const bench = new RouterBench(words);
    bench.announceAll();
    await bench.clock.advanceSettled(100);
    return bench;
  }

  /** The store names every worker that is up. */
  announceAll(): void {
    const up = this.workers.filter((worker) => !worker.down);
    this.membership.publish(up.map((worker) => this.network.announcementOf(worker)));
  }

  /** Asks for these users. */
  async predict(
    users: readonly number[],
    more: Partial<PredictRequest> & { readonly target?: ModelTarget } = {},
  ): Promise<Prediction> {
    const { target = { model: "movies" }, ...request } = more;
    const pinned = await this.router.pin(target);
    const keys = BigInt64Array.from(users, (user) => BigInt(user));
    try {
      return await this.router.predict(pinned, {
        signature: pinned.program.signatures[0]!,
        inputs: new Map<string, Tensor>([["user", tensor("int64", [users.length], keys)]]),
        deadlineMs: this.clock.nowMs() + 2000,
        signal: new AbortController().signal,
        ...request,
      });
    } finally {
      pinned.release();
    }
  }

  /** What brute force says of these users. */
  expected(users: readonly number[], k = 5): { scores: number[]; ids: string[] } {
    const vectors = new Float32Array(users.length * 3);
    for (const [index, user] of users.entries()) {
      vectors.set(this.data.keyedRows.subarray(user * 3, user * 3 + 3), index * 3);
    }
    const ask = { k, queries: users.length, vectors, excluded: [] };
    const all = Array.from({ length: this.data.candidates.partitions }, (_, index) => index);
    const { block } = search(this.data, ask, all);
    return { scores: [...block.scores], ids: Array.from(block.rows, idOf) };
  }

  /** Lets `promise` settle, moving time as far as needed. */
  async settle<Result>(promise: Promise<Result>, durationMs = 20_000): Promise<Result> {
    const state = { isSettled: false };
    const end = (): void => {
      state.isSettled = true;
    };
    promise.then(end, end);
    for (let passed = 0; passed < durationMs && !state.isSettled; passed += 10) {
      await this.clock.advanceSettled(10);
    }
    if (!state.isSettled) throw new Error(`still pending after ${durationMs} ms`);
    return promise;
  }
}

/** An answer's outputs as plain lists. */
export function plainOutputs({ outputs }: Prediction): { scores: number[]; ids: string[] } {
  const scores = outputs.get("output_1");
  const ids = outputs.get("output_2");
  return {
    scores: scores?.dtype === "float32" ? [...scores.data] : [],
    ids: ids?.dtype === "string" ? ids.data.toText() : [],
  };
}

/** The program of the tests' retrieval model. */
export function benchProgram(data: FakeData, k: number): ModelProgram {
  return {
    fingerprint: version.fingerprint,
    tables: [data.keyed, data.candidates],
    vocabularies: [],
    denseModels: [],
    signatures: [signature(k)],
  };
}

/** The users table as one partition, keyed by row. */
function inlineUsers({ keyed, keyedRows }: FakeData): InlineTable {
  const globalRows = Uint32Array.from({ length: keyed.rows }, (_, row) => row);
  const partition = { globalRows, keys: undefined, keyRows: new Uint32Array() };
  return { partition, values: keyedRows };
}

function signature(k: number): SignatureProgram {
  const graphTensor = "StatefulPartitionedCall:0";
  return {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: [{ name: "user", graphTensor: "user:0", value: 0, dtype: "int64", shape: [-1] }],
    outputs: [
      { name: "output_1", graphTensor, value: 2, dtype: "float32", shape: [-1, k] },
      { name: "output_2", graphTensor, value: 3, dtype: "string", shape: [-1, k] },
    ],
    constants: [],
    steps: [
      { kind: "lookup", table: 0, node: "embedding_lookup", keys: 0, output: 1 },
      {
        kind: "topK",
        table: 1,
        node: "TopKV2",
        query: 1,
        k,
        capped: false,
        scores: 2,
        rows: undefined,
        ids: 3,
      },
    ],
  };
}

/** What a router that nobody asks anything is busy with. */
export const idleCounters: RouterCounters = {
  pins: 0,
  requests: 0,
  questions: 0,
  rows: 0,
  waiting: 0,
};
