#include "stockade/base/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace stockade::base_internal {
namespace {

TEST(PrintableTest, Printable_TextOfPrintableUtf8_StaysAsItIs) {
  for (const std::string text : {"", "lock 'till' is gone", "C:\\temp",
                                 "gr\xc3\xb6\xc3\x9f"
                                 "e",
                                 "\xe2\x82\xac", "\xf0\x9f\x9b\x92", "\xc2\xa0", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_TRUE(IsPrintable(text)) << text;
  }
}

TEST(PrintableTest, Printable_ControlsAndBadUtf8_BecomeEscapes) {
  const struct {
    std::string text;
    std::string shown;
  } cases[] = {
      {"a\nb\r\tc", "a\\nb\\r\\tc"},
      {"\x1b[31mred", "\\x1b[31mred"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b", "\\xc2\\x9b"},                    // CSI, as one character of C1.
      {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},           // U+2028, a line separator.
      {"caf\xe9", "caf\\xe9"},                       // Latin-1.
      {"\xc3", "\\xc3"},                             // Cut short.
      {"\xc3(", "\\xc3("},                           // No continuation.
      {"\x80", "\\x80"},                             // A continuation alone.
      {"\xc0\xaf", "\\xc0\\xaf"},                    // Overlong.
      {"\xe0\x80\x80", "\\xe0\\x80\\x80"},           // Overlong.
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // A surrogate.
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // Above U+10FFFF.
      {"\xff\xfe", "\\xff\\xfe"},
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(Printable(text), shown);
    EXPECT_FALSE(IsPrintable(text)) << shown;
    EXPECT_TRUE(IsPrintable(Printable(text))) << shown;
  }
}

TEST(PrintableTest, Printable_LongText_IsCutAfterAWholeCharacter) {
  EXPECT_EQ(Printable("abcd", 4), "abcd");
  EXPECT_EQ(Printable("abcde", 4), "abcd [cut: 5 bytes in all]");
  EXPECT_EQ(Printable("abc\xc3\xb6", 4), "abc [cut: 5 bytes in all]");
  EXPECT_EQ(Printable("abc\n", 4), "abc [cut: 4 bytes in all]");
  EXPECT_EQ(Printable("a", 0), " [cut: 1 bytes in all]");
}

TEST(PrintableTest, CheckName_EmptyOrUnprintable_IsRefusedAndShownEscaped) {
  EXPECT_EQ(CheckName("Shop: name", "gr\xc3\xb6n"), absl::OkStatus());
  EXPECT_EQ(CheckName("Shop: name", ""), absl::InvalidArgumentError("Shop: name is empty"));
  EXPECT_EQ(CheckName("Shop: name", "caf\xe9\n"),
            absl::InvalidArgumentError("Shop: name 'caf\\xe9\\n' is not printable UTF-8"));
  EXPECT_LT(CheckName("Shop: name", std::string(1'000'000, '\n')).message().size(), 300u);
}

}  // namespace
}  // namespace stockade::base_internal
