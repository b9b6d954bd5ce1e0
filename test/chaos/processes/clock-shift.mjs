// Preloaded into the processes of a chaos run: a wall clock that is wrong by CHAOS_CLOCK_SHIFT_MS, as
// that of a virtual machine that was restored. Without the variable it changes nothing. The monotonic
// clock stays right, as it does there.

import process from "node:process";

const shiftMs = Number(process.env["CHAOS_CLOCK_SHIFT_MS"] ?? "0");

if (shiftMs !== 0) {
  const RealDate = Date;
  const nowMs = () => RealDate.now() + shiftMs;
  globalThis.Date = class Date extends RealDate {
    constructor(...parts) {
      if (parts.length === 0) super(nowMs());
      else super(...parts);
    }

    static now() {
      return nowMs();
    }
  };
}
