#include "sale_board.h"

namespace flash_sale {

void HalfBoard::Clear() {
  const std::lock_guard lock(mutex_);
  reading_ = {};
  course_ = {};
}

void HalfBoard::SetStage(Stage stage) {
  const std::lock_guard lock(mutex_);
  reading_.stage = stage;
}

void HalfBoard::Add(const LiveFigures& figures) {
  const std::lock_guard lock(mutex_);
  course_.Add(figures);
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
  Reading reading = reading_;
  reading.course = course_.moments();
  return reading;
}

void SaleBoard::Begin(const examples::SaleRequest& sale) {
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
