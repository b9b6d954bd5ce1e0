// What does one question and its answer cost on the stream? Router and worker share this process
// and its core, so a figure includes both sides and the kernel; 64 questions in flight, 1 KB query
// vectors.

import { fingerprint, systemClock } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { bench, describe } from "vitest";
import { seededEnvironment as environment } from "../../../../test/doubles/seeded-environment.ts";
import { EchoWorker } from "./doubles/echo-worker.ts";
import type { WorkerReply } from "./frames/frames.ts";
import { GrpcConnector } from "./grpc-connector.ts";
import { MemoryNetwork } from "./doubles/memory-network.ts";
import type { Question } from "./query-window.ts";
import { WorkerChannel } from "./shard-channel.ts";
import { WorkerServer } from "./shard-server.ts";
import type { WorkerLink } from "./worker-link.ts";

const IN_FLIGHT = 64;

const questionOf = (k: number): Question => ({
  version: { model: "movies", version: 1, fingerprint: fingerprint("f".repeat(64)) },
  table: 0,
  partitions: Uint16Array.from({ length: 64 }, (_, partition) => partition),
  ask: {
    kind: "topK",
    k,
    queries: 1,
    vectors: new Float32Array(256).fill(0.5),
    excluded: [],
    rowsOnly: true,
  },
  deadlineMs: 1e12,
});

/** Answers every TopK with k equal candidates. */
class TopKWorker extends EchoWorker {
  override accept(link: WorkerLink): ReturnType<EchoWorker["accept"]> {
    const handlers = super.accept(link);
    return {
      ...handlers,
      onQueries: (queries) => {
        for (const { id, ask } of queries) {
          const k = ask.kind === "topK" ? ask.k : 0;
          const block = {
            queries: 1,
            k,
            counts: Uint32Array.of(k),
            scores: new Float32Array(k),
            rows: new Uint32Array(k),
          };
          link.reply({
            id,
            queueUs: 0,
            computeUs: 0,
            answer: { kind: "topK", block, ids: undefined },
          });
        }
      },
    };
  }
}

const server = await WorkerServer.listen({ service: new TopKWorker(), environment });
const connector = new GrpcConnector(systemClock);
const channel = await new Promise<WorkerChannel>((resolve) => {
  const opening: WorkerChannel = new WorkerChannel(
    { environment, connector, routerId: "r" },
    {
      onAnnouncement: () => resolve(opening),
      onPong: () => undefined,
      onDrain: () => undefined,
      onDisconnect: () => undefined,
    },
    { address: `127.0.0.1:${server.port}` },
  );
});

describe("What do 64 questions in flight cost on one stream, answers of 1 KB and 30 KB?", () => {
  const askAll = (k: number): Promise<readonly WorkerReply[]> => {
    const question = questionOf(k);
    const replies = Array.from(
      { length: IN_FLIGHT },
      () => new Promise<WorkerReply>((resolve) => channel.ask(question, resolve)),
    );
    return Promise.all(replies);
  };

  bench("gRPC stream, 1 KB answers (k = 128), 64 questions", async () => {
    await askAll(128);
  });
  bench("gRPC stream, 30 KB answers (k = 3750), 64 questions", async () => {
    await askAll(3750);
  });
  bench("baseline: no network, 1 KB answers, 64 questions", async () => {
    const clock = new ManualClock();
    const network = new MemoryNetwork(clock);
    network.listen("w", new TopKWorker());
    const silent = (): undefined => undefined;
    const memory = new WorkerChannel(
      { environment: { ...environment, clock }, connector: network, routerId: "r" },
      { onAnnouncement: silent, onPong: silent, onDrain: silent, onDisconnect: silent },
      { address: "w" },
    );
    await clock.advanceSettled(1);
    let answered = 0;
    for (let asked = 0; asked < IN_FLIGHT; asked += 1) {
      memory.ask(questionOf(128), () => {
        answered += 1;
      });
    }
    await clock.advanceSettled(1);
    memory.close();
    if (answered !== IN_FLIGHT) throw new RangeError(`${answered} answers`);
  });
});
