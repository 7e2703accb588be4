// CompressedCodec(): what it compresses, its bounds, and damaged bytes.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "stockade/cache/compressed_codec.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/memory_cache_tier.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

using cache_internal::Compress;
using cache_internal::Decompress;

std::string Compressed(const std::string& plain, const CompressionOptions& options = {}) {
  std::string bytes = "what was there";
  EXPECT_EQ(Compress(plain, options, &bytes), absl::OkStatus());
  return bytes;
}

std::string Noise(size_t size) {
  std::mt19937 random(static_cast<uint32_t>(size));
  std::string noise;
  while (noise.size() < size) noise.push_back(static_cast<char>(random()));
  return noise;
}

TEST(CompressedCodecTest, Bytes_OfAnySize_ComeBack) {
  for (const size_t size : {0, 1, 511, 512, 513, 65'535, 65'536, 1'000'000}) {
    for (const std::string& plain : {std::string(size, 'x'), Noise(size)}) {
      const std::string bytes = Compressed(plain);
      EXPECT_EQ(Decompress(bytes, {}).value(), plain);
      EXPECT_LE(bytes.size(), size + 1);
    }
    EXPECT_EQ(Compressed(std::string(size, 'x')).size() < size, size >= 512) << size;
    EXPECT_EQ(Compressed(Noise(size)).size(), size + 1) << "noise stays as it is";
  }
}

TEST(CompressedCodecTest, MaxDecodedBytes_BelowAtAndAbove) {
  const CompressionOptions options{.max_decoded_bytes = 1000};
  for (const size_t size : {999, 1000}) {
    EXPECT_EQ(Decompress(Compressed(std::string(size, 'x'), options), options)->size(), size);
  }
  std::string bytes;
  for (const std::string& large : {std::string(1001, 'x'), Noise(1001)}) {
    EXPECT_EQ(Compress(large, options, &bytes).code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(Decompress(Compressed(large), options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(CompressedCodecTest, Options_OutOfBounds_AreRefusedByName) {
  for (const auto& [options, text] :
       {std::pair(CompressionOptions{.level = 0}, "level = 0"),
        {CompressionOptions{.level = 10}, "level = 10"},
        {CompressionOptions{.max_decoded_bytes = (1 << 30) + 1}, "max_decoded_bytes = "}}) {
    const absl::Status refused = CompressedCodec<std::string, std::string>({}, options).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find(text), std::string_view::npos) << refused;
  }
  for (const int level : {1, 9}) EXPECT_EQ(CompressionOptions{.level = level}.Validate(), absl::OkStatus());
  struct Thing {};
  EXPECT_EQ((CompressedCodec<std::string, Thing>().status().code()), absl::StatusCode::kInvalidArgument);
}

// A checksum sees what is changed in the stream, and nothing is allocated that the stream cannot become.
TEST(CompressedCodecTest, DamagedBytes_AreRefusedOrTheSame) {
  std::mt19937_64 random(Seed());
  const std::string plain = Noise(100) + std::string(2'000, 'x');
  const std::string whole = Compressed(plain);
  ASSERT_LT(whole.size(), plain.size());
  for (int64_t i = 0; i < Scaled(5'000, 200'000); ++i) {
    std::string damaged = whole;
    switch (random() % 3) {
      case 0: damaged.resize(random() % whole.size()); break;
      case 1: damaged += static_cast<char>(random()); break;
      default: damaged[random() % whole.size()] ^= static_cast<char>(1 << random() % 8);
    }
    const absl::StatusOr<std::string> read = Decompress(damaged, {});
    if (!damaged.empty() && damaged[0] != whole[0]) continue;  // Perhaps it is now said not to be compressed.
    if (read.ok()) {
      EXPECT_EQ(*read, plain) << "a bit that zlib does not use";
    } else {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_FALSE(Decompress("", {}).ok());
  EXPECT_FALSE(Decompress(std::string_view("\1\xff\xff\xff\x3f\x78", 6), {.max_decoded_bytes = 1 << 30}).ok());
}

TEST(CompressedCodecTest, CacheWithATier_StoresLessAndAnswersTheSame) {
  const auto tier = MemoryCacheTier::Create({.max_value_bytes = 1'000});
  using Pages = LoadingCache<std::string, std::string>;
  int loads = 0;
  const auto open = [&] {
    Pages::Callbacks callbacks;
    callbacks.load = [&](const std::string& path) -> absl::StatusOr<std::string> {
      ++loads;
      return std::string(10'000, path[0]);
    };
    callbacks.codec = *CompressedCodec<std::string, std::string>();
    EXPECT_EQ(callbacks.codec.id, "bytes+zlib");
    return Pages::Create({.name = "pages", .ttl = absl::Minutes(1), .tier = tier, .metrics = nullptr}, callbacks)
        .value();
  };
  const auto here = open(), there = open();
  EXPECT_EQ(**here->Get("a"), std::string(10'000, 'a'));
  EXPECT_EQ(**there->Get("a"), std::string(10'000, 'a'));
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace stockade::testing
