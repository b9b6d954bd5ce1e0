/** Reads model directories into programs and tables. */
export {};
