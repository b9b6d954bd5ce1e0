// Entrance of the package: devices that hold rows and search them exactly, and the dense engine.

export {};
