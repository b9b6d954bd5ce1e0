// `winnow up`: a whole cluster on this machine. One router and N workers, each a process of its own,
// found by a fixed address list, or through Redis when a URL is given. For trying and testing; in
// production Kubernetes starts the same roles.

import { type Clock, type Logger, WinnowError, systemClock } from "@winnow/core";
import picocolors from "picocolors";
import { freePorts } from "../local-ports.ts";
import type { VersionDirectory } from "../model-source.ts";
import { Supervisor } from "../supervisor.ts";
import { exampleInstances } from "./example.ts";

/** The cluster to start. */
export interface UpCommand {
  /** Flags every role gets: models, replication, accelerator, log level, … */
  readonly roleArgs: readonly string[];
  /** Flags of the router alone. */
  readonly routerArgs: readonly string[];
  /** Flags of the workers alone. */
  readonly workerArgs: readonly string[];
  readonly workers: number;
  readonly host: string;
  readonly port: number;
  /** Redis, or `undefined` for a fixed address list. */
  readonly redis: string | undefined;
  /** The newest version of each model, for the line to try. */
  readonly models: readonly VersionDirectory[];
  /** The script that runs a role: `bin/winnow.js`. */
  readonly script: string;
}

/** A running local cluster. */
export interface LocalCluster {
  readonly url: string;
  readonly processIds: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

const LOADED_POLL_MS = 100;

/** Starts the processes; resolves when all listen. @throws WinnowError when one cannot start */
export async function startLocalCluster(command: UpCommand, log: Logger): Promise<LocalCluster> {
  const supervisor = new Supervisor({ clock: systemClock, log });
  const ports = await freePorts(command.workers);
  const addresses = ports.map((port, index) => `w${index}@127.0.0.1:${port}`);
  const membership =
    command.redis === undefined ? ["--members", addresses.join(",")] : ["--redis", command.redis];
  const workerPrograms = ports.map((port, index) => ({
    name: `worker w${index}`,
    args: [
      command.script,
      "worker",
      ...["--id", `w${index}`, "--host", "127.0.0.1", "--port", String(port)],
      ...membership,
      ...command.roleArgs,
      ...command.workerArgs,
    ],
  }));
  const routerProgram = {
    name: "router",
    args: [
      command.script,
      "router",
      ...["--host", command.host, "--port", String(command.port)],
      ...membership,
      ...command.roleArgs,
      ...command.routerArgs,
    ],
  };
  try {
    await Promise.all(
      [...workerPrograms, routerProgram].map((program) => supervisor.start(program)),
    );
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
  const shownHost =
    command.host === "0.0.0.0" || command.host === "::" ? "127.0.0.1" : command.host;
  return {
    url: `http://${shownHost}:${command.port}`,
    get processIds() {
      return supervisor.processIds;
    },
    stop: () => supervisor.stop(["router"]),
  };
}

interface StatusDocument {
  readonly model_version_status?: readonly {
    readonly version: string;
    readonly state: string;
    readonly status: { readonly error_message: string };
  }[];
}

/** Where one model's newest version stands. */
export interface ModelState {
  readonly model: string;
  readonly state: string;
  readonly error: string;
}

/** Waits until every model answers or has failed. @throws the signal's reason when aborted */
export async function waitUntilLoaded(
  url: string,
  models: readonly VersionDirectory[],
  signal: AbortSignal,
): Promise<ModelState[]> {
  for (;;) {
    const states = await Promise.all(models.map((model) => stateOf(url, model)));
    if (states.every(({ state }) => state === "AVAILABLE" || state === "END")) return states;
    await pause(systemClock, signal);
  }
}

async function stateOf(url: string, { model, version }: VersionDirectory): Promise<ModelState> {
  try {
    const response = await fetch(`${url}/v1/models/${encodeURIComponent(model)}`);
    const document = (await response.json()) as StatusDocument;
    const newest = document.model_version_status?.find(
      (entry) => Number(entry.version) === version,
    );
    return { model, state: newest?.state ?? "START", error: newest?.status.error_message ?? "" };
  } catch {
    return { model, state: "START", error: "" };
  }
}

function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(new WinnowError("CANCELLED", "stopped while loading"));
    clock.setTimer(LOADED_POLL_MS, resolve);
  });
}

/** What a person needs to know once the cluster answers. */
export function readyText(
  cluster: LocalCluster,
  command: UpCommand,
  states: readonly ModelState[],
): string {
  const lines = states.map(({ model, state, error }) => {
    const found = command.models.find((candidate) => candidate.model === model)!;
    if (state !== "AVAILABLE") return `${picocolors.red("failed")}  ${model}: ${error}`;
    const body = `{"instances":${exampleInstances(found)}}`.replaceAll("'", String.raw`'\''`);
    return `${picocolors.green("ready")}   ${model}, version ${found.version}\n        curl -d '${body}' ${cluster.url}/v1/models/${model}:predict`;
  });
  const processes = [...cluster.processIds].map(([name, pid]) => `${name} ${pid}`).join(", ");
  return `\n${lines.join("\n")}\n\n${picocolors.bold(cluster.url)}  Ctrl-C stops everything. For one machine; not for production.\n${picocolors.dim(`processes: ${processes}`)}\n`;
}
