// The description against its committed copy.

import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openApiDocument } from "./openapi-document.ts";

test("docs/openapi.json is the document that is served", () => {
  const file = path.resolve(import.meta.dirname, "../../../../../docs/openapi.json");

  expect(JSON.parse(openApiDocument())).toEqual(JSON.parse(readFileSync(file, "utf8")));
});
