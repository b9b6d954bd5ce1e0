// Checks what a router says about a model: its status and its metadata.

import type { PublishedVersion, Verdict } from "./answer-check.ts";

interface ToldStatus {
  readonly model_version_status: readonly { readonly version: string; readonly state: string }[];
}

/** Only intact versions may be available; a model without one is out of service. */
export function judgeStatus(body: Buffer, published: readonly PublishedVersion[]): Verdict {
  const text = body.toString("utf8");
  const { model_version_status: told } = JSON.parse(text) as ToldStatus;
  const available = told.filter(({ state }) => state === "AVAILABLE");
  const isSound = (version: string): boolean => isSoundVersion(published, version);
  if (available.length === 0) return { class: "refused", text: `none available: ${text}` };
  return available.every(({ version }) => isSound(version))
    ? { class: "exact" }
    : { class: "wrong", text };
}

interface ToldMetadata {
  readonly model_spec: { readonly version: string };
  readonly metadata: {
    readonly signature_def: {
      readonly signature_def: Readonly<
        Record<string, { readonly inputs: object; readonly outputs: object }>
      >;
    };
  };
}

/** The signature must be the one that was written for an intact version. */
export function judgeMetadata(body: Buffer, published: readonly PublishedVersion[]): Verdict {
  const text = body.toString("utf8");
  const { model_spec: spec, metadata } = JSON.parse(text) as ToldMetadata;
  const signature = metadata.signature_def.signature_def["serving_default"];
  const names = [signature?.inputs ?? {}, signature?.outputs ?? {}].map((each) =>
    Object.keys(each).join(" "),
  );
  const isRight =
    isSoundVersion(published, spec.version) &&
    names[0] === "input_1" &&
    names[1] === "output_1 output_2";
  return isRight ? { class: "exact" } : { class: "wrong", text };
}

function isSoundVersion(published: readonly PublishedVersion[], version: string): boolean {
  return published.some(
    (each) => each.model === "catalog" && String(each.version) === version && each.sound,
  );
}
