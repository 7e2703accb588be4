// Reads by publication: the entries, what the processors do to stores and loads, and how a writer drains. Included by
// the models of what uses them.
//
// Memory. Promela's is sequentially consistent, so the stores of one side are spelt out: `buffer[r]` holds Reader(r)'s
// stores to its entry's `lock`, first in first out, which is all of x86's reordering: a read-modify-write waits for the
// buffer to be empty, and a load goes ahead of it. `unmarked[r]` is the Writer's store to `wanted` on its way. The
// process StoreBuffers lets stores reach the memory at any later time. Heavy() (membarrier) empties the buffer of one
// thread after the other; Light() does nothing.
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
bool wanted[READERS];  // Also the futex word.

// The word. `claim` keeps central readers out, `queued` keeps them from setting `bias`.
bool writing;  // kWriter, and who is inside.
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

// By the Writer, or by the reader `caller`. `r` is 0 before and after.
#define WRITER READERS
inline Heavy(caller) {
#ifdef FALLBACK
  if
  :: caller == WRITER -> FlushMarks()
  :: else -> Flush(caller)
  fi;
#else
  FlushMarks();
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

inline Mark(r) { unmarked[r] = true }

// Sets `drained`. `r` is 0 before and after.
inline Drain() {
  drained = true;
#ifndef NO_FENCE
  Heavy(WRITER);
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
     Heavy(WRITER);
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
        :: !wanted[r_] && !unmarked[r_] -> Mark(r_); Heavy(WRITER)
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

