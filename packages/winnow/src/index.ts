// Entrance of the package: nothing is imported from the command; main.ts is what runs.

export {};
