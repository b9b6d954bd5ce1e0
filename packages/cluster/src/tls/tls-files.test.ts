// Files of certificates, as they are checked at the start and as somebody replaces them.

import { mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { silentLogger } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { testAuthority } from "../../../../test/fixtures/certificates.ts";
import type { MadeCertificate } from "../../../../test/fixtures/certificates.ts";
import { openTlsFiles } from "./tls-files.ts";
import type { TlsFiles } from "./tls-files.ts";

const authority = testAuthority();
const FILES = { certFile: "cert", keyFile: "key", caFile: "ca" };

/** Files in memory, and how far time has come. */
interface Place {
  readonly texts: Record<string, string>;
  readonly logged: string[];
  readonly clock: ManualClock;
  /** Lets the files be read once more. */
  look(): Promise<void>;
}

function placeOf({ cert, key }: MadeCertificate): Place {
  const clock = new ManualClock();
  return {
    texts: { cert, key, ca: authority.cert },
    logged: [],
    clock,
    look: async () => {
      clock.advance(2000);
      for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
    },
  };
}

function open(place: Place, wallMs = () => Date.now()): Promise<TlsFiles> {
  const { clock, texts, logged } = place;
  const note = (event: string, fields: object = {}): void =>
    void logged.push(`${event} ${JSON.stringify(fields)}`);
  const log = { ...silentLogger, info: note, error: note };
  return openTlsFiles("public", FILES, {
    clock,
    log,
    wallMs,
    readText: (file) => Promise.resolve(texts[file] ?? ""),
  });
}

describe("files of certificates at the start", () => {
  const good = authority.issue();
  test.each([
    ["no certificate", { cert: "hello" }, "cert holds no certificate in PEM"],
    ["half a certificate", { cert: good.cert.slice(0, 300) }, "cert holds no certificate in PEM"],
    [
      "a spoilt certificate",
      { cert: good.cert.replace(/M../, "AAA") },
      "Certificate 1 of cert cannot be read",
    ],
    ["no key", { key: "" }, "key holds no private key in PEM without a passphrase"],
    [
      "the key of another certificate",
      { key: authority.issue().key },
      "The key in key is not that of the certificate in cert",
    ],
    ["no authority", { ca: "" }, "ca holds no certificate in PEM"],
  ])("with %s are refused by name", async (_, change, message) => {
    const place = placeOf(good);
    Object.assign(place.texts, change);

    const refusal = await open(place).catch((error: unknown) => error as Error);

    expect(refusal).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((refusal as Error).message).toContain(message);
    expect((refusal as Error).message).not.toContain(good.key.slice(40, 60));
  });

  test("are refused before they begin and after they have ended", async () => {
    await expect(open(placeOf(authority.issue({ days: -1 })))).rejects.toThrow("ended on");
    await expect(open(placeOf(authority.issue({ fromDay: 1, days: 9 })))).rejects.toThrow(
      "begins on",
    );
  });

  test("tell when the first certificate of a chain ends", async () => {
    const short = authority.issue({ days: 2 });
    const long = authority.issue({ days: 5 });
    const files = await open(placeOf({ cert: long.cert + short.cert, key: long.key }));

    const days = ((files.status.expiresMs ?? 0) - Date.now()) / 86_400_000;
    files.close();

    expect(days).toBeGreaterThan(1.9);
    expect(days).toBeLessThan(2.1);
  });

  test("may hold a key with headers beside the certificates", async () => {
    const own = authority.issue();
    const headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00";
    const other = `-----BEGIN RSA PRIVATE KEY-----\n${headers}\n\nAAAA\n-----END RSA PRIVATE KEY-----\n`;

    const files = await open(placeOf({ cert: own.cert + other, key: own.key }));
    files.close();

    expect(files.material.cert).toBe(own.cert + other);
  });
});

describe("files of certificates that are replaced", () => {
  test("come into force when they fit together, and what does not fit leaves the old", async () => {
    const old = authority.issue();
    const place = placeOf(old);
    const files = await open(place);
    const seen: (string | undefined)[] = [];
    files.follow(({ cert }) => seen.push(cert));
    const next = authority.issue();

    await place.look();
    place.texts["cert"] = next.cert;
    await place.look();
    const halfway = [files.material.cert, files.status.isRefused, place.logged.length];
    place.texts["key"] = next.key;
    await place.look();
    files.close();

    expect(halfway).toEqual([old.cert, false, 0]);
    expect(seen).toEqual([next.cert]);
    expect(files.material.cert).toBe(next.cert);
    expect(place.logged).toHaveLength(1);
  });

  test("that end while they are in force are told once, until they are replaced", async () => {
    const place = placeOf(authority.issue({ days: 1 }));
    let afterMs = 0;
    const files = await open(place, () => Date.now() + afterMs);

    await place.look();
    expect(place.logged).toEqual([]);
    afterMs = 2 * 86_400_000;
    for (let turn = 0; turn < 3; turn += 1) await place.look();
    expect(place.logged).toEqual([
      expect.stringMatching(/the certificate has ended.*"certFile":"cert","ended":"\d{4}-/),
    ]);
    const { cert, key } = authority.issue({ days: 5 });
    Object.assign(place.texts, { cert, key });
    for (let turn = 0; turn < 3; turn += 1) await place.look();
    files.close();

    expect(place.logged).toHaveLength(2);
    expect(place.logged[1]).toContain("certificates replaced");
  });

  test("with a fault are told of once, and again as soon as they are good", async () => {
    const old = authority.issue();
    const place = placeOf(old);
    const files = await open(place);
    place.texts["cert"] = "nothing";

    for (let turn = 0; turn < 5; turn += 1) await place.look();
    const refused = files.status.isRefused;
    place.texts["cert"] = old.cert;
    await place.look();
    files.close();

    expect([refused, files.status.isRefused]).toEqual([true, false]);
    expect(place.logged).toEqual([
      expect.stringContaining("certificates refused, the old ones stay"),
      expect.stringContaining("certificates are the old ones again"),
    ]);
    expect(files.material.cert).toBe(old.cert);
  });

  test("that are copied slowly are taken when they are whole, at no byte before", async () => {
    const old = authority.issue();
    const place = placeOf(old);
    const files = await open(place);
    const next = authority.issue();
    const chain = next.cert + authority.issue().cert;
    // After the first certificate, the key would fit, and what is cut off would be missing.
    place.texts["key"] = next.key;
    // A file that ends right behind a certificate is whole.
    const cuts = Array.from({ length: 40 }, (_, at) => Math.floor((chain.length * at) / 40)).filter(
      (cut) => Math.abs(cut - next.cert.length) > 2,
    );

    for (const cut of [...cuts, next.cert.length + 7, next.cert.length + 20, chain.length - 2]) {
      place.texts["cert"] = chain.slice(0, cut);
      await place.look();
    }
    const before = files.material.cert;
    place.texts["cert"] = chain;
    await place.look();
    files.close();

    expect([before, files.material.cert]).toEqual([old.cert, chain]);
  });

  test("that begin later are taken when they begin", async () => {
    const place = placeOf(authority.issue());
    let nowMs = Date.now();
    const files = await open(place, () => nowMs);
    const next = authority.issue({ fromDay: 0.5, days: 3 });
    Object.assign(place.texts, next);

    await place.look();
    const before = files.material.cert === next.cert;
    nowMs += 0.6 * 86_400_000;
    await place.look();
    files.close();

    expect([before, files.material.cert === next.cert]).toEqual([false, true]);
  });
});

describe("a Kubernetes secret", () => {
  const folders: string[] = [];
  afterEach(() => Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true }))));

  test("is seen when its link leads to other files", async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "winnow-tls-"));
    folders.push(folder);
    const write = async (made: MadeCertificate, name: string): Promise<void> => {
      const inside = await mkdtemp(path.join(folder, name));
      await writeFile(path.join(inside, "tls.crt"), made.cert);
      await writeFile(path.join(inside, "tls.key"), made.key);
      await symlink(inside, path.join(folder, "..next"));
      await rename(path.join(folder, "..next"), path.join(folder, "..data"));
    };
    const [old, next] = [authority.issue(), authority.issue()];
    await write(old, "..1");
    for (const name of ["tls.crt", "tls.key"]) {
      await symlink(path.join("..data", name), path.join(folder, name));
    }
    const clock = new ManualClock();
    const names = {
      certFile: path.join(folder, "tls.crt"),
      keyFile: path.join(folder, "tls.key"),
    };
    const parts = { clock, log: silentLogger, wallMs: () => Date.now() };
    const files = await openTlsFiles("public", names, parts);
    const replaced = new Promise((resolve) => {
      files.follow(resolve);
    });

    await write(next, "..2");
    clock.advance(2000);

    expect(await replaced).toMatchObject({ cert: next.cert, key: next.key });
    files.close();
  });

  test("that is missing is named", async () => {
    const parts = { clock: new ManualClock(), log: silentLogger, wallMs: () => Date.now() };

    await expect(
      openTlsFiles("public", { certFile: "/no/cert", keyFile: "/no/key" }, parts),
    ).rejects.toThrow(/Cannot read \/no\/(cert|key) for TLS: ENOENT/);
  });
});
