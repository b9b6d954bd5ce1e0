// The message codec compared with protobufjs: the same bytes, the same objects, whatever fields are
// absent.

import { WinnowError } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { shardDescriptor } from "../generated/shard-descriptor.ts";
import { shardMessages } from "../fixtures/protobufjs-messages.ts";
import { MessageCodec } from "./message-codec.ts";
import type { PackageDescriptor } from "./message-codec.ts";
import { shardService } from "./shard-service.ts";

const text = fc.string({ unit: "grapheme", maxLength: 20 });
const uint32 = fc.nat({ max: 2 ** 32 - 1 });
const uint64 = fc.maxSafeNat();
const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));

/** Any fields of a message, each set or left out. */
function message(fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<object> {
  return fc.record(fields, { requiredKeys: [], noNullPrototype: true });
}

const lists = (item: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.array(item, { maxLength: 4 });
const table = message({ table: uint32, partitions: uint32, held: bytes, shares: bytes });
const version = message({
  model: text,
  version: uint64,
  error_code: uint32,
  tables: lists(table),
  serving: fc.boolean(),
});
const announcement = message({
  worker_id: text,
  incarnation: uint64,
  versions: lists(version),
  order_number: uint64,
});
const member = message({ worker_id: text, incarnation: uint64, gone: fc.boolean() });
const workerFrame = fc.oneof(
  message({ state: announcement }),
  message({
    pong: message({
      sequence: uint32,
      progress: uint64,
      stalled: fc.boolean(),
      heard: lists(message({ worker_id: text, digest: uint64, age_ms: uint32 })),
    }),
  }),
  message({ members: message({ members: lists(member) }) }),
  message({ drain: fc.constant({}) }),
);
const routerFrame = fc.oneof(
  message({ hello: message({ router_id: text, wants_members: fc.boolean() }) }),
  message({ cancel: message({ id: uint64 }) }),
  message({
    ping: message({ sequence: uint32, wants_heard: fc.boolean(), in_doubt: fc.boolean() }),
    predecessor: message({ incarnation: uint64 }),
  }),
);
const order = fc.oneof(message({ order: text }), message({ draft: text }));
const program = message({ model: text, version: uint64, fingerprint: text });

const { v1 } = (shardDescriptor as unknown as Record<"nested", Nested>).nested.winnow.nested.shard
  .nested;
const codec = new MessageCodec(v1.nested);
type Nested = Record<
  "winnow",
  { nested: Record<"shard", { nested: Record<"v1", { nested: PackageDescriptor }> }> }
>;

interface Serializing {
  readonly requestSerialize: (message: object) => Buffer;
  readonly requestDeserialize: (bytes: Buffer) => object;
}

describe("a message", () => {
  test.each([
    ["RouterFrame", shardMessages.Exchange, routerFrame],
    ["FollowOrderRequest", shardMessages.FollowOrder, order],
    ["ProgramRequest", shardMessages.GetProgram, program],
    ["WorkerFrame", answersOf(shardMessages.Exchange), workerFrame],
    ["Announcement", answersOf(shardMessages.Describe), announcement],
    ["ProgramChunk", answersOf(shardMessages.GetProgram), message({ data: bytes })],
    ["GetOrderReply", answersOf(shardMessages.GetOrder), message({ order: text })],
  ])("%s is the bytes and the object that protobufjs makes", (type, protobufjs, anyMessage) => {
    const reference = protobufjs as unknown as Serializing;

    fc.assert(
      fc.property(anyMessage, (given) => {
        const encoded = reference.requestSerialize(given);

        expect(codec.encode(type, given).toString("hex")).toBe(encoded.toString("hex"));
        expect(codec.decode(type, encoded)).toEqual(reference.requestDeserialize(encoded));
      }),
    );
  });

  test("of a newer peer is read without the fields that are not known, or are of another kind", () => {
    const later = Buffer.from([0x08, 7, 0x12, 1, 0x61, 0xf8, 0x3e, 9]);

    expect(codec.decode("Ping", later)).toEqual({
      sequence: 7,
      wants_heard: false,
      in_doubt: false,
    });
    expect(codec.decode("Ping", Buffer.from([0x0a, 1, 0x61]))).toEqual({
      sequence: 0,
      wants_heard: false,
      in_doubt: false,
    });
  });

  test("is refused where it is cut off, or a number has too many bits", () => {
    expect(() => codec.decode("Ping", Buffer.from([0x08]))).toThrow(WinnowError);
    expect(() => codec.decode("Predecessor", Buffer.from([0x0a, 9]))).toThrow(WinnowError);
    const large = codec.encode("Predecessor", { incarnation: 2 ** 32 });
    expect(() => codec.decode("Ping", large)).toThrow("exceeds 32 bits");
  });
});

test("the service has the paths and streams of shard.proto", () => {
  const shape = (methods: object) =>
    Object.entries(methods).map(([name, { path, requestStream, responseStream }]) => [
      name,
      path,
      requestStream,
      responseStream,
    ]);

  expect(shape(shardService)).toEqual(shape(shardMessages));
});

/** A method's response codec in the place of its request codec. */
function answersOf(method: { responseSerialize: unknown; responseDeserialize: unknown }) {
  return {
    requestSerialize: method.responseSerialize,
    requestDeserialize: method.responseDeserialize,
  };
}
