// Clusters that tests ask `winnow k8s render` for, and how it is asked.

import { execFileSync } from "node:child_process";
import path from "node:path";
import { repositoryRoot } from "./manifests.ts";

const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");

/** What it printed, by its flags: all tests of a process ask it once. */
const texts = new Map<string, string>();

/** What it prints for these flags. */
export function renderedText(flags: readonly string[]): string {
  const args = [script, "k8s", "render", ...flags];
  const asked = JSON.stringify(flags);
  const text =
    texts.get(asked) ?? execFileSync(process.execPath, args, { encoding: "utf8", stdio: "pipe" });
  texts.set(asked, text);
  return text;
}

const words = (...lines: readonly string[]): readonly string[] => lines.join(" ").split(" ");

/** Flags by what they ask for. */
export const RENDER_REQUESTS: Readonly<Record<string, readonly string[]>> = {
  "nothing more": [],
  "a large cluster on GPUs": words(
    "--namespace shop --image host.example.com/team/winnow:1.2.3",
    "--accelerator gpu --workers 8 --replication 3 --routers 4",
    "--worker-memory 48Gi --worker-cpu 7500m --autoscale-routers 12",
    "--models claim:catalogue --cluster-secret --monitoring",
  ),
  "a cluster with TLS": words(
    "--namespace shop --tls --cluster-secret --monitoring",
    "--storage 2Ti --storage-class fast",
  ),
  "a cluster with TLS and a Redis elsewhere": words(
    "--namespace shop --tls --redis external --monitoring",
  ),
  "a cluster in a cloud": words(
    "--namespace shop --models s3://bucket/models --redis external",
    "--ingress recs.example.com --ingress-class nginx --autoscale-workers 12",
    "--prometheus http://prometheus.observe.svc:9090 --monitoring",
  ),
};
