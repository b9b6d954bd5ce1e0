// Starts the double of an object store in its process, tells it what goes wrong, and asks it what was asked of it.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import path from "node:path";

const ENTRY = path.join(import.meta.dirname, "object-server.mjs");

/** Refused, for now or for good; or the connection cut after some bytes, or slow to answer. */
export type ObjectFault =
  | "slow down"
  | "cut"
  | "slow"
  | "denied"
  | "unknown key"
  | "wrong secret"
  | "expired"
  | "skewed"
  | "broken"
  | "none";

/** What befalls requests for keys (or listings of prefixes) that begin so, one after the other, from the start again. */
interface ObjectFaults {
  readonly prefix: string;
  readonly cycle: readonly ObjectFault[];
}

/** What was asked of a server. */
interface ObjectAccount {
  /** Bytes of objects that were sent, by key. */
  readonly sent: Readonly<Record<string, number>>;
  readonly lists: number;
  readonly reads: number;
  readonly readsAtOnceMax: number;
  /** Requests that a fault befell. */
  readonly faults: number;
}

/** Whose API a server speaks. */
export type ObjectDialect = "s3" | "gs" | "az";

/** The secret key, which nobody is to be shown. */
export const STORE_SECRET = "wJalrXUtnFEMI0K7MDENG";
const AZURE_ACCOUNT = "winnowtests";

/** The URL of a bucket, and the package that reads it, where there is one. */
export const DIALECTS: Readonly<
  Record<
    ObjectDialect,
    {
      readonly urlOf: (bucket: string) => string;
      readonly sdk: string | undefined;
      readonly environment: (url: string) => Readonly<Record<string, string>>;
    }
  >
> = {
  s3: {
    urlOf: (bucket) => `s3://${bucket}`,
    sdk: "@aws-sdk/client-s3",
    environment: (url) => ({
      AWS_ENDPOINT_URL: url,
      AWS_ACCESS_KEY_ID: "key",
      AWS_SECRET_ACCESS_KEY: STORE_SECRET,
    }),
  },
  gs: {
    urlOf: (bucket) => `gs://${bucket}`,
    // Asked without credentials, as emulators are: Google's library makes nothing else.
    sdk: undefined,
    environment: (url) => ({ STORAGE_EMULATOR_HOST: url }),
  },
  az: {
    urlOf: (bucket) => `az://${AZURE_ACCOUNT}/${bucket}`,
    sdk: "@azure/storage-blob",
    environment: (url) => ({
      AZURE_STORAGE_SERVICE_ENDPOINT: `${url}/${AZURE_ACCOUNT}`,
      AZURE_STORAGE_KEY: Buffer.from(STORE_SECRET).toString("base64"),
    }),
  },
};

const { resolve } = createRequire(import.meta.url);

/** Whether a package is installed: those of gs and az are installed by whoever needs them. */
export function hasPackage(name: string): boolean {
  try {
    return resolve(name) !== "";
  } catch {
    return false;
  }
}

/** Whether what reads from a double is installed. */
export function hasSdk(dialect: ObjectDialect): boolean {
  const { sdk } = DIALECTS[dialect];
  return sdk === undefined || hasPackage(sdk);
}

/** A double in a process of its own, over a directory of buckets. */
export class ObjectServerProcess {
  readonly dialect: ObjectDialect;
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(dialect: ObjectDialect, child: ChildProcess, url: string) {
    this.dialect = dialect;
    this.#child = child;
    this.url = url;
  }

  /** `pageKeys`: keys of one page of a listing. */
  static async start(
    dialect: ObjectDialect,
    root: string,
    pageKeys = 3,
  ): Promise<ObjectServerProcess> {
    const child = fork(ENTRY, [dialect, root, String(pageKeys)], { execArgv: [] });
    const [url] = (await once(child, "message")) as [string];
    return new ObjectServerProcess(dialect, child, url);
  }

  /** What a process needs in its environment to read from it. */
  get environment(): Readonly<Record<string, string>> {
    return DIALECTS[this.dialect].environment(this.url);
  }

  account(): Promise<ObjectAccount> {
    return this.#tell("account");
  }

  async setFaults(faults: ObjectFaults): Promise<void> {
    await this.#tell(faults);
  }

  async #tell(message: "account" | ObjectFaults): Promise<ObjectAccount> {
    this.#child.send(message);
    const [account] = (await once(this.#child, "message")) as [ObjectAccount];
    return account;
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}
