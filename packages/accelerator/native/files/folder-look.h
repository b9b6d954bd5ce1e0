// A look into folders in one go: what the watch of model directories asks for each second. Node's own calls
// take a step in its thread pool, and a wake-up of the event loop, for each opening, reading and closing of a
// folder and for each file.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace winnow {

enum class FileKind { OTHER = 0, FILE = 1, FOLDER = 2 };

/** What is known of one name in a folder; links are followed. Without facts only the kind is known. */
struct FolderEntry {
  std::string name;
  FileKind kind = FileKind::OTHER;
  double bytes = 0;
  /** Milliseconds, in the arithmetic of Node's `mtimeMs`. */
  double modifiedMs = 0;
  double changedMs = 0;
};

struct FolderLook {
  /** False: the folder cannot be read, has more entries, or a name that is not ASCII. */
  bool isWhole = false;
  std::vector<FolderEntry> entries;
};

/** Looks into a folder of at most `entriesMax` entries; reads hardly more of a larger one. @throws std::bad_alloc */
FolderLook lookInto(const std::string& folder, size_t entriesMax, bool withFacts);

}  // namespace winnow
