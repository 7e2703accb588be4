// Every link of a document to another file, or to a heading, leads somewhere.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/temp_dir.h"

namespace stockade {
namespace {

namespace fs = std::filesystem;

// The lines that are not within a block of code, without their `code`.
std::vector<std::string> Prose(const fs::path& document) {
  static const std::regex code("`[^`]*`");
  std::ifstream in(document);
  std::vector<std::string> prose;
  bool in_block = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(' ') != std::string::npos &&
        line.substr(line.find_first_not_of(' ')).starts_with("```")) {
      in_block = !in_block;
    } else if (!in_block) {
      // A heading's code is part of its name.
      prose.push_back(line.starts_with('#') ? line : std::regex_replace(line, code, ""));
    }
  }
  return prose;
}

// "How it works, in short" as a page calls its place: "how-it-works-in-short".
std::string Anchor(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') {
      anchor += '-';
    } else if (c == '-' || c == '_' || std::isalnum(static_cast<unsigned char>(c)) || (c & 0x80) != 0) {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return anchor;
}

std::set<std::string> Anchors(const fs::path& document) {
  static const std::regex heading("#{1,6} +(.*?) *");
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  std::set<std::string> anchors;
  std::map<std::string, int> seen;
  for (const std::string& line : Prose(document)) {
    std::smatch match;
    if (!std::regex_match(line, match, heading)) continue;
    std::string anchor = Anchor(std::regex_replace(match[1].str(), link, "$1"));
    const int before = seen[anchor]++;
    anchors.insert(before == 0 ? anchor : anchor + "-" + std::to_string(before));
  }
  return anchors;
}

// What a document links to: [text](target), [name]: target, <a href="target">, <img src="target">.
std::vector<std::string> Targets(const fs::path& document) {
  static const std::regex forms[] = {std::regex(R"(\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\))"),
                                     std::regex(R"(^\[[^\]]+\]:\s*(\S+))"),
                                     std::regex(R"re((?:href|src)="([^"]+)")re")};
  std::vector<std::string> targets;
  for (const std::string& line : Prose(document)) {
    for (const std::regex& form : forms) {
      for (std::sregex_iterator it(line.begin(), line.end(), form), end; it != end; ++it) {
        targets.push_back((*it)[1].str());
      }
    }
  }
  return targets;
}

// "target: why", of what leads nowhere. Pages of other hosts are not looked at.
std::vector<std::string> BrokenLinks(const fs::path& document) {
  static const std::regex elsewhere("[a-z][a-z+.-]*:.*");
  std::vector<std::string> broken;
  for (const std::string& target : Targets(document)) {
    if (std::regex_match(target, elsewhere)) continue;
    const size_t hash = target.find('#');
    const std::string path = target.substr(0, hash);
    const fs::path file = path.empty() ? document : document.parent_path() / path;
    if (!fs::exists(file)) {
      broken.push_back(target + ": no such file");
    } else if (hash != std::string::npos && file.extension() == ".md" &&
               !Anchors(file).contains(target.substr(hash + 1))) {
      broken.push_back(target + ": no such heading");
    }
  }
  return broken;
}

// Not what builds have put there.
std::vector<fs::path> Documents(const fs::path& root) {
  std::vector<fs::path> documents;
  for (fs::recursive_directory_iterator it(root), end; it != end; ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name == "build" || name == ".git" || name == "node_modules")) {
      it.disable_recursion_pending();
    } else if (it->path().extension() == ".md") {
      documents.push_back(it->path());
    }
  }
  return documents;
}

TEST(LinksTest, OfEveryDocument_LeadSomewhere) {
  const std::vector<fs::path> documents = Documents(STOCKADE_SOURCE_DIR);
  size_t links = 0;
  for (const fs::path& document : documents) {
    links += Targets(document).size();
    for (const std::string& broken : BrokenLinks(document)) ADD_FAILURE() << document << " links to " << broken;
  }
  EXPECT_GE(documents.size(), 10u);
  EXPECT_GE(links, 20u);
}

TEST(LinksTest, BrokenLinks_AreFoundInAllForms) {
  const testing::TempDir dir;
  std::ofstream(dir.File("there.md")) << "# It's `there`, and [here](there.md)\n## Twice\n## Twice\n";
  std::ofstream(dir.File("page.md"))
      << "# Page\n"
      << "[a](there.md) [b](there.md#its-there-and-here) [c](#page) [d](there.md#twice-1)\n"
      << "[e](https://example.org/gone.md) `[f](gone.md)`\n"
      << "```\n[g](gone.md)\n```\n"
      << "[h](gone1.md) ![i](gone2.svg \"a title\") <img src=\"gone3.png\">\n"
      << "[j]: gone4.md\n[k](there.md#nowhere) [l](#nowhere)\n";
  const std::vector<std::string> expected = {
      "gone1.md: no such file", "gone2.svg: no such file",           "gone3.png: no such file",
      "gone4.md: no such file", "there.md#nowhere: no such heading", "#nowhere: no such heading"};
  EXPECT_EQ(BrokenLinks(dir.File("page.md")), expected);
}

}  // namespace
}  // namespace stockade
