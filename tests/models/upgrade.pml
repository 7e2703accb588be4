// TryUpgrade(), from a read to a write, against a head of the queue that drains, fast readers, and another
// TryUpgrade().
//
// Reader(r)  a thread that reads, by publication or centrally, may try to upgrade (LockCore::TryUpgrade(),
//            AccessGate::TryUpgrade()), and leaves. Two rounds.
// Writer     the heads of the queue, one after the other: Append(), CallBack(), in and out, or a drain that gives up.
//
// Invariants. Who has upgraded, or entered to write, is alone (assertions). The draining Writer is woken by an upgrade
// of the reader that it waits for, though that reader does not leave, and nobody waits for ever (no invalid end state).
//
// An upgrade may fail without another reader inside: one that has published, and has not looked at kBias yet, looks the
// same. It may pass a waiting writer: even the one that drains, which then finds the lock not enterable, and kPublished
// clear already.
//
// Left out: the look beforehand, which only keeps attempts from being made; parking and the queue of more than one are
// in hand_off.pml; a central reader, and the head, wait on a condition. Memory and macros: entries.pml.
//
// Broken here: LOOK_WITHOUT_FENCE (no Heavy() before the look at the other entries), NO_UPGRADE_WAKE (no look at
// `wanted` when the own entry ceases to be a published read), NO_COUNT (no look at the central readers),
// SUBTRACT_PUBLISHED (the end of a drain takes kPublished to be set).

#include "published_reads.pml"

#define ROUNDS 2
#if defined(WEAK) || defined(FALLBACK)
#define WRITES 1  // For the size of it.
#else
#define WRITES 2
#endif

bool mutex;

mtype = {by_publication, by_word, write};

inline Lock() { atomic { !mutex -> mutex = true } }
inline Unlock() { mutex = false }

#define OWN_COUNT (how == by_word -> 1 : 0)

inline TryUpgrade() {
  Lock();
  atomic { had_claim = claim; claim = true; had_published = published; alone = (central == OWN_COUNT) }
  atomic { had_bias = bias; bias = false }
#ifdef NO_COUNT
  alone = true;
#endif
  if
  :: alone && had_published ->
#ifndef LOOK_WITHOUT_FENCE
     Heavy(me);
#endif
     alone = !entry[1 - me]
  :: else
  fi;
  if
  :: alone ->
     atomic {
       central = 0;
       published = false;
       claim = had_claim;
       reading--;
       assert(!writing && reading == 0);
       writing = true
     }
     if
     :: how == by_publication ->
#ifdef NO_UPGRADE_WAKE
        buffer[me]!false
#else
        Unpublish(me)  // In the code the entry then says that the word knows of the hold.
#endif
     :: how == by_word  // In the code as well, which answers no more than a mark that is out of date.
     fi;
     how = write
  :: !alone -> atomic { bias = bias || had_bias; claim = had_claim }
  fi;
  atomic { had_bias = false; had_claim = false; had_published = false; alone = false }
  Unlock();
}

proctype Reader(byte me) {
  byte round;
  byte p;
  bool had_bias;
  bool had_claim;
  bool had_published;
  bool alone;
  mtype how;
  do
  :: round < ROUNDS ->
     LoadEarly(me, bias);
     buffer[me]!true;
     Light(me);
     if
     :: atomic { LOADED(me, bias) -> early[me] = NOT_YET; reading++; how = by_publication; assert(!writing) }
     :: atomic { !LOADED(me, bias) -> early[me] = NOT_YET }
        Unpublish(me);
        EnterCentrally(me);
        how = by_word
     fi;
     if
     :: TryUpgrade()
     :: true
     fi;
     if
     :: how == by_publication -> reading--; Unpublish(me)
     :: how == by_word -> atomic { reading--; central-- }
     :: how == write -> atomic { empty(buffer[me]) -> writing = false }  // A release: earlier stores come first.
     fi;
     how = 0;
     round++
  :: else -> break
  od
}

// Waits until it may enter, for the mutex too.
#define ENTERABLE (!mutex && !writing && central == 0)

proctype Writer() {
  byte writes;
  byte p;
  byte next;
  bool any;
  bool drained;
  bool timed_out;
  do
  :: writes < WRITES ->
     atomic { !mutex -> queued = true; bias = false }
     do
     :: atomic { ENTERABLE && published -> claim = true }
        Drain();
        atomic {
          !mutex ->
          if
          :: drained ->
#ifdef SUBTRACT_PUBLISHED
             assert(published);
#endif
             published = false
          :: else -> assert(!published || !writing); bias = published; claim = false; queued = false; break
          fi
        }
     :: atomic { ENTERABLE && !published -> claim = false; queued = false; assert(reading == 0); writing = true }
        writing = false;
        break
     od;
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
