// Which directories of a model are its versions. The rules are TensorFlow Serving's
// (sources/storage_path/file_system_storage_path_source.cc): a name that reads as an integer is a version, `00000123` is
// 123, any other name is skipped.

/** The version directories of one model, by number. */
export interface VersionIndex {
  /** Directory name of each version, ascending by number. */
  readonly names: ReadonlyMap<number, string>;
  /** Directories that are skipped because another name reads as the same number. */
  readonly duplicates: readonly { readonly version: number; readonly ignored: string }[];
  /** Directories whose number TensorFlow Serving may take, and which is too large here. */
  readonly tooLarge: readonly string[];
}

/** The number a directory name stands for, perhaps one that is not safe; `undefined` if it stands for none. */
function numberOfName(name: string): number | undefined {
  const text = name.trim();
  return /^\+?\d{1,19}$/.test(text) ? Number(text) : undefined;
}

/** Finds the versions among directory names. Of two names for one number the last in order of names wins. */
export function indexVersions(directoryNames: readonly string[]): VersionIndex {
  const names = new Map<number, string>();
  const duplicates: { version: number; ignored: string }[] = [];
  const tooLarge: string[] = [];
  for (const name of directoryNames.toSorted()) {
    const version = numberOfName(name);
    if (version === undefined) continue;
    if (!Number.isSafeInteger(version)) {
      tooLarge.push(name);
      continue;
    }
    const ignored = names.get(version);
    if (ignored !== undefined) duplicates.push({ version, ignored });
    names.set(version, name);
  }
  return { names: new Map([...names].toSorted(([a], [b]) => a - b)), duplicates, tooLarge };
}
