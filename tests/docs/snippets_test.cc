// Every C++ block of a document stands, line by line, in a file that is compiled.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kSource = STOCKADE_SOURCE_DIR;

std::string Trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string> Lines(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Trimmed(line));
  return lines;
}

std::vector<fs::path> Files(const fs::path& dir, const std::string& extension, bool recursive) {
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(dir), end; it != end; ++it) {
    if (it->is_directory() && !recursive) it.disable_recursion_pending();
    if (it->path().extension() == extension) files.push_back(it->path());
  }
  return files;
}

// The ```cpp blocks of a document.
std::vector<std::vector<std::string>> Blocks(const fs::path& document) {
  std::vector<std::vector<std::string>> blocks;
  bool inside = false;
  for (const std::string& line : Lines(document)) {
    if (!inside && line == "```cpp") {
      inside = true;
      blocks.emplace_back();
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back().push_back(line);
    }
  }
  return blocks;
}

bool Contains(const std::vector<std::string>& text, const std::vector<std::string>& block) {
  return std::search(text.begin(), text.end(), block.begin(), block.end()) != text.end();
}

std::vector<fs::path> Documents() {
  std::vector<fs::path> documents = Files(kSource, ".md", false);
  for (const char* dir :
       {"base", "metrics", "locks", "cache", "inventory", "redis", "mysql", "docs", "bench", "examples"}) {
    for (const fs::path& file : Files(kSource / dir, ".md", true)) documents.push_back(file);
  }
  return documents;
}

TEST(DocumentsTest, CppBlocks_OfEveryDocument_StandInCompiledCode) {
  std::vector<std::vector<std::string>> compiled;
  for (const char* dir : {"tests/docs", "examples"}) {
    for (const fs::path& file : Files(kSource / dir, ".cc", true)) compiled.push_back(Lines(file));
  }
  size_t blocks = 0;
  for (const fs::path& document : Documents()) {
    for (const auto& block : Blocks(document)) {
      ++blocks;
      const bool found =
          std::any_of(compiled.begin(), compiled.end(), [&](const auto& text) { return Contains(text, block); });
      EXPECT_TRUE(found) << document
                         << ": this block is compiled nowhere, it begins: " << (block.empty() ? "" : block.front());
    }
  }
  EXPECT_GE(blocks, 1u) << "README.md has no snippet";
}

// Snippets are copied. value() aborts the program that did not check.
TEST(DocumentsTest, CppBlocks_OfEveryDocument_UnwrapNothingUnchecked) {
  for (const fs::path& document : Documents()) {
    for (const auto& block : Blocks(document)) {
      for (const std::string& line : block) {
        EXPECT_EQ(line.find(".value()"), std::string::npos) << document << ": " << line;
      }
    }
  }
}

// Somebody who opens it sees all of it.
TEST(DocumentsTest, Readme_HasAtMost160Lines) { EXPECT_LE(Lines(kSource / "README.md").size(), 160u); }

}  // namespace
