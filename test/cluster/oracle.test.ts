// Recorded models through HTTP on one worker, and each on one of three other clusters: the answers are TensorFlow's, and
// the bytes are the same. An eighth of the models is asked, since each process takes its time to load one; another TEST_SEED
// asks others, sends each model to another cluster, and asks other cases of those that have many:
// `../oracle.test.ts` asks all cases of all models in one process.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PARTITION_BYTES, type SignatureProgram, type Tensor } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { differenceOf } from "../models/answer-difference.ts";
import {
  ANSWER_FOLDERS,
  type Recorded,
  type RecordedCase,
  type RecordedModel,
  recordedModels,
  recordedTensor,
} from "../models/recorded-answers.ts";
import { gpuEnvironment, noGpuReason, onGpu } from "./gpu-driver.ts";
import { RunningCluster } from "./running-cluster.ts";

const seed = Number(process.env["TEST_SEED"]);
const EIGHTH = 8;
const models = ANSWER_FOLDERS.flatMap((folder) => recordedModels(folder)).filter(
  (_, index) => (index + seed) % EIGHTH === 0,
);
/** Seeds that ask the same models send them to different clusters. */
const round = Math.floor(seed / EIGHTH);
/** Thirds of them: the more workers there are, the longer all take to load a model. */
const thirds = [0, 1, 2].map((third) => models.filter((_, index) => (index + round) % 3 === third));
/** Cases of one model that each cluster is asked. */
const CASES_MAX = 12;
const directory = mkdtempSync(path.join(tmpdir(), "winnow-oracle-"));
/** Where the models of one cluster lie. */
const directoryOf = (asked: readonly RecordedModel[]): string =>
  path.join(directory, String(thirds.indexOf(asked as RecordedModel[])));
const signatures = new Map<string, readonly SignatureProgram[]>();
/** Bodies of the first cluster, by model and request: every other cluster must send the same bytes. */
const firstBodies = new Map<string, Buffer>();

beforeAll(() => {
  for (const model of models) {
    for (const asked of [models, ...thirds].filter((some) => some.includes(model))) {
      const to = path.join(directoryOf(asked), model.name, "1");
      cpSync(model.directory, to, { recursive: true });
    }
    const version = openModelVersion(model.directory);
    signatures.set(model.name, version.program.signatures);
    version.close();
  }
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Question {
  readonly model: RecordedModel;
  readonly recorded: RecordedCase;
  readonly signature: SignatureProgram;
}

/** Some of a model's cases, from all over their list. */
function someOf({ cases }: RecordedModel): readonly RecordedCase[] {
  if (cases.length <= CASES_MAX) return cases;
  return Array.from({ length: CASES_MAX }, (_, at) => {
    const place = Math.floor((at * cases.length) / CASES_MAX) + seed;
    return cases[place % cases.length]!;
  });
}

/** Whether each input has one value per instance; others can be asked in the column format alone. */
function hasRows({ signature, recorded }: Question): boolean {
  const columns = signature.inputs.map(({ name }) => recorded.inputs[name]);
  const lengths = columns.map((column) => (Array.isArray(column) ? column.length : undefined));
  return lengths.every((length) => length !== undefined && length === lengths[0]);
}

/** Row format: one object (or bare value) per instance. */
function rowBody({ signature, recorded }: Question): string {
  const columns = signature.inputs.map(({ name, dtype }) => {
    const column = recorded.inputs[name] as readonly Recorded[];
    return { name, values: column.map((value) => valueText(value, dtype)) };
  });
  const rows = columns[0]?.values.map((_, row) => {
    if (columns.length === 1) return columns[0]!.values[row]!;
    const fields = columns.map(({ name, values }) => `${JSON.stringify(name)}:${values[row]}`);
    return `{${fields.join(",")}}`;
  });
  const name = JSON.stringify(signature.name);
  return `{"signature_name":${name},"instances":[${(rows ?? []).join(",")}]}`;
}

/** Column format, the only one for outputs that are not one per instance. */
function columnBody({ signature, recorded }: Question): string {
  const fields = signature.inputs.map(
    ({ name, dtype }) => `${JSON.stringify(name)}:${valueText(recorded.inputs[name]!, dtype)}`,
  );
  return `{"signature_name":${JSON.stringify(signature.name)},"inputs":{${fields.join(",")}}}`;
}

/**
 * A recorded value as TensorFlow Serving reads it in a body. int64 beyond 2^53, NaN and the infinities are recorded
 * as text, and stand there without quotes; JSON.stringify would drop the sign of -0.
 */
function valueText(value: Recorded, dtype: string): string {
  if (Array.isArray(value)) return `[${value.map((each) => valueText(each, dtype)).join(",")}]`;
  if (Object.is(value, -0)) return "-0.0";
  return dtype !== "string" && typeof value === "string" ? value : JSON.stringify(value);
}

/** The tensors of an answer: exact integers, strings as bytes, NaN and the infinities. */
function answerOf(signature: SignatureProgram, body: Buffer): Map<string, Tensor> {
  const text = body
    .toString("latin1")
    .replaceAll(/"(?:[^"\\]|\\.)*"|(?<![\w.])-?(?:\d{16,}|NaN|Infinity)(?![\w.])/g, (token) =>
      token.startsWith('"') ? token : `"${token}"`,
    );
  const answer = JSON.parse(text, bytesOfText) as Readonly<Record<string, Recorded>>;
  const isRow = answer["predictions"] !== undefined;
  const values = answer["predictions"] ?? answer["outputs"]!;
  const isOnly = signature.outputs.length === 1;
  const columnOf = (name: string): Recorded => {
    if (isOnly) return values;
    if (!isRow) return (values as unknown as Record<string, Recorded>)[name]!;
    return (values as Recorded[]).map((row) => (row as unknown as Record<string, Recorded>)[name]!);
  };
  return new Map(
    signature.outputs.map(({ name, dtype, shape }) => {
      const column = columnOf(name);
      const declared = signature.isElementwise === true ? undefined : shape?.length;
      const rank = declared ?? rankOf(column);
      return [name, recordedTensor(unwrapped(column, dtype), { dtype, rank })];
    }),
  );
}

/** JSON was read as latin-1: a string's characters are its bytes. */
function bytesOfText(_: string, value: unknown): unknown {
  return typeof value === "string"
    ? { b64: Buffer.from(value, "latin1").toString("base64") }
    : value;
}

/** Numbers that had to be quoted to survive JSON.parse, as text again. */
function unwrapped(value: Recorded, dtype: string): Recorded {
  if (Array.isArray(value)) return value.map((inner: Recorded) => unwrapped(inner, dtype));
  if (dtype === "string" || typeof value !== "object") return value;
  return Buffer.from((value as { b64: string }).b64, "base64").toString("latin1");
}

function rankOf(value: Recorded): number {
  return Array.isArray(value) ? 1 + rankOf(value[0] as Recorded) : 0;
}

interface HttpAnswer {
  readonly status: number;
  readonly body: Buffer;
}

async function post(url: string, model: string, body: string): Promise<HttpAnswer> {
  const response = await fetch(`${url}/v1/models/${model}:predict`, { method: "POST", body });
  return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
}

async function caseFault(url: string, question: Question): Promise<string | undefined> {
  const { model, recorded, signature } = question;
  const body = hasRows(question) ? rowBody(question) : columnBody(question);
  let answer = await post(url, model.name, body);
  if (/has no shape information|has inconsistent batch size/.test(answer.body.toString("latin1"))) {
    answer = await post(url, model.name, columnBody(question));
  }
  const text = answer.body.toString("utf8");
  if (recorded.error !== undefined) {
    return answer.status === 400 ? undefined : `status ${answer.status}, not 400: ${text}`;
  }
  if (answer.status !== 200) return `status ${answer.status}: ${text}`;
  const key = `${model.name} ${body}`;
  const first = firstBodies.get(key);
  if (first === undefined) firstBodies.set(key, answer.body);
  else if (!first.equals(answer.body)) return "other bytes than the first cluster sent";
  return differenceOf(signature, answerOf(signature, answer.body), { model, recorded });
}

/** Loading all models takes some tens of seconds of processor time. */
const LOADED_MS_MAX = 900_000;
const ALL_REMOTE = ["--router-table-bytes", "0"];

describe.each([
  {
    workers: 1,
    how: "each table whole",
    asked: models,
    routerArgs: ALL_REMOTE,
    partitionBytes: PARTITION_BYTES,
  },
  { workers: 3, how: "every lookup asked of workers", asked: thirds[0]!, routerArgs: ALL_REMOTE },
  { workers: 2, how: "small tables looked up in the router", asked: thirds[1]!, routerArgs: [] },
  {
    workers: 2,
    how: "half of each table on a GPU",
    asked: thirds[2]!,
    routerArgs: ALL_REMOTE,
    gpu: { replication: 1, argsOf: { w0: onGpu }, env: gpuEnvironment },
  },
])("on $workers workers, $how", ({ workers, asked, routerArgs, partitionBytes, gpu }) => {
  const isSkipped = gpu !== undefined && noGpuReason !== "";
  let cluster: RunningCluster | undefined;

  beforeAll(async () => {
    if (isSkipped) return;
    const at = directoryOf(asked);
    cluster = await RunningCluster.start({
      models: at,
      workers,
      routerArgs,
      ...(partitionBytes === undefined ? {} : { partitionBytes }),
      ...gpu,
    });
    await cluster.loaded(asked.map((model) => model.name));
  }, LOADED_MS_MAX);
  afterAll(() => cluster?.stop());

  test.skipIf(isSkipped)("the first worker runs on the device it was told to", async () => {
    const kind = (await cluster!.announcement("w0"))?.accelerator;

    expect(kind).toMatch(gpu === undefined ? /^(cpu|reference)$/ : /^gpu$/);
  });

  test.skipIf(isSkipped).each(asked)(
    "I2: $name answers as TensorFlow did, in the same bytes",
    async (model) => {
      const faults: string[] = [];
      for (const recorded of someOf(model)) {
        const wanted = recorded.signature_name ?? model.signatureName;
        const signature = signatures.get(model.name)!.find(({ name }) => name === wanted)!;
        const fault = await caseFault(cluster!.url, { model, recorded, signature });
        const request = JSON.stringify(recorded.inputs).slice(0, 120);
        if (fault !== undefined) faults.push(`${request}: ${fault}`);
      }

      // What the processes said explains a fault better than the fault itself.
      if (faults.length > 0) faults.push(cluster!.log());

      expect(faults).toEqual([]);
    },
  );
});
