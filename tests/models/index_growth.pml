// How the cache's index frees an array of cells that lookups without a lock may still read.
//
// Reader()  a thread that takes a slot at its first lookup and looks up ROUNDS times: HazardRow::Read, and
//           EntryIndex::AtHome() or FindUnlocked().
// Grower    the thread that has the shard's mutex: EntryIndex::Grow() with ReadsHaveEnded(), GROWTHS times, and then
//           the cache's destructor.
//
// Invariants. No reader reads an array that is freed. Each array is freed once, and none is left at the end. The
// destructor frees arrays after the readers have ended.
//
// Memory. All loads of a lookup are acquire loads and all stores are release stores, so each thread's loads keep their
// order and so do its stores, on arm64 too. Only a store may pass a later load. A reader's stores to its row are in
// `buffer[r]` until Drain(r) brings them to memory, and the grower's store of the new array is in `publishing`.
// HeavyFence() empties the grower's own buffer, and then, by membarrier(2), those of the readers one after the other.
// FALLBACK: the kernel refuses membarrier, so a reader's store to `caller` and its load of `cells` are sequentially
// consistent.
//
// Abstracted. What the cells hold: a lookup may miss a slot that is being moved, and compares the key of each slot that
// it finds. ReadsHaveEnded() waits for each row for a while; here it may give up at any time.
//
// Broken: NO_FENCE (the grower does not wait for the readers' stores), NO_OWN_FENCE (nor for its own), LOOK_FIRST (it
// looks at the rows before it publishes the new array), ROWS_FIRST (it counts the rows before it publishes the array),
// CELLS_FIRST (a reader loads the array before it announces its read), ENDS_EARLY (a reader ends its read before it
// reads the cell), FREES_ANYWAY (the grower frees the arrays although it has given up).

#define READERS 2
#define ROUNDS 2
#define GROWTHS 2
#define ARRAYS 4  // With number 0, which is none.

byte cells = 1;
bool caller[READERS];
byte rows;  // ThreadSlotsUsed().
chan buffer[READERS] = [4] of { bool };
chan publishing = [1] of { byte };

// Ghosts.
bool there[ARRAYS];
byte ended;

proctype Drain(byte r) {
end:
  do
  :: buffer[r]?caller[r]
  od
}

proctype DrainGrower() {
end:
  do
  :: publishing?cells
  od
}

inline Announce() {
#ifdef FALLBACK
  atomic { empty(buffer[r]) -> caller[r] = true };
#else
  buffer[r]!true;
#endif
}

proctype Reader() {
  byte r;
  byte round;
  byte seen;
  atomic { r = rows; rows++ }  // With the mutex of the slots.
  do
  :: round == ROUNDS -> break
  :: round < ROUNDS ->
     round++;
#ifdef CELLS_FIRST
     seen = cells;
     Announce();
#else
     Announce();
     seen = cells;
#endif
#ifdef ENDS_EARLY
     buffer[r]!false;
#endif
     assert(there[seen]);
#ifndef ENDS_EARLY
     buffer[r]!false;
#endif
     seen = 0
  od;
  atomic { ended++; r = 0; round = 0 }
}

inline HeavyFence() {
#ifndef NO_OWN_FENCE
  empty(publishing);
#endif
#if !defined(FALLBACK) && !defined(NO_FENCE)
  empty(buffer[0]);
  empty(buffer[1]);
#else
  skip;
#endif
}

inline CountRows() { count = rows }

inline LookAtRows() {
  may_free = true;
  do
  :: looked_at == count -> break
  :: looked_at < count ->
     if
     :: !caller[looked_at] -> looked_at++
     :: caller[looked_at] -> may_free = false; break
     fi
  od;
  looked_at = 0
}

inline FreeArray(a) {
  d_step {
    assert(there[a]);
    there[a] = false
  }
}

inline FreeOld() {
  do
  :: freed < old -> freed++; FreeArray(freed)
  :: freed == old -> break
  od
}

proctype Grower() {
  byte old;    // The newest array that was replaced,
  byte freed;  // and the newest that was freed.
  byte count;
  byte looked_at;
  bool may_free;
  do
  :: old == GROWTHS -> break
  :: old < GROWTHS ->
     old++;
#ifdef ROWS_FIRST
     CountRows();
#endif
#ifdef LOOK_FIRST
     HeavyFence();
     CountRows();
     LookAtRows();
#endif
     there[old + 1] = true;
     publishing!old + 1;
#ifndef LOOK_FIRST
     HeavyFence();
#ifndef ROWS_FIRST
     CountRows();
#endif
     LookAtRows();
#endif
#ifdef FREES_ANYWAY
     may_free = true;
#endif
     if
     :: may_free -> FreeOld(); may_free = false
     :: else
     fi;
     count = 0
  od;
  atomic { ended == READERS && empty(publishing) -> old++ }
  FreeOld();
  assert(!there[1] && !there[2] && !there[3])
}

init {
  atomic {
    there[1] = true;
    run Drain(0);
    run Drain(1);
    run DrainGrower();
    run Reader();
    run Reader();
    run Grower()
  }
}
