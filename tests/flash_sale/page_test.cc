// The page of --serve, as a browser shows it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "flash_sale/demo.h"
#include "flash_sale/http.h"
#include "support/needs_program.h"

namespace stockade::testing {
namespace {

// The document once its scripts have run. No name of another machine leads anywhere.
RunResult DumpDom(uint16_t port, const std::string& profile) {
  return RunToEnd({"timeout", "60", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                   "--user-data-dir=" + profile, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                   "--virtual-time-budget=2000", "--dump-dom", "http://127.0.0.1:" + std::to_string(port) + "/"});
}

std::string Replace(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// What `pattern`, with one group, finds in `text`.
std::vector<std::string> FindAll(const std::string& text, const std::string& pattern) {
  const std::regex form(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), form), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

std::string TextById(const std::string& dom, const std::string& id) {
  const std::vector<std::string> texts = FindAll(dom, "id=\"" + id + "\"[^>]*>([^<]*)<");
  return texts.size() == 1 ? texts[0] : "";
}

struct ShownMetric {
  std::string selector;
  std::string quantile;  // Empty: a plain figure.
  std::string text;
};

std::vector<ShownMetric> ShownMetrics(const std::string& dom) {
  const std::regex form(R"re(<dd data-metric="([^"]*)"(?: data-quantile="([^"]*)")?>([^<]*)</dd>)re");
  std::vector<ShownMetric> shown;
  for (std::sregex_iterator at(dom.begin(), dom.end(), form), end; at != end; ++at) {
    shown.push_back({Replace((*at)[1], "&quot;", "\""), (*at)[2], (*at)[3]});
  }
  return shown;
}

// The samples of name{label="value",...}, whose lines have all of these labels: by the label le, or "".
std::map<double, double> Samples(const std::string& metrics, const std::string& name, const std::string& labels) {
  const std::vector<std::string> wanted = FindAll(labels, R"re((\w+="[^"]*"))re");
  std::map<double, double> values;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const size_t value = line.rfind(' ');
    if (!line.starts_with(name) || (line[name.size()] != '{' && line[name.size()] != ' ')) continue;
    if (!std::ranges::all_of(wanted, [&](const std::string& label) { return line.find(label) != std::string::npos; })) {
      continue;
    }
    const std::vector<std::string> bound = FindAll(line, R"re(le="([^"]*)")re");
    values[bound.empty() ? 0 : std::stod(bound[0])] += std::stod(line.substr(value + 1));
  }
  return values;
}

// By the definition of Prometheus' histogram_quantile().
double Quantile(const std::map<double, double>& buckets, double share) {
  const double rank = share * buckets.rbegin()->second;
  double lower = 0, below = 0;
  for (const auto& [bound, count] : buckets) {
    if (count >= rank) return std::isinf(bound) ? lower : lower + (bound - lower) * (rank - below) / (count - below);
    lower = bound;
    below = count;
  }
  return NAN;
}

// "1,234", "1.50 ms" and "12.3 µs" as numbers, the last two in seconds.
double Number(const std::string& text) {
  const double value = std::stod(Replace(text, ",", ""));
  if (text.ends_with("\xc2\xb5s")) return value / 1e6;
  return text.ends_with("ms") ? value / 1e3 : value;
}

void ExpectShownAsExported(const ShownMetric& shown, const std::string& metrics) {
  SCOPED_TRACE(shown.selector + " " + shown.quantile);
  const size_t brace = shown.selector.find('{');
  ASSERT_NE(brace, std::string::npos);
  const std::string name = shown.selector.substr(0, brace), labels = shown.selector.substr(brace);
  const auto samples = Samples(metrics, name + (shown.quantile.empty() ? "" : "_bucket"), labels);
  ASSERT_FALSE(samples.empty());
  if (shown.quantile.empty()) {
    EXPECT_EQ(Number(shown.text), samples.at(0));
  } else {
    const double expected = Quantile(samples, std::stod(shown.quantile));
    EXPECT_NEAR(Number(shown.text), expected, expected * 0.01 + 1e-7);
  }
}

// Nothing of the page's source is fetched from elsewhere, nor could it be.
void ExpectSelfContained(uint16_t port) {
  const std::string answer = RawAnswer(port, "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(answer.find("Content-Security-Policy: default-src 'none';"), std::string::npos);
  const std::string page = Replace(BodyOf(answer), "'http://www.w3.org/2000/svg'", "");  // A name, not an address.
  for (const char* const outside : {"//", "@import", "url(", "src="}) {
    for (size_t at = page.find(outside); at != std::string::npos; at = page.find(outside, at + 1)) {
      // A comment of a script.
      const bool comment = std::string(outside) == "//" && page.find_last_of('\n', at) == at - 1;
      EXPECT_TRUE(comment) << page.substr(at, 80);
    }
  }
}

TEST(FlashSalePageTest, Page_DuringAndAfterTheRun_ShowsWhatIsSoldAndExported) {
  STOCKADE_NEEDS_PROGRAM("chromium", "chromium");
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run"), {"--seconds", "8", "--shards", "5", "--serve"}));
  ASSERT_TRUE(demo.AwaitOutput("naive: the sale opens")) << demo.err();
  const uint16_t port = PortOf(demo);
  ExpectSelfContained(port);

  const RunResult during = DumpDom(port, dir.File("chromium"));
  ASSERT_EQ(during.status, 0) << during.err;
  SCOPED_TRACE(demo.out() + during.out);
  const std::string phase = TextById(during.out, "phase");
  EXPECT_TRUE(phase.starts_with("naive: ") || phase.starts_with("stockade: ")) << phase;
  EXPECT_EQ(FindAll(during.out, "(aria-current=\"step\")").size(), 1u);
  EXPECT_EQ(FindAll(during.out, "id=\"shard-(\\d+)\"").size(), 5u);
  EXPECT_EQ(FindAll(during.out, "data-sale=\"stock\">([^<]*)<")[0], "200");

  ASSERT_TRUE(demo.AwaitOutput("\naudit: ")) << demo.err();
  const RunResult after = DumpDom(port, dir.File("chromium"));
  ASSERT_EQ(after.status, 0) << after.err;
  EXPECT_EQ(TextById(after.out, "phase"), "done");
  const std::string metrics = Scrape(port);
  const std::vector<ShownMetric> shown = ShownMetrics(after.out);
  EXPECT_EQ(shown.size(), FindAll(after.out, "(data-metric=\")").size());
  EXPECT_GE(shown.size(), 10u);
  for (const ShownMetric& metric : shown) ExpectShownAsExported(metric, metrics);

  const auto stockade = ParseAudit(LastLine(demo.out()));
  const std::string naive_prefix = "naive    ";
  const auto naive = ParseAudit(LineOf(demo.out(), naive_prefix).substr(naive_prefix.size()));
  ASSERT_TRUE(stockade && naive);
  EXPECT_EQ(Number(TextById(after.out, "naive-oversold")), static_cast<double>(naive->oversold));
  EXPECT_EQ(Number(TextById(after.out, "naive-duplicates")), static_cast<double>(naive->duplicates));
  // 6.625 is 6.62 to printf and 6.63 to a browser.
  EXPECT_NEAR(Number(TextById(after.out, "naive-queries_per_expiry")), std::stod(naive->loads_per_expiry), 0.0101);
  EXPECT_EQ(Number(TextById(after.out, "stockade-oversold")), static_cast<double>(stockade->oversold));
  EXPECT_EQ(Number(TextById(after.out, "stockade-duplicates")), static_cast<double>(stockade->duplicates));
  EXPECT_EQ(TextById(after.out, "stockade-queries_per_expiry"), stockade->loads_per_expiry);
}

}  // namespace
}  // namespace stockade::testing
