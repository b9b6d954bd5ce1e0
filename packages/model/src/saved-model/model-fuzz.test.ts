// Fuzzing of everything that is read of a version directory: a short seeded run with every test
// run, a long one with `npm run fuzz:models` (FUZZ_INPUTS inputs from number FUZZ_FROM of
// FUZZ_SEED). Each input ends as a model or as a WinnowError that is not a bug, soon, and without
// much memory. A reported fault names its input, which FUZZ_FROM=<number> FUZZ_INPUTS=1 repeats.

import { cpSync, readFileSync, readdirSync, writeFileSync, writeSync } from "node:fs";
import path from "node:path";
import {
  ProtobufWriter,
  StringColumn,
  WinnowError,
  createKeyIndex,
  elementCount,
} from "@winnow/core";
import type { SignatureProgram } from "@winnow/core";
import { expect, test } from "vitest";
import { openModelVersion } from "../model-directory.ts";
import { parseManifest } from "./checksum-manifest.ts";
import { readTensorProto } from "./graph/definition/tensor-proto.ts";
import { readTableEntries } from "./bundle/leveldb-table.ts";
import {
  FuzzSource,
  mutatedBytes,
  mutatedMessage,
  mutatedTable,
  mutatedText,
  recordFile,
  snappyStream,
} from "./fixtures/model-fuzz.ts";
import { decompressSnappy } from "./bundle/snappy.ts";
import type { TextVocabulary } from "./partitions/stored-table.ts";
import { parseTextVocabulary } from "./text-vocabulary.ts";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { requestsOf } from "./warm-up.ts";
import { RECORDED_MODELS } from "./fixtures/version-directory.ts";
import { writeRankingModel, writeRetrievalModel } from "@winnow/model-writer";

const INPUTS = Number(process.env["FUZZ_INPUTS"] ?? 1000);
const FROM = Number(process.env["FUZZ_FROM"] ?? 0);
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
const TIMEOUT_MS = 120_000 + INPUTS * 20;
/** Far above the time of any input, also on a busy machine. */
const INPUT_MS_MAX = 10_000;
const INPUT_BYTES_MAX = 512 * 2 ** 20;
const READ_BYTES_MAX = 2 ** 22;
const FAULTS_MAX = 20;

const EXPORTED = [
  "module_no_ids",
  "module_int64_ids",
  "category_encoding",
  "encoded_lookup",
  "hashing",
  "tf_example",
  "list_features",
  "lookup_file_vocabulary",
  "ragged_pooling",
  "streaming",
  "exclusions",
  "keras3_features",
];

const root = temporaryDirectory();

/** A sound version, and a directory for damaged copies of it. */
interface Specimen {
  readonly directory: string;
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** How often the version is chosen; large graphs, which take long, less often. */
  readonly weight: number;
}

function specimens(): Specimen[] {
  const matrix = (rows: number, dim: number) => ({
    rows,
    dim,
    pieces: () => [Float32Array.from({ length: rows * dim }, (_, index) => index / 7)],
  });
  const words = (count: number, prefix: string): StringColumn =>
    StringColumn.fromText(Array.from({ length: count }, (_, index) => `${prefix}${index}`));
  const layer = { kernel: new Float32Array(16), bias: new Float32Array(4), relu: true };
  writeRetrievalModel(path.join(root, "retrieval"), {
    users: {
      vocabulary: words(20, "u"),
      place: "asset",
      oovRows: 2,
      maskToken: "",
      embedding: matrix(23, 4),
    },
    tower: [layer],
    candidates: matrix(30, 4),
    identifiers: words(30, "item "),
    k: 5,
  });
  writeRankingModel(path.join(root, "ranking"), {
    users: { vocabulary: words(9, "u"), embedding: matrix(10, 2) },
    items: { vocabulary: words(5, "i"), place: "asset", embedding: matrix(6, 2) },
    layers: [{ kernel: new Float32Array(4), bias: new Float32Array(1), relu: false }],
  });
  for (const name of EXPORTED) {
    cpSync(path.join(RECORDED_MODELS, name, "1"), path.join(root, name), { recursive: true });
  }
  return ["retrieval", "ranking", ...EXPORTED].map((name) => {
    const directory = path.join(root, name);
    const names = readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
    const files = new Map(
      names.map((file) => [file, Uint8Array.from(readFileSync(path.join(directory, file)))]),
    );
    return { directory, files, weight: files.get("saved_model.pb")!.length ** -2 };
  });
}

const VERSIONS = specimens();
const WEIGHT = VERSIONS.reduce((sum, { weight }) => sum + weight, 0);

function specimenOf(source: FuzzSource): Specimen {
  let left = source.random() * WEIGHT;
  return VERSIONS.find(({ weight }) => (left -= weight) < 0) ?? VERSIONS[0]!;
}

/**
 * Opens a version with other contents of some files, reads all small tables, and restores the
 * files.
 */
function openSpoilt({ directory, files }: Specimen, spoilt: ReadonlyMap<string, Uint8Array>): void {
  for (const [name, content] of spoilt) writeFileSync(path.join(directory, name), content);
  try {
    const version = openModelVersion(directory);
    try {
      for (const [table, spec] of version.program.tables.entries()) {
        for (let partition = 0; partition < spec.partitions; partition += 1) {
          if (version.partitionBytes(table, partition) > READ_BYTES_MAX) continue;
          const reader = version.openPartition(table, partition);
          for (const _ of reader.chunks());
          reader.checksumShares();
          if (spec.kind === "keyed" && reader.keyed !== undefined)
            createKeyIndex(spec, reader.keyed);
        }
      }
    } finally {
      version.close();
    }
  } finally {
    for (const name of spoilt.keys()) writeFileSync(path.join(directory, name), files.get(name)!);
  }
}

function spoiltFile(source: FuzzSource, pattern: RegExp): [Specimen, string, Uint8Array] {
  for (;;) {
    const specimen = specimenOf(source);
    const names = [...specimen.files.keys()].filter((name) => pattern.test(name));
    if (names.length === 0) continue;
    const name = source.pick(names);
    return [specimen, name, specimen.files.get(name)!];
  }
}

const SIGNATURE: SignatureProgram = {
  name: "serving_default",
  methodName: "tensorflow/serving/predict",
  inputs: [{ name: "user", graphTensor: "user:0", value: 0, dtype: "string", shape: [-1] }],
  outputs: [],
  constants: [],
  steps: [],
};

function tensorMessage(source: FuzzSource): Uint8Array {
  const writer = new ProtobufWriter();
  const type = source.pick([1, 2, 3, 7, 9, 10, 14, 19, 99]);
  writer.int(1, type);
  writer.message(2, (shape) => {
    for (let rank = source.below(4); rank > 0; rank -= 1) {
      shape.message(2, (dim) => dim.int(1, source.pick([0, 1, 2, 3, 5, 1000, 2 ** 20, 2 ** 31])));
    }
  });
  for (let count = source.below(4); count > 0; count -= 1) {
    if (type === 7) writer.text(8, source.pick(["", "a", "long".repeat(20)]));
    else writer.int(source.pick([7, 10, 11]), source.below(1000));
  }
  return writer.finish();
}

function warmUpLog(source: FuzzSource): Uint8Array {
  const writer = new ProtobufWriter();
  writer.message(6, (predict) => {
    predict.message(1, (request) => {
      request.message(1, (spec) => spec.text(3, source.pick(["", "serving_default"])));
      request.entry(2, "user", (tensor) => {
        tensor.int(1, 7);
        tensor.message(2, (shape) => shape.message(2, (dim) => dim.int(1, 2)));
        tensor.text(8, "a").text(8, "b");
      });
    });
  });
  return writer.finish();
}

const MANIFEST = Buffer.from(
  ["saved_model.pb", "./variables/variables.index", "assets/a b.txt"]
    .map((name) => `${"0123456789abcdef".repeat(4)}  ${name}\n`)
    .join(""),
);

const byName = (a: string, b: string): number => (a < b ? -1 : 1);

function vocabularyOf(source: FuzzSource): TextVocabulary {
  return {
    file: "words.txt",
    keyDtype: source.pick(["string", "int64"]),
    valueDtype: source.pick(["string", "int64"]),
    keyIndex: source.pick([-2, -2, 0, 0, -1, 1, 5, -3, 2 ** 31]),
    valueIndex: source.pick([-1, -1, 1, 1, -2, 0]),
    vocabularySize: source.pick([-1, -1, -1, 0, 2, 3, 20, 2 ** 40]),
    delimiter: source.pick(["\t", "\t", "\t", ",", "", "ab", "é", "中"]),
    offset: source.pick([0, 0, 1, -1, 2 ** 53]),
  };
}

/** Kinds of damage, and how often each is done. */
const KINDS: Readonly<Record<string, { readonly share: number; run(source: FuzzSource): void }>> = {
  graph: {
    share: 0.22,
    run: (source) => {
      const [specimen, name, content] = spoiltFile(source, /^saved_model\.pb$/);
      openSpoilt(specimen, new Map([[name, mutatedMessage(source, content)]]));
    },
  },
  "graph bytes": {
    share: 0.04,
    run: (source) => {
      const [specimen, name, content] = spoiltFile(source, /^saved_model\.pb$/);
      openSpoilt(specimen, new Map([[name, mutatedBytes(source, content)]]));
    },
  },
  index: {
    share: 0.07,
    run: (source) => {
      const [specimen, name, content] = spoiltFile(source, /\.index$/);
      openSpoilt(specimen, new Map([[name, mutatedTable(source, content)]]));
    },
  },
  "graph and index": {
    share: 0.03,
    run: (source) => {
      const specimen = specimenOf(source);
      const index = "variables/variables.index";
      const spoilt = new Map([
        ["saved_model.pb", mutatedMessage(source, specimen.files.get("saved_model.pb")!)],
      ]);
      const content = specimen.files.get(index);
      if (content !== undefined) spoilt.set(index, mutatedTable(source, content));
      openSpoilt(specimen, spoilt);
    },
  },
  data: {
    share: 0.04,
    run: (source) => {
      const [specimen, name, content] = spoiltFile(source, /\.data-/);
      openSpoilt(specimen, new Map([[name, mutatedBytes(source, content)]]));
    },
  },
  asset: {
    share: 0.04,
    run: (source) => {
      const [specimen, name, content] = spoiltFile(source, /^assets\//);
      openSpoilt(specimen, new Map([[name, mutatedText(source, content)]]));
    },
  },
  vocabulary: {
    share: 0.12,
    run: (source) => {
      const content = mutatedText(source, Buffer.from("a\t1\nb\t2\nc\t3\n"));
      const { keys, values } = parseTextVocabulary(content, vocabularyOf(source));
      if (keys.data.length !== values.data.length) throw new RangeError("keys without values");
    },
  },
  "index alone": {
    share: 0.1,
    run: (source) => {
      readTableEntries(mutatedTable(source, spoiltFile(source, /\.index$/)[2]), "variables.index");
    },
  },
  snappy: {
    share: 0.1,
    run: (source) => void decompressSnappy(snappyStream(source), "variables.index"),
  },
  "warm-up": {
    share: 0.08,
    run: (source) => {
      const records = Array.from({ length: 1 + source.below(3) }, () =>
        mutatedMessage(source, warmUpLog(source)),
      );
      const content = recordFile(records);
      const file = source.chance(0.2) ? mutatedBytes(source, content) : content;
      requestsOf(file, [SIGNATURE]);
    },
  },
  tensor: {
    share: 0.1,
    run: (source) => {
      const { shape, data } = readTensorProto(mutatedMessage(source, tensorMessage(source)), "it");
      if (elementCount(shape) !== data.length) throw new RangeError("not as its shape says");
    },
  },
  manifest: {
    share: 0.06,
    run: (source) => void parseManifest(mutatedText(source, MANIFEST)),
  },
};

function kindOf(source: FuzzSource): string {
  let left = source.random();
  const found = Object.entries(KINDS).find(([, { share }]) => (left -= share) < 0);
  return found?.[0] ?? "graph";
}

/** How an input ended: "read", or the code of an error; `fault` is set for what must not happen. */
function outcomeOf(
  kind: string,
  source: FuzzSource,
): { readonly end: string; readonly fault?: string } {
  try {
    KINDS[kind]!.run(source);
    return { end: "read" };
  } catch (error) {
    const isTold = error instanceof WinnowError && !["INTERNAL", "UNKNOWN"].includes(error.code);
    if (isTold) return { end: error.code };
    const { stack } = error as Error;
    return { end: "fault", fault: String(stack).split("\n").slice(0, 8).join("\n") };
  }
}

test(
  `${INPUTS} spoilt files from number ${FROM} of seed ${SEED} are read or refused in words`,
  () => {
    const ends = new Map<string, number>();
    const faults: string[] = [];
    for (const specimen of VERSIONS) openSpoilt(specimen, new Map());
    const startedMs = performance.now();
    let slowest = { ms: 0, name: "" };
    for (let number = FROM; number < FROM + INPUTS && faults.length < FAULTS_MAX; number += 1) {
      const source = new FuzzSource(SEED, number);
      const kind = kindOf(source);
      const name = `input ${number} (${kind})`;
      const memoryBefore = process.resourceUsage().maxRSS * 1024;
      const beforeMs = performance.now();
      const { end, fault } = outcomeOf(kind, source);
      const ms = performance.now() - beforeMs;
      const grownBytes = process.resourceUsage().maxRSS * 1024 - memoryBefore;
      const counted = `${kind}: ${end}`;
      ends.set(counted, (ends.get(counted) ?? 0) + 1);
      if (ms > slowest.ms) slowest = { ms, name };
      if (fault !== undefined) faults.push(`${name}: ${fault}`);
      if (ms > INPUT_MS_MAX) faults.push(`${name} took ${ms} ms`);
      if (grownBytes > INPUT_BYTES_MAX) faults.push(`${name} took ${grownBytes} bytes`);
    }
    if (process.env["FUZZ_INPUTS"] !== undefined) {
      const seconds = (performance.now() - startedMs) / 1000;
      const peak = process.resourceUsage().maxRSS / 1024;
      const told = `${INPUTS} inputs from ${FROM} in ${seconds.toFixed(0)} s, at most ${peak.toFixed(0)} MiB, `;
      const most = `slowest ${slowest.ms.toFixed(0)} ms: ${slowest.name}\n`;
      const counts = Array.from(ends, ([end, count]) => `${end} ${count}`).toSorted(byName);
      writeSync(2, `${told}${most}${counts.join(", ")}\n${faults.join("\n")}\n`);
    }

    expect(faults).toEqual([]);
    expect(ends.get("graph: read") ?? 0).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);
