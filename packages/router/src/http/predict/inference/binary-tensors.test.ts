// Binary tensors: what is written is read again, whatever it holds; what is cut or padded is refused.

import { StringColumn, dtypeArrays, stringTensor, tensor } from "@winnow/core";
import type { NumericDtype, Tensor } from "@winnow/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  binaryBytes,
  readBinaryTensor,
  readingBinaryTensor,
  writeBinaryTensor,
} from "./binary-tensors.ts";

const dtypes = Object.keys(dtypeArrays) as NumericDtype[];

const numbers: fc.Arbitrary<Tensor> = fc
  .tuple(fc.constantFrom(...dtypes), fc.nat(4), fc.nat(4), fc.infiniteStream(fc.nat(255)))
  .map(([dtype, rows, width, stream]) => {
    const size = rows * width * dtypeArrays[dtype].BYTES_PER_ELEMENT;
    const bytes = Uint8Array.from({ length: size }, () => Number(stream.next().value));
    const given = dtype === "bool" ? bytes.map((byte) => byte % 2) : bytes;
    return { dtype, shape: [rows, width], data: new dtypeArrays[dtype](given.buffer) } as Tensor;
  });

const strings: fc.Arbitrary<Tensor> = fc
  .array(fc.uint8Array({ maxLength: 9 }), { maxLength: 12 })
  .map((list) => tensor("string", [list.length], StringColumn.fromBytes(list)));

async function written(given: Tensor): Promise<Buffer> {
  const target = Buffer.alloc(binaryBytes(given));
  await writeBinaryTensor(target, 0, given);
  return target;
}

const bytesOf = ({ data }: Tensor): unknown =>
  data instanceof StringColumn
    ? Array.from({ length: data.length }, (_, at) => [...data.at(at)])
    : [...new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];

test("a tensor that is written is read again, bit for bit, wherever its bytes lie", async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(numbers, strings), fc.nat(7), async (given, offset) => {
      const bytes = await written(given);
      const moved = Buffer.concat([Buffer.alloc(offset), bytes]).subarray(offset);

      const read = readBinaryTensor(moved, { name: "x", ...given });

      expect(read.shape).toEqual(given.shape);
      expect(bytesOf(read)).toEqual(bytesOf(given));
    }),
  );
});

test("strings are their lengths and bytes, as Triton's clients send them", async () => {
  const bytes = await written(stringTensor(["ab", "", "é"]));

  expect(bytes.toString("hex")).toBe("0200000061620000000002000000c3a9");
});

test("more strings than are written without a break are all there", async () => {
  const given = stringTensor(Array.from({ length: 40_000 }, (_, index) => String(index)));

  const read = readBinaryTensor(await written(given), {
    name: "x",
    dtype: "string",
    shape: [40_000],
  });

  expect(bytesOf(read)).toEqual(bytesOf(given));
});

test("bytes that are too few or too many for the shape are refused, before memory is taken", async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(numbers, strings), async (given) => {
      const bytes = await written(given);
      const about = { name: "x", ...given };

      expect(() => readBinaryTensor(Buffer.concat([bytes, Buffer.of(0)]), about)).toThrow('"x"');
      fc.pre(bytes.length > 0);
      // The last byte, not the first: without it, the length [1,0,0,0] of the string "\0" reads as that of an empty one.
      expect(() => readBinaryTensor(bytes.subarray(0, -1), about)).toThrow('"x"');
    }),
  );
  const boundless = { name: "x", dtype: "string", shape: [2 ** 40] } as const;
  expect(() => readBinaryTensor(Buffer.alloc(8), boundless)).toThrow(
    "does not hold 1099511627776 strings",
  );
});

test("any byte but 0 is a true", () => {
  const read = readBinaryTensor(Buffer.of(0, 1, 2, 255), { name: "x", dtype: "bool", shape: [4] });

  expect([...(read.data as Uint8Array)]).toEqual([0, 1, 1, 1]);
});

test("many values take several turns of the event loop", async () => {
  const flags = Uint8Array.from({ length: 2 ** 20 }, (_, at) => at % 2);
  const texts = stringTensor(Array.from({ length: 100_000 }, (_, at) => `item ${at}`));
  for (const given of [{ dtype: "bool", shape: [flags.length], data: flags } as const, texts]) {
    const steps = readingBinaryTensor(await written(given), { name: "x", ...given });

    let pauses = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) pauses += 1;

    expect(pauses).toBeGreaterThan(0);
    // Element by element a million would take a minute.
    expect(Buffer.compare(await written(step.value), await written(given))).toBe(0);
    expect(step.value.shape).toEqual(given.shape);
  }
});
