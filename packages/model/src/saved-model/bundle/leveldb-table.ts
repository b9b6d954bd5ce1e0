// The table format of `variables.index`: LevelDB's sorted string table, as TensorFlow embeds it
// (tensorflow/tsl/lib/io/table.cc, format.cc, block.cc).
//
//   data block … │ metaindex block │ index block │ footer 48: two block handles, padding, magic
//   block = entries │ restart offsets uint32… │ their count uint32 ‖ type 1 │ masked crc32c 4
//   entry = varint shared │ varint unshared │ varint value size │ key rest │ value

import { WinnowError, crc32c, excerpt, unmaskChecksum } from "@winnow/core";
import type { RegionFile } from "../../storage/region.ts";
import { LARGE_BYTES } from "../message.ts";
import { ByteCursor, uint32At } from "./byte-cursor.ts";
import { decompressSnappy } from "./snappy.ts";

const FOOTER_BYTES = 48;
const TRAILER_BYTES = 5;
const MAGIC_LOW = 0x8b80fb57;
const MAGIC_HIGH = 0xdb477524;

const decoder = new TextDecoder("utf-8");

/** One key with its value, a view of the file's bytes. */
export interface TableEntry {
  /** As text, which is the key itself unless it is binary. */
  readonly key: string;
  readonly keyBytes: Uint8Array;
  readonly value: Uint8Array;
}

/**
 * The content of a file that is a table.
 * @throws WinnowError DATA_LOSS, before all of it is read, where the end of a large one shows that it is none
 */
export function readTableFile(file: RegionFile, bytesMax: number): Uint8Array {
  if (file.size >= LARGE_BYTES && file.size <= bytesMax) {
    const footer = new Uint8Array(FOOTER_BYTES);
    file.read(file.size - FOOTER_BYTES, footer);
    assertFooter(footer, file.name);
  }
  return file.readAll(bytesMax);
}

/** All entries in key order; every block's checksum is verified. @throws WinnowError DATA_LOSS */
export function readTableEntries(bytes: Uint8Array, file: string): TableEntry[] {
  if (bytes.length < FOOTER_BYTES) throw damage(file, `it has ${bytes.length} bytes`);
  const footer = bytes.subarray(bytes.length - FOOTER_BYTES);
  assertFooter(footer, file);
  const handles = new ByteCursor(footer, file, bytes.length - FOOTER_BYTES);
  const table = { bytes, file };
  // The metaindex block of a checkpoint is not used; reading it verifies its checksum.
  readBlock(table, handles);
  const entries: TableEntry[] = [];
  let previous: Uint8Array | undefined;
  for (const pointer of blockEntries(readBlock(table, handles), file)) {
    const handle = new ByteCursor(pointer.value, file);
    for (const { key, value } of blockEntries(readBlock(table, handle), file)) {
      // Strictly ascending keys also mean that no block is listed twice, so that reading ends.
      if (previous !== undefined && Buffer.compare(previous, key) >= 0) {
        throw damage(file, `key "${excerpt(decoder.decode(key))}" is out of order`);
      }
      previous = key;
      entries.push({ key: decoder.decode(key), keyBytes: key, value });
    }
  }
  return entries;
}

function assertFooter(footer: Uint8Array, file: string): void {
  if (uint32At(footer, 40) === MAGIC_LOW && uint32At(footer, 44) === MAGIC_HIGH) return;
  throw damage(file, "its last bytes are not those of a checkpoint index; it may be truncated");
}

function readBlock(
  table: { readonly bytes: Uint8Array; readonly file: string },
  handle: ByteCursor,
): Uint8Array {
  const offset = handle.varint();
  const size = handle.varint();
  if (offset + size + TRAILER_BYTES > table.bytes.length - FOOTER_BYTES) {
    throw damage(table.file, `a block at byte ${offset} of ${size} bytes reaches beyond the file`);
  }
  const typeAt = offset + size;
  const stored = unmaskChecksum(uint32At(table.bytes, typeAt + 1));
  if (crc32c(table.bytes.subarray(offset, typeAt + 1)) !== stored) {
    throw damage(table.file, `the block at byte ${offset} does not match its checksum`);
  }
  const contents = table.bytes.subarray(offset, typeAt);
  const type = table.bytes[typeAt];
  if (type === 0) return contents;
  if (type === 1) return decompressSnappy(contents, table.file);
  throw new WinnowError(
    "UNIMPLEMENTED",
    `Cannot read ${table.file}: its blocks are compressed by unknown method ${type}`,
  );
}

interface BlockEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

function blockEntries(block: Uint8Array, file: string): BlockEntry[] {
  const restarts = block.length < 4 ? 0 : uint32At(block, block.length - 4);
  const end = block.length - 4 - restarts * 4;
  if (end < 0) throw damage(file, `a block of ${block.length} bytes has ${restarts} restarts`);
  const cursor = new ByteCursor(block.subarray(0, end), file);
  const entries: BlockEntry[] = [];
  let previous = new Uint8Array();
  while (cursor.position < cursor.end) {
    const shared = cursor.varint();
    const unshared = cursor.varint();
    const valueSize = cursor.varint();
    if (shared > previous.length) throw cursor.damage("a key that continues none");
    const rest = cursor.take(unshared);
    const key = new Uint8Array(shared + unshared);
    key.set(previous.subarray(0, shared));
    key.set(rest, shared);
    entries.push({ key, value: cursor.take(valueSize) });
    previous = key;
  }
  return entries;
}

function damage(file: string, why: string): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read ${file}: ${why}`);
}
