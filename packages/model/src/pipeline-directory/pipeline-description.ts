// `pipeline.yaml` → a checked pipeline. Every error names line and field. YAML is read as the data of JSON:
// no aliases (a few bytes of them make gigabytes), no tags, no two keys of one name.
//
//   inputs: { user: string }
//   items: string
//   stages:
//     - retrieve: { model: movies, k: 500, inputs: { user_id: user } }
//     - rank: { model: ranking, inputs: { user_id: request.user, movie_title: item }, heads: { ctr: output_2 } }
//     - score: 0.7 * ctr + 0.3 * score
//     - limit: 20

import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import type { Document, LineCounter, Node } from "yaml";
import {
  PIPELINE_CANDIDATES_MAX,
  PIPELINE_HEADS_MAX,
  PIPELINE_STAGES_MAX,
  SCORE_SO_FAR,
  WinnowError,
  excerpt,
  isDtype,
  isScoreName,
  parseScore,
  scoreNamesOf,
} from "@winnow/core";
import type { Dtype, Pipeline, PipelineStage, RankSource, RankStage } from "@winnow/core";

/** The file that makes a version directory a pipeline. */
export const PIPELINE_FILE = "pipeline.yaml";
/** No pipeline of a person is longer. */
export const PIPELINE_BYTES_MAX: number = 64 * 1024;

/** Loaded for the first pipeline: reader threads begin without foreign packages. */
function yaml(): typeof Yaml {
  return createRequire(import.meta.url)("yaml") as typeof Yaml;
}

/** What the file says. */
export interface PipelineDescription {
  readonly inputs: ReadonlyMap<string, Dtype>;
  /** Dtype of the ids. */
  readonly items: Dtype;
  readonly pipeline: Pipeline;
}

/** @throws WinnowError INVALID_ARGUMENT naming file, line and field */
export function parsePipeline(content: Uint8Array): PipelineDescription {
  const lines = new (yaml().LineCounter)();
  const text = textOf(content);
  const document = yaml().parseDocument(text, {
    lineCounter: lines,
    schema: "core",
    uniqueKeys: true,
  });
  const place = new Places(lines);
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) {
    const [what] = error.message.split("\n");
    throw place.refusal(error.pos[0], "the file", excerpt(what ?? ""));
  }
  refuseAliases(document, place);
  return new Reader(place).whole(document.contents);
}

function textOf(content: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch (cause) {
    const message = `Cannot read ${PIPELINE_FILE}: it is not UTF-8`;
    throw new WinnowError("INVALID_ARGUMENT", message, { cause });
  }
}

function refuseAliases(document: Document.Parsed, place: Places): void {
  yaml().visit(document, {
    Node: (_, node) => {
      if (yaml().isAlias(node))
        throw place.refusal(node.range?.[0], `*${node.source}`, "is an alias; write it out");
    },
  });
}

class Places {
  readonly #lines: LineCounter;

  constructor(lines: LineCounter) {
    this.#lines = lines;
  }

  refusal(offset: number | undefined, field: string, fault: string): WinnowError {
    const { line } = this.#lines.linePos(offset ?? 0);
    const where = `Cannot read ${PIPELINE_FILE}, line ${Math.max(1, line)}, ${excerpt(field)}`;
    return new WinnowError("INVALID_ARGUMENT", `${where}: ${fault}`);
  }
}

/** A value, and the path to it. */
interface Field {
  readonly node: Node | null;
  readonly path: string;
  /** Where to point to if there is no value. */
  readonly offset: number;
}

type Fields = ReadonlyMap<string, Field>;

class Reader {
  readonly #place: Places;

  constructor(place: Places) {
    this.#place = place;
  }

  whole(root: Node | null): PipelineDescription {
    const fields = this.#map({ node: root, path: "", offset: 0 }, [
      "inputs",
      "items",
      "stages",
      "outputs",
    ]);
    const inputs = new Map(
      [...this.#map(this.#needed(fields, "inputs", root))].map(([name, field]) => [
        name,
        this.#dtype(field),
      ]),
    );
    const first = this.#needed(fields, "inputs", root);
    if (inputs.size === 0) throw this.#refused(first, "names no input");
    const items = fields.get("items");
    const stages = this.#stages(this.#needed(fields, "stages", root), inputs);
    return {
      inputs,
      items: items === undefined ? "string" : this.#dtype(items),
      pipeline: { stages, outputs: this.#outputs(fields.get("outputs")) },
    };
  }

  #outputs(field: Field | undefined): Pipeline["outputs"] {
    const names = field === undefined ? undefined : this.#map(field, ["scores", "ids"]);
    const scores = this.#textOr(names?.get("scores"), "output_1");
    const ids = this.#textOr(names?.get("ids"), "output_2");
    if (field !== undefined && scores === ids)
      throw this.#refused(field, "names both outputs the same");
    return { scores, ids };
  }

  #stages(field: Field, inputs: ReadonlyMap<string, Dtype>): readonly PipelineStage[] {
    if (!yaml().isSeq(field.node)) throw this.#refused(field, "is not a list of stages");
    const items = field.node.items as (Node | null)[];
    if (items.length === 0 || items.length > PIPELINE_STAGES_MAX) {
      const text = `has ${items.length} stages; a pipeline has 1 to ${PIPELINE_STAGES_MAX}`;
      throw this.#refused(field, text);
    }
    const scores = new Set([SCORE_SO_FAR]);
    return items.map((node, at) => {
      const item = { node, path: `${field.path}[${at}]`, offset: node?.range?.[0] ?? field.offset };
      const stage = this.#stage(item, inputs, scores);
      for (const name of scoreNamesOf(stage)) scores.add(name);
      if ((stage.kind === "retrieve") === (at === 0)) return stage;
      const text =
        at === 0 ? `is "${stage.kind}"; the first stage is "retrieve"` : "retrieves again";
      throw this.#refused(item, text);
    });
  }

  /** `scores`: names of scores that stages before have given. */
  #stage(
    item: Field,
    inputs: ReadonlyMap<string, Dtype>,
    scores: ReadonlySet<string>,
  ): PipelineStage {
    const entries = [...this.#map(item, ["retrieve", "rank", "score", "limit"])];
    const [entry, second] = entries;
    if (entry === undefined || second !== undefined) {
      throw this.#refused(item, "is not one of retrieve, rank, score and limit");
    }
    const [kind, field] = entry;
    if (kind === "limit") return { kind, count: this.#count(field) };
    if (kind === "score") return this.#score(field, scores);
    if (kind === "rank") return this.#rank(field, inputs, scores);
    const fields = this.#map(field, ["model", "signature", "k", "inputs", "scores", "ids", "as"]);
    const as = fields.get("as");
    const read = this.#map(this.#needed(fields, "inputs", field.node));
    return {
      kind: "retrieve",
      model: this.#text(this.#needed(fields, "model", field.node)),
      signature: this.#textOr(fields.get("signature"), "serving_default"),
      k: this.#count(this.#needed(fields, "k", field.node)),
      inputs: Array.from(read, ([name, value]) => ({ name, from: this.#input(value, inputs) })),
      scores: this.#textOr(fields.get("scores"), "output_1"),
      ids: this.#textOr(fields.get("ids"), "output_2"),
      ...(as !== undefined && { as: this.#newScore(as, this.#text(as), scores) }),
    };
  }

  #score(field: Field, scores: ReadonlySet<string>): PipelineStage {
    const value = yaml().isScalar(field.node) ? field.node.value : undefined;
    const found = parseScore(typeof value === "number" ? `${value}` : this.#text(field), scores);
    if ("fault" in found) throw this.#refused(field, found.fault);
    return { kind: "score", expression: found.expression };
  }

  /** A name that no stage before has given to a score. */
  #newScore(field: Field, name: string, scores: ReadonlySet<string>): string {
    if (!isScoreName(name)) {
      const text = `names a score "${excerpt(name)}"; a name is a word of letters, digits and _`;
      throw this.#refused(field, `${text}, and no function`);
    }
    if (!scores.has(name)) return name;
    throw this.#refused(field, `names a score "${excerpt(name)}", which is the name of another`);
  }

  #heads(field: Field, scores: ReadonlySet<string>): RankStage["heads"] {
    const heads = [...this.#map(field)];
    if (heads.length > PIPELINE_HEADS_MAX) {
      throw this.#refused(field, `has ${heads.length} heads; ${PIPELINE_HEADS_MAX} are allowed`);
    }
    return heads.map(([name, value]) => ({
      name: this.#newScore(value, name, scores),
      output: this.#text(value),
    }));
  }

  #rank(
    field: Field,
    inputs: ReadonlyMap<string, Dtype>,
    scores: ReadonlySet<string>,
  ): PipelineStage {
    const fields = this.#map(field, ["model", "signature", "inputs", "scores", "heads"]);
    const heads = fields.get("heads");
    const read = this.#map(this.#needed(fields, "inputs", field.node));
    return {
      kind: "rank",
      model: this.#text(this.#needed(fields, "model", field.node)),
      signature: this.#textOr(fields.get("signature"), "serving_default"),
      inputs: Array.from(read, ([name, value]) => ({ name, from: this.#source(value, inputs) })),
      scores: this.#textOr(fields.get("scores"), "output_1"),
      ...(heads !== undefined && { heads: this.#heads(heads, scores) }),
    };
  }

  #source(field: Field, inputs: ReadonlyMap<string, Dtype>): RankSource {
    const text = this.#text(field);
    if (text === "item") return { kind: "item" };
    if (text === "score") return { kind: "score" };
    const name = text.startsWith("request.") ? text.slice("request.".length) : undefined;
    if (name !== undefined && inputs.has(name)) return { kind: "request", input: name };
    const choices = ["item", "score", ...[...inputs.keys()].map((input) => `request.${input}`)];
    throw this.#refused(field, `is "${excerpt(text)}"; it can be ${excerpt(choices.join(", "))}`);
  }

  #input(field: Field, inputs: ReadonlyMap<string, Dtype>): string {
    const text = this.#text(field);
    if (inputs.has(text)) return text;
    const names = [...inputs.keys()].join(", ");
    throw this.#refused(
      field,
      `is "${excerpt(text)}"; the pipeline's inputs are ${excerpt(names)}`,
    );
  }

  #map(field: Field, known?: readonly string[]): Fields {
    if (!yaml().isMap(field.node)) throw this.#refused(field, "is not a map of names to values");
    const fields = new Map<string, Field>();
    for (const { key, value } of field.node.items) {
      const name = yaml().isScalar(key) ? String(key.value) : "";
      const offset = (key as Node).range?.[0] ?? field.offset;
      const path = field.path === "" ? name : `${field.path}.${name}`;
      const member = { node: value as Node | null, path, offset };
      if (name === "" || known?.includes(name) === false) {
        throw this.#refused(member, `is unknown here; known: ${known?.join(", ") ?? "names"}`);
      }
      fields.set(name, member);
    }
    return fields;
  }

  #needed(fields: Fields, name: string, around: Node | null): Field {
    const field = fields.get(name);
    if (field !== undefined) return field;
    throw this.#place.refusal(around?.range?.[0], name, "is missing");
  }

  #text(field: Field): string {
    const value = yaml().isScalar(field.node) ? field.node.value : undefined;
    if (typeof value === "string" && value !== "") return value;
    throw this.#refused(field, "is not a text");
  }

  #textOr(field: Field | undefined, otherwise: string): string {
    return field === undefined ? otherwise : this.#text(field);
  }

  #dtype(field: Field): Dtype {
    const text = this.#text(field);
    if (isDtype(text)) return text;
    throw this.#refused(
      field,
      `is "${excerpt(text)}", which is no dtype; say string, int64 or float32`,
    );
  }

  #count(field: Field): number {
    const value = yaml().isScalar(field.node) ? field.node.value : undefined;
    const isCount = typeof value === "number" && Number.isInteger(value);
    if (isCount && value >= 1 && value <= PIPELINE_CANDIDATES_MAX) return value;
    throw this.#refused(field, `is not an integer from 1 to ${PIPELINE_CANDIDATES_MAX}`);
  }

  #refused({ node, path, offset }: Field, fault: string): WinnowError {
    return this.#place.refusal(node?.range?.[0] ?? offset, path === "" ? "the file" : path, fault);
  }
}
