// A process that uses a GPU, seen from outside: it survives the garbage collector, and it ends when
// told. Dawn crashes the process if the object that `create` returned is collected while work is
// pending, which shows where stdout is a pipe, as here.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test, vi } from "vitest";
import { FEW_KERNELS } from "../fixtures/few-kernels.ts";
import { SLOW_POLLS } from "../fixtures/slow-polls.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";

// Each process opens the device anew: seconds on a software device, more on a busy machine.
vi.setConfig({ testTimeout: 300_000 });

const dist = path.resolve(import.meta.dirname, "../../../dist");
const { device, reason } = await sharedSoftwareGpu();

const compiled = (file: string): string =>
  JSON.stringify(pathToFileURL(path.join(dist, file)).href);

const fixture = JSON.stringify(FEW_KERNELS);

/** Runs a module with the compiled code of this package imported. */
function run(code: string): { readonly status: number | null; readonly out: string } {
  const script = `
    import { createGpuAccelerator } from ${compiled("gpu/accelerator.js")};
    import { importWebGpu, openGpuDevice } from ${compiled("gpu/device/device.js")};
    import { resolveGpuOptions } from ${compiled("gpu/gpu-settings.js")};
    import { compilingOnly, forOneQuery } from ${fixture};
    const load = compilingOnly(forOneQuery, importWebGpu);
    const open = () => openGpuDevice(resolveGpuOptions({ allowSoftware: true }), load);
    ${code}`;
  const args = [SLOW_POLLS, "--expose-gc", "--input-type=module", "--eval", script];
  const ended = spawnSync(process.execPath, args, {
    encoding: "utf8",
    timeout: 100_000,
    cwd: import.meta.dirname,
    // Dawn reports its absence.
    env: { ...process.env, XDG_RUNTIME_DIR: tmpdir() },
  });
  return { status: ended.status, out: `${ended.stdout}${ended.stderr}${ended.signal ?? ""}` };
}

/**
 * Script of a thread whose device is lost while memory is allocated. It compiles the one kernel that
 * loads rows.
 */
const LOSS_WHILE_LOADING = `
  import { parentPort } from "node:worker_threads";
  import { createGpuAccelerator } from ${compiled("gpu/accelerator.js")};
  import { importWebGpu, openGpuDevice } from ${compiled("gpu/device/device.js")};
  import { resolveGpuOptions } from ${compiled("gpu/gpu-settings.js")};
  import { compilingOnly } from ${fixture};
  const load = compilingOnly((label) => label === "coder", importWebGpu);
  const device = await openGpuDevice(resolveGpuOptions({ allowSoftware: true }), load);
  const accelerator = createGpuAccelerator(device, { capacityBytes: 2 ** 26 });
  const shape = { rows: 300, dim: 4, firstRow: 0, use: "search" };
  void accelerator.load(shape, [new Float32Array(1200).fill(1)]).catch(() => undefined);
  device.connection.destroy();
  await accelerator.lost;
  parentPort.postMessage("lost");`;

const canRun = device !== undefined && existsSync(path.join(dist, "gpu/device/device.js"));

describe.skipIf(!canRun)(`a process with a GPU ${reason}`, () => {
  test("survives collections while the device works", () => {
    const { status, out } = run(`
      const connect = async () => (await (await importWebGpu()).create([]).requestAdapter()).requestDevice();
      const connection = await connect();
      for (let round = 0; round < 40; round += 1) {
        const buffer = connection.createBuffer({ size: 1 << 20, usage: 9 });
        const mapped = buffer.mapAsync(1);
        globalThis.gc();
        await new Promise(setImmediate);
        globalThis.gc();
        await mapped;
        console.log(round);
        buffer.destroy();
      }
      process.exit(7);`);

    expect(out).toContain("39");
    expect(status).toBe(7);
  });

  test("ends by itself once its accelerator is closed", () => {
    const { status, out } = run(`
      const settings = { capacityBytes: 2 ** 26, ownsDevice: true };
      const accelerator = createGpuAccelerator(await open(), settings);
      const shape = { rows: 300, dim: 4, firstRow: 0, use: "search" };
      const values = Float32Array.from({ length: 1200 }, (_, at) => Math.sin(at));
      const resident = await accelerator.load(shape, [values]);
      const vectors = Float32Array.of(1, 2, 3, 4);
      const { counts } = await accelerator.topK({ residents: [resident], vectors, k: 5 });
      await accelerator.close();
      console.log("found", counts[0]);`);

    expect(out).toContain("found 5");
    expect(status).toBe(0);
  });

  test("exits with its own code while searches are under way", () => {
    const { status } = run(`
      const accelerator = createGpuAccelerator(await open(), { capacityBytes: 2 ** 26 });
      const shape = { rows: 50000, dim: 16, firstRow: 0, use: "search" };
      const values = Float32Array.from({ length: 800000 }, (_, at) => Math.sin(at));
      const resident = await accelerator.load(shape, [values]);
      const vectors = Float32Array.from({ length: 16 }, (_, at) => Math.cos(at));
      void accelerator.topK({ residents: [resident], vectors, k: 50 }).catch(() => undefined);
      await new Promise(setImmediate);
      process.exit(9);`);

    expect(status).toBe(9);
  });

  test("exits with its own code when a thread's device is lost while rows are loaded", () => {
    const script = `
      import { Worker } from "node:worker_threads";
      import { exitAtOnce } from ${compiled("process-exit.js")};
      const thread = ${JSON.stringify(LOSS_WHILE_LOADING)};
      const worker = new Worker(new URL("data:text/javascript," + encodeURIComponent(thread)));
      worker.on("error", (error) => { console.error(error); process.exit(3); });
      worker.on("message", () => exitAtOnce(75));`;
    // Without `exitAtOnce`, two of three such processes abort.
    for (let turn = 0; turn < 3; turn += 1) {
      const { status, out } = run(script);

      expect(out).toBe("");
      expect(status).toBe(75);
    }
  });
});
