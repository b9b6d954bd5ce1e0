// The float64 arithmetic of the kernels gives the same bits as this processor, for products of
// float32 and for sums of such numbers: of near and far magnitudes, cancelling, tied, with carries.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../cases/exactness.cases.ts";
import { SOFT_FLOAT } from "../shaders/soft-float.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";
import { BUFFER_USAGE, MAP_MODE_READ } from "../webgpu-api.ts";

const { device, reason } = await sharedSoftwareGpu();

const SHADER = /* wgsl */ `
${SOFT_FLOAT}
@group(0) @binding(0) var<storage, read> left: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> right: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> answers: array<vec2<u32>>;

/** The bits of a float64, low word first. */
fn wideBits(a: Wide) -> vec2<u32> {
  if ((a.hi | a.lo) == 0u) { return vec2<u32>(0u, 0u); }
  let exponent = u32(a.exponent + 1075) << 20u;
  return vec2<u32>(a.lo, (u32(a.isNegative) << 31u) | exponent | (a.hi & 0xfffffu));
}

fn wideOf(bits: vec2<u32>) -> Wide {
  if ((bits.x | (bits.y & 0x7fffffffu)) == 0u) { return WIDE_ZERO; }
  let exponent = i32((bits.y >> 20u) & 0x7ffu) - 1075;
  return Wide((bits.y >> 31u) != 0u, exponent, (bits.y & 0xfffffu) | 0x100000u, bits.x);
}

@compute @workgroup_size(64)
fn sums(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&answers)) {
    answers[id.x] = wideBits(wideSum(wideOf(left[id.x]), wideOf(right[id.x])));
  }
}

@compute @workgroup_size(64)
fn roundings(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&answers)) {
    answers[id.x] = vec2<u32>(wideRounded32(wideOf(left[id.x])), right[id.x].x);
  }
}

@compute @workgroup_size(64)
fn products(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&answers)) {
    answers[id.x] = wideBits(wideProduct(left[id.x].x, right[id.x].x));
  }
}
`;

/** Runs one entry point on pairs of 64-bit words. */
async function computed(
  entryPoint: "sums" | "products" | "roundings",
  left: BigUint64Array,
  right: BigUint64Array,
): Promise<Float64Array> {
  const { connection } = device!;
  const module = connection.createShaderModule({ code: SHADER, label: "soft float" });
  const pipeline = await connection.createComputePipelineAsync({
    layout: "auto",
    compute: { module, entryPoint },
  });
  const size = left.byteLength;
  const { storage, copySource, copyTarget, mapRead } = BUFFER_USAGE;
  const usage = storage | copySource | copyTarget;
  const buffers = [0, 1, 2].map(() => connection.createBuffer({ size, usage }));
  const staging = connection.createBuffer({ size, usage: mapRead | copyTarget });
  connection.queue.writeBuffer(buffers[0]!, 0, left);
  connection.queue.writeBuffer(buffers[1]!, 0, right);
  const encoder = connection.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  const entries = buffers.map((buffer, binding) => ({ binding, resource: { buffer } }));
  const layout = pipeline.getBindGroupLayout(0);
  pass.setBindGroup(0, connection.createBindGroup({ layout, entries }));
  pass.dispatchWorkgroups(Math.ceil(left.length / 64));
  pass.end();
  encoder.copyBufferToBuffer(buffers[2]!, 0, staging, 0, size);
  connection.queue.submit([encoder.finish()]);
  await staging.mapAsync(MAP_MODE_READ);
  const answers = new Float64Array(staging.getMappedRange().slice(0));
  staging.unmap();
  for (const buffer of [...buffers, staging]) buffer.destroy();
  return answers;
}

/** The first pair whose answer differs from this processor's. */
function firstWrong(
  answers: Float64Array,
  pairs: readonly (readonly [number, number])[],
  operation: (left: number, right: number) => number,
): string | undefined {
  for (const [index, [left, right]] of pairs.entries()) {
    const expected = operation(left, right) + 0;
    if (!Object.is(answers[index], expected)) {
      return `${left}, ${right}: ${answers[index]} is not ${expected}`;
    }
  }
  return undefined;
}

const wordsOf = (values: readonly number[]): BigUint64Array =>
  new BigUint64Array(Float64Array.from(values).buffer);

async function firstWrongSum(
  pairs: readonly (readonly [number, number])[],
): Promise<string | undefined> {
  const left = wordsOf(pairs.map(([a]) => a));
  const right = wordsOf(pairs.map(([, b]) => b));
  return firstWrong(await computed("sums", left, right), pairs, (a, b) => a + b);
}

async function firstWrongProduct(
  pairs: readonly (readonly [number, number])[],
): Promise<string | undefined> {
  const words = (side: 0 | 1): BigUint64Array =>
    BigUint64Array.from(
      new Uint32Array(Float32Array.from(pairs, (pair) => pair[side]).buffer),
      BigInt,
    );
  return firstWrong(await computed("products", words(0), words(1)), pairs, (a, b) => a * b);
}

const COUNT = 100_000;
const random = seededRandom(7);
const bits32 = (): number => Math.floor(random() * 2 ** 32);

/** A float32 of random bits, finite, often subnormal or with few digits. */
function anyFloat(): number {
  const kind = Math.floor(random() * 4);
  const exponent = kind === 0 ? 0 : Math.floor(random() * 255);
  const digits = kind === 1 ? bits32() & (bits32() | 0x7f0000) : bits32();
  const word = ((bits32() & 0x80000000) | (exponent << 23) | (digits & 0x7fffff)) >>> 0;
  return new Float32Array(Uint32Array.of(word).buffer)[0]!;
}

/** A float64 between 2^-298 and 2^260, with random digits, long runs of ones or of zeros. */
function anyWide(exponent: number): number {
  const kind = Math.floor(random() * 4);
  let digits = 2 ** 52 + Math.floor(random() * 2 ** 20) * 2 ** 32 + bits32();
  if (kind === 0) digits = 2 ** 53 - 1 - Math.floor(random() * 4);
  if (kind === 1) digits = 2 ** 52 + Math.floor(random() * 4);
  if (kind === 2) digits = 2 ** 52 + 2 ** Math.floor(random() * 52);
  return (random() < 0.5 ? -1 : 1) * digits * 2 ** (exponent - 52);
}

describe.skipIf(device === undefined)(`float64 in integers ${reason}`, () => {
  test("products of any finite float32, subnormal ones too", async () => {
    const pairs = Array.from({ length: COUNT }, () => [anyFloat(), anyFloat()] as const);

    expect(await firstWrongProduct(pairs)).toBeUndefined();
  });

  test("roundings to float32: normal, subnormal, tied, too small, too large", async () => {
    const ties = Array.from({ length: 400 }, (_, index) => [
      (2 ** 24 + 1) * 2 ** (index - 200),
      (2 ** 24 + 3) * 2 ** (index - 200),
      (1 + 2 ** -52) * 2 ** (index - 200),
      (2 - 2 ** -52) * 2 ** (index - 200),
    ]).flat();
    const values = Array.from({ length: COUNT }, () => anyWide(Math.floor(random() * 300) - 160));
    const all = [0, ...ties, ...ties.map((value) => -value), ...values];

    const answers = await computed("roundings", wordsOf(all), new BigUint64Array(all.length));

    const found = new Float32Array(answers.buffer).filter((_value, index) => index % 2 === 0);
    const wrong = all.findIndex((value, at) => !Object.is(found[at], Math.fround(value) + 0));
    expect(wrong < 0 ? undefined : [all[wrong], found[wrong]]).toBeUndefined();
  });

  test("products of zeros and of the extremes", async () => {
    const values = [0, -0, 2 ** -149, -(2 ** -149), 2 ** -126, 1, -1, 3.4028234663852886e38];
    const pairs = values.flatMap((a) => values.map((b) => [a, b] as const));

    expect(await firstWrongProduct(pairs)).toBeUndefined();
  });

  test.each([0, 1, 2, 3, 10, 11, 12, 31, 32, 33, 42, 43, 52, 53, 54, 55, 63, 64, 65, 96, 200])(
    "sums of numbers whose exponents differ by %i",
    async (distance) => {
      const pairs = Array.from({ length: 4000 }, () => {
        const exponent = Math.floor(random() * 300) - 250;
        const pair = [anyWide(exponent), anyWide(exponent + distance)] as const;
        return random() < 0.5 ? pair : ([pair[1], pair[0]] as const);
      });

      expect(await firstWrongSum(pairs)).toBeUndefined();
    },
  );

  test("sums that cancel to a few digits or to nothing, and of zeros", async () => {
    const pairs = Array.from({ length: COUNT }, () => {
      const large = anyWide(Math.floor(random() * 100) - 50);
      const near = -large * (1 + Math.floor(random() * 5 - 2) * 2 ** -Math.floor(random() * 53));
      return [random() < 0.02 ? 0 : large, random() < 0.02 ? 0 : near] as const;
    });

    expect(await firstWrongSum(pairs)).toBeUndefined();
  });

  test("running sums of products, as a score adds them", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), async (seed) => {
        const next = seededRandom(seed);
        const scale = Math.floor(next() * 60);
        const float = (): number =>
          Math.fround((next() - 0.5) * 2 ** Math.floor(next() * scale - scale / 2));
        let sum = 0;
        const pairs = Array.from({ length: 3000 }, () => {
          const pair = [sum, float() * float()] as const;
          sum = pair[0] + pair[1];
          return pair;
        });

        expect(await firstWrongSum(pairs)).toBeUndefined();
      }),
      { numRuns: 10 },
    );
  });
});
