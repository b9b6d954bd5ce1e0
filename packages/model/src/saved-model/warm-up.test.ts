// Warm-up records: read back as written, and refused with the number of the record when they are
// damaged or do not fit the model.

import { ProtobufWriter, crc32c, maskChecksum } from "@winnow/core";
import type { SignatureProgram, StringColumn } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { requestsOf } from "./warm-up.ts";

const FLOAT = 1;
const STRING = 7;
const signature: SignatureProgram = {
  name: "serving_default",
  methodName: "tensorflow/serving/predict",
  inputs: [{ name: "user", graphTensor: "user:0", value: 0, dtype: "string", shape: [-1] }],
  outputs: [{ name: "out", graphTensor: "out:0", value: 0, dtype: "string", shape: [-1] }],
  constants: [],
  steps: [],
};

interface LogWords {
  readonly users?: readonly string[];
  readonly signature?: string;
  readonly input?: string;
  readonly dtype?: number;
  readonly rows?: number;
}

/** A PredictionLog with a PredictRequest. */
function log(words: LogWords = {}): Uint8Array {
  const { users = ["42"], input = "user", dtype = STRING, rows = users.length } = words;
  const writer = new ProtobufWriter();
  writer.message(6, (predict) => {
    predict.message(1, (request) => {
      request.message(1, (spec) => spec.text(1, "any").text(3, words.signature ?? ""));
      request.entry(2, input, (tensor) => {
        tensor.int(1, dtype);
        tensor.message(2, (shape) => shape.message(2, (dim) => dim.int(1, rows)));
        for (const user of users) tensor.text(8, user);
      });
    });
  });
  return writer.finish();
}

/** A TFRecord file of these records. */
function file(...records: readonly Uint8Array[]): Uint8Array {
  const parts = records.flatMap((record) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(record.length));
    const checksums = [length, record].map((bytes) => {
      const checksum = Buffer.alloc(4);
      checksum.writeUInt32LE(maskChecksum(crc32c(bytes)));
      return checksum;
    });
    return [length, checksums[0]!, record, checksums[1]!];
  });
  return new Uint8Array(Buffer.concat(parts));
}

const read = (content: Uint8Array) => requestsOf(content, [signature]);

describe("warm-up records", () => {
  test("give the requests they hold, in order", () => {
    const lists = fc.array(fc.array(fc.string({ unit: "grapheme" }), { minLength: 1 }), {
      maxLength: 5,
    });
    fc.assert(
      fc.property(lists, (users) => {
        const requests = read(file(...users.map((of) => log({ users: of }))));

        expect(requests.map(({ inputs }) => inputs.get("user")!.shape)).toEqual(
          users.map((of) => [of.length]),
        );
        const texts = requests.map(({ inputs }) => {
          const { data } = inputs.get("user")!;
          return Array.from({ length: data.length }, (_, at) =>
            (data as { textAt(index: number): string }).textAt(at),
          );
        });
        expect(texts).toEqual(users);
      }),
    );
  });

  test("are refused when any byte is changed or the file is cut", () => {
    const content = file(log(), log({ users: ["a", "b"] }));
    const first = file(log()).length;
    fc.assert(
      fc.property(fc.nat(content.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const damaged = content.slice();
        damaged[at]! ^= flip;

        expect(() => read(damaged)).toThrow(/the record at byte \d+/);
        const isBetween = at === 0 || at === first;
        expect(() => read(content.subarray(0, isBetween ? at + 1 : at))).toThrow("is cut short");
      }),
    );
  });

  test("of other calls than Predict, Classify and Regress are passed over", () => {
    const others = [4, 5, 7].map((field) =>
      new ProtobufWriter().message(field, (message) => message.text(1, "x")).finish(),
    );

    expect(read(file(...others, log()))).toHaveLength(1);
  });

  test.each([
    ["Classify", 2],
    ["Regress", 3],
  ])("of %s give their examples, each behind the context", (_, field) => {
    const record = new ProtobufWriter().message(field, (logged) =>
      logged.message(1, (request) => {
        request.message(1, (spec) => spec.text(1, "any").text(3, "rate"));
        request.message(2, (input) =>
          input.message(2, (list) => list.text(1, "one").text(2, "c:").text(1, "two")),
        );
      }),
    );
    const rate = {
      ...signature,
      name: "rate",
      inputs: [{ ...signature.inputs[0]!, name: "inputs" }],
    };
    const [request] = requestsOf(file(record.finish()), [rate]);

    const { data, shape } = request!.inputs.get("inputs")!;
    expect(request!.signature).toBe("rate");
    expect([shape, (data as StringColumn).toText()]).toEqual([[2], ["c:one", "c:two"]]);
  });

  test.each([
    [log({ signature: "rank" }), 'Cannot run warm-up record 1: there is no signature "rank"'],
    [log({ input: "movie" }), 'Cannot run warm-up record 1: Missing input "user"'],
    [log({ dtype: FLOAT, users: [], rows: 1 }), 'Input "user" must be string, not float32'],
    [
      new ProtobufWriter().message(2, (logged) => logged.message(1, () => undefined)).finish(),
      "Cannot run warm-up record 1: Input is empty.",
    ],
    [log({ rows: 2 ** 30 }), "has more than 16777216 values, at warm-up record 1"],
    [new Uint8Array([0xff]), "warm-up record 1"],
  ])("are refused by number when the model does not take them", (record, message) => {
    expect(() => read(file(log(), record))).toThrow(message);
  });

  test("are at most 1000", () => {
    const record = log();

    expect(read(file(...Array.from({ length: 1000 }, () => record)))).toHaveLength(1000);
    expect(() => read(file(...Array.from({ length: 1001 }, () => record)))).toThrow(
      "has more than 1000 records",
    );
  });
});
