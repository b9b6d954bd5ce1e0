// `winnow k8s render`: the manifests of a cluster on standard output, for `kubectl apply -f -` or a repository.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { option, replicationOption, swapReplicasOption, wholeNumber } from "../command-options.ts";
import type { ClusterRequest } from "../kubernetes/cluster-manifests.ts";

/** The folder of the manifests: at the same relative place in a checkout and in the npm package. */
const manifestFolder = fileURLToPath(new URL("../../../../deploy/kubernetes/", import.meta.url));

const read = (file: string): string => readFileSync(file, "utf8");

const REPLICAS_MAX = 1024;
const replicas = wholeNumber(1, REPLICAS_MAX);

/** `winnow k8s`, with its one subcommand. */
export function k8sCommand(): Command {
  return new Command("k8s")
    .description("Kubernetes manifests for a cluster")
    .addCommand(renderCommand().exitOverride());
}

function renderCommand(): Command {
  const command = new Command("render")
    .description("print the manifests of a cluster, for kubectl apply -f - or for a repository")
    .option("--namespace <name>", "namespace, which is created", "winnow")
    .option("--image <image>", "image with its tag or digest (default: the manifests' own)")
    .option(
      "--gpu-image <image>",
      "image of workers with GPUs (default: --image with -gpu after its name)",
    )
    .addOption(option("--routers <n>", "routers").argParser(replicas).default(2))
    .addOption(option("--workers <n>", "workers").argParser(replicas).default(3))
    .addOption(replicationOption())
    .addOption(swapReplicasOption())
    .addOption(
      option("--accelerator <kind>", "what workers search on; gpu: one GPU each")
        .choices(["cpu", "gpu"])
        .default("cpu"),
    )
    .option(
      "--worker-memory <quantity>",
      "memory of a worker (winnow inspect shows what it needs)",
      "4Gi",
    )
    .option("--worker-cpu <quantity>", "processors that a worker requests", "2")
    .option(
      "--models <where>",
      "claim, claim:<name> for an existing one, or s3://…, gs://…, az://…",
      "claim",
    )
    .option("--storage <quantity>", "size of the claim", "100Gi")
    .option("--storage-class <name>", "class of the claim (default: the cluster's)")
    .addOption(
      option(
        "--redis <which>",
        "own, or external with its URL in the Secret winnow-redis (rediss:// with --tls)",
      )
        .choices(["own", "external"])
        .default("own"),
    );
  return command
    .option("--tls", "TLS on every connection and API keys; needs cert-manager", false)
    .option("--cluster-secret", "sign the members' records in Redis", false)
    .option("--ingress <host>", "an Ingress for REST under this host")
    .option("--ingress-class <name>", "its class (default: the cluster's)")
    .option("--monitoring", "pod monitors, alerts, dashboard; needs the Prometheus operator", false)
    .addOption(
      option("--autoscale-routers <most>", "scale routers by CPU, from --routers up").argParser(
        replicas,
      ),
    )
    .addOption(
      option(
        "--autoscale-workers <most>",
        "scale workers by queues, from --workers up; needs KEDA",
      ).argParser(replicas),
    )
    .option("--prometheus <url>", "Prometheus that KEDA queries")
    .action(async (request: ClusterRequest) => {
      const { clusterManifests } = await import("../kubernetes/cluster-manifests.ts");
      const { manifestText } = await import("../kubernetes/manifest-text.ts");
      process.stdout.write(manifestText(clusterManifests(request, manifestFolder, read)));
    });
}
