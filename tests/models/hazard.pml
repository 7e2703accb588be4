// How a hit reads the box of a slot that may leave at any moment, and keeps its value.
//
// Reader(r)  a thread that looks at the slot without a lock, pins the box that it finds, and lets go of it, ROUNDS times:
//            SlotOf::Read(), HeldValue's constructor (HazardRow::TryPin()), the end of HazardRow::Read, and HeldValue's
//            destructor (HazardRow::Unpin()).
// Remover    a thread that puts the key anew, renews its value (the same box is stored again), and removes it, and each
//            time frees the box that has left: SlotOf::Write(), then CacheCore::FreeBoxes() and HandOver().
//
// Invariants. A box is not freed while a reader that has found it uses it, or while a handle pins it; at the end all are
// freed.
//
// Memory. A reader's stores to its row are on their way in `buffer[r]`, in their order, which being releases they keep on
// arm64 too; Drain(r) brings them to the memory, at any time. Its exchange in Unpin() waits for them. membarrier(2) is
// a moment at which the buffer is empty, for one reader after the other. The remover's stores to the slot are followed
// by that fence, and its compare-and-swaps of a pin are atomic. FALLBACK: no membarrier, and the stores of `reads` are
// sequentially consistent: they empty the buffer. seqlock.pml has the order of what a slot holds.
//
// Abstracted: one slot and one key. A slot that gets another key is written in the same way, and its number changes. A
// batch is one box, and one that is being read is looked after again and again; in the code it goes with the next batch.
//
// Broken: NO_FENCE (the remover does not wait for the stores on their way), NO_SECOND_LOOK (a reader does not look at
// the slot's number again), PINS_FIRST (the remover looks at the pins before `reads`), READ_ENDS_FIRST (a reader ends
// its read before it pins), NO_HAND_OVER (pins are left alone), PLAIN_UNPIN (a pin is let go of by a load and a store),
// NO_NUMBER (the remover does not change the number).

#define READERS 2
#define ROUNDS 2
#define HANDED 8

#define reads_of 0
#define pin_of 1

byte seq;
byte box = 1;  // 0: the key is not there.
byte reads[READERS];
byte pin[READERS];  // A box, perhaps with HANDED.
chan buffer[READERS] = [3] of { byte, byte };

// Ghosts.
byte shares[3];  // Of a box: the slot's, and those that were handed over.
bool box_there[3];
byte ended;

inline Unshare(which) {
  assert(box_there[which]);
  shares[which]--;
  if
  :: shares[which] == 0 -> box_there[which] = false
  :: else
  fi
}

// LightStore().
inline SayReads(which) {
#ifdef FALLBACK
  atomic { empty(buffer[r]) -> reads[r] = which }
#else
  buffer[r]!reads_of, which
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
  byte first;
  byte held;
  bool found;
  do
  :: round == ROUNDS -> break
  :: round < ROUNDS ->
     round++;
     first = seq;
     held = box;
     if
     :: held == 0
     :: held != 0 ->
        SayReads(held);
#ifdef NO_SECOND_LOOK
        found = true;
#else
        found = (seq == first && first % 2 == 0);
#endif
        if
        :: found ->
           assert(box_there[held]);
#ifdef READ_ENDS_FIRST
           EndRead();
#endif
           buffer[r]!pin_of, held;
           assert(box_there[held]);
#ifndef READ_ENDS_FIRST
           EndRead();
#endif
           assert(box_there[held]);
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
           found = false
        :: else -> EndRead()
        fi
     fi;
     held = 0;
     first = 0
  od;
  ended++
}

inline LookAtPins(r) {
  seen = pin[r];
  if
#ifndef NO_HAND_OVER
  :: seen == old ->
     shares[old]++;
     if
     :: atomic { pin[r] == seen -> pin[r] = seen + HANDED }
     :: atomic { pin[r] != seen -> Unshare(old) }
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
  atomic { Unshare(old) }
}

inline Make(which) {
  d_step {
    shares[which] = 1;
    box_there[which] = true
  }
}

inline Write(which) {
#ifndef NO_NUMBER
  seq++;
#endif
  box = which;
#ifndef NO_NUMBER
  seq++
#endif
}

proctype Remover() {
  byte old = 1;
  byte seen;
  bool is_read;
  Make(2);
  Write(2);
  Free();
  old = 2;
  Write(2);
  Write(0);
  Free();
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
  assert(!box_there[1] && !box_there[2])
}
