// What this device can do at most, measured in the same run as the searches: reading memory, integer
// dot products of packed bytes, float32 multiply-adds, sending to it, and hearing back from it.

import { median, rounded } from "./figures.mjs";

const USAGE = { mapRead: 1, copySource: 4, copyTarget: 8, uniform: 64, storage: 128, query: 512 };
const THREADS = 256;
/** A measured dispatch takes at least so long, so that its start does not count. */
const DISPATCH_MS = 20;
const RUNS = 7;

const READ = `
@group(0) @binding(0) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  var sum = vec4<u32>();
  for (var at = id.x; at < arrayLength(&table); at += groups.x * ${THREADS}u) { sum ^= table[at]; }
  result[id.x] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}`;

/** Eight independent chains of one operation per thread; the number of turns is read from `table`. */
const chains = ({ type, start, step, last }) => `
@group(0) @binding(0) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let turns = table[0].x;
  let other = ${start("table[0].y")};
  ${Array.from({ length: 8 }, (_, at) => `var a${at}: ${type} = ${start(`(id.x + ${at}u)`)};`).join("\n  ")}
  for (var turn = 0u; turn < turns; turn += 1u) {
    ${Array.from({ length: 8 }, (_, at) => `a${at} = ${step(`a${at}`)};`).join("\n    ")}
  }
  result[id.x] = ${last("(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7)")};
}`;

const DOT = chains({
  type: "i32",
  start: (word) => `i32(${word})`,
  step: (a) => `dotStep(${a}, other)`,
  last: (sum) => `u32(${sum})`,
}).concat(`
fn dotStep(a: i32, b: i32) -> i32 { return dot4I8Packed(u32(a), u32(b)) + a; }`);
const FMA = chains({
  type: "f32",
  start: (word) => `(f32(${word} & 1023u) * 0.0009)`,
  step: (a) => `fma(${a}, other, 0.25)`,
  last: (sum) => `bitcast<u32>(${sum})`,
});

/** Runs kernels on an opened device and times them there, or here if it has no clock. */
class Bench {
  constructor({ connection, isTimed }) {
    this.connection = connection;
    if (!isTimed) return;
    this.querySet = connection.createQuerySet({ type: "timestamp", count: 2 });
    this.times = connection.createBuffer({ size: 16, usage: USAGE.query | USAGE.copySource });
    this.staging = connection.createBuffer({ size: 16, usage: USAGE.mapRead | USAGE.copyTarget });
  }

  async pipeline(code) {
    const module = this.connection.createShaderModule({ code });
    return this.connection.createComputePipelineAsync({
      layout: "auto",
      compute: { module, entryPoint: "main" },
    });
  }

  /** Milliseconds of one dispatch. */
  async time({ pipeline, buffers, groups }) {
    const { connection, querySet } = this;
    const encoder = connection.createCommandEncoder();
    const timestampWrites = { querySet, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 };
    const pass = encoder.beginComputePass(querySet === undefined ? {} : { timestampWrites });
    pass.setPipeline(pipeline);
    const entries = buffers.map((buffer, binding) => ({ binding, resource: { buffer } }));
    const layout = pipeline.getBindGroupLayout(0);
    pass.setBindGroup(0, connection.createBindGroup({ layout, entries }));
    pass.dispatchWorkgroups(groups);
    pass.end();
    if (querySet !== undefined) {
      encoder.resolveQuerySet(querySet, 0, 2, this.times, 0);
      encoder.copyBufferToBuffer(this.times, 0, this.staging, 0, 16);
    }
    const start = performance.now();
    connection.queue.submit([encoder.finish()]);
    await connection.queue.onSubmittedWorkDone();
    if (querySet === undefined) return performance.now() - start;
    await this.staging.mapAsync(1);
    const [from, to] = new BigUint64Array(this.staging.getMappedRange().slice(0));
    this.staging.unmap();
    return Number(to - from) / 1e6;
  }

  async medianMs(dispatch) {
    const list = [];
    for (let run = 0; run < RUNS; run += 1) list.push(await this.time(dispatch));
    return median(list);
  }

  close() {
    for (const part of [this.querySet, this.times, this.staging]) part?.destroy();
  }
}

/** Fills a buffer with noise, awaiting the device every 64 MiB; gives GB/s as the host sees it. */
async function upload({ connection }, buffer) {
  const piece = new Uint32Array(Math.min(buffer.size, 2 ** 26) / 4);
  for (let at = 0; at < piece.length; at += 1) piece[at] = Math.imul(at, 2_654_435_761);
  const start = performance.now();
  for (let at = 0; at < buffer.size; at += piece.byteLength) {
    connection.queue.writeBuffer(
      buffer,
      at,
      piece,
      0,
      Math.min(piece.length, (buffer.size - at) / 4),
    );
    await connection.queue.onSubmittedWorkDone();
  }
  return buffer.size / 1e6 / (performance.now() - start);
}

/** Operations per second of eight chains: more turns until a dispatch is long enough. */
async function operationRate(bench, code, { table, result, groups, each }) {
  const pipeline = await bench.pipeline(code);
  const dispatch = { pipeline, buffers: [table, result], groups };
  for (let turns = 16; ; turns *= 4) {
    bench.connection.queue.writeBuffer(table, 0, new Uint32Array([turns, 0x7f3b1d05, 0, 0]));
    const ms = await bench.time(dispatch);
    if (ms < DISPATCH_MS && turns < 2 ** 22) continue;
    return (groups * THREADS * turns * 8 * each * 1000) / (await bench.medianMs(dispatch));
  }
}

/** Milliseconds from asking for 16 bytes to having them. */
async function readback({ connection }, source) {
  const staging = connection.createBuffer({ size: 16, usage: USAGE.mapRead | USAGE.copyTarget });
  const list = [];
  for (let run = 0; run < 50; run += 1) {
    const start = performance.now();
    const encoder = connection.createCommandEncoder();
    encoder.copyBufferToBuffer(source, 0, staging, 0, 16);
    connection.queue.submit([encoder.finish()]);
    await staging.mapAsync(1);
    staging.getMappedRange();
    list.push(performance.now() - start);
    staging.unmap();
  }
  staging.destroy();
  return median(list);
}

/** A buffer of `bytes`, halved as often as the device has no room. */
export async function largestBuffer(device, bytes, usage) {
  const size = Math.floor(Math.min(bytes, device.limits.maxStorageBufferBindingSize) / 256) * 256;
  try {
    return await device.allocate(size, usage);
  } catch (error) {
    if (error.code !== "RESOURCE_EXHAUSTED" || size < 2 ** 20) throw error;
    return largestBuffer(device, size / 2, usage);
  }
}

/** All ceilings, with `bytes` of memory to read, or less where the device has no room for them. */
export async function measureCeilings(device, bytes) {
  const usage = USAGE.storage | USAGE.copySource | USAGE.copyTarget;
  const table = await largestBuffer(device, bytes, usage);
  const { size } = table;
  const groups = Math.min(8192, Math.max(64, Math.floor(size / 16 / THREADS / 16)));
  const result = await device.allocate(groups * THREADS * 4, usage);
  const bench = new Bench(device);
  try {
    const uploadGbPerS = await upload(bench, table);
    const read = { pipeline: await bench.pipeline(READ), buffers: [table, result], groups };
    await bench.time(read);
    const readGbPerS = size / 1e6 / (await bench.medianMs(read));
    const dot = await operationRate(bench, DOT, { table, result, groups, each: 8 });
    const fma = await operationRate(bench, FMA, { table, result, groups, each: 2 });
    const ceilings = {
      timedBy: bench.querySet === undefined ? "host" : "device",
      bytesRead: size,
      readGbPerS: rounded(readGbPerS),
      dp4aTops: rounded(dot / 1e12),
      fmaTflops: rounded(fma / 1e12),
      uploadGbPerS: rounded(uploadGbPerS),
      readbackMs: rounded(await readback(bench, result)),
    };
    for (const [name, value] of Object.entries(ceilings)) {
      if (typeof value === "number" && !(value > 0 && Number.isFinite(value)))
        throw new RangeError(`${name} was measured as ${value}`);
    }
    return ceilings;
  } finally {
    bench.close();
    table.destroy();
    result.destroy();
  }
}
