// Seeded damage to everything that a version directory holds. Graphs are mutated in their structure: a
// field somewhere in the tree of messages is taken away, repeated, moved or given another value, and all
// lengths around it are written anew, so that readers get far. Blocks and records get fitting checksums.
// An input depends on seed and number alone.

import { crc32c, maskChecksum } from "@winnow/core";

/** Numbers and choices of one input. */
export class FuzzSource {
  #state: number;

  constructor(seed: number, input: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(input + 1, 0x85ebca6b)) >>> 0;
    for (let turn = 0; turn < 4; turn += 1) this.random();
  }

  /** 0 ≤ x < 1. */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }
}

/** Integers at which something changes. */
const EXTREMES: readonly bigint[] = [
  0n,
  1n,
  2n,
  7n,
  63n,
  255n,
  65_535n,
  65_536n,
  1_000_000n,
  2n ** 24n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 32n,
  2n ** 40n,
  2n ** 53n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
  2n ** 64n - 2n,
];

const WORDS: readonly string[] = [
  ..."Const,Identity,ReadVariableOp,VarHandleOp,ResourceGather,GatherV2,MatMul,BatchMatMulV2".split(
    ",",
  ),
  ..."TopKV2,LookupTableFindV2,LookupTableSizeV2,HashTableV2,Fill,Range,Reshape,ConcatV2".split(
    ",",
  ),
  ..."Pack,Unpack,Split,Tile,BroadcastTo,OneHot,DenseBincount,StridedSlice,Slice,Pad".split(","),
  ..."StatefulPartitionedCall,If,While,StatelessIf,StatelessWhile,Assert,Shape,Size,Rank".split(
    ",",
  ),
  ..."StringToHashBucketFast,RegexReplace,StringSplitV2,ParseExampleV2,RaggedTensorToTensor".split(
    ",",
  ),
  ..."Transpose,Cast,Where,Cumsum,Bucketize,ExpandDims,Squeeze,Sum,AddV2,SelectV2,NoOp".split(","),
  ..."serve,serving_default,__saved_model_init_op,dtype,shape,value,T,N,DstT,num_buckets".split(
    ",",
  ),
  ..."__proto__,constructor,../../etc/passwd,StatefulPartitionedCall:0,^NoOp,a:b:c,:0,x:-1".split(
    ",",
  ),
  "",
  "\0",
  "x".repeat(300),
];

const encoder = new TextEncoder();

/** One field of a message, as bytes and in parts. */
interface Field {
  readonly number: number;
  readonly wire: number;
  readonly value: bigint;
  readonly bytes: Uint8Array;
}

/** A protobuf message in which one to four things are otherwise, somewhere in its tree. */
export function mutatedMessage(source: FuzzSource, message: Uint8Array): Uint8Array {
  let mutated = message;
  for (let count = 1 + source.below(4); count > 0; count -= 1) {
    const graft = source.chance(0.2) ? pieceOf(source, mutated) : undefined;
    mutated = new Mutation(source, graft).inTree(mutated, 0);
  }
  return mutated;
}

/** One change of a message; `graft` is a piece of it that may be put elsewhere. */
class Mutation {
  readonly #source: FuzzSource;
  readonly #graft: Uint8Array | undefined;

  constructor(source: FuzzSource, graft: Uint8Array | undefined) {
    this.#source = source;
    this.#graft = graft;
  }

  inTree(message: Uint8Array, depth: number): Uint8Array {
    const source = this.#source;
    const fields = fieldsOf(message);
    if (fields === undefined || fields.length === 0 || depth > 40) {
      return mutatedBytes(source, message);
    }
    const at = source.below(fields.length);
    const field = fields[at]!;
    const inner = field.wire === 2 ? fieldsOf(field.bytes) : undefined;
    if (inner !== undefined && inner.length > 0 && source.chance(0.85)) {
      const bytes = this.inTree(field.bytes, depth + 1);
      return encodeFields(fields.with(at, { ...field, bytes }));
    }
    return encodeFields(this.#changed(fields, at));
  }

  #changed(fields: readonly Field[], at: number): readonly Field[] {
    const source = this.#source;
    const field = fields[at]!;
    switch (source.below(10)) {
      case 0:
        return fields.toSpliced(at, 1);
      case 1: {
        const isFlood = source.chance(0.05) && field.bytes.length < 64;
        const copies = Array.from({ length: isFlood ? 2000 : 1 + source.below(3) }, () => field);
        return fields.toSpliced(at, 0, ...copies);
      }
      case 2: {
        const to = source.below(fields.length);
        return fields.with(at, fields[to]!).with(to, field);
      }
      case 3:
        return fields.with(at, { ...field, number: 1 + source.below(22) });
      case 4:
        return fields.with(at, { ...field, wire: 2, bytes: this.#graft ?? new Uint8Array() });
      default:
        return fields.with(at, this.#changedValue(field));
    }
  }

  #changedValue(field: Field): Field {
    const source = this.#source;
    if (field.wire === 0) {
      const near = BigInt.asUintN(64, field.value + BigInt(source.below(5) - 2));
      return { ...field, value: source.chance(0.5) ? near : source.pick(EXTREMES) };
    }
    const isWord = field.wire === 2 && source.chance(0.4);
    const bytes = isWord ? encoder.encode(source.pick(WORDS)) : mutatedBytes(source, field.bytes);
    return { ...field, bytes };
  }
}

/** Some message within a message. */
function pieceOf(source: FuzzSource, message: Uint8Array): Uint8Array {
  let piece = message;
  for (let depth = source.below(7); depth > 0; depth -= 1) {
    const fields = fieldsOf(piece)?.filter(({ wire }) => wire === 2) ?? [];
    if (fields.length === 0) break;
    piece = source.pick(fields).bytes;
  }
  return piece.length < 4096 ? piece : piece.subarray(0, 64);
}

/** The fields of a message; `undefined` for bytes that are none. */
function fieldsOf(bytes: Uint8Array): Field[] | undefined {
  const fields: Field[] = [];
  for (let at = 0; at < bytes.length;) {
    const found = fieldAt(bytes, at);
    if (found === undefined) return undefined;
    fields.push(found.field);
    at = found.end;
  }
  return fields;
}

function fieldAt(
  bytes: Uint8Array,
  start: number,
): { readonly field: Field; readonly end: number } | undefined {
  const tag = varintAt(bytes, start);
  const number = Number((tag?.value ?? 0n) >> 3n);
  if (tag === undefined || number === 0 || number > 1000) return undefined;
  const wire = Number(tag.value & 7n);
  if (wire === 0) {
    const found = varintAt(bytes, tag.end);
    return found && { field: { number, wire, value: found.value, bytes: EMPTY }, end: found.end };
  }
  const span = spanAt(bytes, tag.end, wire);
  if (span === undefined || span.end > bytes.length) return undefined;
  const value = bytes.subarray(span.start, span.end);
  return { field: { number, wire, value: 0n, bytes: value }, end: span.end };
}

/** Where the bytes of a field lie whose value begins here. */
function spanAt(
  bytes: Uint8Array,
  start: number,
  wire: number,
): { readonly start: number; readonly end: number } | undefined {
  if (wire === 1 || wire === 5) return { start, end: start + (wire === 1 ? 8 : 4) };
  const length = wire === 2 ? varintAt(bytes, start) : undefined;
  return length && { start: length.end, end: length.end + Number(length.value) };
}

const EMPTY = new Uint8Array();

function varintAt(bytes: Uint8Array, start: number): { value: bigint; end: number } | undefined {
  let low = 0;
  for (let at = start; at < Math.min(bytes.length, start + 4); at += 1) {
    low += (bytes[at]! & 0x7f) * 2 ** (7 * (at - start));
    if (bytes[at]! < 0x80) return { value: BigInt(low), end: at + 1 };
  }
  let value = 0n;
  for (let at = start; at < Math.min(bytes.length, start + 10); at += 1) {
    value |= BigInt(bytes[at]! & 0x7f) << BigInt(7 * (at - start));
    if (bytes[at]! < 0x80) return { value: BigInt.asUintN(64, value), end: at + 1 };
  }
  return undefined;
}

function encodeFields(fields: readonly Field[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const { number, wire, value, bytes } of fields) {
    parts.push(varint(BigInt(number * 8 + wire)));
    if (wire === 0) parts.push(varint(value));
    else if (wire === 2) parts.push(varint(BigInt(bytes.length)), bytes);
    else parts.push(bytes);
  }
  return joined(parts);
}

function varint(number: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = number;
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** Bytes in which a few are flipped, cut out, put in, doubled or set to what lengths like to be. */
export function mutatedBytes(source: FuzzSource, bytes: Uint8Array): Uint8Array {
  let mutated = bytes;
  for (let count = 1 + source.below(3); count > 0; count -= 1) {
    const at = source.below(mutated.length + 1);
    const rest = at + source.below(5);
    const kind = source.below(6);
    if (kind === 0) mutated = mutated.subarray(0, at);
    else if (kind === 1) mutated = joined([mutated.subarray(0, at), mutated.subarray(rest)]);
    else if (kind === 2) {
      const piece = mutated.subarray(at, at + 1 + source.below(64));
      mutated = joined([mutated.subarray(0, at), piece, piece, mutated.subarray(at)]);
    } else if (kind === 3) {
      const number = varint(source.pick(EXTREMES));
      mutated = joined([mutated.subarray(0, at), number, mutated.subarray(rest)]);
    } else if (mutated.length > 0) {
      mutated = mutated.slice();
      const position = Math.min(at, mutated.length - 1);
      mutated[position] =
        kind === 4 ? mutated[position]! ^ (1 << source.below(8)) : source.below(256);
    }
  }
  return mutated;
}

/** An index table whose blocks are damaged and have fitting checksums again, mostly. */
export function mutatedTable(source: FuzzSource, table: Uint8Array): Uint8Array {
  if (source.chance(0.2)) return mutatedBytes(source, table);
  const footer = table.subarray(table.length - 48);
  const blocks: { offset: number; size: number }[] = [];
  let at = 0;
  const handle = (bytes: Uint8Array): void => {
    const offset = varintAt(bytes, at);
    const size = offset && varintAt(bytes, offset.end);
    if (offset === undefined || size === undefined) return;
    blocks.push({ offset: Number(offset.value), size: Number(size.value) });
    at = size.end;
  };
  handle(footer);
  handle(footer);
  // Data blocks lie before the metaindex.
  blocks.push({ offset: 0, size: Math.max(0, (blocks[0]?.offset ?? 5) - 5) });
  const mutated = table.slice();
  const { offset, size } = source.pick(blocks);
  const block = mutated.subarray(offset, offset + size + 5);
  if (block.length < size + 5) return mutated;
  for (let count = 1 + source.below(3); count > 0; count -= 1) {
    const position = source.below(size + 1);
    block[position] = source.chance(0.5)
      ? source.below(256)
      : block[position]! ^ (1 << source.below(8));
  }
  if (source.chance(0.1)) block[size] = 1;
  const sum = maskChecksum(crc32c(block.subarray(0, size + 1)));
  new DataView(block.buffer, block.byteOffset).setUint32(size + 1, sum, true);
  return mutated;
}

/** A TFRecord file of messages, each with fitting checksums. */
export function recordFile(records: readonly Uint8Array[]): Uint8Array {
  const parts = records.flatMap((record) => {
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(record.length), true);
    return [length, checksumOf(length), record, checksumOf(record)];
  });
  return joined(parts);
}

function checksumOf(bytes: Uint8Array): Uint8Array {
  const checksum = new Uint8Array(4);
  new DataView(checksum.buffer).setUint32(0, maskChecksum(crc32c(bytes)), true);
  return checksum;
}

/** A snappy stream of literals and copies, some of which reach too far or are damaged. */
export function snappyStream(source: FuzzSource): Uint8Array {
  const parts: Uint8Array[] = [];
  let size = 0;
  for (let count = source.below(12); count > 0; count -= 1) {
    const length = 1 + source.below(60);
    if (size === 0 || source.chance(0.4)) {
      const literal = Array.from({ length }, () => source.below(256));
      parts.push(Uint8Array.from([(length - 1) << 2, ...literal]));
    } else {
      const distance = source.chance(0.03) ? source.below(2 ** 16) : 1 + source.below(size);
      parts.push(Uint8Array.from([((length - 1) << 2) | 2, distance & 255, distance >> 8]));
    }
    size += length;
  }
  const told = source.chance(0.1) ? source.pick(EXTREMES) : BigInt(size);
  const stream = joined([varint(told), ...parts]);
  return source.chance(0.3) ? mutatedBytes(source, stream) : stream;
}

/** Lines of a vocabulary, damaged. */
export function mutatedText(source: FuzzSource, text: Uint8Array): Uint8Array {
  const pieces = [
    "\n",
    "\r\n",
    "\r",
    "\t",
    "",
    "9".repeat(30),
    "-1",
    "+7",
    "\0",
    "\xff",
    " 3 ",
    "\n\n",
  ];
  let mutated = text;
  for (let count = 1 + source.below(4); count > 0; count -= 1) {
    const at = source.below(mutated.length + 1);
    const piece = Buffer.from(source.pick(pieces), "latin1");
    const rest = at + source.below(4);
    mutated = source.chance(0.2)
      ? mutated.subarray(0, at)
      : joined([mutated.subarray(0, at), piece, mutated.subarray(rest)]);
  }
  return mutated;
}
