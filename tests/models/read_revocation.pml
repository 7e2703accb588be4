// The fast read path against Drain(): a read is taken by publishing it in the reader's own entry and then looking at
// kBias; a writer clears kBias and then looks at the entries. Each side's store has to be seen by the other's load.
//
// Reader(r)      a thread that reads: fast (publish, Light(), check kBias), else through the word, where it sets kBias
//                again. Two rounds, so that an entry is published anew, and a mark of an earlier drain is met.
// Writer         the heads of the queue, one after the other (the queue's mutex orders them): Drain(), in and out, or a
//                drain that gives up on its deadline and gives kBias back.
// StoreBuffers   the processors: lets stores reach the memory at any later time.
//
// Invariants. No reader is inside while a writer is (assertions). No wake-up is lost: with nobody left to run, everyone
// has ended (no invalid end state).
//
// Memory. Promela's is sequentially consistent, so the stores of one side are spelt out: `buffer[r]` holds Reader(r)'s
// stores to its entry's `lock`, first in first out, which is all of x86's reordering: a read-modify-write waits for the
// buffer to be empty, and a load goes ahead of it. `unmarked[r]` is the Writer's store to `wanted` on its way. Heavy()
// (membarrier) empties the buffer of one thread after the other; Light() does nothing.
//   -DWEAK     what arm64 allows besides: read-modify-writes do not wait for the buffer, and the loads of kBias and of
//              `wanted` may take their values before earlier stores *and* loads of their thread, but not from before a
//              Heavy(). Stores to the one address stay in order on any machine, and data is not modelled: that a read
//              stays within acquire and release is the language's promise.
//   -DFALLBACK where the kernel refuses membarrier: Light() and Heavy() are full fences of their own thread.
//
// Left out: re-entry and overflowing entries touch nothing shared, or are central reads. Parking and the hand-off from
// writer to writer: hand_off.pml and parking.pml; here a central reader waits on a condition. A time-out or a spurious
// end of a futex wait is a choice made when the wait begins: the thread may be slow to run on, so that is the same.
//
// Broken: NO_FENCE (no Heavy() before the scan), NO_MARK_FENCE (none after marking), NO_RECHECK (no look at the entry
// after marking).

#define READERS 2
#define ROUNDS 2
#define WRITES 2

// The entry of each reader, in memory.
bool entry[READERS];   // lock == L|1.
bool wanted[READERS];  // Also the futex word.

// The word. `claim` keeps central readers out, `queued` keeps them from setting `bias`.
bool bias = true;
bool published = true;
bool claim;
bool queued;
byte central;

chan buffer[READERS] = [4] of {bool};
bool unmarked[READERS];

// A load that was done ahead of its turn.
#define NOT_YET 2
byte early[READERS] = NOT_YET;

// Ghosts: who is inside, and on which reader's futex the writer sleeps.
byte reading;
bool writing;
#define AWAKE READERS
byte sleeps_on = AWAKE;

inline Flush(r) {
  atomic {
    do
    :: buffer[r]?entry[r]
    :: empty(buffer[r]) -> break
    od;
    early[r] = NOT_YET;
  }
}

inline Light(r) {
#ifdef FALLBACK
  Flush(r);
#else
  skip;
#endif
}

inline FlushMarks() {
  d_step {
    r = 0;
    do
    :: r < READERS -> wanted[r] = wanted[r] || unmarked[r]; unmarked[r] = false; r++
    :: else -> break
    od;
    r = 0;
  }
}

inline Heavy() {
  FlushMarks();
#ifndef FALLBACK
  do
  :: r < READERS -> Flush(r); r++
  :: r == READERS -> r = 0; break
  od;
#endif
}

// On x86 a read-modify-write, a full fence, begins with this.
#ifdef WEAK
#define BUFFERED(r) true
#else
#define BUFFERED(r) empty(buffer[r])
#endif

// A load may be done ahead of its turn here.
inline LoadEarly(r, value) {
#ifdef WEAK
  if
  :: early[r] = value
  :: skip
  fi;
#else
  skip;
#endif
}

// `value`, or what it was when it was loaded early.
#define LOADED(r, value) ((early[r] == NOT_YET && value) || early[r] == 1)

inline Unpublish(r) {
  LoadEarly(r, wanted[r]);
  buffer[r]!false;
  Light(r);
  if
  :: atomic { LOADED(r, wanted[r]) -> early[r] = NOT_YET }
     atomic { BUFFERED(r) -> wanted[r] = false }
     atomic {
       if
       :: sleeps_on == r -> sleeps_on = AWAKE
       :: else
       fi
     }
  :: atomic { !LOADED(r, wanted[r]) -> early[r] = NOT_YET }
  fi;
}

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
        atomic {
          !writing && !claim && BUFFERED(me) -> central++;
          if
          :: !queued -> bias = true; published = true
          :: true  // Too few central reads yet.
          fi;
          reading++;
          assert(!writing);
        }
        atomic { reading--; central-- }
     fi;
     round++
  :: else -> break
  od
}

inline Mark(r) { unmarked[r] = true }

// Sets `drained`. `r` is 0 before and after.
inline Drain() {
  drained = true;
#ifndef NO_FENCE
  Heavy();
#endif
  any = false;
  do
  :: r < READERS ->
     if
     :: entry[r] -> Mark(r); any = true
     :: else
     fi;
     r++
  :: else -> r = 0; break
  od;
  if
  :: !any
  :: else ->
#ifndef NO_MARK_FENCE
     Heavy();
#endif
     reader = 0;
     do
     :: reader < READERS && drained -> Await(reader); reader++
     :: else -> reader = 0; break
     od
  fi;
  any = false;
}

inline Await(r_) {
#ifdef NO_RECHECK
  if
  :: wanted[r_] || unmarked[r_] -> FutexWait(r_)
  :: else
  fi;
#endif
  do
  :: !entry[r_] -> break
  :: else ->
     FutexWait(r_);
     if
     :: !drained -> break
     :: drained && entry[r_] ->
        if
        :: !wanted[r_] && !unmarked[r_] -> Mark(r_); Heavy()
        :: else
        fi
     :: drained && !entry[r_]
     fi
  od
}

// The kernel compares the word in memory, and sleeps, in one step.
inline FutexWait(r_) {
  if
  :: atomic { wanted[r_] -> sleeps_on = r_ }
     sleeps_on == AWAKE
  :: !wanted[r_]
  :: true              // A spurious wake-up.
  :: drained = false   // The deadline.
  fi
}

proctype Writer() {
  byte writes;
  byte r;
  byte reader;
  bool any;
  bool drained;
  do
  :: writes < WRITES ->
     queued = true;
     if
     :: atomic { central == 0 && published -> bias = false; claim = true }
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

active proctype StoreBuffers() {
  byte r;
end:
  do
  :: buffer[0]?entry[0]
  :: buffer[1]?entry[1]
  :: atomic { unmarked[0] -> wanted[0] = true; unmarked[0] = false }
  :: atomic { unmarked[1] -> wanted[1] = true; unmarked[1] = false }
  od
}

init {
  atomic {
    run Reader(0);
    run Reader(1);
    run Writer();
  }
}
