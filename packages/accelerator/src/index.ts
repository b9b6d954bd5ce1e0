/** Loads rows on a device and searches them exactly. */
export {};
