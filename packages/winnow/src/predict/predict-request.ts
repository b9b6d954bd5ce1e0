// The request that a command line describes, for `winnow predict` and `winnow batch` alike: its URL, and the body with
// everything that changes an answer.

import { WinnowError, excerpt } from "@winnow/core";

/** What a request asks beside its instances, and which router; so far as the command line says it. */
export interface PredictQuestion {
  readonly url: string;
  readonly model: string;
  readonly version?: number | undefined;
  readonly signature?: string | undefined;
  readonly k?: number | undefined;
  /** JSON: item ids for all instances, or one list per instance. */
  readonly exclude?: string | undefined;
  /** JSON: the only item ids that may be returned, in the same form. */
  readonly include?: string | undefined;
  /** JSON: a filter for all instances, or one per instance. */
  readonly filter?: string | undefined;
  /** Names of attributes. */
  readonly return?: readonly string[] | undefined;
  /** Whether the vectors of the items are wanted. */
  readonly returnVectors?: true | undefined;
  /** Whether the answer shall say what each stage of a pipeline did. */
  readonly explain?: true | undefined;
}

/** Where the status of the model is. */
export function modelUrl({ url, model }: Pick<PredictQuestion, "url" | "model">): string {
  return `${url.replace(/\/+$/, "")}/v1/models/${encodeURIComponent(model)}`;
}

/** Where predictions of the model, or of the version that is named, are asked for. */
export function predictUrl(command: PredictQuestion): string {
  const pinned = command.version === undefined ? "" : `/versions/${command.version}`;
  return `${modelUrl(command)}${pinned}:predict`;
}

/**
 * The body for these instances, or for a whole body in `json`. What the command line has as JSON goes as it was written:
 * integers may have 64 bits. @throws WinnowError INVALID_ARGUMENT for what is no JSON
 */
export function requestBody(json: string, question: PredictQuestion): string {
  const example = `'["42"]' or '[{"user_id":"42","movie_title":"…"}]'`;
  const value = checkedJson(json, { what: "the instances", example });
  const isBody =
    typeof value === "object" && value !== null && ("instances" in value || "inputs" in value);
  if (isBody) {
    // What no flag says stays as the body has it, and so does its signature.
    const { signature } = question;
    const named = "signature_name" in value ? undefined : signature;
    const asked = askedMembers({ ...question, signature: named });
    // Of two equal names in an object, the first one counts.
    return `{${[...asked, json.trim().slice(1)].join(",")}`;
  }
  const instances = Array.isArray(value) ? json.trim() : `[${json.trim()}]`;
  return `{${[`"instances":${instances}`, ...askedMembers(question)].join(",")}}`;
}

/** What is asked beside the instances, as members of the body. @throws WinnowError INVALID_ARGUMENT for what is no JSON */
export function askedMembers({
  signature,
  k,
  exclude,
  include,
  filter,
  ...wanted
}: PredictQuestion): readonly string[] {
  const ids = `'["7","9"]'`;
  const filters = `'{"year":{"$gte":1990}}'`;
  if (exclude !== undefined) checkedJson(exclude, { what: "--exclude", example: ids });
  if (include !== undefined) checkedJson(include, { what: "--include", example: ids });
  if (filter !== undefined) checkedJson(filter, { what: "--filter", example: filters });
  const members = {
    k,
    exclude,
    include,
    filter,
    return: wanted.return && JSON.stringify(wanted.return),
    return_vectors: wanted.returnVectors,
    explain: wanted.explain,
    signature_name: signature === undefined ? undefined : JSON.stringify(signature),
  };
  return Object.entries(members).flatMap(([name, of]) =>
    of === undefined ? [] : [`"${name}":${of}`],
  );
}

/** What the text says, rounded. @throws WinnowError INVALID_ARGUMENT where it is no JSON */
function checkedJson(
  json: string,
  { what, example }: { readonly what: string; readonly example: string },
): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch (error) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Cannot read ${what} ${excerpt(json)} as JSON; write for example ${example}`,
      { cause: error },
    );
  }
}
