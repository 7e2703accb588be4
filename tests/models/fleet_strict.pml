// A strict cache of a fleet: writers under a distributed lock, readers without one. One key.
//
// Writer(w)  UpdateThrough(): lock, hold (an invalidation that leaves a mark), wait, write with the fencing token,
//            release (an invalidation that removes the mark), wait again if a mark was gone, unlock. It may die at
//            any step, be paused beyond its lock, and find Redis away at its release.
// Reader(r)  a process: its first level, its trust, and one load. With CODEC, readers use another codec than the
//            writers, which registers at any time.
// Other      a process that invalidates the key.
// Faults     leases and marks lapse or are evicted, values are evicted, locks lapse, and a failover begins a new
//            reign.
//
// The version of a value is the fencing token of its write; stored values are their version plus 1. A call is right
// if it gets the version of each update that had returned OK and settled when the call began. So the database has to
// refuse lower tokens.
//
// Invariants.
//  - P7: no call gets an older version than `settled` was when it began.
//  - While a writer is between its first wait and its release, and no fault has taken its mark, no call is answered
//    from a cache.
//
// Time. Trust counts from the sending of a heartbeat, so it is over when the longest max_staleness has passed since a
// hold was answered, unless a later heartbeat has renewed it, which then has applied the hold. `since` is the number
// of holds and releases that the heartbeat has seen; a wait ends when all trust has seen its own. A heartbeat's reply
// that is later than that gives no trust: `waited`.
//
// What invalidations, leases and positions do otherwise is in fleet_lease.pml and fleet_cache.pml, and new reigns are
// in fleet_reign.pml. Here a failover begins a reign in one step: everything in Redis is void, and the heartbeat that
// finds it voids the first level. An invalidation that finds Redis away is queued and runs later, or never.
//
// Broken: NO_FIRST_WAIT, NO_SECOND_WAIT, OWN_BOUND (a writer waits for its own max_staleness, and readers have a
// longer one), ONE_CODEC (a hold marks one codec, and the release looks at that), CODECS_OF_HOLD (a release looks at
// the codecs of the hold; with CODEC), OTHER_DELETES_MARK (an invalidation deletes a mark), OLD_PROCESS_GRANTS (a
// lease is granted over a mark), HOLD_IGNORES_TOKEN (a hold replaces a mark of a higher token), RELEASE_ANY_MARK (a
// release removes any mark), AWAY_STORES (a process without trust keeps what it loads), JOINS_AWAY (a call joins a
// load without a lease), JOINS_UNTRUSTED (a call joins a load with a lease while trust is over), JOINS_VOID (a call
// joins a load whose lease is void), UNSETTLED_COUNTS (a release that Redis has not accepted counts), LOWER_TOKENS
// (the database takes lower tokens).

#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef TOKENS
#define TOKENS 2
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#ifdef CODEC
#define CODECS 2
#define CODEC_OF(r) 1
#else
#define CODECS 1
#define CODEC_OF(r) 0
#endif
#define NONE 0
#define MARK 8  // A lease that is not below it is the mark of the fencing token above it.
#define IS_MARK(l) (l >= MARK)

byte db;
byte settled;
byte lock;
byte fencing_tokens;

// Redis.
byte reign = 1;
byte q = 1;
byte value[CODECS], value_position[CODECS];
byte lease[CODECS], lease_position[CODECS];
bool registered[CODECS];

// Time.
byte holds;
byte waited;

// Ghosts.
byte tokens;
byte writing;  // The highest fencing token of a writer between its first wait and its release.
byte marked;   // The highest one whose mark no fault has taken. A codec that registers counts as one.
byte trust[READERS], since[READERS];

inline CheckNoWriter() { assert(writing == NONE || marked != writing) }

inline Invalidate() {
  q++;
  value[0] = NONE;
  value_position[0] = 0;
  lease_position[0] = (IS_MARK(lease[0]) -> lease_position[0] : 0);
#ifdef OTHER_DELETES_MARK
  lease[0] = NONE
#else
  lease[0] = (IS_MARK(lease[0]) -> lease[0] : NONE)
#endif
#ifdef CODEC
  ;
  value[1] = NONE;
  value_position[1] = 0;
  lease_position[1] = (IS_MARK(lease[1]) -> lease_position[1] : 0);
  lease[1] = (IS_MARK(lease[1]) -> lease[1] : NONE)
#endif
}

#ifdef OLD_PROCESS_GRANTS
#define HELD(c) (lease[c] != NONE && !IS_MARK(lease[c]))
#else
#define HELD(c) (lease[c] != NONE)
#endif

#ifdef JOINS_AWAY
#define LEASED true
#else
#define LEASED (token != NONE)
#endif
#ifdef JOINS_UNTRUSTED
#define TRUSTED true
#else
#define TRUSTED (trust[r] != 0)
#endif
#ifdef JOINS_VOID
#define CURRENT true
#else
#define CURRENT (!detached)
#endif

proctype Reader(byte r) {
  byte my = 1, applied = 1;                // The reign and the position that are applied.
  byte first, first_position;              // The first level. The position 255: stored while away.
  byte seen_reign, seen_q, seen_holds;     // A heartbeat that is under way.
  bool loading, detached;
  byte token, load_position, x, joined_at;  // The load; `joined_at`: what its calls have to see.
  byte got, got_position, got_reign;        // A reply that is under way.
  byte c;
end:
  do
  :: atomic {  // A hit.
       first != NONE && (trust[r] != 0 || first_position == 255) ->
       assert(first - 1 >= settled);
       CheckNoWriter()
     }
  :: atomic { trust[r] != 0 -> trust[r] = 0; since[r] = 0 }
  :: atomic { seen_q == 0 -> seen_reign = reign; seen_q = q; seen_holds = holds }
  :: atomic {
       seen_q != 0 ->
       if
       :: seen_reign != my ->
          my = seen_reign;
          applied = seen_q;
          first = NONE;
          first_position = 0;
          detached = loading
       :: seen_reign == my && seen_q > applied ->
          applied = seen_q;
          if
          :: first_position < seen_q || first_position == 255 -> first = NONE; first_position = 0
          :: else
          fi;
          if
          :: loading && (token == NONE || load_position < seen_q) -> detached = true
          :: else
          fi
       :: else
       fi;
       if
       :: seen_holds >= waited -> trust[r] = 1; since[r] = seen_holds
       :: else
       fi;
       seen_reign = 0;
       seen_q = 0;
       seen_holds = 0
     }
#ifdef CODEC
  :: atomic { !registered[CODEC_OF(r)] && my == reign -> registered[CODEC_OF(r)] = true; marked = NONE }
#endif
  :: atomic {  // It asks.
       !loading && got == NONE && trust[r] != 0 && my == reign && registered[CODEC_OF(r)] ->
       c = CODEC_OF(r);
       if
       :: value[c] != NONE ->
          assert(value[c] - 1 >= settled);
          CheckNoWriter();
          got = value[c];
          got_position = q;
          got_reign = reign
       :: value[c] == NONE && !HELD(c) && tokens < TOKENS ->
          tokens++;
          token = tokens;
          lease[c] = token;
          lease_position[c] = q;
          load_position = q;
          loading = true;
          joined_at = settled
       :: else
       fi;
       c = 0
     }
  :: atomic { !loading && trust[r] == 0 -> loading = true; joined_at = settled }  // It loads alone.
  :: atomic { loading && LEASED && TRUSTED && CURRENT -> joined_at = settled }  // Another call joins.
  :: atomic { loading && x == NONE -> x = db + 1 }
  :: atomic {
       loading && x != NONE ->
       assert(x - 1 >= joined_at);
       c = CODEC_OF(r);
       if
       :: token != NONE && lease[c] == token && my == reign && registered[c] ->
          value[c] = x;
          value_position[c] = load_position;
          lease[c] = NONE;
          lease_position[c] = 0;
          got = x;
          got_position = q;
          got_reign = reign
#ifdef AWAY_STORES
       :: token == NONE && !detached -> first = x; first_position = 255
#endif
       :: else
       fi;
       loading = false;
       detached = false;
       token = NONE;
       load_position = 0;
       x = NONE;
       joined_at = 0;
       c = 0
     }
  :: atomic {  // A reply arrives.
       got != NONE ->
       if
       :: got_reign == my && got_position >= applied -> first = got; first_position = got_position
       :: else
       fi;
       got = NONE;
       got_position = 0;
       got_reign = 0
     }
  od
}

#ifdef OWN_BOUND
#define OVER(r, seen) (r >= 0 || trust[r] == 0 || since[r] >= seen)
#else
#define OVER(r, seen) (trust[r] == 0 || since[r] >= seen)
#endif
#if READERS == 1
#define ALL_OVER(seen) OVER(0, seen)
#else
#define ALL_OVER(seen) (OVER(0, seen) && OVER(1, seen))
#endif

inline Wait(seen) {
  atomic { ALL_OVER(seen) -> waited = (waited < seen -> seen : waited) }
}

#ifdef HOLD_IGNORES_TOKEN
#define HIGHER(l) false
#else
#define HIGHER(l) (IS_MARK(l) && l > MARK + my)
#endif
#ifdef CODEC
#define ANY_HIGHER (HIGHER(lease[0]) || HIGHER(lease[1]))
#else
#define ANY_HIGHER HIGHER(lease[0])
#endif

inline Mark(c) {
  lease[c] = (registered[c] -> MARK + my : NONE);
  lease_position[c] = 0
}

inline Hold() {
  q++;
  holds++;
  seen = holds;
  value[0] = NONE;
  value_position[0] = 0;
  Mark(0);
#ifdef CODEC
  value[1] = NONE;
  value_position[1] = 0;
#ifndef ONE_CODEC
  Mark(1);
  two_codecs = registered[1];
#else
  lease[1] = NONE;
  lease_position[1] = 0;
#endif
#endif
  skip
}

#ifdef RELEASE_ANY_MARK
#define OWN_MARK(l) IS_MARK(l)
#else
#define OWN_MARK(l) (l == MARK + my)
#endif
#define STOOD(c) (!registered[c] || OWN_MARK(lease[c]))

inline EndMark(c) {
  lease[c] = (OWN_MARK(lease[c]) || !IS_MARK(lease[c]) -> NONE : lease[c]);
  lease_position[c] = 0;
  value[c] = NONE;
  value_position[c] = 0
}

inline Release() {
  q++;
  holds++;
  seen = holds;
  stood = registered[0] && STOOD(0);
#ifdef CODEC
#ifdef ONE_CODEC
  skip;
#else
#ifdef CODECS_OF_HOLD
  stood = stood && (!two_codecs || STOOD(1));
#else
  stood = stood && STOOD(1);
#endif
#endif
  EndMark(1);
#endif
  EndMark(0)
}

proctype Writer() {
  byte my, seen;
  bool stood, wrote, two_codecs;
  atomic { lock == NONE -> fencing_tokens++; my = fencing_tokens; lock = my };
  if
  :: atomic {
       registered[0] && !ANY_HIGHER ->
       Hold();
       marked = (marked < my -> my : marked)
     }
  :: atomic { ANY_HIGHER || !registered[0] -> goto over }
  fi;
#ifndef NO_FIRST_WAIT
  Wait(seen);
#endif
  atomic { writing = (writing < my -> my : writing) };
  atomic {
    if
#ifdef LOWER_TOKENS
    :: true -> db = my; wrote = true
#else
    :: my > db -> db = my; wrote = true
    :: my < db
#endif
    :: goto dead
    fi
  };
  atomic {
    writing = (writing == my -> NONE : writing);
    if
    :: Release()
    :: goto unsettled
    :: goto dead
    fi
  };
#ifndef NO_SECOND_WAIT
  if
  :: !stood -> Wait(seen)
  :: stood
  fi;
#endif
  goto done;

unsettled:
#ifdef UNSETTLED_COUNTS
  atomic { settled = (wrote && my > settled -> my : settled) };
#endif
  // The queue: AwaitInvalidations() returns, and max_staleness passes.
  atomic { lock = (lock == my -> NONE : lock) };
  if
  :: atomic { Invalidate(); holds++; seen = holds } Wait(seen)
  :: goto over
  fi;

done:
  atomic { settled = (wrote && my > settled -> my : settled) };
over:
  atomic { lock = (lock == my -> NONE : lock) };
  goto ended;
dead:
  atomic { writing = (writing == my -> NONE : writing) };
ended:
  skip
}

proctype Other() {
  byte n;
  do
  :: atomic { n < OTHERS -> n++; Invalidate() }
  :: break
  od
}

inline Lapse(c) {
  marked = (lease[c] == MARK + marked -> NONE : marked);
  lease[c] = NONE;
  lease_position[c] = 0
}

proctype Faults() {
  byte failovers, lapses;
end:
  do
  :: atomic { lease[0] != NONE -> Lapse(0) }
  :: atomic { value[0] != NONE -> value[0] = NONE; value_position[0] = 0 }
#ifdef CODEC
  :: atomic { lease[1] != NONE -> Lapse(1) }
  :: atomic { value[1] != NONE -> value[1] = NONE; value_position[1] = 0 }
#endif
  :: atomic { lock != NONE && lapses < WRITERS - 1 -> lapses++; lock = NONE }
  :: atomic {
       failovers < FAILOVERS ->
       failovers++;
       reign++;
       q = 1;
       marked = NONE;
       lease[0] = NONE;
       lease_position[0] = 0;
       value[0] = NONE;
       value_position[0] = 0;
#ifdef CODEC
       registered[1] = false;
       lease[1] = NONE;
       lease_position[1] = 0;
       value[1] = NONE;
       value_position[1] = 0
#endif
     }
  od
}

init {
  atomic {
    registered[0] = true;
    run Reader(0);
#if READERS > 1
    run Reader(1);
#endif
    run Writer();
#if WRITERS > 1
    run Writer();
#endif
    run Other();
    run Faults()
  }
}
