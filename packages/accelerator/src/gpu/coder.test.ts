// The device codes rows; here the codes are read back and compared with the rows in float64: no
// rest is larger than its bound says, no bound is much larger than the rest, and no byte is stale.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { normalValues, seededRandom } from "../cases/exactness.cases.ts";
import { rowLayout } from "./codes.ts";
import type { RowLayout, RowScale } from "./codes.ts";
import { uploadRows } from "./rows-upload.ts";
import { allocateSlab, freeSlabs, groupBytes, groupsOf } from "./memory/slab.ts";
import { sharedSoftwareGpu } from "./fixtures/software-gpu.ts";
import { BUFFER_USAGE, MAP_MODE_READ } from "./webgpu-api.ts";
import type { GpuBuffer } from "./webgpu-api.ts";

const { device, reason } = await sharedSoftwareGpu();
/** Groups before the rows, and after them, that hold bytes of other rows. */
const FOREIGN_GROUPS = 1;
const UNIT = 2 ** -16;

interface Coded {
  readonly layout: RowLayout;
  readonly scale: RowScale;
  /** All groups of the slab, with the foreign ones. */
  readonly bytes: ArrayBuffer;
}

async function bytesOf(buffer: GpuBuffer): Promise<ArrayBuffer> {
  const { connection } = device!;
  const usage = BUFFER_USAGE.mapRead | BUFFER_USAGE.copyTarget;
  const staging = connection.createBuffer({ size: buffer.size, usage });
  const encoder = connection.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, buffer.size);
  connection.queue.submit([encoder.finish()]);
  await staging.mapAsync(MAP_MODE_READ);
  const bytes = staging.getMappedRange().slice(0);
  staging.destroy();
  return bytes;
}

/** Codes rows in the middle of a slab that was filled with other bytes. */
async function coded(table: Float32Array, dim: number, uploadBytesMax = 2 ** 26): Promise<Coded> {
  const layout = rowLayout(dim);
  const rows = table.length / dim;
  const slab = await allocateSlab(device!, layout, groupsOf(rows) + 2 * FOREIGN_GROUPS);
  for (const buffer of [slab.values, slab.codes]) {
    device!.connection.queue.writeBuffer(buffer, 0, new Uint8Array(buffer.size).fill(0x41));
  }
  const extent = { slab, firstGroup: FOREIGN_GROUPS, groups: groupsOf(rows), firstRow: 7, rows };
  const shape = { rows, dim, firstRow: 7, use: "search" } as const;
  const target = { device: device!, layout, extents: [extent], uploadBytesMax };
  const scale = await uploadRows({ shape, chunks: [table], signal: undefined }, target);
  const bytes = await bytesOf(slab.codes);
  await freeSlabs([slab], device!);
  return { layout, scale, bytes };
}

interface Group {
  readonly step: number;
  readonly restNorm: number;
  readonly codeNorm: number;
  readonly exponent: number;
  readonly codes: Int8Array;
}

function groupAt({ layout, bytes }: Coded, group: number): Group {
  const at = group * groupBytes(layout).codes;
  const [step = 0, restNorm = 0, codeNorm = 0] = new Float32Array(bytes, at, 3);
  const [exponent = 0] = new Int32Array(bytes, at + 12, 1);
  const codes = new Int8Array(bytes, at + 16, layout.codeQuads * 128 * 16);
  return { step, restNorm, codeNorm, exponent, codes };
}

/** What a row contributes to the bounds in its group's head, in units of 2^exponent. */
function rowNorms(row: Float32Array, lane: number, group: Group): { rest: number; code: number } {
  let rest = 0;
  let code = 0;
  for (const [j, value] of row.entries()) {
    const own = group.codes[(j >> 4) * 128 * 16 + lane * 16 + (j & 15)]!;
    rest += (value * 2 ** -group.exponent - group.step * own) ** 2;
    code += (group.step * own) ** 2;
  }
  return { rest: Math.sqrt(rest), code: Math.sqrt(code) };
}

/** The first thing wrong with the codes of a table. */
function firstFault(table: Float32Array, dim: number, of: Coded): string | undefined {
  const rows = table.length / dim;
  for (let index = 0; index < groupsOf(rows); index += 1) {
    const group = groupAt(of, FOREIGN_GROUPS + index);
    const own = Math.min(128, rows - index * 128);
    let [rest, code] = [0, 0];
    for (let lane = 0; lane < own; lane += 1) {
      const at = (index * 128 + lane) * dim;
      const norms = rowNorms(table.subarray(at, at + dim), lane, group);
      rest = Math.max(rest, norms.rest);
      code = Math.max(code, norms.code);
    }
    const isZero = table
      .subarray(index * 128 * dim, (index * 128 + own) * dim)
      .every((v) => v === 0);
    const slack = isZero ? 0 : (Math.sqrt(dim) + 3) * UNIT;
    const spare = group.codes.filter((_code, at) => {
      return (at >> 4) % 128 >= own || (at >> 11) * 16 + (at & 15) >= dim;
    });
    if (!(rest <= group.restNorm && group.restNorm <= rest + slack)) {
      return `group ${index}: the rest is ${rest}, its bound ${group.restNorm}`;
    }
    if (!(code <= group.codeNorm * (1 + 1e-12) && group.codeNorm <= code * 1.01 + slack)) {
      return `group ${index}: codes have norm ${code}, their bound is ${group.codeNorm}`;
    }
    if (spare.some((value) => value !== 0)) return `group ${index}: codes without values`;
  }
  return undefined;
}

function scaleFault(table: Float32Array, dim: number, { scale }: Coded): string | undefined {
  const largest = table.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const isTight = 2 ** scale.exponentMax <= largest && largest < 2 ** (scale.exponentMax + 1);
  if (!isTight) return `2^${scale.exponentMax} is not the size of ${largest}`;
  let norm = 0;
  for (let at = 0; at < table.length; at += dim) {
    norm = Math.max(norm, Math.hypot(...table.subarray(at, at + dim)));
  }
  const isBound = norm <= scale.normMax && scale.normMax <= 4 * Math.sqrt(dim) * largest;
  return isBound ? undefined : `norms up to ${norm} are not bounded by ${scale.normMax}`;
}

const random = seededRandom(3);
const FAMILIES: Readonly<Record<string, (dim: number) => (index: number) => number>> = {
  "normal values": () => () => normalValues(random, 1)[0]!,
  "values of any float": () => () => {
    const word = Math.floor(random() * 2 ** 32);
    const value = new Float32Array(Uint32Array.of(word).buffer)[0]!;
    return Number.isFinite(value) ? value : 1;
  },
  "subnormal values": () => () => (Math.floor(random() * 99) - 49) * 2 ** -149,
  "one subnormal value": () => (index) => (index === 4 ? -(2 ** -149) : 0),
  "the largest floats": () => () => (random() < 0.5 ? 1 : -1) * 3.4028234663852886e38,
  "values beside a power of two": () => (index) =>
    (index % 2 === 0 ? 1 : -1) * (1 - 2 ** -24 * Math.floor(random() * 4)),
  "values between two codes": () => (index) => (index % 7 === 0 ? 127 : 63.5 + (index % 3)),
  "a size of its own per row": (dim) => (index) =>
    (random() - 0.5) * 2 ** ((Math.floor(index / dim) % 200) - 100),
};

describe.skipIf(device === undefined)(`codes of rows ${reason}`, () => {
  test.each(Object.entries(FAMILIES))("%s are bounded", async (_name, family) => {
    for (const [rows, dim] of [
      [300, 17],
      [129, 64],
      [5, 1],
    ] as const) {
      const table = Float32Array.from({ length: rows * dim }, (_, index) => family(dim)(index));

      const of = await coded(table, dim);

      expect(firstFault(table, dim, of)).toBeUndefined();
      expect(scaleFault(table, dim, of)).toBeUndefined();
    }
  });

  test("rows of 4,096 values whose rests are as large as can be fit into the sums", async () => {
    const dim = 4096;
    const table = new Float32Array(130 * dim).map((_value, index) =>
      index % 9 === 0 ? 127 : 63.5,
    );

    const of = await coded(table, dim);

    expect(firstFault(table, dim, of)).toBeUndefined();
  });

  test("zeros have zeros for codes and no size", async () => {
    const of = await coded(new Float32Array(200 * 9), 9);

    expect(firstFault(new Float32Array(200 * 9), 9, of)).toBeUndefined();
    expect(of.scale).toEqual({ exponentMax: -Infinity, normMax: 0 });
  });

  test("groups beside are left alone, and small steps give the same codes", async () => {
    const table = normalValues(random, 600 * 10);

    const whole = await coded(table, 10);
    const stepwise = await coded(table, 10, 1);

    expect(new Uint8Array(stepwise.bytes)).toEqual(new Uint8Array(whole.bytes));
    const { codes } = groupBytes(whole.layout);
    for (const at of [0, whole.bytes.byteLength - codes]) {
      expect(new Uint8Array(whole.bytes, at, codes).every((byte) => byte === 0x41)).toBe(true);
    }
  });

  test("rows of any shape and size are bounded", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          rows: fc.integer({ min: 1, max: 300 }),
          dim: fc.integer({ min: 1, max: 40 }),
          exponent: fc.integer({ min: -140, max: 120 }),
          spread: fc.integer({ min: 0, max: 30 }),
        }),
        async ({ rows, dim, exponent, spread }) => {
          const table = Float32Array.from(
            { length: rows * dim },
            () => (random() - 0.5) * 2 ** (exponent - Math.floor(random() * spread)),
          );
          const of = await coded(table, dim);

          expect(firstFault(table, dim, of)).toBeUndefined();
        },
      ),
      { numRuns: 40 },
    );
  });
});
