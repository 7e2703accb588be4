#ifndef STOCKADE_BENCH_LEDGER_PEERS_H_
#define STOCKADE_BENCH_LEDGER_PEERS_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/suite.h"
#include "ledger/peer_shop.h"

namespace stockade::bench {

struct Peer {
  std::string name;
  // Returns an empty shop, the only one of this peer. Starts the peer's server if none runs yet; the server runs while
  // there is a copy of this Peer.
  std::function<std::shared_ptr<PeerShop>()> open;
  bool has_targets = false;
  // Orders in one transaction, all or none; null if the peer has none. `shop` is one that `open` returned.
  std::function<void(PeerShop& shop, size_t client, std::span<const std::string> request_ids)> take_many = nullptr;
};

// Those that can be run here, at least one; the suite notes the others. Servers first, which a smoke test does without
// unless STOCKADE_BENCH_SERVERS is set.
std::vector<Peer> FindPeers(Suite& suite);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_PEERS_H_
