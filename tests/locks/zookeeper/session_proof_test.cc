#include "session_proof.h"

#include <gtest/gtest.h>

namespace stockade::locks_internal {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);

Instant At(int milliseconds) { return Instant() + absl::Milliseconds(milliseconds); }

TEST(SessionProofTest, OneTransaction_ProvesNothing) {
  SessionProof proof(kTick);
  EXPECT_EQ(proof.Committed(At(0), At(1)), std::nullopt);
}

TEST(SessionProofTest, ATickLater_ProvesTheOneBefore) {
  SessionProof proof(kTick);
  EXPECT_EQ(proof.Committed(At(0), At(10)), std::nullopt);
  EXPECT_EQ(proof.Committed(At(110), At(120)), At(0));
  EXPECT_EQ(proof.Committed(At(220), At(230)), At(110));
}

TEST(SessionProofTest, SentWithinATickOfTheAnswer_ProvesNothing) {
  SessionProof proof(kTick);
  EXPECT_EQ(proof.Committed(At(0), At(10)), std::nullopt);
  EXPECT_EQ(proof.Committed(At(109), At(500)), std::nullopt);  // It is when it was sent that counts.
  EXPECT_EQ(proof.Committed(At(110), At(510)), At(0));
}

TEST(SessionProofTest, ManyTransactions_ProveOneEachTick) {
  SessionProof proof(kTick);
  int proofs = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::optional<Instant> proven = proof.Committed(At(i), At(i));
    if (!proven) continue;
    ++proofs;
    EXPECT_GE(*proven, At(i) - 2 * kTick);
    EXPECT_LE(*proven, At(i) - kTick);
  }
  EXPECT_EQ(proofs, 9);
}

}  // namespace
}  // namespace stockade::locks_internal
