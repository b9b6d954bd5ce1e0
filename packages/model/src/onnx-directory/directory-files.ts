// The files of a version directory that `winnow.json` or `model.onnx` names: plain names within the
// directory, read as bytes or by range. Every file that determines answers enters the fingerprint: small ones
// by the sha256 of what was read, tables by the CRC-32C of their values, to which the shares of all workers
// must add up. A `SHA256SUMS` file, if there is one, proves that the small files are as the exporter wrote
// them.

import { type Fingerprint, type TableSource, WinnowError, excerpt } from "@winnow/core";
import type { BoundFile } from "../model-version.ts";
import type { RegionFile } from "../storage/region.ts";
import { assertAsListed, assertListed } from "../saved-model/checksum-manifest.ts";
import type { ChecksumManifest, FileDigest } from "../saved-model/checksum-manifest.ts";
import { readMessageFile } from "../saved-model/message.ts";
import { digestOf, fingerprintOf, readManifest } from "../saved-model/version-directory.ts";
import type { FileStore } from "../storage/file-store.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";

/** How a file is read whole. */
export interface WholeReading {
  /** The place that names the file: a field of winnow.json with its line, or a tensor of model.onnx. */
  readonly where: string;
  readonly bytesMax: number;
}

/** An opened directory. Owns file handles until `close()`. */
export class DirectoryFiles {
  readonly directory: string;
  /** Counts the bytes read from the directory's files. */
  readonly stored: StoredDirectory;
  readonly #manifest: ChecksumManifest | undefined;
  readonly #digests = new Map<string, FileDigest>();
  readonly #vocabularies = new Map<string, number>();
  readonly #open = new Map<string, RegionFile>();

  /** @throws WinnowError DATA_LOSS for a manifest that cannot be read */
  constructor(directory: string, store?: FileStore) {
    this.directory = directory;
    this.stored = new StoredDirectory(directory, store);
    this.#manifest = readManifest(this.stored);
  }

  /** Whether there is a file of this name. */
  has(name: string): boolean {
    return this.stored.has(name);
  }

  /** The content of a file, which becomes part of the fingerprint. @throws WinnowError */
  read(name: string, { where, bytesMax }: WholeReading): Uint8Array {
    const content = this.stored.readAll(plainName(name, where), bytesMax, excerpt(name));
    this.#bind(name, digestOf(content));
    return content;
  }

  /** `read` of a file that is one message, of which nothing more is read once its fields show that it is none. */
  readMessage(name: string, { where, bytesMax }: WholeReading): Uint8Array {
    const file = this.stored.open(plainName(name, where), excerpt(name));
    try {
      const content = readMessageFile(file, bytesMax);
      this.#bind(name, digestOf(content));
      return content;
    } finally {
      file.close();
    }
  }

  /** A file that is read by range; it stays open. @throws WinnowError */
  open(name: string, where: string): RegionFile {
    const known = this.#open.get(name);
    if (known !== undefined) return known;
    if (this.#manifest !== undefined) assertListed(this.#manifest, name);
    const file = this.stored.open(plainName(name, where), excerpt(name));
    this.#open.set(name, file);
    file.refusePointer();
    return file;
  }

  /** Notes the number of entries of a vocabulary. */
  countEntries(name: string, entries: number): void {
    this.#vocabularies.set(name, entries);
  }

  /** Whether a manifest lists the file, which was checked against it when it was read. */
  isVouchedFor(name: string): boolean {
    return this.#manifest?.has(name) === true;
  }

  /** The files that were read whole. */
  get boundFiles(): readonly BoundFile[] {
    return Array.from(this.#digests, ([name, digest]) => ({
      name,
      ...digest,
      entries: this.#vocabularies.get(name),
      isListed: this.isVouchedFor(name),
    }));
  }

  /** Fingerprint of all that was read whole, and of the tables' values. */
  fingerprintWith(sources: readonly TableSource[]): Fingerprint {
    const contents = new Map(this.#digests);
    for (const { file, tensor, checksum = 0 } of sources) {
      const { size } = this.#open.get(file) ?? { size: 0 };
      const sha256 = `crc32c ${checksum.toString(16).padStart(8, "0")}`;
      contents.set(`${file}\0${tensor}`, { bytes: size, sha256 });
    }
    return fingerprintOf(contents);
  }

  close(): void {
    for (const file of this.#open.values()) file.close();
    this.#open.clear();
  }

  #bind(name: string, digest: FileDigest): void {
    if (this.#manifest !== undefined) {
      assertListed(this.#manifest, name);
      assertAsListed(this.#manifest, name, digest);
    }
    const known = this.#digests.get(name);
    if (known !== undefined && known.sha256 !== digest.sha256) {
      const text = `Cannot read ${excerpt(name)}: it changed while it was read`;
      throw new WinnowError("DATA_LOSS", text);
    }
    this.#digests.set(name, digest);
  }
}

const BYTE_ORDER_MARK = Buffer.from("\uFEFF");

/**
 * Refuses a list of lines that begins with a byte order mark: nobody sees it, and the first line would be another text.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function refuseByteOrderMark(head: Uint8Array, name: string): void {
  if (!BYTE_ORDER_MARK.equals(head.subarray(0, BYTE_ORDER_MARK.length))) return;
  const text = `Cannot read ${excerpt(name)}: it begins with a byte order mark`;
  throw new WinnowError("INVALID_ARGUMENT", `${text}; write it as UTF-8 without one`);
}

/** The name, if it is the name of a file in the directory itself. @throws WinnowError INVALID_ARGUMENT */
function plainName(name: string, where: string): string {
  const isPlain = name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
  if (isPlain) return name;
  const text = `"${excerpt(name)}" is not the name of a file in the version directory`;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `${where}: ${text}; put the file beside ${where.split(/[, ]/)[0]}`,
  );
}
