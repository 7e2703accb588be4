// How a hit copies the words of a slot that a thread may be writing.
//
// Writer     writes the slot WRITES times, with the shard's mutex held: SlotOf::Write().
// Reader(r)  copies the words LOOKS times without the mutex: SlotOf::Read().
//
// Invariant. A copy that a reader accepts has both words of one write: the one that belongs to the number that the
// reader has seen. At the end the words are those of the last one. The words are a key and a value, so this holds also
// for a slot that is freed and given to another key: a reader never finds a key with the value of another.
//
// Memory. What the fences do not order happens in any order: the two words among themselves, and in the broken variants
// also the words and the numbers.
//
// Abstracted: the time until which the value is fresh, and the address of a box, are words like these.
//
// Broken: NO_RELEASE_FENCE (a word may be stored before the odd number), PLAIN_END (the even number may be stored before
// a word), NO_ACQUIRE (a word may be read before the first look), NO_ACQUIRE_FENCE (a word may be read after the second
// look), NO_SECOND_LOOK (the reader does not look again), ODD_IS_FINE (the reader accepts an odd number).

#define WRITES 3
#define LOOKS 2
#define READERS 2

byte seq;
byte word[2];
byte ended;

#ifdef NO_RELEASE_FENCE
#define BEGUN true
#else
#define BEGUN odd
#endif
#ifdef PLAIN_END
#define WRITTEN odd
#else
#define WRITTEN (odd && stored[0] && stored[1])
#endif
#ifdef NO_ACQUIRE
#define MAY_READ true
#else
#define MAY_READ looked
#endif
#ifdef NO_ACQUIRE_FENCE
#define MAY_LOOK_AGAIN looked
#else
#define MAY_LOOK_AGAIN (looked && read[0] && read[1])
#endif
#ifdef ODD_IS_FINE
#define IS_EVEN true
#else
#define IS_EVEN (first % 2 == 0)
#endif

active proctype Writer() {
  byte value;
  bool odd;
  bool even;
  bool stored[2];
  do
  :: value == WRITES -> break
  :: value < WRITES ->
     value++;
     do
     :: !odd -> seq = 2 * value - 1; odd = true
     :: BEGUN && !stored[0] -> word[0] = value; stored[0] = true
     :: BEGUN && !stored[1] -> word[1] = value; stored[1] = true
     :: WRITTEN && !even -> seq = 2 * value; even = true
     :: even && stored[0] && stored[1] -> break
     od;
     odd = false;
     even = false;
     stored[0] = false;
     stored[1] = false
  od;
  assert(seq == 2 * WRITES && word[0] == WRITES && word[1] == WRITES);
  ended++
}

active [READERS] proctype Reader() {
  byte looks;
  byte first;
  byte second;
  byte copy[2];
  bool looked;
  bool again;
  bool read[2];
  do
  :: looks == LOOKS -> break
  :: looks < LOOKS ->
     looks++;
     do
     :: !looked -> first = seq; looked = true
     :: MAY_READ && !read[0] -> copy[0] = word[0]; read[0] = true
     :: MAY_READ && !read[1] -> copy[1] = word[1]; read[1] = true
     :: MAY_LOOK_AGAIN && !again ->
#ifdef NO_SECOND_LOOK
        second = first;
#else
        second = seq;
#endif
        again = true
     :: again && read[0] && read[1] -> break
     od;
     if
     :: first == second && IS_EVEN -> assert(copy[0] == first / 2 && copy[1] == first / 2)
     :: else
     fi;
     first = 0;
     second = 0;
     copy[0] = 0;
     copy[1] = 0;
     looked = false;
     again = false;
     read[0] = false;
     read[1] = false
  od;
  ended++
}
