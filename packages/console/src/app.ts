// The page as a whole, and the states it can be in:
//
//   loading ── report ──▶ shown ── no answer ──▶ shown, with a banner that says for how long
//      │                   ▲  └── 401, 403 ──▶ login ── key ──┐
//      └── 401 ──▶ login ──┘◀─────────────────────────────────┘
//      └── no answer ──▶ silent

import type { ClusterReport } from "@winnow/router";
import type { VNode } from "preact";
import { h, use } from "./views/element.ts";
import type { Sample } from "./history.ts";
import type { RouterClient } from "./router-client.ts";
import { ageText } from "./words.ts";
import { Announcement } from "./views/announcement-view.ts";
import { chartsView } from "./views/charts-view.ts";
import { eventsView, slowRequestsView } from "./views/events-view.ts";
import { healthSentence, healthView } from "./views/health-view.ts";
import { modelsView } from "./views/models-view.ts";
import { Playground } from "./views/playground-view.ts";
import { settingsView } from "./views/settings-view.ts";
import { partitionsView, workersView } from "./views/workers-view.ts";

/** Said of an answer that is no report, or one of another release. */
export const UNREADABLE = "its answer is none that this page can show: reload the page";

/** What is known of the router. */
export type PageState =
  | { readonly kind: "loading" }
  | { readonly kind: "login"; readonly message: string; readonly wasTried: boolean }
  | { readonly kind: "silent"; readonly message: string }
  | {
      readonly kind: "shown";
      readonly report: ClusterReport;
      readonly samples: readonly Sample[];
      /** The time of the router's last answer, if it no longer answers. */
      readonly silent: { readonly sinceMs: number; readonly message: string } | undefined;
    };

/** What the page is drawn from. */
export interface PageProps {
  readonly state: PageState;
  readonly client: RouterClient;
  readonly origin: string;
  readonly isDark: boolean;
  readonly copy: (text: string) => Promise<boolean>;
  /** A person has entered a key; "" forgets it. */
  readonly onKey: (key: string) => void;
}

/** The page. */
export function Page(props: PageProps): VNode {
  const { state, client, onKey } = props;
  const isStale = state.kind === "shown" && state.silent !== undefined;
  const leave = h(
    "button",
    { type: "button", class: "quiet", onClick: () => onKey("") },
    "Forget the key",
  );
  return h(
    "div",
    { class: "page" },
    h("a", { class: "skip", href: "#main" }, "To the content"),
    h(
      "header",
      {},
      h("h1", {}, "Winnow", h("span", { class: "beside" }, ` ${new URL(props.origin).host}`)),
      state.kind === "shown" ? navigation() : null,
      client.hasKey && state.kind === "shown" ? leave : null,
    ),
    h("main", { id: "main", tabIndex: -1, class: isStale ? "stale" : "" }, ...content(props)),
    ...announcements(state),
  );
}

/** The sentence of the cluster's health, and that the router is silent. */
function announcements(state: PageState): (VNode | null)[] {
  const health = state.kind === "shown" ? healthSentence(state.report) : "";
  const silence = silenceText(state);
  return [
    use(Announcement, { role: "status", text: health, key: "health" }),
    silence === "" ? null : use(Announcement, { role: "alert", text: silence, key: "silence" }),
  ];
}

/** "" while the router answers. */
function silenceText(state: PageState): string {
  if (state.kind === "silent") {
    return `The router does not answer (${state.message}); this page goes on asking.`;
  }
  if (state.kind !== "shown" || state.silent === undefined) return "";
  const { sinceMs, message } = state.silent;
  const why = message === UNREADABLE ? ` (${message})` : "";
  return `The router has not answered for ${ageText(sinceMs)}${why}; below is its last report.`;
}

function navigation(): VNode {
  const places = [
    ["workers", "Workers"],
    ["models", "Models"],
    ["partitions", "Partitions"],
    ["charts", "Live"],
    ["try", "Try"],
    ["events", "Events"],
    ["slow", "Slow requests"],
    ["settings", "Router"],
  ];
  const links = places.map(([id, name]) => h("li", {}, h("a", { href: `#${id}` }, name)));
  return h("nav", { "aria-label": "Sections" }, h("ul", {}, ...links));
}

function content({ state, client, origin, isDark, copy, onKey }: PageProps): (VNode | null)[] {
  switch (state.kind) {
    case "loading":
      return [h("p", { class: "empty", role: "status" }, "Asking the router …")];
    case "silent":
      return [banner(silenceText(state))];
    case "login":
      return [loginView(state, onKey)];
    case "shown": {
      const { report, samples, silent } = state;
      return [
        silent === undefined ? null : banner(silenceText(state)),
        healthView(report),
        workersView(report),
        modelsView(report, client),
        partitionsView(report),
        chartsView(samples, isDark),
        use(Playground, { client, models: report.models, origin, copy }),
        eventsView(report),
        slowRequestsView(report),
        leftOutView(report),
        settingsView(report),
      ];
    }
  }
}

function banner(text: string): VNode {
  return h("p", { class: "banner" }, text);
}

function leftOutView({ leftOut }: ClusterReport): VNode | null {
  const left = Object.entries(leftOut).filter(([, count]) => count > 0);
  if (left.length === 0) return null;
  return h(
    "p",
    { class: "empty" },
    `Left out: ${left.map(([name, count]) => `${count} more ${name}`).join(", ")}.`,
  );
}

/** Puts the keyboard into a field when the page shows it, and not again when the page is drawn anew. */
function focus(field: HTMLElement | null): void {
  field?.focus();
}

function loginView(
  { message, wasTried }: { readonly message: string; readonly wasTried: boolean },
  onKey: (key: string) => void,
): VNode {
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    const field = (event.target as HTMLFormElement).elements.namedItem("key") as HTMLInputElement;
    onKey(field.value);
  };
  return h(
    "section",
    { id: "login", class: "panel login", "aria-labelledby": "login-heading" },
    h("h2", { id: "login-heading" }, "This router asks for a key"),
    h(
      "p",
      { id: "login-about" },
      "A key with the role status shows the cluster; one with the role predict as well can try requests. It stays in this tab.",
    ),
    wasTried ? h("p", { class: "wrong", role: "alert" }, message) : null,
    h(
      "form",
      { onSubmit },
      h("label", { for: "login-key" }, "Key"),
      h("input", {
        id: "login-key",
        name: "key",
        type: "password",
        required: true,
        autocomplete: "off",
        spellcheck: false,
        "aria-describedby": "login-about",
        ref: focus,
      }),
      h("button", { type: "submit" }, "Show the cluster"),
    ),
  );
}
