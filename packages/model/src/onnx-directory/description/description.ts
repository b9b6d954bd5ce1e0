// `winnow.json`: the meaning of the files beside a `model.onnx`. Without it the model is a ranking model with
// the inputs and outputs of the graph. docs/winnow.schema.json is its JSON Schema.
//
//   { "inputs":    { "reader": { "vocabulary": "users.txt", "unknown": 0 } },
//     "retrieval": { "items": { "file": "items.safetensors" }, "ids": { "file": "ids.txt" }, "k": 10 } }

import { WinnowError, excerpt } from "@winnow/core";
import { parseLocatedJson } from "./located-json.ts";
import type { LocatedJson, LocatedMember } from "./located-json.ts";

/** Name of the description in a version directory. */
export const DESCRIPTION_FILE = "winnow.json";
/** Bytes of a description, at most. */
export const DESCRIPTION_BYTES_MAX: number = 2 ** 20;
const K_MAX = 2 ** 31 - 1;

/** A file that the description names, and the place that names it. */
interface NamedFile {
  readonly file: string;
  /** `winnow.json, line 4, retrieval.items.file`, for messages. */
  readonly where: string;
}

/** A tensor in a file. */
export interface TensorFile extends NamedFile {
  /** Name in a file of several: a tensor of safetensors, a column of Parquet. */
  readonly tensor: string | undefined;
  /** CRC-32C of the stored values; `undefined`: computed when the version is opened. */
  readonly checksum: number | undefined;
}

/** An input whose integers stand for strings. */
export interface VocabularyInput extends NamedFile {
  /** The integer for strings that the vocabulary lacks; `undefined`: such strings are refused. */
  readonly unknown: number | undefined;
}

/** A search of items with what the model computes. */
export interface Retrieval {
  readonly items: TensorFile;
  /** `undefined`: items are answered by their row numbers. */
  readonly ids: TensorFile | undefined;
  /** The output that is searched with; `undefined`: the only one. */
  readonly query: string | undefined;
  readonly similarity: "dot" | "cosine";
  readonly k: number;
  /** Names of the signature's outputs. */
  readonly outputs: { readonly scores: string; readonly ids: string };
  /** The place of the search in the file, for messages. */
  readonly where: string;
}

/** A description. */
export interface Description {
  readonly inputs: ReadonlyMap<string, VocabularyInput>;
  readonly retrieval: Retrieval | undefined;
}

/** The meaning of a directory without a description. */
export const PLAIN_DESCRIPTION: Description = { inputs: new Map(), retrieval: undefined };

/** Reads a description. @throws WinnowError INVALID_ARGUMENT naming line and field */
export function parseDescription(content: Uint8Array): Description {
  const root = new DescribedObject(parseLocatedJson(content, DESCRIPTION_FILE), "", 1);
  root.optional("$schema")?.text();
  const inputs = new Map<string, VocabularyInput>();
  for (const [name, field] of root.optional("inputs")?.object().members() ?? []) {
    const input = field.object();
    inputs.set(name, {
      ...input.required("vocabulary").file(),
      unknown: input.optional("unknown")?.integer({ least: 0, most: Number.MAX_SAFE_INTEGER }),
    });
    input.end();
  }
  const search = root.optional("retrieval");
  const retrieval = search === undefined ? undefined : retrievalOf(search);
  root.end();
  return { inputs, retrieval };
}

function retrievalOf(field: DescribedField): Retrieval {
  const object = field.object();
  const items = tensorFileOf(object.required("items"));
  const ids = object.optional("ids");
  const outputs = object.optional("outputs");
  const retrieval: Retrieval = {
    items,
    ids: ids && tensorFileOf(ids),
    query: object.optional("query")?.text(),
    similarity: object.optional("similarity")?.choice(["dot", "cosine"]) ?? "dot",
    k: object.optional("k")?.integer({ least: 1, most: K_MAX }) ?? 10,
    outputs: outputs === undefined ? { scores: "scores", ids: "ids" } : outputNamesOf(outputs),
    where: field.where,
  };
  object.end();
  return retrieval;
}

function outputNamesOf(field: DescribedField): Retrieval["outputs"] {
  const object = field.object();
  const scores = object.optional("scores")?.text() ?? "scores";
  const ids = object.optional("ids")?.text() ?? "ids";
  object.end();
  if (scores === ids) throw field.refused(`two names: both are "${excerpt(ids)}"`);
  return { scores, ids };
}

function tensorFileOf(field: DescribedField): TensorFile {
  const object = field.object();
  const checksum = object.optional("crc32c")?.checksum();
  const file = object.required("file").file();
  const tensor = object.optional("tensor")?.text();
  object.end();
  return { ...file, tensor, checksum };
}

/** A value of the description by its path. */
class DescribedField {
  readonly #value: LocatedJson;
  readonly #path: string;
  readonly #line: number;

  constructor({ value, line }: LocatedMember, path: string) {
    this.#value = value;
    this.#path = path;
    this.#line = line;
  }

  /** File, line and path of the value, for messages. */
  get where(): string {
    return placeOf(this.#line, this.#path);
  }

  object(): DescribedObject {
    return new DescribedObject(this.#value, this.#path, this.#line);
  }

  text(): string {
    if (this.#value.kind === "text" && this.#value.value !== "") return this.#value.value;
    throw this.refused("a text that is not empty");
  }

  file(): NamedFile {
    return { file: this.text(), where: this.where };
  }

  integer({ least, most }: { readonly least: number; readonly most: number }): number {
    const { value } = this;
    if (Number.isInteger(value) && value! >= least && value! <= most) return value!;
    throw this.refused(`an integer from ${least} to ${most}`);
  }

  choice<Choice extends string>(choices: readonly Choice[]): Choice {
    const found = choices.find(
      (choice) => this.#value.kind === "text" && this.#value.value === choice,
    );
    if (found !== undefined) return found;
    throw this.refused(choices.map((choice) => `"${choice}"`).join(" or "));
  }

  checksum(): number {
    const text = this.#value.kind === "text" ? this.#value.value : "";
    if (/^[0-9a-f]{8}$/.test(text)) return Number.parseInt(text, 16);
    throw this.refused("a CRC-32C as 8 hexadecimal digits in lower case");
  }

  refused(expected: string): WinnowError {
    return new WinnowError("INVALID_ARGUMENT", `${this.where}: must be ${expected}`);
  }

  private get value(): number | undefined {
    return this.#value.kind === "number" ? this.#value.value : undefined;
  }
}

/** An object of the description. Members that were not read are refused at the end. */
class DescribedObject {
  readonly #members: ReadonlyMap<string, LocatedMember>;
  readonly #path: string;
  readonly #line: number;
  readonly #known = new Set<string>();

  constructor(value: LocatedJson, path: string, line: number) {
    this.#path = path;
    this.#line = line;
    if (value.kind !== "object") {
      throw new WinnowError("INVALID_ARGUMENT", `${placeOf(line, path)}: must be an object`);
    }
    this.#members = value.members;
  }

  optional(name: string): DescribedField | undefined {
    this.#known.add(name);
    const member = this.#members.get(name);
    return member && new DescribedField(member, this.#pathOf(name));
  }

  required(name: string): DescribedField {
    const field = this.optional(name);
    if (field !== undefined) return field;
    const text = `${placeOf(this.#line, this.#path)}: lacks the field "${name}"`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }

  /** All members of an object whose names are free. */
  *members(): Generator<readonly [string, DescribedField]> {
    for (const [name, member] of this.#members) {
      yield [name, new DescribedField(member, this.#pathOf(name))];
    }
  }

  end(): void {
    for (const [name, { line }] of this.#members) {
      if (this.#known.has(name)) continue;
      const known = [...this.#known].join(", ");
      const text = `${placeOf(line, this.#pathOf(excerpt(name)))}: is no field; there are ${known}`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
  }

  #pathOf(name: string): string {
    return this.#path === "" ? name : `${this.#path}.${name}`;
  }
}

function placeOf(line: number, path: string): string {
  return `${DESCRIPTION_FILE}, line ${line}${path === "" ? "" : `, ${excerpt(path)}`}`;
}
