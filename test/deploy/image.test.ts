// The Dockerfile as text: how its images start, and that what they are made of exists. No Docker is needed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { type RequestListener, createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { testAuthority } from "../fixtures/certificates.ts";
import { readTracked } from "../tracked-files.ts";

const root = path.resolve(import.meta.dirname, "../..");

describe("deploy/Dockerfile", () => {
  const lines = readTracked("deploy/Dockerfile").split("\n");
  const instructions = lines.filter((line) => /^[A-Z]+ /.test(line));

  /** Lines of the stage of this name, without its first. */
  function stageOf(name: string): string[] {
    const start = lines.findIndex(
      (line) => line.startsWith("FROM ") && line.endsWith(` AS ${name}`),
    );
    const rest = start < 0 ? [] : lines.slice(start + 1);
    const end = rest.findIndex((line) => line.startsWith("FROM "));
    return end < 0 ? rest : rest.slice(0, end);
  }

  test("starts in exec form as an unprivileged user from images pinned by digest", () => {
    expect(instructions).toContainEqual(expect.stringMatching(/^ENTRYPOINT \["node",/));
    expect(instructions).toContain('CMD ["serve"]');
    for (const image of ["gpu", "cpu"]) expect(stageOf(image)).toContain("USER 1000");
    for (const from of instructions.filter((line) => line.startsWith("FROM "))) {
      expect(from).toMatch(/^FROM (\$\{NODE_IMAGE\}|\$\{NODE_SLIM_IMAGE\}|build|runtime) AS \S+$/);
    }
    const bases = instructions.filter((line) => line.startsWith("ARG "));
    const [release = ""] = /node:[\d.]+-\w+/.exec(bases[0]!) ?? [];
    expect(bases).toEqual([
      expect.stringMatching(/^ARG NODE_IMAGE=node:\d+\.\d+\.\d+-\w+@sha256:[0-9a-f]{64}$/),
      expect.stringMatching(/^ARG NODE_SLIM_IMAGE=node:.*@sha256:[0-9a-f]{64}$/),
    ]);
    expect(bases[1]).toContain(`=${release}-slim@`);
  });

  test("gives the image without a GPU where no target is named", () => {
    expect(instructions.findLast((line) => line.startsWith("FROM "))).toBe("FROM runtime AS cpu");
    expect(stageOf("cpu").join()).not.toMatch(/webgpu|build-gpu|apt-get/);
  });

  test("gives the GPU image the release of webgpu that the accelerator wants, and a loader", () => {
    const manifest = readTracked("packages/accelerator/package.json");
    const { peerDependencies } = JSON.parse(manifest) as { peerDependencies: { webgpu: string } };

    expect(stageOf("build-gpu").join()).toContain(` webgpu@${peerDependencies.webgpu}`);
    expect(stageOf("gpu").join()).toMatch(
      /--no-install-recommends libvulkan1 .*COPY --from=build-gpu/,
    );
  });

  test.each([
    ["ready, over HTTP", { isSecure: false, status: 200, code: 0 }],
    ["ready, over HTTPS with a certificate of anybody", { isSecure: true, status: 200, code: 0 }],
    ["not ready", { isSecure: false, status: 503, code: 1 }],
  ])("its health check says of a process that is %s", async (_, { isSecure, status, code }) => {
    const made = testAuthority().issue({ names: ["elsewhere"] });
    const answer: RequestListener = ({ url }, response) => {
      response.writeHead(url === "/readyz" ? status : 404).end();
    };
    const server = isSecure ? createSecureServer(made, answer) : createServer(answer);
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const check = lines.find((line) => line.startsWith("  CMD [") && line.includes("/readyz"))!;
    const [node, ...args] = JSON.parse(check.replace("  CMD ", "")) as [string, ...string[]];
    // No process of the machine that runs this test is asked.
    const own = args.map((arg) => arg.replace("[8501, 9100]", `[${port}]`));

    const child = spawn(node, own, { stdio: "ignore" });
    const [ended] = (await once(child, "exit")) as [number];
    server.close();

    expect(own).not.toEqual(args);
    expect(ended).toBe(code);
  });

  test("keeps bytecode under the flags of its entry point, for which alone V8 uses it", () => {
    const entry = instructions.find((line) => line.startsWith("ENTRYPOINT "))!;
    const [, ...command] = JSON.parse(entry.replace("ENTRYPOINT ", "")) as string[];
    const keep = stageOf("build").findLast((line) => line.startsWith("RUN "));

    const flags = command.filter((word) => word.startsWith("--")).join(" ");
    expect(keep).toMatch(/^RUN node packages\/winnow\/scripts\/keep-bytecode\.mjs /);
    expect(keep?.split(" build/npm/package ")[1]).toBe(flags);
  });

  test("has TensorFlow Serving's programs under their names, which start as its entry point does", () => {
    const file = "deploy/tensorflow_model_server";
    const entry = instructions.find((line) => line.startsWith("ENTRYPOINT "))!;
    const command = (JSON.parse(entry.replace("ENTRYPOINT ", "")) as string[]).join(" ");
    const started = command.replace(" packages/", " /winnow/packages/");

    for (const name of ["tensorflow_model_server", "tf_serving_entrypoint.sh"])
      expect(stageOf("runtime")).toContain(`COPY ${file} /usr/bin/${name}`);
    expect(readTracked(file)).toContain(`\nexec ${started} serve "$@"\n`);
    expect(statSync(path.join(root, file)).mode & 0o111).toBe(0o111);
  });

  test("copies only what exists", () => {
    const sources = instructions
      .filter((line) => line.startsWith("COPY ") && !line.includes("--from"))
      .flatMap((line) => line.split(/\s+/).slice(1, -1));

    const missing = sources.filter((source) => !existsSync(path.join(root, source)));

    expect(sources.length).toBeGreaterThan(4);
    expect(missing).toEqual([]);
  });
});
