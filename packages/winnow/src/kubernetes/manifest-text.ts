// Manifests as one YAML text; its first lines say what must exist before they are applied. Kubernetes reads
// YAML 1.1, in which a bare `no` means false.

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
