// Labels over versions that come and go.

import { silentLogger } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { LabelBook } from "./label-book.ts";

const labels = (of: Readonly<Record<string, number>>) =>
  new Map([["movies", new Map(Object.entries(of))]]);

function bookOf(options: { allowUnavailable?: boolean } = {}) {
  const available = new Set<number>();
  const warnings: unknown[] = [];
  const log = {
    ...silentLogger,
    warn: (_event: string, fields?: Readonly<Record<string, unknown>>) => warnings.push(fields),
  };
  const book = new LabelBook({
    log,
    isAvailable: (model, version) => model === "movies" && available.has(version),
    allowUnavailable: options.allowUnavailable ?? false,
  });
  return {
    book,
    available,
    warnings,
    versionOf: (label: string) => book.versionOf("movies", label),
  };
}

describe("LabelBook", () => {
  test("a label means its version once that is available, and is UNAVAILABLE until then", () => {
    const { book, available, warnings, versionOf } = bookOf();

    book.configure(labels({ stable: 7 }));
    expect(() => versionOf("stable")).toThrow(
      "Label stable of model movies waits for version 7, which is not available yet",
    );
    book.settle();
    expect(warnings).toEqual([
      { model: "movies", label: "stable", version: 7, meanwhile: undefined },
    ]);

    available.add(7);
    book.settle();
    expect(versionOf("stable")).toBe(7);
  });

  test("a label in use keeps its version until the one it moves to is available", () => {
    const { book, available, versionOf } = bookOf();
    available.add(7);
    book.configure(labels({ stable: 7 }));

    book.configure(labels({ stable: 8 }));
    expect(versionOf("stable")).toBe(7);

    available.add(8);
    book.settle();
    expect(versionOf("stable")).toBe(8);
  });

  test("a set label stays when its version is lost: nothing else may answer for it (S4)", () => {
    const { book, available, versionOf } = bookOf();
    available.add(7);
    book.configure(labels({ stable: 7 }));

    available.clear();
    book.settle();
    book.configure(labels({ stable: 7 }));

    expect(versionOf("stable")).toBe(7);
  });

  test("where unavailable versions are allowed, new labels are set at once, used ones are not moved", () => {
    const { book, versionOf } = bookOf({ allowUnavailable: true });

    book.configure(labels({ stable: 7 }));
    expect(versionOf("stable")).toBe(7);

    book.configure(labels({ stable: 8 }));
    expect(versionOf("stable")).toBe(7);
  });

  test("a label that is no longer configured is unknown, and so is one of another model", () => {
    const { book, available, versionOf } = bookOf();
    available.add(7);
    book.configure(labels({ stable: 7 }));

    book.configure(new Map());

    expect(() => versionOf("stable")).toThrow("Unrecognized servable version label: stable");
    expect(() => book.versionOf("books", "stable")).toThrow("Unrecognized");
  });
});
