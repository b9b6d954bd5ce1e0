// A request of the playground: its body, and the same request for a shell and for Python. A key is never part
// of it: both read the key from a variable.

/** The fields of the form. */
export interface Wanted {
  readonly model: string;
  readonly version: string;
  readonly signature: string;
  readonly instances: string;
  readonly k: string;
  readonly exclude: string;
  readonly filter: string;
}

/** A request, or why there is none. */
export type Built =
  | { readonly kind: "request"; readonly path: string; readonly body: string }
  | { readonly kind: "wrong"; readonly field: keyof Wanted; readonly message: string };

/** Builds the request. JSON goes as it was filled in: integers may have 64 bits. */
export function buildRequest(wanted: Wanted): Built {
  const { model, version, signature } = wanted;
  const pinned = version === "" ? "" : `/versions/${version}`;
  const path = `/v1/models/${encodeURIComponent(model)}${pinned}:predict`;
  const members: string[] = [];
  if (signature !== "" && signature !== "serving_default") {
    members.push(`"signature_name":${JSON.stringify(signature)}`);
  }
  if (!isJson(wanted.instances)) {
    return wrong("instances", 'Instances are no JSON; write for example ["42"]');
  }
  members.push(`"instances":${wanted.instances.trim()}`);
  if (wanted.k !== "") {
    if (!/^[1-9]\d{0,6}$/.test(wanted.k)) return wrong("k", "k must be a whole number from 1");
    members.push(`"k":${wanted.k}`);
  }
  for (const [field, example] of [
    ["exclude", '["7", "9"]'],
    ["filter", '{"genre": "drama"}'],
  ] as const) {
    const text = wanted[field].trim();
    if (text === "") continue;
    if (!isJson(text)) return wrong(field, `${field} is no JSON; write for example ${example}`);
    members.push(`"${field}":${text}`);
  }
  return { kind: "request", path, body: `{${members.join(",")}}` };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function wrong(field: keyof Wanted, message: string): Built {
  return { kind: "wrong", field, message };
}

/** Where the request goes, and whether it has a key. */
export interface Place {
  readonly origin: string;
  readonly hasKey: boolean;
}

/** The request for a shell. */
export function curlText(
  { path, body }: { path: string; body: string },
  { origin, hasKey }: Place,
): string {
  const key = hasKey ? ` -H "Authorization: Bearer $WINNOW_API_KEY"` : "";
  return `curl${key} -d ${shellText(body)} ${shellText(`${origin}${path}`)}`;
}

/** The request for Python. */
export function pythonText(
  { path, body }: { path: string; body: string },
  { origin, hasKey }: Place,
): string {
  const key = hasKey ? `, headers={"Authorization": f"Bearer {os.environ['WINNOW_API_KEY']}"}` : "";
  return [
    hasKey ? "import json, os, requests" : "import json, requests",
    "",
    `body = json.loads(${JSON.stringify(body)})`,
    `answer = requests.post(${JSON.stringify(`${origin}${path}`)}, json=body${key}, timeout=30)`,
    "answer.raise_for_status()",
    "print(answer.json())",
  ].join("\n");
}

function shellText(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A signature in `/metadata`. */
export interface ToldSignature {
  readonly name: string;
  readonly inputs: readonly {
    readonly name: string;
    readonly dtype: string;
    readonly rank: number;
  }[];
}

/** The signatures of a model's metadata that predict; empty if the metadata is not as expected. */
export function signaturesOf(metadata: unknown): ToldSignature[] {
  const told = (metadata as { metadata?: { signature_def?: { signature_def?: unknown } } } | null)
    ?.metadata?.signature_def?.signature_def;
  if (typeof told !== "object" || told === null) return [];
  return Object.entries(told as Record<string, { inputs?: Record<string, ToldInput> }>).flatMap(
    ([name, { inputs = {} }]) => {
      const all = Object.entries(inputs).map(([input, { dtype = "", tensor_shape: shape }]) => ({
        name: input,
        dtype,
        rank: shape?.dim?.length ?? 0,
      }));
      return all.length === 0 ? [] : [{ name, inputs: all }];
    },
  );
}

interface ToldInput {
  readonly dtype?: string;
  readonly tensor_shape?: { readonly dim?: readonly unknown[] };
}

/** Example instances. */
export function exampleInstances({ inputs }: ToldSignature): string {
  const [only] = inputs;
  if (inputs.length === 1) return JSON.stringify([valueOf(only!)]);
  return JSON.stringify([Object.fromEntries(inputs.map((input) => [input.name, valueOf(input)]))]);
}

function valueOf({ dtype, rank }: ToldSignature["inputs"][number]): unknown {
  const value = dtype === "DT_STRING" ? "42" : dtype === "DT_FLOAT" ? 0.5 : 42;
  return rank >= 2 ? [value] : value;
}

/** An answer as tables, one for each instance. */
export interface AnswerTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const ROWS_MAX = 200;
const TABLES_MAX = 20;
/** A cell of many numbers would be wider than anybody reads. */
const CELL_CHARACTERS_MAX = 1000;

/** `undefined`: the answer is no table, and is shown unchanged. */
export function answerTables(answer: unknown): AnswerTable[] | undefined {
  const { predictions } = (answer ?? {}) as { predictions?: unknown };
  if (!Array.isArray(predictions)) return undefined;
  return predictions.slice(0, TABLES_MAX).map((prediction: unknown) => tableOf(prediction));
}

function tableOf(prediction: unknown): AnswerTable {
  const columns: [string, unknown[]][] =
    typeof prediction === "object" && prediction !== null && !Array.isArray(prediction)
      ? Object.entries(prediction).map(([name, value]) => [
          name,
          Array.isArray(value) ? value : [value],
        ])
      : [["value", Array.isArray(prediction) ? prediction : [prediction]]];
  const length = Math.min(ROWS_MAX, Math.max(0, ...columns.map(([, values]) => values.length)));
  return {
    head: ["#", ...columns.map(([name]) => name)],
    rows: Array.from({ length }, (_, row) => [
      String(row + 1),
      ...columns.map(([, values]) => (row < values.length ? cellText(values[row]) : "")),
    ]),
  };
}

function cellText(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= CELL_CHARACTERS_MAX ? text : `${text.slice(0, CELL_CHARACTERS_MAX)}…`;
}
