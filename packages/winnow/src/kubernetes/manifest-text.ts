// Manifests as one YAML text, with what must be there before they come up in its first lines. Kubernetes reads
// YAML 1.1, to which a bare `no` is false.

import { stringify } from "yaml";
import type { Manifest } from "./kustomization.ts";

/** One document for each object. */
export function manifestText(rendered: {
  readonly manifests: readonly Manifest[];
  readonly secrets: readonly string[];
}): string {
  const { manifests, secrets } = rendered;
  const needs = secrets.map(
    (name) => `# Needs the Secret ${name}: docs/kubernetes.md says what it holds.\n`,
  );
  const documents = manifests.map((manifest) =>
    stringify(manifest, { version: "1.1", aliasDuplicateObjects: false, lineWidth: 0 }),
  );
  return `${needs.join("")}${documents.join("---\n")}`;
}
