/** The winnow command: starts routers and workers, inspects and queries them. */
export {};
