#ifndef STOCKADE_TESTS_INVENTORY_MOUNT_NAMESPACE_H_
#define STOCKADE_TESTS_INVENTORY_MOUNT_NAMESPACE_H_

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace stockade::testing {

// In the calling process: file systems that nobody else sees, and that are gone with it. False: this machine lets it
// not.
inline bool EnterMountNamespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
  if (user != 0) {
    // Without these it could not make files on what it mounts.
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << absl::StrCat("0 ", user, " 1");
    std::ofstream("/proc/self/gid_map") << absl::StrCat("0 ", group, " 1");
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Mounts an empty file system of `bytes`.
inline bool MountSmallDisk(const std::string& directory, int64_t bytes) {
  return mount("tmpfs", directory.c_str(), "tmpfs", 0, absl::StrCat("size=", bytes).c_str()) == 0;
}

// Remounts what MountSmallDisk() has mounted; no file may be open for writing.
inline bool SetReadOnly(const std::string& directory, bool on) {
  return mount("none", directory.c_str(), nullptr, MS_REMOUNT | (on ? MS_RDONLY : 0), nullptr) == 0;
}

// Makes one file read-only for every user, also root, until MakeWritable().
inline bool MakeReadOnly(const std::string& file) {
  return mount(file.c_str(), file.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
         mount("none", file.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
}
inline bool MakeWritable(const std::string& file) { return umount(file.c_str()) == 0; }

// Runs `body` in a forked child with mounts of its own; what fails in it fails the test. False, and nothing is run:
// this machine lets nobody mount, or not this user.
template <typename Body>
bool InMountNamespace(const Body& body) {
  constexpr int kNoMounts = 77;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (!EnterMountNamespace()) _exit(kNoMounts);
    body();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMounts) return false;
  EXPECT_EQ(status, 0) << "in the child; see above";
  return true;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_MOUNT_NAMESPACE_H_
