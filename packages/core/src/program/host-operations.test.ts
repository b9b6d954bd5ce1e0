// Every host operation against answers TensorFlow's own kernels gave (recorded data, see
// test/data/record_host_operations.py).

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

import { WinnowError } from "../errors.ts";
import { StringColumn } from "../string-column.ts";
import { elementCount } from "../tensor.ts";
import type { Dtype, Tensor } from "../tensor.ts";
import { fingerprint64 } from "./farm-hash.ts";
import {
  hostOperationNames,
  isHostOperation,
  runHostStep,
  validateHostStep,
} from "./host-operations.ts";
import type { Attribute, HostStep } from "./program.ts";
import { hashBucketStrong } from "./sip-hash.ts";
import { tensorOf, zeros } from "./tensor-memory.ts";
import type { NumericDtype } from "./tensor-memory.ts";

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

const file = new URL("../../../../test/data/host-operations.json", import.meta.url);
const recorded = JSON.parse(readFileSync(file, "utf8")) as Recorded;

function tensorOfPlain([dtype, shape, values]: PlainTensor): Tensor {
  if (dtype === "string") {
    const bytes = values.map((value) =>
      typeof value === "object" ? Buffer.from(value.b64, "base64") : Buffer.from(String(value)),
    );
    return tensorOf(dtype, shape, StringColumn.fromBytes(bytes));
  }
  const data = zeros(dtype as NumericDtype, shape);
  const isWide = dtype === "int64" || dtype === "uint64";
  for (const [at, value] of values.entries()) {
    (data as { [at: number]: unknown })[at] = isWide ? BigInt(value as string) : Number(value);
  }
  return tensorOf(dtype, shape, data);
}

function plainOf({ dtype, shape, data }: Tensor): PlainTensor {
  const values =
    data instanceof StringColumn
      ? Array.from({ length: data.length }, (_, at) => Buffer.from(data.at(at)).toString("latin1"))
      : Array.from(data as ArrayLike<number | bigint>, (value) => String(value));
  return [dtype, shape, values];
}

/** float32 within 2 units in the last place: exp and log are not the same function everywhere. */
function expectSame(actual: Tensor, expected: Tensor): void {
  expect([actual.dtype, actual.shape]).toEqual([expected.dtype, expected.shape]);
  if (expected.dtype !== "float32" && expected.dtype !== "float64") {
    expect(plainOf(actual)).toEqual(plainOf(expected));
    return;
  }
  const tolerance = expected.dtype === "float32" ? 2 ** -22 : 2 ** -51;
  for (const [at, value] of (actual.data as Float64Array).entries()) {
    const wanted = expected.data[at]!;
    if (Number.isFinite(wanted)) {
      expect(Math.abs(value - wanted)).toBeLessThanOrEqual(tolerance * Math.abs(wanted));
    } else {
      expect(value).toBe(wanted);
    }
  }
}

function stepOf({ op, attributes, outputs }: RecordedCase): HostStep {
  const values = (outputs ?? []).map((_, at) => at);
  return { kind: "host", op, node: "node/under/test", attributes, inputs: [], outputs: values };
}

describe("host operations answer as TensorFlow's kernels", () => {
  const byOp = Map.groupBy === undefined ? groups() : Map.groupBy(recorded.cases, ({ op }) => op);

  function groups(): Map<string, RecordedCase[]> {
    const map = new Map<string, RecordedCase[]>();
    for (const recordedCase of recorded.cases) {
      map.set(recordedCase.op, [...(map.get(recordedCase.op) ?? []), recordedCase]);
    }
    return map;
  }

  test.each([...byOp])("%s", (op, cases) => {
    expect(isHostOperation(op)).toBe(true);
    for (const recordedCase of cases) {
      const label = JSON.stringify(recordedCase).slice(0, 2000);
      const step = stepOf(recordedCase);
      const inputs = recordedCase.inputs.map(tensorOfPlain);
      const { outputs, error } = recordedCase;
      let answer: Tensor[] = [];
      let failure: unknown;
      try {
        answer = runHostStep(step, inputs, []);
      } catch (thrown) {
        failure = thrown;
      }
      if (error !== undefined) {
        expect(failure, label).toBeInstanceOf(WinnowError);
        expect((failure as WinnowError).code, label).toBe(error.code);
        expect((failure as WinnowError).message).toContain("[[{{node node/under/test}}]]");
        continue;
      }
      expect(failure, label).toBeUndefined();
      expect(answer.length, label).toBe(outputs!.length);
      for (const [at, expected] of outputs!.entries()) {
        try {
          expectSame(answer[at]!, tensorOfPlain(expected));
        } catch (mismatch) {
          throw new Error(`output ${at} of ${label}: ${String(mismatch)}`, { cause: mismatch });
        }
      }
    }
  });
});
