// One page of metrics for several routers: each sample gets a label with its router, and samples of one name stand
// together, as Prometheus' text format wants it
// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format).

import type { RouterPage } from "./page-messages.ts";

/** What a page says of one metric: its comments, and its samples. */
interface Family {
  readonly comments: string[];
  readonly samples: string[];
}

const UP = "winnow_router_up";

/** Joins the pages. `winnow_router_up` says which routers gave theirs. */
export function labelledPages(pages: readonly RouterPage[]): string {
  const families = new Map<string, Family>();
  for (const { name, text } of pages) {
    if (text !== undefined) addPage(families, name, text);
  }
  const up = pages.map(({ name, text }) => `${UP}{router="${name}"} ${text === undefined ? 0 : 1}`);
  families.set(UP, {
    comments: [
      `# HELP ${UP} Whether the router, one of those that share these ports, gave its metrics`,
      `# TYPE ${UP} gauge`,
    ],
    samples: up,
  });
  const blocks = Array.from(families.values(), ({ comments, samples }) =>
    [...comments, ...samples].join("\n"),
  );
  return `${blocks.join("\n\n")}\n`;
}

function addPage(families: Map<string, Family>, router: string, text: string): void {
  let family: Family | undefined;
  let isFirst = false;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [mark, kind, name] = line.split(" ", 3);
    if (mark !== "#") {
      family?.samples.push(labelled(line, router));
    } else if (kind === "HELP") {
      const known = families.get(name!);
      isFirst = known === undefined;
      family = known ?? { comments: [], samples: [] };
      families.set(name!, family);
      if (isFirst) family.comments.push(line);
    } else if (isFirst) family?.comments.push(line);
  }
}

/** `name{a="b"} 1` or `name 1` with one more label. Names have neither spaces nor braces. */
function labelled(sample: string, router: string): string {
  const end = sample.search(/[ {]/);
  const name = sample.slice(0, end);
  const label = `router="${router}"`;
  if (sample[end] === " ") return `${name}{${label}}${sample.slice(end)}`;
  const rest = sample.slice(end + 1);
  return `${name}{${label}${rest.startsWith("}") ? "" : ","}${rest}`;
}
