#ifndef STOCKADE_INVENTORY_CHECKSUM_VFS_H_
#define STOCKADE_INVENTORY_CHECKSUM_VFS_H_

#include <sqlite3.h>

#include <cstdint>

#include "page_checksum.h"

namespace stockade::inventory_internal {

// A layer between SQLite and its default VFS that gives each page of a ledger's file a checksum, in the bytes that
// SQLite reserves for such uses, and checks it whenever SQLite reads the page: a page that does not fit is
// SQLITE_IOERR_DATA. The file remains one that every SQLite reads.
//
// Pages in the write-ahead log have their checksums, too, so that it does not matter who moves them into the file: us,
// or sqlite3's shell. SQLite computes the log's own checksums before this layer is called, so it computes them again;
// it writes a frame's header together with the page, in one call instead of two.
//
// It offers neither shared memory nor memory maps: locking_mode must be EXCLUSIVE. Whichever VFS is the default when a
// file is opened is the one below.
struct ChecksumVfs {
  // Its name, for sqlite3_open_v2(). Registers it when called first. Thread-safe.
  static const char* Name();

  // From now on pages of the connection's file have checksums; `need` is what page 1 says on the disk. Before the first
  // read. Without this call the layer changes and checks nothing.
  static void Enable(sqlite3* connection, LogNeed need);

  // Writes into page 1 what it is to say of the log, and syncs the file. What is torn of that by a crash leaves a page
  // 1 that does not fit, unless the log has it: each generation of the log must.
  static int SetLogNeed(sqlite3* connection, LogNeed need);

  // The page that was found damaged last; 0: none.
  static uint32_t DamagedPage(sqlite3* connection);
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_CHECKSUM_VFS_H_
