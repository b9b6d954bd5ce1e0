// The programs of all versions that workers announce, by content fingerprint, each fetched from a worker that
// holds it.
//
//   announced ─▶ fetching ─▶ ready ── no table names it, nobody pins it, `programKeepMs` ─▶ gone
//                   │  ▲
//                   ▼  │ a later try, another worker
//                 failed (also when the worker that is asked is lost)
//
// A program that the dense engine refuses stays failed for as long as a table names it, because every worker
// would send the same program.

import type { Environment, Fingerprint, TableSpec, Timer, WorkerId } from "@winnow/core";
import { toWinnowError, uncutTableText, WinnowError } from "@winnow/core";
import type { DenseEngine } from "@winnow/accelerator";
import type { RoutedVersion, RoutingTable, WorkerConnector } from "@winnow/cluster";
import type { LoadedProgram } from "./loaded-program.ts";
import { UnrunnableProgram, loadProgram, unloadProgram } from "./loaded-program.ts";
import type { RouterSettings } from "../router-settings.ts";
import type { WorkerPeer } from "../workers/worker-peer.ts";

/** What the store needs. */
export interface ProgramStoreParts {
  readonly environment: Environment;
  readonly settings: RouterSettings;
  readonly connector: WorkerConnector;
  readonly denseEngine: DenseEngine;
  readonly peers: ReadonlyMap<WorkerId, WorkerPeer>;
}

/** A program in this router. */
type ProgramState =
  /** `error`: why the last attempt to fetch it failed. */
  | { readonly kind: "absent"; readonly error: WinnowError | undefined }
  | { readonly kind: "ready"; readonly loaded: LoadedProgram }
  /** It can never run here. */
  | { readonly kind: "refused"; readonly error: WinnowError };

interface Entry {
  readonly fingerprint: Fingerprint;
  program: ProgramState;
  fetching: boolean;
  /** The worker that is being asked. */
  asked: AskedSource | undefined;
  tries: number;
  pins: number;
  /** Whether the current table names it. */
  named: boolean;
  /** The timer for the next attempt, or for the end of the time that it is kept. */
  timer: Timer | undefined;
}

/** A worker that has a program. */
interface Source {
  readonly version: RoutedVersion;
  readonly address: string;
  /** The number of the worker's stream when it was asked. */
  readonly streamNumber: number;
  /** The program is sent with its keyed tables of at most this many bytes. */
  readonly tableBytesMax: number;
}

interface AskedSource {
  readonly source: Source;
  readonly abort: AbortController;
}

const RETRY_FACTOR_MAX = 30;

/** Programs by fingerprint. */
export class ProgramStore {
  readonly #parts: ProgramStoreParts;
  readonly #onChange: () => void;
  readonly #entries = new Map<Fingerprint, Entry>();
  readonly #abort = new AbortController();
  #table: RoutingTable | undefined;

  /** `onChange` is called when `tables()` or an error has changed. */
  constructor(parts: ProgramStoreParts, onChange: () => void) {
    this.#parts = parts;
    this.#onChange = onChange;
  }

  /** The tables of every program that is ready to run. */
  tables(): ReadonlyMap<Fingerprint, readonly TableSpec[]> {
    return new Map(this.ready().map(([print, loaded]) => [print, loaded.program.tables]));
  }

  /** Programs that can never be run here, and why. */
  unrunnable(): ReadonlyMap<Fingerprint, WinnowError> {
    return new Map(
      [...this.#entries.values()].flatMap(({ fingerprint, program }) =>
        program.kind === "refused" ? [[fingerprint, program.error] as const] : [],
      ),
    );
  }

  /** Whether the program is ready to run. */
  isReady(fingerprint: Fingerprint): boolean {
    return this.#entries.get(fingerprint)?.program.kind === "ready";
  }

  /** The programs that are ready to run, by content. */
  ready(): readonly (readonly [Fingerprint, LoadedProgram])[] {
    return [...this.#entries.values()].flatMap(({ fingerprint, program }) =>
      program.kind === "ready" ? [[fingerprint, program.loaded] as const] : [],
    );
  }

  /** Why a program is not ready: what failed in the last attempt to fetch it, or why it can never run here. */
  errorOf(fingerprint: Fingerprint): WinnowError | undefined {
    const program = this.#entries.get(fingerprint)?.program;
    return program === undefined || program.kind === "ready" ? undefined : program.error;
  }

  /** A notice on a program that is ready; "" for most. */
  noticeOf(fingerprint: Fingerprint): string {
    const tables = this.#loaded(fingerprint)?.program.uncutTables ?? [];
    return tables.map(uncutTableText).join("\n");
  }

  /** Pins a program for a request; `release` ends the pin. `undefined` while it is not ready. */
  pin(fingerprint: Fingerprint): LoadedProgram | undefined {
    const loaded = this.#loaded(fingerprint);
    if (loaded !== undefined) this.#entries.get(fingerprint)!.pins += 1;
    return loaded;
  }

  #loaded(fingerprint: Fingerprint): LoadedProgram | undefined {
    const program = this.#entries.get(fingerprint)?.program;
    return program?.kind === "ready" ? program.loaded : undefined;
  }

  /** Ends a pin. */
  release(fingerprint: Fingerprint): void {
    const entry = this.#entries.get(fingerprint);
    if (entry === undefined) return;
    entry.pins -= 1;
    if (entry.pins === 0 && !entry.named && entry.timer === undefined) this.#drop(entry);
  }

  /** Fetches the programs that a new table names, and drops those that it no longer names. */
  follow(table: RoutingTable): void {
    if (this.#abort.signal.aborted) return;
    this.#table = table;
    const named = new Set<Fingerprint>();
    for (const { key, holders } of versionsOf(table)) {
      named.add(key.fingerprint);
      const entry = this.#entry(key.fingerprint);
      if (!entry.named) this.#keep(entry);
      const isWanted = entry.program.kind === "absent";
      const isIdle = isWanted && !entry.fetching && entry.timer === undefined;
      if (isIdle && holders.length > 0) void this.#fetch(entry);
      this.#giveUpLost(entry);
    }
    for (const entry of this.#entries.values()) {
      if (entry.named && !named.has(entry.fingerprint)) this.#leave(entry);
    }
  }

  #entry(fingerprint: Fingerprint): Entry {
    let entry = this.#entries.get(fingerprint);
    if (entry === undefined) {
      entry = {
        fingerprint,
        program: { kind: "absent", error: undefined },
        fetching: false,
        asked: undefined,
        tries: 0,
        pins: 0,
        named: false,
        timer: undefined,
      };
      this.#entries.set(fingerprint, entry);
    }
    return entry;
  }

  #keep(entry: Entry): void {
    entry.named = true;
    this.#clearTimer(entry);
  }

  /** No worker announces the program any more. It is kept for a while, in case one does again. */
  #leave(entry: Entry): void {
    entry.named = false;
    this.#clearTimer(entry);
    this.#setTimer(entry, this.#parts.settings.programKeepMs, () => {
      if (entry.pins === 0) this.#drop(entry);
    });
  }

  /**
   * Stops waiting for a worker that can no longer be asked: a machine that vanished resets no connection, and
   * a version must not wait `programTimeoutMs` for it while others hold the program. A worker whose stream is
   * a new one cannot be waited for either, because the machine may have come back in between.
   */
  #giveUpLost(entry: Entry): void {
    const { asked } = entry;
    if (asked === undefined || this.#isThere(entry, asked.source)) return;
    asked.abort.abort(new WinnowError("UNAVAILABLE", "The worker was lost before it had sent it"));
  }

  /** Whether the worker can still be asked, on the stream that it had when the source was found. */
  #isThere(entry: Entry, { address, streamNumber }: Source): boolean {
    return this.#sourcesOf(entry).some(
      (source) => source.address === address && source.streamNumber === streamNumber,
    );
  }

  /** Asks the holders. Never rejects: a failure is kept, and another attempt follows. */
  async #fetch(entry: Entry): Promise<void> {
    const { settings } = this.#parts;
    const sources = this.#sourcesOf(entry);
    // The first worker that can be asked brings another table, and with it the next attempt.
    if (sources.length === 0) return;
    entry.fetching = true;
    entry.tries += 1;
    await this.#askOneByOne(entry, sources);
    if (this.#abort.signal.aborted) return;
    entry.fetching = false;
    if (entry.program.kind === "absent" && entry.named) {
      const waitMs = settings.programRetryMs * Math.min(entry.tries, RETRY_FACTOR_MAX);
      this.#setTimer(entry, waitMs, () => void this.#fetch(entry));
    }
    this.#onChange();
  }

  /**
   * Asks one source after the other, except those that are lost by then, until one has given the program, and then,
   * for the program alone, those that could not read its small tables. A worker reads these tables from files, which may by then hold
   * another content than the one that its replicas and the program belong to.
   */
  async #askOneByOne(entry: Entry, sources: readonly Source[]): Promise<void> {
    const asks = [...sources];
    for (let source = asks.shift(); source !== undefined; source = asks.shift()) {
      if (!this.#isThere(entry, source)) continue;
      try {
        return await this.#load(entry, source);
      } catch (error) {
        if (this.#abort.signal.aborted) return;
        const fault = toWinnowError(error);
        const { code, message } = fault;
        const { model, version } = source.version.key;
        const { address: from, tableBytesMax } = source;
        const fields = { model, version, from, message };
        if (error instanceof UnrunnableProgram) {
          const { reason } = error;
          const text = `${model}/${version} cannot be served: ${reason.message}`;
          const refusal = new WinnowError("FAILED_PRECONDITION", text, { cause: reason });
          entry.program = { kind: "refused", error: refusal };
          return this.#parts.environment.log.warn("program refused", fields);
        }
        entry.program = { kind: "absent", error: fault };
        this.#parts.environment.log.warn("program not loaded", fields);
        const isRead = code !== "UNAVAILABLE" && code !== "DEADLINE_EXCEEDED";
        if (isRead && tableBytesMax > 0) asks.push({ ...source, tableBytesMax: 0 });
      }
    }
  }

  async #load(entry: Entry, source: Source): Promise<void> {
    const { fingerprint } = entry;
    const bytes = await this.#bytesFrom(entry, source);
    const { key: owner } = source.version;
    const loaded = await loadProgram(this.#parts.denseEngine, { fingerprint, bytes, owner });
    if (this.#entries.get(fingerprint) !== entry) return await unloadProgram(loaded);
    entry.program = { kind: "ready", loaded };
    entry.tries = 0;
    const { model, version } = source.version.key;
    for (const { tensor, bytes, ranking, obstacle } of loaded.program.uncutTables ?? []) {
      const fields = { model, version, tensor, bytes, ranking, obstacle: obstacle.node };
      const { log } = this.#parts.environment;
      log.warn("table not cut: every router holds it", { ...fields, op: obstacle.op });
    }
  }

  /** Workers that can be asked at present, beginning with another one at each attempt. */
  #sourcesOf(entry: Entry): Source[] {
    const version = versionsOf(this.#table).find(
      ({ key }) => key.fingerprint === entry.fingerprint,
    );
    if (version === undefined) return [];
    const { routerTableBytesMax: tableBytesMax } = this.#parts.settings;
    const sources = version.holders.flatMap((id): Source[] => {
      const peer = this.#parts.peers.get(id);
      if (peer?.askable !== true || peer.address === undefined) return [];
      const { address, streamNumber } = peer;
      return [{ version, address, streamNumber, tableBytesMax }];
    });
    const first = entry.tries % Math.max(1, sources.length);
    return [...sources.slice(first), ...sources.slice(0, first)];
  }

  async #bytesFrom(entry: Entry, source: Source): Promise<Uint8Array> {
    const { version, address, tableBytesMax } = source;
    const { environment, settings, connector } = this.#parts;
    const abort = new AbortController();
    const timer = environment.clock.setTimer(settings.programTimeoutMs, () => {
      abort.abort(new WinnowError("DEADLINE_EXCEEDED", "The worker did not send it in time"));
    });
    entry.asked = { source, abort };
    try {
      return await connector.program(
        address,
        { version: version.key, tableBytesMax },
        AbortSignal.any([abort.signal, this.#abort.signal]),
      );
    } finally {
      entry.asked = undefined;
      environment.clock.clearTimer(timer);
    }
  }

  #setTimer(entry: Entry, delayMs: number, run: () => void): void {
    entry.timer = this.#parts.environment.clock.setTimer(delayMs, () => {
      entry.timer = undefined;
      run();
    });
  }

  #clearTimer(entry: Entry): void {
    if (entry.timer !== undefined) this.#parts.environment.clock.clearTimer(entry.timer);
    entry.timer = undefined;
  }

  #drop(entry: Entry): void {
    this.#entries.delete(entry.fingerprint);
    entry.named = false;
    this.#clearTimer(entry);
    const { program } = entry;
    entry.program = { kind: "absent", error: undefined };
    // Nobody waits for this memory to be freed; the engine reports a failure itself.
    if (program.kind === "ready") void unloadProgram(program.loaded).catch(() => undefined);
  }

  /** Drops all programs. */
  close(): void {
    this.#abort.abort(new WinnowError("CANCELLED", "The router is closing"));
    for (const entry of this.#entries.values()) this.#drop(entry);
  }
}

function versionsOf(table: RoutingTable | undefined): RoutedVersion[] {
  const versions = [...(table?.models.values() ?? [])].flatMap((model) => model.contents);
  // A directory that no worker could read yet has no fingerprint.
  return versions.filter(({ key }) => key.fingerprint !== "");
}
