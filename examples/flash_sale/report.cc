#include "report.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace flash_sale {
namespace {

std::string Time(absl::Duration span) {
  const double us = absl::ToDoubleMicroseconds(span);
  return us < 1000 ? absl::StrFormat("%.1f us", us) : absl::StrFormat("%.1f ms", us / 1000);
}

std::string LoadsPerExpiry(const HotKeyFigures& hot) {
  return absl::StrFormat("%.2f (%d / %d)", hot.LoadsPerExpiry(), hot.queries, 1 + hot.expiries);
}

std::string Row(const char* what, const std::string& naive, const std::string& stockade) {
  return absl::StrFormat("%-44s %18s %18s\n", what, naive, stockade);
}

template <typename Figure>
std::string CountRow(const char* what, const HalfReport& naive, const HalfReport& stockade, Figure figure) {
  return Row(what, absl::StrCat(figure(naive)), absl::StrCat(figure(stockade)));
}

}  // namespace

std::string ReportTable(const HalfReport& naive, const HalfReport& stockade) {
  const auto time = [](const HalfReport& half, double share) { return Time(half.load.page_views.Quantile(share)); };
  const auto speed = [](const HalfReport& half) { return absl::StrFormat("%.0f", half.load.sale.orders_per_second); };
  std::string table = Row("", "naive", "Stockade");
  absl::StrAppend(
      &table,
      Row("queries for the sale's page per expiry", LoadsPerExpiry(naive.load.hot_key),
          LoadsPerExpiry(stockade.load.hot_key)),
      CountRow("page views", naive, stockade, [](const HalfReport& half) { return half.load.page_views.count(); }),
      Row("page view, p50", time(naive, 0.5), time(stockade, 0.5)),
      Row("page view, p99", time(naive, 0.99), time(stockade, 0.99)),
      CountRow("orders accepted", naive, stockade, [](const HalfReport& half) { return half.load.sale.orders; }),
      CountRow("  cancelled", naive, stockade, [](const HalfReport& half) { return half.load.cancelled; }),
      CountRow("  left to run out", naive, stockade, [](const HalfReport& half) { return half.load.abandoned; }),
      CountRow("requests sent twice", naive, stockade, [](const HalfReport& half) { return half.load.retried; }),
      CountRow("  taken twice", naive, stockade, [](const HalfReport& half) { return half.audit.duplicates; }),
      CountRow("units oversold", naive, stockade, [](const HalfReport& half) { return half.audit.oversold; }),
      CountRow("sold-out answers", naive, stockade, [](const HalfReport& half) { return half.load.sale.refusals; }),
      CountRow("  wrong: a unit was free all along", naive, stockade,
               [](const HalfReport& half) { return half.load.sale.wrong_refusals; }),
      CountRow("calls that failed", naive, stockade, [](const HalfReport& half) { return half.load.errors; }),
      Row("orders a second, until first sold out", speed(naive), speed(stockade)));
  return table;
}

}  // namespace flash_sale
