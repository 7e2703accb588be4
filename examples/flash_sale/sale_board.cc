#include "sale_board.h"

namespace flash_sale {

void HalfBoard::Clear() {
  const std::lock_guard lock(mutex_);
  reading_ = {};
  moments_each_ = 1;
  moments_passed_ = 0;
}

void HalfBoard::SetStage(Stage stage) {
  const std::lock_guard lock(mutex_);
  reading_.stage = stage;
}

void HalfBoard::Add(const LiveFigures& figures) {
  const std::lock_guard lock(mutex_);
  std::vector<LiveFigures>& course = reading_.course;
  // The newest is always there, in the place of one that is not to be kept.
  if (moments_passed_ > 0) course.pop_back();
  course.push_back(figures);
  moments_passed_ = (moments_passed_ + 1) % moments_each_;
  if (moments_passed_ > 0 || course.size() < kMostMoments) return;
  std::vector<LiveFigures> thinner;
  for (size_t i = 1; i < course.size(); i += 2) thinner.push_back(course[i]);
  course.swap(thinner);
  moments_each_ *= 2;
}

void HalfBoard::Judge(const StockAudit& audit, double loads_per_expiry) {
  const std::lock_guard lock(mutex_);
  reading_.stage = Stage::kDone;
  reading_.audit = audit;
  reading_.loads_per_expiry = loads_per_expiry;
}

Stage HalfBoard::stage() const {
  const std::lock_guard lock(mutex_);
  return reading_.stage;
}

HalfBoard::Reading HalfBoard::Read() const {
  const std::lock_guard lock(mutex_);
  return reading_;
}

void SaleBoard::Begin(const SaleRequest& sale) {
  const std::lock_guard lock(mutex_);
  sale_ = sale;
  naive.Clear();
  stockade.Clear();
}

SaleBoard::Reading SaleBoard::Read() const {
  const std::lock_guard lock(mutex_);
  return {.sale = sale_, .naive = naive.Read(), .stockade = stockade.Read()};
}

}  // namespace flash_sale
