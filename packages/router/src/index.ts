// Entrance of the package: the predict API over HTTP, scatter and gather.

export {};
