// Two locks that share an entry, and with it the word `wanted` that whoever drains marks and sleeps on.
//
// Reader     a thread that reads one lock after the other by publication, and locks the other one, centrally, while it
//            reads: Hold::Publish() and Unpublish(), AccessGate::TryEnter(). Three times, with either lock, so that
//            the entry changes its lock while both are drained.
// Writer(l)  the head of lock l's queue: it claims, drains, is in and out: Append(), CallBack() with DrainPublished(),
//            AwaitDeparture() and Hold::Mark(). Twice.
//
// Invariants. The Reader is not inside a lock with its Writer (assertions). Nobody waits for ever (no invalid end
// state): who drains one lock does not sleep until the other one is left, or the Reader, that locks the one while it
// reads the other, would wait for him, and he for the Reader.
//
// So a mark that was answered may not be slept on, though another mark is set: `wanted` is {generation, flag}, and each
// answer begins a generation. And a mark that somebody else has set proves nothing before a Heavy() of one's own: the
// Reader may have looked at `wanted` before the mark, while its store to the entry is still on its way.
//
// Memory, as in entries.pml: `buffer` holds the Reader's stores to its entry. Left out: time-outs and other readers,
// which read_revocation.pml has, and parking.
//
// Broken: NO_GENERATION (the Reader answers by resetting `wanted` to zero), TRUST_MARK (no Heavy() where the mark is
// set).

#define LOCKS 2
#define FREE LOCKS
#define ROUNDS 3
#define WRITES 2

byte entry = FREE;  // The lock that is read, in memory.
byte wanted;        // Bit 0: who leaves has to wake. The rest is the generation.
chan buffer = [6] of {byte};

// The words. Central readers keep out while `claim`.
bool bias[LOCKS] = true;
bool claim[LOCKS];
bool writing[LOCKS];
bool central[LOCKS];

// Ghosts.
bool reading[LOCKS];
bool asleep[LOCKS];

inline Heavy() {
  atomic {
    do
    :: buffer?entry
    :: empty(buffer) -> break
    od
  }
}

inline Unpublish() {
  buffer!FREE;
  if
  :: wanted & 1 ->
#ifdef NO_GENERATION
     atomic { empty(buffer) -> wanted = 0 }
#else
     atomic { empty(buffer) -> wanted++ }
#endif
     atomic { asleep[0] = false; asleep[1] = false }
  :: !(wanted & 1)
  fi;
}

inline Read(l) {
  buffer!l;
  if
  :: atomic { bias[l] -> reading[l] = true; assert(!writing[l]) }
     if
     :: true -> ReadCentrally(1 - l)
     :: true
     fi;
     reading[l] = false;
     Unpublish()
  :: !bias[l] -> Unpublish()
  fi;
}

inline ReadCentrally(l) {
  atomic { !claim[l] && !writing[l] && empty(buffer) -> central[l] = true }
  central[l] = false;
}

active proctype Reader() {
  byte round;
  do
  :: round < ROUNDS ->
     if
     :: Read(0)
     :: Read(1)
     fi;
     round++
  :: else -> break
  od
}

inline Mark() { d_step { fresh = !(wanted & 1); wanted = wanted | 1; now = wanted } }

inline HeavyOnceMarked() {
#ifdef TRUST_MARK
  if
  :: fresh -> Heavy()
  :: !fresh
  fi;
#else
  Heavy();
#endif
}

inline Drain() {
  Heavy();
  if
  :: entry != l
  :: entry == l ->
     Mark();
     mark = now;
     HeavyOnceMarked();
     do
     :: entry != l -> break
     :: entry == l ->
        if
        :: atomic { wanted == mark -> asleep[l] = true }
           !asleep[l]
        :: wanted != mark
        :: true  // A spurious wake-up.
        fi;
        Mark();
        if
        :: now == mark
        :: now != mark -> mark = now; HeavyOnceMarked()
        fi
     od
  fi;
  atomic { mark = 0; now = 0; fresh = false }
}

proctype Writer(byte l) {
  byte writes;
  byte mark;
  byte now;
  bool fresh;
  do
  :: writes < WRITES ->
     atomic { !central[l] -> bias[l] = false; claim[l] = true }
     Drain();
     atomic { claim[l] = false; writing[l] = true; assert(!reading[l] && !central[l]) }
     atomic { writing[l] = false; bias[l] = true }  // The latter by a central reader.
     writes++
  :: else -> break
  od
}

active proctype StoreBuffer() {
end:
  do
  :: buffer?entry
  od
}

init {
  atomic {
    run Writer(0);
    run Writer(1);
  }
}
