// Holds that threads publish in their entries, what the processors do to stores and loads, and how those who publish
// are called back. Included by the models of what uses them. In the code:
//   Light, Heavy                   LightStore() (or InlineLightStore(), then Light() does nothing), HeavyFence()
//   Unpublish                      Hold::Unpublish(), UnpublishInline()
//   Drain, Await, FutexWait, Mark  DrainPublished(), AwaitDeparture(), FutexWait(), Hold::Mark(); Drain also
//                                  HasPublished(), with kNoWait
//
// Memory. Promela's is sequentially consistent, so the stores of one side are spelt out: `buffer[p]` holds the stores
// of the publisher p to its entry's `lock`, first in first out, which is all of x86's reordering: a read-modify-write
// waits for the buffer to be empty, and a load goes ahead of it. The process StoreBuffers lets stores reach the memory
// at any later time. Heavy() (membarrier) empties the buffer of one thread after the other; Light() does nothing. Who
// calls back stores by read-modify-writes only.
//   -DWEAK     what arm64 allows besides: read-modify-writes do not wait for the buffer, and the loads of the lock's
//              word and of `wanted` may take their values before earlier stores *and* loads of their thread, but not
//              from before a Heavy(). Stores to the one address stay in order on any machine, and data is not
//              modelled: that a hold stays within acquire and release is the language's promise.
//   -DFALLBACK where the kernel refuses membarrier, or under ThreadSanitizer: Light() and Heavy() are full fences of
//              their own thread.
//
// A time-out or a spurious end of a futex wait is a choice made when the wait begins: the thread may be slow to run on,
// so that is the same.
//
// Broken: NO_FENCE (no Heavy() before the search), NO_MARK_FENCE (none after marking), NO_RECHECK (no look at the entry
// after marking).
//
// Includers define PUBLISHERS, 1 or 2; MAY_TIME_OUT, by the process that calls back, unless it is always so; and
// TRY_LOCK where it may also be one that does not wait at all (kNoWait).

#ifndef MAY_TIME_OUT
#define MAY_TIME_OUT true
#endif

// The entry of each publisher, in memory.
bool entry[PUBLISHERS];   // `lock` has a tag of a published hold.
byte wanted[PUBLISHERS];  // The futex: bit 0 is the mark, the rest the generation.

chan buffer[PUBLISHERS] = [4] of {bool};

// A load that was done ahead of its turn.
#define NOT_YET 2
byte early[PUBLISHERS] = NOT_YET;

// Ghost: on which publisher's futex somebody sleeps.
#define AWAKE PUBLISHERS
byte sleeps_on = AWAKE;

inline Flush(p) {
  atomic {
    do
    :: buffer[p]?entry[p]
    :: empty(buffer[p]) -> break
    od;
    early[p] = NOT_YET;
  }
}

inline Light(p) {
#ifdef FALLBACK
  Flush(p);
#else
  skip;
#endif
}

// By no publisher, or by the publisher `caller`. `p` is 0 before and after.
#define NO_PUBLISHER PUBLISHERS
inline Heavy(caller) {
#ifdef FALLBACK
  if
  :: caller == NO_PUBLISHER
  :: else -> Flush(caller)
  fi;
#else
  do
  :: p < PUBLISHERS -> Flush(p); p++
  :: p == PUBLISHERS -> p = 0; break
  od;
#endif
}

// On x86 a read-modify-write, a full fence, begins with this.
#ifdef WEAK
#define BUFFERED(p) true
#else
#define BUFFERED(p) empty(buffer[p])
#endif

// A load may be done ahead of its turn here.
inline LoadEarly(p, value) {
#ifdef WEAK
  if
  :: early[p] = value
  :: skip
  fi;
#else
  skip;
#endif
}

// `value`, or what it was when it was loaded early.
#define LOADED(p, value) ((early[p] == NOT_YET && (value)) || early[p] == 1)

inline Unpublish(p) {
  LoadEarly(p, wanted[p] & 1);
  buffer[p]!false;
  Light(p);
  if
  :: atomic { LOADED(p, wanted[p] & 1) -> early[p] = NOT_YET }
     atomic { BUFFERED(p) -> wanted[p]++ }
     atomic {
       if
       :: sleeps_on == p -> sleeps_on = AWAKE
       :: else
       fi
     }
  :: atomic { !LOADED(p, wanted[p] & 1) -> early[p] = NOT_YET }
  fi;
}

// What Mark() returned to the one who calls back, zero if the publisher was not found.
byte seen[PUBLISHERS];

inline Mark(p) { d_step { wanted[p] = wanted[p] | 1; seen[p] = wanted[p] } }

// Sets `drained`. `p` is 0 before and after.
inline Drain() {
  drained = true;
#ifndef NO_FENCE
  Heavy(NO_PUBLISHER);
#endif
  do
#ifdef TRY_LOCK
  :: atomic { p < PUBLISHERS && entry[p] && MAY_TIME_OUT -> drained = false; p = 0; break }
#endif
  :: p < PUBLISHERS && entry[p] -> Mark(p); atomic { any = true; p++ }
  :: atomic { p < PUBLISHERS && !entry[p] -> p++ }
  :: atomic { p == PUBLISHERS -> p = 0; break }
  od;
  if
  :: any && drained ->
#ifndef NO_MARK_FENCE
     Heavy(NO_PUBLISHER);
#endif
     do
     :: next < PUBLISHERS && seen[next] != 0 && drained -> Await(next); next++
     :: atomic { next < PUBLISHERS && seen[next] == 0 -> next++ }
     :: next == PUBLISHERS || !drained -> break
     od
  :: !any || !drained
  fi;
  atomic {
    any = false;
    next = 0;
    seen[0] = 0;
    seen[PUBLISHERS - 1] = 0
  }
}

inline Await(p_) {
#ifdef NO_RECHECK
  FutexWait(p_);
#endif
  do
  :: !entry[p_] -> break
  :: entry[p_] ->
     FutexWait(p_);
     if
     :: atomic { timed_out -> drained = !entry[p_]; timed_out = false; break }
     :: atomic { !timed_out && (wanted[p_] | 1) != seen[p_] -> Mark(p_) }
        Heavy(NO_PUBLISHER)
     :: !timed_out && (wanted[p_] | 1) == seen[p_]  // Is marked: the generation has not changed.
     fi
  od
}

// The kernel compares the word in memory, and sleeps, in one step.
inline FutexWait(p_) {
  if
  :: atomic { wanted[p_] == seen[p_] -> sleeps_on = p_ }
     sleeps_on == AWAKE
  :: wanted[p_] != seen[p_]
  :: true                             // A spurious wake-up.
  :: MAY_TIME_OUT -> timed_out = true
  fi
}

active proctype StoreBuffers() {
end:
  do
  :: buffer[0]?entry[0]
#if PUBLISHERS > 1
  :: buffer[1]?entry[1]
#endif
  od
}
