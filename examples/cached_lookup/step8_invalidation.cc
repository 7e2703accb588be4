#include <string>

#include "steps.h"

namespace cached_lookup {
namespace {

constexpr int kBrand = 3;
constexpr int kNewPrice = 120;
const std::vector<int> kOfTheBrand = {30, 31, 32, 33, 34};

enum class Told { kNothing, kTag, kThrough };

std::string TagOf(int brand) { return "brand:" + std::to_string(brand); }

// New prices for a brand whose products are cached; then everybody asks.
Row ChangePrices(Told told) {
  Setting setting;
  ProductCache products(Step6Options(setting),
                        [&](const int& id, stockade::LoadContext& load) -> absl::StatusOr<Product> {
                          absl::StatusOr<Product> product = setting.db.Find(id);
                          if (product.ok()) load.AddTag(TagOf(product->brand));
                          return product;
                        });
  for (const int id : kOfTheBrand) (void)products.Get(id);
  absl::Status changed;
  for (const int id : kOfTheBrand) {
    const auto write = [&] { return setting.db.SetPrice(id, kNewPrice); };
    // Invalidates before and after the write, whatever it returns. The one to use for a single product.
    changed.Update(told == Told::kThrough ? products.UpdateThrough(id, write) : write());
  }
  // All that depends on the brand, at once: after a change that touches many products.
  if (told == Told::kTag) products.InvalidateTag(TagOf(kBrand));
  Row row = AskForEach(setting, LookupIn(products), kOfTheBrand, kNewPrice);
  row.errors += !changed.ok();
  return row;
}

}  // namespace

std::vector<Row> Step8Invalidation() {
  return {Named("8", "5 prices change", ChangePrices(Told::kNothing)),
          Named("", "+ InvalidateTag", ChangePrices(Told::kTag)),
          Named("", "or UpdateThrough", ChangePrices(Told::kThrough))};
}

}  // namespace cached_lookup
