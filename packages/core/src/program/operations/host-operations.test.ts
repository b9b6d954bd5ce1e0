// Every host operation compared with recorded answers of TensorFlow's own kernels (see
// test/data/record_host_operations.py).

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

import type { Dtype } from "../../tensor/dtype.ts";
import { WinnowError } from "../../errors/errors.ts";
import { StringColumn } from "../../tensor/string-column.ts";
import { stringTensor } from "../../tensor/tensor.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { fingerprint64, hashBucketFast } from "../hashes/farm-hash.ts";
import {
  hostOperationNames,
  isHostOperation,
  runHostStep,
  validateHostStep,
} from "./host-operations.ts";
import type { Attribute, HostStep } from "../program.ts";
import { hashBucketStrong } from "../hashes/sip-hash.ts";
import { stringsMade, tensorOf, zeros } from "./tensor-memory.ts";
import { indexVocabularies } from "../vocabulary-index.ts";

type Plain = number | string | boolean | { readonly b64: string };
type PlainTensor = readonly [Dtype, readonly number[], readonly Plain[]];

interface RecordedCase {
  readonly op: string;
  readonly attributes: Readonly<Record<string, Attribute>>;
  readonly inputs: readonly PlainTensor[];
  readonly outputs?: readonly PlainTensor[];
  readonly error?: { readonly code: string; readonly message: string };
}

interface Recorded {
  readonly fingerprints: readonly string[];
  readonly strong: {
    readonly key: readonly number[];
    readonly buckets: number;
    readonly bins: number[];
  };
  readonly cases: readonly RecordedCase[];
}

const file = new URL("../../../../../test/data/host-operations.json", import.meta.url);
const recorded = JSON.parse(readFileSync(file, "utf8")) as Recorded;

function tensorOfPlain([dtype, shape, values]: PlainTensor): Tensor {
  if (dtype === "string") {
    const bytes = values.map((value) =>
      typeof value === "object" ? Buffer.from(value.b64, "base64") : Buffer.from(String(value)),
    );
    return tensorOf(dtype, shape, StringColumn.fromBytes(bytes));
  }
  const data = zeros(dtype, shape);
  const isWide = dtype === "int64" || dtype === "uint64";
  for (const [at, value] of values.entries()) {
    (data as { [at: number]: unknown })[at] = isWide ? BigInt(value as string) : Number(value);
  }
  return tensorOf(dtype, shape, data);
}

/** A tensor with its values as texts; strings as Latin-1. */
function textsOf({ dtype, shape, data }: Tensor): unknown {
  if (data instanceof StringColumn) {
    const at = (index: number): string => Buffer.from(data.at(index)).toString("latin1");
    return { dtype, shape, values: Array.from({ length: data.length }, (_, index) => at(index)) };
  }
  const values = Array.from(data as ArrayLike<number | bigint>, String);
  return { dtype, shape, values };
}

/** Floats may differ by 2 units in the last place: implementations of exp and log differ. */
function snapped(actual: Tensor, expected: Tensor): Tensor {
  if (!actual.dtype.startsWith("float") || actual.dtype !== expected.dtype) return actual;
  const tolerance = actual.dtype === "float32" ? 2 ** -22 : 2 ** -51;
  const wanted = expected.data as Float64Array;
  const data = (actual.data as Float64Array).map((value, at) =>
    Math.abs(value - wanted[at]!) <= tolerance * Math.abs(wanted[at]!) ? wanted[at]! : value,
  );
  return tensorOf(actual.dtype, actual.shape, data);
}

function stepOf({ op, attributes, outputs }: RecordedCase): HostStep {
  const values = (outputs ?? []).map((_, at) => at);
  return { kind: "host", op, node: "node/under/test", attributes, inputs: [], outputs: values };
}

/** Winnow's answer, in the form of `expectedOf`. */
function outcomeOf(recordedCase: RecordedCase): unknown {
  const inputs = recordedCase.inputs.map(tensorOfPlain);
  try {
    const outputs = runHostStep(stepOf(recordedCase), inputs, []);
    return outputs.map((output, at) => {
      const expected = recordedCase.outputs?.[at];
      return textsOf(expected === undefined ? output : snapped(output, tensorOfPlain(expected)));
    });
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    return { code: error.code, isAtNode: error.message.endsWith("[[{{node node/under/test}}]]") };
  }
}

function expectedOf({ outputs, error }: RecordedCase): unknown {
  if (error !== undefined) return { code: error.code, isAtNode: true };
  return outputs!.map((output) => textsOf(tensorOfPlain(output)));
}

describe("host operations answer as TensorFlow's kernels", () => {
  const ops = [...new Set(recorded.cases.map(({ op }) => op))];

  test.each(ops)("%s", (op) => {
    const cases = recorded.cases.filter((recordedCase) => recordedCase.op === op);

    const outcomes = cases.map((each) => ({ case: each, outcome: outcomeOf(each) }));

    expect(outcomes).toEqual(cases.map((each) => ({ case: each, outcome: expectedOf(each) })));
  });
});

const step = (op: string, attributes: Record<string, Attribute> = {}): HostStep => {
  return { kind: "host", op, node: "n", attributes, inputs: [], outputs: [0] };
};
const scalar = (value: number): Tensor => tensorOf("int32", [], Int32Array.of(value));

describe("runHostStep()", () => {
  test("refuses an operation it does not know", () => {
    expect(isHostOperation("MatMul")).toBe(false);
    expect(() => runHostStep(step("MatMul"), [], [])).toThrow(/UNIMPLEMENTED|MatMul/);
    expect(() => validateHostStep(step("MatMul"))).toThrow("MatMul");
  });

  test("has no operation that a plain object inherits", () => {
    expect(isHostOperation("constructor")).toBe(false);
    expect(hostOperationNames).toContain("ParseExampleV2");
  });

  test.each([
    ["OneHot", [tensorOf("int32", [4], new Int32Array(4)), scalar(2 ** 30), scalar(1), scalar(0)]],
    ["Fill", [tensorOf("int32", [2], Int32Array.of(2 ** 20, 2 ** 20)), scalar(1)]],
    [
      "Tile",
      [tensorOf("int32", [1], Int32Array.of(5)), tensorOf("int32", [1], Int32Array.of(2 ** 30))],
    ],
    ["Range", [scalar(0), scalar(2 ** 30), scalar(1)]],
  ])("%s that asks for more than the limit is RESOURCE_EXHAUSTED", (op, inputs) => {
    expect(() => runHostStep(step(op), inputs, [])).toThrow(
      expect.objectContaining({ code: "RESOURCE_EXHAUSTED" }) as Error,
    );
  });

  test("text that one operation multiplies beyond the limit is RESOURCE_EXHAUSTED", () => {
    const text = stringTensor(["x".repeat(2 ** 20)]);
    const times = tensorOf("int32", [1], Int32Array.of(2 ** 12));

    expect(() => runHostStep(step("Tile"), [text, times], [])).toThrow(
      expect.objectContaining({ code: "RESOURCE_EXHAUSTED" }) as Error,
    );
  });

  test.each([
    ["strings", [2 ** 10 + 1, 2 ** 10], "x"],
    ["bytes", [17, 16], "x".repeat(2 ** 20)],
  ])("crosses as texts of more %s than the limit are RESOURCE_EXHAUSTED", (_, widths, text) => {
    const columns = widths.map((width) => {
      return stringTensor(Array<string>(width).fill(text), [1, width]);
    });

    expect(() => runHostStep(step("SparseCrossV2"), [...columns, stringTensor(["_"])], [])).toThrow(
      expect.objectContaining({ code: "RESOURCE_EXHAUSTED" }) as Error,
    );
  });

  test("strings are made only until they are longer than the limit together", () => {
    const text = new Uint8Array(2 ** 20);
    let made = 0;
    const make = (): Uint8Array => {
      made += 1;
      return text;
    };

    expect(() => stringsMade([2 ** 20], make)).toThrow("268435456 bytes of text");
    expect(made).toBe(257);
  });

  test("missing inputs and wrong element types are errors of the request", () => {
    for (const op of hostOperationNames) {
      for (const inputs of [[], [stringTensor(["a", "b"])], [scalar(1), stringTensor(["x"])]]) {
        const failure = failureOf(() => runHostStep(step(op), inputs, []));
        expect([undefined, "WinnowError"]).toContain(failure?.name);
      }
    }
  });
});

function failureOf(run: () => unknown): Error | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

describe("LookupTableFindV2", () => {
  const vocabulary = {
    name: "users",
    keys: stringTensor(["a", "b"]),
    values: tensorOf("int64", [2], BigInt64Array.of(10n, 20n)),
  };
  const fallback = tensorOf("int64", [], BigInt64Array.of(-1n));

  test("gives each key's value, and the default where there is none", () => {
    const keys = stringTensor(["b", "?", "a", "b"], [2, 2]);

    const [found] = runHostStep(
      { ...step("LookupTableFindV2"), vocabulary: 0 },
      [keys, fallback],
      indexVocabularies([vocabulary]),
    );

    expect(found).toEqual(tensorOf("int64", [2, 2], BigInt64Array.of(20n, -1n, 10n, 20n)));
  });

  test("does not read a large vocabulary for one key", () => {
    const ids = BigInt64Array.from({ length: 2 ** 19 }, (_, at) => BigInt(at));
    const large = { name: "large", keys: tensorOf("int64", [ids.length], ids) };
    const [index] = indexVocabularies([{ ...large, values: large.keys }]);
    const find = { ...step("LookupTableFindV2"), vocabulary: 0 };
    const key = tensorOf("int64", [1], BigInt64Array.of(77n));
    const startMs = performance.now();

    for (let time = 0; time < 1000; time += 1) runHostStep(find, [key, fallback], [index!]);

    // A copy of its values for each would be 4 GiB.
    expect(performance.now() - startMs).toBeLessThan(400);
  });

  test("refuses keys of another element type", () => {
    const find = { ...step("LookupTableFindV2"), vocabulary: 0 };

    expect(() => runHostStep(find, [scalar(1), fallback], indexVocabularies([vocabulary]))).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }) as Error,
    );
  });
});

describe("hash buckets", () => {
  /** The bytes the recorder hashed for each length. */
  const sample = (length: number): Uint8Array =>
    Uint8Array.from({ length }, (_, at) => (at * 31 + length * 7 + (at >> 3)) & 255);

  test("FarmHash fingerprints of every length from 0 to 300 are TensorFlow's", () => {
    const fingerprints = recorded.fingerprints.map((_, length) =>
      String(fingerprint64(sample(length))),
    );

    expect(fingerprints).toEqual(recorded.fingerprints);
  });

  test("a bucket is the fingerprint modulo the count, small or large", () => {
    for (const buckets of [1, 3, 1000, 2 ** 21, 2 ** 21 + 1, 2 ** 40 + 3]) {
      const modulo = recorded.fingerprints.map((print) => Number(BigInt(print) % BigInt(buckets)));

      expect(modulo.map((_, length) => hashBucketFast(sample(length), buckets))).toEqual(modulo);
    }
  });

  test("SipHash buckets are TensorFlow's", () => {
    const { key, buckets, bins } = recorded.strong;
    const words = [BigInt(key[0]!), BigInt(key[1]!)] as const;

    const found = bins.map((_, length) => hashBucketStrong(sample(length), words, buckets));

    expect(found).toEqual(bins);
  });
});
