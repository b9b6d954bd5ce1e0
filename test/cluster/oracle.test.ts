// Every recorded model through HTTP on 1, 3 and 5 workers: the answers are TensorFlow's, and the
// bytes are the same on every cluster.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Json,
  type OracleCase,
  type OracleModel,
  oracleFault,
  oracleModels,
} from "../oracle-models.ts";
import { RunningCluster } from "./running-cluster.ts";

const models = oracleModels();
const directory = mkdtempSync(path.join(tmpdir(), "winnow-oracle-"));
/** Bodies of the first cluster, by model and case: every other cluster must send the same bytes. */
const firstBodies = new Map<string, string>();

beforeAll(() => {
  for (const model of models) {
    cpSync(model.basePath, path.join(directory, model.name), { recursive: true });
  }
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function requestBody(model: OracleModel, recorded: OracleCase): string {
  const rows = Object.values(recorded.inputs)[0]?.length ?? 0;
  const isBare = model.inputNames.length === 1;
  const instances = Array.from({ length: rows }, (_, row) => {
    const values = Object.entries(recorded.inputs).map(([name, column]) => [name, column[row]!]);
    return isBare ? values[0]![1]! : (Object.fromEntries(values) as Json);
  });
  return JSON.stringify({ signature_name: model.signatureName, instances });
}

function outputsOf(model: OracleModel, text: string): Record<string, Json[]> {
  const { predictions } = JSON.parse(text) as { predictions: Json[] };
  return Object.fromEntries(
    model.outputNames.map((name) => [
      name,
      model.outputNames.length === 1
        ? predictions
        : predictions.map((prediction) => (prediction as Record<string, Json>)[name]!),
    ]),
  );
}

async function caseFault(
  url: string,
  model: OracleModel,
  recorded: OracleCase,
): Promise<string | undefined> {
  const body = requestBody(model, recorded);
  const response = await fetch(`${url}/v1/models/${model.name}:predict`, { method: "POST", body });
  const text = await response.text();
  if (recorded.error !== undefined) {
    return response.status === 400
      ? undefined
      : `status ${response.status} instead of 400: ${text}`;
  }
  if (response.status !== 200) return `status ${response.status}: ${text}`;
  const key = `${model.name} ${body}`;
  const first = firstBodies.get(key);
  if (first === undefined) firstBodies.set(key, text);
  else if (first !== text) return "other bytes than the first cluster sent";
  return oracleFault(model, recorded, outputsOf(model, text));
}

describe.each([
  { workers: 1, routerArgs: ["--router-table-bytes", "0"] },
  { workers: 3, routerArgs: ["--router-table-bytes", "0"] },
  { workers: 5, routerArgs: ["--router-table-bytes", "0"] },
  { workers: 2, routerArgs: [] },
])("on $workers workers with router flags $routerArgs", ({ workers, routerArgs }) => {
  let cluster: RunningCluster;

  beforeAll(async () => {
    cluster = await RunningCluster.start({ models: directory, workers, routerArgs });
    await cluster.loaded(models.map((model) => model.name));
  }, 90_000);
  afterAll(() => cluster?.stop());

  test.each(models)(
    "I2: $name answers as TensorFlow recorded, byte for byte the same",
    async (model) => {
      const faults: string[] = [];
      for (const recorded of model.cases) {
        const fault = await caseFault(cluster.url, model, recorded);
        if (fault !== undefined)
          faults.push(`${JSON.stringify(recorded.inputs).slice(0, 120)}: ${fault}`);
      }

      expect(faults).toEqual([]);
    },
  );
});
