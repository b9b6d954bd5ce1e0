// The scan on matrix units as far as it can be tested without them: its source is valid for every length
// of rows that it takes, and a kernel is trusted only if it gives the bounds of the ordinary scan. On a
// GPU that has them, every test of a search runs on them.

import { describe, expect, test } from "vitest";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";
import { rowLayout } from "../codes.ts";
import { fitsMatrices, tensorScanShader, tensorWorkgroups } from "../shaders/tensor-scan.ts";
import { importWebGpu, openGpuDevice } from "../device/device.ts";
import { resolveGpuOptions } from "../gpu-settings.ts";
import { MatrixScans, agrees, openMatrixScan } from "./matrix-scans.ts";

const { device, reason } = await sharedSoftwareGpu();

/** The quads of codes that rows may have for the scan on matrix units. */
const QUADS = [2, 4, 6, 8];

test("takes rows of whole matrices whose queries fit into registers", () => {
  const taken = Array.from({ length: 300 }, (_, quads) => quads).filter(
    (quads) => quads > 0 && fitsMatrices(quads),
  );

  expect(taken).toEqual(QUADS);
});

test("has a workgroup for each group of a small table, and a limit", () => {
  expect([1, 500, 10 ** 6].map(tensorWorkgroups)).toEqual([1, 500, 3168]);
});

describe.skipIf(device === undefined)(`the scan on matrix units ${reason}`, () => {
  test.each(QUADS)("is valid WGSL for %i quads of codes", async (quads) => {
    const flags = ["backend=null", "enable-dawn-features=allow_unsafe_apis"];
    const gpu = (await importWebGpu()).create(flags);
    const adapter = await gpu.requestAdapter();
    const connection = await adapter!.requestDevice({
      requiredFeatures: ["subgroups", "chromium-experimental-subgroup-matrix"],
      requiredLimits: {},
    });
    connection.pushErrorScope("validation");

    connection.createShaderModule({ code: tensorScanShader(quads), label: "scan" });

    expect((await connection.popErrorScope())?.message).toBeUndefined();
    connection.destroy();
  });

  test.each(QUADS)("is used if it agrees with the ordinary scan, %i quads", async (quads) => {
    const layout = rowLayout(quads * 16);
    const { scanOne, scanTile, select } = device!.kernels;

    // Two cuts of the same scan; a kernel that writes no bounds.
    expect(await agrees(device!, scanOne, layout)).toBe(true);
    expect(await agrees(device!, scanTile, layout)).toBe(true);
    expect(await agrees(device!, select, layout)).toBe(false);
  });

  test("is not used where a device cannot compile it", async () => {
    const without = device!.hasMatrixUnits
      ? await openGpuDevice(resolveGpuOptions({ allowSoftware: true, usesMatrixUnits: false }))
      : device!;

    expect(await openMatrixScan(without, rowLayout(64))).toBeUndefined();
    expect(await openMatrixScan(without, rowLayout(200))).toBeUndefined();
    const scans = new MatrixScans(without);
    await scans.prepare(rowLayout(64));
    expect(scans.scanOf(rowLayout(64))).toBeUndefined();
    without.checkAlive();
    if (without !== device) await without.close();
  });

  test.skipIf(device?.hasMatrixUnits !== true).each(QUADS)(
    "gives the bounds of the ordinary scan on this device, %i quads",
    async (quads) => {
      expect(await openMatrixScan(device!, rowLayout(quads * 16))).toBeDefined();
    },
  );
});
