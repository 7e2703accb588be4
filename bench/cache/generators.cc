#include "cache/generators.h"

#include <algorithm>

#include "flash_sale/zipf.h"

namespace stockade::bench {
namespace {

using Keys = std::vector<uint64_t>;

constexpr size_t kKeys = 20'000;
constexpr uint64_t kOtherKeys = uint64_t{1} << 32;  // Added to keys that no other generator draws.

Keys Zipf(size_t requests, double exponent, uint64_t seed, size_t keys = kKeys) {
  return flash_sale::ZipfViews(requests, keys, exponent, seed);
}

Keys Loop(size_t requests) {
  Keys keys(requests);
  for (size_t i = 0; i < requests; ++i) keys[i] = i % 5000;
  return keys;
}

// Every second request is the next of a loop over 2,000 keys. A tenth of all keys has room for most of the loop, but
// only if the cache keeps what it holds of it.
Keys LoopAndZipf(size_t requests) {
  Keys keys = Zipf(requests, 0.9, 7);
  for (size_t i = 0; i < requests; i += 2) keys[i] = kOtherKeys + i / 2 % 2000;
  return keys;
}

// Of each 10,000 requests, 2,000 in a row are for keys that are requested only once.
Keys Scans(size_t requests) {
  Keys keys = Zipf(requests, 0.9, 2);
  for (size_t i = 0; i < requests; ++i) {
    if (i % 10'000 >= 8'000) keys[i] = kOtherKeys + i;
  }
  return keys;
}

// 100,000 keys once, and then a load that has nothing to do with them.
Keys ScanThenZipf(size_t requests) {
  Keys keys = Zipf(requests, 0.9, 8);
  for (size_t i = 0; i < std::min<size_t>(requests, 100'000); ++i) keys[i] = kOtherKeys + i;
  return keys;
}

// Each 20,000 requests popularity moves on by 997 keys: those that were the most popular are not asked for any more.
Keys Shifting(size_t requests) {
  Keys keys = Zipf(requests, 0.9, 3);
  for (size_t i = 0; i < requests; ++i) keys[i] += i / 20'000 * 997;
  return keys;
}

// Each 50,000 requests all keys are replaced at once.
Keys Replaced(size_t requests) {
  constexpr size_t kHot = 5000;
  Keys keys = Zipf(requests, 0.8, 6, kHot);
  for (size_t i = 0; i < requests; ++i) keys[i] += i / 50'000 * kHot;
  return keys;
}

}  // namespace

std::vector<Generator> Generators(size_t requests) {
  return {{"Zipf 0.7", [=] { return Zipf(requests, 0.7, 1); }},
          {"Zipf 0.9", [=] { return Zipf(requests, 0.9, 1); }},
          {"Zipf 1.1", [=] { return Zipf(requests, 1.1, 1); }},
          {"loop", [=] { return Loop(requests); }},
          {"loop and Zipf 0.9", [=] { return LoopAndZipf(requests); }},
          {"Zipf 0.9 and scans", [=] { return Scans(requests); }},
          {"scan, then Zipf 0.9", [=] { return ScanThenZipf(requests); }},
          {"shifting hot set", [=] { return Shifting(requests); }},
          {"replaced hot set", [=] { return Replaced(requests); }}};
}

}  // namespace stockade::bench
