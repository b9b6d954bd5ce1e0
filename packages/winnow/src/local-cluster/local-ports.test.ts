// A port that cannot be listened on names the flag that mends it.

import { expect, test } from "vitest";
import { assertPortFree } from "./local-ports.ts";

test("an address that is none of this machine's is told to be another address, not another port", async () => {
  await expect(assertPortFree(8501, "192.0.2.1", "--port")).rejects.toThrow(
    /Cannot listen on 192\.0\.2\.1:8501 \(EADDRNOTAVAIL\); choose another address with --host/,
  );
});
