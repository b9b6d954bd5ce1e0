// How a folder is read and what is asked of the file system for each name in it.

#include "files/folder-look.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace winnow {

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

double milliseconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

bool isAscii(const char* name) {
  const char* end = name + std::strlen(name);
  return std::none_of(name, end, [](char each) { return (each & 0x80) != 0; });
}

/** Fills in what the file system says of what the entry leads to; nothing where it leads nowhere. */
void addFacts(const std::string& folder, FolderEntry& entry) {
  struct stat facts {};
  if (stat((folder + "/" + entry.name).c_str(), &facts) != 0) return;
  if (S_ISDIR(facts.st_mode)) entry.kind = FileKind::FOLDER;
  if (S_ISREG(facts.st_mode)) entry.kind = FileKind::FILE;
  entry.bytes = static_cast<double>(facts.st_size);
#ifdef __APPLE__
  entry.modifiedMs = milliseconds(facts.st_mtimespec);
  entry.changedMs = milliseconds(facts.st_ctimespec);
#else
  entry.modifiedMs = milliseconds(facts.st_mtim);
  entry.changedMs = milliseconds(facts.st_ctim);
#endif
}

}  // namespace

FolderLook lookInto(const std::string& folder, size_t entriesMax, bool withFacts) {
  FolderLook look;
  // A zero ends a path for the system, not for its owner.
  if (folder.find('\0') != std::string::npos) return look;
  const std::unique_ptr<DIR, CloseFolder> opened(opendir(folder.c_str()));
  if (opened == nullptr) return look;
  while (true) {
    errno = 0;
    const dirent* found = readdir(opened.get());
    if (found == nullptr) break;
    const char* name = found->d_name;
    if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
    if (look.entries.size() == entriesMax || !isAscii(name)) return look;
    FolderEntry entry;
    entry.name = name;
    if (found->d_type == DT_DIR) entry.kind = FileKind::FOLDER;
    if (found->d_type == DT_REG) entry.kind = FileKind::FILE;
    // File systems need not say what an entry is, and of a link the kind of its target counts.
    const bool isOpen = found->d_type == DT_UNKNOWN || found->d_type == DT_LNK;
    if (withFacts) entry.kind = FileKind::OTHER;
    if (withFacts || isOpen) addFacts(folder, entry);
    look.entries.push_back(std::move(entry));
  }
  look.isWhole = errno == 0;
  return look;
}

}  // namespace winnow
