#include "inventory/crash/witness.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace stockade::testing {
namespace {

int64_t Number(const std::string& text) {
  int64_t number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &number)) << text;
  return number;
}

std::string LinesOf(const Plan& plan) {
  return absl::StrJoin(plan.lines, ",", [](std::string* out, const OrderLine& line) {
    absl::StrAppend(out, line.sku, "=", line.quantity);
  });
}

}  // namespace

void Witness::BeginRound(const Round& round) {
  begun_.resize(round.number, absl::Now());
  begun_.push_back(absl::Now());
  shortest_ = std::min(shortest_, round.retention);
  answered_.assign(round.threads, 0);
}

void Witness::Hear(std::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(absl::string_view(line.data(), line.size()), ' ');
  if (words.size() < 2 || words[0].size() != 1) return Complain(line);
  const char what = words[0][0];
  if (std::string_view("rRAD").find(what) != std::string_view::npos) return HearStock(what, words);
  const std::optional<Key> key = KeyCalled(words[1]);
  if (!key.has_value() || words.size() < 3) return Complain(line);
  if (key->round + 1 == begun_.size() && key->thread < answered_.size()) {
    answered_[key->thread] = std::max(answered_[key->thread], key->index + 1);
  }
  // What got nothing is not remembered.
  static Known nothing;
  const auto found = known_.find(key->packed());
  Known& known = what == 'g' ? known_[key->packed()] : found == known_.end() ? (nothing = {}) : found->second;
  switch (what) {
    case 'g': return HearGrant(*key, known, words);
    case 'n': return HearRefusal(*key, known, words[2]);
    case 'c': return HearCommit(*key, known, words[2]);
    case 'x': return HearCancel(*key, known, words[2]);
    case 'b': return HearReturn(*key, known, words[2]);
    default: return Complain(line);
  }
}

void Witness::HearGrant(const Key& key, Known& known, const std::vector<std::string>& words) {
  if (words.size() != 6) return Complain(key, "half a line");
  const Plan plan = PlanOf(world_, key);
  if (words[4] != plan.buyer || words[5] != LinesOf(plan)) Complain(key, "got what it did not ask for: " + words[5]);
  const auto order_id = static_cast<uint64_t>(Number(words[2]));
  const int64_t expires_us = Number(words[3]);
  if (known.order_id == 0) {
    known.order_id = order_id;
    known.expires_us = expires_us;
    known.sold = plan.call == Plan::Call::kTake;
    ++orders_;
    return;
  }
  ++repeats_;
  repeats_of_former_rounds_ += key.round + 1 < begun_.size();
  if (known.gone) Complain(key, "was forgotten, and got units again");
  if (known.order_id != order_id) Complain(key, absl::StrCat("got order ", known.order_id, ", then ", order_id));
  if (known.expires_us != expires_us) Complain(key, "got another answer when it was repeated");
}

void Witness::HearRefusal(const Key& key, const Known& known, const std::string& refusal) {
  if (refusal == "request_forgotten") {
    if (known.order_id == 0 || !MayBeForgotten(key)) Complain(key, "was forgotten too early");
  } else if (known.order_id != 0) {
    Complain(key, "got units, then it was refused: " + refusal);
  } else if (refusal != "sold_out" && refusal != "all_held" && refusal != "buyer_limit" &&
             !(refusal == "unknown_sku" && PlanOf(world_, key).own_sku)) {
    Complain(key, "was refused: " + refusal);
  }
}

void Witness::HearCommit(const Key& key, Known& known, const std::string& answer) {
  if (answer == "ok") {
    if (known.cancelled) Complain(key, "was cancelled, and then committed");
    if (known.never_sold) Complain(key, "could not be committed, and then could");
    known.sold = true;
  } else if (answer == "refused") {
    if (known.sold) Complain(key, "was sold, and could not be committed again");
    known.never_sold = true;
  } else if (!MayBeForgotten(key)) {
    Complain(key, "its order was forgotten when it was to be committed");
  }
}

void Witness::HearCancel(const Key& key, Known& known, const std::string& answer) {
  if (answer == "ok") {
    if (known.sold) Complain(key, "was sold, and then cancelled");
    known.cancelled = true;
  } else if (answer == "refused") {
    if (known.cancelled || known.never_sold) Complain(key, "could not be cancelled again");
    known.sold = true;
  } else if (!MayBeForgotten(key)) {
    Complain(key, "its order was forgotten when it was to be cancelled");
  }
}

void Witness::HearReturn(const Key& key, Known& known, const std::string& answer) {
  const Plan plan = PlanOf(world_, key);
  Stock& stock = stock_[plan.lines[0].sku];
  if (answer == "try" && !known.return_tried) {
    known.return_tried = true;
    ++stock.return_tried;
    stock.write_off_tried += plan.writes_off;
  }
  if (answer != "ok") return;
  if (known.cancelled || known.never_sold) Complain(key, "was not sold, and came back");
  known.sold = true;
  stock.returned += !known.returned;
  known.returned = true;
}

void Witness::HearStock(char what, const std::vector<std::string>& words) {
  Stock& stock = stock_[words[1]];
  switch (what) {
    case 'A': stock.added = true; break;
    case 'D': stock.removed = true; break;
    case 'r': stock.attempted += Number(words[2]); break;
    default: stock.promised += Number(words[2]); break;
  }
}

bool Witness::MayBeForgotten(const Key& key) const {
  return key.round < begun_.size() && absl::Now() - begun_[key.round] >= shortest_;
}

void Witness::Complain(const Key& key, std::string_view what) {
  Complain(absl::StrCat("request ", key.request_id(), ": ", absl::string_view(what.data(), what.size())));
}

void Witness::Complain(std::string_view what) {
  constexpr int kShown = 20;  // One fault brings many.
  if (++complaints_ <= kShown) ADD_FAILURE() << what;
}

}  // namespace stockade::testing
