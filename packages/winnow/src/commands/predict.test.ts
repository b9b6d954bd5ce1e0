// What `winnow predict` says of a model that a router does not serve.

import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { predict } from "./predict.ts";

let server: Server | undefined;

afterEach(() => {
  server?.close();
});

/** A router that serves no model, and answers the status of "movies" with this document. */
async function routerWith(status: string): Promise<string> {
  server = createServer((request, response) => {
    const isStatus = request.method === "GET" && request.url === "/v1/models/movies";
    response.statusCode = isStatus ? 200 : 404;
    response.end(isStatus ? status : '{"error":"Servable not found for request: Latest(movies)"}');
  });
  const listening = server;
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

test("a model that cannot be served: the reason that its status tells stands in the error", async () => {
  const url = await routerWith(
    JSON.stringify({
      model_version_status: [
        {
          version: "2",
          state: "END",
          status: { error_code: "UNIMPLEMENTED", error_message: "operation X" },
        },
        { version: "1", state: "LOADING", status: { error_code: "OK", error_message: "" } },
      ],
    }),
  );

  await expect(predict({ url, model: "movies", json: "[1]" })).rejects.toMatchObject({
    code: "NOT_FOUND",
    message:
      "Servable not found for request: Latest(movies)\nVersion 2 cannot be served: UNIMPLEMENTED: operation X",
  });
});

test("a router that tells no status: the error is the router's own", async () => {
  const url = await routerWith("<html>");

  await expect(predict({ url, model: "movies", json: "[1]" })).rejects.toMatchObject({
    message: "Servable not found for request: Latest(movies)",
  });
});
