// What `winnow predict` says of a model that a router does not serve.

import { type RequestListener, type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { excerpt, systemClock } from "@winnow/core";
import { afterEach, expect, test } from "vitest";
import { predict, predictionTable } from "./predict.ts";

let server: Server | undefined;

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** A router that serves no model, and answers the status of "movies" with this document. */
function routerWith(status: string): Promise<string> {
  return serverThat((request, response) => {
    const isStatus = request.method === "GET" && request.url === "/v1/models/movies";
    response.statusCode = isStatus ? 200 : 404;
    response.end(isStatus ? status : '{"error":"Servable not found for request: Latest(movies)"}');
  });
}

async function serverThat(answers: RequestListener): Promise<string> {
  server = createServer(answers);
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

  await expect(
    predict({ url, model: "movies", json: "[1]", timeoutMs: 60_000 }, systemClock),
  ).rejects.toMatchObject({
    code: "NOT_FOUND",
    message:
      "Servable not found for request: Latest(movies)\nVersion 2 cannot be served: UNIMPLEMENTED: operation X",
  });
});

test("a router that tells no status: the error is the router's own", async () => {
  const url = await routerWith("<html>");

  await expect(
    predict({ url, model: "movies", json: "[1]", timeoutMs: 60_000 }, systemClock),
  ).rejects.toMatchObject({
    message: "Servable not found for request: Latest(movies)",
  });
});

test.each(["foo", "127.0.0.1:8501", "ftp://127.0.0.1:8501"])(
  "%s is told to be no router's address",
  async (url) => {
    const command = { url, model: "movies", json: "[1]", timeoutMs: 60_000 };

    await expect(predict(command, systemClock)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: `${url} is no router's address; write for example http://127.0.0.1:8501`,
    });
  },
);

test("a server that never ends its answer is given up", async () => {
  const url = await serverThat((_, response) => {
    response.write('{"predictions":[');
  });
  const command = { url, model: "movies", json: "[1]", timeoutMs: 50 };

  await expect(predict(command, systemClock)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining("no answer within 50 ms") as string,
  });
});

test("a server that breaks off is told from an address where nothing listens", async () => {
  const url = await serverThat((_, response) => {
    response.write('{"predictions":[');
    response.socket?.end();
  });
  const command = { url, model: "movies", json: "[1]", timeoutMs: 60_000 };
  const asked = `${url}/v1/models/movies:predict`;

  await expect(predict(command, systemClock)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    // Each release of Node has words of its own for it.
    message: expect.stringMatching(
      `^No answer came from ${asked}: .+; look whether --url names a router's REST port$`,
    ) as string,
  });
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));

  await expect(predict(command, systemClock)).rejects.toMatchObject({
    message: expect.stringContaining(`Nothing answers at ${asked}; start a cluster`) as string,
  });
});

test("what a server says stays on one line and steers no terminal", async () => {
  const error = `gone\u001b[2J\nversion 1${"x".repeat(100_000)}`;
  const url = await serverThat((_, response) => {
    response.statusCode = 500;
    response.end(JSON.stringify({ error }));
  });
  const command = { url, model: "movies", json: "[1]", timeoutMs: 60_000 };

  await expect(predict(command, systemClock)).rejects.toMatchObject({
    message: expect.stringMatching(/^gone\ufffd\[2J version 1x{9000,10000}…$/) as string,
  });
});

test.each(["<html>sign in</html>", "", '{"predictions":[1', '{"status":"ok"}'])(
  "an answer with the status 200 that holds no predictions is an error, also for a program: %s",
  async (page) => {
    const url = await serverThat((_, response) => response.end(page));
    const command = { url, model: "movies", json: "[1]", timeoutMs: 60_000 };

    await expect(predict(command, systemClock)).rejects.toMatchObject({
      code: "UNKNOWN",
      message: `The answer has no predictions: ${excerpt(page)}`,
    });
  },
);

test("a server that sends to another is told with the address, which nothing is sent to", async () => {
  const url = await serverThat((_, response) => {
    response.writeHead(308, { location: "https://router.example.org/v1/models/movies:predict" });
    response.end();
  });
  const command = { url, model: "movies", json: "[1]", timeoutMs: 60_000 };

  await expect(predict(command, systemClock)).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message:
      "HTTP 308: the request belongs at https://router.example.org/v1/models/movies:predict; name that server with --url",
  });
});

test("ids and names in a table steer no terminal, and an answer of another kind is told of", () => {
  const id = "a\u001b]0;title\u0007\nb\u202e";
  const table = predictionTable(JSON.stringify({ predictions: [{ [id]: [id], score: [1] }, id] }));

  expect(table.split("\n")).toEqual([
    "#  a\ufffd]0;title\ufffd b\ufffd  score",
    "1  a\ufffd]0;title\ufffd b\ufffd  1",
    "",
    String.raw`1  "a\u001b]0;title\u0007\nb` + '\ufffd"',
    "",
  ]);
  for (const text of ["<html>\u001b[2J", "null", "7"]) {
    expect(() => predictionTable(text)).toThrow(/^The answer has no predictions: \P{Cc}+$/u);
  }
});

test("what the stages of a pipeline did is a table below the items", () => {
  const ids = ["a", "b"];
  const stages = [
    { stage: "retrieve", model: "movies", ms: 1.5, candidates: 100, ids },
    { stage: "limit", ms: 0.01, candidates: 2, ids, left: null },
  ];
  const text = JSON.stringify({ predictions: [{ output_2: ids, explain: { stages } }] });

  expect(predictionTable(text)).toBe(
    [
      "#  output_2",
      "1  a",
      "2  b",
      "",
      "stage     model   ms    candidates  left",
      "retrieve  movies  1.5   100",
      "limit             0.01  2           null",
      "",
    ].join("\n"),
  );
});

test("an output called explain that is no explanation is shown like any other", () => {
  const text = JSON.stringify({ predictions: [{ explain: ["x"], scores: [1] }] });

  expect(predictionTable(text)).toBe("#  explain  scores\n1  x        1\n");
});

test("the flags for vectors and explanations are fields of the request", async () => {
  const bodies: string[] = [];
  const url = await serverThat((request, response) => {
    request.on("data", (data: Buffer) => bodies.push(data.toString()));
    request.on("end", () => response.end('{"predictions":[]}'));
  });
  const command = { url, model: "movies", json: "[1]", timeoutMs: 60_000 };

  await predict({ ...command, returnVectors: true, explain: true }, systemClock);
  await predict(command, systemClock);

  expect(bodies.map((body) => JSON.parse(body) as unknown)).toEqual([
    { instances: [1], return_vectors: true, explain: true },
    { instances: [1] },
  ]);
});

test("integers of 64 bits go as they were written, and a flag comes before what a body says", async () => {
  const bodies: string[] = [];
  const url = await serverThat((request, response) => {
    request.on("data", (data: Buffer) => bodies.push(data.toString()));
    request.on("end", () => response.end('{"predictions":[]}'));
  });
  const big = "9007199254740993";
  const command = { url, model: "movies", timeoutMs: 60_000 };

  await predict({ ...command, json: ` [${big}]`, exclude: `[${big}]`, k: 3 }, systemClock);
  await predict({ ...command, json: big, signature: "other" }, systemClock);
  await predict({ ...command, json: `{"inputs": [${big}], "k": 9}`, k: 3 }, systemClock);

  expect(bodies).toEqual([
    `{"instances":[${big}],"k":3,"exclude":[${big}]}`,
    `{"instances":[${big}],"signature_name":"other"}`,
    `{"k":3,"inputs": [${big}], "k": 9}`,
  ]);
});

test("integers of 64 bits, NaN and Infinity stand in the table as the server wrote them", () => {
  const text =
    '{"predictions":[{"scores":[NaN,-Infinity],"ids":[9007199254740993,1]},[NaN,{"a":1}]]}';

  expect(predictionTable(text)).toBe(
    '#  scores     ids\n1  NaN        9007199254740993\n2  -Infinity  1\n\n1  [NaN,{"a":1}]\n',
  );
});

test.each([
  ["{}", "has no predictions"],
  ['{"predictions":null}', "has no predictions"],
  [`{"predictions":[${"[".repeat(100_000)}${"]".repeat(100_000)}]}`, "is nested too deep"],
])("an answer of another kind is an error: %.30s", (text, reason) => {
  expect(() => predictionTable(text)).toThrow(reason);
});
