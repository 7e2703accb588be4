#ifndef STOCKADE_TESTS_SUPPORT_TEMP_DIR_H_
#define STOCKADE_TESTS_SUPPORT_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace stockade::testing {

// A directory that is gone, with all that is in it, with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "stockade_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;  // A destructor must not throw.
    std::filesystem::remove_all(path_, ignored);
  }

  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_TEMP_DIR_H_
