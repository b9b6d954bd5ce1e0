// Checkpoints: what the writer writes is read back, real ones are read whole, damaged ones refused.

import { readFileSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { StringColumn, type Tensor, WinnowError } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StoredDirectory } from "../../storage/stored-directory.ts";
import { TensorBundle } from "./tensor-bundle.ts";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import {
  REAL_MODELS,
  floats,
  hasRealModels,
  writeVersionOf,
} from "../fixtures/version-directory.ts";
import { boxesOf, slicedMatrix } from "../fixtures/sliced-tensors.ts";
import type { WrittenTensor } from "@winnow/model-writer";

const directory = path.join(temporaryDirectory(), "1");

/** The result of reading a written tensor. */
function readAs(tensor: WrittenTensor): unknown {
  const { content, shape } = tensor;
  if (content.kind === "strings") {
    return { dtype: "string", shape, values: content.strings.toText() };
  }
  const values = [...content.pieces()].flatMap((piece) => Array.from(piece as Float32Array));
  return { dtype: content.dtype, shape, values };
}

function shown(tensor: Tensor): unknown {
  const values = tensor.dtype === "string" ? tensor.data.toText() : [...tensor.data];
  return { dtype: tensor.dtype, shape: tensor.shape, values };
}

const key = fc.string({ minLength: 1, maxLength: 40 });
const shape = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 3 });
const strings = fc
  .tuple(key, fc.array(fc.string({ maxLength: 200 }), { maxLength: 300 }))
  .map(([key, texts]): WrittenTensor => {
    const content = { kind: "strings", strings: StringColumn.fromText(texts) } as const;
    return { key, shape: [texts.length], content };
  });
const numbers = fc.tuple(key, shape, fc.boolean()).map(([key, shape, wide]): WrittenTensor => {
  const length = shape.reduce((product, size) => product * size, 1);
  const values = Array.from({ length }, (_, index) => index * 3 - 7);
  return wide
    ? {
        key,
        shape,
        content: {
          kind: "numbers",
          dtype: "int64",
          pieces: () => [BigInt64Array.from(values, BigInt)],
        },
      }
    : floats(key, shape, Float32Array.from(values));
});

describe("a tensor bundle", () => {
  test("gives back what was written, whatever the number of data files", () => {
    const tensors = fc.uniqueArray(fc.oneof(strings, numbers), {
      selector: (tensor) => tensor.key,
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(tensors, fc.integer({ min: 1, max: 4 }), (written, dataFiles) => {
        writeVersionOf(directory, written, dataFiles);
        const bundle = new TensorBundle(new StoredDirectory(directory));

        const read = written.map((tensor) => shown(bundle.readTensor(tensor.key)));
        bundle.close();

        expect(read).toEqual(written.map(readAs));
        expect(new Set(bundle.keys())).toEqual(new Set(written.map((tensor) => tensor.key)));
      }),
      { numRuns: 40 },
    );
  });

  test("says which tensor a checkpoint lacks", () => {
    writeVersionOf(directory, [floats("a", [1], Float32Array.of(1))]);

    const bundle = new TensorBundle(new StoredDirectory(directory));

    expect(() => bundle.readTensor("b")).toThrow('tensor "b": the checkpoint does not hold it');
    bundle.close();
  });
});

describe("a damaged checkpoint is refused, never a crash or a hang", () => {
  const content = {
    kind: "strings",
    strings: StringColumn.fromText(["one", "", "three"]),
  } as const;
  const tensors = [
    floats(
      "candidates",
      [4, 2],
      Float32Array.from({ length: 8 }, (_, index) => index),
    ),
    { key: "identifiers", shape: [3], content },
    ...slicedMatrix("sliced", [4, 2], {
      values: Uint16Array.from({ length: 8 }, (_, index) => index),
      boxes: boxesOf(4, 2, [14, 7]),
      dtype: "half",
    }),
  ];

  /** Reads everything; true if no fault was found. */
  function readsAll(): boolean {
    let bundle: TensorBundle | undefined;
    try {
      bundle = new TensorBundle(new StoredDirectory(directory));
      for (const { key } of tensors) bundle.readTensor(key);
      return true;
    } catch (error) {
      if (error instanceof WinnowError && error.code !== "INTERNAL") return false;
      throw error;
    } finally {
      bundle?.close();
    }
  }

  test.each(["variables/variables.index", "variables/variables.data-00000-of-00001"])(
    "%s cut at any byte, or with any byte changed",
    (name) => {
      writeVersionOf(directory, tensors);
      const file = path.join(directory, name);
      const whole = readFileSync(file);
      const unnoticed: string[] = [];
      for (let at = 0; at < whole.length; at += 1) {
        for (const flip of [1, 0x80, 0xff]) {
          const changed = Uint8Array.from(whole);
          changed[at]! ^= flip;
          writeFileSync(file, changed);
          if (readsAll()) unnoticed.push(`byte ${at} changed by ${flip}`);
        }
      }
      for (let size = whole.length - 1; size >= 0; size -= 1) {
        writeFileSync(file, whole.subarray(0, size));
        if (readsAll()) unnoticed.push(`cut to ${size} bytes`);
      }

      // The padding of the index's footer, up to its magic number, has no meaning. The byte before
      // it, with its high bit set, is a longer form of the same number.
      const isPadding = (text: string): boolean => {
        const at = Number(/byte (\d+)/.exec(text)?.[1] ?? 0);
        return name.endsWith("index") && at >= whole.length - 45 && at < whole.length - 8;
      };
      expect(unnoticed.filter((text) => !isPadding(text))).toEqual([]);
    },
  );

  test("a missing data file is named", () => {
    writeVersionOf(directory, tensors, 2);
    truncateSync(path.join(directory, "variables/variables.data-00001-of-00002"), 3);
    const bundle = new TensorBundle(new StoredDirectory(directory));

    expect(() => bundle.readTensor("identifiers")).toThrow(
      /variables\.data-00001-of-00002, tensor "identifiers": it ends at byte 3/,
    );
    bundle.close();
  });
});

describe.skipIf(!hasRealModels)("real checkpoints (in ../shared/savedmodels)", () => {
  const models = hasRealModels
    ? readdirSync(REAL_MODELS, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    : [];

  test.each(models.map((entry) => entry.name))(
    "every tensor of %s matches its checksum",
    (name) => {
      const bundle = new TensorBundle(new StoredDirectory(path.join(REAL_MODELS, name, "1")));

      const tensors = bundle.keys().map((key) => bundle.readTensor(key));
      bundle.close();

      expect(tensors.length).toBeGreaterThan(3);
    },
  );

  test("shapes, values and identifiers are those of the model", () => {
    const bundle = new TensorBundle(
      new StoredDirectory(path.join(REAL_MODELS, "movielens_retrieval/1")),
    );

    const candidates = bundle.readTensor("candidates/.ATTRIBUTES/VARIABLE_VALUE");
    const identifiers = bundle.readTensor("identifiers/.ATTRIBUTES/VARIABLE_VALUE");
    bundle.close();

    expect(candidates.shape).toEqual([9742, 32]);
    expect(identifiers.dtype === "string" && identifiers.data.textAt(0)).toBe("Toy Story (1995)");
  });
});
