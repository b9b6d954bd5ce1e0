// A TypeScript file of `test/chaos` as a process of its own, spoken to by messages. It ends with its
// parent, however that ends: the channel between them closes.

import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";

const LAUNCHER = path.join(import.meta.dirname, "child-launcher.mjs");

/** A running script that takes messages of one kind and gives messages of another. */
export class ChildScript<Order extends object, Report extends { readonly type: string }> {
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #waiting = new Set<(report: Report) => void>();
  readonly #exit: Promise<void>;
  #isOver = false;

  /** `name` is the path below `test/chaos`. */
  constructor(name: string) {
    this.#name = name;
    this.#child = spawn(process.execPath, [LAUNCHER, path.join(import.meta.dirname, "..", name)], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      serialization: "advanced",
    });
    this.#child.on("message", (report) => {
      for (const listener of this.#waiting) listener(report as Report);
    });
    this.#exit = new Promise((resolve) => {
      this.#child.once("exit", () => {
        this.#isOver = true;
        resolve();
      });
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  send(order: Order): void {
    if (this.#isOver) throw new Error(`${this.#name} has ended`);
    this.#child.send(order);
  }

  /** The next message of this type. @throws Error after so long, or when the process ends first */
  async next<Type extends Report["type"]>(
    type: Type,
    withinMs: number,
  ): Promise<Extract<Report, { type: Type }>> {
    let timer: NodeJS.Timeout | undefined;
    let listener: ((report: Report) => void) | undefined;
    const message = new Promise<Extract<Report, { type: Type }>>((resolve, reject) => {
      listener = (report) => {
        if (report.type === type) resolve(report as Extract<Report, { type: Type }>);
      };
      this.#waiting.add(listener);
      const fail = (why: string): void => reject(new Error(`${this.#name}: ${why}`));
      timer = setTimeout(() => fail(`no "${type}" within ${withinMs} ms`), withinMs);
      void this.#exit.then(() => fail(`ended before "${type}"`));
    });
    try {
      return await message;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(listener!);
    }
  }

  ended(): Promise<void> {
    return this.#exit;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}
