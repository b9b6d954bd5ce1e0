// The processes of a local cluster: started together, restarted when one dies, stopped together.
//
//   starting ──listening──▶ running ──exit──▶ waiting (backoff) ──▶ starting
//       └────────exit before listening, first start: the cluster cannot come up────▶ failed
//
// It does for a cluster on one machine what Kubernetes does in production.

import { type ChildProcess, spawn } from "node:child_process";
import { type Clock, type Logger, WinnowError } from "@winnow/core";
import { startSharing } from "./port-sharing.ts";
import { USAGE_EXIT_CODE } from "../process/failure-report.ts";
import { LISTENING_MESSAGE, STOP_MESSAGE } from "../process/process-life.ts";
import { holdProcess, processVariables } from "../process/process-settings.ts";

/** One process to keep running. */
export interface Program {
  /** Name in logs: `worker w1`. */
  readonly name: string;
  /** Flags of Node. */
  readonly nodeFlags?: readonly string[];
  /** The script to run. */
  readonly script: string;
  /** Arguments of the script. */
  readonly args: readonly string[];
  /** Further arguments where it is started again. */
  readonly argsAgain?: readonly string[];
  /** Whether it shares the ports on which it listens with other programs of this supervisor. */
  readonly sharesPorts?: boolean;
  /** Variables beside those of this process; `undefined`: one of this process that it does not get. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** What the supervisor needs of the world. */
export interface SupervisorDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  /** Receives what programs send, beside that they listen. */
  readonly onMessage?: (name: string, message: unknown) => void;
}

const BACKOFF_FIRST_MS = 200;
const BACKOFF_MAX_MS = 5000;
const STOP_WAIT_MS = 5000;

/** Runs programs until `stop`. */
export class Supervisor {
  readonly #children = new Map<string, ChildProcess>();
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #onMessage: (name: string, message: unknown) => void;
  #isStopping = false;

  constructor({ clock, log, onMessage }: SupervisorDependencies) {
    this.#clock = clock;
    this.#log = log;
    this.#onMessage = onMessage ?? (() => undefined);
  }

  /** Process ids by name, for people who want to kill one. */
  get processIds(): ReadonlyMap<string, number> {
    const running = [...this.#children].filter(([, child]) => isRunning(child));
    return new Map(running.map(([name, child]) => [name, child.pid!]));
  }

  /** Starts a program; resolves when it listens. @throws WinnowError UNAVAILABLE if it exits. */
  async start(program: Program): Promise<void> {
    await this.#launch(program);
  }

  /** Sends a message to a program; one that has ended does not get it. */
  send(name: string, message: object): void {
    const child = this.#children.get(name);
    if (child?.connected === true) child.send(message, () => undefined);
  }

  /** Stops all programs: the named ones first, together, then the others. */
  async stop(first: readonly string[] = []): Promise<void> {
    this.#isStopping = true;
    await Promise.all(first.map((name) => this.#end(name)));
    await Promise.all([...this.#children.keys()].map((name) => this.#end(name)));
  }

  /** Lets a program finish its work and exit by itself, within `waitMs`; it is not started again. */
  async drain(name: string, waitMs: number): Promise<void> {
    this.#isStopping = true;
    await this.#end(name, { waitMs, isDrained: true });
  }

  #launch(program: Program): Promise<void> {
    return new Promise((resolve, reject) => {
      // Throws where the system has no memory for a process; of other lacks it tells by an event.
      const child = startProcess(program);
      this.#children.set(program.name, child);
      let hasListened = false;
      child.on("message", (message) => {
        if (message !== LISTENING_MESSAGE) return this.#onMessage(program.name, message);
        hasListened = true;
        resolve();
      });
      child.on("error", reject);
      child.on("exit", (code, signal) => {
        if (this.#isStopping) return resolve();
        if (!hasListened) {
          return reject(
            new WinnowError(
              code === USAGE_EXIT_CODE ? "INVALID_ARGUMENT" : "UNAVAILABLE",
              `${program.name} ended (${signal ?? code}) while starting`,
            ),
          );
        }
        this.#log.warn("process ended, starting it again", { name: program.name, code, signal });
        this.#restart(program, BACKOFF_FIRST_MS);
      });
    });
  }

  #restart(program: Program, backoffMs: number): void {
    const { argsAgain = [], ...rest } = program;
    const again = { ...rest, args: [...rest.args, ...argsAgain] };
    // If every process has died, nothing else keeps this one alive.
    const release = holdProcess();
    this.#clock.setTimer(backoffMs, () => {
      release();
      if (this.#isStopping) return;
      this.#launch(again).then(
        () => this.#log.info("process is back", { name: again.name }),
        () => this.#restart(again, Math.min(2 * backoffMs, BACKOFF_MAX_MS)),
      );
    });
  }

  #end(name: string, how = { waitMs: STOP_WAIT_MS, isDrained: false }): Promise<void> {
    const child = this.#children.get(name);
    if (child === undefined || !isRunning(child)) return Promise.resolve();
    return new Promise((resolve) => {
      const force = this.#clock.setTimer(how.waitMs, () => child.kill("SIGKILL"));
      child.once("exit", () => {
        this.#clock.clearTimer(force);
        resolve();
      });
      if (child.connected && !how.isDrained) child.send(STOP_MESSAGE, () => undefined);
      else child.kill("SIGTERM");
    });
  }
}

/** Whether it was started, and has not ended by itself or by a signal. */
function isRunning({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid !== undefined && exitCode === null && signalCode === null;
}

function startProcess({ nodeFlags = [], script, args, env, sharesPorts }: Program): ChildProcess {
  if (sharesPorts === true) return startSharing({ script, args, nodeFlags, env });
  return spawn(process.execPath, [...nodeFlags, script, ...args], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    env: { ...processVariables, ...env },
  });
}
