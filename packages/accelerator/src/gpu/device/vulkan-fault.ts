// Why Vulkan shows no GPU, found by the steps that the Vulkan loader takes: the loader itself, the
// files that name drivers, the drivers' libraries. The answer names what is missing, and its
// remedy.
// (https://github.com/KhronosGroup/Vulkan-Loader/blob/main/docs/LoaderDriverInterface.md)

import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";

const LOADER = "libvulkan.so.1";
const LOADER_REMEDY =
  "install it (Debian, Ubuntu: apt-get install libvulkan1; Fedora: dnf install vulkan-loader)";
const DRIVER_REMEDY =
  "install the GPU's driver; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics; " +
  "VK_DRIVER_FILES=<file.json> names a driver that lies elsewhere";
const LIBRARY_REMEDY =
  "its libraries are missing or do not fit (NVIDIA in a container: libx11-6, libxext6 and libegl1)";

/** The parts of a machine that decide whether Vulkan shows a GPU. */
export interface VulkanMachine {
  readonly platform: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** File names in a folder; none if there is no such folder. */
  readonly filesIn: (folder: string) => readonly string[];
  /** Reads a text file. @throws Error that says why it cannot be read */
  readonly read: (file: string) => string;
  /** Why a shared library cannot be loaded; `undefined` if it can. */
  readonly loadFault: (library: string) => string | undefined;
}

/** The machine this runs on. */
export function thisMachine(environment: VulkanMachine["environment"]): VulkanMachine {
  return {
    platform: process.platform,
    environment,
    filesIn: (folder) => {
      try {
        return readdirSync(folder);
      } catch {
        return [];
      }
    },
    read: (file) => readFileSync(file, "utf8"),
    loadFault: libraryFault,
  };
}

/** What is missing, and the remedy. Call it only when WebGPU has found no GPU. */
export function vulkanFault(machine: VulkanMachine): string {
  if (machine.platform !== "linux") return "the operating system shows no GPU that WebGPU can use";
  const loaderFault = machine.loadFault(LOADER);
  if (loaderFault !== undefined) {
    return `the Vulkan loader ${LOADER} is not there (${loaderFault}): ${LOADER_REMEDY}`;
  }
  const { files, places } = driverFiles(machine);
  if (files.length === 0) {
    return `there is no Vulkan driver: no ICD file in ${places.join(", ")}: ${DRIVER_REMEDY}`;
  }
  const faults = files.map((file) => driverFault(machine, file));
  if (faults.every((fault) => fault !== undefined)) return faults.join("; ");
  const sound = files.filter((_, index) => faults[index] === undefined);
  return (
    `the Vulkan drivers of ${sound.join(", ")} load but show no GPU that WebGPU (Dawn) accepts: ` +
    "no device is visible to this process (/dev/nvidia*, /dev/dri), or the driver is too old"
  );
}

/** The files that name drivers, in the loader's order, or the places where none was found. */
function driverFiles({ environment, filesIn }: VulkanMachine): {
  readonly files: readonly string[];
  readonly places: readonly string[];
} {
  const named = environment["VK_DRIVER_FILES"] ?? environment["VK_ICD_FILENAMES"];
  const places = named === undefined || named === "" ? folders(environment) : named.split(":");
  const files = places.flatMap((place) =>
    place.endsWith(".json")
      ? [place]
      : filesIn(place)
          .filter((file) => file.endsWith(".json"))
          .map((file) => path.join(place, file)),
  );
  return { files, places };
}

function folders(environment: VulkanMachine["environment"]): readonly string[] {
  const home = environment["HOME"] ?? "/root";
  const listed = (name: string, otherwise: string): string[] =>
    (environment[name] ?? otherwise).split(":").filter((folder) => folder !== "");
  const roots = [
    environment["XDG_CONFIG_HOME"] ?? path.join(home, ".config"),
    ...listed("XDG_CONFIG_DIRS", "/etc/xdg"),
    "/etc",
    environment["XDG_DATA_HOME"] ?? path.join(home, ".local/share"),
    ...listed("XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
  ];
  return roots.map((root) => path.join(root, "vulkan/icd.d"));
}

function driverFault({ read, loadFault }: VulkanMachine, file: string): string | undefined {
  let library: unknown;
  try {
    const manifest = JSON.parse(read(file)) as {
      readonly ICD?: { readonly library_path?: unknown };
    };
    library = manifest.ICD?.library_path;
  } catch (error) {
    return `the driver file ${file} cannot be read (${messageOf(error)})`;
  }
  if (typeof library !== "string") return `the driver file ${file} names no library`;
  const isName = !library.includes("/");
  const fault = loadFault(isName ? library : path.resolve(path.dirname(file), library));
  if (fault === undefined) return undefined;
  return `the driver of ${file}, ${library}, does not load (${fault}): ${LIBRARY_REMEDY}`;
}

/**
 * Asks the dynamic linker: if Node refuses the library only as an addon, the library was loaded.
 */
function libraryFault(library: string): string | undefined {
  try {
    process.dlopen({ exports: {} }, library);
    return undefined;
  } catch (error) {
    const message = messageOf(error);
    return message.includes("did not self-register") ? undefined : message.slice(0, 256);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
