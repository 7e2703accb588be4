// The lock's word, its queue, and what whoever holds the queue's mutex does to both. Included by hand_off.pml, which
// says what is modelled and how; `me`, `h` and `to_wake` are the calling process's.

#define THREADS 4
#define NOBODY THREADS

mtype = {shared, exclusive};

// The word.
bool writer;
bool bias = true;
bool published = true;
bool queued;
bool must_wake;
bool claim;
byte central;

// Guarded by the mutex.
bool mutex;
chan queue = [THREADS] of {byte};
mtype mode[THREADS] = shared;
bool awake[THREADS];

bool signal[THREADS];

// Ghosts: readers by publication, who is inside, who must not be passed, whose thread is between two looks at the word.
byte by_publication;
byte reading;
bool writing;
byte claimant = NOBODY;
bool busy[THREADS];

#ifdef FIFO
#define IS_FIFO true
#else
#define IS_FIFO false
#endif

#define ENTERABLE(mode_) (!writer && (mode_ == shared || central == 0))

inline Inside(who, mode_) {
  assert(claimant == NOBODY || claimant == who);
  assert(!writing && (mode_ == shared || reading == 0));
  if
  :: mode_ == shared -> reading++
  :: else -> writing = true
  fi;
}

inline Lock() { atomic { !mutex -> mutex = true } }

inline Unlock() {
  atomic {
#ifndef NO_BIT_CHECKS
    assert(queued == (len(queue) > 0));
    assert(queued || (!must_wake && !claim));
    if
    :: queue?<h> ->
       assert(must_wake != (awake[h] || busy[h]));
       assert(!must_wake || !ENTERABLE(mode[h]))
    :: empty(queue)
    fi;
    h = NOBODY;
#endif
    mutex = false
  }
}

// `to_wake`: whom to unpark once the mutex is let go.
inline Unpark() {
  if
  :: to_wake != NOBODY -> atomic { signal[to_wake] = true; to_wake = NOBODY }
  :: else
  fi;
}

// The word's queue bits for what is the head now. Part of the step that it is called in, with the mutex.
inline ArrangeForHead() {
  if
  :: queue?<h> ->
     claim = IS_FIFO || (mode[h] == exclusive && central > 0);
     if
     :: ENTERABLE(mode[h]) -> must_wake = false; awake[h] = true; to_wake = h
     :: else -> must_wake = true
     fi
  :: empty(queue) -> queued = false; claim = false; must_wake = false
  fi;
  h = NOBODY;
}

inline MayBias() {
  if
  :: !queued && !writer -> bias = true; published = true
  :: true
  fi;
}
