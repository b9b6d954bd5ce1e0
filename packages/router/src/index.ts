/** Speaks the predict API over HTTP, scatters queries and gathers answers. */
export {};
