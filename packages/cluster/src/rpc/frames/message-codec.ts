// Reads and writes the messages of a service by its embedded descriptor: a table of fields per
// type, walked for each message. protobufjs generates code at start instead; loading it and
// generating that code is a fifth of the cost of a worker's start, and frequent messages have
// codecs of their own (`query-codec.ts`, `reply-codec.ts`). A property test compares the two byte
// by byte.
//
// Objects look as those of protobufjs with the names of the .proto file, numbers for 64 bits and
// all defaults; a oneof's name holds the name of the field that is set: { what: "order", order: "…"
// }.

import type { ServiceDefinition } from "@grpc/grpc-js";
import { WIRE } from "@winnow/core";
import { FrameReader } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";

/** A descriptor as `protobufjs` writes one: the types and services of one package, by name. */
export type PackageDescriptor = Readonly<Record<string, TypeDescriptor>>;

interface TypeDescriptor {
  readonly fields?: Readonly<Record<string, FieldDescriptor>>;
  readonly oneofs?: Readonly<Record<string, { readonly oneof: readonly string[] }>>;
  readonly methods?: Readonly<Record<string, MethodDescriptor>>;
}

interface FieldDescriptor {
  readonly type: string;
  readonly id: number;
  readonly rule?: string;
}

interface MethodDescriptor {
  readonly requestType: string;
  readonly responseType: string;
  readonly requestStream?: boolean;
  readonly responseStream?: boolean;
}

/** A message whose fields are not checked. */
type Message = Record<string, unknown>;

/** How values of a type look in a message and on the wire. */
interface ValueKind {
  readonly wire: number;
  /** The value of a field that was not sent. */
  readonly absent: () => unknown;
  readonly read: (reader: FrameReader, name: string) => unknown;
  readonly write: (writer: FrameWriter, id: number, value: unknown) => void;
}

const SCALARS: Readonly<Record<string, ValueKind>> = {
  string: {
    wire: WIRE.bytes,
    absent: () => "",
    read: (reader) => reader.text(),
    write: (writer, id, value) => void writer.text(id, value as string),
  },
  bytes: {
    wire: WIRE.bytes,
    absent: () => Buffer.alloc(0),
    read: (reader) => asBuffer(reader.view()),
    write: (writer, id, value) => void writer.bytes(id, value as Uint8Array),
  },
  bool: {
    wire: WIRE.varint,
    absent: () => false,
    read: (reader) => reader.flag(),
    write: (writer, id, value) => void writer.bool(id, value as boolean),
  },
  uint32: {
    wire: WIRE.varint,
    absent: () => 0,
    read: (reader, name) => reader.uint32(name),
    write: (writer, id, value) => void writer.int(id, value as number),
  },
  // Gives 2^53 or more where it is not exact: the caller, which knows the field's bounds, refuses
  // it.
  uint64: {
    wire: WIRE.varint,
    absent: () => 0,
    read: (reader) => reader.varint(),
    write: (writer, id, value) => void writer.int(id, value as number),
  },
};

interface Field {
  readonly name: string;
  readonly id: number;
  readonly kind: ValueKind;
  readonly isRepeated: boolean;
  /** Absent unless it was sent. */
  readonly isOfOneof: boolean;
}

interface MessageType {
  /** By ascending field number: the order of writing. */
  readonly fields: readonly Field[];
  readonly byTag: ReadonlyMap<number, Field>;
  readonly oneofs: readonly (readonly [name: string, of: readonly string[]])[];
}

/** The types of one package. */
export class MessageCodec {
  readonly #descriptor: PackageDescriptor;
  readonly #types = new Map<string, MessageType>();

  constructor(descriptor: PackageDescriptor) {
    this.#descriptor = descriptor;
  }

  /** The methods of a service of the package `name`, as definitions for grpc-js. */
  service(name: string, service: string): ServiceDefinition {
    const methods = Object.entries(this.#descriptor[service]?.methods ?? {});
    return Object.fromEntries(
      methods.map(([method, { requestType, responseType, requestStream, responseStream }]) => [
        method,
        {
          path: `/${name}.${service}/${method}`,
          requestStream: requestStream === true,
          responseStream: responseStream === true,
          requestSerialize: (message: object) => this.encode(requestType, message),
          requestDeserialize: (bytes: Buffer) => this.decode(requestType, bytes),
          responseSerialize: (message: object) => this.encode(responseType, message),
          responseDeserialize: (bytes: Buffer) => this.decode(responseType, bytes),
        },
      ]),
    );
  }

  /** A message as bytes: fields by ascending number, zeros included, nothing for those left out. */
  encode(type: string, message: object): Buffer {
    const writer = new FrameWriter();
    this.#write(this.#typeOf(type), writer, message as Message);
    return writer.finish();
  }

  /** A message from its bytes. @throws WinnowError INVALID_ARGUMENT for malformed bytes */
  decode(type: string, bytes: Buffer): object {
    return this.#read(this.#typeOf(type), new FrameReader(bytes));
  }

  #write({ fields }: MessageType, writer: FrameWriter, message: Message): void {
    for (const { name, id, isRepeated, kind } of fields) {
      const value = message[name];
      if (value === undefined || value === null) continue;
      if (!isRepeated) kind.write(writer, id, value);
      else for (const item of value as unknown[]) kind.write(writer, id, item);
    }
  }

  #read({ fields, byTag, oneofs }: MessageType, reader: FrameReader): Message {
    const message: Message = {};
    for (const { name, isRepeated, isOfOneof, kind } of fields) {
      if (isRepeated) message[name] = [];
      else if (!isOfOneof) message[name] = kind.absent();
    }
    while (reader.next()) {
      const field = byTag.get(reader.tag);
      if (field === undefined) continue;
      const value = field.kind.read(reader, field.name);
      if (field.isRepeated) (message[field.name] as unknown[]).push(value);
      else message[field.name] = value;
    }
    for (const [name, of] of oneofs) {
      const set = of.findLast((each) => message[each] !== undefined);
      if (set !== undefined) message[name] = set;
    }
    return message;
  }

  #typeOf(name: string): MessageType {
    let type = this.#types.get(name);
    if (type === undefined) {
      type = this.#readType(name);
      this.#types.set(name, type);
    }
    return type;
  }

  #readType(name: string): MessageType {
    const descriptor = this.#descriptor[name];
    if (descriptor?.fields === undefined) throw new RangeError(`${name} is no message`);
    const oneofs = Object.entries(descriptor.oneofs ?? {}).map(
      ([oneof, { oneof: of }]) => [oneof, of] as const,
    );
    const inOneofs = new Set(oneofs.flatMap(([, of]) => of));
    const fields = Object.entries(descriptor.fields)
      .map(([field, { type, id, rule }]): Field => {
        const isRepeated = rule === "repeated";
        if (isRepeated && type in SCALARS) throw new RangeError(`${name}.${field} is a list`);
        const kind = SCALARS[type] ?? this.#nestedKind(type);
        return { name: field, id, kind, isRepeated, isOfOneof: inOneofs.has(field) };
      })
      .toSorted((a, b) => a.id - b.id);
    const byTag = new Map(fields.map((field) => [field.id * 8 + field.kind.wire, field]));
    return { fields, byTag, oneofs };
  }

  #nestedKind(type: string): ValueKind {
    return {
      wire: WIRE.bytes,
      absent: () => null,
      read: (reader) => reader.nested((inner) => this.#read(this.#typeOf(type), inner)),
      write: (writer, id, value) => {
        writer.message(id, (inner) => this.#write(this.#typeOf(type), inner, value as Message));
      },
    };
  }
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
