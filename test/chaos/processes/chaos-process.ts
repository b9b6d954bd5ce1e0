// One process of a cluster under test: started, signalled, started again with other arguments or
// another clock, its output kept in a file. An end that nobody ordered is a finding.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { endWithThisProcess } from "./child-ends.ts";

/** How a process is started. */
export interface ProcessLaunch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const LOG_TAIL_CHARACTERS = 3000;

/** A process that may live several times. */
export class ChaosProcess {
  readonly name: string;
  readonly logFile: string;
  readonly #launch: ProcessLaunch;
  #child: ChildProcess;
  #isEndExpected = false;
  /** Ends that nobody ordered, in words. */
  readonly unexpectedEnds: string[] = [];

  constructor(name: string, launch: ProcessLaunch, logFile: string) {
    this.name = name;
    this.logFile = logFile;
    this.#launch = launch;
    this.#child = this.#spawn(launch);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Sends a signal; those that end a process make its end an ordered one. */
  signal(signal: NodeJS.Signals): void {
    if (signal === "SIGKILL" || signal === "SIGTERM") this.#isEndExpected = true;
    this.#child.kill(signal);
  }

  /** Resolves with the exit code or signal. */
  ended(): Promise<number | string> {
    const child = this.#child;
    if (!this.isRunning) return Promise.resolve(child.exitCode ?? child.signalCode ?? "?");
    return new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve(code ?? signal ?? "?"));
    });
  }

  /** Kills it and waits for the end. */
  async kill(): Promise<void> {
    if (!this.isRunning) return;
    this.signal("SIGKILL");
    // A stopped process dies of SIGKILL too.
    await this.ended();
  }

  /** Starts it again, with further variables for this life alone. */
  restart(env: Readonly<Record<string, string>> = {}): void {
    this.#child = this.#spawn({ ...this.#launch, env: { ...this.#launch.env, ...env } });
  }

  /** The end of what it has logged. */
  logTail(): string {
    const text = readFileSync(this.logFile, "utf8");
    return text.slice(-LOG_TAIL_CHARACTERS);
  }

  #spawn({ command, args, env }: ProcessLaunch): ChildProcess {
    const log = openSync(this.logFile, "a");
    const child = endWithThisProcess(
      spawn(command, args, { stdio: ["ignore", log, log], env: { ...process.env, ...env } }),
    );
    closeSync(log);
    this.#isEndExpected = false;
    child.once("exit", (code, signal) => {
      if (child !== this.#child || this.#isEndExpected) return;
      this.unexpectedEnds.push(`${this.name} ended by itself: ${code ?? signal}`);
    });
    return child;
  }
}
