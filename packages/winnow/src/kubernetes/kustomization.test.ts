// Composition beside kubectl's: every overlay of `deploy/kubernetes` gives the same objects, names with hashes
// included. What is not understood is refused.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { type Manifest, compose } from "./kustomization.ts";
import { mergePatch } from "./strategic-merge.ts";

const folder = path.resolve(import.meta.dirname, "../../../../deploy/kubernetes");
const read = (file: string): string => readFileSync(file, "utf8");
const overlays = [
  "base",
  "kserve",
  "overlays/dev",
  "overlays/prod-cloud",
  "overlays/prod-cloud-secure",
  "overlays/prod-cpu",
  "overlays/prod-gpu",
  "overlays/prod-secure",
];

const sorted = (objects: readonly Manifest[]): Manifest[] => {
  const nameOf = ({ kind, metadata }: Manifest): string => `${kind}/${metadata.name}`;
  return objects.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
};

function byKubectl(overlay: string): Manifest[] | undefined {
  try {
    const at = path.join(folder, overlay);
    const text = execFileSync("kubectl", ["kustomize", at], { encoding: "utf8" });
    return parseAllDocuments(text).map((document) => document.toJS() as Manifest);
  } catch (error) {
    if ((error as { readonly code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}

describe("compose", () => {
  for (const overlay of overlays) {
    test(`makes of ${overlay} what kubectl makes of it`, (context) => {
      const expected = byKubectl(overlay) ?? context.skip("kubectl is not installed");

      const objects = compose({ resources: [overlay] }, folder, read);

      expect(sorted(objects)).toEqual(sorted(expected));
    });
  }

  test("refuses what it does not understand, by name", () => {
    const files = new Map([["a/kustomization.yaml", "namePrefix: x-\n"]]);

    expect(() => compose({ resources: ["a"] }, ".", (file) => files.get(file)!)).toThrow(
      '"namePrefix", which is not composed here',
    );
  });

  test("refuses a patch for an object that is not there", () => {
    const patch = "apiVersion: v1\nkind: Service\nmetadata: { name: gone }\n";

    expect(() => compose({ patches: [{ patch }] }, ".", read)).toThrow("Service/gone");
  });

  test.each([
    ["winnow:0.1.0", { newTag: "2" }, "winnow:2"],
    ["winnow:0.1.0", { newName: "host:5000/team/winnow", newTag: "2" }, "host:5000/team/winnow:2"],
    ["winnow:0.1.0", { newName: "host/winnow", digest: "sha256:ab" }, "host/winnow@sha256:ab"],
    ["winnow-gpu:0.1.0", { newTag: "2" }, "winnow-gpu:0.1.0"],
  ])("makes of the image %s with %j %s", (image, change, expected) => {
    const pod = { spec: { containers: [{ name: "a", image }] } };
    const text = JSON.stringify({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "a" },
      spec: { template: pod },
    });

    const [object] = compose(
      { resources: ["a.yaml"], images: [{ name: "winnow", ...change }] },
      ".",
      () => text,
    );

    expect(object).toHaveProperty("spec.template.spec.containers.0.image", expected);
  });
});

describe("mergePatch", () => {
  test("replaces lists of kinds that it does not know", () => {
    const object = { apiVersion: "example.com/v1", kind: "A", spec: { env: [{ name: "a" }] } };

    const merged = mergePatch(object, { spec: { env: [{ name: "b" }] } });

    expect(merged).toHaveProperty("spec.env", [{ name: "b" }]);
  });

  test("deletes what `null` and `$patch: delete` name, and nothing of its arguments", () => {
    const object = {
      apiVersion: "v1",
      kind: "A",
      a: 1,
      volumes: [{ name: "x" }, { name: "y", size: 1 }],
    };
    const before = structuredClone(object);

    const merged = mergePatch(object, { a: null, volumes: [{ name: "x", $patch: "delete" }] });

    expect(merged).toEqual({ apiVersion: "v1", kind: "A", volumes: [{ name: "y", size: 1 }] });
    expect(object).toEqual(before);
  });
});
