// Manifests as one YAML text; its first lines say what must exist before they are applied. Kubernetes reads
// YAML 1.1, in which a bare `no` means false.

import { stringify } from "yaml";
import type { Manifest } from "./kustomization.ts";

/** One document for each object. */
export function manifestText(rendered: {
  readonly manifests: readonly Manifest[];
  /** What must exist before, each with how it is made. */
  readonly needs: readonly string[];
}): string {
  const { manifests, needs } = rendered;
  const head = needs.map((need) => `# Needs ${need}\n`);
  const documents = manifests.map((manifest) =>
    stringify(manifest, { version: "1.1", aliasDuplicateObjects: false, lineWidth: 0 }),
  );
  return `${head.join("")}${documents.join("---\n")}`;
}
