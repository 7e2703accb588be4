// How a hit reads the box of a slot that may leave at any moment, and keeps its value.
//
// Reader(r)  a thread that looks at the slot without a lock, pins the box that it finds, and lets go of it, ROUNDS times:
//            SlotOf::Read(), HeldValue's constructor (HazardRow::TryPin()), the end of HazardRow::Read, and HeldValue's
//            destructor (HazardRow::Unpin()).
// Remover    a thread that puts the key anew, renews its value (the same box is stored again), and removes it, and each
//            time frees the box that has left: SlotOf::Write(), then EntryStore::FreeBoxes() and HandOver().
//            A pinned box is handed over: HazardRow::Offer(), and Confirm() after a second fence.
//
// Invariants. A box is not freed while a reader that has found it uses it, or while a handle pins it; at the end all are
// freed.
//
// Memory. A reader's stores to its row are on their way in `buffer[r]`, in their order, which being releases they keep on
// arm64 too; Drain(r) brings them to the memory, at any time. Its exchange of a gift waits for them. membarrier(2) is
// a moment at which the buffer is empty, for one reader after the other. The remover's stores to the slot are followed
// by that fence, and its compare-and-swaps of a gift are atomic. FALLBACK: no membarrier, and the stores of `reads`, and
// those that clear a pin, are sequentially consistent: they empty the buffer. seqlock.pml has the order of what a slot holds.
//
// Abstracted: one slot and one key. A slot that gets another key is written in the same way, and its number changes. A
// batch is one box, and one that is being read is looked after again and again; in the code it goes with the next batch.
//
// Broken: NO_FENCE (the remover does not wait for the stores on their way), NO_SECOND_LOOK (a reader does not look at
// the slot's number again), PINS_FIRST (the remover looks at the pins before `reads`), READ_ENDS_FIRST (a reader ends
// its read before it pins), NO_HAND_OVER (pins are left alone), GIFT_FIRST (a reader looks for a gift before it clears
// its pin), NO_SECOND_FENCE (the remover confirms a gift without a fence), NO_CONFIRMATION (it does not look at the pin
// again), TAKE_BY_STORE (a reader takes a gift by a load and a store), NO_NUMBER (the remover does not change the number).

#define READERS 2
#define ROUNDS 2
#define CONFIRMED 8

#define reads_of 0
#define pin_of 1

byte seq;
byte box = 1;  // 0: the key is not there.
byte reads[READERS];
byte pin[READERS];
byte gift[READERS];  // A box, perhaps with CONFIRMED.
chan buffer[READERS] = [4] of { byte, byte };

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

inline ClearPin() {
#ifdef FALLBACK
  atomic { empty(buffer[r]) -> pin[r] = 0 }
#else
  buffer[r]!pin_of, 0
#endif
}

inline TakeGift() {
#ifdef TAKE_BY_STORE
  empty(buffer[r]);
  held = gift[r] % CONFIRMED;
  gift[r] = 0;
  if
  :: held != 0 -> d_step { Unshare(held) }
  :: else
  fi
#else
  atomic { empty(buffer[r]) ->
    held = gift[r] % CONFIRMED;
    gift[r] = 0;
    if
    :: held != 0 -> Unshare(held)
    :: else
    fi }
#endif
}

inline Unpin() {
#ifndef GIFT_FIRST
  ClearPin();
#endif
  if
  :: gift[r] == 0
  :: gift[r] != 0 -> TakeGift()
  fi;
#ifdef GIFT_FIRST
  ClearPin()
#endif
}

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
           gift[r] == 0;
           buffer[r]!pin_of, held;
           assert(box_there[held]);
#ifndef READ_ENDS_FIRST
           EndRead();
#endif
           assert(box_there[held]);
           Unpin();
           found = false
        :: else -> EndRead()
        fi
     fi;
     held = 0;
     first = 0
  od;
  ended++
}

inline Offer(r) {
  if
#ifndef NO_HAND_OVER
  :: pin[r] == old && gift[r] != old + CONFIRMED ->
     shares[old]++;
     if
     :: atomic { gift[r] == 0 -> gift[r] = old; offered[r] = true }
     :: atomic { gift[r] != 0 -> Unshare(old); keeps = true }
     fi
#endif
  :: else
  fi
}

inline Confirm(r) {
  if
  :: offered[r] ->
     offered[r] = false;
#ifndef NO_CONFIRMATION
     if
     :: pin[r] != old ->
        atomic {
          if
          :: gift[r] == old -> gift[r] = 0; Unshare(old)
          :: else
          fi }
     :: pin[r] == old ->
        atomic {
          if
          :: gift[r] == old -> gift[r] = old + CONFIRMED
          :: else -> keeps = true
          fi }
     fi
#endif
  :: else
  fi
}

inline Fence() {
#ifndef FALLBACK
  empty(buffer[0]);
  empty(buffer[1])
#else
  skip
#endif
}

inline Free() {
  do
  :: true ->
#ifndef NO_FENCE
     Fence();
#endif
#ifdef PINS_FIRST
     Offer(0);
     Offer(1);
#endif
     keeps = keeps || reads[0] == old;
     keeps = keeps || reads[1] == old;
#ifndef PINS_FIRST
     Offer(0);
     Offer(1);
#endif
     if
     :: offered[0] || offered[1] ->
#ifndef NO_SECOND_FENCE
        Fence();
#endif
        Confirm(0);
        Confirm(1)
     :: else
     fi;
     if
     :: keeps -> keeps = false  // With the next batch.
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
  bool keeps;
  bool offered[READERS];
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
