// Reads by publication: the entries, what the processors do to stores and loads, and how a writer drains. Included by
// the models of what uses them.
//
// Memory. Promela's is sequentially consistent, so the stores of one side are spelt out: `buffer[r]` holds Reader(r)'s
// stores to its entry's `lock`, first in first out, which is all of x86's reordering: a read-modify-write waits for the
// buffer to be empty, and a load goes ahead of it. The process StoreBuffers lets stores reach the memory at any later
// time. Heavy() (membarrier) empties the buffer of one thread after the other; Light() does nothing. The Writer stores
// by read-modify-writes only.
//   -DWEAK     what arm64 allows besides: read-modify-writes do not wait for the buffer, and the loads of kBias and of
//              `wanted` may take their values before earlier stores *and* loads of their thread, but not from before a
//              Heavy(). Stores to the one address stay in order on any machine, and data is not modelled: that a read
//              stays within acquire and release is the language's promise.
//   -DFALLBACK where the kernel refuses membarrier: Light() and Heavy() are full fences of their own thread.
//
// A time-out or a spurious end of a futex wait is a choice made when the wait begins: the thread may be slow to run on,
// so that is the same.
//
// Broken: NO_FENCE (no Heavy() before the scan), NO_MARK_FENCE (none after marking), NO_RECHECK (no look at the entry
// after marking).

#define READERS 2

// The entry of each reader, in memory.
bool entry[READERS];   // lock == L|1.
byte wanted[READERS];  // The futex word: bit 0 is the mark, the rest the generation.

// The word. `claim` keeps central readers out, `queued` keeps them from setting `bias`.
bool writing;  // kWriter, and who is inside.
bool bias = true;
bool published = true;
bool claim;
bool queued;
byte central;

chan buffer[READERS] = [4] of {bool};

// A load that was done ahead of its turn.
#define NOT_YET 2
byte early[READERS] = NOT_YET;

// Ghosts: how many read, and on which reader's futex the Writer sleeps.
byte reading;
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

// By the Writer, or by the reader `caller`. `r` is 0 before and after.
#define WRITER READERS
inline Heavy(caller) {
#ifdef FALLBACK
  if
  :: caller == WRITER
  :: else -> Flush(caller)
  fi;
#else
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
#define LOADED(r, value) ((early[r] == NOT_YET && (value)) || early[r] == 1)

// Reads centrally; `bias` may be set again.
inline EnterCentrally(r) {
  atomic {
    !writing && !claim && BUFFERED(r) -> central++;
    if
    :: !queued -> bias = true; published = true
    :: true  // Too few central reads yet.
    fi;
    reading++
  }
}

inline Unpublish(r) {
  LoadEarly(r, wanted[r] & 1);
  buffer[r]!false;
  Light(r);
  if
  :: atomic { LOADED(r, wanted[r] & 1) -> early[r] = NOT_YET }
     atomic { BUFFERED(r) -> wanted[r]++ }
     atomic {
       if
       :: sleeps_on == r -> sleeps_on = AWAKE
       :: else
       fi
     }
  :: atomic { !LOADED(r, wanted[r] & 1) -> early[r] = NOT_YET }
  fi;
}

// What the Writer found in `wanted` when it marked it, in a fetch_or; zero if it has not.
byte seen[READERS];

// Sets `drained`. `r` is 0 before and after.
inline Drain() {
  drained = true;
#ifndef NO_FENCE
  Heavy(WRITER);
#endif
  do
  :: r < READERS ->
     if
     :: entry[r] -> d_step { wanted[r] = wanted[r] | 1; seen[r] = wanted[r]; any = true }
     :: else
     fi;
     r++
  :: else -> r = 0; break
  od;
  if
  :: !any
  :: else ->
#ifndef NO_MARK_FENCE
     Heavy(WRITER);
#endif
     do
     :: reader < READERS && drained ->
        if
        :: seen[reader] != 0 -> Await(reader)
        :: else
        fi;
        reader++
     :: else -> break
     od
  fi;
  atomic { any = false; reader = 0; seen[0] = 0; seen[1] = 0 }
}

inline Await(r_) {
#ifdef NO_RECHECK
  FutexWait(r_);
#endif
  do
  :: !entry[r_] -> break
  :: else ->
     FutexWait(r_);
     if
     :: !drained -> break
     :: else ->
        if
        :: atomic { (wanted[r_] | 1) != seen[r_] -> wanted[r_] = wanted[r_] | 1; seen[r_] = wanted[r_] }
           Heavy(WRITER)
        :: (wanted[r_] | 1) == seen[r_]  // Is marked: the generation has not changed.
        fi
     fi
  od
}

// The kernel compares the word in memory, and sleeps, in one step.
inline FutexWait(r_) {
  if
  :: atomic { wanted[r_] == seen[r_] -> sleeps_on = r_ }
     sleeps_on == AWAKE
  :: wanted[r_] != seen[r_]
  :: true              // A spurious wake-up.
  :: drained = false   // The deadline.
  fi
}

active proctype StoreBuffers() {
end:
  do
  :: buffer[0]?entry[0]
  :: buffer[1]?entry[1]
  od
}

