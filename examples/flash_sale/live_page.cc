#include "live_page.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "api.h"
#include "common/api_server.h"

namespace flash_sale {
namespace {

class Page final : public LivePage {
 public:
  bool Bind(uint16_t port) { return server_.Bind(port); }
  uint16_t port() const override { return server_.port(); }

  void Start(const SaleBoard* board, ShopDoor* door, examples::SaleRequests* requests) override {
    api_.emplace(board, door, requests);
    server_.Start([this](const auto& request, auto& response) { api_->Respond(request, response); },
                  {"/orders", "/returns", "/sales"});
  }

 private:
  std::optional<Api> api_;  // Before the server, whose threads use it.
  examples::ApiServer server_{Api::Refusal};
};

}  // namespace

absl::StatusOr<std::unique_ptr<LivePage>> LivePage::Bind(uint16_t port) {
  auto page = std::make_unique<Page>();
  if (!page->Bind(port)) return absl::UnavailableError(absl::StrCat("cannot listen on 127.0.0.1:", port));
  return page;
}

}  // namespace flash_sale
