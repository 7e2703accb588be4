// The fast read path against Drain(): a read is taken by publishing it in the reader's own entry and then looking at
// kBias; a writer clears kBias and then looks at the entries. Each side's store has to be seen by the other's load.
//
// Reader(r)  a thread that reads: TryLockSharedFast() or TryPublishRead() (publish, look at kBias; the look before that
//            promises nothing), else through the word, TryLockSharedCounted() or Enter(), where it sets kBias again;
//            UnlockShared(). Two rounds, so that an entry is published anew, and a mark of an earlier drain is met.
// Writer     the heads of the queue, one after the other (the queue's mutex orders them): Append(), CallBack() with
//            DrainPublished(), in and out; or a drain that gives up, and LeaveQueue() gives kBias back; or try_lock,
//            CallBack() with HasPublished().
//
// Invariants. No reader is inside while a writer is (assertions). No wake-up is lost: with nobody left to run, everyone
// has ended (no invalid end state).
//
// Left out: re-entry and overflowing entries touch nothing shared, or are central reads. Parking and the hand-off from
// writer to writer are in hand_off.pml and parking.pml; here a central reader waits on a condition.
//
// Memory and macros: entries.pml.

#ifndef WEAK
#define TRY_LOCK
#endif
#include "published_reads.pml"

#define ROUNDS 2
#if defined(FALLBACK) && defined(WEAK)
#define WRITES 1  // For the size of it.
#else
#define WRITES 2
#endif

proctype Reader(byte me) {
  byte round;
  do
  :: round < ROUNDS ->
     LoadEarly(me, bias);
     buffer[me]!true;
     Light(me);
     if
     :: atomic { LOADED(me, bias) -> early[me] = NOT_YET; reading++; assert(!writing) }
        reading--;
        Unpublish(me);
     :: atomic { !LOADED(me, bias) -> early[me] = NOT_YET }
        Unpublish(me);
        EnterCentrally(me);
        atomic { reading--; central-- }
     fi;
     round++
  :: else -> break
  od
}

proctype Writer() {
  byte writes;
  byte p;
  byte next;
  bool any;
  bool drained;
  bool timed_out;
  do
  :: writes < WRITES ->
     atomic { queued = true; bias = false }
     if
     :: atomic { central == 0 && published -> claim = true }
        Drain();
        if
        :: drained -> published = false
        :: else -> atomic { bias = published; claim = false; queued = false }
        fi
     :: central == 0 && !published -> drained = true
     fi;
     if
     :: drained ->
        atomic {
          central == 0 && !published -> claim = false; queued = false;
          writing = true;
          assert(reading == 0);
        }
        writing = false
     :: else
     fi;
     drained = false;
     writes++
  :: else -> break
  od
}

init {
  atomic {
    run Reader(0);
    run Reader(1);
    run Writer();
  }
}
