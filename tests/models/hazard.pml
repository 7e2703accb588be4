// How a hit reads an entry that may leave at any moment, and keeps its value.
//
// Reader(r)  a thread that looks the key up without a lock, pins the value that it finds, and lets go of it, ROUNDS times:
//            EntryIndex::FindUnlocked(), HeldValue's constructor (HazardRow::TryPin()), the end of HazardRow::Read, and
//            HeldValue's destructor (HazardRow::Unpin()).
// Remover    a thread that puts the key anew, renews it (the same value in another entry), and removes it, and each time
//            frees what has left: EntryIndex::Replace() and Remove(), then RetiredEntries::Free() and HandOver().
//
// Invariants. An entry is not freed while a reader that has found it uses it; a value is not freed while an entry has it
// or a handle pins it; at the end all are freed.
//
// Memory. A reader's stores to its row are on their way in `buffer[r]`, in their order, which being releases they keep on
// arm64 too; Drain(r) brings them to the memory, at any time. Its exchange in Unpin() waits for them. membarrier(2) is
// a moment at which the buffer is empty, for one reader after the other. The remover's store to the cell is followed by
// that fence, and its compare-and-swaps of a pin are atomic. FALLBACK: no membarrier, and the stores of `reads` are
// sequentially consistent: they empty the buffer.
//
// Abstracted: one cell, which the entries of the key share. That cells move changes nothing for a reader that looks at
// the cell again where it has found the entry. A batch is one entry, and one that is being read is looked after again
// and again; in the code it goes with the next batch.
//
// Broken: NO_FENCE (the remover does not wait for the stores on their way), NO_SECOND_LOOK (a reader does not look at
// the cell again), PINS_FIRST (the remover looks at the pins before `reads`), READ_ENDS_FIRST (a reader ends its read
// before it pins), NO_HAND_OVER (pins are left alone), PLAIN_UNPIN (a pin is let go of by a load and a store).

#define READERS 2
#define ROUNDS 2
#define ENTRIES 3
#define HANDED 8

#define reads_of 0
#define pin_of 1

// Entry 1 has value 1; entry 2 and, renewed, entry 3 have value 2.
#define VALUE(entry) (entry == 1 -> 1 : 2)

byte cell = 1;  // 0: the key is not there.
byte reads[READERS];
byte pin[READERS];  // A value, perhaps with HANDED.
chan buffer[READERS] = [3] of { byte, byte };

// Ghosts.
bool entry_there[ENTRIES + 1];
byte shares[3];  // Of a value: one of each entry that has it, and those that were handed over.
bool value_there[3];
byte ended;

inline Unshare(value) {
  assert(value_there[value]);
  shares[value]--;
  if
  :: shares[value] == 0 -> value_there[value] = false
  :: else
  fi
}

// LightStore().
inline SayReads(entry) {
#ifdef FALLBACK
  atomic { empty(buffer[r]) -> reads[r] = entry }
#else
  buffer[r]!reads_of, entry
#endif
}

inline EndRead() { buffer[r]!reads_of, 0 }

proctype Drain(byte r) {
  byte what;
  byte value;
end:
  do
  :: atomic { buffer[r]?what, value ->
       if
       :: what == reads_of -> reads[r] = value
       :: else -> pin[r] = value
       fi;
       what = 0;
       value = 0 }
  od
}

proctype Reader(byte r) {
  byte round;
  byte entry;
  byte held;
  bool found;
  do
  :: round == ROUNDS -> break
  :: round < ROUNDS ->
     round++;
     entry = cell;
     if
     :: entry == 0
     :: entry != 0 ->
        SayReads(entry);
#ifdef NO_SECOND_LOOK
        found = true;
#else
        found = (cell == entry);
#endif
        if
        :: found ->
           assert(entry_there[entry]);
           held = VALUE(entry);
#ifdef READ_ENDS_FIRST
           EndRead();
#endif
           buffer[r]!pin_of, held;
           assert(entry_there[entry]);
#ifndef READ_ENDS_FIRST
           EndRead();
#endif
           assert(value_there[held]);
#ifdef PLAIN_UNPIN
           bool handed;
           empty(buffer[r]);
           handed = (pin[r] >= HANDED);
           pin[r] = 0;
           if
           :: handed -> d_step { Unshare(held) }
           :: else
           fi;
           handed = false;
#else
           atomic { empty(buffer[r]) ->
             if
             :: pin[r] >= HANDED -> pin[r] = 0; Unshare(held)
             :: else -> pin[r] = 0
             fi }
#endif
           held = 0;
           found = false
        :: else -> EndRead()
        fi
     fi;
     entry = 0
  od;
  ended++
}

inline LookAtPins(r) {
  seen = pin[r];
  if
#ifndef NO_HAND_OVER
  :: seen == VALUE(old) ->
     shares[VALUE(old)]++;
     if
     :: atomic { pin[r] == seen -> pin[r] = seen + HANDED }
     :: atomic { pin[r] != seen -> Unshare(VALUE(old)) }
     fi
#endif
  :: else
  fi;
  seen = 0
}

// Of one reader's row.
inline Look(r) {
#ifdef PINS_FIRST
  LookAtPins(r);
#endif
  is_read = is_read || reads[r] == old;
#ifndef PINS_FIRST
  LookAtPins(r);
#endif
}

inline Free() {
  do
  :: true ->
#if !defined(NO_FENCE) && !defined(FALLBACK)
     empty(buffer[0]);
     empty(buffer[1]);
#endif
     Look(0);
     Look(1);
     if
     :: is_read -> is_read = false  // With the next batch.
     :: else -> break
     fi
  od;
  atomic { entry_there[old] = false; Unshare(VALUE(old)) }
}

inline Make(entry) {
  d_step {
    entry_there[entry] = true;
    shares[VALUE(entry)]++;
    value_there[VALUE(entry)] = true
  }
}

proctype Remover() {
  byte old = 1;
  byte seen;
  bool is_read;
  do
  :: old > ENTRIES -> break
  :: old <= ENTRIES ->
     if
     :: old < ENTRIES ->
        Make(old + 1);
        cell = old + 1
     :: old == ENTRIES -> cell = 0
     fi;
     Free();
     old++
  od;
  ended++
}

init {
  atomic {
    Make(1);
    run Drain(0);
    run Drain(1);
    run Reader(0);
    run Reader(1);
    run Remover()
  }
  ended == READERS + 1 ->
  assert(!value_there[1] && !value_there[2])
}
