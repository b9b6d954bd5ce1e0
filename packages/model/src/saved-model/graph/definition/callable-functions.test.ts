// A model that no client can call says what it holds, and how to export it.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { ProtobufWriter } from "@winnow/core";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../../../../test/temporary-directory.ts";
import { openModelVersion } from "../../../model-directory.ts";

const root = temporaryDirectory();

interface Child {
  readonly name: string;
  /** Names of its graphs; `undefined` for what is no function. */
  readonly graphs: readonly string[] | undefined;
}

/** A version directory without a signature, whose root object has these children. */
function uncallable(name: string, children: readonly Child[]): string {
  const bytes = new ProtobufWriter()
    .message(2, (meta) => {
      meta.message(1, (info) => info.text(4, "serve"));
      meta.message(7, (objects) => {
        objects.message(1, (object) => {
          for (const [at, child] of children.entries()) {
            object.message(1, (reference) => reference.int(1, at + 1).text(2, child.name));
          }
        });
        for (const { graphs } of children) {
          objects.message(1, (object) => {
            if (graphs === undefined) return;
            object.message(6, (saved) => {
              for (const graph of graphs) saved.text(1, graph);
            });
          });
        }
      });
    })
    .finish();
  const directory = path.join(root, name, "1");
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, "saved_model.pb"), bytes);
  return directory;
}

test("a model without a signature names its functions and three lines that export one", () => {
  const directory = uncallable("uncalled", [
    { name: "__call__", graphs: [] },
    { name: "table", graphs: undefined },
    { name: "score", graphs: ["__inference_score_12"] },
  ]);

  expect(() => openModelVersion(directory)).toThrow(
    expect.objectContaining({
      code: "UNIMPLEMENTED",
      message: expect.stringMatching(
        /^saved_model\.pb has no signature that can be called; its signatures: none; its functions: __call__ \(never called\), score\. Export it .*\n.*tf\.function.*\n.*def serve.*\n.*saved_model\.save/,
      ) as unknown,
    }),
  );
});

test("a model with thousands of functions names some of them", () => {
  const children = Array.from({ length: 5000 }, (_, at) => ({ name: `f${at}`, graphs: [] }));

  expect(() => openModelVersion(uncallable("many", children))).toThrow(
    /f19 \(never called\), …\. Export/,
  );
});
