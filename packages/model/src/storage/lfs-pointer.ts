// Pointers of Git LFS: the text that Git has in place of a large file which was not fetched.

import { WinnowError } from "@winnow/core";

/** How a pointer begins. */
const LFS_POINTER = Buffer.from("version https://git-lfs.github.com/");
/** Bytes of a file's head that tell a pointer. */
export const POINTER_HEAD_BYTES: number = LFS_POINTER.length;

/** Refuses a pointer in place of a file; `name` is what messages call it. @throws WinnowError DATA_LOSS */
export function refusePointer(head: Uint8Array, name: string): void {
  if (!LFS_POINTER.equals(head.subarray(0, LFS_POINTER.length))) return;
  const text = `Cannot read ${name}: it is a pointer of Git LFS, not the file`;
  throw new WinnowError("DATA_LOSS", `${text}; fetch it with "git lfs pull" and copy it again`);
}
