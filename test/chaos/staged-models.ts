// The models' folder of a chaos cluster, and which versions should answer. The load is notified of a version
// before it can answer, so that no right answer is taken for a wrong one.

import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import type { PublishedVersion } from "./answers/answer-check.ts";
import {
  MODEL_NAMES,
  type ModelName,
  type SpoilDirectory,
  publishContent,
  versionDirectory,
  writeContent,
} from "./answers/model-content.ts";
import type { SlowCopy, StagedModels } from "./scenario.ts";

/** The order in which a copy looks complete earliest: the largest file last, its index before it. */
function copyRank(file: string): number {
  return ["saved_model.pb", ".index", "assets", ".data-"].findIndex((part) => file.includes(part));
}

/** The folder and its history. */
export class ModelStage implements StagedModels {
  readonly folder: string;
  readonly #published: PublishedVersion[] = [];
  readonly #newest = new Map<ModelName, number>();
  readonly #current: Record<ModelName, number> = { catalog: 1, boutique: 1, ranking: 1 };
  /** Called whenever what may answer changes. */
  onPublished: (published: readonly PublishedVersion[]) => void = () => undefined;

  /** Makes the folder with version 1 of every model. */
  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(folder, { recursive: true });
    for (const model of MODEL_NAMES) this.publish(model);
  }

  get published(): readonly PublishedVersion[] {
    return this.#published;
  }

  get current(): Readonly<Record<ModelName, number>> {
    return this.#current;
  }

  publish(model: ModelName): void {
    const content = this.#next(model, true);
    publishContent(this.folder, content);
    this.#current[model] = content.version;
  }

  publishSpoilt(model: ModelName, spoil: SpoilDirectory): number {
    const content = this.#next(model, false);
    publishContent(this.folder, content, spoil);
    return content.version;
  }

  replaceInPlace(model: ModelName): void {
    const version = this.#current[model];
    const editions = this.#published.filter(
      (each) => each.model === model && each.version === version,
    );
    const content = { model, version, edition: editions.length };
    this.#tell({ ...content, sound: true });
    const directory = versionDirectory(this.folder, content);
    const beside = path.join(this.folder, `.${model}-replacement`);
    const former = path.join(this.folder, `.${model}-former`);
    writeContent(beside, content);
    renameSync(directory, former);
    renameSync(beside, directory);
    rmSync(former, { recursive: true });
  }

  beginCopy(model: ModelName): SlowCopy {
    const content = this.#next(model, true);
    const source = path.join(this.folder, `.${model}-source`);
    writeContent(source, content);
    const directory = versionDirectory(this.folder, content);
    const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((file) =>
      statSync(path.join(source, file)).isFile(),
    );
    const contents = files
      .toSorted((a, b) => copyRank(a) - copyRank(b))
      .map((file): [string, Buffer] => [file, readFileSync(path.join(source, file))]);
    rmSync(source, { recursive: true });
    const steps = contents.flatMap(([file, bytes]) => {
      const name = path.join(directory, file);
      const half = bytes.length >> 1;
      return [
        () => {
          mkdirSync(path.dirname(name), { recursive: true });
          writeFileSync(name, bytes.subarray(0, half));
        },
        () => appendFileSync(name, bytes.subarray(half)),
      ];
    });
    return {
      steps,
      remove: () => rmSync(directory, { recursive: true }),
      finish: () => {
        this.#current[model] = content.version;
      },
    };
  }

  withdraw(model: ModelName, version: number): void {
    rmSync(path.join(this.folder, model, String(version)), { recursive: true, force: true });
  }

  #next(model: ModelName, sound: boolean): PublishedVersion {
    const version = (this.#newest.get(model) ?? 0) + 1;
    this.#newest.set(model, version);
    const content = { model, version, edition: 0, sound };
    this.#tell(content);
    return content;
  }

  #tell(content: PublishedVersion): void {
    this.#published.push(content);
    this.onPublished(this.#published);
  }
}
