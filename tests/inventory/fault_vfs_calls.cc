// The functions that SQLite calls.

#include <cerrno>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "inventory/fault_vfs.h"

namespace stockade::testing {

// As SQLite wants them: see sqlite3_vfs and sqlite3_io_methods. An open file is a File, behind it the file of the VFS
// below.
struct FaultVfsCalls {
  struct File {
    sqlite3_file as_sqlite;  // First, because it is what SQLite holds.
    FaultVfs* vfs;
    bool syncs_directory;  // At the next sync, as SQLite's own VFS does.
    std::string path;
  };
  static_assert(sizeof(File) % 8 == 0);  // Of what SQLite asks for the alignment of the file behind it.

  static constexpr int kJournals = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;

  static FaultVfs& Of(sqlite3_vfs* vfs) { return *static_cast<FaultVfs*>(vfs->pAppData); }
  static File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
  static sqlite3_file* Base(sqlite3_file* file) { return reinterpret_cast<sqlite3_file*>(&Of(file) + 1); }

  static bool Concerns(FaultVfs& vfs, const char* name) {
    return name != nullptr && std::string_view(name).starts_with(vfs.directory_);
  }

  static int Open(sqlite3_vfs* self, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    FaultVfs& vfs = Of(self);
    if (!Concerns(vfs, name)) return vfs.base_->xOpen(vfs.base_, name, file, flags, out_flags);
    const std::lock_guard lock(vfs.mutex_);
    file->pMethods = nullptr;
    const bool was_there = std::filesystem::exists(name);
    const FaultVfs::Verdict verdict = vfs.Judge(FaultVfs::Call::kOpen, name);
    if (verdict.code != SQLITE_OK && verdict.reach == FaultVfs::Reach::kNothing) return verdict.code;
    Of(file).vfs = &vfs;
    const int code = vfs.base_->xOpen(vfs.base_, name, Base(file), flags, out_flags);
    if (code != SQLITE_OK) return code;
    if (was_there) {
      vfs.platter_.Find(name);
    } else {
      vfs.platter_.Create(name);
    }
    if (verdict.code != SQLITE_OK) {
      Base(file)->pMethods->xClose(Base(file));
      return verdict.code;
    }
    Of(file).syncs_directory = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & kJournals) != 0;
    new (&Of(file).path) std::string(name);
    file->pMethods = &kMethods;
    return SQLITE_OK;
  }

  static int Remove(sqlite3_vfs* self, const char* name, int sync_directory) {
    FaultVfs& vfs = Of(self);
    if (!Concerns(vfs, name)) return vfs.base_->xDelete(vfs.base_, name, sync_directory);
    const std::lock_guard lock(vfs.mutex_);
    const FaultVfs::Verdict verdict = vfs.Judge(FaultVfs::Call::kRemove, name);
    if (verdict.code != SQLITE_OK && verdict.reach == FaultVfs::Reach::kNothing) return verdict.code;
    vfs.platter_.Find(name);
    const int code = vfs.base_->xDelete(vfs.base_, name, 0);
    if (code != SQLITE_OK) return code;
    vfs.platter_.Remove(name);
    if (sync_directory != 0 && verdict.code == SQLITE_OK && !vfs.lying_sync_) vfs.platter_.SyncDirectory();
    return verdict.code;
  }

  static int Access(sqlite3_vfs* self, const char* name, int flags, int* result) {
    FaultVfs& vfs = Of(self);
    if (Concerns(vfs, name) && vfs.power_is_off()) return SQLITE_IOERR_ACCESS;
    return vfs.base_->xAccess(vfs.base_, name, flags, result);
  }

  static int FullPathname(sqlite3_vfs* self, const char* name, int size, char* out) {
    FaultVfs& vfs = Of(self);
    return vfs.base_->xFullPathname(vfs.base_, name, size, out);
  }

  static int Close(sqlite3_file* file) {
    const int code = Base(file)->pMethods->xClose(Base(file));
    std::destroy_at(&Of(file).path);
    return code;
  }

  static int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
    if (Of(file).vfs->power_is_off()) return SQLITE_IOERR_READ;
    return Base(file)->pMethods->xRead(Base(file), to, size, offset);
  }

  static int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
    FaultVfs& vfs = *Of(file).vfs;
    const std::string& path = Of(file).path;
    const std::lock_guard lock(vfs.mutex_);
    const FaultVfs::Verdict verdict = vfs.Judge(FaultVfs::Call::kWrite, path);
    int64_t reached = size;
    if (verdict.reach == FaultVfs::Reach::kNothing) reached = 0;
    if (verdict.reach == FaultVfs::Reach::kPart) reached = size / 2;
    const int64_t room = vfs.RoomFor(path, offset, reached);
    const bool full = room < reached;
    if (full) reached = room;
    if (reached > 0) {
      const int code = Base(file)->pMethods->xWrite(Base(file), from, static_cast<int>(reached), offset);
      if (code != SQLITE_OK) return code;
      vfs.platter_.Write(path, offset, {static_cast<const char*>(from), static_cast<size_t>(reached)});
    }
    if (full) errno = ENOSPC;
    if (verdict.code != SQLITE_OK) return verdict.code;
    return full ? SQLITE_FULL : SQLITE_OK;
  }

  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    FaultVfs& vfs = *Of(file).vfs;
    const std::lock_guard lock(vfs.mutex_);
    const FaultVfs::Verdict verdict = vfs.Judge(FaultVfs::Call::kTruncate, Of(file).path);
    if (verdict.code != SQLITE_OK && verdict.reach == FaultVfs::Reach::kNothing) return verdict.code;
    const int code = Base(file)->pMethods->xTruncate(Base(file), size);
    if (code != SQLITE_OK) return code;
    vfs.platter_.Truncate(Of(file).path, size);
    return verdict.code;
  }

  static int Sync(sqlite3_file* file, int) {
    FaultVfs& vfs = *Of(file).vfs;
    const std::string& path = Of(file).path;
    const std::lock_guard lock(vfs.mutex_);
    const FaultVfs::Verdict verdict = vfs.Judge(FaultVfs::Call::kSync, path);
    if (vfs.power_is_off_ || vfs.lying_sync_) return verdict.code;
    switch (verdict.reach) {
      case FaultVfs::Reach::kNothing: vfs.platter_.SyncNothing(path); break;
      case FaultVfs::Reach::kPart: vfs.platter_.SyncInPart(path, vfs.random_); break;
      case FaultVfs::Reach::kAll: vfs.platter_.Sync(path); break;
    }
    if (verdict.code == SQLITE_OK && std::exchange(Of(file).syncs_directory, false)) vfs.platter_.SyncDirectory();
    return verdict.code;
  }

  static int FileSize(sqlite3_file* file, sqlite3_int64* size) {
    if (Of(file).vfs->power_is_off()) return SQLITE_IOERR_FSTAT;
    return Base(file)->pMethods->xFileSize(Base(file), size);
  }

  static int Lock(sqlite3_file* file, int level) { return Base(file)->pMethods->xLock(Base(file), level); }
  static int Unlock(sqlite3_file* file, int level) { return Base(file)->pMethods->xUnlock(Base(file), level); }
  static int CheckReservedLock(sqlite3_file* file, int* result) {
    return Base(file)->pMethods->xCheckReservedLock(Base(file), result);
  }
  static int FileControl(sqlite3_file* file, int operation, void* argument) {
    return Base(file)->pMethods->xFileControl(Base(file), operation, argument);
  }
  static int SectorSize(sqlite3_file* file) { return Base(file)->pMethods->xSectorSize(Base(file)); }
  static int DeviceCharacteristics(sqlite3_file* file) {
    return Base(file)->pMethods->xDeviceCharacteristics(Base(file));
  }

  // Version 1: no shared memory, no memory maps.
  static constexpr sqlite3_io_methods kMethods = {
      .iVersion = 1,
      .xClose = Close,
      .xRead = Read,
      .xWrite = Write,
      .xTruncate = Truncate,
      .xSync = Sync,
      .xFileSize = FileSize,
      .xLock = Lock,
      .xUnlock = Unlock,
      .xCheckReservedLock = CheckReservedLock,
      .xFileControl = FileControl,
      .xSectorSize = SectorSize,
      .xDeviceCharacteristics = DeviceCharacteristics,
      .xShmMap = nullptr,
      .xShmLock = nullptr,
      .xShmBarrier = nullptr,
      .xShmUnmap = nullptr,
      .xFetch = nullptr,
      .xUnfetch = nullptr,
  };
};

void FaultVfs::SetCalls(sqlite3_vfs& vfs, const sqlite3_vfs& base) {
  vfs.szOsFile = static_cast<int>(sizeof(FaultVfsCalls::File)) + base.szOsFile;
  vfs.xOpen = FaultVfsCalls::Open;
  vfs.xDelete = FaultVfsCalls::Remove;
  vfs.xAccess = FaultVfsCalls::Access;
  vfs.xFullPathname = FaultVfsCalls::FullPathname;
}

}  // namespace stockade::testing
