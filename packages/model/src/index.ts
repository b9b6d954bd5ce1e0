// Entrance of the package: model directories as programs and readable tables.

export {};
