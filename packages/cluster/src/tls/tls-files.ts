// Certificates and keys in files that others replace: cert-manager, a Kubernetes secret (a symbolic link that
// changes at once), a person with `cp` (one file after the other). The files are read at intervals; new ones
// that fit together take effect, and otherwise the old ones stay in force. Open connections keep the
// certificates that they began with.
//
//   in force ── files changed ──▶ checked ── good ──▶ in force
//       ▲                            └── bad: read again; logged when bad twice ───────────┐
//       └──────────────────────────────────────────────────────────────────────────────────┘

import { readFile, stat } from "node:fs/promises";
import { WinnowError, readFailureText, toWinnowError } from "@winnow/core";
import type { Clock, Logger, Timer } from "@winnow/core";
import { isoTime } from "./clock.ts";
import { checkMaterial } from "./tls-material.ts";
import type { TlsFileNames, TlsMaterial } from "./tls-material.ts";

/** Certificates as servers and clients use them. */
export interface TlsSource {
  /** The certificates in force. */
  readonly material: TlsMaterial;
  /** Calls `listener` with each later change, until the returned function is called. */
  follow(listener: (material: TlsMaterial) => void): () => void;
}

/** The state of one set of files, for monitoring. */
export interface TlsStatus {
  /** The use of the files: `public`, `cluster`, `redis`. */
  readonly use: string;
  /** When the certificate in force expires, in ms since 1970; `undefined` if there are only authorities. */
  readonly expiresMs: number | undefined;
  /** Whether the files now hold something that was refused. */
  readonly isRefused: boolean;
}

/** What reading the files depends on. */
export interface TlsFilesParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** Gives the time of day in ms since 1970. */
  readonly wallMs: () => number;
  /** Reads a file, which has the second name in errors. Default: from the file system. */
  readonly readText?: ReadText;
  /** The flags that name the files, for errors. */
  readonly flags?: TlsFileNames;
}

type ReadText = (file: string, told: string) => Promise<string>;

/** Ms between two readings of the files. */
const POLL_MS = 2000;
const FILE_BYTES_MAX = 1024 * 1024;

/**
 * Reads the files. @throws WinnowError NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for content
 * that cannot be used
 */
export async function openTlsFiles(
  use: string,
  files: TlsFileNames,
  parts: TlsFilesParts,
): Promise<TlsFiles> {
  const read = parts.readText ?? readTlsFile;
  const texts = await textsOf(files, toldNames(files, parts.flags), read);
  return new TlsFiles(use, files, { ...parts, texts });
}

/** The files, followed until `close`. */
export class TlsFiles implements TlsSource {
  readonly #use: string;
  readonly #files: TlsFileNames;
  /** The files as errors name them. */
  readonly #told: TlsFileNames;
  readonly #parts: TlsFilesParts;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  #material: TlsMaterial;
  /** The fault of the files as last read, if there is one. */
  #fault: string | undefined;
  #isFaultLogged = false;
  #isEndLogged = false;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(use: string, files: TlsFileNames, parts: TlsFilesParts & { readonly texts: Texts }) {
    this.#use = use;
    this.#files = files;
    this.#parts = parts;
    this.#told = toldNames(files, parts.flags);
    this.#material = checkMaterial(parts.texts, this.#told, parts.wallMs());
    this.#wait();
  }

  get material(): TlsMaterial {
    return this.#material;
  }

  /** The state for monitoring. */
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
      this.#noteEnd();
      void this.#look().then(() => this.#wait()); // Never rejects: faults are logged.
    });
  }

  async #look(): Promise<void> {
    const { log, readText: read = readTlsFile, wallMs } = this.#parts;
    const { certFile, caFile } = this.#files;
    try {
      const texts = await textsOf(this.#files, this.#told, read);
      if (this.#isClosed) return;
      const { cert, key, ca } = this.#material;
      const isOld = texts.cert === cert && texts.key === key && texts.ca === ca;
      if (!isOld) {
        this.#material = checkMaterial(texts, this.#told, wallMs());
        this.#isEndLogged = false;
        log.info("certificates replaced", { use: this.#use, certFile, caFile });
        for (const listener of this.#listeners) listener(this.#material);
      } else if (this.#isFaultLogged) {
        log.info("certificates are the old ones again", { use: this.#use, certFile, caFile });
      }
      this.#fault = undefined;
      this.#isFaultLogged = false;
    } catch (error) {
      this.#refuse(toWinnowError(error).message);
    }
  }

  /** Logs once that the certificate in force has ended: whoever opens a connection refuses it from then on. */
  #noteEnd(): void {
    const { expiresMs } = this.#material;
    if (this.#isEndLogged || expiresMs === undefined || this.#parts.wallMs() < expiresMs) return;
    this.#isEndLogged = true;
    const certFile = this.#told.certFile;
    const ended = { use: this.#use, certFile, ended: isoTime(expiresMs) };
    this.#parts.log.error("the certificate has ended and is refused until it is replaced", ended);
  }

  /** A certificate and its key do not fit while only one of them has been replaced: that is no fault yet. */
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

async function textsOf(files: TlsFileNames, told: TlsFileNames, read: ReadText): Promise<Texts> {
  const textOf = async (which: keyof TlsFileNames): Promise<string | undefined> => {
    const file = files[which];
    return file === undefined ? file : read(file, told[which] ?? file);
  };
  const [cert, key, ca] = await Promise.all([
    textOf("certFile"),
    textOf("keyFile"),
    textOf("caFile"),
  ]);
  return { cert, key, ca };
}

/** The names of files, each with its flag. */
function toldNames(files: TlsFileNames, flags: TlsFileNames = {}): TlsFileNames {
  const nameOf = (which: keyof TlsFileNames): string | undefined =>
    flags[which] === undefined ? files[which] : files[which] && `${files[which]} (${flags[which]})`;
  return { certFile: nameOf("certFile"), keyFile: nameOf("keyFile"), caFile: nameOf("caFile") };
}

/** Reads one file, which is `told` in errors. @throws WinnowError NOT_FOUND where it cannot be read or is too long */
export async function readTlsFile(file: string, told: string = file): Promise<string> {
  let reason = `it has more than ${FILE_BYTES_MAX} bytes`;
  try {
    const found = await stat(file);
    // A pipe or a device might never end.
    if (!found.isFile()) reason = "it is no file";
    else if (found.size <= FILE_BYTES_MAX) return await readFile(file, "utf8");
  } catch (error) {
    reason = readFailureText(error);
  }
  throw new WinnowError("NOT_FOUND", `Cannot read ${told} for TLS: ${reason}`);
}
