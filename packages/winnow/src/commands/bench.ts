// `winnow bench`: the throughput and latency of a cluster, up to which load it keeps them, and optionally
// whether its answers are those of the model files.

import { availableParallelism, loadavg } from "node:os";
import { createDenseEngine } from "@winnow/accelerator";
import { type Clock, WinnowError, excerpt } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import {
  type BenchReport,
  type CheckReport,
  FORMAT,
  type RampReport,
  type ServerReport,
  failedRequests,
} from "../bench/bench-report.ts";
import { beyondKnee, kneeOf } from "../bench/knee.ts";
import { type KeptAnswer, type LoadPlan, type LoadResult, runLoad } from "../bench/load-run.ts";
import type { LoadServer, LoadServerOptions } from "../bench/load-server.ts";
import type { Arrivals } from "../bench/open-schedule.ts";
import { type RequestPool, poolOfKeys, poolOfModel, requestPicker } from "../bench/request-pool.ts";
import type { VersionDirectory } from "../model-source/model-source.ts";
import { VersionOpener, newestVersionsAt } from "../model-source/object-versions.ts";
import { type OpenedReference, openReference } from "../oracle/opened-references.ts";
import type { Reference } from "../oracle/reference.ts";
import { readNamedFile } from "../process/named-file.ts";
import type { ProgressOutput } from "../progress-line.ts";
import { seededRandom } from "../questions/seeded-random.ts";
import type { RestTrust } from "../access/rest-client.ts";
import { judgeByFiles } from "../verify/verdicts.ts";

/** What to measure. */
export interface BenchCommand extends RestTrust {
  readonly url: string;
  readonly compareUrl?: string | undefined;
  readonly models?: string | undefined;
  readonly keys?: string | undefined;
  /** Models and their weights; none: all of the directory, with equal weights. */
  readonly weights: ReadonlyMap<string, number>;
  readonly connections: number;
  readonly rate?: number | undefined;
  readonly arrivals: Arrivals;
  readonly durationMs: number;
  readonly warmupMs: number;
  readonly isRamp: boolean;
  readonly p99MsMax?: number | undefined;
  readonly zipf: number;
  readonly batch: number;
  readonly k?: number | undefined;
  readonly check: number;
  readonly seed: number;
  readonly timeoutMs: number;
}

/** What the command takes from its process. */
export interface BenchEnvironment {
  readonly clock: Clock;
  readonly output: ProgressOutput;
  readonly signal: AbortSignal;
}

/** A model and its requests. */
interface AskedPool {
  readonly pool: RequestPool;
  readonly weight: number;
  readonly reference: Reference | undefined;
  readonly version: number | undefined;
}

/** The steps of a ramp, as fractions of the closed loop's throughput. */
const RAMP_FRACTIONS = [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1, 1.1, 1.25];
const RAMP_STEP_MS_MIN = 1000;
/** With too few connections an open loop would measure its own queue. */
const RAMP_CONNECTIONS_MIN = 64;

/** Measures. @throws WinnowError if there is no server, or nothing can be asked */
export async function bench(
  command: BenchCommand,
  environment: BenchEnvironment,
): Promise<BenchReport> {
  const { clock, signal } = environment;
  const { models, keys, check } = command;
  if ((models === undefined) === (keys === undefined)) {
    const text =
      "Name what to ask: --models DIR takes keys from its vocabularies; --keys FILE with --model NAME lists instances";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (check > 0 && models === undefined) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      "--check needs --models DIR, whose files say what is right",
    );
  }
  const urls = [command.url, ...(command.compareUrl === undefined ? [] : [command.compareUrl])];
  const { ca, keyFile, timeoutMs } = command;
  const targets: LoadServer[] = [];
  for (const url of urls) {
    targets.push(await openLoadServer({ url, trust: { ca, keyFile }, clock, timeoutMs }));
  }
  const engine = createDenseEngine();
  const opener = new VersionOpener();
  const open = (directory: string): Promise<ModelVersion> => opener.open(directory);
  const opened: OpenedReference[] = [];
  try {
    const pools =
      models === undefined
        ? poolsOfKeys(command)
        : await poolsOfModels(command, async (located, newest) => {
            const found = await openReference(located, { engine, newest, open });
            opened.push(found);
            return found.reference;
          });
    const servers: ServerReport[] = [];
    for (const target of targets) {
      if (!signal.aborted) servers.push(await measure(target, pools, { command, environment }));
    }
    const { connections, rate, arrivals, durationMs, warmupMs, batch, k, zipf, seed } = command;
    const asked = pools.map(({ pool, weight }) => ({ model: pool.model, weight }));
    return {
      format: FORMAT,
      settings: {
        models: asked,
        batch,
        k,
        zipf,
        connections,
        rate,
        arrivals,
        durationMs,
        warmupMs,
        seed,
      },
      machine: {
        cpus: availableParallelism(),
        node: process.versions.node,
        loadAverage: loadavg()[0]!,
      },
      isInterrupted: signal.aborted,
      servers,
    };
  } finally {
    for (const each of opened) await each.close();
    await engine.close();
    await opener.close();
  }
}

/**
 * The server at `http://…`, `https://…`, `grpc://host:port` or `grpcs://host:port`, which answers. What only one of them
 * needs is loaded for it alone.
 */
async function openLoadServer(options: LoadServerOptions): Promise<LoadServer> {
  if (/^grpcs?:/.test(options.url)) {
    const { openGrpcLoadServer } = await import("../bench/grpc-load-server.ts");
    return openGrpcLoadServer(options);
  }
  const { openRestLoadServer } = await import("../bench/rest-load-server.ts");
  return openRestLoadServer(options);
}

function poolsOfKeys({ keys, weights, ...shape }: BenchCommand): readonly AskedPool[] {
  if (weights.size !== 1) {
    throw new WinnowError("INVALID_ARGUMENT", "--keys needs one --model NAME: its instances");
  }
  const [[model, weight]] = [...weights] as [[string, number]];
  const random = seededRandom(shape.seed, model);
  const pool = poolOfKeys(model, linesOf(keys!), { shape: { ...shape, k: shape.k }, random });
  return [{ pool, weight, reference: undefined, version: undefined }];
}

/** A text of V8 is no longer than 512 MiB. */
const FILE_BYTES_MAX = 511 * 1024 * 1024;

function linesOf(file: string): readonly string[] {
  try {
    return readNamedFile(file, FILE_BYTES_MAX).toString("utf8").split("\n");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new WinnowError("NOT_FOUND", `Cannot read ${file}: ${reason}`, { cause });
  }
}

async function poolsOfModels(
  command: BenchCommand,
  load: (version: VersionDirectory, newest: readonly VersionDirectory[]) => Promise<Reference>,
): Promise<readonly AskedPool[]> {
  const { models, weights, batch, k, zipf, seed } = command;
  const versions = await newestVersionsAt(models!, { flag: "--models" });
  const names = versions.map(({ model }) => model);
  const missing = [...weights.keys()].find((name) => !names.includes(name));
  if (missing !== undefined) {
    const text = `There is no model "${excerpt(missing)}" in ${models}, but ${names.join(", ")}`;
    throw new WinnowError("NOT_FOUND", text);
  }
  const pools: AskedPool[] = [];
  for (const found of versions) {
    const { model, version } = found;
    const weight = weights.size === 0 ? 1 : weights.get(model);
    if (weight === undefined) continue;
    const reference = await load(found, versions);
    if (command.check > 0 && reference.untold !== undefined) {
      const text = `Cannot check answers of ${model}: ${reference.untold}; leave it out with --model`;
      throw new WinnowError("FAILED_PRECONDITION", text);
    }
    const searches = reference.signatures.some((each) => reference.searchedBy(each) !== undefined);
    const shape = { batch, zipf, k: searches ? k : undefined };
    const random = seededRandom(seed, model);
    pools.push({
      pool: poolOfModel(model, reference, { shape, random }),
      weight,
      reference,
      version,
    });
  }
  return pools;
}

interface Measurement {
  readonly command: BenchCommand;
  readonly environment: BenchEnvironment;
}

async function measure(
  server: LoadServer,
  pools: readonly AskedPool[],
  { command, environment }: Measurement,
): Promise<ServerReport> {
  const { url } = server;
  const prepared = pools.map(({ pool, weight }) => ({ requests: server.prepared(pool), weight }));
  const plan: LoadPlan = {
    connect: () => server.connect(),
    connections: command.connections,
    durationMs: command.durationMs,
    perSecond: command.rate,
    arrivals: command.arrivals,
    timeoutMs: command.timeoutMs,
    checkFraction: 0,
    next: requestPicker(prepared),
  };
  const { output, clock, signal } = environment;
  const random = seededRandom(command.seed, "load");
  const run = (about: string, changes: Partial<LoadPlan>): Promise<LoadResult> => {
    output.write(`${url}: ${about}\n`);
    return runLoad({ ...plan, ...changes }, { clock, random, signal });
  };
  if (command.warmupMs > 0) await run("warming up", { durationMs: command.warmupMs });
  const { kept, ...load } = await run("measuring", { checkFraction: command.check });
  const ramp = command.isRamp && !signal.aborted ? await rampOf(run, command, signal) : undefined;
  const check = command.check > 0 ? await checkAnswers(kept, pools, { server, output }) : undefined;
  return { url, load, ramp, check };
}

async function rampOf(
  run: (about: string, changes: Partial<LoadPlan>) => Promise<LoadResult>,
  { durationMs, connections, p99MsMax }: BenchCommand,
  signal: AbortSignal,
): Promise<RampReport> {
  const stepMs = Math.max(RAMP_STEP_MS_MIN, durationMs / RAMP_FRACTIONS.length);
  const top = await run("ramp: closed loop", { perSecond: undefined, durationMs: stepMs });
  const rules = { p99MsMax };
  const steps: RampReport["steps"][number][] = [];
  for (const fraction of RAMP_FRACTIONS) {
    if (signal.aborted) break;
    const offered = Math.max(1, fraction * top.perSecond);
    const most = Math.max(connections, RAMP_CONNECTIONS_MIN);
    const about = `ramp: ${Math.round(offered)} requests/s`;
    // Even arrivals: in a short step, random ones would offer a few percent more or less than stated.
    const changes = { perSecond: offered, arrivals: "even", connections: most } as const;
    const result = await run(about, { ...changes, durationMs: stepMs });
    const failed = failedRequests(result);
    const step = {
      offered,
      achieved: result.perSecond,
      p99Ms: result.latencies.p99Ms,
      failedFraction: result.requests === 0 ? 1 : failed / result.requests,
    };
    const beyond = beyondKnee(step, steps[0] ?? step, rules);
    steps.push({ ...step, beyond, generatorBusy: result.generatorBusy });
  }
  return { closedLoop: top.perSecond, steps, knee: kneeOf(steps, rules) };
}

/** Compares answers with the files after the load has ended: brute force would have slowed the generator down. */
async function checkAnswers(
  kept: readonly KeptAnswer[],
  pools: readonly AskedPool[],
  { server, output }: { readonly server: LoadServer; readonly output: ProgressOutput },
): Promise<CheckReport> {
  output.write(`checking ${kept.length} answers by the model files\n`);
  const byName = new Map(pools.map((asked) => [asked.pool.model, asked]));
  const counts = { checked: 0, exact: 0, different: 0, otherVersion: 0 };
  let first: string | undefined;
  for (const { request, answer } of kept) {
    const asked = byName.get(request.model)!;
    const question = asked.pool.questions![request.number]!;
    const { signature } = question;
    const outputs = signature.outputs.map(({ name, dtype }) => ({ name, dtype }));
    const { records: given, version } = server.read(answer, outputs);
    if (version !== undefined && version !== String(asked.version)) {
      counts.otherVersion += 1;
      continue;
    }
    const { records, beside } = await asked.reference!.expected(signature, question, "row");
    const { kind, differences } = judgeByFiles(
      { outputs, expected: { kind: "records", records, beside } },
      { kind: "answered", records: given, told: { version } },
      { tolerance: 0, version: asked.version },
    );
    counts.checked += 1;
    counts[kind === "exact" ? "exact" : "different"] += 1;
    if (kind === "exact" || first !== undefined) continue;
    const [difference] = differences;
    first = `${request.model}: expected ${difference?.expected}, given ${difference?.given}`;
  }
  return { ...counts, first };
}
