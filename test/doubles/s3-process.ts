// Starts the S3 double in its process, tells it what goes wrong, and asks it what was asked of it.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

const ENTRY = path.join(import.meta.dirname, "s3-server.mjs");

/** Refused, for now or for good; or the connection cut after some bytes. */
export type S3Fault =
  | "slow down"
  | "cut"
  | "denied"
  | "unknown key"
  | "wrong secret"
  | "expired"
  | "skewed"
  | "broken"
  | "none";

/** What befalls requests for keys (or listings of prefixes) that begin so, one after the other, from the start again. */
interface S3Faults {
  readonly prefix: string;
  readonly cycle: readonly S3Fault[];
}

/** What was asked of a server. */
interface S3Account {
  /** Bytes of objects that were sent, by key. */
  readonly sent: Readonly<Record<string, number>>;
  readonly lists: number;
  readonly reads: number;
  readonly readsAtOnceMax: number;
  /** Requests that a fault befell. */
  readonly faults: number;
}

/** The secret key, which nobody is to be shown. */
export const S3_SECRET = "wJalrXUtnFEMI0K7MDENG";

/** A double in a process of its own, over a directory of buckets. */
export class S3Process {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** `pageKeys`: keys of one page of a listing. */
  static async start(root: string, pageKeys = 3): Promise<S3Process> {
    const child = fork(ENTRY, [root, String(pageKeys)], { execArgv: [] });
    const [url] = (await once(child, "message")) as [string];
    return new S3Process(child, url);
  }

  /** What a process needs in its environment to read from it. */
  get environment(): Readonly<Record<string, string>> {
    const keys = { AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: S3_SECRET };
    return { AWS_ENDPOINT_URL: this.url, ...keys };
  }

  account(): Promise<S3Account> {
    return this.#tell("account");
  }

  async setFaults(faults: S3Faults): Promise<void> {
    await this.#tell(faults);
  }

  async #tell(message: "account" | S3Faults): Promise<S3Account> {
    this.#child.send(message);
    const [account] = (await once(this.#child, "message")) as [S3Account];
    return account;
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}
