// The reader and the writer of Protocol Buffers: each against the other, the reader against bytes
// written by hand, and what each of its rules refuses, with the position of the fault.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ProtobufReader } from "./protobuf-reader.ts";
import type { ProtobufFault, ProtobufRules } from "./protobuf-reader.ts";
import { ProtobufWriter } from "./protobuf-writer.ts";
import { WIRE, sizeOfField, sizeOfVarint, sizeOfWords } from "./wire-format.ts";

class Refused extends Error {
  readonly fault: ProtobufFault;

  constructor(fault: ProtobufFault) {
    super(fault.kind);
    this.fault = fault;
  }
}

const LONG: ProtobufRules = {
  refuse: (fault) => new Refused(fault),
  decoder: new TextDecoder(),
  groups: "refused",
  prefixes: "long",
};
const SHORT: ProtobufRules = { ...LONG, groups: "skipped", prefixes: "short" };
const CUT: ProtobufRules = { ...LONG, prefixes: "cut" };
const STRICT: ProtobufRules = { ...LONG, decoder: new TextDecoder("utf-8", { fatal: true }) };

const readerOf = (bytes: readonly number[], rules = LONG): ProtobufReader =>
  new ProtobufReader(Uint8Array.from(bytes), rules);

/** The fault for which `read` throws; `undefined` if it throws none. */
function faultOf(read: () => unknown): ProtobufFault | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (error instanceof Refused) return error.fault;
    throw error;
  }
}

/** 64 bits as a varint of `length` bytes, or of as many as they need. */
function varintOf(value: bigint, length = 0): number[] {
  const bytes: number[] = [];
  for (let left = value; left > 0n || bytes.length < Math.max(1, length); left >>= 7n) {
    bytes.push(Number(left & 0x7fn) | 0x80);
  }
  bytes[bytes.length - 1]! &= 0x7f;
  return bytes;
}

const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.bigInt({ min: -300n, max: 300n }),
  fc.integer({ min: 0, max: 63 }).map((bit) => BigInt.asIntN(64, 1n << BigInt(bit))),
);
const number = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 2 ** 29 - 1 }));

type Field = { readonly field: number } & (
  | { readonly kind: "int"; readonly value: bigint }
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "bytes"; readonly value: Uint8Array }
  | { readonly kind: "fixed32"; readonly value: number }
  | { readonly kind: "float"; readonly value: number }
  | { readonly kind: "message"; readonly value: readonly Field[]; readonly expected: number }
);

const { fields } = fc.letrec<{ fields: Field[]; any: Field }>((tie) => ({
  any: fc.oneof(
    { depthSize: "small" },
    fc.record({ field: number, kind: fc.constant("int" as const), value: int64 }),
    fc.record({
      field: number,
      kind: fc.constant("text" as const),
      value: fc.string({ unit: "grapheme", maxLength: 200 }),
    }),
    fc.record({
      field: number,
      kind: fc.constant("bytes" as const),
      value: fc.uint8Array({ maxLength: 200 }),
    }),
    fc.record({
      field: number,
      kind: fc.constant("fixed32" as const),
      value: fc.nat(2 ** 32 - 1),
    }),
    fc.record({
      field: number,
      kind: fc.constant("float" as const),
      value: fc.float({ noNaN: true }),
    }),
    fc.record({
      field: number,
      kind: fc.constant("message" as const),
      value: tie("fields"),
      expected: fc.constantFrom(0, 127, 128, 20_000, 2 ** 30),
    }),
  ),
  fields: fc.array(tie("any"), { maxLength: 8 }),
}));

function write(writer: ProtobufWriter, field: Field): void {
  if (field.kind === "int") writer.int(field.field, field.value);
  else if (field.kind === "text") writer.text(field.field, field.value);
  else if (field.kind === "bytes") writer.bytes(field.field, field.value);
  else if (field.kind === "fixed32") writer.fixed32(field.field, field.value);
  else if (field.kind === "float") writer.float(field.field, field.value);
  else {
    writer.begin(field.field, field.expected);
    for (const inner of field.value) write(writer, inner);
    writer.end();
  }
}

function read(reader: ProtobufReader, kind: Field["kind"], inner: readonly Field[]): unknown {
  if (kind === "int") return reader.int64();
  if (kind === "text") return reader.text();
  if (kind === "bytes") return Uint8Array.from(reader.view());
  if (kind === "fixed32") return reader.fixed32();
  if (kind === "float") return reader.float();
  return readAll(reader.message(), inner);
}

/** Reads as many fields as were written, each as it was written. */
function readAll(reader: ProtobufReader, written: readonly Field[]): unknown[] {
  const found = written.map((item) => {
    expect(reader.next()).toBe(true);
    const inner = item.kind === "message" ? item.value : [];
    return [reader.field, read(reader, item.kind, inner)];
  });
  expect(reader.next()).toBe(false);
  return found;
}

const valuesOf = (written: readonly Field[]): unknown[] =>
  written.map((item) => [item.field, item.kind === "message" ? valuesOf(item.value) : item.value]);

describe("what the writer wrote", () => {
  test("is read in the same order, whatever lengths were expected and however small it began", () => {
    fc.assert(
      fc.property(fields, fc.nat(64), (written, capacity) => {
        const writer = new ProtobufWriter(capacity);
        for (const item of written) write(writer, item);

        const found = readAll(new ProtobufReader(writer.finish(), LONG), written);

        expect(found).toEqual(valuesOf(written));
      }),
      { numRuns: 500 },
    );
  });

  test("is cut off anywhere: the fields before the cut, then the end or a fault", () => {
    fc.assert(
      fc.property(fields, fc.nat(), (written, cut) => {
        const writer = new ProtobufWriter();
        for (const item of written) write(writer, item);
        const bytes = writer.finish();
        const end = cut % (bytes.length + 1);
        const reader = new ProtobufReader(bytes, LONG, { from: 0, to: end });
        const whole = new ProtobufReader(bytes, LONG);

        const fault = faultOf(() => {
          while (reader.next()) {
            whole.next();
            expect([reader.tag, reader.from, reader.to]).toEqual([whole.tag, whole.from, whole.to]);
          }
        });

        expect([undefined, "varint", "size"]).toContain(fault?.kind);
        expect(fault !== undefined || reader.position === end).toBe(true);
      }),
    );
  });

  test("has the lengths that were computed before", () => {
    fc.assert(
      fc.property(int64, number, fc.nat(20_000), (value, field, length) => {
        const bits = BigInt.asUintN(64, value);
        const [low, high] = [Number(bits & 0xffff_ffffn), Number(bits >> 32n)];
        const content = new Uint8Array(length);

        expect([...new ProtobufWriter(0).words(low, high).finish()]).toEqual(varintOf(bits));
        expect(sizeOfWords(low, high)).toBe(varintOf(bits).length);
        expect(sizeOfVarint(length)).toBe(varintOf(BigInt(length)).length);
        expect(sizeOfField(field, length)).toBe(
          new ProtobufWriter(0).bytes(field, content).finish().length,
        );
      }),
    );
  });

  test("is not copied where the capacity was exact", () => {
    const writer = new ProtobufWriter(sizeOfField(2, 300) + 2);

    const before = writer.finish().buffer;
    const after = writer.bytes(2, new Uint8Array(300)).int(1, 7).finish();

    expect(after.buffer).toBe(before);
    expect(after.length).toBe(305);
  });

  test("of numbers is the same as of the same bigints, negative ones in ten bytes", () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        const bytes = new ProtobufWriter(0).int(1, value).finish();

        expect(bytes).toEqual(new ProtobufWriter(0).int(1, BigInt(value)).finish());
        expect(value >= 0 || bytes.length === 11).toBe(true);
      }),
    );
  });

  test("of typed arrays is their memory, of a span a part", () => {
    const floats = Float32Array.of(0, 1, 2).subarray(1);
    const long = Uint8Array.from({ length: 100 }, (_, at) => at);
    const bytes = new ProtobufWriter(0)
      .bytes(1, floats)
      .span(2, { bytes: long, from: 10, to: 13 })
      .span(3, { bytes: long, from: 10, to: 90 })
      .finish();
    const reader = new ProtobufReader(bytes, LONG);

    const packed: number[] = [];
    reader.next();
    reader.floats(packed);
    const spans: Uint8Array[] = [];
    while (reader.next()) spans.push(Uint8Array.from(reader.view()));

    expect(packed).toEqual([1, 2]);
    expect(spans).toEqual([long.slice(10, 13), long.slice(10, 90)]);
  });

  test("of map entries is read in any order of key and value, the value where it stands", () => {
    const bytes = new ProtobufWriter(0)
      .entry(5, "first", (value) => value.bool(1, true))
      .message(5, (entry) => entry.message(2, (value) => value.bool(1, false)).text(1, "second"))
      .finish();
    const reader = new ProtobufReader(bytes, LONG);

    const entries: [string, boolean | undefined][] = [];
    while (reader.next()) {
      const { key, value } = reader.mapEntry();
      const inner = value?.message();
      inner?.next();
      entries.push([key, inner?.bool()]);
    }

    expect(entries).toEqual([
      ["first", true],
      ["second", false],
    ]);
  });
});

describe("a varint", () => {
  test("may be longer than it needs, up to ten bytes; what is above 64 bits is cut, or not exact", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 70n - 1n }), fc.nat(10), (value, length) => {
        const reader = readerOf([0x08, ...varintOf(value, length)]);
        reader.next();

        expect(reader.int64()).toBe(BigInt.asIntN(64, value));
        expect(reader.int32()).toBe(Number(BigInt.asIntN(32, value)));
        expect(reader.bool()).toBe(BigInt.asUintN(64, value) !== 0n);
        // From 2^53 on the number need not be exact, but must not be below 2^53.
        expect(Math.min(reader.varint(), 2 ** 53)).toBe(Math.min(Number(value), 2 ** 53));
        const signed = Number(BigInt.asIntN(64, value));
        const exact = Number.isSafeInteger(signed) ? signed : { kind: "integer", at: 1 };
        const fault = faultOf(() => reader.int());
        expect(fault ?? reader.int()).toEqual(exact);
      }),
      { numRuns: 1000 },
    );
  });

  test.each([
    ["cut off in a tag", [0x80], { isCut: true, at: 1 }],
    ["cut off in a value", [0x08, 0xff], { isCut: true, at: 2 }],
    ["missing", [0x08], { isCut: true, at: 1 }],
    ["cut off in a length", [0x0a, 0x80, 0x80], { isCut: true, at: 3 }],
    ["of eleven bytes", [0x08, ...varintOf(0n, 11)], { isCut: false, at: 11 }],
    ["of eleven bytes, as a tag", varintOf(8n, 11), { isCut: false, at: 10 }],
  ])("%s is refused", (_, bytes, fault) => {
    for (const rules of [LONG, SHORT, CUT]) {
      expect(faultOf(() => readerOf(bytes, rules).next())).toEqual({ kind: "varint", ...fault });
    }
  });

  test("without a tag is read one by one, its low 32 bits", () => {
    const bytes = [...varintOf(5n), ...varintOf(2n ** 32n - 1n), ...varintOf(2n ** 40n + 3n), 0x80];
    const reader = readerOf(bytes);

    expect([reader.bareUint32(), reader.bareUint32(), reader.bareUint32()]).toEqual([
      5,
      2 ** 32 - 1,
      3,
    ]);
    expect(reader.position).toBe(12);
    expect(faultOf(() => reader.bareUint32())).toEqual({ kind: "varint", isCut: true, at: 13 });
  });
});

describe("repeated numbers", () => {
  const packed = (values: readonly bigint[]): number[] => {
    const content = values.flatMap((value) => varintOf(BigInt.asUintN(64, value)));
    return [0x0a, ...varintOf(BigInt(content.length)), ...content];
  };
  const single = (value: bigint): number[] => [0x08, ...varintOf(BigInt.asUintN(64, value))];

  test("are the same packed and not packed, in all lengths of integers", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(int64, fc.array(int64))), fc.nat(40), (parts, room) => {
        const bytes = parts.flatMap((part) => (Array.isArray(part) ? packed(part) : single(part)));
        const values = parts.flat();
        const given = values.slice(0, room);
        const into64 = new BigInt64Array(room);
        const into32 = new Int32Array(room);
        const words = new Uint32Array(into64.buffer);
        const integers: bigint[] = [];

        let [filled64, filled32] = [0, 0];
        for (const reader = readerOf(bytes); reader.next();) {
          const { from } = reader;
          reader.int64s(integers);
          // In steps of three values, each of which goes on where the one before ended.
          while (reader.from < reader.to && filled64 < room) {
            filled64 = reader.fill64(words, filled64, Math.min(room, filled64 + 3));
          }
          reader.from = from;
          while (reader.from < reader.to && filled32 < room) {
            filled32 = reader.fill32(into32, filled32, Math.min(room, filled32 + 3));
          }
        }

        expect(integers).toEqual(values);
        expect([filled64, filled32]).toEqual([given.length, given.length]);
        expect([...into64.subarray(0, given.length)]).toEqual(given);
        expect([...into32.subarray(0, given.length)]).toEqual(
          given.map((value) => Number(BigInt.asIntN(32, value))),
        );
      }),
    );
  });

  test("that are exact numbers are read as such, others refused", () => {
    const reader = readerOf([...packed([1n, -5n, 2n ** 53n - 1n]), ...packed([2n ** 53n])]);
    const values: number[] = [];

    reader.next();
    reader.ints(values);
    reader.next();

    expect(values).toEqual([1, -5, 2 ** 53 - 1]);
    expect(faultOf(() => reader.ints(values))?.kind).toBe("integer");
  });

  test("of a fixed size are the same packed and not packed", () => {
    const floats = [0x0d, 0, 0, 0x80, 0x3f, 0x0a, 8, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40];
    const doubles = [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x0a, 8, 0, 0, 0, 0, 0, 0, 0, 0xc0];
    const [float, double]: [number[], number[]] = [[], []];

    for (const reader = readerOf(floats); reader.next();) reader.floats(float);
    for (const reader = readerOf(doubles); reader.next();) reader.doubles(double);

    expect(float).toEqual([1, 2, 3]);
    expect(double).toEqual([1, -2]);
  });

  test("packed must end with a whole number, and within their field", () => {
    const cut = { kind: "varint", isCut: true, at: 4 };
    const fixed = { kind: "packed", field: 1, at: 2 };
    const faults = (bytes: readonly number[], take: (reader: ProtobufReader) => unknown) => {
      const reader = readerOf(bytes);
      reader.next();
      return faultOf(() => take(reader));
    };

    // The varint would end in the field after it.
    const varints = [0x0a, 2, 1, 0x80, 0x08, 1];
    expect(faults(varints, (reader) => reader.ints([]))).toEqual(cut);
    expect(faults(varints, (reader) => reader.int64s([]))).toEqual(cut);
    expect(faults(varints, (reader) => reader.fill32(new Int32Array(9), 0, 9))).toEqual(cut);
    expect(faults(varints, (reader) => reader.fill64(new Uint32Array(9), 0, 9))).toEqual(cut);
    expect(faults([0x0a, 3, 1, 2, 3], (reader) => reader.floats([]))).toEqual(fixed);
    expect(faults([0x0a, 3, 1, 2, 3], (reader) => reader.doubles([]))).toEqual(fixed);
    expect(faults([0x0d, 1, 2, 3, 4], (reader) => reader.int64s([]))?.kind).toBe("layout");
  });
});

describe("a nested message", () => {
  // { 1: { 2: 7, 3: { 4: 8 } }, 5: 9 }
  const bytes = [0x0a, 6, 0x10, 7, 0x1a, 2, 0x20, 8, 0x28, 9];

  test("is read by a cursor of its own, or by the same, which is behind it then", () => {
    const own = readerOf(bytes);
    own.next();
    const inner = own.message();
    const same = readerOf(bytes);
    same.next();
    const seen = same.nested((reader) => {
      const found: number[] = [];
      while (reader.next()) {
        if (reader.field === 2) found.push(reader.int());
        else reader.nested(() => reader.next() && found.push(reader.int()));
      }
      return found;
    });

    expect([inner.next(), inner.int(), inner.next(), inner.next()]).toEqual([true, 7, true, false]);
    expect(seen).toEqual([7, 8]);
    for (const reader of [own, same]) {
      expect([reader.next(), reader.field, reader.int(), reader.next()]).toEqual([
        true,
        5,
        9,
        false,
      ]);
    }
  });

  test("is left behind whole where it was not read to its end", () => {
    const reader = readerOf(bytes);
    reader.next();
    reader.nested(() => undefined);

    expect([reader.next(), reader.int()]).toEqual([true, 9]);
  });

  test("never reads beyond itself", () => {
    // A nested message of two bytes holds a field of nine, while the outer message goes on.
    const reader = readerOf([0x0a, 2, 0x0a, 9, 1, 1, 1]);
    reader.next();
    const fault = { kind: "size", field: 1, size: 9, left: 0, at: 4 };

    expect(faultOf(() => reader.message().next())).toEqual(fault);
    expect(faultOf(() => reader.nested((inner) => inner.next()))).toEqual(fault);
  });
});

describe("a fault", () => {
  const large = [0x0a, ...varintOf(2n ** 64n - 1n)];

  test.each<[string, number[], ProtobufFault]>([
    ["field 0", [0x00, 1], { kind: "tag", tag: 0, at: 0 }],
    ["field 0 of length 1", [0x02, 1, 1], { kind: "tag", tag: 2, at: 0 }],
    ["a length beyond the end", [0x0a, 5, 1], { kind: "size", field: 1, size: 5, left: 1, at: 2 }],
    ["a huge length", large, { kind: "size", field: 1, size: 2 ** 64, left: 0, at: 11 }],
    ["half a float", [0x0d, 1, 2], { kind: "size", field: 1, size: 4, left: 2, at: 1 }],
    ["half a double", [0x09, 1, 2], { kind: "size", field: 1, size: 8, left: 2, at: 1 }],
    ["a group", [0x0b, 0x0c], { kind: "wire", field: 1, wire: 3, at: 1 }],
    ["a group end", [0x0c], { kind: "wire", field: 1, wire: 4, at: 1 }],
    ["wire type 6", [0x0e], { kind: "wire", field: 1, wire: 6, at: 1 }],
    ["wire type 7", [0x0f], { kind: "wire", field: 1, wire: 7, at: 1 }],
  ])("of %s is told with its byte", (_, bytes, fault) => {
    expect(faultOf(() => readerOf(bytes).next())).toEqual(fault);
  });

  test("of a value asked for as another names both wire types", () => {
    const reader = readerOf([0x0a, 1, 0x41, 0x10, 1]);
    reader.next();
    const asked = [
      () => reader.int(),
      () => reader.int32(),
      () => reader.int64(),
      () => reader.varint(),
      () => reader.bool(),
    ];
    for (const ask of asked) {
      expect(faultOf(ask)).toEqual({ kind: "layout", field: 1, wire: 2, expected: 0, at: 2 });
    }
    expect(faultOf(() => reader.float())).toMatchObject({ expected: WIRE.fixed32 });
    expect(faultOf(() => reader.fixed32())).toMatchObject({ expected: WIRE.fixed32 });
    expect(faultOf(() => reader.double())).toMatchObject({ expected: WIRE.fixed64 });
    reader.next();
    for (const ask of [() => reader.view(), () => reader.text(), () => reader.message()]) {
      expect(faultOf(ask)).toEqual({ kind: "layout", field: 2, wire: 0, expected: 2, at: 4 });
    }
    expect(faultOf(() => reader.nested(() => 1))?.kind).toBe("layout");
    expect(faultOf(() => readerOf([]).int())?.kind).toBe("layout");
  });

  test("of a text is the decoder's to say", () => {
    const bytes = [0x0a, 2, 0x41, 0xff];
    const [strict, lossy] = [readerOf(bytes, STRICT), readerOf(bytes)];
    strict.next();
    lossy.next();

    expect(faultOf(() => strict.text())).toMatchObject({ kind: "text", at: 2 });
    expect(lossy.text()).toBe("A\ufffd");
  });
});

describe("the rule for", () => {
  test("tags and lengths takes short ones only, long ones, or the low bits of long tags", () => {
    const tag = (value: bigint, length = 0): number[] => [...varintOf(value, length), 1];
    const read = (bytes: number[], rules: ProtobufRules): unknown => {
      const reader = readerOf(bytes, rules);
      return faultOf(() => reader.next())?.kind ?? reader.field;
    };
    const of = (bytes: number[]): unknown[] =>
      [SHORT, LONG, CUT].map((rules) => read(bytes, rules));

    expect(of(tag(2n ** 32n - 8n))).toEqual([2 ** 29 - 1, 2 ** 29 - 1, 2 ** 29 - 1]);
    expect(of(tag(8n, 5))).toEqual([1, 1, 1]);
    expect(of(tag(8n, 6))).toEqual(["prefix", 1, 1]);
    expect(of(tag(2n ** 32n + 8n))).toEqual(["prefix", "tag", 1]);
    expect(of(tag(2n ** 32n))).toEqual(["prefix", "tag", "tag"]);
    expect(of([0x0a, ...varintOf(0n, 5)])).toEqual([1, 1, 1]);
    expect(of([0x0a, ...varintOf(0n, 6)])).toEqual(["prefix", 1, 1]);
    expect(of([0x0a, ...varintOf(2n ** 32n)])).toEqual(["prefix", "size", "size"]);
  });

  test("groups skips them with all that is in them, up to a hundred in each other", () => {
    const group = (...content: number[]): number[] => [0x0b, ...content, 0x0c];
    const nested = (depth: number): number[] => (depth === 0 ? [] : group(...nested(depth - 1)));
    const all = [0x08, 0x80, 1, 0x11, ...Array.from({ length: 8 }, () => 9), 0x1a, 2, 0x0b, 0x0b];
    const behind = (bytes: number[]): unknown => {
      const reader = readerOf([...bytes, 0x10, 5], SHORT);
      const fault = faultOf(() => {
        while (reader.next() && reader.field !== 2) expect(reader.wire).toBe(WIRE.group);
      });
      return fault?.kind ?? reader.int();
    };

    expect(behind(group())).toBe(5);
    expect(behind(group(...all, 0x25, 1, 2, 3, 4, ...group(...all)))).toBe(5);
    expect(behind(nested(100))).toBe(5);
    expect(behind(nested(101))).toBe("group");
    expect(faultOf(() => readerOf([0x0b, 0x08, 1], SHORT).next())).toEqual({
      kind: "group",
      at: 3,
    });
    expect(faultOf(() => readerOf([0x0b, 0x0e], SHORT).next())?.kind).toBe("wire");
    expect(faultOf(() => readerOf([0x0b, 0x0a, 9, 1], SHORT).next())?.kind).toBe("size");
  });
});

test("a bound of fields counts those of nested messages and of groups, wherever they are read", () => {
  const bytes = [0x0a, 4, 0x10, 1, 0x10, 2, 0x1b, 0x10, 1, 0x1c, 0x10, 3];
  const read = (left: number): unknown => {
    const reader = readerOf(bytes, { ...SHORT, fields: { left } });
    return faultOf(() => {
      while (reader.next()) {
        if (reader.field !== 1) continue;
        const nested = reader.message();
        while (nested.next());
      }
    })?.kind;
  };

  expect(read(7)).toBeUndefined();
  for (let left = 0; left < 7; left += 1) expect(read(left)).toBe("fields");
});

test("any bytes end in fields or in a fault", () => {
  const walk = (reader: ProtobufReader, depth: number): void => {
    while (reader.next()) {
      expect(reader.to).toBeLessThanOrEqual(reader.bytes.length);
      const asks = [
        () => reader.int(),
        () => reader.text(),
        () => reader.ints([]),
        () => reader.floats([]),
        () => reader.doubles([]),
        () => reader.mapEntry(),
        () => depth > 0 && walk(reader.message(), depth - 1),
      ];
      for (const ask of asks) faultOf(ask);
    }
  };
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 60 }),
      fc.constantFrom(LONG, SHORT, CUT, STRICT),
      (noise, rules) => {
        faultOf(() => walk(new ProtobufReader(noise, rules), 5));
      },
    ),
    { numRuns: 2000 },
  );
});
