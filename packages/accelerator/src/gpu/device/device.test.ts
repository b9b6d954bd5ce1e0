// What an accelerator does when there is no GPU, or only software, and when its GPU is lost or
// full.

import { afterAll, describe, expect, test } from "vitest";
import { loadParts, normalValues, seededRandom } from "../../cases/exactness.cases.ts";
import type { SearchProblem } from "../../cases/exactness.cases.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import { openGpuDevice } from "./device.ts";
import type { GpuDevice } from "./device.ts";
import { gpuOptionsFromEnvironment, resolveGpuOptions } from "../gpu-settings.ts";
import type { GpuOptions } from "../gpu-settings.ts";
import { loadForOneQuery } from "../fixtures/few-kernels.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";
import { BUFFER_USAGE } from "../webgpu-api.ts";

const CAPACITY_BYTES = 2 ** 30;
const { device: first, reason } = await sharedSoftwareGpu();
/** Devices of single tests, which lose them. */
const opened: GpuDevice[] = [];

afterAll(async () => {
  await Promise.all(opened.map((device) => device.close()));
});

async function openOne(): Promise<GpuDevice> {
  const device = await openGpuDevice(resolveGpuOptions({ allowSoftware: true }), loadForOneQuery);
  opened.push(device);
  return device;
}

/** One query: the devices of single tests have no kernel for more. */
function someProblem(): SearchProblem {
  const random = seededRandom(1);
  const vectors = normalValues(random, 16);
  return { dim: 16, k: 5, table: normalValues(random, 4000 * 16), vectors };
}

describe("settings of a GPU", () => {
  test("come from the environment", () => {
    expect(gpuOptionsFromEnvironment({})).toEqual({ allowSoftware: false });
    const environment = { WINNOW_GPU_ALLOW_SOFTWARE: "1", WINNOW_GPU_ADAPTER: "H200" };
    expect(gpuOptionsFromEnvironment(environment)).toEqual({
      allowSoftware: true,
      adapterName: "H200",
    });
  });

  test.each([{ lanes: 0 }, { slabBytesMax: 1.5 }, { uploadBytesMax: NaN }])(
    "that are no counts are refused: %o",
    (options) => {
      expect(() => resolveGpuOptions(options)).toThrow(RangeError);
    },
  );

  test("choose Dawn's switches: times are not rounded where they are wanted", async () => {
    const created: string[][] = [];
    const none = { requestAdapter: () => Promise.resolve(null) };
    const load = () =>
      Promise.resolve({
        create: (flags: readonly string[]) => {
          created.push([...flags]);
          return none;
        },
      });
    const open = (options: GpuOptions) =>
      openGpuDevice(resolveGpuOptions(options), load).catch(() => undefined);

    await open({});
    await open({ isTimed: true, adapterName: "H200", usesMatrixUnits: false });
    await open({ isTimed: true, enabledToggles: ["a", "b"], disabledToggles: ["c"] });

    expect(created).toEqual([
      ["enable-dawn-features=allow_unsafe_apis"],
      ["adapter=H200", "disable-dawn-features=timestamp_quantization"],
      [
        "enable-dawn-features=allow_unsafe_apis,a,b",
        "disable-dawn-features=timestamp_quantization,c",
      ],
    ]);
  });

  test("without the package, opening says how to install it", async () => {
    const absent = new Error("Cannot find package 'webgpu' imported from here");

    const open = openGpuDevice(resolveGpuOptions({ adapterName: "none" }), () =>
      Promise.reject(absent),
    );

    await expect(open).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await expect(open).rejects.toThrow("npm install --no-save webgpu@");
  });

  test("a package that does not load says why", async () => {
    const broken = new Error("libgcc.so: version `GLIBC_2.34' not found");

    const open = openGpuDevice(resolveGpuOptions({}), () => Promise.reject(broken));

    await expect(open).rejects.toThrow(/does not load here; .*GLIBC_2.34/);
  });

  test("without a GPU, opening says what Vulkan lacks", async () => {
    const none = { requestAdapter: () => Promise.resolve(null) };
    const load = () => Promise.resolve({ create: () => none });

    const open = openGpuDevice(resolveGpuOptions({}), load);

    await expect(open).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await expect(open).rejects.toThrow(/Cannot open a GPU: .*(Vulkan|driver)/);
  });

  test("a GPU that lacks features or limits is refused with all of them", async () => {
    const limits = {
      maxBufferSize: 2 ** 28,
      maxStorageBufferBindingSize: 2 ** 27,
      maxStorageBuffersPerShaderStage: 4,
      maxComputeWorkgroupsPerDimension: 65_535,
      maxComputeWorkgroupSizeX: 256,
      maxComputeWorkgroupStorageSize: 16_384,
      maxComputeInvocationsPerWorkgroup: 128,
    };
    const info = {
      vendor: "v",
      architecture: "a",
      device: "old",
      description: "old driver",
      isFallbackAdapter: false,
      subgroupMinSize: 32,
      subgroupMaxSize: 32,
    };
    const adapter = {
      info,
      features: new Set<string>(),
      limits,
      requestDevice: () => Promise.reject(new Error("not asked for")),
    };
    const gpu = {
      wgslLanguageFeatures: new Set<string>(),
      requestAdapter: () => Promise.resolve(adapter),
    };

    const open = openGpuDevice(resolveGpuOptions({}), () => Promise.resolve({ create: () => gpu }));

    await expect(open).rejects.toThrow(
      "the GPU old lacks the WGSL feature packed_4x8_integer_dot_product, " +
        "maxStorageBuffersPerShaderStage of at least 8 (it has 4), " +
        "maxComputeInvocationsPerWorkgroup of at least 256 (it has 128)",
    );
  });
});

describe.skipIf(first === undefined)(`the life of a GPU ${reason}`, () => {
  test.skipIf(first?.isSoftware === false)(
    "a software device is refused unless it is allowed",
    async () => {
      const open = openGpuDevice(resolveGpuOptions({}));

      await expect(open).rejects.toThrow("WINNOW_GPU_ALLOW_SOFTWARE=1");
    },
  );

  test("a GPU that has another name is not taken", async () => {
    const options = { allowSoftware: true, adapterName: "no such device" };

    const open = openGpuDevice(resolveGpuOptions(options));

    await expect(open).rejects.toThrow('no GPU has "no such device" in its name');
  });

  test("rows of a dim beyond the kernels are refused by name", async () => {
    const accelerator = createGpuAccelerator(first!, { capacityBytes: CAPACITY_BYTES });

    const load = accelerator.load({ rows: 1, dim: 4097, firstRow: 0, use: "search" }, []);

    await expect(load).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(load).rejects.toThrow("from 1 to 4096");
  });

  test("what the device has no room for is refused", async () => {
    const allocation = first!.allocate(2 ** 50, BUFFER_USAGE.storage);

    await expect(allocation).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    first!.checkAlive();
  });

  test("a lost GPU fails what is pending and everything after, and hangs nothing", async () => {
    const device = await openOne();
    const accelerator = createGpuAccelerator(device, { capacityBytes: CAPACITY_BYTES });
    const problem = someProblem();
    const residents = await loadParts(accelerator, problem, 2);
    const query = { residents, vectors: problem.vectors, k: problem.k };
    const pending = [accelerator.topK(query), accelerator.topK(query), accelerator.topK(query)];
    const outcomes = Promise.allSettled(pending);

    device.connection.destroy();

    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "UNAVAILABLE" } });
    }
    await expect(accelerator.topK(query)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const gather = accelerator.gather(residents[0]!, Uint32Array.of(1));
    await expect(gather).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const load = accelerator.load({ rows: 1, dim: 1, firstRow: 0, use: "search" }, [
      new Float32Array(1),
    ]);
    await expect(load).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await accelerator.close();
    expect(accelerator.memory().usedBytes).toBe(0);
  });

  test("an error that WebGPU reports ends the device: no answer is trusted after it", async () => {
    const device = await openOne();
    const accelerator = createGpuAccelerator(device, { capacityBytes: CAPACITY_BYTES });
    const problem = someProblem();
    const residents = await loadParts(accelerator, problem, 1);

    device.connection.createBuffer({ size: 16, usage: 0xffff });
    const query = { residents, vectors: problem.vectors, k: problem.k };
    await accelerator.topK(query).catch(() => undefined);

    await expect(accelerator.topK(query)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("rows that are only gathered stay off the device and are not searched", async () => {
    const accelerator = createGpuAccelerator(first!, { capacityBytes: CAPACITY_BYTES });
    const shape = { rows: 100, dim: 8, firstRow: 0, use: "gather" } as const;

    const resident = await accelerator.load(shape, [new Float32Array(800)]);

    expect(resident.bytes).toBe(3200);
    expect(accelerator.memory().usedBytes).toBe(3200);
    const query = { residents: [resident], vectors: new Float32Array(8), k: 1 };
    await expect(accelerator.topK(query)).rejects.toThrow(RangeError);
    await accelerator.close();
  });
});
