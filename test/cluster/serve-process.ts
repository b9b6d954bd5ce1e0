// `winnow serve` as a process, and clients that ask it.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type Agent, request } from "node:http";
import path from "node:path";
import { pause, repositoryRoot } from "./running-cluster.ts";

/** The script of all commands. */
export const winnowScript: string = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
/** A question to the model `movies` of the demo. */
const MOVIES_BODY = '{"instances":["1"],"k":3}';
let running: Served[] = [];

/** One `winnow serve` and what it has logged. */
export class Served {
  readonly process: ChildProcess;
  log = "";

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.process = spawn(process.execPath, [winnowScript, "serve", ...args], {
      env: { ...process.env, ...env },
    });
    this.process.stderr!.on("data", (data: Buffer) => (this.log += data.toString("utf8")));
    running.push(this);
  }

  /** The log line with this message, once it is there. */
  async line(message: string): Promise<Record<string, unknown>> {
    for (;;) {
      const lines = this.log.split("\n").filter((line) => line.startsWith("{"));
      const events = lines.slice(0, this.log.endsWith("\n") ? undefined : -1);
      const found = events.find((line) => line.includes(`"msg":"${message}"`));
      if (found !== undefined) return JSON.parse(found) as Record<string, unknown>;
      if (this.process.exitCode !== null) throw new Error(`ended:\n${this.log}`);
      await pause(50);
    }
  }

  async ended(): Promise<number | null> {
    if (this.process.exitCode === null) await once(this.process, "exit");
    return this.process.exitCode;
  }
}

/** Ends all that were started. */
export function killServed(): void {
  for (const { process: child } of running) child.kill("SIGKILL");
  running = [];
}

/** The status of an answer, with its text unless it is 200; or why there is none, and whether the connection was a new one. */
export function askedBy(agent: Agent, url: string): Promise<number | string> {
  return new Promise((resolve) => {
    const asked = request(url, { agent, method: "POST" }, (answer) => {
      const { statusCode = 0 } = answer;
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => (text += part));
      answer.on("end", () => resolve(statusCode === 200 ? statusCode : `${statusCode} ${text}`));
      answer.on("error", ({ message }) => resolve(message));
    });
    asked.on("error", ({ code = "" }: NodeJS.ErrnoException) => {
      resolve(`${code}, ${asked.reusedSocket ? "reused" : "new"}`);
    });
    asked.end(MOVIES_BODY);
  });
}

/** The first answer that is one. */
export async function answered(url: string): Promise<string> {
  for (;;) {
    const answer = await fetch(url, { method: "POST", body: MOVIES_BODY }).catch(() => undefined);
    const text = await answer?.text();
    if (answer?.ok === true) return text!;
    await pause(50);
  }
}
