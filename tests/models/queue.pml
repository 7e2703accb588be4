// The lock's word, its queue, the mutex, and what both are when it is let go. Included by enter_leave.pml. In the code:
//   OPEN, ENTERABLE   lock_word's IsOpen(), IsOpenToHead()
//   WithHead          AccessGate::WithHead(), WakeHead()
//   Wake, signal      ThreadRecord::Wake(), and what it wakes from
// `me`, `h` and `to_wake` are the calling process's.
//
// FAVOUR adds the favoured writer, who is thread 0, OWNER. Who defines it defines besides how many THREADS there are,
// what is FAVOURED and CALLED_BACK, and how a step waits for stores that its thread has not in memory yet: RMW before a
// read-modify-write, RELEASE where it also releases.

#ifndef FAVOUR
#define THREADS 4
#define FAVOURED false
#define CALLED_BACK false
#define RMW true
#define RELEASE true
#endif

#define NOBODY THREADS

mtype = {shared, exclusive};
mtype = {out, gave_up, published_read, central_read, write, published_write};

// The word.
bool writer;
bool bias = BIASED;
bool published = BIASED;
bool queued;
bool must_wake;
bool claim;
byte central;

// Guarded by the mutex.
bool mutex;
chan queue = [THREADS] of {byte};
mtype mode[THREADS] = shared;
bool woken[THREADS];

bool signal[THREADS];

// Ghosts: readers by publication, who is inside, who must not be passed; whose thread is between two looks at the word,
// and who has been woken since it last set kMustWake.
byte by_publication;
byte reading;
bool writing;
byte claimant = NOBODY;
bool busy[THREADS];
bool awake[THREADS];

#ifdef FIFO
#define IS_FIFO true
#else
#define IS_FIFO false
#endif

// Of what the code's steps rely on, beyond who is inside.
#ifdef NO_BIT_CHECKS
#define CHECK(condition) skip
#else
#define CHECK(condition) assert(condition)
#endif

#define IS_HEAD queue?[eval(me)]
#define ENTERABLE(mode_) (!writer && (mode_ == shared || central == 0))
#define OPEN(mode_) (!writer && !claim && !FAVOURED && (mode_ == shared || (!published && central == 0)))

inline Inside(who, mode_) {
  assert(claimant == NOBODY || claimant == who);
  assert(!writing && (mode_ == shared || reading == 0));
  if
  :: mode_ == shared -> reading++
  :: else -> writing = true
  fi;
}

inline Lock() { atomic { !mutex && RMW -> mutex = true } }

inline Unlock() {
  atomic {
    RELEASE ->
    CHECK(queued == (len(queue) > 0));
    CHECK(queued || (!must_wake && !claim));
    CHECK(!bias || (published && !writer && !queued));
    CHECK(!writer || (central == 0 && !published));
    CHECK(!published || bias || queued);
    if
    :: queue?<h> ->
       CHECK(must_wake || awake[h] || busy[h]);
       CHECK(!must_wake || (!awake[h] && !ENTERABLE(mode[h]) && !CALLED_BACK))
    :: empty(queue)
    fi;
    h = NOBODY;
    CHECK(!FAVOURED || !(writer || published || queued || CALLED_BACK || central > 0));
    CHECK(!CALLED_BACK || claim);
    mutex = false
  }
}

// `to_wake`: whom to wake once the mutex is let go.
inline Wake() {
  if
  :: to_wake != NOBODY -> atomic { signal[to_wake] = true; to_wake = NOBODY }
  :: else
  fi;
}

inline WakeHead() {
  must_wake = false;
  woken[h] = true;
  awake[h] = true;
  to_wake = h;
}

// The word for what is the head now, and woken is who has to be. Part of the step that it is called in, with the mutex.
inline WithHead() {
  if
  :: queue?<h> ->
     claim = IS_FIFO || CALLED_BACK || (mode[h] == exclusive && central > 0);
     if
     :: ENTERABLE(mode[h]) -> WakeHead()
     :: else -> must_wake = true
     fi
  :: empty(queue) ->
     queued = false;
     claim = false;
     must_wake = false;
     bias = published
  fi;
  h = NOBODY;
}
