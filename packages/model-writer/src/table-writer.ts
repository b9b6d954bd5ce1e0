// Writes the table format of `variables.index`; the layout is drawn in leveldb-table.ts. Blocks are
// uncompressed and every key is stored in full (a restart at each entry), which any reader accepts.

import { ProtobufWriter, crc32c, maskChecksum } from "@winnow/core";

const BLOCK_BYTES = 4096;
const MAGIC = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
const FOOTER_BYTES = 48;

/** One key, as bytes, with its value. */
export interface WrittenEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** A table of entries whose keys ascend bytewise. */
export function encodeTable(entries: readonly WrittenEntry[]): Uint8Array {
  const file: number[] = [];
  const pointers: WrittenEntry[] = [];
  let pending: WrittenEntry[] = [];
  let pendingBytes = 0;
  const flush = (): void => {
    const last = pending.at(-1);
    if (last === undefined) return;
    pointers.push({ key: last.key, value: appendBlock(file, pending) });
    pending = [];
    pendingBytes = 0;
  };
  for (const entry of entries) {
    pending.push(entry);
    pendingBytes += entry.key.length + entry.value.length;
    if (pendingBytes >= BLOCK_BYTES) flush();
  }
  flush();
  const metaindex = appendBlock(file, []);
  const index = appendBlock(file, pointers);
  const handles = [...metaindex, ...index];
  const padding = new Uint8Array(FOOTER_BYTES - MAGIC.length - handles.length);
  return Uint8Array.from([...file, ...handles, ...padding, ...MAGIC]);
}

/** Appends a block with its trailer and returns the block's handle. */
function appendBlock(file: number[], entries: readonly WrittenEntry[]): Uint8Array {
  const block: number[] = [];
  const restarts: number[] = [];
  for (const { key, value } of entries) {
    restarts.push(block.length);
    block.push(0, ...varint(key.length), ...varint(value.length), ...key, ...value);
  }
  if (restarts.length === 0) restarts.push(0);
  for (const number of [...restarts, restarts.length]) block.push(...uint32(number));
  block.push(0);
  const checksum = maskChecksum(crc32c(Uint8Array.from(block)));
  const handle = [...varint(file.length), ...varint(block.length - 1)];
  for (const byte of block) file.push(byte);
  file.push(...uint32(checksum));
  return Uint8Array.from(handle);
}

function uint32(value: number): number[] {
  return [value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24];
}

function varint(value: number): Uint8Array {
  return new ProtobufWriter().varint(value).finish();
}
