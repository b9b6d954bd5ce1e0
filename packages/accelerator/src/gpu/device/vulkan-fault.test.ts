// The message where Vulkan shows no GPU: one machine for each thing that can be missing.

import { describe, expect, test } from "vitest";
import { thisMachine, vulkanFault } from "./vulkan-fault.ts";
import type { VulkanMachine } from "./vulkan-fault.ts";

const MANIFEST = '{"file_format_version":"1.0.0","ICD":{"library_path":"libGLX_nvidia.so.0"}}';

/** A machine with these files and libraries. */
function machine(has: {
  readonly files?: Readonly<Record<string, string>>;
  readonly libraries?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}): VulkanMachine {
  const { files = {}, libraries = [], environment = {} } = has;
  return {
    platform: "linux",
    environment,
    filesIn: (folder) =>
      Object.keys(files)
        .filter((file) => file.startsWith(`${folder}/`))
        .map((file) => file.slice(folder.length + 1)),
    read: (file) => {
      const text = files[file];
      if (text === undefined) throw new Error("ENOENT: no such file");
      return text;
    },
    loadFault: (library) => (libraries.includes(library) ? undefined : `${library}: cannot open`),
  };
}

const LOADER = "libvulkan.so.1";

describe("where Vulkan shows no GPU", () => {
  test("the missing loader is named, with its package", () => {
    expect(vulkanFault(machine({}))).toMatch(
      /libvulkan\.so\.1 is not there .*apt-get install libvulkan1/,
    );
  });

  test("without a driver, the folders that were searched and the container's variable are named", () => {
    const fault = vulkanFault(machine({ libraries: [LOADER], environment: { HOME: "/home/u" } }));

    expect(fault).toContain("no ICD file in /home/u/.config/vulkan/icd.d, ");
    expect(fault).toContain("/usr/share/vulkan/icd.d");
    expect(fault).toContain("NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics");
  });

  test.each(["VK_DRIVER_FILES", "VK_ICD_FILENAMES"])("a file that %s names must exist", (name) => {
    const environment = { [name]: "/none.json" };

    const fault = vulkanFault(machine({ libraries: [LOADER], environment }));

    expect(fault).toContain("/none.json cannot be read (ENOENT");
  });

  test("a driver whose library does not load is named with the linker's words", () => {
    const files = { "/usr/share/vulkan/icd.d/nvidia_icd.json": MANIFEST };

    const fault = vulkanFault(machine({ libraries: [LOADER], files }));

    expect(fault).toMatch(/nvidia_icd\.json, libGLX_nvidia\.so\.0, does not load .*cannot open/);
    expect(fault).toContain("libegl1");
  });

  test("a library's relative path counts from its file", () => {
    const files = { "/opt/driver/a.json": '{"ICD":{"library_path":"./liba.so"}}' };
    const environment = { VK_DRIVER_FILES: "/opt/driver/a.json" };

    const fault = vulkanFault(
      machine({ libraries: [LOADER, "/opt/driver/liba.so"], files, environment }),
    );

    expect(fault).toContain("/opt/driver/a.json load but show no GPU");
  });

  test.each(["", "{}", "[]", '{"ICD":{"library_path":7}}'])(
    "a broken file is said so: %j",
    (text) => {
      const files = { "/usr/share/vulkan/icd.d/b.json": text };

      const fault = vulkanFault(machine({ libraries: [LOADER], files }));

      expect(fault).toMatch(/b\.json (cannot be read|names no library)/);
    },
  );

  test("the real linker is asked: what is there loads, what is not does not", () => {
    const { loadFault } = thisMachine({});

    expect(loadFault("libno-such-library.so.1")).toContain("cannot open shared object file");
    expect(loadFault("libm.so.6")).toBeUndefined();
  });
});
