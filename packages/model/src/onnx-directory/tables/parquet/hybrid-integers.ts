// Integers of few bits in Parquet's hybrid of runs and packed groups (parquet-format, Encodings.md, RLE = 3):
// levels, and positions in a dictionary.
//
//   header: varint    even: a run of header / 2 times the value that follows, in whole bytes
//                     odd:  header / 2 groups of eight integers, packed with the lowest bit first

/** How many integers there are, and of how many bits. */
export interface IntegerLayout {
  readonly bits: number;
  readonly count: number;
}

/** Decodes integers of up to 32 bits; `undefined` where the bytes are not as many of them. */
export function hybridIntegers(
  bytes: Uint8Array,
  { bits, count }: IntegerLayout,
): Uint32Array | undefined {
  const values = new Uint32Array(count);
  if (bits === 0) return values;
  let at = 0;
  let done = 0;
  while (done < count) {
    const header = varintAt(bytes, at);
    if (header === undefined) return undefined;
    at = header.end;
    const length = Math.floor(header.value / 2);
    const isRun = header.value % 2 === 0;
    const wanted = Math.min(isRun ? length : length * 8, count - done);
    // The last group may be cut to the bytes that hold values.
    const needed = isRun ? Math.ceil(bits / 8) : Math.ceil((wanted * bits) / 8);
    if (wanted === 0 || at + needed > bytes.length) return undefined;
    const part = values.subarray(done, done + wanted);
    if (isRun) part.fill(unpackedAt(bytes, at * 8, Math.ceil(bits / 8) * 8));
    else
      for (let index = 0; index < wanted; index += 1)
        part[index] = unpackedAt(bytes, at * 8 + index * bits, bits);
    done += wanted;
    at += isRun ? needed : length * bits;
  }
  return values;
}

function varintAt(
  bytes: Uint8Array,
  start: number,
): { readonly value: number; readonly end: number } | undefined {
  let value = 0;
  for (let index = 0; index < 5; index += 1) {
    const byte = bytes[start + index];
    if (byte === undefined) return undefined;
    value += (byte & 127) * 2 ** (7 * index);
    if (byte < 128) return { value, end: start + index + 1 };
  }
  return undefined;
}

/** The number in some bits, the lowest first. */
function unpackedAt(bytes: Uint8Array, start: number, bits: number): number {
  let value = 0;
  for (let done = 0; done < bits;) {
    const bit = start + done;
    const offset = bit & 7;
    const taken = Math.min(8 - offset, bits - done);
    value += ((bytes[Math.floor(bit / 8)]! >>> offset) & ((1 << taken) - 1)) * 2 ** done;
    done += taken;
  }
  return value;
}
