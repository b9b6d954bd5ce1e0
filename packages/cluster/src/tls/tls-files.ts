// Certificates and keys in files that somebody else replaces: cert-manager, a Kubernetes secret (a symbolic
// link that leads elsewhere all at once), a person with `cp` (one file, then the other). They are read again
// and again; what is new and whole takes the place of the old, and what is not leaves the old in force.
// Connections that are open go on with what they began with.
//
//   in force ── files changed ──▶ checked ── good ──▶ in force
//       ▲                            └── bad: looked at again; said once it is bad twice ──┐
//       └──────────────────────────────────────────────────────────────────────────────────┘

import { readFile, stat } from "node:fs/promises";
import { WinnowError, toWinnowError } from "@winnow/core";
import type { Clock, Logger, Timer } from "@winnow/core";
import { checkMaterial } from "./tls-material.ts";
import type { TlsFileNames, TlsMaterial } from "./tls-material.ts";

/** Certificates as servers and clients use them. */
export interface TlsSource {
  /** The certificates in force. */
  readonly material: TlsMaterial;
  /** Calls `listener` with what comes into force later, until the returned function is called. */
  follow(listener: (material: TlsMaterial) => void): () => void;
}

/** What monitoring is told of one set of files. */
export interface TlsStatus {
  /** The use of the files: `public`, `cluster`, `redis`. */
  readonly use: string;
  /** When the certificate in force ends, in ms since 1970; none where there are only authorities. */
  readonly expiresMs: number | undefined;
  /** Whether the files hold something else, which was refused. */
  readonly isRefused: boolean;
}

/** What reading the files depends on. */
export interface TlsFilesParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** The time of day in ms since 1970, which certificates are about. */
  readonly wallMs: () => number;
  /** Default: the file system. */
  readonly readText?: (file: string) => Promise<string>;
}

/** How often the files are read again. */
const POLL_MS = 2000;
const FILE_BYTES_MAX = 1024 * 1024;

/**
 * Reads the files. @throws WinnowError NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for what
 * cannot be used
 */
export async function openTlsFiles(
  use: string,
  files: TlsFileNames,
  parts: TlsFilesParts,
): Promise<TlsFiles> {
  const read = parts.readText ?? readTlsFile;
  const texts = await textsOf(files, read);
  return new TlsFiles(use, files, { ...parts, texts });
}

/** The files, followed until `close`. */
export class TlsFiles implements TlsSource {
  readonly #use: string;
  readonly #files: TlsFileNames;
  readonly #parts: TlsFilesParts;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  #material: TlsMaterial;
  /** What is wrong with the files as they were read last. */
  #fault: string | undefined;
  #isFaultLogged = false;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(use: string, files: TlsFileNames, parts: TlsFilesParts & { readonly texts: Texts }) {
    this.#use = use;
    this.#files = files;
    this.#parts = parts;
    this.#material = checkMaterial(parts.texts, files, parts.wallMs());
    this.#wait();
  }

  get material(): TlsMaterial {
    return this.#material;
  }

  /** What monitoring is told. */
  get status(): TlsStatus {
    const { expiresMs } = this.#material;
    return { use: this.#use, expiresMs, isRefused: this.#isFaultLogged };
  }

  follow(listener: (material: TlsMaterial) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): void {
    this.#isClosed = true;
    this.#listeners.clear();
    if (this.#timer !== undefined) this.#parts.clock.clearTimer(this.#timer);
  }

  #wait(): void {
    if (this.#isClosed) return;
    this.#timer = this.#parts.clock.setTimer(POLL_MS, () => {
      void this.#look().then(() => this.#wait()); // Never rejects: faults are logged.
    });
  }

  async #look(): Promise<void> {
    const { log, readText: read = readTlsFile, wallMs } = this.#parts;
    const { certFile, caFile } = this.#files;
    try {
      const texts = await textsOf(this.#files, read);
      if (this.#isClosed) return;
      const { cert, key, ca } = this.#material;
      const isOld = texts.cert === cert && texts.key === key && texts.ca === ca;
      if (!isOld) {
        this.#material = checkMaterial(texts, this.#files, wallMs());
        log.info("certificates replaced", { use: this.#use, certFile, caFile });
        for (const listener of this.#listeners) listener(this.#material);
      }
      this.#fault = undefined;
      this.#isFaultLogged = false;
    } catch (error) {
      this.#refuse(toWinnowError(error).message);
    }
  }

  /** Between the replacement of a certificate and that of its key they do not fit: that is no fault yet. */
  #refuse(fault: string): void {
    const isSame = this.#fault === fault;
    if (!isSame) this.#isFaultLogged = false;
    this.#fault = fault;
    if (!isSame || this.#isFaultLogged) return;
    this.#isFaultLogged = true;
    const fields = { use: this.#use, message: fault };
    this.#parts.log.error("certificates refused, the old ones stay", fields);
  }
}

type Texts = Pick<TlsMaterial, "cert" | "key" | "ca">;

async function textsOf(
  { certFile, keyFile, caFile }: TlsFileNames,
  read: (file: string) => Promise<string>,
): Promise<Texts> {
  const textOf = async (file: string | undefined) => (file === undefined ? file : read(file));
  const [cert, key, ca] = await Promise.all([certFile, keyFile, caFile].map(textOf));
  return { cert, key, ca };
}

/** Reads one file. @throws WinnowError NOT_FOUND where it cannot be read or is too long */
export async function readTlsFile(file: string): Promise<string> {
  let reason = `it has more than ${FILE_BYTES_MAX} bytes`;
  try {
    const { size } = await stat(file);
    if (size <= FILE_BYTES_MAX) return await readFile(file, "utf8");
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error);
  }
  throw new WinnowError("NOT_FOUND", `Cannot read ${file} for TLS: ${reason}`);
}
