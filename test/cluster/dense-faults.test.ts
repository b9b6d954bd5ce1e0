// What ONNX Runtime does to a cluster of real processes: requests that end its process, runs that take
// seconds, and a graph that it refuses.

import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  mistypedModel,
  quotientModel,
} from "../../packages/accelerator/src/dense/fixtures/onnx-writer.ts";
import { RunningCluster } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-dense-"));
const models = path.join(directory, "models");
const loops = path.resolve(import.meta.dirname, "../data/operations/loops/1");

/** A version appears as a whole. */
function writeVersion(model: string, version: number, onnx: Uint8Array): void {
  const draft = path.join(directory, "draft");
  mkdirSync(draft);
  writeFileSync(path.join(draft, "model.onnx"), onnx);
  mkdirSync(path.join(models, model), { recursive: true });
  renameSync(draft, path.join(models, model, String(version)));
}

describe("a cluster whose ONNX Runtime fails", () => {
  let cluster: RunningCluster;

  beforeAll(async () => {
    await writeDemo(models, { items: 100, dim: 8, users: 20, k: 5, seed: 1 });
    writeVersion("quotient", 1, quotientModel());
    cpSync(loops, path.join(models, "loops/1"), { recursive: true });
    // A run of seconds takes ten times as long on a machine that has other things to do.
    const routerArgs = ["--rest_api_timeout_in_ms=120000"];
    cluster = await RunningCluster.start({ models, workers: 2, routerArgs });
    await vi.waitFor(
      async () => {
        const answers = [await quotient(6, 3), await rank()];
        const isReady = JSON.stringify(await stateOf("loops")).includes('"AVAILABLE"');
        if (!isReady || answers.some(({ status }) => status !== 200)) throw new Error("not ready");
      },
      { timeout: WAIT_MS, interval: 200 },
    );
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  async function ask(model: string, request: object) {
    const answer = await fetch(`${cluster.url}/v1/models/${model}:predict`, {
      method: "POST",
      body: JSON.stringify(request),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }

  const quotient = (x: number, y: number) => ask("quotient", { inputs: { x: [x], y: [y] } });
  const instance = { user_id: "7", movie_title: "The Silent Harbor (1954)" };
  const rank = () => ask("movies-ranking", { instances: [instance] });

  async function stateOf(model: string) {
    const answer = await fetch(`${cluster.url}/v1/models/${model}`);
    const body = (await answer.json()) as { model_version_status?: unknown };
    return body.model_version_status;
  }

  test("answers everybody while a request ends its process again and again", async () => {
    const load = { isOver: false };
    const answers: number[] = [];
    const client = async (): Promise<void> => {
      while (!load.isOver) answers.push((await rank()).status);
    };
    const clients = [client(), client(), client()];

    const fatal = [];
    for (let at = 0; at < 5; at += 1) fatal.push(await quotient(-(2 ** 31), -1));
    load.isOver = true;
    await Promise.all(clients);

    expect(fatal.map(({ status }) => status)).toEqual([500, 500, 500, 500, 500]);
    const reason =
      /A run of model quotient version 1 with these inputs has ended 2 times the process of ONNX Runtime/;
    for (const { body } of fatal) expect(body["error"]).toMatch(reason);
    expect(answers.length).toBeGreaterThan(0);
    expect(new Set(answers)).toEqual(new Set([200]));
    const page = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();
    expect(page).toMatch(/^winnow_dense_process_ends_total\{lane="(main|apart)"\} [1-9]/m);
    await vi.waitFor(async () => expect((await quotient(6, 3)).body).toEqual({ outputs: [2] }), {
      timeout: WAIT_MS,
    });
  });

  test("answers a model within less than one run of another, of which each takes long", async () => {
    const endless = () => ask("loops", { signature_name: "endless", inputs: { x: [1] } });
    const first = await endless();
    const load = { isOver: false };
    const loopers = Array.from({ length: 4 }, async () => {
      const tookMs: number[] = [];
      while (!load.isOver) {
        const sinceMs = performance.now();
        expect((await endless()).status).toBe(400);
        tookMs.push(performance.now() - sinceMs);
      }
      return tookMs;
    });

    const rankedMs: number[] = [];
    for (let at = 0; at < 20; at += 1) {
      const sinceMs = performance.now();
      expect((await rank()).status).toBe(200);
      rankedMs.push(performance.now() - sinceMs);
    }
    load.isOver = true;
    const loopedMs = (await Promise.all(loopers)).flat();

    expect(first.body["error"]).toMatch(/takes more than 100000 iterations/);
    // Four loop at a time, one after the other: a run is a quarter of what each of them waits.
    expect(Math.max(...rankedMs)).toBeLessThan(Math.max(...loopedMs));
  });

  test("keeps the version before one whose graph ONNX Runtime refuses, and says why in its status", async () => {
    writeVersion("quotient", 2, mistypedModel());

    await vi.waitFor(
      async () =>
        expect(await stateOf("quotient")).toMatchObject([
          {
            version: "2",
            state: "END",
            status: {
              error_message: expect.stringMatching(/Cannot load a dense part.*Type/) as string,
            },
          },
          { version: "1", state: "AVAILABLE" },
        ]),
      { timeout: WAIT_MS, interval: 200 },
    );
    expect((await quotient(8, 2)).body).toEqual({ outputs: [4] });
  });
});
