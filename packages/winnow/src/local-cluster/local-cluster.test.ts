// Where `winnow up` asks the router that it started, whatever the router listens on.

import { expect, test } from "vitest";
import { routerUrl } from "./local-cluster.ts";

test.each([
  ["127.0.0.1", "http://127.0.0.1:8501"],
  ["recommender.example.org", "http://recommender.example.org:8501"],
  ["0.0.0.0", "http://127.0.0.1:8501"],
  ["::", "http://127.0.0.1:8501"],
  ["::1", "http://[::1]:8501"],
])("a router on --host %s is asked at %s", (host, url) => {
  expect(routerUrl({ host, port: 8501, isSecure: false })).toBe(url);
});
