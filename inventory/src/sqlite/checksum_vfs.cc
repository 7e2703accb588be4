#include "checksum_vfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "write_ahead_log.h"

namespace stockade::inventory_internal {
namespace {

// File controls of our own, far from those of SQLite.
constexpr int kEnable = 0x53746b00;       // LogNeed*
constexpr int kSetLogNeed = 0x53746b01;   // LogNeed*
constexpr int kDamagedPage = 0x53746b02;  // uint32_t*, out.

// Of an open write-ahead log. SQLite writes a frame in two calls, its header and its page, and each with the checksum
// of a page that has none yet.
struct FrameWriter {
  int64_t pending = 0;  // The frame whose header has been kept back; 0: none.
  unsigned char pending_header[kFrameHeaderBytes];
  std::optional<LogHeader> header;  // Nothing: not read yet.
  int64_t last = 0;                 // The frame that `checksum` is of; 0: the header.
  LogChecksum checksum;

  int Write(sqlite3_file* base, const unsigned char* bytes, int size, int64_t offset) {
    const int64_t place = (offset - kLogHeaderBytes) % kFrameBytes;
    const int64_t frame = (offset - kLogHeaderBytes) / kFrameBytes + 1;
    if (offset >= kLogHeaderBytes && place == 0 && size == kFrameHeaderBytes) {
      const int code = WritePending(base);
      pending = frame;
      std::memcpy(pending_header, bytes, kFrameHeaderBytes);
      return code;
    }
    if (offset >= kLogHeaderBytes && place == kFrameHeaderBytes && size == kPageBytes) {
      return WritePage(base, frame, bytes);
    }
    if (const int code = WritePending(base); code != SQLITE_OK) return code;
    if (offset == 0) header.reset();
    return base->pMethods->xWrite(base, bytes, size, offset);
  }

  // A header that SQLite writes again to a page that is there: a transaction has changed the page once more.
  int WritePending(sqlite3_file* base) {
    if (pending == 0) return SQLITE_OK;
    const int64_t frame = std::exchange(pending, 0);
    unsigned char page[kPageBytes];
    int code = base->pMethods->xRead(base, page, kPageBytes, FrameOffset(frame) + kFrameHeaderBytes);
    if (code == SQLITE_OK) code = Chain(base, frame, pending_header, page);
    if (code != SQLITE_OK) return code;
    return base->pMethods->xWrite(base, pending_header, kFrameHeaderBytes, FrameOffset(frame));
  }

 private:
  int WritePage(sqlite3_file* base, int64_t frame, const unsigned char* page) {
    unsigned char bytes[kFrameBytes];
    unsigned char* const copy = bytes + kFrameHeaderBytes;
    std::memcpy(copy, page, kPageBytes);
    const bool whole = pending == frame;
    int code = SQLITE_OK;
    if (whole) {
      std::memcpy(bytes, pending_header, kFrameHeaderBytes);
      pending = 0;
    } else {
      code = WritePending(base);
      if (code == SQLITE_OK) code = base->pMethods->xRead(base, bytes, kFrameHeaderBytes, FrameOffset(frame));
    }
    if (code != SQLITE_OK) return code;
    WritePageChecksum(copy, PageChecksum(copy, ReadBigEndian(bytes)));
    if (!whole) return base->pMethods->xWrite(base, copy, kPageBytes, FrameOffset(frame) + kFrameHeaderBytes);
    code = Chain(base, frame, bytes, copy);
    return code == SQLITE_OK ? base->pMethods->xWrite(base, bytes, kFrameBytes, FrameOffset(frame)) : code;
  }

  // Gives `frame_header` its checksum.
  int Chain(sqlite3_file* base, int64_t frame, unsigned char* frame_header, const unsigned char* page) {
    if (!header.has_value()) {
      unsigned char bytes[kLogHeaderBytes];
      if (const int code = base->pMethods->xRead(base, bytes, kLogHeaderBytes, 0); code != SQLITE_OK) return code;
      header = LogHeader::Parse(bytes);
      if (!header.has_value()) return SQLITE_IOERR_DATA;
      last = 0;
      checksum = header->checksum;
    }
    if (frame == 1) {
      checksum = header->checksum;
    } else if (last != frame - 1) {
      unsigned char bytes[8];
      const int code = base->pMethods->xRead(base, bytes, 8, FrameOffset(frame - 1) + 16);
      if (code != SQLITE_OK) return code;
      checksum = ReadLogChecksum(bytes);
    }
    checksum = header->OfFrame(checksum, frame_header, page);
    last = frame;
    WriteLogChecksum(frame_header + 16, checksum);
    return SQLITE_OK;
  }
};

// An open file, which SQLite allocates, frees, and knows by its first member.
struct File {
  sqlite3_file as_sqlite;
  std::unique_ptr<char[]> base_memory;
  File* database;  // Of a log; of a database itself; else null.
  bool is_log;
  bool enabled;          // Of a database.
  bool log_need_failed;  // Page 1 may be torn.
  LogNeed need;
  uint32_t damaged_page;
  FrameWriter frames;  // Of a log.

  sqlite3_file* base() const { return reinterpret_cast<sqlite3_file*>(base_memory.get()); }
  bool checked() const { return database != nullptr && database->enabled; }

  int Damaged(uint32_t page) {
    database->damaged_page = page;
    return SQLITE_IOERR_DATA;
  }

  int SetLogNeed(LogNeed now) {
    unsigned char page[kPageBytes];
    int code = base()->pMethods->xRead(base(), page, kPageBytes, 0);
    if (code != SQLITE_OK) return code;
    if (!log_need_failed && !PageIsIntact(page, 1)) return Damaged(1);
    log_need_failed = true;
    need = now;
    WritePageChecksum(page, PageChecksum(page, 1, now));
    constexpr int kOffset = kPageBytes - kPageChecksumBytes;
    code = base()->pMethods->xWrite(base(), page + kOffset, kPageChecksumBytes, kOffset);
    if (code == SQLITE_OK) code = base()->pMethods->xSync(base(), SQLITE_SYNC_NORMAL);
    if (code == SQLITE_OK) log_need_failed = false;
    return code;
  }
};

File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
sqlite3_file* Base(sqlite3_file* file) { return Of(file).base(); }

// Hands a call on as it is.
template <auto kMethod, typename... Arguments>
int Pass(sqlite3_file* file, Arguments... arguments) {
  return (Base(file)->pMethods->*kMethod)(Base(file), arguments...);
}

int Close(sqlite3_file* file) {
  const int code = Base(file)->pMethods->xClose(Base(file));
  std::destroy_at(&Of(file));
  return code;
}

int ReadLogPage(File& file, void* to, int64_t offset) {
  unsigned char bytes[kFrameBytes];
  const int code = file.base()->pMethods->xRead(file.base(), bytes, kFrameBytes, offset - kFrameHeaderBytes);
  if (code != SQLITE_OK) return code;
  const uint32_t number = ReadBigEndian(bytes);
  std::memcpy(to, bytes + kFrameHeaderBytes, kPageBytes);
  return PageIsIntact(bytes + kFrameHeaderBytes, number) ? SQLITE_OK : file.Damaged(number);
}

int Read(sqlite3_file* self, void* to, int size, sqlite3_int64 offset) {
  File& file = Of(self);
  if (file.checked() && file.is_log) {
    if (const int code = file.frames.WritePending(file.base()); code != SQLITE_OK) return code;
    if (size == kPageBytes && (offset - kLogHeaderBytes) % kFrameBytes == kFrameHeaderBytes) {
      return ReadLogPage(file, to, offset);
    }
  }
  const int code = file.base()->pMethods->xRead(file.base(), to, size, offset);
  // Others than whole pages: the few bytes of the header that SQLite reads before it has a page.
  if (!file.checked() || file.is_log || size != kPageBytes || offset % kPageBytes != 0) return code;
  const auto* const page = static_cast<const unsigned char*>(to);
  if (code == SQLITE_IOERR_SHORT_READ) {
    // The rest is zeros now. All of it is where the file ends before the page: SQLite knows what to make of that.
    if (std::all_of(page, page + kPageBytes, [](unsigned char byte) { return byte == 0; })) return code;
  } else if (code != SQLITE_OK) {
    return code;
  }
  const auto number = static_cast<uint32_t>(offset / kPageBytes + 1);
  return PageIsIntact(page, number) ? code : file.Damaged(number);
}

int Write(sqlite3_file* self, const void* from, int size, sqlite3_int64 offset) {
  File& file = Of(self);
  const auto* const bytes = static_cast<const unsigned char*>(from);
  if (file.checked() && file.is_log) return file.frames.Write(file.base(), bytes, size, offset);
  if (!file.checked() || size != kPageBytes || offset % kPageBytes != 0) {
    return file.base()->pMethods->xWrite(file.base(), from, size, offset);
  }
  const auto number = static_cast<uint32_t>(offset / kPageBytes + 1);
  unsigned char page[kPageBytes];
  std::memcpy(page, bytes, kPageBytes);
  WritePageChecksum(page, PageChecksum(page, number, number == 1 ? file.need : LogNeed::kNone));
  return file.base()->pMethods->xWrite(file.base(), page, size, offset);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  Of(file).frames = {};
  return Base(file)->pMethods->xTruncate(Base(file), size);
}

int Sync(sqlite3_file* file, int flags) {
  if (const int code = Of(file).frames.WritePending(Base(file)); code != SQLITE_OK) return code;
  return Base(file)->pMethods->xSync(Base(file), flags);
}

int FileControl(sqlite3_file* self, int operation, void* argument) {
  File& file = Of(self);
  switch (operation) {
    case kEnable:
      file.enabled = true;
      file.need = *static_cast<LogNeed*>(argument);
      return SQLITE_OK;
    case kSetLogNeed: return file.SetLogNeed(*static_cast<LogNeed*>(argument));
    case kDamagedPage: *static_cast<uint32_t*>(argument) = file.damaged_page; return SQLITE_OK;
    default: return file.base()->pMethods->xFileControl(file.base(), operation, argument);
  }
}

// Version 1: no shared memory, no memory maps.
constexpr sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose = Close,
    .xRead = Read,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = Pass<&sqlite3_io_methods::xFileSize>,
    .xLock = Pass<&sqlite3_io_methods::xLock>,
    .xUnlock = Pass<&sqlite3_io_methods::xUnlock>,
    .xCheckReservedLock = Pass<&sqlite3_io_methods::xCheckReservedLock>,
    .xFileControl = FileControl,
    .xSectorSize = Pass<&sqlite3_io_methods::xSectorSize>,
    .xDeviceCharacteristics = Pass<&sqlite3_io_methods::xDeviceCharacteristics>,
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

// Not kept: a test replaces the default.
sqlite3_vfs* BaseVfs() { return sqlite3_vfs_find(nullptr); }

template <auto kMethod, typename... Arguments>
int PassToVfs(sqlite3_vfs*, Arguments... arguments) {
  sqlite3_vfs* const base = BaseVfs();
  return (base->*kMethod)(base, arguments...);
}

// Why no file can be made at `name`. When SQLite's own VFS cannot make a file, it tries to open it for reading, and
// leaves in errno that there is none.
int ErrnoOfMaking(const char* name) {
  const int descriptor = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno;
  close(descriptor);
  unlink(name);
  return EAGAIN;  // It could be made by now.
}

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_vfs* const vfs = BaseVfs();
  file->pMethods = nullptr;
  std::unique_ptr<char[]> memory(new (std::nothrow) char[static_cast<size_t>(vfs->szOsFile)]());
  if (memory == nullptr) return SQLITE_NOMEM;
  const int code = vfs->xOpen(vfs, name, reinterpret_cast<sqlite3_file*>(memory.get()), flags, out_flags);
  // SQLite closes what has methods, even after an error.
  if (code != SQLITE_OK) {
    auto* const base = reinterpret_cast<sqlite3_file*>(memory.get());
    if (base->pMethods != nullptr) base->pMethods->xClose(base);
    if (code == SQLITE_CANTOPEN && (flags & SQLITE_OPEN_CREATE) != 0 && errno == ENOENT) errno = ErrnoOfMaking(name);
    return code;
  }
  File* const self = new (file) File{};
  self->as_sqlite.pMethods = &kMethods;
  self->base_memory = std::move(memory);
  self->is_log = (flags & SQLITE_OPEN_WAL) != 0;
  if (self->is_log) self->database = &Of(sqlite3_database_file_object(name));
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) self->database = self;
  return SQLITE_OK;
}

}  // namespace

const char* ChecksumVfs::Name() {
  // Never unregistered: connections may outlive the objects of static storage duration.
  static sqlite3_vfs* const vfs = [] {
    auto* const made = new sqlite3_vfs{};
    made->iVersion = 1;
    made->szOsFile = sizeof(File);
    made->mxPathname = BaseVfs()->mxPathname;
    made->zName = "stockade-checksum";
    made->xOpen = Open;
    made->xDelete = PassToVfs<&sqlite3_vfs::xDelete>;
    made->xAccess = PassToVfs<&sqlite3_vfs::xAccess>;
    made->xFullPathname = PassToVfs<&sqlite3_vfs::xFullPathname>;
    made->xRandomness = PassToVfs<&sqlite3_vfs::xRandomness>;
    made->xSleep = PassToVfs<&sqlite3_vfs::xSleep>;
    made->xCurrentTime = PassToVfs<&sqlite3_vfs::xCurrentTime>;
    made->xGetLastError = PassToVfs<&sqlite3_vfs::xGetLastError>;
    sqlite3_vfs_register(made, 0);
    return made;
  }();
  return vfs->zName;
}

void ChecksumVfs::Enable(sqlite3* connection, LogNeed need) {
  sqlite3_file_control(connection, "main", kEnable, &need);
}

int ChecksumVfs::SetLogNeed(sqlite3* connection, LogNeed need) {
  return sqlite3_file_control(connection, "main", kSetLogNeed, &need);
}

uint32_t ChecksumVfs::DamagedPage(sqlite3* connection) {
  uint32_t page = 0;
  sqlite3_file_control(connection, "main", kDamagedPage, &page);
  return page;
}

}  // namespace stockade::inventory_internal
