// The form to try a request, its answer as a table, and the same request for a shell and for Python.

import type { ClusterReport } from "@winnow/router";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  answerTables,
  buildRequest,
  curlText,
  exampleInstances,
  pythonText,
  signaturesOf,
} from "../predict-request.ts";
import type { AnswerTable, Built, ToldSignature, Wanted } from "../predict-request.ts";
import type { Answer, RouterClient } from "../router-client.ts";
import { durationText } from "../words.ts";
import { badge, empty, h, section, table, use } from "./element.ts";
import { timelineView } from "./timeline-view.ts";

/** The properties of the playground. */
export interface PlaygroundProps {
  readonly client: RouterClient;
  readonly models: ClusterReport["models"];
  readonly origin: string;
  readonly copy: (text: string) => Promise<boolean>;
}

type Asked =
  | { readonly kind: "nothing" }
  | { readonly kind: "asking" }
  | { readonly kind: "told"; readonly shown: VNode };

const NOTHING: Wanted = {
  model: "",
  version: "",
  signature: "",
  instances: "",
  k: "",
  exclude: "",
  filter: "",
};

/** The form and its answer. */
export function Playground({ client, models, origin, copy }: PlaygroundProps): VNode {
  const [wanted, setWanted] = useState<Wanted>(NOTHING);
  const [asked, setAsked] = useState<Asked>({ kind: "nothing" });
  const model = models.find(({ name }) => name === wanted.model) ?? models[0];
  const signatures = useSignatures(client, model, (told) =>
    setWanted((now) => (model === undefined ? now : withSignatures(now, model.name, told))),
  );
  if (model === undefined) return section("try", "Try a request", empty("No model is known."));
  const built = buildRequest({ ...wanted, model: model.name });
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (built.kind === "wrong") return;
    setAsked({ kind: "asking" });
    // Made once: the page is drawn anew each second.
    setAsked({ kind: "told", shown: answerView(await client.predict(built.path, built.body)) });
  };
  const change = (changes: Partial<Wanted>): void => setWanted((now) => ({ ...now, ...changes }));
  const place = { origin, hasKey: client.hasKey };
  return section(
    "try",
    "Try a request",
    h(
      "form",
      { class: "try", onSubmit: (event: Event) => void send(event) },
      ...choices({ models, model, signatures, wanted, change }),
      ...texts(wanted, built, change),
      h(
        "div",
        { class: "wide actions" },
        h(
          "button",
          { type: "submit", disabled: built.kind === "wrong" || asked.kind === "asking" },
          "Send",
        ),
        built.kind === "wrong"
          ? h("span", { class: "wrong", role: "alert" }, built.message)
          : [
              use(CopyButton, { name: "curl", text: () => curlText(built, place), copy }),
              use(CopyButton, { name: "Python", text: () => pythonText(built, place), copy }),
            ],
      ),
    ),
    h("div", { class: "answer", role: "status", "aria-label": "Answer" }, askedView(asked)),
  );
}

/**
 * The form for a model's signatures, with an example. What was typed for a signature of this model is kept: the model may
 * only have been away for a while.
 */
function withSignatures(now: Wanted, model: string, told: readonly ToldSignature[]): Wanted {
  if (now.model === model && told.some(({ name }) => name === now.signature)) return now;
  const first = told.find(({ name }) => name === "serving_default") ?? told[0];
  const instances = first === undefined ? now.instances : exampleInstances(first);
  return { ...now, model, signature: first?.name ?? "", instances };
}

type Model = ClusterReport["models"][number];

/** The signatures of a model; read when it is chosen, and again when it begins to answer. */
function useSignatures(
  client: RouterClient,
  model: Model | undefined,
  onTold: (signatures: readonly ToldSignature[]) => void,
): readonly ToldSignature[] {
  const [signatures, setSignatures] = useState<readonly ToldSignature[]>([]);
  const shownFor = useRef<string>(undefined);
  const name = model?.name;
  useEffect(() => {
    let isCurrent = true;
    const read = async (chosen: string): Promise<void> => {
      const answer = await client.metadata(chosen);
      if (!isCurrent) return;
      // While a model has none to tell, those that it had are kept, with what was typed for them.
      const told = answer.kind === "answered" ? signaturesOf(answer.value) : [];
      if (told.length === 0 && shownFor.current === chosen) return;
      shownFor.current = chosen;
      setSignatures(told);
      onTold(told);
    };
    if (name !== undefined) void read(name);
    return () => {
      isCurrent = false;
    };
  }, [name, model?.answers]);
  return signatures;
}

interface ChoicesParts {
  readonly models: readonly Model[];
  readonly model: Model;
  readonly signatures: readonly ToldSignature[];
  readonly wanted: Wanted;
  readonly change: (changes: Partial<Wanted>) => void;
}

/** Model, version and signature. */
function choices({ models, model, signatures, wanted, change }: ChoicesParts): VNode[] {
  const alive = model.versions.filter(({ state }) => state === "AVAILABLE");
  return [
    chooser("model", "Model", {
      value: model.name,
      options: models.map(({ name }) => [name, name]),
      onChoice: (name) => change({ model: name, version: "", signature: "" }),
    }),
    chooser("version", "Version", {
      value: wanted.version,
      options: [
        ["", "default"],
        ...alive.map(({ version }) => [`${version}`, `${version}`] as const),
      ],
      onChoice: (version) => change({ version }),
    }),
    chooser("signature", "Signature", {
      value: wanted.signature,
      options: signatures.map(({ name }) => [name, name]),
      onChoice: (signature) => {
        const chosen = signatures.find(({ name }) => name === signature);
        change({ signature, ...(chosen && { instances: exampleInstances(chosen) }) });
      },
    }),
  ];
}

/** The text fields: instances, and the other parts of a request. */
function texts(wanted: Wanted, built: Built, change: ChoicesParts["change"]): VNode[] {
  const wrongField = built.kind === "wrong" ? built.field : undefined;
  const control = (field: keyof Wanted, properties: Readonly<Record<string, unknown>>) => ({
    id: `try-${field}`,
    value: wanted[field],
    spellcheck: false,
    autocomplete: "off",
    "aria-invalid": wrongField === field,
    onInput: (event: Event) => change({ [field]: (event.target as HTMLInputElement).value }),
    ...properties,
  });
  const line = (field: keyof Wanted, label: string, hint: string): VNode =>
    labelled(field, label, h("input", control(field, { type: "text", placeholder: hint })));
  return [
    h(
      "div",
      { class: "field wide" },
      h("label", { for: "try-instances" }, "Instances (JSON)"),
      h("textarea", control("instances", { rows: 3 })),
    ),
    line("k", "k", "as exported"),
    line("exclude", "Exclude (JSON)", '["7", "9"]'),
    line("filter", "Filter (JSON)", '{"genre": "drama"}'),
  ];
}

function labelled(field: string, label: string, control: VNode): VNode {
  return h("div", { class: "field" }, h("label", { for: `try-${field}` }, label), control);
}

interface Chooser {
  readonly value: string;
  /** Values and their labels. */
  readonly options: readonly (readonly [string, string])[];
  readonly onChoice: (value: string) => void;
}

function chooser(field: string, label: string, { value, options, onChoice }: Chooser): VNode {
  const items = options.map(([each, text]) =>
    h("option", { key: each, value: each, selected: each === value }, text),
  );
  const onChange = (event: Event): void => onChoice((event.target as HTMLSelectElement).value);
  return labelled(field, label, h("select", { id: `try-${field}`, value, onChange }, ...items));
}

interface CopyProps {
  readonly name: string;
  readonly text: () => string;
  readonly copy: PlaygroundProps["copy"];
}

/** Copies a text; if the browser forbids it, shows the text to be copied by hand. */
function CopyButton({ name, text, copy }: CopyProps): VNode {
  const [shown, setShown] = useState<{ readonly text: string; readonly isCopied: boolean }>();
  const onClick = async (): Promise<void> => {
    const made = text();
    setShown({ text: made, isCopied: await copy(made) });
  };
  return h(
    "span",
    { class: "copy" },
    h(
      "button",
      { type: "button", class: "quiet", onClick: () => void onClick() },
      `Copy as ${name}`,
    ),
    shown === undefined
      ? null
      : h(
          "span",
          { role: "status", class: "beside" },
          shown.isCopied ? " copied" : " copy it from here:",
        ),
    shown === undefined
      ? null
      : h(
          "pre",
          { class: "code", tabIndex: 0, "aria-label": `The request for ${name}` },
          shown.text,
        ),
  );
}

function askedView(asked: Asked): VNode | null {
  if (asked.kind === "nothing") return null;
  return asked.kind === "asking" ? h("p", { class: "empty" }, "Asking …") : asked.shown;
}

function answerView(answer: Answer<unknown>): VNode {
  if (answer.kind !== "answered") {
    const status = answer.kind === "failed" ? `${answer.status}: ` : "";
    return h("p", { class: "wrong" }, badge("down", answer.kind), ` ${status}${answer.message}`);
  }
  const tables = answerTables(answer.value);
  const took = h("p", { class: "beside" }, `answered in ${durationText(answer.elapsedMs)}`);
  if (tables === undefined) {
    return h(
      "div",
      {},
      took,
      h(
        "pre",
        { class: "code", tabIndex: 0 },
        JSON.stringify(answer.value, undefined, 1).slice(0, 20_000),
      ),
      timelineView(answer.timeline),
    );
  }
  const answers = h("div", { class: "answers" }, ...tables.map(tableView));
  return h("div", {}, took, answers, timelineView(answer.timeline));
}

function tableView({ head, rows }: AnswerTable, position: number): VNode {
  const lines = rows.map((cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell))));
  return table(`Answer to instance ${position + 1}`, head, lines);
}
