// The first level of the fleet cache: what one process may serve, and until when. One key.
//
// Callers    calls of Get() of the process: each hits, starts a flight, joins the running one, or replaces it.
// Flight     the running flight: it asks the tier, loads with or without a lease, fills, and publishes.
// Heartbeat  asks for the journal, applies it, and gives trust.
// Own        the process writes the database and invalidates: CacheTier's Queue(), the first level, and Await().
// Others     the rest of the fleet writes and invalidates, and fills the second level. Leases lapse, values are evicted,
//            the journal is trimmed.
// Time       passes in steps. max_staleness is M steps.
//
// Invariants. Each call gets a value that is at least as new as
//  - P2: each invalidation that was accepted max_staleness before the call began,
//  - each that was accepted before a heartbeat ran that the process trusts when the call begins,
//  - P3: each own one that returned before the call began, accepted or not.
//
// The second level is what fleet_lease.pml shows: an answer (value, position) takes account of all invalidations up to the
// position, and a fill is stored only if none was run since its lease was granted. So each invalidation removes the value
// and the lease here. An invalidation's reply may be lost, and the invalidation repeated: that changes nothing here.
// Versions of the database count up; a value is its version plus 1.
//
// A request is run when it arrives; then its reply is on its way. One that arrives late is one that is sent late, and a
// reply that comes late to a queued invalidation changes nothing, as asks may find the tier away at any time.
//
// Detached flights go on without new callers; what they store in Redis is what others may store.
//
// Broken: FROM_RECEIPT (trust is counted from when the heartbeat's reply came), TRUST_FIRST (trust is given before the
// journal was applied), TRUST_PART (although entries are missing), NO_RESET (a gap in the journal is not noticed),
// RESET_KEEPS_ASKS (after a gap, the answer to an older ask is stored), RESET_KEEPS_LOADS (or a load), LATE_ANSWER
// (positions are not compared when an answer comes), KEEPS_LOADS (an invalidation does not detach a running load),
// KEEPS_AWAY_LOADS (nor one without a lease), KEEPS_ASKS (an own invalidation does not make a flight ask again),
// FIRST_LEVEL_FIRST (an own invalidation is queued after the first level was cleared), ASKS_WHILE_QUEUED (asks do not
// bypass the second level), JOINS_OLD (a call joins any flight), AWAY_OUTLIVES (what was loaded without a lease is kept),
// STALE_ON_ERROR (a value without trust stands in for a load that failed).

#ifndef M
#define M 1
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#ifndef OWN
#define OWN 1
#endif
#define LIMIT 1  // Of the entries that a heartbeat brings.
#define NEVER 15

mtype = { idle, asked, loading, stored, refused };
mtype = { ready, queued, cleared };

byte db;
byte accepted;

// Redis.
byte q = 1;
byte trimmed;  // The newest entry that was removed from the journal.
byte value;
bool lease;  // Of the running flight.

// The process.
byte applied = 1;
byte trust_age = M;
byte first, first_position, first_age = M;  // The first level. A position of 0: loaded without a lease.

mtype flight = idle;
bool leased;
bool again;  // It has to ask again.
byte least;  // So it has, if the answer's position is smaller.
byte flight_value, flight_position, flight_age;

byte beat_q, beat_age;  // Of the heartbeat whose answer is on its way. 0: there is none.
bool gap;

mtype own = ready;
byte pending;  // The version of the queued invalidation.

// Ghosts.
byte due;
#if M == 2
byte due_next;
#endif
byte own_returned;
byte beat_accepted, trusted_accepted;
byte flight_floor;
byte others, owns;

#define MAX(a, b) (a > b -> a : b)
#define TRUSTED (trust_age < M)

#ifdef AWAY_OUTLIVES
#define HIT (first != 0 && (TRUSTED || first_position == 0))
#else
#define HIT (first != 0 && (first_position != 0 -> TRUSTED : first_age < M))
#endif

#ifdef JOINS_OLD
#define JOINABLE true
#else
#define JOINABLE (TRUSTED || flight_age < M)
#endif

#ifdef LATE_ANSWER
#define OUTDATED again
#else
#define OUTDATED (again || flight_position < least)
#endif

inline DropFirst() {
  first = 0;
  first_position = 0;
  first_age = M
}

inline EndFlight() {
  flight = idle;
  leased = false;
  again = false;
  least = 0;
  flight_value = 0;
  flight_position = 0;
  flight_age = 0;
  flight_floor = 0
}

// Callers that have joined get what it loaded, or loads from now on.
inline Detach() {
  assert(flight_value == 0 || flight == asked && OUTDATED || flight_value > flight_floor);
  lease = false;
  EndFlight()
}

inline LoadAway() {
  flight = loading;
  leased = false;
  again = false;
  least = 0;
  flight_value = 0;
  flight_position = 0;
  flight_age = 0
}

// The answer is on its way, or the tier is away.
inline Ask() {
  if
#ifdef ASKS_WHILE_QUEUED
  :: true ->
#else
  :: pending == 0 ->
#endif
     flight = asked;
     leased = false;
     again = false;
     least = 0;
     flight_value = value;
     flight_position = q;
     flight_age = 0;
     lease = (value == 0)
  :: true -> LoadAway()
  fi
}

inline StartFlight() {
  Ask();
  flight_floor = floor
}

proctype Callers() {
  byte floor;
end:
  do
  :: atomic {
       true ->
       floor = MAX(due, own_returned);
       floor = (TRUSTED -> MAX(floor, trusted_accepted) : floor);
       if
       :: HIT -> assert(first > floor)
       :: !HIT && flight == idle -> StartFlight()
       :: !HIT && flight != idle && JOINABLE -> flight_floor = MAX(flight_floor, floor)
       :: !HIT && flight != idle && !JOINABLE -> Detach(); StartFlight()
       fi;
       floor = 0
     }
  od
}

inline Publish(position, age) {
  assert(flight_value > flight_floor);
  first = flight_value;
  first_position = position;
  first_age = age;
  lease = false;
  EndFlight()
}

inline PublishAway() {
  if
  :: flight_age < M -> Publish(0, flight_age)
  :: else -> Detach()
  fi
}

proctype Flight() {
end:
  do
  // The answer comes.
  :: atomic {
       flight == asked ->
       if
       :: OUTDATED -> lease = false; Ask()
       :: !OUTDATED && flight_value != 0 -> Publish(flight_position, M)
       :: !OUTDATED && flight_value == 0 -> flight = loading; leased = true; least = 0; flight_age = 0
       fi
     }
  :: atomic { flight == asked -> lease = false; LoadAway() }
  // The load ends.
  :: atomic { flight == loading && flight_value == 0 -> flight_value = db + 1 }
  :: atomic {
       flight == loading && flight_value == 0 ->
#ifdef STALE_ON_ERROR
       assert(first == 0 || first > flight_floor);
#endif
       lease = false;
       EndFlight()
     }
  // The fill runs.
  :: atomic {
       flight == loading && flight_value != 0 && leased ->
       if
       :: lease -> assert(flight_value > accepted); value = flight_value; flight_position = q; flight = stored
       :: !lease -> flight = refused
       fi;
       lease = false
     }
  // Its answer comes, or not.
  :: atomic { flight == stored -> Publish(flight_position, M) }
  :: atomic { flight == refused -> Detach() }
  :: atomic { flight_value != 0 && flight != asked -> PublishAway() }
  od
}

inline OnReset() {
  DropFirst();
  if
  :: flight == idle
  :: flight == asked ->
#ifndef RESET_KEEPS_ASKS
     again = true
#endif
  :: else ->
#ifndef RESET_KEEPS_LOADS
     Detach()
#endif
  fi
}

#ifdef KEEPS_AWAY_LOADS
#define CONCERNED (leased && flight_position < position)
#else
#define CONCERNED (flight_position < position)
#endif

inline OnInvalidated(position) {
  if
  :: first != 0 && first_position < position -> DropFirst()
  :: else
  fi;
  if
  :: flight == idle
  :: flight == asked -> least = position
  :: else ->
#ifndef KEEPS_LOADS
     if
     :: CONCERNED -> Detach()
     :: else
     fi
#endif
  fi
}

inline EndBeat() {
  beat_q = 0;
  beat_age = 0;
  gap = false;
  beat_accepted = 0
}

#ifdef TRUST_PART
#define TRUST_IF true
#else
#define TRUST_IF (applied == beat_q)
#endif

inline Trust() {
  if
  :: TRUST_IF ->
#ifdef FROM_RECEIPT
     trust_age = 0;
#else
     trust_age = beat_age;
#endif
     trusted_accepted = (TRUSTED -> beat_accepted : 0)
  :: else
  fi
}

inline Apply() {
  if
  :: gap ->
     OnReset();
     applied = beat_q
  :: !gap && applied < beat_q ->
     applied++;
     OnInvalidated(applied)
  :: !gap && applied == beat_q
  fi
}

proctype Heartbeat() {
end:
  do
  :: atomic {
       beat_q == 0 ->
       beat_q = q;
#ifndef NO_RESET
       gap = (trimmed > applied);
#else
       applied = MAX(applied, trimmed);
#endif
       beat_accepted = accepted
     }
#ifdef TRUST_FIRST
  :: atomic { beat_q != 0 -> trust_age = beat_age; trusted_accepted = (TRUSTED -> beat_accepted : 0) }
     atomic { Apply(); EndBeat() }
#else
  :: atomic {
       beat_q != 0 ->
       Apply();
       Trust();
       EndBeat()
     }
#endif
  :: atomic { beat_q != 0 -> EndBeat() }  // Lost.
  od
}

inline Clear() {
  DropFirst();
  if
  :: flight == idle
  :: flight == asked ->
#ifndef KEEPS_ASKS
     again = true
#endif
  :: else -> Detach()
  fi
}

proctype Own() {
  byte version;
end:
  do
#ifdef FIRST_LEVEL_FIRST
  :: atomic { own == ready && owns < OWN -> owns++; db++; version = db; own = queued; Clear() }
  :: atomic { own == queued -> pending = version; own = cleared }
#else
  :: atomic { own == ready && owns < OWN -> owns++; db++; version = db; pending = version; own = queued }
  :: atomic { own == queued -> Clear(); own = cleared }
#endif
  :: atomic { own == cleared -> own_returned = version; version = 0; own = ready }  // Accepted or not.
  od
}

inline Invalidate(version) {
  q++;
  accepted = MAX(accepted, version);
  value = 0;
  lease = false
}

proctype Others() {
end:
  do
  :: atomic { others < OTHERS -> others++; db++; Invalidate(db) }
  :: atomic { pending != 0 -> Invalidate(pending); pending = 0 }
  :: atomic { value == 0 && !lease -> value = accepted + 1 }
  :: atomic { value == 0 && !lease && db > accepted -> value = db + 1 }
  :: atomic { lease -> lease = false }
  :: atomic { value != 0 -> value = 0 }
  :: atomic { trimmed < q -> trimmed = q }
  od
}

#define AGE(age) age = (age < M -> age + 1 : M)

proctype Time() {
end:
  do
  :: atomic {
#if M == 2
       due = due_next;
       due_next = accepted;
#else
       due = accepted;
#endif
       AGE(trust_age);
       trusted_accepted = (TRUSTED -> trusted_accepted : 0);
       if
       :: first != 0 && first_position == 0 ->
          AGE(first_age);
#ifndef AWAY_OUTLIVES
          if
          :: first_age == M -> DropFirst()
          :: else
          fi
#endif
       :: else
       fi;
       if
       :: flight != idle -> AGE(flight_age)
       :: else
       fi;
       if
       :: beat_q != 0 -> AGE(beat_age)
       :: else
       fi
     }
  od
}

init {
  atomic {
    run Callers();
    run Flight();
    run Heartbeat();
    run Own();
    run Others();
    run Time()
  }
}
